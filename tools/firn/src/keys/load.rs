//! `firn load`: loads records from a file or a pipe into a tree, in atomic chunks.
//!
//! Invariant: a chunk is one batch. After a crash, a bad line, Ctrl-C or a full disk the store has
//! whole chunks, a prefix of the input.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, ValueEnum};
use firn_kv::{Batch, Db, Durability, ErrorKind, Tree, TreeOptions};
use serde_json::json;

use crate::keys::load_rows::{self, RowArgs};
use crate::shell::interrupt;
use crate::store::{DEFAULT_TREE, Global};
use firn_tools::io::{Input, Stopwatch};
use firn_tools::options::Durable;
use firn_tools::output::{self, Done, Failure, Progress, things};
use firn_transfer::text::{Choice, Coding, Format, Record, RecordTrouble, RecordValues, Records};

/// Bytes after which a chunk ends early.
const CHUNK_BYTES: usize = 16 << 20;
/// Maximum number of bad lines that are shown.
const SHOWN: usize = 20;

pub const EXAMPLES: &str = "\
A TSV line is a key, a tab and a value. In both, \\t, \\n, \\r and \\\\ mean tab, line feed, carriage return and backslash, and \\xNN
any byte. `firn scan` writes the same format, so a load followed by a scan returns the same bytes. A carriage return at the end of a line
belongs to the line end.

Examples:
  firn load fruit.tsv                              key = first column, value = rest of the line
  firn load people.csv --key email                 value = a JSON object of the other columns
  firn load people.csv --key email --value name    value = that column
  firn load events.jsonl --key id                  value = the whole line
  zcat dump.tsv.gz | firn load - --tree old        from a pipe, into the tree \"old\"
  firn load big.tsv --bad skip --chunk 10000       report bad lines and continue
  firn scan | firn --db copy load -                a copy of a tree

With --keyspace and --family each record becomes a row, with a column for each field except the key. The key is the first column of TSV
and CSV, the field `key` of JSON, and `Package` of deb822, unless --key names another. Empty fields of TSV and CSV create no column. If
two records have the same key, the columns of the later one replace those of the earlier one; with --super both remain.

  firn load people.csv --keyspace Shop --family people --key email --index city
  apt-cache dumpavail | firn load - --format deb822 --keyspace Debian --family packages --index Section
  apt-cache dumpavail | firn load - --format deb822 --keyspace Debian --family versions --super Version";

/// Arguments of `firn load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Load this file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read this format [default: by the file's extension; tsv for standard input]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Load into this tree, which is created if it does not exist
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TREE)]
    tree: String,
    /// Take the key from this column, by name or number (from 1), or JSON field [default: 1; key]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// Take the value from this column or field [default: all others]
    #[arg(long, value_name = "COLUMN", conflicts_with = "value_columns")]
    value: Option<String>,
    /// Take the value from several columns or fields: joined by tabs from TSV, as a JSON object
    /// from CSV and JSON
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    value_columns: Option<Vec<String>>,
    /// Set whether the first line names the columns [default: yes for csv, no for tsv]
    #[arg(long, value_enum, value_name = "YES|NO")]
    header: Option<YesNo>,
    /// Take TSV columns without decoding escapes
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
    /// Read keys and values as hexadecimal
    #[arg(long)]
    hex: bool,
    /// Write this many records atomically at once (fewer if they exceed 16 MiB)
    #[arg(long, value_name = "RECORDS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    chunk: u32,
    /// Select the reaction to a bad line
    #[arg(long, value_enum, default_value = "stop")]
    bad: OnBad,
    /// Select the durability of each chunk before the next: in the operating system, or on the
    /// device
    #[arg(long, value_enum, default_value = "process")]
    durability: Durable,
    #[command(flatten)]
    rows: RowArgs,
}

impl LoadArgs {
    /// Returns the column of the key, if it was named.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Reports whether TSV escapes are taken literally.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Returns the number of records in a chunk.
    pub fn chunk(&self) -> usize {
        self.chunk as usize
    }

