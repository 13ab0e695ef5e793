//! Crash enumeration: records seeded histories, and opens the disk after a crash at every
//! operation, with every kind of cut.
//!
//! The recovered state must be the state after some prefix of the history's steps, each step whole.
//! The prefix must include everything acknowledged. After a process crash these are all
//! acknowledged steps; after a power cut, the steps acknowledged as durable.
//!
//! Opening never fails. Recovered data stays: the store accepts writes and opens again. A crash
//! during recovery loses nothing either.
//!
//! `FIRN_CRASH_SEEDS=n` runs n histories instead of the default number. `FIRN_CRASH_SEEDS=a..b`
//! runs those with these seeds.

#![allow(clippy::disallowed_methods)] // a test may read the clock to report its duration

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_crash::{CrashEnv, Cut};
use firn_kv::DbOptions;
use firn_kv::internals::wal::TornTail;
use firn_testkit::effort::times_effort;
use firn_testkit::rng::Rng;

use super::history;
use history::{DIR, Step, Store, Trees, checkpoint_dir, difference, same, step};

/// Default number of histories of a run.
const DEFAULT_SEEDS: u64 = 4;
/// Number of lives of a store in one history. Each life after the first begins with the disk that a
/// crash of the previous one left.
const LIVES: usize = 3;
/// Number of steps in one life.
const STEPS: usize = 40;
/// One in this number of images is written to and reopened.
const CONTINUE: u64 = 120;
/// One in this number of images is first opened by a reader.
const READ: u64 = 20;
/// For one in this number of images, recovery itself is crashed at each operation.
const RECRASH: u64 = 1500;

/// A step that was run: the numbers of recorded operations before and after it, and the number of
/// states that are durable from then on.
struct Mark {
    step: Step,
    start: usize,
    end: usize,
    durable: usize,
    /// Whether it had returned when its life ended.
    returned: bool,
}

/// A history from one opening until a crash.
struct Life {
    env: CrashEnv,
    /// `states[k]` is the state after the first `k` steps.
    states: Vec<Trees>,
    marks: Vec<Mark>,
}

/// Range of states that a crash image may show.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: usize,
    high: usize,
}

impl Life {
    /// Runs steps on the disk `env`, which shows the last of `states`. `marks` are the steps that
    /// led there. Steps are numbered from `first`.
    fn live(
        env: CrashEnv,
        states: Vec<Trees>,
        marks: Vec<Mark>,
        first: usize,
        rng: &mut Rng,
    ) -> Life {
        env.start_journal();
        let mut store = Store::closed(Arc::new(env.clone()));
        let mut life = Life { env, states, marks };
        life.take(&mut store, Step::Open);
        for n in 0..STEPS {
            let next = step(rng, life.now(), (first + n) as u32);
            life.take(&mut store, next);
        }
        store.close().unwrap_or_else(|e| panic!("closing: {e}"));
        life
    }

    fn now(&self) -> &Trees {
        self.states.last().unwrap()
    }

    fn take(&mut self, store: &mut Store, step: Step) {
        let start = self.env.journal_len();
        store.run(&step).unwrap_or_else(|e| panic!("{step:?}: {e}"));
        let end = self.env.journal_len();
        let before = self.now().clone();
        let mut state = before.clone();
        step.apply(&mut state);
        self.states.push(state);
        let all = self.states.len() - 1;
        let durable = match &step {
            step if step.is_durable(&before) => all,
            // A flush makes durable the earlier writes of its tree, and all writes before those.
            Step::Flush(t) | Step::Compact(t) => {
                self.marks.iter().rposition(|m| m.step.touches(t)).map_or(0, |i| i + 1)
            }
            _ => 0,
        };
        let durable = durable.max(self.marks.last().map_or(0, |m| m.durable));
        self.marks.push(Mark { step, start, end, durable, returned: true });
    }

    /// Returns the states that are permitted after a crash that follows the first `at` operations.
    fn bounds(&self, at: usize, cut: &Cut) -> Bounds {
        let acknowledged = |at: usize| self.marks.partition_point(|m| m.end <= at);
        let high = self.marks.partition_point(|m| m.start < at || m.end <= at);
        let low = match cut {
            Cut::Process | Cut::PowerAll => acknowledged(at),
            Cut::Torn { .. } => acknowledged(at.saturating_sub(1)),
            _ => acknowledged(at).checked_sub(1).map_or(0, |i| self.marks[i].durable),
        };
        Bounds { low, high }
    }

