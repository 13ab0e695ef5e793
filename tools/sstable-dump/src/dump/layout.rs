//! `sstable-dump layout`: prints a map of a file that accounts for every byte.

use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::internals::manifest;
use firn_kv::internals::wal::format::SEGMENT_HEADER;
use firn_kv::internals::wal::{LogItem, SegmentReader};
use firn_tools::output::{Done, Failure, bytes, count, listing, print_table};
use firn_wide_text::files::DescribedFile;
use serde_json::{Value, json};

use crate::Screen;
use crate::dump::text;
use crate::schema::typed::{self, Families};
use crate::store::survey::{self, SurveyKind};
use crate::store::target::{TargetKind, dir_of, env, kind, misnamed, open_table, table_file};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Draws tables, blob files, log segments and manifests. Each letter of the map stands for the same number of bytes. Damage takes precedence
over other parts under the same letter. With --blocks every block, record or frame gets a line.

Examples:
  sstable-dump layout firn-data/00000012.sst
  sstable-dump layout firn-data/00000012.sst --blocks
  sstable-dump layout firn-data/00000003.wal
  sstable-dump layout 00000012.sst --json | jq '.parts[] | select(.damage)'";

/// Arguments of `layout`.
#[derive(Args, Clone, Debug)]
pub struct LayoutArgs {
    /// A table, a blob file, a log segment or a manifest
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print a line for every block, record or frame
    #[arg(long)]
    pub blocks: bool,
    /// Width of the map in characters
    #[arg(long, value_name = "LETTERS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(8..=512))]
    pub width: u16,
}

/// A part of the file.
#[derive(Default)]
struct LayoutPart {
    offset: u64,
    len: u64,
    name: &'static str,
    letter: char,
    /// Number of its bytes that are headers, checksums and padding.
    overhead: u64,
    /// Number of decoded bytes of its content; 0 if unknown.
    raw: u64,
    entries: Option<u64>,
    keys: Option<(Vec<u8>, Vec<u8>)>,
    damage: Option<String>,
}

impl LayoutPart {
    fn new(offset: u64, len: u64, name: &'static str, letter: char) -> LayoutPart {
        LayoutPart { offset, len, name, letter, ..LayoutPart::default() }
    }
}

/// Returns the parts of a table, and its family.
fn table_parts(path: &Path) -> Done<(Vec<LayoutPart>, Option<DescribedFile>)> {
    let (file, id) = table_file(path)?;
    if let Some(note) = misnamed(path, id) {
        eprintln!("note: {note}");
    }
    let s = survey::survey(file, path, id)?;
    let family = open_table(path).ok().and_then(|t| Families::of_table(path, t.properties()));
    let parts = s.regions.into_iter().map(|r| {
        let letter = match r.what.name() {
            _ if r.damage.is_some() => '!',
            "data" => 'd',
            "blob" => 'b',
            "index" => 'I',
            "filter" => 'f',
            "tombstones" => 'T',
            "properties" => 'P',
            _ => 'E',
        };
        let overhead = match (r.what, &r.damage) {
            (_, Some(_)) => 0,
            (SurveyKind::Footer, _) => r.len,
            _ => firn_kv::internals::sstable::format::BLOCK_HEADER as u64,
        };
        LayoutPart {
            overhead,
            raw: r.raw_len,
            entries: r.entries,
            keys: r.keys,
            damage: r.damage.map(str::to_owned),
            ..LayoutPart::new(r.offset, r.len, r.what.name(), letter)
        }
    });
    Ok((parts.collect(), family))
}

fn wal_parts(path: &Path, number: u64) -> Done<Vec<LayoutPart>> {
    let env = env();
    let mut r = SegmentReader::open(&*env, &dir_of(path), number)?;
    let len = r.file_len();
    let mut parts = vec![LayoutPart::new(0, SEGMENT_HEADER.min(len), "header", 'H')];
    parts[0].overhead = parts[0].len;
    if r.header().is_none() && len > 0 {
        (parts[0].letter, parts[0].damage) = ('!', Some("no header of this segment".into()));
    }
    let mut at = parts[0].len;
    while let Some(item) = r.next()? {
        let part = match item {
            LogItem::Record(rec) => {
                let payload = rec.payload.len() as u64;
                let (name, letter) = if rec.mark { ("mark", 'm') } else { ("record", 'r') };
                let ops = firn_kv::internals::base::ops::OpReader::new(rec.payload).count() as u64;
                LayoutPart {
                    overhead: rec.size - payload,
                    raw: payload,
                    entries: Some(ops),
                    ..LayoutPart::new(rec.offset, rec.size, name, letter)
                }
            }
            LogItem::Damage(d) => {
                let mut part = LayoutPart::new(d.offset, d.len, "unknown", '!');
                part.damage = Some(d.reason.to_owned());
                part
            }
        };
        at = part.offset + part.len;
        parts.push(part);
    }
    if at < len {
        parts.push(LayoutPart::new(at, len - at, "unused", '.'));
    }
    Ok(parts)
}