    /// Returns the durability of chunks.
    pub fn durability(&self) -> Durability {
        self.durability.into()
    }

    /// Returns the options for loading rows.
    pub fn rows(&self) -> &RowArgs {
        &self.rows
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum YesNo {
    /// The first line contains names
    Yes,
    /// The first line is a record
    No,
}

/// Reaction to a bad line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBad {
    /// End with its line number; whole chunks before it are loaded
    Stop,
    /// Report it, count it and continue: skipped lines are no failure
    Skip,
}

/// Reason why a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadEnd {
    /// Everything is loaded.
    Complete,
    /// A bad line.
    BadLine,
    /// Ctrl-C.
    Interrupted,
}

/// Records and skipped lines so far.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Line of the last loaded record.
    last_line: u64,
    /// Number of skipped bad lines.
    skipped: u64,
    bad: Vec<(u64, String)>,
}

/// Result of reading one record.
pub enum RecordRead {
    /// It is in the current chunk. `is_full`: the chunk has reached its size.
    Added { line: u64, is_full: bool },
    /// The line cannot be loaded.
    Bad { line: u64, why: String },
    /// End of the input.
    End,
}

/// Destination of the records of a file.
pub trait LoadTarget {
    /// Reads the next record and adds it to the current chunk.
    ///
    /// # Errors
    /// The file is unreadable, or the store has failed.
    fn next_record(&mut self) -> Done<RecordRead>;

    /// Writes the current chunk. Returns the progress so far in words.
    ///
    /// # Errors
    /// The store has failed.
    fn write_chunk(&mut self) -> Done<String>;
}

/// Loads all records. A bad line stops it unless such lines are skipped; Ctrl-C stops it after a
/// chunk.
pub fn load_all(
    target: &mut impl LoadTarget,
    args: &LoadArgs,
    progress: &LoadProgress,
    loaded: &mut Loaded,
) -> Done<LoadEnd> {
    let mut last_line = 0;
    interrupt::watch_first()?;
    loop {
        match target.next_record()? {
            RecordRead::Added { line, is_full } => {
                last_line = line;
                if is_full {
                    progress.show(target.write_chunk()?);
                    loaded.last_line = last_line;
                    if interrupt::is_set() {
                        return Ok(LoadEnd::Interrupted);
                    }
                }
            }
            RecordRead::End => {
                progress.show(target.write_chunk()?);
                loaded.last_line = last_line;
                return Ok(LoadEnd::Complete);
            }
            RecordRead::Bad { line, why } => {
                if args.bad == OnBad::Skip {
                    loaded.skipped += 1;
                    if loaded.skipped <= SHOWN as u64 {
                        progress.bar.line(&format!("line {line}: {why}"));
                    }
                }
                if loaded.bad.len() < SHOWN {
                    loaded.bad.push((line, why));
                }
                if args.bad == OnBad::Stop {
                    return Ok(LoadEnd::BadLine);
                }
            }
        }
    }
}

/// Progress bar of a load.
pub struct LoadProgress {
    bar: Progress,
    read: Rc<Cell<u64>>,
}

impl LoadProgress {
    fn show(&self, words: String) {
        self.bar.at(self.read.get());
        self.bar.say(words);
    }
}

/// Opens the file of a load, and its progress bar.
pub fn open_input(args: &LoadArgs) -> Done<(Input, LoadProgress)> {
    let input = Input::open(&args.file).map_err(|e| Failure::file("open", &args.file, &e))?;
    let progress = LoadProgress { bar: Progress::bytes("load", input.len), read: input.counter() };
    Ok((input, progress))
}