    /// Returns the newest state within the bounds that equals the contents.
    fn find(&self, content: &history::Content, b: Bounds) -> Option<usize> {
        (b.low..=b.high).rev().find(|&k| same(content, &self.states[k]))
    }

    fn words(&self, at: usize, cut: &Cut, b: Bounds) -> String {
        let op = at.checked_sub(1).and_then(|n| self.env.journal_op(n)).unwrap_or("nothing".into());
        let during = self
            .marks
            .iter()
            .rev()
            .find(|m| m.start < at)
            .map_or("nothing".into(), |m| words_of(&m.step));
        format!(
            "after {at} operations, the last: {op}, during {during}, cut {cut:?}; states {} to {}",
            b.low, b.high
        )
    }
}

fn words_of(step: &Step) -> String {
    let s = format!("{step:?}");
    s.chars().take(100).collect()
}

/// Counts of the images and checks.
#[derive(Default)]
struct Tally {
    images: AtomicU64,
    continued: AtomicU64,
    during_recovery: AtomicU64,
    operations: AtomicU64,
    histories: AtomicU64,
}

type Outcome<T> = Result<T, String>;

/// Opens an image and returns the state that it shows.
fn recover(life: &Life, image: &CrashEnv, b: Bounds) -> Outcome<(usize, Store)> {
    let store =
        Store::open(Arc::new(image.clone()), DIR).map_err(|e| format!("cannot be opened: {e}"))?;
    let content = store.content().map_err(|e| format!("cannot be read: {e}"))?;
    match life.find(&content, b) {
        Some(k) => Ok((k, store)),
        None => {
            let other = (0..life.states.len()).find(|&k| same(&content, &life.states[k]));
            let near = difference(&content, &life.states[b.high]);
            Err(format!(
                "shows state {other:?}; against the newest: {near}; against the oldest: {}",
                { difference(&content, &life.states[b.low]) }
            ))
        }
    }
}

/// Opens an image read-only and returns its state and the torn tail that it reports. A later
/// read-write opening must find the same.
fn read(life: &Life, image: &CrashEnv, b: Bounds) -> Outcome<(usize, Option<TornTail>)> {
    let options = DbOptions { read_only: true, ..history::db_options() };
    let files = image.files().len();
    let store = Store::open_with(Arc::new(image.clone()), DIR, options)
        .map_err(|e| format!("a reader cannot open: {e}"))?;
    let content = store.content().map_err(|e| format!("a reader cannot read: {e}"))?;
    if !store.db().is_read_only() || image.files().len() != files {
        return Err("a reader has written".into());
    }
    let again = store.db().refresh().map_err(|e| format!("a reader cannot refresh: {e}"))?;
    if again.stats().seq != store.db().stats().seq || again.tree_names() != store.db().tree_names()
    {
        return Err("a refreshed reader sees other contents although there is no writer".into());
    }
    let k = life
        .find(&content, b)
        .ok_or_else(|| format!("a reader: {}", difference(&content, &life.states[b.high])))?;
    Ok((k, store.db().torn_log().cloned()))
}

/// Checks that a recovered store is usable: it accepts writes, closes, reopens, and verifies.
fn go_on(life: &Life, k: usize, mut store: Store, image: &CrashEnv, rng: &mut Rng) -> Outcome<()> {
    let said = |what: &'static str| move |e: firn_kv::Error| format!("{what} after recovery: {e}");
    let mut state = life.states[k].clone();
    let mut steps = vec![];
    for n in 0..4 {
        let next = step(rng, &state, 1000 + n);
        steps.push(words_of(&next));
        store.run(&next).map_err(said("a step"))?;
        next.apply(&mut state);
    }
    for round in 0..2 {
        if round == 0 {
            store.run(&Step::Sync).map_err(said("a sync"))?;
            let content = store.content().map_err(said("a scan"))?;
            if !same(&content, &state) {
                return Err(format!(
                    "after recovery to {k}, {steps:?}: {}",
                    difference(&content, &state)
                ));
            }
            let after = image.crash_image(0, &Cut::PowerNone);
            let again = Store::open(Arc::new(after), DIR).map_err(said("a second crash"))?;
            let content = again.content().map_err(said("a scan"))?;
            if !same(&content, &state) {
                return Err(format!(
                    "after recovery to {k}, {steps:?}, sync and a power cut: {}",
                    difference(&content, &state)
                ));
            }
        }
        store.run(&Step::Reopen).map_err(said("reopening"))?;
        let content = store.content().map_err(said("a scan"))?;
        if !same(&content, &state) {
            return Err(format!(
                "after recovery to {k}, {steps:?} and reopening {round}: {}",
                difference(&content, &state)
            ));
        }
        for name in store.names() {
            store.tree(&name).compact().map_err(said("a compaction"))?;
        }
        let verified = store.db().verify(|_, _| {}).map_err(said("verify"))?;
        if let Some(e) = verified.errors.first() {
            return Err(said("verify")(e.clone()));
        }
    }
    Ok(())
}

