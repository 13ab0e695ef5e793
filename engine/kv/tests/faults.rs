//! Fails the nth I/O operation of seeded histories, for every n and every kind of fault.
//!
//! A history runs until the fault occurs. Then the device is healthy again, and the following must
//! hold:
//! - The store is readable at once and shows everything acknowledged. The failed step is wholly
//!   present or wholly absent.
//! - The store accepts further writes, or is read-only and reports it.
//! - It has exactly the same contents after reopening, after a process crash and after a power cut.
//! - Every error names the failed operation and the file.
//! - An interrupted call (`EINTR`) is never visible.
//!
//! `FIRN_FAULT_SEEDS=n` runs n histories instead of the default number. `FIRN_FAULT_SEEDS=a..b`
//! runs those with these seeds.

#![allow(clippy::disallowed_methods)] // a test may read the clock to report its duration

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::{DbOptions, Durability, Error, ErrorKind, OpenFiles, ReadMode};
use firn_testkit::effort::times_effort;
use firn_testkit::rng::Rng;

use super::history;
use history::{Change, DIR, Step, Store, Trees, checkpoint_dir, difference, same, step};

/// Default number of histories of a run.
const DEFAULT_SEEDS: u64 = 3;
/// Number of steps of a history.
const STEPS: usize = 18;
/// Maximum number of steps after the fault.
const AFTER: usize = 5;

const PLANS: [Plan; 8] = [
    Plan { fault: Fault::Eio, lasting: false },
    Plan { fault: Fault::Eio, lasting: true },
    Plan { fault: Fault::Enospc, lasting: false },
    Plan { fault: Fault::Enospc, lasting: true },
    Plan { fault: Fault::ShortWrite, lasting: false },
    Plan { fault: Fault::SyncFails, lasting: false },
    Plan { fault: Fault::SyncFails, lasting: true },
    Plan { fault: Fault::Eintr, lasting: true },
];

/// Returns the classes of operations that a fault can affect. Only these are counted.
fn classes(fault: Fault) -> &'static [OpClass] {
    match fault {
        Fault::Enospc => &[OpClass::Write, OpClass::Sync, OpClass::Dir],
        Fault::ShortWrite => &[OpClass::Write],
        Fault::SyncFails => &[OpClass::Sync],
        _ => &[],
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    fault: Fault,
    /// Whether all operations from the nth on fail.
    lasting: bool,
}

type Outcome<T> = Result<T, String>;

/// Steps of a history, and its store options.
struct History {
    seed: u64,
    steps: Vec<Step>,
    options: DbOptions,
}

impl History {
    fn new(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let mut trees = Trees::new();
        let mut steps = vec![Step::Open];
        for n in 0..STEPS {
            let next = step(&mut rng, &trees, n as u32);
            next.apply(&mut trees);
            steps.push(next);
        }
        // Block reads can fail only if blocks are read with system calls.
        let read_mode = if seed.is_multiple_of(2) { ReadMode::Pread } else { ReadMode::Mmap };
        History { seed, steps, options: DbOptions { read_mode, ..history::db_options() } }
    }
}

/// The known contents of the store.
struct Known {
    /// Acknowledged state.
    now: Trees,
    /// State if the failed step happened after all, or did not happen although it appears so. Until
    /// a later step is acknowledged, a reopening may show either state.
    or: Option<Trees>,
    /// States that a power cut may leave; the first is the last durable one.
    since_durable: Vec<Trees>,
}

impl Known {
    fn new() -> Known {
        Known { now: Trees::new(), or: None, since_durable: vec![Trees::new()] }
    }

    fn acknowledge(&mut self, step: &Step) {
        let durable = step.is_durable(&self.now);
        step.apply(&mut self.now);
        self.or = None;
        if durable {
            self.since_durable.clear();
        }
        self.since_durable.push(self.now.clone());
    }

    fn fails(&mut self, step: &Step) {
        let mut or = self.now.clone();
        step.apply(&mut or);
        self.since_durable.push(or.clone());
        self.or = Some(or);
    }

    /// Determines which of the two states holds: reports whether the failed step happened after
    /// all.
    fn resolve(&mut self, content: &history::Content) -> Outcome<bool> {
        match &mut self.or {
            _ if same(content, &self.now) => Ok(false),
            Some(or) if same(content, or) => {
                std::mem::swap(or, &mut self.now);
                Ok(true)
            }
            _ => Err(difference(content, &self.now)),
        }
    }
}

/// Checks that an error names the failed operation and the file.
fn check_words(e: &Error, what: &Step) -> Outcome<()> {
    let placed = e.file().is_some();
    let sound = match e.kind() {
        ErrorKind::Io | ErrorKind::NoSpace => placed && e.message().contains("cannot "),
        // The read-only state passes on its cause.
        ErrorKind::ReadOnly => e.to_string().len() > 40,
        _ => false,
    };
    if sound {
        Ok(())
    } else {
        Err(format!("{} failed with {e}, an incomplete message", words(what)))
    }
}

