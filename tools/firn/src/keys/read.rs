//! `firn get` and `firn scan`: both open the store for reading only, and stream.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firn_kv::{Error, ErrorKind, Tree, Value as Bytes};
use serde_json::{Map, Value};

use crate::store::Global;
use firn_tools::escape::{self, Show, encode};
use firn_tools::io::{stdout, stdout_is_terminal};
use firn_tools::json::put_field;
use firn_tools::keys::{self, RangeArgs};
use firn_tools::output::{Done, Failure};

pub const GET_EXAMPLES: &str = "\
For one key, prints its value and a line end; for several, lines of key, tab and value, escaped as by `firn scan`. A missing key is
reported on standard error, and the exit code is 1.

Examples:
  firn get apple
  firn get apple pear --tree fruit
  firn get photo --raw > photo.jpg       exactly the value's bytes
  firn get --hex 00ff01                  a key in hexadecimal
  firn get apple --json                  {\"key\":\"apple\",\"value\":\"red\"}";

/// Arguments of `firn get`.
#[derive(Args, Clone, Debug)]
pub struct GetArgs {
    /// Print the values of these keys, byte for byte
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Read this tree, or KEYSPACE.TABLE [default: the tree "default", or the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Print only the bytes of the values
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    /// Read keys, and print everything, in hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Runs `firn get`.
pub fn get(global: &Global, args: &GetArgs) -> Done {
    let db = global.open_to_read()?;
    let tree = global.tree(&db, args.tree.as_deref())?;
    let keys = args.keys.iter().map(|k| keys::key(k, args.hex)).collect::<Done<Vec<_>>>()?;
    let show = show(args.hex);
    let mut out = stdout();
    let mut line = vec![];
    let mut missing = 0;
    for key in &keys {
        let value = tree.get(key).map_err(|e| global.of_families(e.into(), tree.name()))?;
        line.clear();
        match &value {
            _ if global.store.json => {
                let mut object = Map::new();
                put_field(&mut object, "key", key, args.hex);
                match &value {
                    Some(v) => put_field(&mut object, "value", v, args.hex),
                    None => drop(object.insert("value".into(), Value::Null)),
                }
                line.extend(Value::Object(object).to_string().into_bytes());
                line.push(b'\n');
            }
            None => {}
            Some(v) if args.raw => line.extend_from_slice(v),
            Some(v) if keys.len() == 1 && !args.hex => {
                line.extend_from_slice(v);
                line.push(b'\n');
            }
            Some(v) => {
                if keys.len() > 1 {
                    encode(key, show, &mut line);
                    line.push(b'\t');
                }
                encode(v, show, &mut line);
                line.push(b'\n');
            }
        }
        out.write_all(&line)?;
        if value.is_none() {
            missing += 1;
            eprintln!("not found: {}", escape::words(key));
        }
    }
    out.flush()?;
    if missing > 0 { Err(Failure::Found) } else { Ok(()) }
}

/// Selects the format of columns on standard output.
fn show(hex: bool) -> Show {
    match (hex, stdout_is_terminal()) {
        (true, _) => Show::Hex,
        (false, true) => Show::Terminal,
        (false, false) => Show::Plain,
    }
}

pub const SCAN_EXAMPLES: &str = "\
Prints lines of key, tab and value. In these, tab, line feed, carriage return and backslash are written \\t, \\n, \\r and \\\\ (on a
terminal also other control bytes, as \\xNN): `firn load` reads them back to the same bytes. JSON has a line
{\"key\":…,\"value\":…} per key; bytes that are not UTF-8 become \"key_hex\" or \"value_hex\".

Damage does not end the scan: it prints all readable entries, then the unreadable keys (exit code 1).

Examples:
  firn scan --limit 10
  firn scan --prefix user: --keys-only
  firn scan --from apple --to pear           pear itself is left out
  firn scan --reverse --limit 1              the last key
  firn scan --format json | gzip > all.jsonl.gz
  firn scan | firn --db copy load -          a copy of a tree";

/// Arguments of `firn scan`.
#[derive(Args, Clone, Debug)]
pub struct ScanArgs {
    #[command(flatten)]
    range: RangeArgs,
    /// Read this tree, or KEYSPACE.TABLE [default: the tree "default", or the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print at most this many keys
    #[arg(long, value_name = "KEYS")]
    limit: Option<u64>,
    /// Print keys without values
    #[arg(long)]
    keys_only: bool,
    /// Print this format [default: tsv, or json with --json]
    #[arg(long, value_enum)]
    format: Option<ScanFormat>,
    /// Read bounds, and print everything, in hexadecimal (load it with --hex)
    #[arg(long)]
    hex: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScanFormat {
    /// Key, tab, value; escaped
    Tsv,
    /// Quoted if needed, with the header key,value
    Csv,
    /// One JSON object per line
    Json,
}

/// Writes entries in one format, with a reused buffer.
struct EntryPrinter {
    format: ScanFormat,
    show: Show,
    keys_only: bool,
    line: Vec<u8>,
}

impl EntryPrinter {
    fn print(&mut self, out: &mut impl Write, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        self.line.clear();
        let hex = self.show == Show::Hex;
        match self.format {
            ScanFormat::Tsv => {
                encode(key, self.show, &mut self.line);
                if !self.keys_only {
                    self.line.push(b'\t');
                    encode(value, self.show, &mut self.line);
                }
            }
            ScanFormat::Json => {
                let mut object = Map::new();
                put_field(&mut object, "key", key, hex);
                if !self.keys_only {
                    put_field(&mut object, "value", value, hex);
                }
                serde_json::to_writer(&mut self.line, &object)?;
            }
            ScanFormat::Csv => {
                self.csv(key, hex);
                if !self.keys_only {
                    self.line.push(b',');
                    self.csv(value, hex);
                }
            }
        }
        self.line.push(b'\n');
        out.write_all(&self.line)
    }

    /// Writes a CSV field: quoted if it is empty or has a comma, a quote or a line end (RFC 4180).
    fn csv(&mut self, field: &[u8], hex: bool) {
        if hex {
            return encode(field, Show::Hex, &mut self.line);
        }
        if !field.is_empty() && !field.iter().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r')) {
            return self.line.extend_from_slice(field);
        }
        self.line.push(b'"');
        for &b in field {
            if b == b'"' {
                self.line.push(b'"');
            }
            self.line.push(b);
        }
        self.line.push(b'"');
    }
}

/// Runs `firn scan`.
pub fn scan(global: &Global, args: &ScanArgs) -> Done {
    let range = args.range.range(args.hex)?;
    let db = global.open_to_read()?;
    let tree = global.tree(&db, args.tree.as_deref())?;
    let format =
        args.format.unwrap_or(if global.store.json { ScanFormat::Json } else { ScanFormat::Tsv });
    let mut out = stdout();
    if format == ScanFormat::Csv {
        writeln!(out, "{}", if args.keys_only { "key" } else { "key,value" })?;
    }
    let mut printer =
        EntryPrinter { format, show: show(args.hex), keys_only: args.keys_only, line: vec![] };
    let mut entry = |key: &[u8], value: &[u8]| printer.print(&mut out, key, value);
    let mut walk = RangeScan {
        tree: &tree,
        left: args.limit.unwrap_or(u64::MAX),
        reverse: args.reverse,
        keys_only: args.keys_only,
        lost: vec![],
        places: BTreeSet::new(),
        entry: &mut entry,
    };
    let (from, until) = range.bounds();
    let walked = walk.over((from.map(<[u8]>::to_vec), until.map(<[u8]>::to_vec)));
    let lost = walk.lost;
    out.flush()?;
    walked.map_err(|e| global.of_families(e, tree.name()))?;
    if lost.is_empty() {
        return Ok(());
    }
    eprintln!(
        "{} parts of the range are unreadable; these keys are not printed:",
        global.style().error("damaged:")
    );
    for e in &lost {
        eprintln!("  {e}");
    }
    eprintln!("{} `{} verify` gives advice", global.style().bold(" next:"), global.firn());
    Err(Failure::Found)
}

type ReadBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// Callback for an entry.
type ReadEntry<'a> = dyn FnMut(&[u8], &[u8]) -> std::io::Result<()> + 'a;

/// Identity of an unreadable part: its file and its keys.
type DamagedRange = (PathBuf, Option<(Vec<u8>, Vec<u8>)>);

/// A scan of a range that continues after unreadable parts.
struct RangeScan<'a> {
    tree: &'a Tree,
    /// Number of entries still to print.
    left: u64,
    reverse: bool,
    /// Whether to read only keys. Then no blob is read, and a damaged one does not hide its key.
    keys_only: bool,
    /// Errors of the unreadable parts, with their keys.
    lost: Vec<Error>,
    /// Locations of these errors: a scan may meet the same damage several times.
    places: BTreeSet<DamagedRange>,
    entry: &'a mut ReadEntry<'a>,
}

impl RangeScan<'_> {
    /// Prints the readable entries of a range.
    fn over(&mut self, bounds: ReadBounds) -> Done {
        let mut todo = vec![bounds];
        while let Some((from, until)) = todo.pop() {
            let mut at = None;
            let Err(failure) = self.scan_readable(&(from.clone(), until.clone()), &mut at) else {
                continue;
            };
            let Failure::Engine(e) = failure else { return Err(failure) };
            // Without the keys of the damage, the scan cannot continue after it.
            let Some((first, last)) =
                e.key_range().filter(|_| is_of_file(&e)).map(|(a, b)| (a.to_vec(), b.to_vec()))
            else {
                return Err(e.into());
            };
            let (from, until) = match (at, self.reverse) {
                (None, _) => (from, until),
                (Some(key), false) => (Bound::Excluded(key), until),
                (Some(key), true) => (from, Bound::Excluded(key)),
            };
            let before = (from.clone(), lower_end(&until, Bound::Excluded(first)));
            let after = (higher_start(&from, Bound::Excluded(last)), until.clone());
            let (nearer, farther) = if self.reverse { (after, before) } else { (before, after) };
            if !is_empty(&farther) && farther != (from, until) {
                todo.push(farther);
            }
            self.edge(nearer, &e)?;
            self.lose(e);
        }
        Ok(())
    }

    /// Records an unreadable part.
    fn lose(&mut self, e: Error) {
        let owned = |(a, b): (&[u8], &[u8])| (a.to_vec(), b.to_vec());
        let file = e.file().map(Path::to_path_buf).unwrap_or_default();
        if self.places.insert((file, e.key_range().map(owned))) {
            self.lost.push(e);
        }
    }

    /// Iterates over the entries of a range, forward or backward.
    fn entries(
        &self,
        bounds: &ReadBounds,
        backward: bool,
    ) -> Box<dyn Iterator<Item = firn_kv::Result<(Bytes, Bytes)>>> {
        let range = self.tree.range(bounds.clone());
        if self.keys_only {
            let keys = range.keys().map(|key| Ok((key?, Bytes::from(vec![]))));
            return if backward { Box::new(keys.rev()) } else { Box::new(keys) };
        }
        if backward { Box::new(range.rev()) } else { Box::new(range) }
    }

    /// Prints the entries of a range up to its end or an error; `at` becomes the last printed
    /// entry.
    fn scan_readable(&mut self, bounds: &ReadBounds, at: &mut Option<Vec<u8>>) -> Done {
        let mut entries = self.entries(bounds, self.reverse);
        // Reads no more entries than wanted.
        while self.left > 0
            && let Some(entry) = entries.next()
        {
            let (key, value) = entry?;
            (self.entry)(&key, &value)?;
            *at = Some(key.into());
            self.left -= 1;
        }
        Ok(())
    }

    /// Prints the entries between the last printed entry and the unreadable keys. A scan towards
    /// these keys fails one step too early, because cursors read ahead. So this scan begins at the
    /// unreadable keys, and its entries are buffered to restore their order.
    fn edge(&mut self, mut bounds: ReadBounds, met: &Error) -> Done {
        let mut kept = vec![];
        while !is_empty(&bounds) {
            let mut entries = self.entries(&bounds, !self.reverse);
            let walked = entries.try_for_each(|entry| entry.map(|entry| kept.push(entry)));
            let Err(e) = walked else { break };
            let (from, until) = &bounds;
            // The scan continues after a single unreadable key.
            let rest = e.key_range().filter(|(first, last)| first == last).map(|(key, _)| {
                let key = Bound::Excluded(key.to_vec());
                match self.reverse {
                    false => (from.clone(), lower_end(until, key)),
                    true => (higher_start(from, key), until.clone()),
                }
            });
            if let Some(rest) = rest.filter(|rest| *rest != bounds && is_of_file(&e)) {
                self.lose(e);
                bounds = rest;
                continue;
            }
            // Another damage in between: entries between the two are lost as well.
            let ends = (start_of(from), end_of(until));
            self.lose(if e.file() == met.file() && e.offset() == met.offset() {
                e
            } else {
                e.keys(&ends.0, &ends.1)
            });
            break;
        }
        for (key, value) in kept.iter().rev() {
            if self.left == 0 {
                break;
            }
            (self.entry)(key, value)?;
            self.left -= 1;
        }
        Ok(())
    }
}

/// Reports whether an error concerns a file, rather than the state of the store.
fn is_of_file(e: &Error) -> bool {
    e.file().is_some() && e.kind() != ErrorKind::Closed
}

fn start_of(bound: &Bound<Vec<u8>>) -> Vec<u8> {
    match bound {
        Bound::Included(k) | Bound::Excluded(k) => k.clone(),
        Bound::Unbounded => vec![],
    }
}

fn end_of(bound: &Bound<Vec<u8>>) -> Vec<u8> {
    match bound {
        Bound::Included(k) | Bound::Excluded(k) => k.clone(),
        Bound::Unbounded => b"\xff".to_vec(),
    }
}

/// Returns the lower of two ends.
fn lower_end(a: &Bound<Vec<u8>>, b: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match a {
        Bound::Included(k) | Bound::Excluded(k) if *k < start_of(&b) => a.clone(),
        _ => b,
    }
}

/// Returns the higher of two starts.
fn higher_start(a: &Bound<Vec<u8>>, b: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match a {
        Bound::Included(k) | Bound::Excluded(k) if *k > start_of(&b) => a.clone(),
        _ => b,
    }
}

fn is_empty((from, until): &ReadBounds) -> bool {
    match (from, until) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        (_, Bound::Excluded(b)) => b.is_empty(),
        _ => false,
    }
}
