//! `sstable-dump from-json`: builds a table from the lines that `scan --json` printed.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::base::key::{Kind, MAX_SEQ, Trailer};
use firn_kv::internals::range_del::tombstone::{Fragment, Fragments, RangeTombstone};
use firn_kv::internals::sstable::{TableWriter, WriterOptions};
use firn_kv::{Compression, Error, FilterKind, Summary, SummaryPass};
use firn_tools::escape;
use firn_tools::io::{Input, is_taken, remove};
use firn_tools::output::{Done, Failure, bytes, things};
use serde_json::{Map, Value, json};

use crate::Screen;
use crate::store::target::{dir_of, env, table_number};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Each line is a JSON object: an optional first line {\"table\":…} with the table's options, then range deletions and entries in order, as
`scan --json` prints them. From the complete output of `scan --all-versions --json` it builds the same file, byte for byte. Only the
filter of a table with a filter prefix is missing, because only the program that wrote the table knows the prefix.
The new table gets the number in its file name; without one, the number in the first line.

Examples:
  sstable-dump scan 00000012.sst --all-versions --json | sstable-dump from-json - --out copy/00000012.sst
  echo '{\"key\":\"a\",\"seq\":1,\"kind\":\"put\",\"value\":\"x\"}' | sstable-dump from-json - --out 00000001.sst";

/// Maximum length of a line: the largest value and key in hexadecimal, and the text around them.
const MAX_LINE: u64 = 1 << 30;

/// Arguments of `from-json`.
#[derive(Args, Clone, Debug)]
pub struct FromJsonArgs {
    /// The lines; - for standard input
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Write the table to this new file
    #[arg(long, value_name = "TABLE")]
    pub out: PathBuf,
}

/// A summary hook that returns the summary of an existing table.
pub struct FixedSummary {
    /// Name of the hook.
    pub name: String,
    /// Bytes of the summary.
    pub bytes: Vec<u8>,
}

impl Summary for FixedSummary {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(FixedSummaryPass(self.bytes.clone()))
    }
}

struct FixedSummaryPass(Vec<u8>);

impl SummaryPass for FixedSummaryPass {
    fn add(&mut self, _: &[u8], _: Kind, _: &[u8]) {}

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0
    }
}