fn words(step: &Step) -> String {
    format!("{step:?}").chars().take(80).collect()
}

/// Returns a write that a store can always accept.
fn probe(trees: &Trees) -> Option<Step> {
    let tree = trees.keys().next()?;
    Some(Step::Write(
        vec![Change::Put(tree, b"probe".to_vec(), b"it takes writes".to_vec())],
        Durability::Process,
    ))
}

struct Trial {
    plan: Plan,
    threads: usize,
    disk: CrashEnv,
    env: FaultEnv,
    store: Store,
    known: Known,
    latched: bool,
}

impl Trial {
    /// Runs the history and fails operation `n`. Returns false if the history has fewer operations.
    fn run(history: &History, plan: Plan, n: u64, threads: usize) -> Outcome<bool> {
        let disk = CrashEnv::new(history.seed);
        let env = FaultEnv::new(Arc::new(disk.clone()));
        env.only(classes(plan.fault));
        if plan.lasting {
            env.fail_from(n, plan.fault)
        } else {
            env.fail_nth(n, plan.fault)
        }
        // Use a separate limit of open files, because trials run concurrently.
        let open_files = Some(OpenFiles::new(history::FILES));
        let options =
            DbOptions { background_threads: threads, open_files, ..history.options.clone() };
        let store = Store::closed_with(Arc::new(env.clone()), options);
        let mut t = Trial { plan, threads, disk, env, store, known: Known::new(), latched: false };
        let mut rest = history.steps.iter();
        for (i, step) in rest.by_ref().enumerate() {
            match t.store.run(step) {
                Ok(()) => t.known.acknowledge(step),
                Err(e) => {
                    t.after(step, &e, &history.steps[i + 1..])?;
                    return Ok(true);
                }
            }
        }
        let met = t.env.count() > n;
        t.env.heal();
        t.finish()?;
        Ok(met)
    }

    /// Checks that the store is sound after a failed step.
    fn after(&mut self, step: &Step, e: &Error, rest: &[Step]) -> Outcome<()> {
        if self.plan.fault == Fault::Eintr {
            return Err(format!(
                "{} failed with {e}, but the call was only interrupted",
                words(step)
            ));
        }
        check_words(e, step)?;
        self.known.fails(step);
        self.env.heal();
        if !self.store.is_open() {
            self.store.run(&Step::Open).map_err(|e| format!("cannot be opened again: {e}"))?;
        }
        let happened = self.look("at once")?;
        // Repeating the call completes a tree creation or drop; `NotFound` means that the tree was
        // dropped.
        let pending = match step {
            Step::Create(_) => true,
            Step::Drop(t) => self.store.db().tree_names().iter().any(|n| n == t),
            _ => !happened,
        };
        if let Step::Checkpoint(n) = step
            && self.plan.lasting
        {
            // The fault also prevented the store from removing its links, so the user removes them.
            let dir = PathBuf::from(checkpoint_dir(*n));
            for name in self.disk.list(&dir).unwrap_or_default() {
                self.disk.remove(&dir.join(name)).map_err(|e| e.to_string())?;
            }
        }
        let again = pending.then_some(step).into_iter();
        for next in again.chain(rest).take(AFTER) {
            match self.store.run(next) {
                Ok(()) => self.known.acknowledge(next),
                Err(e) if e.kind() == ErrorKind::ReadOnly => {
                    check_words(&e, next)?;
                    self.latched()?;
                    break;
                }
                Err(e) => {
                    return Err(format!(
                        "{} failed on a device that is healthy again: {e}",
                        words(next)
                    ));
                }
            }
        }
        self.finish()
    }

    /// Checks that a read-only store stays read-only, refuses every write with that reason, and
    /// still serves reads.
    fn latched(&mut self) -> Outcome<()> {
        self.latched = true;
        self.look("when latched")?;
        let Some(step) = probe(&self.known.now) else { return Ok(()) };
        for _ in 0..2 {
            match self.store.run(&step) {
                Err(e) if e.kind() == ErrorKind::ReadOnly => check_words(&e, &step)?,
                other => return Err(format!("a latched store answered a write with {other:?}")),
            }
        }
        self.look("when latched, after more writes").map(|_| ())
    }

    /// Reads everything and reports whether the failed step happened after all.
    fn look(&mut self, when: &str) -> Outcome<bool> {
        let content = self.store.content().map_err(|e| format!("cannot be read {when}: {e}"))?;
        self.known.resolve(&content).map_err(|e| format!("{when}: {e}"))
    }

