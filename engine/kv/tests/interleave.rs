//! Searches interleavings of small multi-threaded programs on a whole `Db`, including its workers,
//! under a deterministic scheduler.
//!
//! The answers of all calls must fit one sequential order (`firn_testkit::linear`). This also holds
//! after closing and reopening, in checkpoints and exports, and after a crash in the middle.
//!
//! Run it with `RUSTFLAGS="--cfg interleave" CARGO_TARGET_DIR=target/interleave cargo test -p
//! firn-kv --release --test interleave`. With `CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true`, the
//! engine's own assertions are checked as well.
//!
//! Environment variables:
//! - `FIRN_INTERLEAVE_SCHEDULES=100000` sets the number of schedules.
//! - `FIRN_INTERLEAVE_SEED=7` sets the number of the first schedule. A schedule depends only on its
//!   number. So its number and a count of one schedule replay a failure.
//! - `FIRN_INTERLEAVE_GO_ON=1` counts failures and continues. By default the search ends at the
//!   first failure, shrinks its program and prints it as a script.
//!
//! `tests/interleave/scripts` has the programs that exposed faults. Each script is searched again
//! for [`TRIES`] schedules.

#![cfg(interleave)]
#![allow(clippy::disallowed_methods)] // a test may read the clock and start threads for the search

mod draw;
#[path = "interleave/play.rs"]
mod play;
#[path = "interleave/program.rs"]
mod program;
#[path = "interleave/record.rs"]
mod record;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use program::Program;

/// Default number of schedules of a run.
const SCHEDULES: u64 = 1000;
/// Schedules to try per script.
const TRIES: u64 = 300;
/// Schedules per program.
const OF_A_PROGRAM: u64 = 5;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is {text:?}"))
        }
        Err(_) => default,
    }
}

/// Statistics of a search.
#[derive(Default)]
struct Tally {
    schedules: u64,
    steps: u64,
    switches: u64,
    calls: u64,
    crashes: u64,
}

impl Tally {
    fn add(&mut self, p: &play::Played) {
        self.schedules += 1;
        self.steps += p.report.steps;
        self.switches += p.report.switches;
        self.calls += p.calls as u64;
        self.crashes += p.crashes as u64;
    }
}

fn program_of(seed: u64) -> Arc<Program> {
    Arc::new(Program::of(seed / OF_A_PROGRAM))
}

/// Plays schedules one after the other until one fails. It runs in a thread of its own, because a
/// failure leaves that thread's state broken.
fn search(
    from: u64,
    until: u64,
    program: impl Fn(u64) -> Arc<Program> + Send + 'static,
) -> (Tally, Option<(u64, String)>) {
    let work = move || {
        let mut tally = Tally::default();
        for seed in from..until {
            match play::play(&program(seed), seed) {
                Ok(p) => tally.add(&p),
                Err(words) => return (tally, Some((seed, words))),
            }
        }
        (tally, None)
    };
    std::thread::spawn(work).join().unwrap()
}

/// Reduces a failure message to its kind: failures of the same kind get equal text.
fn kind_of(words: &str) -> String {
    let mut lines = words.lines();
    let first = lines.next().unwrap_or_default();
    let words = match first.split_once(':') {
        Some((what @ ("a hang" | "a deadlock"), _)) => {
            let mut open: Vec<&str> =
                lines.filter_map(|l| l.trim().strip_prefix("thread ")?.split(' ').nth(1)).collect();
            open.sort_unstable();
            open.dedup();
            format!("{what} in {}", open.join(", "))
        }
        _ => format!(
            "{} {}",
            first.rsplit_once('/').map_or(first, |f| f.1),
            lines.next().unwrap_or_default()
        ),
    };
    let mut kind = String::new();
    for c in words.chars() {
        match c {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            c => kind.push(c),
        }
    }
    kind.chars().take(200).collect()
}

