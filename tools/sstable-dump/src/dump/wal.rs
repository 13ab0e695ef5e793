//! `sstable-dump wal`: prints log segments, their records and marks, and how the log ends.

use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::internals::base::key::Kind as EntryKind;
use firn_kv::internals::base::ops::{Op, OpReader};
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::wal::{self, LogItem, SegmentInfo, SegmentReader, WalRecord};
use firn_tools::escape;
use firn_tools::json::put_field;
use firn_tools::output::{Done, Failure, bytes, count, listing, print_table};
use serde_json::{Map, Value, json};

use crate::Screen;
use crate::dump::text;
use crate::store::target::{TargetKind, dir_of, env, kind, known};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
For a store, prints all segments. A segment ends where the next one begins; later bytes in its file are void. Damage below a position that
later records call synced is corruption; damage above it is the torn end of a crash.

Examples:
  sstable-dump wal firn-data                            the segments, and how the log ends
  sstable-dump wal firn-data/00000003.wal               its records
  sstable-dump wal firn-data/00000003.wal --ops --limit 100
  sstable-dump wal firn-data --ops --json               a line per operation";

/// Arguments of `wal`.
#[derive(Args, Clone, Debug)]
pub struct WalArgs {
    /// A store or a segment
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Print the operations in the records too
    #[arg(long)]
    pub ops: bool,
    /// Print the records of a store's segments too
    #[arg(long)]
    pub records: bool,
    /// Stop after this many records
    #[arg(long, value_name = "RECORDS")]
    pub limit: Option<u64>,
    /// Print keys and values in hexadecimal
    #[arg(long)]
    pub hex: bool,
}

/// Sums over one segment.
#[derive(Default)]
struct LogSums {
    records: u64,
    marks: u64,
    ops: u64,
    bytes: u64,
    synced: u64,
    damage: Vec<wal::Damage>,
    /// Whether sound records follow the last damage.
    beyond: bool,
    void: u64,
    /// Offset after the last record.
    end: u64,
}

fn op_name(op: &Op<'_>) -> &'static str {
    match op {
        Op::Point { kind: EntryKind::Put, .. } => "put",
        Op::Point { kind: EntryKind::Delete, .. } => "delete",
        Op::Point { kind: EntryKind::Merge, .. } => "merge",
        // No log contains blob references: the reader of operations rejects them.
        Op::Point { kind: EntryKind::Blob, .. } => "blob",
        Op::DeleteRange { .. } => "delete range",
    }
}

fn op_json(seq: u64, tree: u32, op: &Op<'_>, hex: bool) -> Value {
    let mut o = Map::new();
    o.insert("seq".into(), seq.into());
    o.insert("tree".into(), tree.into());
    o.insert("op".into(), op_name(op).into());
    match op {
        Op::Point { kind, key, value } => {
            put_field(&mut o, "key", key, hex);
            if *kind != EntryKind::Delete {
                put_field(&mut o, "value", value, hex);
            }
        }
        Op::DeleteRange { start, end } => {
            put_field(&mut o, "start", start, hex);
            put_field(&mut o, "end", end, hex);
        }
    }
    o.into()
}

fn op_text(op: &Op<'_>, hex: bool) -> String {
    let show = |b: &[u8]| if hex { escape::hex(b) } else { text::short(b, 60) };
    match op {
        Op::Point { kind: EntryKind::Delete, key, .. } => show(key),
        Op::Point { key, value, .. } => format!("{} = {}", show(key), show(value)),
        Op::DeleteRange { start, end } => format!("{} up to {}", show(start), show(end)),
    }
}

fn print_record(screen: &mut Screen<'_>, r: &WalRecord<'_>, args: &WalArgs, void: bool) -> Done {
    let ops = OpReader::new(r.payload).count() as u64;
    if screen.json {
        let mut v = json!({
            "lsn": r.lsn, "offset": r.offset, "bytes": r.size, "mark": r.mark, "seq": r.seq, "synced": r.synced, "void": void,
        });
        if args.ops {
            let list: Vec<Value> = OpReader::new(r.payload)
                .zip(r.seq..)
                .map(|(op, seq)| {
                    op.map_or(json!({"damage": "no operation"}), |(tree, op)| {
                        op_json(seq, tree, &op, args.hex)
                    })
                })
                .collect();
            v["ops"] = list.into();
        } else {
            v["ops"] = ops.into();
        }
        return Ok(writeln!(screen.out, "{v}")?);
    }
    let lsn = r.lsn.map_or("?".to_owned(), |l| l.to_string());
    let what = if r.mark { "mark".to_owned() } else { format!("seq {}, {ops} ops", r.seq) };
    let void = if void { ", void" } else { "" };
    writeln!(
        screen.out,
        "  {:>10} {lsn:>12} {:>8}  {what}, synced {}{void}",
        r.offset, r.size, r.synced
    )?;
    if args.ops && !r.mark {
        for (op, seq) in OpReader::new(r.payload).zip(r.seq..) {
            match op {
                Some((tree, op)) => writeln!(
                    screen.out,
                    "{:>14}@{seq} tree {tree} {} {}",
                    "",
                    op_name(&op),
                    op_text(&op, args.hex)
                )?,
                None => {
                    writeln!(screen.out, "{:>14}@{seq} {}", "", screen.style.bad("no operation"))?
                }
            }
        }
    }
    Ok(())
}

/// Reads a segment up to its end; prints its records if `each` is set.
fn walk(
    screen: &mut Screen<'_>,
    dir: &Path,
    number: u64,
    end: u64,
    args: &WalArgs,
    each: bool,
    left: &mut u64,
) -> Done<LogSums> {
    let env = env();
    let mut reader = SegmentReader::open(&*env, dir, number)?;
    let mut s = LogSums { synced: reader.header().map_or(0, |h| h.synced), ..LogSums::default() };
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Record(r) => {
                let void = r.lsn.is_some_and(|l| l + r.size > end);
                s.synced = s.synced.max(r.synced);
                s.end = r.offset + r.size;
                s.beyond |= !s.damage.is_empty();
                if void {
                    s.void += 1;
                } else if r.mark {
                    s.marks += 1;
                } else {
                    s.records += 1;
                    s.ops += OpReader::new(r.payload).count() as u64;
                }
                s.bytes += r.size;
                if each && *left > 0 {
                    *left -= 1;
                    print_record(screen, &r, args, void)?;
                }
            }
            LogItem::Damage(d) => {
                if each && screen.json {
                    writeln!(
                        screen.out,
                        "{}",
                        json!({"damage": d.reason, "offset": d.offset, "bytes": d.len})
                    )?;
                } else if each {
                    writeln!(
                        screen.out,
                        "  {:>10} {:>12} {:>8}  {}",
                        d.offset,
                        "",
                        d.len,
                        screen.style.bad(d.reason)
                    )?;
                }
                s.beyond = false;
                s.damage.push(d);
            }
        }
    }
    Ok(s)
}