fn manifest_parts(path: &Path, number: u64) -> Done<Vec<LayoutPart>> {
    let env = env();
    let (log, gaps) = manifest::read_around(&*env, &dir_of(path), number)?;
    let len = env.file_len(path)?;
    let mut parts: Vec<LayoutPart> = vec![];
    if gaps.first().is_none_or(|g| g.offset > 0) {
        parts.push(LayoutPart { overhead: 16, ..LayoutPart::new(0, 16, "header", 'H') });
    }
    parts.extend(log.frames.iter().map(|f| {
        let mut p = LayoutPart::new(f.offset, f.len, "frame", 'e');
        (p.overhead, p.raw, p.entries) = (8, f.len - 8, Some(f.edits.len() as u64));
        p
    }));
    parts.extend(gaps.iter().map(|g| {
        let mut p = LayoutPart::new(g.offset, g.len, "unknown", '!');
        p.damage = Some(
            if g.offset + g.len == len { "a torn end, or damage" } else { "damage" }.to_owned(),
        );
        p
    }));
    parts.sort_by_key(|p| p.offset);
    // The gaps between them are marks: frames without edits.
    let mut out = vec![];
    let mut at = 0;
    for p in parts {
        if p.offset > at {
            out.push(LayoutPart {
                overhead: p.offset - at,
                ..LayoutPart::new(at, p.offset - at, "mark", 'm')
            });
        }
        at = p.offset + p.len;
        out.push(p);
    }
    if at < len {
        out.push(LayoutPart { overhead: len - at, ..LayoutPart::new(at, len - at, "mark", 'm') });
    }
    Ok(out)
}

/// Draws the map: one letter for `len / letters` bytes.
fn draw(parts: &[LayoutPart], len: u64, width: usize) -> Vec<String> {
    let letters = (len.div_ceil(64) as usize).clamp(1, width * 8);
    let letter_at = |i: usize| (i as u128 * len as u128 / letters as u128) as u64;
    let mut first = 0;
    let mut all = String::new();
    for i in 0..letters {
        let (from, to) = (letter_at(i), letter_at(i + 1).max(letter_at(i) + 1));
        while parts.get(first).is_some_and(|p| p.offset + p.len <= from) {
            first += 1;
        }
        let here: Vec<&LayoutPart> = parts[first..].iter().take_while(|p| p.offset < to).collect();
        let damaged = here.iter().find(|p| p.damage.is_some());
        let most = here.iter().max_by_key(|p| (p.offset + p.len).min(to) - p.offset.max(from));
        all.push(damaged.or(most).map_or(' ', |p| p.letter));
    }
    let letters: Vec<char> = all.chars().collect();
    letters.chunks(width).map(|line| line.iter().collect()).collect()
}

/// Returns both ends of a part's keys as text.
fn keys(family: Option<&DescribedFile>, range: &(Vec<u8>, Vec<u8>)) -> String {
    if range.0 == range.1 {
        return typed::key(family, &range.0);
    }
    format!("{} to {}", typed::key(family, &range.0), typed::key(family, &range.1))
}

fn part_json(p: &LayoutPart, family: Option<&DescribedFile>) -> Value {
    let mut v = json!({"offset": p.offset, "len": p.len, "what": p.name, "overhead": p.overhead, "raw_len": p.raw});
    if let Some(n) = p.entries {
        v["entries"] = n.into();
    }
    if let Some((a, b)) = &p.keys {
        v["keys"] = json!([firn_tools::escape::words(a), firn_tools::escape::words(b)]);
        if let Some(f) = family {
            v["typed_keys"] = json!([f.key_words(a), f.key_words(b)]);
        }
    }
    if let Some(d) = &p.damage {
        v["damage"] = d.as_str().into();
    }
    v
}