/// Crashes the recovery of an image at each of its operations.
fn crash_recovery(
    life: &Life,
    at: usize,
    image: &CrashEnv,
    cut: &Cut,
    rng: &mut Rng,
    tally: &Tally,
) -> Outcome<()> {
    let disk = image.fork();
    disk.start_journal();
    let (k, store) = recover(life, &disk, life.bounds(at, cut))?;
    let open = disk.journal_len();
    drop(store);
    let mut crasher = disk.crasher();
    loop {
        let mut cuts =
            vec![Cut::Process, Cut::PowerAll, Cut::PowerNone, Cut::PowerRandom(rng.next_u64())];
        cuts.push(Cut::PowerData { keep_entries: rng.one_in(2), keep_data: rng.one_in(2) });
        cuts.extend(
            crasher.last_write().filter(|n| *n > 1).map(|n| Cut::Torn { bytes: rng.range(1..n) }),
        );
        for second in &cuts {
            tally.during_recovery.fetch_add(1, Ordering::Relaxed);
            // Data left by a power cut is durable. Recovered data is durable too once the opening
            // has returned.
            let kept = matches!(second, Cut::Process | Cut::PowerAll | Cut::Torn { .. });
            let exact = *cut != Cut::Process || kept || crasher.at() >= open;
            let b = if exact { Bounds { low: k, high: k } } else { life.bounds(at, second) };
            recover(life, &crasher.image(second), b).map_err(|e| {
                let op = crasher.last_op().unwrap_or("nothing".into());
                format!("recovered to {k}, then again after {} operations of that ({op}), cut {second:?}: {e}", crasher.at())
            })?;
        }
        if !crasher.advance() {
            return Ok(());
        }
    }
}

/// Returns all cuts at one operation.
fn cuts(last_write: Option<u64>, rng: &mut Rng) -> Vec<Cut> {
    let mut cuts = vec![
        Cut::Process,
        Cut::PowerAll,
        Cut::PowerNone,
        Cut::PowerData { keep_entries: true, keep_data: false },
        Cut::PowerData { keep_entries: false, keep_data: true },
    ];
    cuts.extend((0..3).map(|_| Cut::PowerRandom(rng.next_u64())));
    if let Some(n) = last_write {
        let mut at = vec![0, n / 2, n.saturating_sub(1), rng.below(n)];
        at.dedup();
        cuts.extend(at.into_iter().map(|bytes| Cut::Torn { bytes }));
    }
    cuts
}

/// Checks that all checkpoints acknowledged by then open with the right contents, and that the
/// exported files are whole.
fn check_copies(life: &Life, image: &CrashEnv, at: usize) -> Outcome<()> {
    for (i, m) in life.marks.iter().enumerate().filter(|(_, m)| m.end <= at && m.returned) {
        if let Step::Copy(from, _, n) = m.step {
            let scratch =
                firn_kv::Db::open_in(Arc::new(image.fork()), "/scratch", history::db_options());
            let tree = scratch
                .and_then(|db| db.tree("t", firn_kv::TreeOptions::default()))
                .map_err(|e| format!("scratch: {e}"))?;
            let imported =
                tree.import(history::export_file(n)).map_err(|e| format!("export {n}: {e}"))?;
            let want = life.states[i].get(from).map_or(0, |m| m.len() as u64);
            if imported != want {
                return Err(format!("export {n} has {imported} pairs instead of {want}"));
            }
        }
        let Step::Checkpoint(n) = m.step else { continue };
        let copy = Store::open(Arc::new(image.fork()), &checkpoint_dir(n))
            .map_err(|e| format!("checkpoint {n}: {e}"))?;
        let content = copy.content().map_err(|e| format!("checkpoint {n}: {e}"))?;
        if !same(&content, &life.states[i + 1]) {
            return Err(format!("checkpoint {n}: {}", difference(&content, &life.states[i + 1])));
        }
    }
    Ok(())
}

