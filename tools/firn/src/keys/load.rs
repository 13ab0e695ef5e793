//! `firn load`: loads records from a file or a pipe into a tree, in atomic chunks.
//!
//! Invariant: a chunk is one batch. After a crash, a bad line or a full disk the store has whole
//! chunks, a prefix of the input.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::{Args, ValueEnum};
use firn_kv::{Batch, Db, Durability, ErrorKind, Tree, TreeOptions};
use serde_json::json;

use crate::keys::load_rows::{self, RowArgs};
use crate::keys::record::{Choice, Coding, Format, Record, RecordTrouble, RecordValues, Records};
use crate::store::{DEFAULT_TREE, Global};
use firn_tools::io::{self, Input, Stopwatch};
use firn_tools::options::Durable;
use firn_tools::output::{self, Done, Failure, Progress, things};

/// Bytes after which a chunk ends early.
const CHUNK_BYTES: usize = 16 << 20;
/// Maximum number of bad lines that are shown.
pub const SHOWN: usize = 20;

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
    /// Returns the file to load.
    pub fn file(&self) -> &Path {
        &self.file
    }

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

    /// Returns the reaction to a bad line.
    pub fn on_bad(&self) -> OnBad {
        self.bad
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
enum YesNo {
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

/// Result of the load.
#[derive(Debug, Default)]
pub struct Loaded {
    records: u64,
    bytes: u64,
    /// Line of the last loaded record.
    pub last_line: u64,
    /// Number of skipped bad lines.
    pub skipped: u64,
    bad: Vec<(u64, String)>,
}

impl Loaded {
    /// Records a bad line.
    pub fn bad(&mut self, line: u64, why: String) {
        if self.bad.len() < SHOWN {
            self.bad.push((line, why));
        }
    }

    /// Returns the report as JSON.
    pub fn json(&self, seconds: f64, complete: bool) -> serde_json::Value {
        let bad: Vec<_> =
            self.bad.iter().map(|(line, why)| json!({"line": line, "why": why})).collect();
        json!({
            "loaded": self.records, "bytes": self.bytes, "last_line": self.last_line, "skipped": self.skipped,
            "bad": bad, "seconds": seconds, "complete": complete,
        })
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
    let header = args.header.map_or(format == Format::Csv, |h| h == YesNo::Yes);
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
        let header = args.header.map_or(format == Format::Csv, |h| h == YesNo::Yes);
        return load_rows::run(global, args, target, format, header);
    }
    // Opens the input first: a mistyped name must not create a store.
    let input = Input::open(&args.file).map_err(|e| Failure::file("open", &args.file, &e))?;
    let progress = Progress::bytes("load", input.len);
    let read = input.counter();
    let size = input.len.unwrap_or(8 << 20);
    let records = Records::new(input, format, choice_of(args, format)).map_err(|t| match t {
        RecordTrouble::Bad { line, why } => {
            Failure::new(format!("{}, line {line}: {why}", args.file.display()))
        }
        RecordTrouble::Io(e) => Failure::file("read", &args.file, &e),
    })?;
    global.check_own_tree(&global.path_to_tree(&args.tree))?;
    let db = global.open_to_write(true, size)?;
    let tree = match db.tree_names().contains(&args.tree) {
        true => db.existing_tree(&args.tree)?,
        false => db.tree(&args.tree, TreeOptions::default())?,
    };
    let watch = Stopwatch::start();
    let mut loading = PairLoading {
        args,
        db,
        tree,
        batch: Batch::new(),
        lines: 0,
        loaded: Loaded::default(),
        progress,
        read,
        watch,
    };
    let done = loading.take(records);
    let PairLoading { loaded, progress, .. } = loading;
    drop(progress);
    let complete = matches!(done, Ok(true));
    report(global, args, &loaded, watch.seconds(), complete)?;
    match done? {
        true => Ok(()),
        false => Err(Failure::Found),
    }
}

struct PairLoading<'a> {
    args: &'a LoadArgs,
    db: Db,
    tree: Tree,
    batch: Batch,
    /// Line of the last record in the batch.
    lines: u64,
    loaded: Loaded,
    progress: Progress,
    read: Rc<Cell<u64>>,
    watch: Stopwatch,
}

impl PairLoading<'_> {
    /// Loads all records; returns `false` if a bad line stopped it.
    fn take(&mut self, mut records: Records<Input>) -> Done<bool> {
        let mut record = Record::default();
        let mut bytes = 0;
        loop {
            let (line, why) = match records.next(&mut record) {
                Ok(false) => {
                    self.write(bytes)?;
                    // The next open need not replay the log.
                    self.tree.flush()?;
                    return Ok(true);
                }
                Ok(true) => match self.batch.put(&self.tree, &record.key, &record.value) {
                    Ok(()) => {
                        bytes += (record.key.len() + record.value.len()) as u64;
                        self.lines = record.line;
                        if self.batch.len() >= self.args.chunk as usize
                            || self.batch.size() >= CHUNK_BYTES
                        {
                            self.write(std::mem::take(&mut bytes))?;
                        }
                        continue;
                    }
                    Err(e) if e.kind() == ErrorKind::InvalidArgument => {
                        (record.line, e.message().to_owned())
                    }
                    Err(e) => return Err(e.into()),
                },
                Err(RecordTrouble::Bad { line, why }) => (line, why),
                Err(RecordTrouble::Io(e)) => {
                    return Err(Failure::file("read", &self.args.file, &e));
                }
            };
            self.loaded.bad(line, why.clone());
            if self.args.bad == OnBad::Stop {
                return Ok(false);
            }
            self.loaded.skipped += 1;
            if self.loaded.skipped <= SHOWN as u64 {
                self.progress.line(&format!("line {line}: {why}"));
            }
        }
    }

    fn write(&mut self, bytes: u64) -> Done {
        let batch = std::mem::take(&mut self.batch);
        let records = batch.len() as u64;
        if records == 0 {
            return Ok(());
        }
        self.db.with(self.args.durability.into()).write(batch)?;
        self.loaded.records += records;
        self.loaded.bytes += bytes;
        self.loaded.last_line = self.lines;
        self.progress.at(self.read.get());
        let rate = self.loaded.records as f64 / self.watch.seconds().max(1e-9);
        self.progress.say(format!(
            "{} at {}/s",
            things(self.loaded.records, "record", "records"),
            output::rate(rate)
        ));
        Ok(())
    }
}