fn state_of(info: &SegmentInfo, s: &LogSums) -> String {
    match info.base {
        None if s.records + s.marks > 0 => "header damaged".into(),
        None => "spare".into(),
        Some(_) if info.end == 0 => "void: newer segments took its place".into(),
        Some(base) => {
            let below = |d: &wal::Damage| {
                s.synced > base + d.offset.saturating_sub(wal::format::SEGMENT_HEADER)
            };
            match s.damage.len() {
                0 => "sound".into(),
                1 if !s.beyond && !s.damage.iter().any(below) => "torn end".into(),
                n => format!("{n} damaged places"),
            }
        }
    }
}

fn store(screen: &mut Screen<'_>, dir: &Path, args: &WalArgs) -> Done {
    let env = env();
    let segments = wal::segments(&*env, dir)?;
    let manifest = Manifest::load(&*env, dir).ok().flatten().map(|(s, _)| s);
    let floor = manifest.as_ref().map(|s| s.wal_floor);
    let (mut t, mut rows) = (
        listing(
            &[
                "segment",
                "from",
                "to",
                "size",
                "records",
                "operations",
                "marks",
                "synced to",
                "state",
            ],
            "lrrrrrrrl",
        ),
        vec![],
    );
    let mut left = args.limit.unwrap_or(u64::MAX);
    let each = args.records || args.ops;
    let mut damaged = false;
    for info in &segments {
        if each && !screen.json {
            writeln!(screen.out, "{}", screen.style.heading(wal::segment_name(info.number)))?;
        }
        let s = walk(screen, dir, info.number, info.end, args, each, &mut left)?;
        let state = state_of(info, &s);
        damaged |= state.contains("damaged");
        // End of the segment's records, or the position at which the next segment voids them.
        let end = info
            .base
            .map_or(0, |b| b + s.end.max(wal::format::SEGMENT_HEADER) - wal::format::SEGMENT_HEADER)
            .min(info.end);
        rows.push(json!({
            "segment": wal::segment_name(info.number), "base": info.base, "end": end,
            "capacity": info.capacity, "records": s.records, "operations": s.ops, "marks": s.marks, "void_records": s.void,
            "synced": s.synced, "state": state,
        }));
        let cells = [
            wal::segment_name(info.number),
            info.base.map_or("-".into(), |b| b.to_string()),
            end.to_string(),
            bytes(info.capacity),
            count(s.records),
            count(s.ops),
            count(s.marks),
            s.synced.to_string(),
            state,
        ];
        t.add_row(cells);
    }
    let ending = manifest.as_ref().map(|s| {
        let done = wal::recover_known(&*env, dir, s.wal_floor, &known(s), &mut |_, _, _| Ok(()));
        (s.wal_floor, done)
    });
    damaged |= ending.as_ref().is_some_and(|e| e.1.is_err());
    let (summary, end) = match &ending {
        None => ("there is no sound manifest to say from where the log is needed".to_owned(), None),
        Some((floor, Ok(r))) => {
            let torn = r.torn.as_ref().map_or("cleanly".to_owned(), |t| {
                format!(
                    "with {} (offset {} of {}), as a crash leaves it",
                    t.reason,
                    t.offset,
                    t.file.display()
                )
            });
            (
                format!(
                    "needed from position {floor}: {} records; it ends at position {} {torn}",
                    count(r.records),
                    r.end
                ),
                Some(r.end),
            )
        }
        Some((floor, Err(e))) => (format!("needed from position {floor}; {e}"), None),
    };
    if screen.json {
        let v = json!({"segments": rows, "floor": floor, "end": end, "ending": summary});
        return if each {
            Ok(writeln!(screen.out, "{v}")?)
        } else {
            Ok(writeln!(screen.out, "{v:#}")?)
        }
        .and(if damaged { Err(Failure::Found) } else { Ok(()) });
    }
    write!(screen.out, "{}{}", if each { "\n" } else { "" }, print_table(&t, screen.style))?;
    writeln!(screen.out, "\n{summary}")?;
    if damaged { Err(Failure::Found) } else { Ok(()) }
}

