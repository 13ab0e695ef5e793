//! Histories of real stores: their event logs, read and simulated again.
//!
//! A log says of each flush how many entries and bytes it wrote, and of each merge how many went in and came out. From these follow
//! what the simulator needs: entries in a memtable, bytes of an entry in a table, the share of deletes, whether keys came in order, and
//! how many different keys there are: as many as make the recorded policy's merges keep what they did keep. That workload is then
//! simulated under the recorded policy (`compare`) or others (`replay`).

use std::io::Write;
use std::path::Path;

use firn_kv::{Compression, FilterKind, Policy, TreeOptions};
use firn_tools::output::{Done, Failure, bytes, count, print_table, row, table};
use serde_json::{Value, json};

use crate::cli::{Cli, CompareArgs, ReplayArgs, read};
use crate::commands::{simulate_all, tell};
use crate::machine::Machine;
use crate::meter::Outcome;
use crate::policy;
use crate::sim::{self, Setup};
use crate::size::{Content, Sizes};
use crate::workload::{Pattern, Phase, Workload};

/// What a log tells of one tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The tree.
    pub tree: String,
    /// Its policy, if the log tells of its opening.
    pub policy: Option<Policy>,
    /// Its sizes: memtable, table.
    pub sizes: Option<(u64, u64)>,
    /// Its bound on the age of deletes.
    pub tombstone_age_secs: u64,
    /// Flushes: entries, deletes, bytes of tables, bytes of keys and values.
    pub flushes: u64,
    /// See `flushes`.
    pub flushed: [u64; 4],
    /// Heads of the first and last key of each flush.
    pub ranges: Vec<(u64, u64)>,
    /// Merges, moves, drops.
    pub jobs: [u64; 3],
    /// Of merges: bytes read, bytes written, entries read, entries written.
    pub merged: [u64; 4],
    /// Microseconds that flushes and merges took.
    pub micros: (u64, u64),
}

