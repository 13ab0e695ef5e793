//! Searches interleavings: programs of a few threads run on a whole Db, its workers among them,
//! under a deterministic scheduler; what every call answered must fit one order
//! (`firn_testkit::linear`), also after closing and opening, in checkpoints and exports, and after
//! a crash in the middle.
//!
//! `RUSTFLAGS="--cfg interleave" CARGO_TARGET_DIR=target/interleave cargo test -p firn-kv --release
//! --test interleave`; with `CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true` the engine's own
//! assertions look on too. In the environment:
//! - `FIRN_INTERLEAVE_SCHEDULES=100000` for so many schedules, `FIRN_INTERLEAVE_SEED=7` for those
//!   from this number on. A schedule's number is all that it depends on, so a failing one is played
//!   again by its number and one schedule.
//! - `FIRN_INTERLEAVE_GO_ON=1` counts failures instead of ending at the first one, which is made
//!   smaller and printed as a script.
//!
//! CallKind was found is kept in `tests/interleave/scripts`: each script is searched again for
//! [`TRIES`] schedules.

#![cfg(interleave)]
#![allow(clippy::disallowed_methods)] // a test may look at the clock and start threads to search in

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

/// Schedules of a run that nobody asked more of.
const SCHEDULES: u64 = 1000;
/// Schedules in which a script is tried.
const TRIES: u64 = 300;
/// Schedules of one program.
const OF_A_PROGRAM: u64 = 5;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is {text:?}"))
        }
        Err(_) => default,
    }
}

/// CallKind a search has met.
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

/// Plays schedules one after the other, in a thread of their own since a failure leaves it in
/// pieces, until one fails.
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

/// CallKind is alike in the words of failures of one kind.
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

/// Takes calls away as long as some schedule still fails in the same way.
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
        // In pieces, so that a long search says how far it is.
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