impl Loaded {
    /// Prints the result: as JSON with these further fields, and in words that begin with `what`.
    /// Returns the result of the command.
    pub fn report(
        &self,
        global: &Global,
        args: &LoadArgs,
        end: LoadEnd,
        fields: &[(&str, serde_json::Value)],
        what: &str,
    ) -> Done {
        let bad: Vec<_> =
            self.bad.iter().map(|(line, why)| json!({"line": line, "why": why})).collect();
        let mut all = json!({
            "last_line": self.last_line, "skipped": self.skipped, "bad": bad,
            "complete": end == LoadEnd::Complete,
        });
        fields.iter().for_each(|(name, value)| all[*name] = value.clone());
        global.print_json(all)?;
        let file = args.file.display();
        let stopping = self.bad.last().filter(|_| end == LoadEnd::BadLine);
        if let Some((line, why)) = stopping {
            eprintln!("{} {file}, line {line}: {why}", global.style().error("error:"));
        }
        eprintln!("{what}");
        if self.skipped > 0 {
            let first = self
                .bad
                .first()
                .map_or(String::new(), |(line, why)| format!("; the first is line {line}: {why}"));
            eprintln!("skipped {}{first}", things(self.skipped, "bad line", "bad lines"));
        }
        let next = match end {
            LoadEnd::Complete => return Ok(()),
            LoadEnd::BadLine => {
                "correct the line and load the file again (it does no harm to load a line twice), or use --bad skip"
            }
            LoadEnd::Interrupted => "load the file again (it does no harm to load a line twice)",
        };
        let until = match self.last_line {
            0 => "nothing is loaded".to_owned(),
            n => format!("the load ends after line {n}, at the end of a chunk"),
        };
        eprintln!("{} {until}; {next}", global.style().bold(" next:"));
        Err(if end == LoadEnd::BadLine { Failure::Found } else { Failure::Interrupted })
    }
}

fn format_of(args: &LoadArgs) -> Done<Format> {
    if let Some(f) = args.format {
        return Ok(f);
    }
    if args.file == std::path::Path::new("-") {
        return Ok(Format::Tsv);
    }
    let extension = args.file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    Format::of_extension(extension).ok_or_else(|| {
        let name = args.file.display();
        let inner = args.file.file_stem().map(std::path::Path::new);
        let inner = inner.and_then(|f| f.extension()?.to_str());
        let format = match inner.and_then(Format::of_extension) {
            Some(Format::Csv) => "csv",
            Some(Format::Json) => "json",
            Some(Format::Deb822) => "deb822",
            Some(Format::Tsv) | None => "tsv",
        };
        let unpack = |with: &str| {
            format!("unpack it on the way: {with} {name} | firn load --format {format} -")
        };
        let next = match extension {
            "gz" => unpack("zcat"),
            "zst" => unpack("zstdcat"),
            "xz" => unpack("xzcat"),
            _ => "name the format: --format tsv, csv, json or deb822".to_owned(),
        };
        Failure::with_next(format!("unknown format of {name}"), next)
    })
}

fn has_header(args: &LoadArgs, format: Format) -> bool {
    args.header.map_or(format == Format::Csv, |h| h == YesNo::Yes)
}

fn choice_of(args: &LoadArgs, format: Format) -> Choice {
    let value = match (&args.value, &args.value_columns) {
        (Some(one), _) => RecordValues::One(one.clone()),
        (None, Some(many)) => RecordValues::Many(many.clone()),
        (None, None) => RecordValues::Rest,
    };
    let coding = match (args.hex, args.raw) {
        (true, _) => Coding::Hex,
        (false, true) => Coding::Raw,
        (false, false) => Coding::Text,
    };
    let header = has_header(args, format);
    Choice { key: args.key.clone(), value, header, coding }
}

