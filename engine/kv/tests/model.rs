//! The model test. It runs random histories of operations on a store and compares each result with
//! that of plain ordered maps. Each history draws the options of its store and trees from its seed
//! (`model/setup.rs`). Other tests run several threads at the same time (`model/threads.rs`).
//!
//! By default all histories together have 320,000 steps, times `FIRN_TEST_EFFORT`. Environment
//! variables:
//! - `FIRN_MODEL_OPS=20000000` sets the total number of steps, for a longer run.
//! - `FIRN_MODEL_SEED=7` selects other histories. The first has this seed, and each further history
//!   adds one.
//! - `FIRN_MODEL_SCRIPT=FILE` also plays this script.
//!
//! A failure prints the options, the seed, the step, the expected result and the actual result. It
//! also prints a shorter history that fails, as a script. The tests always play the scripts in
//! `tests/model/scripts`.

#![allow(clippy::disallowed_methods, reason = "scripts and temporary directories")]

mod compare;
mod hooks;
mod place;
mod run;
mod setup;
mod threads;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use firn_testkit::effort::times_effort;
use firn_testkit::history::{History, HistoryOp, Script, WEIGHTS};
use firn_testkit::shrink::shrink;

use compare::Failure;
use run::Runner;
use setup::{HOOKED, Setup};

/// Number of steps of one history. It is fixed, so that the seed alone reproduces a failure.
const STEPS: usize = 10_000;
const DEFAULT_OPS: usize = 320_000;
const SHRINK_TRIES: usize = 400;
/// Number of tests that share the histories. They run in parallel.
const SHARES: u64 = 8;

fn number(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is {text:?}"))
        }
        Err(_) => default,
    }
}

/// Runs steps on a fresh store. On failure, returns the step and the reason.
fn play<'s>(seed: u64, steps: impl Iterator<Item = &'s HistoryOp>) -> Result<(), (usize, String)> {
    let setup = Setup::of(seed);
    let mut runner = Runner::new(&setup);
    let mut at = 0;
    let done = catch_unwind(AssertUnwindSafe(|| -> Result<(), Failure> {
        runner.open()?;
        for op in steps {
            runner.step(op)?;
            at += 1;
        }
        runner.finish()
    }));
    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Failure(words))) => Err((at, words)),
        Err(panic) => {
            runner.abandon();
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err((at, format!("a panic: {}", words.unwrap_or_else(|| "no message".into()))))
        }
    }
}

/// Returns the report of a failure: how to reproduce it, and the shortest failing script found.
fn report(
    seed: u64,
    steps: &[HistoryOp],
    at: usize,
    words: String,
    fails: impl Fn(&[HistoryOp]) -> Option<String>,
) -> String {
    let mut last = words.clone();
    let steps = &steps[..steps.len().min(at + 1)];
    let small = shrink(steps.to_vec(), SHRINK_TRIES, |steps| {
        let failed = fails(steps);
        let fails = failed.is_some();
        last = failed.unwrap_or(std::mem::take(&mut last));
        fails
    });
    let script = Script { seed, steps: small };
    format!(
        "seed {seed}, step {at}: {:?}\n{words}\n{:#?}\nagain: FIRN_MODEL_SEED={seed} FIRN_MODEL_OPS={STEPS} cargo test -p firn-kv --test \
         main model::histories\na script of {} steps that fails too (FIRN_MODEL_SCRIPT=FILE plays it):\n{script}# {last}\n",
        steps.last(),
        Setup::of(seed),
        script.steps.len(),
    )
}

fn share(n: u64) {
    let ops = number("FIRN_MODEL_OPS", times_effort(DEFAULT_OPS as u64) as usize);
    let first = number("FIRN_MODEL_SEED", 1) as u64;
    let all = ops.div_ceil(STEPS).max(1) as u64;
    let mut kinds = BTreeSet::new();
    let seeds = (first + n..first + all).step_by(SHARES as usize);
    let count = seeds.clone().count();
    for seed in seeds {
        let steps: Vec<HistoryOp> = History::new(seed, HOOKED)
            .take(STEPS)
            .map(|s| {
                kinds.insert(s.kind);
                s.op
            })
            .collect();
        if let Err((at, words)) = play(seed, steps.iter()) {
            panic!(
                "{}",
                report(seed, &steps, at, words, |steps| play(seed, steps.iter())
                    .err()
                    .map(|e| e.1))
            );
        }
    }
    if count >= 4 {
        let missing: Vec<_> =
            WEIGHTS.iter().map(|(k, _)| k).filter(|k| !kinds.contains(k)).collect();
        assert!(missing.is_empty(), "these kinds of steps never occurred: {missing:?}");
    }
}

macro_rules! shares {
    ($($name:ident $n:literal)*) => {
        $(#[test] fn $name() { share($n); })*

        #[test]
        fn every_history_is_of_one_share() {
            assert!([$($n),*].into_iter().eq(0..SHARES));
        }
    };
}

shares! { histories_0 0 histories_1 1 histories_2 2 histories_3 3 histories_4 4 histories_5 5 histories_6 6 histories_7 7 }

fn play_script(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let script = Script::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    if let Err((at, words)) = play(script.seed, script.steps.iter()) {
        panic!(
            "{}, step {at}: {:?}\n{words}\n{:#?}",
            file.display(),
            script.steps.get(at),
            Setup::of(script.seed)
        );
    }
}

#[test]
fn what_was_found_stays_away() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/scripts");
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.extend(std::env::var_os("FIRN_MODEL_SCRIPT").map(Into::into));
    files.iter().for_each(|f| play_script(f));
}

/// Simulates a store that loses puts after an ingestion into a tree that was reopened.
#[test]
fn a_failure_is_reported_with_a_script_that_repeats_it() {
    let seed = 4;
    let steps: Vec<HistoryOp> = History::new(seed, HOOKED).take(3000).map(|s| s.op).collect();
    let fails = |steps: &[HistoryOp]| {
        let mut rest = steps.iter();
        let ingested = rest.find_map(|op| {
            if let HistoryOp::Ingest { tree, .. } = op { Some(*tree) } else { None }
        })?;
        rest.find(|op| matches!(op, HistoryOp::Reopen))?;
        rest.find(|op| matches!(op, HistoryOp::Write { tree, .. } if *tree == ingested))?;
        Some("it is lost".into())
    };
    let told = report(seed, &steps, steps.len(), "lost".into(), fails);
    let (_, script) = told.split_once("plays it):\n").unwrap();
    let script = Script::parse(script).unwrap_or_else(|e| panic!("{e}: {told}"));
    assert!(
        script.seed == seed && script.steps.len() == 3 && fails(&script.steps).is_some(),
        "{told}"
    );
    assert!(
        told.contains("# it is lost") && told.contains("block_size") || told.contains("DbOptions"),
        "{told}"
    );
}
