//! The memory of the commands is bounded: a store many times larger than the bound is checked,
//! saved, repaired and printed ([docs/trust.md], "Bounds").
//!
//! [docs/trust.md]: ../../../docs/trust.md#bounds
#![allow(clippy::disallowed_methods)] // the process itself is measured

use super::support;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_kv::{Db, TreeOptions};
use firn_testkit::rng::Rng;
use support::{Room, arg, dump, options, tree_options};

const MIB: u64 = 1 << 20;

/// Returns the anonymous memory of this process in bytes.
fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Ends the measurement on drop, also if the measured function panics.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the additional peak memory of this process while `f` runs, in MiB.
fn peak_of(f: impl FnOnce()) -> u64 {
    let (before, most, ended) = (anonymous(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = Ended(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                most.fetch_max(anonymous(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        f();
    });
    most.into_inner().saturating_sub(before) / MIB
}

/// Creates tables of `mib` MiB in two runs, and a log of a quarter of that.
fn large(dir: &Path, mib: u32) {
    let db = Db::open_with(dir, firn_kv::DbOptions { wal_segment: 4 << 20, ..options() }).unwrap();
    let of_tables = TreeOptions { table_size: 8 << 20, memtable_size: 16 << 20, ..tree_options() };
    let t = db.tree("t", TreeOptions { block_size: 4032, ..of_tables }).unwrap();
    let (mut rng, mut value) = (Rng::new(1), [0; 1000]);
    let mut write = |from: u32, mib: u32| {
        for i in from..from + mib * 1024 {
            rng.fill(&mut value);
            t.put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), value).unwrap();
        }
    };
    write(0, mib);
    t.flush().unwrap();
    write(10_000_000, mib / 4);
    db.sync().unwrap();
    // As after a crash: the log is not flushed.
    std::mem::forget((t, db));
}

/// Runs the command with its paths inserted; returns its memory in MiB and its output.
fn measured(command: &[&str], dir: &Path, out: &Path) -> (u64, String) {
    let _ = fs::remove_dir_all(out);
    let place = |a: &&str| match *a {
        "DIR" => arg(dir),
        "OUT" => arg(out),
        other => other.to_owned(),
    };
    let args: Vec<String> = command.iter().map(place).collect();
    let mut said = String::new();
    let peak = peak_of(|| {
        let (text, code) = dump(&args);
        assert!(code < 2, "{text}");
        said = text;
    });
    println!("{command:?}: {peak} MiB");
    (peak, said)
}

const COMMANDS: [&[&str]; 5] = [
    &["check", "DIR"],
    &["salvage", "DIR", "--out", "OUT"],
    &["repair", "DIR", "--out", "OUT"],
    &["repair", "DIR", "--out", "OUT", "--without-manifest"],
    &["space", "DIR"],
];

#[cfg(target_os = "linux")]
#[test]
fn commands_over_a_large_store_hold_a_bounded_part_of_it() {
    firn_testkit::own_process!();
    let room = Room::new("bounds");
    let (dir, own, out) = (room.path("own"), room.path("copy"), room.path("out"));
    large(&own, 96);
    support::copy(&own, &dir);
    for command in COMMANDS {
        let (peak, _) = measured(command, &dir, &out);
        assert!(peak < 64, "{command:?}: {peak} MiB");
    }
    // An event log as long as two reach before they are replaced.
    let line = "{\"event\":\"stall\",\"tree\":\"t\",\"reason\":\"memory\",\"micros\":12}\n";
    let old = line.repeat((30 << 20) / line.len());
    fs::write(dir.join("EVENTS.old.jsonl"), old).unwrap();
    for command in &COMMANDS[2..4] {
        let (peak, _) = measured(command, &dir, &out);
        assert!(peak < 128, "{command:?}: {peak} MiB");
    }
}

/// The report of damage grows with it: each damaged block is listed.
#[cfg(target_os = "linux")]
#[test]
fn reports_of_damage_take_two_kib_a_block() {
    firn_testkit::own_process!();
    let room = Room::new("damaged");
    let (dir, own, out) = (room.path("s"), room.path("own"), room.path("out"));
    large(&own, 24);
    support::copy(&own, &dir);
    let mut blocks = 0;
    for table in fs::read_dir(&dir).unwrap().map(|f| f.unwrap().path()) {
        if table.extension().is_some_and(|e| e == "sst") {
            let mut bytes = fs::read(&table).unwrap();
            let data = bytes.len() - (64 << 10);
            bytes[..data].iter_mut().step_by(3000).for_each(|b| *b ^= 1);
            blocks += data as u64 / 4032;
            fs::write(table, bytes).unwrap();
        }
    }
    for command in &COMMANDS[..4] {
        let (peak, said) = measured(command, &dir, &out);
        assert!(said.contains("block") || said.contains("lost"), "{said}");
        assert!(peak < 32 + blocks * 2 / 1024, "{command:?}: {peak} MiB for {blocks} blocks");
    }
}