fn bytes_of(o: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, String> {
    if let Some(Value::String(s)) = o.get(name) {
        return Ok(Some(s.clone().into_bytes()));
    }
    let Some(hex) = o.get(&format!("{name}_hex")) else { return Ok(None) };
    let mut out = vec![];
    escape::decode_hex(hex.as_str().unwrap_or("no text").as_bytes(), &mut out)?;
    Ok(Some(out))
}

fn need(o: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    bytes_of(o, name)?.ok_or_else(|| format!("there is no field {name:?}"))
}

fn number(o: &Map<String, Value>, name: &str) -> Result<u64, String> {
    let n = o.get(name).and_then(Value::as_u64);
    n.ok_or_else(|| format!("the field {name:?} is no whole number"))
}

/// Returns the blob reference of an entry from its JSON fields.
fn reference(o: &Map<String, Value>) -> Result<Vec<u8>, String> {
    let place = o.get("blob").and_then(Value::as_object);
    let place = place.ok_or("there is no object `blob` with the position of the value")?;
    let small = |name: &str| {
        u32::try_from(number(place, name)?).map_err(|_| format!("the field {name:?} is too large"))
    };
    let r = BlobHandle {
        file: number(place, "file")?,
        number: small("number")?,
        offset: number(place, "offset")?,
        stored: small("stored")?,
        len: small("len")?,
    };
    let mut bytes = vec![];
    r.encode(&mut bytes);
    Ok(bytes)
}

/// Reads the table options of the first line.
fn options(
    o: &Map<String, Value>,
) -> Result<(WriterOptions, Option<u64>, Option<u64>, bool), String> {
    let text = |name: &str| o.get(name).and_then(Value::as_str).unwrap_or_default();
    let opt = |name: &str| o.get(name).and_then(Value::as_u64);
    let small = |name: &str, most: u64| match opt(name) {
        Some(n) if n > most => Err(format!("the field {name:?} is too large")),
        n => Ok(n.unwrap_or(0)),
    };
    let d = WriterOptions::default();
    let compression = match text("compression") {
        "" => Compression::default(),
        name => Compression::ALL
            .into_iter()
            .find(|c| c.name() == name && c.is_available())
            .ok_or_else(|| format!("the unknown compression {name:?}"))?,
    };
    let prefixed = !text("filter_prefix").is_empty();
    let bits =
        |name: &str| name.strip_prefix("fuse")?.parse().ok().filter(|b| (1..=16).contains(b));
    let (filter, filter_dropped) = match text("filter") {
        _ if prefixed => (FilterKind::None, 0),
        "none" => (FilterKind::None, 0),
        "" => (d.filter, d.filter_dropped),
        name => bits(name)
            .map(FilterKind::holding)
            .ok_or_else(|| format!("the unknown filter {name:?}"))?,
    };
    let summary = need(o, "summary").ok().filter(|s| !s.is_empty());
    let fixed = |name: Vec<u8>| {
        let mut bytes = vec![];
        escape::decode_hex(text("summary_hex").as_bytes(), &mut bytes)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        Ok::<_, String>(Arc::new(FixedSummary { name, bytes }) as Arc<dyn Summary>)
    };
    let options = WriterOptions {
        tree: small("tree", u32::MAX as u64)? as u32,
        tree_name: text("tree_name").to_owned(),
        log_end: opt("log_end").unwrap_or(0),
        log_writer: opt("log_writer").unwrap_or(0),
        level: small("level", u8::MAX as u64)? as u8,
        block_size: small("block_size", 1 << 20)
            .map(|n| if n == 0 { d.block_size } else { n as usize })?,
        compression,
        filter,
        filter_dropped,
        summary: summary.map(fixed).transpose()?,
        merge_operator: text("merge_operator").to_owned(),
        compaction_filter: text("compaction_filter").to_owned(),
        created_micros: opt("created_micros").unwrap_or(0),
        ..d
    };
    Ok((options, opt("id"), opt("oldest_tombstone_micros"), prefixed && text("filter") != "none"))
}

/// A table under construction.
struct JsonTableBuilder {
    out: PathBuf,
    options: Option<(WriterOptions, u64)>,
    oldest: Option<u64>,
    writer: Option<TableWriter>,
    deletions: Vec<Fragment>,
    unfiltered: bool,
}

impl JsonTableBuilder {
    fn writer(&mut self) -> Result<&mut TableWriter, Error> {
        match &mut self.writer {
            Some(w) => Ok(w),
            none => {
                let (options, id) = self.options.clone().unwrap_or_default();
                let name = self.out.file_name().and_then(|n| n.to_str()).unwrap_or_default();
                let id = table_number(name).unwrap_or(id);
                Ok(none.insert(TableWriter::new(env().create(&self.out)?, &self.out, id, options)))
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let o: Map<String, Value> =
            serde_json::from_slice(line).map_err(|e| format!("it is no JSON object: {e}"))?;
        if let Some(Value::Object(t)) = o.get("table") {
            if self.writer.is_some() || self.options.is_some() {
                return Err("the table's options must come first, and once".into());
            }
            let (options, id, oldest, unfiltered) = options(t)?;
            (self.options, self.oldest, self.unfiltered) =
                (Some((options, id.unwrap_or(0))), oldest, unfiltered);
            return Ok(());
        }
        if let Some(Value::Object(d)) = o.get("range_delete") {
            let (start, end) = (need(d, "start")?, need(d, "end")?);
            let seqs =
                d.get("seqs").and_then(Value::as_array).ok_or("the field \"seqs\" is no list")?;
            let seqs: Option<Vec<u64>> =
                seqs.iter().map(|s| s.as_u64().filter(|&s| s <= MAX_SEQ)).collect();
            self.deletions.push(Fragment {
                start,
                end,
                seqs: seqs.ok_or("a sequence number that is none")?,
            });
            return Ok(());
        }
        let kind = match o.get("kind").and_then(Value::as_str) {
            Some("put") | None => Kind::Put,
            Some("delete") => Kind::Delete,
            Some("merge") => Kind::Merge,
            Some("blob") => Kind::Blob,
            Some(other) => return Err(format!("the unknown kind {other:?}")),
        };
        let (key, seq) = (need(&o, "key")?, number(&o, "seq")?);
        if seq > MAX_SEQ {
            return Err("the sequence number is too large".into());
        }
        let value = match kind {
            Kind::Delete => vec![],
            Kind::Blob => reference(&o)?,
            Kind::Put | Kind::Merge => need(&o, "value")?,
        };
        let writer = self.writer().map_err(|e| e.to_string())?;
        writer.add(&key, Trailer::new(seq, kind), &value).map_err(|e| e.to_string())
    }
}

/// Runs `from-json`.
pub fn run(screen: &mut Screen<'_>, args: &FromJsonArgs) -> Done {
    refuse_existing(&args.out)?;
    let input = Input::open(&args.input).map_err(|e| Failure::file("open", &args.input, &e))?;
    let made = make(&args.out, BufReader::new(input));
    let (facts, unfiltered) = match made {
        Ok(made) => made,
        Err(e) => {
            // A partly written file is no table.
            let _ = remove(&args.out);
            return Err(e);
        }
    };
    if unfiltered {
        eprintln!(
            "note: written without a filter: the table's filter prefix is known to its program alone"
        );
    }
    if screen.json {
        writeln!(
            screen.out,
            "{}",
            json!({"file": args.out.display().to_string(), "id": facts.id, "entries": facts.entries, "size": facts.size})
        )?;
    } else {
        let entries = things(facts.entries, "entry", "entries");
        writeln!(
            screen.out,
            "{}: table {}, {entries}, {}",
            args.out.display(),
            facts.id,
            bytes(facts.size)
        )?;
    }
    Ok(())
}

/// Creates the directory of a new file.
///
/// # Errors
/// If the file exists.
pub fn refuse_existing(out: &Path) -> Done {
    if is_taken(out) {
        return Err(Failure::with_next(
            format!("{} is there already", out.display()),
            "name a new file with --out",
        ));
    }
    Ok(env().create_dir_all(&dir_of(out))?)
}

fn make(
    out: &Path,
    mut input: impl BufRead,
) -> Done<(firn_kv::internals::base::facts::TableFacts, bool)> {
    let mut m = JsonTableBuilder {
        out: out.to_path_buf(),
        options: None,
        oldest: None,
        writer: None,
        deletions: vec![],
        unfiltered: false,
    };
    let (mut line, mut n) = (vec![], 0u64);
    loop {
        line.clear();
        n += 1;
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        m.line(&line).map_err(|why| {
            Failure::with_next(format!("line {n}: {why}"), "nothing has been made")
        })?;
    }
    m.writer()?;
    let Some(mut w) = m.writer else { return Err(Failure::new("nothing to write")) };
    let tombstones = |f: &Fragment| {
        f.seqs
            .iter()
            .map(|&seq| RangeTombstone { start: f.start.clone(), end: f.end.clone(), seq })
            .collect()
    };
    // Keep fragments as they were in a table; input from other sources may overlap.
    let deletions = Fragments::from_sorted(m.deletions.clone());
    let deletions = deletions.unwrap_or_else(|| {
        Fragments::build(m.deletions.iter().flat_map::<Vec<_>, _>(tombstones).collect())
    });
    w.set_tombstones(&deletions, m.oldest);
    Ok((w.finish()?, m.unfiltered))
}