fn report(global: &Global, args: &LoadArgs, loaded: &Loaded, seconds: f64, complete: bool) -> Done {
    if global.store.json {
        writeln!(io::stdout(), "{}", loaded.json(seconds, complete))?;
    }
    report_bad_line(global, args, loaded, complete);
    let rate = loaded.records as f64 / seconds.max(1e-9);
    eprintln!(
        "loaded {} ({}) into the tree {:?} of {} in {seconds:.2} s, {}/s",
        things(loaded.records, "record", "records"),
        output::bytes(loaded.bytes),
        args.tree,
        global.store.db.display(),
        output::rate(rate),
    );
    report_rest(global, loaded, complete);
    Ok(())
}

/// Reports the bad line that stopped the load.
pub fn report_bad_line(global: &Global, args: &LoadArgs, loaded: &Loaded, complete: bool) {
    if let (false, Some((line, why))) = (loaded.skipped > 0 || complete, loaded.bad.last()) {
        eprintln!("{} {}, line {line}: {why}", global.style().error("error:"), args.file.display());
    }
}

/// Reports skipped lines, or advice about the bad line.
pub fn report_rest(global: &Global, loaded: &Loaded, complete: bool) {
    if loaded.skipped > 0 {
        let first = loaded
            .bad
            .first()
            .map_or(String::new(), |(line, why)| format!("; the first is line {line}: {why}"));
        eprintln!("skipped {}{first}", things(loaded.skipped, "bad line", "bad lines"));
    } else if !complete && !loaded.bad.is_empty() {
        let until = match loaded.last_line {
            0 => "nothing is loaded".to_owned(),
            n => format!("the load ends after line {n}, at the end of a chunk"),
        };
        let next = global.style().bold(" next:");
        eprintln!(
            "{next} {until}; correct the line and load the file again (it does no harm to load a line twice), or use --bad skip"
        );
    }
}