/// Sums over parts with the same name.
#[derive(Default)]
struct LayoutSum {
    name: &'static str,
    letter: char,
    parts: u64,
    bytes: u64,
    overhead: u64,
    raw: u64,
    entries: u64,
}

/// Returns the sums by name, in order of appearance.
fn sums(parts: &[LayoutPart]) -> Vec<LayoutSum> {
    let mut out: Vec<LayoutSum> = vec![];
    for p in parts {
        let name = if p.damage.is_some() { "damaged" } else { p.name };
        let i = out.iter().position(|s| s.name == name).unwrap_or_else(|| {
            out.push(LayoutSum { name, letter: p.letter, ..LayoutSum::default() });
            out.len() - 1
        });
        let s = &mut out[i];
        s.parts += 1;
        s.bytes += p.len;
        s.overhead += p.overhead;
        s.raw += p.raw;
        s.entries += if p.damage.is_some() { 0 } else { p.entries.unwrap_or(0) };
    }
    out
}

/// Runs `layout`.
pub fn run(screen: &mut Screen<'_>, args: &LayoutArgs) -> Done {
    let path = &args.file;
    let (parts, family) = match kind(path)? {
        TargetKind::Table(_) => table_parts(path)?,
        TargetKind::Wal(number) => (wal_parts(path, number)?, None),
        TargetKind::Manifest(number) => (manifest_parts(path, number)?, None),
        TargetKind::Store => {
            return Err(Failure::with_next(
                "a directory has no layout",
                "name one of its files; `space` shows the whole",
            ));
        }
    };
    let len: u64 = parts.iter().map(|p| p.len).sum();
    let damaged = parts.iter().any(|p| p.damage.is_some());
    if screen.json {
        let v = json!({"file": path.display().to_string(), "size": len, "parts": parts.iter().map(|p| part_json(p, family.as_ref())).collect::<Vec<_>>()});
        writeln!(screen.out, "{v:#}")?;
        return if damaged { Err(Failure::Found) } else { Ok(()) };
    }
    let style = screen.style;
    let lines = draw(&parts, len, args.width as usize);
    let letters: usize = lines.iter().map(String::len).sum();
    writeln!(
        screen.out,
        "{}: {} ({} bytes), a letter is {}\n",
        path.display(),
        bytes(len),
        count(len),
        bytes(len / letters.max(1) as u64)
    )?;
    for line in &lines {
        let painted: String = line
            .split_inclusive('!')
            .map(|s| s.strip_suffix('!').map_or(s.to_owned(), |a| format!("{a}{}", style.bad("!"))))
            .collect();
        writeln!(screen.out, "  {painted}")?;
    }
    let mut t = listing(
        &["", "part", "count", "bytes", "share", "overhead", "decoded", "entries"],
        "llrrrrrr",
    );
    let or_dash = |n: u64, text: String| if n == 0 { "-".to_owned() } else { text };
    for LayoutSum { name, letter, parts, bytes, overhead, raw, entries } in sums(&parts) {
        let cells = [
            letter.to_string(),
            name.to_owned(),
            count(parts),
            count(bytes),
            text::share(bytes, len),
            or_dash(overhead, count(overhead)),
            or_dash(raw, count(raw)),
            or_dash(entries, count(entries)),
        ];
        t.add_row(cells);
    }
    t.add_row([
        "=".into(),
        "all".into(),
        count(parts.len() as u64),
        count(len),
        text::share(len, len),
        String::new(),
        String::new(),
        String::new(),
    ]);
    write!(screen.out, "\n{}", print_table(&t, style))?;
    if args.blocks {
        let mut t = listing(&["offset", "part", "bytes", "decoded", "entries", "keys"], "rlrrrl");
        for p in &parts {
            let keys = p.damage.as_ref().map_or(String::new(), |d| format!("{d}: "))
                + p.keys.as_ref().map_or(String::new(), |k| keys(family.as_ref(), k)).as_str();
            let cells = [
                count(p.offset),
                p.name.to_owned(),
                count(p.len),
                or_dash(p.raw, count(p.raw)),
                p.entries.map_or("-".into(), count),
                keys,
            ];
            t.add_row(cells);
        }
        write!(screen.out, "\n{}", print_table(&t, style))?;
    }
    if damaged { Err(Failure::Found) } else { Ok(()) }
}