fn segment(screen: &mut Screen<'_>, path: &Path, number: u64, args: &WalArgs) -> Done {
    let (env, dir) = (env(), dir_of(path));
    let reader = SegmentReader::open(&*env, &dir, number)?;
    let header = reader.header().cloned();
    let capacity = reader.file_len();
    drop(reader);
    if screen.json {
        let h = header.as_ref();
        let v = json!({
            "segment": number, "base": h.map(|h| h.base), "synced": h.map(|h| h.synced), "previous": h.map(|h| h.previous),
            "capacity": capacity, "store": h.map(|h| h.store), "writer": h.map(|h| h.writer),
        });
        writeln!(screen.out, "{v}")?;
    } else {
        let summary = header.as_ref().map_or("no header of this segment".to_owned(), |h| {
            format!(
                "from position {}, synced up to {} when it was started, after segment {}, of writer {:016x} of store {:016x}",
                h.base, h.synced, h.previous, h.writer, h.store
            )
        });
        writeln!(screen.out, "{}: {}, {summary}\n", path.display(), bytes(capacity))?;
        let heading = format!("  {:>10} {:>12} {:>8}  record", "offset", "position", "bytes");
        writeln!(screen.out, "{}", screen.style.heading(heading))?;
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    let s = walk(screen, &dir, number, u64::MAX, args, true, &mut left)?;
    let info = SegmentInfo::written(number, header.as_ref().map(|h| h.base), None, capacity);
    let state = state_of(&info, &s);
    if screen.json {
        let v = json!({"records": s.records, "marks": s.marks, "operations": s.ops, "bytes": s.bytes, "synced": s.synced, "state": state});
        writeln!(screen.out, "{v}")?;
    } else {
        writeln!(
            screen.out,
            "\n{} records with {} operations and {} marks in {}, synced up to {}: {state}",
            count(s.records),
            count(s.ops),
            count(s.marks),
            bytes(s.bytes),
            s.synced
        )?;
    }
    if state.contains("damaged") { Err(Failure::Found) } else { Ok(()) }
}

/// Runs `wal`.
pub fn run(screen: &mut Screen<'_>, args: &WalArgs) -> Done {
    match kind(&args.path)? {
        TargetKind::Store => store(screen, &args.path, args),
        TargetKind::Wal(number) => segment(screen, &args.path, number, args),
        _ => Err(Failure::with_next(
            "this is no log segment",
            "name a store's directory, or a file nnnnnnnn.wal",
        )),
    }
}