/// Runs `firn load`.
pub fn run(global: &Global, args: &LoadArgs) -> Done {
    let format = format_of(args)?;
    if let Some(target) = args.rows.target() {
        if args.hex || args.value.is_some() || args.value_columns.is_some() {
            return Err(Failure::new(
                "--hex, --value and --value-columns work only with trees; in a family every field becomes a column",
            ));
        }
        return load_rows::run(global, args, target, format, has_header(args, format));
    }
    // Opens the input first: a mistyped name must not create a store.
    let (input, progress) = open_input(args)?;
    let size = input.len.unwrap_or(8 << 20);
    let records =
        Records::new(input, format, choice_of(args, format)).map_err(|t| head_failure(t, args))?;
    global.check_own_tree(&global.path_to_tree(&args.tree))?;
    let db = global.open_to_write(true, size)?;
    let tree = match db.tree_names().contains(&args.tree) {
        true => db.existing_tree(&args.tree)?,
        false => db.tree(&args.tree, TreeOptions::default())?,
    };
    let mut target = PairTarget {
        args,
        records,
        record: Record::default(),
        db,
        tree,
        batch: Batch::new(),
        batch_bytes: 0,
        written: 0,
        bytes: 0,
        watch: Stopwatch::start(),
    };
    let mut loaded = Loaded::default();
    let end = load_all(&mut target, args, &progress, &mut loaded);
    drop(progress);
    let PairTarget { tree, written, bytes, watch, .. } = target;
    let seconds = watch.seconds();
    let end = end?;
    // The next open need not replay the log.
    tree.flush()?;
    let what = format!(
        "loaded {} ({}) into the tree {:?} of {} in {seconds:.2} s, {}/s",
        things(written, "record", "records"),
        output::bytes(bytes),
        args.tree,
        global.store.db.display(),
        output::rate(written as f64 / seconds.max(1e-9)),
    );
    let fields = [("loaded", json!(written)), ("bytes", json!(bytes)), ("seconds", json!(seconds))];
    loaded.report(global, args, end, &fields, &what)
}

/// A tree of keys and values.
struct PairTarget<'a> {
    args: &'a LoadArgs,
    records: Records<Input>,
    record: Record,
    db: Db,
    tree: Tree,
    batch: Batch,
    batch_bytes: u64,
    /// Records and bytes in the tree.
    written: u64,
    bytes: u64,
    watch: Stopwatch,
}

impl LoadTarget for PairTarget<'_> {
    fn next_record(&mut self) -> Done<RecordRead> {
        let Record { key, value, line } = match self.records.next(&mut self.record) {
            Ok(true) => &self.record,
            Ok(false) => return Ok(RecordRead::End),
            Err(trouble) => return bad_line(trouble, self.args),
        };
        match self.batch.put(&self.tree, key, value) {
            Ok(()) => {
                self.batch_bytes += (key.len() + value.len()) as u64;
                let is_full =
                    self.batch.len() >= self.args.chunk() || self.batch.size() >= CHUNK_BYTES;
                Ok(RecordRead::Added { line: *line, is_full })
            }
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {
                Ok(RecordRead::Bad { line: *line, why: e.message().to_owned() })
            }
            Err(e) => Err(e.into()),
        }
    }

    fn write_chunk(&mut self) -> Done<String> {
        let batch = std::mem::take(&mut self.batch);
        let records = batch.len() as u64;
        if records > 0 {
            self.db.with_durability(self.args.durability()).write(batch)?;
            self.written += records;
            self.bytes += std::mem::take(&mut self.batch_bytes);
        }
        let rate = self.written as f64 / self.watch.seconds().max(1e-9);
        let written = things(self.written, "record", "records");
        Ok(format!("{written} at {}/s", output::rate(rate)))
    }
}

/// Returns the failure for trouble with the head of the file.
pub fn head_failure(trouble: RecordTrouble, args: &LoadArgs) -> Failure {
    match trouble {
        RecordTrouble::Bad { line, why } => {
            Failure::new(format!("{}, line {line}: {why}", args.file.display()))
        }
        RecordTrouble::Io(e) => Failure::file("read", &args.file, &e),
    }
}

/// Returns the bad line.
///
/// # Errors
/// The file is unreadable.
pub fn bad_line(trouble: RecordTrouble, args: &LoadArgs) -> Done<RecordRead> {
    match trouble {
        RecordTrouble::Bad { line, why } => Ok(RecordRead::Bad { line, why }),
        RecordTrouble::Io(e) => Err(Failure::file("read", &args.file, &e)),
    }
}
