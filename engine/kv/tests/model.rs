//! The model test: random histories of operations on a store, each answer compared with that of plain ordered maps; every history
//! under every set of options, so the answers are the same under all of them. Beside that, under some of the sets, threads that write at
//! the same time (`model/threads.rs`).
//!
//! By default the histories hold a million steps in all. In the environment:
//! - `FIRN_MODEL_OPS=20000000` for a longer run: so many steps, over all option sets together.
//! - `FIRN_MODEL_SEED=7` for other histories: the first has this seed, the next one more, and so on.
//!
//! A failure prints the option set, the seed, the step, what was expected and what came, how to run it again, and a shorter
//! history that fails too.

#[path = "model/compare.rs"]
mod compare;
#[path = "model/place.rs"]
mod place;
#[path = "model/run.rs"]
mod run;
#[path = "model/sets.rs"]
mod sets;
#[path = "model/threads.rs"]
mod threads;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use firn_testkit::history::{History, Kind, Step, WEIGHTS, shrink};

use compare::Failure;
use run::Runner;
use sets::{HOOKED, Set};

/// Steps of one history. Fixed, so that a seed is enough to find a failure again.
const STEPS: usize = 10_000;
const DEFAULT_OPS: usize = 1_000_000;
const SHRINK_TRIES: usize = 300;

fn number(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is {text:?}")),
        Err(_) => default,
    }
}

/// Runs steps on a fresh store. On failure: which step, and why.
fn play(set: &Set, seed: u64, steps: impl Iterator<Item = Step>, kinds: &mut BTreeSet<Kind>) -> Result<(), (usize, String)> {
    let mut runner = Runner::new(set, seed);
    let mut at = 0;
    let done = catch_unwind(AssertUnwindSafe(|| -> Result<(), Failure> {
        runner.open()?;
        for step in steps {
            runner.step(&step)?;
            kinds.insert(step.kind);
            at += 1;
        }
        runner.finish()
    }));
    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Failure(words))) => Err((at, words)),
        Err(panic) => {
            // What has panicked may hold locks: it is not closed.
            std::mem::forget(runner);
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err((at, format!("a panic: {}", words.unwrap_or_default())))
        }
    }
}

fn test(name: &str) {
    let all = sets::all();
    let set = all.iter().find(|s| s.name == name).unwrap();
    let ops = number("FIRN_MODEL_OPS", DEFAULT_OPS);
    let first = number("FIRN_MODEL_SEED", 1) as u64;
    let histories = ops.div_ceil(STEPS * all.len()).max(1) as u64;
    let mut kinds = BTreeSet::new();
    for seed in first..first + histories {
        let history = || History::new(seed, HOOKED).take(STEPS);
        let Err((at, words)) = play(set, seed, history(), &mut kinds) else { continue };
        let steps: Vec<Step> = history().take(at + 1).collect();
        eprintln!("option set {name}, seed {seed}, step {at}: {:?}\n{words}", steps.last().map(|s| &s.op));
        eprintln!("again: FIRN_MODEL_SEED={seed} cargo test -p firn-kv --test model {name}");
        let mut last = words;
        let small = shrink(steps, SHRINK_TRIES, |steps| match play(set, seed, steps.iter().cloned(), &mut BTreeSet::new()) {
            Ok(()) => false,
            Err((_, words)) => {
                last = words;
                true
            }
        });
        let lines: Vec<String> = small.iter().rev().take(80).rev().map(|s| format!("  {:?}", s.op)).collect();
        panic!("the last of {} steps that fail too:\n{}\n{last}", small.len(), lines.join("\n"));
    }
    if histories >= 4 {
        let missing: Vec<_> = WEIGHTS.iter().map(|(k, _)| k).filter(|k| !kinds.contains(k)).collect();
        assert!(missing.is_empty(), "these kinds of steps did not occur: {missing:?}");
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test] fn $name() { test(stringify!($name)); })*

        #[test]
        fn every_set_has_a_test() {
            let named = [$(stringify!($name)),*];
            assert!(sets::all().iter().map(|s| s.name).eq(named));
            assert!(named.len() >= 16);
        }
    };
}

tests! {
    inline one_thread two_threads leveled leveled_threads lazy unified unified_threads window fifo no_filter wide_filter
    prefix_filter os_map os_pread small_budget roomy tombstone_age power_log quiet early_merge purge
}
