//! `sstable-dump scan`: prints the entries of one table in order: the newest version of each key,
//! or all versions.
//!
//! With `--json` the first line has the options of the table; range deletions and entries follow.
//! With `--all-versions` the output is complete, and `from-json` builds the same file from it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::sstable::{Table, TableCursor};
use firn_tools::escape::{self, Show, encode};
use firn_tools::io::stdout_is_terminal;
use firn_tools::json::put_field;
use firn_tools::keys::{KeyRangeArg, RangeArgs};
use firn_tools::output::{Done, Failure, things};
use firn_wide_text::files::DescribedFile;
use firn_wide_text::json::{Dump, Times};
use serde_json::{Map, Value, json};

use crate::Screen;
use crate::dump::props::filter_name;
use crate::dump::text;
use crate::schema::typed::{self, Families, TypedLines};
use crate::store::blobs::{StoreBlobs, place_json};
use crate::store::names::FileNames;
use crate::store::target::{TargetKind, dir_of, env, kind, open_table};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Prints lines with key, sequence number, kind and value, separated by tabs; the table's range deletions follow. The value of an entry of
the kind `blob` is read from the blob file in the same directory; with --json its position is printed too. Without --all-versions only
the newest version of each key is printed, including deletes. Bytes that are not text are escaped as in `firn scan`.

Examples:
  sstable-dump scan firn-data/00000012.sst --limit 10
  sstable-dump scan 00000012.sst --prefix user: --all-versions
  sstable-dump scan 00000012.sst --reverse --limit 1
  sstable-dump scan 00000012.sst --all-versions --json > table.jsonl     from-json builds the same table from it

A table of a column family, in its store's directory, is printed in the family's types: row key, super column, column, timestamp, time
to live, value; with --json in the field `cell`. --bytes prints the stored bytes.

  sstable-dump scan 00000012.sst --sstabledump             in the format of Cassandra's sstabledump";

/// Arguments of `scan`.
#[derive(Args, Clone, Debug)]
pub struct DumpScanArgs {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
    #[command(flatten)]
    range: RangeArgs,
    /// Print every version of every key, not only the newest
    #[arg(long)]
    all_versions: bool,
    /// Scan from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Stop after this many entries
    #[arg(long, value_name = "ENTRIES")]
    limit: Option<u64>,
    /// Omit the values
    #[arg(long)]
    keys_only: bool,
    /// Read keys and print keys and values in hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print the stored bytes of a column family, undecoded
    #[arg(long)]
    bytes: bool,
    /// Print a column family as JSON in the format of Cassandra's sstabledump
    #[arg(long, conflicts_with_all = ["bytes", "hex", "keys_only", "all_versions", "reverse"])]
    sstabledump: bool,
    /// Print times as numbers instead of dates, with --sstabledump
    #[arg(long, requires = "sstabledump")]
    raw_times: bool,
}

/// Printer of entries.
struct ScanPrinter<'a, 'b> {
    screen: &'a mut Screen<'b>,
    show: Show,
    keys_only: bool,
    line: Vec<u8>,
    family: Option<DescribedFile>,
    lines: Option<TypedLines>,
    /// Blob files with the values that are outside the table.
    files: &'a StoreBlobs<'a>,
}

impl ScanPrinter<'_, '_> {
    /// Prints an entry. A value in a blob file is read from there, and its position is printed.
    fn entry(&mut self, key: &[u8], t: Trailer, value: &[u8]) -> Done {
        let blob = BlobHandle::decode(value).filter(|_| t.kind() == Some(Kind::Blob));
        let (kind, has_value) = (text::kind(t), !self.keys_only && t.kind() != Some(Kind::Delete));
        if let Some(lines) = self.lines.as_mut().filter(|_| blob.is_none()) {
            lines.entry(key, has_value.then_some(value), t.seq(), kind);
            return if lines.is_full() { lines.flush(self.screen.out) } else { Ok(()) };
        }
        let value = (!self.keys_only).then(|| match blob {
            Some(_) => self.files.find(key, value).map(|v| Cow::Owned(v.bytes)),
            None => Ok(Cow::Borrowed(value)),
        });
        self.line.clear();
        if self.screen.json {
            let (mut object, hex) = (Map::new(), self.show == Show::Hex);
            put_field(&mut object, "key", key, hex);
            object.insert("seq".into(), t.seq().into());
            object.insert("kind".into(), kind.into());
            object.extend(blob.map(|r| ("blob".into(), place_json(&r))));
            match value {
                Some(Ok(v)) if has_value => {
                    put_field(&mut object, "value", &v, hex);
                    let family = self.family.as_ref().filter(|_| blob.is_none());
                    let typed = family.and_then(|f| Some((f, f.typed(key, &v).ok()?)));
                    object.extend(typed.map(|(f, t)| ("cell".into(), typed::cell_json(f, &t))));
                }
                Some(Err(e)) => drop(object.insert("error".into(), e.to_string().into())),
                _ => {}
            }
            self.line.extend(Value::Object(object).to_string().into_bytes());
        } else {
            encode(key, self.show, &mut self.line);
            self.line.extend(format!("\t{}\t{kind}", t.seq()).into_bytes());
            match (value, blob) {
                (Some(Ok(v)), _) => {
                    self.line.push(b'\t');
                    encode(&v, self.show, &mut self.line);
                }
                (Some(Err(e)), Some(r)) => {
                    let words =
                        format!("\t(blob file {}, offset {}: {})", r.file, r.offset, e.message());
                    self.line.extend(words.into_bytes());
                }
                _ => {}
            }
        }
        self.end_line()
    }