fn enumerate(life: &Life, rng: &mut Rng, tally: &Tally) -> Outcome<()> {
    let mut crasher = life.env.crasher();
    loop {
        let at = crasher.at();
        for cut in cuts(crasher.last_write(), rng) {
            let b = life.bounds(at, &cut);
            let image = crasher.image(&cut);
            let again = rng.one_in(RECRASH).then(|| image.fork());
            let is_there = || image.files().iter().any(|f| f.ends_with("CURRENT"));
            let seen = (rng.one_in(READ) && is_there()).then(|| read(life, &image, b)).transpose();
            let tried = seen
                .and_then(|seen| recover(life, &image, b).map(|found| (seen, found)))
                .and_then(|(seen, (k, store))| {
                    let found = (k, store.db().torn_log().cloned());
                    if seen.as_ref().is_some_and(|seen| *seen != found) {
                        return Err(format!("a reader saw {seen:?}, a writer {found:?}"));
                    }
                    if rng.one_in(CONTINUE) {
                        tally.continued.fetch_add(1, Ordering::Relaxed);
                        check_copies(life, &image, at)?;
                        go_on(life, k, store, &image, rng)?;
                    }
                    again.map_or(Ok(()), |disk| crash_recovery(life, at, &disk, &cut, rng, tally))
                });
            tried.map_err(|e| format!("{}: {e}", life.words(at, &cut, b)))?;
            tally.images.fetch_add(1, Ordering::Relaxed);
        }
        if !crasher.advance() {
            break;
        }
    }
    tally.operations.fetch_add(life.env.journal_len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Runs one history: lives that end in crashes, each with every cut at every operation.
fn one(seed: u64, tally: &Tally) -> Outcome<()> {
    let mut rng = Rng::new(seed);
    let (mut disk, mut states, mut marks) = (CrashEnv::new(seed), vec![Trees::new()], vec![]);
    if seed.is_multiple_of(2) {
        // With little memory the log removes segments instead of reusing them, and blocks are never
        // served from a memory map.
        disk.set_memory(Some(64 << 10));
    }
    for n in 0..LIVES {
        let mut life = Life::live(disk, states, marks, n * STEPS, &mut rng.fork());
        enumerate(&life, &mut rng.fork(), tally)
            .map_err(|e| format!("seed {seed}, life {n}, {e}"))?;
        // The next life begins at a crash close to the end of this one.
        let at = life.env.journal_len() - rng.below(20) as usize;
        let cut = *rng.choose(&[Cut::Process, Cut::PowerNone, Cut::PowerRandom(seed)]).unwrap();
        disk = life.env.crash_image(at, &cut);
        let (k, _) = recover(&life, &disk.fork(), life.bounds(at, &cut))?;
        // Writes of the dead process are visible, but a power cut may still lose those that were
        // not durable.
        let from = if cut == Cut::Process { 0 } else { k };
        states = life.states.drain(from..=k).collect();
        // A step that had not returned acknowledged nothing, though its effect may be visible.
        let durable = life.bounds(at, &Cut::PowerNone).low;
        let past = |m: Mark| Mark {
            start: 0,
            end: 0,
            durable: m.durable.min(durable),
            returned: m.end <= at,
            ..m
        };
        marks = life.marks.drain(from..k).map(past).collect();
    }
    tally.histories.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("FIRN_CRASH_SEEDS") else { return 0..times_effort(DEFAULT_SEEDS) };
    match text.split_once("..") {
        Some((a, b)) => a.parse().unwrap()..b.parse().unwrap(),
        None => 0..text.parse().unwrap(),
    }
}

#[test]
fn a_crash_anywhere_leaves_a_prefix_with_all_that_was_acknowledged() {
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
        "{} histories of {} disk operations in all; {} crash images opened and read, {} of them written to and reopened; {} images \
         of crashed recoveries; {:.1} s",
        n(&tally.histories),
        n(&tally.operations),
        n(&tally.images),
        n(&tally.continued),
        n(&tally.during_recovery),
        from.elapsed().as_secs_f64()
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(
        std::env::var("FIRN_CRASH_SEEDS").is_ok()
            || n(&tally.images) + n(&tally.during_recovery) >= 3_500 * times_effort(DEFAULT_SEEDS)
    );
}