    /// Checks the final contents: now, after a process crash, and after a power cut.
    fn finish(&mut self) -> Outcome<()> {
        self.look("in the end")?;
        // Threads may change the disk between the two checks.
        if self.threads == 0 {
            self.reopen(self.disk.crash_image(0, &Cut::Process), "after a crash", false)?;
            self.reopen(self.disk.crash_image(0, &Cut::PowerNone), "after a power cut", true)?;
        }
        match self.store.close() {
            Ok(()) if self.latched => {
                return Err("closing a latched store returned no error".into());
            }
            Err(e) if e.kind() != ErrorKind::ReadOnly => {
                return Err(format!("cannot be closed on a device that is healthy again: {e}"));
            }
            _ => {}
        }
        let disk = self.disk.clone();
        self.reopen(disk, "when opened again", false)
    }

    fn reopen(&self, disk: CrashEnv, when: &str, power: bool) -> Outcome<()> {
        let failed = |e: Error| format!("{when}: {e}");
        let mut store = Store::open(Arc::new(disk.clone()), DIR).map_err(failed)?;
        self.nothing_leaks(&store, &disk).map_err(|e| format!("{when}: {e}"))?;
        let content = store.content().map_err(failed)?;
        let found = if power {
            self.known.since_durable.iter().rev().find(|s| same(&content, s))
        } else {
            [Some(&self.known.now), self.known.or.as_ref()]
                .into_iter()
                .flatten()
                .find(|s| same(&content, s))
        };
        let Some(state) = found else {
            return Err(format!("{when}: {}", difference(&content, &self.known.now)));
        };
        if let Some(step) = probe(state) {
            store.run(&step).map_err(failed)?;
        }
        if power {
            let verified = store.db().verify(|_, _| {}).map_err(failed)?;
            if let Some(e) = verified.errors.first() {
                return Err(failed(e.clone()));
            }
        }
        Ok(())
    }

    /// Checks that a store that was just opened has no obsolete files.
    fn nothing_leaks(&self, store: &Store, disk: &CrashEnv) -> Outcome<()> {
        let names = disk.list(Path::new(DIR)).map_err(|e| e.to_string())?;
        let count = |suffix: &str| names.iter().filter(|n| n.ends_with(suffix)).count();
        let live: usize =
            store.db().stats().trees.iter().flat_map(|t| &t.runs).map(|r| r.tables).sum();
        let manifests = names.iter().filter(|n| n.starts_with("MANIFEST-")).count();
        let known = count(".sst") + count(".wal") + manifests + 2;
        if count(".sst") != live || manifests != 1 || known != names.len() {
            return Err(format!("{live} tables are live, and these files are there: {names:?}"));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Tally {
    runs: AtomicU64,
    operations: AtomicU64,
}

/// Runs one history with every kind of fault at every operation.
fn one(seed: u64, tally: &Tally) -> Outcome<()> {
    let history = History::new(seed);
    for plan in PLANS {
        let mut n = 0;
        loop {
            let met = Trial::run(&history, plan, n, 0)
                .map_err(|e| format!("seed {seed}, {plan:?}, operation {n}: {e}"))?;
            tally.runs.fetch_add(1, Ordering::Relaxed);
            // One run meets all interruptions.
            if !met || plan.fault == Fault::Eintr {
                break;
            }
            n += 1;
        }
        tally.operations.fetch_max(n, Ordering::Relaxed);
    }
    Ok(())
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("FIRN_FAULT_SEEDS") else { return 0..times_effort(DEFAULT_SEEDS) };
    match text.split_once("..") {
        Some((a, b)) => a.parse().unwrap()..b.parse().unwrap(),
        None => 0..text.parse().unwrap(),
    }
}

#[test]
fn the_nth_operation_fails_and_nothing_is_lost() {
    let tally = Tally::default();
    let next = AtomicU64::new(seeds().start);
    let stop = AtomicBool::new(false);
    let failures = Mutex::new(vec![]);
    let from = std::time::Instant::now();
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds().end {
                        return;
                    }
                    if let Err(e) = one(seed, &tally) {
                        stop.store(true, Ordering::Relaxed);
                        failures.lock().unwrap().push(e);
                    }
                }
            });
        }
    });
    let n = |a: &AtomicU64| a.load(Ordering::Relaxed);
    println!(
        "{} histories of up to {} operations; {} runs, each with one of {} kinds of fault; {:.1} s",
        seeds().count(),
        n(&tally.operations),
        n(&tally.runs),
        PLANS.len(),
        from.elapsed().as_secs_f64()
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The same test with background threads, for some values of n. There the nth operation differs
/// between runs.
#[test]
fn faults_in_the_background_lose_nothing() {
    let history = History::new(100);
    let mut runs = 0;
    for plan in PLANS {
        let mut n = 0;
        while Trial::run(&history, plan, n, 2)
            .unwrap_or_else(|e| panic!("{plan:?}, operation {n}: {e}"))
        {
            if plan.fault == Fault::Eintr {
                break;
            }
            n += 7;
            runs += 1;
        }
    }
    println!("{runs} runs with background threads");
}