/// Removes calls from a program as long as some schedule still fails in the same way.
fn shrink(mut program: Arc<Program>, mut words: String) -> (Arc<Program>, String) {
    let (began, kind) = (Instant::now(), kind_of(&words));
    loop {
        let smaller = program.smaller().into_iter().find_map(|p| {
            if began.elapsed().as_secs() > 60 {
                return None;
            }
            let p = Arc::new(p);
            let tried = p.clone();
            let (_, failure) = search(0, TRIES, move |_| tried.clone());
            failure.filter(|(_, words)| kind_of(words) == kind).map(|(_, words)| (p, words))
        });
        match smaller {
            Some(next) => (program, words) = next,
            None => return (program, words),
        }
    }
}

#[test]
fn schedules_fit_one_order() {
    let (first, count) =
        (number("FIRN_INTERLEAVE_SEED", 1), number("FIRN_INTERLEAVE_SCHEDULES", SCHEDULES));
    let go_on = number("FIRN_INTERLEAVE_GO_ON", 0) == 1;
    let began = Instant::now();
    let (mut at, end, mut told) = (first, first + count, 0);
    let mut all = Tally::default();
    let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    while at < end {
        // Search in chunks, so that a long search reports its progress.
        let until = end.min((at / 20_000 + 1) * 20_000);
        let (tally, failure) = search(at, until, program_of);
        all.schedules += tally.schedules;
        all.steps += tally.steps;
        all.switches += tally.switches;
        all.calls += tally.calls;
        all.crashes += tally.crashes;
        at = until;
        if let Some((seed, words)) = failure {
            at = seed + 1;
            all.schedules += 1;
            if !go_on {
                let shrinks = number("FIRN_INTERLEAVE_SHRINK", 1) == 1;
                if !shrinks {
                    panic!("schedule {seed} of the program\n{}\n{words}", program_of(seed));
                }
                eprintln!(
                    "schedule {seed}, after {} schedules, {:.1} s: {words}",
                    seed - first,
                    began.elapsed().as_secs_f64()
                );
                eprintln!("again: FIRN_INTERLEAVE_SEED={seed} FIRN_INTERLEAVE_SCHEDULES=1");
                let (small, words) = shrink(program_of(seed), words);
                panic!("a smaller program that fails too, as a script:\n{small}\n{words}");
            }
            let kind = kind_of(&words);
            let seeds = failures.entry(kind.clone()).or_default();
            if seeds.is_empty() {
                eprintln!("schedule {seed}: {kind}");
            }
            seeds.push(seed);
        }
        if count > 20_000 && (at == end || at / 20_000 != told) {
            told = at / 20_000;
            let failed = failures.values().map(Vec::len).sum::<usize>();
            eprintln!(
                "{} schedules, {:.0} s, {failed} failed",
                all.schedules,
                began.elapsed().as_secs_f64()
            );
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{} schedules ({first}..{end}) of {} calls in {took:.1} s: {:.2} ms each; {} points, {} switches; {} crashes",
        all.schedules,
        all.calls,
        took * 1000.0 / all.schedules.max(1) as f64,
        all.steps,
        all.switches,
        all.crashes
    );
    for (kind, seeds) in &failures {
        println!("{} times, first {:?}: {kind}", seeds.len(), &seeds[..seeds.len().min(5)]);
    }
    assert!(failures.is_empty());
}

#[test]
fn a_schedule_replays_from_its_number() {
    for seed in [3, 77, 1234] {
        let traces: Vec<u64> = (0..3)
            .map(|_| {
                let played = std::thread::spawn(move || {
                    play::play(&program_of(seed), seed).map(|p| p.report.trace)
                });
                played.join().unwrap().unwrap_or_else(|e| panic!("schedule {seed}: {e}"))
            })
            .collect();
        assert!(traces.iter().all(|t| *t == traces[0]), "schedule {seed} went {traces:x?}");
    }
}

#[test]
fn what_was_found_stays_away() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interleave/scripts");
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let program = Arc::new(Program::parse(&std::fs::read_to_string(&file).unwrap()));
        assert_eq!(Program::parse(&program.to_string()).to_string(), program.to_string());
        let (_, failure) = search(0, TRIES, move |_| program.clone());
        if let Some((seed, words)) = failure {
            panic!("{}, schedule {seed}: {words}", file.display());
        }
    }
}