    fn end_line(&mut self) -> Done {
        self.line.push(b'\n');
        Ok(self.screen.out.write_all(&self.line)?)
    }

    fn range_delete(&mut self, start: &[u8], end: &[u8], seqs: &[u64]) -> Done {
        self.line.clear();
        if self.screen.json {
            let hex = self.show == Show::Hex;
            let mut object = Map::new();
            put_field(&mut object, "start", start, hex);
            put_field(&mut object, "end", end, hex);
            object.insert("seqs".into(), seqs.into());
            self.line.extend(json!({"range_delete": object}).to_string().into_bytes());
        } else {
            match self.family.as_ref().and_then(|f| f.key_words(start)) {
                Some(words) => encode(words.as_bytes(), Show::Terminal, &mut self.line),
                None => encode(start, self.show, &mut self.line),
            }
            let seqs: Vec<String> = seqs.iter().map(u64::to_string).collect();
            self.line.extend(format!("\t{}\tdelete range up to\t", seqs.join(",")).into_bytes());
            encode(end, self.show, &mut self.line);
        }
        self.end_line()
    }
}

/// Returns the options of a table that a writer needs.
fn header(t: &Table) -> Value {
    let p = t.properties();
    json!({"table": {
        "id": t.id(), "tree": p.tree, "tree_name": p.tree_name, "log_end": p.log_end, "log_writer": p.log_writer, "level": p.level, "block_size": p.block_size, "compression": p.compression.name(),
        "filter": filter_name(p.filter_bits()), "created_micros": p.created_micros, "oldest_tombstone_micros": p.oldest_tombstone_micros,
        "filter_prefix": p.filter_prefix, "merge_operator": p.merge_operator, "compaction_filter": p.compaction_filter, "summary": p.summary,
        "summary_hex": escape::hex(&p.summary_bytes),
    }})
}

/// Moves to the first entry of the range, in the direction of the scan.
fn start(c: &mut TableCursor, range: &KeyRangeArg, reverse: bool) -> firn_kv::Result<()> {
    match (reverse, &range.to) {
        (true, Some(to)) => c.seek_before(to),
        (true, None) => c.last(),
        (false, _) => c.seek(&range.from, Trailer::NEWEST),
    }
}

/// Callback for entries; the scan continues while it returns true.
type ScanVisit<'a> = dyn FnMut(&[u8], Trailer, &[u8]) -> Done<bool> + 'a;

/// Calls `f` for the entries of a range until it returns false.
fn each(
    t: &Arc<Table>,
    range: &KeyRangeArg,
    reverse: bool,
    all: bool,
    f: &mut ScanVisit<'_>,
) -> Done {
    let inside =
        |k: &[u8]| range.from.as_slice() <= k && range.to.as_deref().is_none_or(|to| k < to);
    let mut c = t.cursor(false);
    start(&mut c, range, reverse)?;
    // The newest version of a key comes first in a forward scan, and last in a reverse scan.
    let mut pending: Option<(Vec<u8>, Trailer, Vec<u8>)> = None;
    while c.valid() && inside(c.key()) {
        let again = pending.as_ref().is_some_and(|h| h.0 == c.key());
        match (all, reverse) {
            (true, _) => {
                if !f(c.key(), c.trailer(), c.value())? {
                    return Ok(());
                }
            }
            (false, false) => {
                if !again {
                    if !f(c.key(), c.trailer(), c.value())? {
                        return Ok(());
                    }
                    pending = Some((c.key().to_vec(), c.trailer(), vec![]));
                }
            }
            (false, true) => {
                if let Some((k, t, v)) = pending.take_if(|_| !again)
                    && !f(&k, t, &v)?
                {
                    return Ok(());
                }
                pending = Some((c.key().to_vec(), c.trailer(), c.value().to_vec()));
            }
        }
        if reverse { c.prev()? } else { c.next()? }
    }
    if let (false, true, Some((k, t, v))) = (all, reverse, pending) {
        f(&k, t, &v)?;
    }
    Ok(())
}