/// Reads the events of a tree. Lines that are no events (a torn last one) are passed over.
///
/// # Errors
/// When the log tells of no flush, or of several trees and none is named.
pub fn parse(text: &str, tree: Option<&str>) -> Done<History> {
    let events: Vec<Value> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let mut names: Vec<&str> = events.iter().filter(|e| e["event"] == "flush").filter_map(|e| e["tree"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let name = match (tree, &names[..]) {
        (Some(tree), _) => tree,
        (None, [one]) => one,
        (None, []) => return Err(Failure::new("the log tells of no flush")),
        (None, many) => {
            return Err(Failure::with_next(format!("the log tells of {}", many.join(", ")), "name one of them with --tree"));
        }
    };
    let mut h = History { tree: name.to_owned(), ..History::default() };
    for e in events.iter().filter(|e| e["tree"] == name) {
        let n = |field: &str| e[field].as_u64().unwrap_or(0);
        match e["event"].as_str().unwrap_or_default() {
            "tree" => {
                h.policy = e["policy"].as_str().and_then(policy::from_log);
                h.sizes = Some((n("memtable_size"), n("table_size")));
                h.tombstone_age_secs = n("tombstone_age_secs");
            }
            "flush" => {
                h.flushes += 1;
                for (sum, field) in h.flushed.iter_mut().zip(["entries", "deletes", "bytes_out", "raw_bytes"]) {
                    *sum += n(field);
                }
                if let (Some(lo), Some(hi)) = (e["heads"][0].as_u64(), e["heads"][1].as_u64()) {
                    h.ranges.push((lo, hi));
                }
                h.micros.0 += n("micros");
            }
            "compaction" => {
                let job = e["job"].as_str().unwrap_or_default();
                let kind = ["merge", "move", "drop"].iter().position(|k| job.starts_with(k)).unwrap_or(0);
                h.jobs[kind] += 1;
                h.micros.1 += if kind == 0 { n("micros") } else { 0 };
                for (sum, field) in h.merged.iter_mut().zip(["bytes_in", "bytes_out", "entries_in", "entries_out"]) {
                    *sum += n(field);
                }
            }
            _ => {}
        }
    }
    if h.flushes == 0 || h.flushed[0] == 0 {
        return Err(Failure::new(format!("the log tells of no flush of {name:?}")));
    }
    Ok(h)
}

fn load(path: &Path, tree: Option<&str>) -> Done<History> {
    let file = if path.is_dir() { path.join("EVENTS.jsonl") } else { path.to_path_buf() };
    parse(&String::from_utf8_lossy(&read(&file)?), tree)
}

impl History {
    /// Whether every flush lies behind the one before.
    fn is_ascending(&self) -> bool {
        self.ranges.len() > 1 && self.ranges.windows(2).all(|w| w[0].1 <= w[1].0)
    }

    /// A workload of this history over `keys` keys, on a machine on which nothing takes time.
    fn setup(&self, policy: Policy, keys: f64, machine: Machine) -> Done<Setup> {
        let (memtable, table_size) = self.sizes.unwrap_or((64 << 20, 64 << 20));
        let mut options = TreeOptions {
            policy,
            memtable_size: memtable as usize,
            table_size,
            tombstone_age_secs: self.tombstone_age_secs,
            compression: vec![Compression::None],
            filter: vec![FilterKind::Fuse8],
            ..TreeOptions::default()
        };
        options.check()?;
        let [entries, deletes, written, _] = self.flushed;
        let per_memtable = (entries / self.flushes).max(1);
        // A value as long as makes an entry in a table as large as those recorded, whatever compressed them.
        let puts = (entries - deletes.min(entries)).max(1);
        let content = |len: usize| Content { key_len: 16, value_len: (len, len), random: 0.0, sample: vec![] };
        let mut value = written as f64 / puts as f64;
        for _ in 0..3 {
            let size = Sizes::measure(&options, &content(value as usize), per_memtable, entries)?.flushed;
            value = (value + written as f64 / puts as f64 - size.put).clamp(0.0, 1e7);
        }
        let ascending = self.is_ascending();
        let unique = keys >= entries as f64 * 1e3;
        let share = deletes as f64 / entries as f64;
        let pattern = match (ascending, unique) {
            (true, _) => Pattern::Series(1),
            (_, true) if deletes == 0 => Pattern::Unique,
            _ => Pattern::Uniform,
        };
        // What a memtable drops before its flush is not recorded: it was written all the same.
        let ops = entries + per_memtable / 2;
        let keys = if matches!(pattern, Pattern::Uniform) { keys as u64 } else { ops };
        let phases = vec![Phase { pattern, ops, deletes: share }];
        let workload = Workload {
            keys: keys.max(1),
            phases,
            content: content(value as usize),
            ttl_micros: 0,
            seed: 1,
            per_memtable: Some(per_memtable),
        };
        options.tombstone_age_secs = self.tombstone_age_secs;
        Ok(Setup { options, workload, machine, exact: false, picture: false })
    }

    /// The number of keys that makes merges keep what they were recorded to keep.
    fn keys(&self, policy: &Policy) -> Done<f64> {
        let [_, _, read, kept] = self.merged;
        let entries = self.flushed[0] as f64;
        let unique = entries * 1e4;
        if self.is_ascending() || read == 0 || kept as f64 >= read as f64 * 0.999 {
            return Ok(unique);
        }
        let instant = Machine { threads: 0, instant: true, ..Machine::default() };
        let (mut lo, mut hi) = ((entries / self.flushes as f64).max(2.0).ln(), unique.ln());
        let mut setup = self.setup(policy.clone(), entries, instant)?;
        for _ in 0..14 {
            let middle = f64::midpoint(lo, hi);
            setup.workload.keys = middle.exp() as u64;
            let o = sim::run(&setup, &mut |_| ())?;
            let keeps = o.merge_written as f64 / (o.merge_read as f64).max(1.0);
            if keeps < self.merged[1] as f64 / (self.merged[0] as f64).max(1.0) { lo = middle } else { hi = middle }
        }
        Ok(hi.exp())
    }
}

/// `replay`.
///
/// # Errors
/// A log that cannot be read or tells too little, and policies that are none.
pub fn replay(args: &ReplayArgs, cli: &Cli, out: &mut dyn Write) -> Done {
    let h = load(&args.events, args.tree.as_deref())?;
    let recorded = h.policy.clone().unwrap_or_default();
    let keys = h.keys(&recorded)?;
    let base = h.setup(recorded, keys, args.machine.machine())?;
    let mut cases = vec![];
    for name in &args.policies {
        let named = policy::parse(name, &base.options).map_err(Failure::new)?;
        let mut setup = Setup { picture: args.pictures.html.is_some(), ..base.clone() };
        setup.options.policy = named.policy;
        cases.push((name.clone(), setup));
    }
    let outcomes = simulate_all("replay", &cases)?;
    let named = |((name, _), mut o): (&(String, Setup), Outcome)| {
        (o.policy, o.workload) = (name.clone(), format!("{} of {}", h.tree, args.events.display()));
        (name.clone(), o)
    };
    let all: Vec<_> = cases.iter().zip(outcomes).map(named).collect();
    tell(&all, cli.json, &args.pictures, cli.style(), out)
}

/// `compare`.
///
/// # Errors
/// A log that cannot be read or tells too little; [`Failure::Found`] when bytes written differ by more than the tolerance.
pub fn compare(args: &CompareArgs, cli: &Cli, out: &mut dyn Write) -> Done {
    let h = load(&args.events, args.tree.as_deref())?;
    let Some(recorded) = h.policy.clone() else {
        return Err(Failure::with_next("the log does not say which policy the tree has", "use `replay` and name it"));
    };
    let keys = h.keys(&recorded)?;
    let instant = Machine { threads: 0, instant: true, ..Machine::default() };
    let o = sim::run(&h.setup(recorded.clone(), keys, instant)?, &mut |_| ())?;
    let lines = [
        ("flushes", h.flushes as f64, o.flushes as f64, false),
        ("written by flushes", h.flushed[2] as f64, o.flush_bytes as f64, true),
        ("merges", h.jobs[0] as f64, o.merges as f64, false),
        ("moves", h.jobs[1] as f64, o.moves as f64, false),
        ("drops", h.jobs[2] as f64, o.drops as f64, false),
        ("read by merges", h.merged[0] as f64, o.merge_read as f64, true),
        ("written by merges", h.merged[1] as f64, o.merge_written as f64, true),
    ];
    let off = |real: f64, ours: f64| if real == ours { 0.0 } else { (ours / real.max(1.0) - 1.0) * 100.0 };
    if cli.json {
        let cells = |&(name, real, ours, _): &(&str, f64, f64, bool)| json!({"what": name, "recorded": real, "predicted": ours, "percent": off(real, ours)});
        let all: Vec<Value> = lines.iter().map(cells).collect();
        writeln!(out, "{}", json!({"tree": h.tree, "policy": format!("{recorded:?}"), "keys": keys, "lines": all}))?;
    } else {
        let mut t = table(&[&format!("{}, {recorded:?}", h.tree), "recorded", "predicted", "differs"]);
        for &(name, real, ours, size) in &lines {
            let text = |v: f64| if size { bytes(v as u64) } else { count(v as u64) };
            row(&mut t, [name.to_owned(), text(real), text(ours), format!("{:+.1} %", off(real, ours))]);
        }
        write!(out, "{}", print_table(&t, cli.style()))?;
    }
    let written = |flushed: u64, merged: u64| (flushed + merged) as f64;
    let wrong = off(written(h.flushed[2], h.merged[1]), written(o.flush_bytes, o.merge_written)).abs();
    if wrong > args.tolerance { Err(Failure::Found) } else { Ok(()) }
}
