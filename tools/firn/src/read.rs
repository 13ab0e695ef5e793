//! `firn get` and `firn scan`: both open the store for reading only, and stream.

use std::ffi::OsString;
use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::store::{self, Global};
use firn_tools::escape::{self, Show, encode};
use firn_tools::io::{stdout, stdout_is_terminal};
use firn_tools::json::put_field;
use firn_tools::keys::{self, RangeArgs};
use firn_tools::output::{Done, Failure};

pub const GET_EXAMPLES: &str = "\
One key prints its value and a line end; several print lines of key, tab and value, escaped as `firn scan` does.
A key that is not there is named on standard error, and the exit code is 1.

Examples:
  firn get apple
  firn get apple pear --tree fruit
  firn get photo --raw > photo.jpg       exactly the value's bytes
  firn get --hex 00ff01                  a key in hexadecimal
  firn get apple --json                  {\"key\":\"apple\",\"value\":\"red\"}";

/// What `firn get` takes.
#[derive(Args, Clone, Debug)]
pub struct GetArgs {
    /// The keys, byte for byte
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// The tree to read [default: the tree "default", or the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Print the bytes of the values and nothing else
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    /// Keys are given, and everything is printed, in hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Runs `firn get`.
pub fn get(global: &Global, args: &GetArgs) -> Done {
    let db = global.open_to_read()?;
    let tree = store::tree(&db, args.tree.as_deref())?;
    let keys = args.keys.iter().map(|k| keys::key(k, args.hex)).collect::<Done<Vec<_>>>()?;
    let show = show(args.hex);
    let mut out = stdout();
    let mut line = vec![];
    let mut missing = 0;
    for key in &keys {
        let value = tree.get(key)?;
        line.clear();
        match &value {
            _ if global.json => {
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

/// How columns are shown on standard output.
fn show(hex: bool) -> Show {
    match (hex, stdout_is_terminal()) {
        (true, _) => Show::Hex,
        (false, true) => Show::Terminal,
        (false, false) => Show::Plain,
    }
}

pub const SCAN_EXAMPLES: &str = "\
Prints lines of key, tab and value. Within them tab, line feed, carriage return and backslash are written \\t, \\n, \\r and
\\\\ (on a terminal also other control bytes, as \\xNN): `firn load` reads them back to the same bytes.
JSON has a line {\"key\":…,\"value\":…} per key; what is no UTF-8 becomes \"key_hex\" or \"value_hex\".

Examples:
  firn scan --limit 10
  firn scan --prefix user: --keys-only
  firn scan --from apple --to pear           pear itself is left out
  firn scan --reverse --limit 1              the last key
  firn scan --format json | gzip > all.jsonl.gz
  firn scan | firn --db copy load -          a copy of a tree";

/// What `firn scan` takes.
#[derive(Args, Clone, Debug)]
pub struct ScanArgs {
    #[command(flatten)]
    range: RangeArgs,
    /// The tree to read [default: the tree "default", or the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// End after so many keys
    #[arg(long, value_name = "KEYS")]
    limit: Option<u64>,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
    /// The format to print [default: tsv, or json with --json]
    #[arg(long, value_enum)]
    format: Option<ScanFormat>,
    /// Bounds are given, and everything is printed, in hexadecimal (load it with --hex)
    #[arg(long)]
    hex: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScanFormat {
    /// Key, tab, value; escaped
    Tsv,
    /// Quoted where needed, with the header key,value
    Csv,
    /// One JSON object a line
    Json,
}

/// Writes one entry in one format, by way of a buffer that is used again and again.
struct Printer {
    format: ScanFormat,
    show: Show,
    keys_only: bool,
    line: Vec<u8>,
}

impl Printer {
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

    /// A field of CSV: quoted if it is empty or holds a comma, a quote or a line end (RFC 4180).
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
    let tree = store::tree(&db, args.tree.as_deref())?;
    let format = args.format.unwrap_or(if global.json { ScanFormat::Json } else { ScanFormat::Tsv });
    let mut out = stdout();
    if format == ScanFormat::Csv {
        writeln!(out, "{}", if args.keys_only { "key" } else { "key,value" })?;
    }
    let mut printer = Printer { format, show: show(args.hex), keys_only: args.keys_only, line: vec![] };
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut cursor = tree.cursor::<&[u8]>(range.bounds())?;
    if left > 0 {
        if args.reverse { cursor.last()? } else { cursor.first()? }
    }
    while left > 0 && cursor.valid() {
        printer.print(&mut out, cursor.key(), cursor.value())?;
        left -= 1;
        if args.reverse { cursor.prev()? } else { cursor.next()? }
    }
    Ok(out.flush()?)
}