/// Prints a family's table in the format of sstabledump. Omits entries that cannot be decoded.
fn dump(
    screen: &mut Screen<'_>,
    args: &DumpScanArgs,
    t: &Arc<Table>,
    range: &KeyRangeArg,
    family: Option<DescribedFile>,
) -> Done {
    let Some(family) = family else {
        return Err(Failure::with_next(
            "this is no table of a column family, or its store's schema is not beside it",
            "leave out --sstabledump to see its bytes",
        ));
    };
    let layout = family.layout.clone();
    let times = if args.raw_times { Times::Raw } else { Times::Dates };
    let now = env().wall_micros() as i64 / 1_000_000;
    let mut dump = Dump::new(family, times, now, &mut *screen.out);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut skipped = 0u64;
    let failed = |e: firn_wide_text::json::JsonFailure| match e {
        firn_wide_text::json::JsonFailure::Io(e) => Failure::from(e),
        other => Failure::new(other.to_string()),
    };
    each(t, range, false, false, &mut |k, trailer, v| {
        if left == 0 {
            return Ok(false);
        }
        if text::kind(trailer) != "delete" {
            match firn_wide_text::files::read_entry(&layout, k, v) {
                Ok(e) => dump.entry(e.partition, &e.key, &e.place, &e.body).map_err(failed)?,
                Err(_) => skipped += 1,
            }
            left -= 1;
        }
        Ok(true)
    })?;
    dump.finish()?;
    if skipped > 0 {
        eprintln!(
            "note: {} left out, which are no cells or deletions; --bytes shows them",
            things(skipped, "entry", "entries")
        );
    }
    Ok(())
}

/// Runs `scan`.
pub fn run(screen: &mut Screen<'_>, args: &DumpScanArgs) -> Done {
    let range = args.range.range(args.hex)?;
    match kind(&args.table)? {
        TargetKind::Table(_) => {}
        TargetKind::Wal(_) => {
            return Err(Failure::with_next(
                "this is a log segment",
                "`sstable-dump wal FILE --ops` prints its operations",
            ));
        }
        TargetKind::Manifest(_) => {
            return Err(Failure::with_next(
                "this is a manifest",
                "`sstable-dump manifest FILE` prints it",
            ));
        }
        TargetKind::Store => {
            return Err(Failure::with_next(
                "this is a store",
                "name one of its tables, or read it with `firn --db DIR scan`",
            ));
        }
    }
    let t = open_table(&args.table)?;
    let family =
        if args.bytes || args.hex { None } else { Families::of_table(&args.table, t.properties()) };
    if args.sstabledump {
        return dump(screen, args, &t, &range, family);
    }
    let show = match (args.hex, stdout_is_terminal() || screen.json) {
        (true, _) => Show::Hex,
        (false, true) => Show::Terminal,
        (false, false) => Show::Plain,
    };
    if screen.json {
        writeln!(screen.out, "{}", header(&t))?;
    }
    let lines = if screen.json { None } else { family.clone().map(TypedLines::new) };
    let dir = dir_of(&args.table);
    let names = FileNames::with_present_names(&dir);
    let files = &StoreBlobs::of(&names);
    let keys_only = args.keys_only;
    let mut printer = ScanPrinter { screen, show, keys_only, line: vec![], family, lines, files };
    let overlaps = |start: &[u8], end: &[u8]| {
        end > range.from.as_slice() && range.to.as_deref().is_none_or(|to| start < to)
    };
    let fragments: Vec<_> =
        t.tombstones().as_slice().iter().filter(|f| overlaps(&f.start, &f.end)).collect();
    if printer.screen.json {
        fragments.iter().try_for_each(|f| printer.range_delete(&f.start, &f.end, &f.seqs))?;
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left > 0 {
        each(&t, &range, args.reverse, args.all_versions, &mut |k, t, v| {
            printer.entry(k, t, v)?;
            left -= 1;
            Ok(left > 0)
        })?;
    }
    if let Some(mut lines) = printer.lines.take() {
        lines.flush(printer.screen.out)?;
    }
    if !printer.screen.json {
        fragments.iter().try_for_each(|f| printer.range_delete(&f.start, &f.end, &f.seqs))?;
    }
    Ok(())
}
