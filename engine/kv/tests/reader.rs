//! A reader opens a store while a writer changes it. The writer acts between any two operations of
//! the opening: it fills and flushes memtables, compacts tables, and releases and reuses log
//! segments. It also ingests tables, creates trees and begins manifests. The reader must show the
//! state of the store at one moment during the opening. One thread does everything, so each case is
//! deterministic.

#![allow(clippy::disallowed_methods, reason = "the test starts a process and uses a directory")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firn_crash::{CrashEnv, FaultEnv, OpClass};
use firn_kv::Env;
use firn_kv::internals::util::elsewhere;
use firn_kv::{Batch, Db, DbOptions, ErrorKind, Tree, TreeOptions};
use firn_testkit::process::command;

const DIR: &str = "/db";
const TREES: [&str; 3] = ["a", "b", "c"];

fn options() -> DbOptions {
    DbOptions {
        background_threads: 0,
        memory_budget: 4 << 20,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn tree_options() -> TreeOptions {
    TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() }
}

fn is_ingestion(step: u64) -> bool {
    step.is_multiple_of(8)
}

/// Returns the name of the tree that a step creates and that the second next step drops.
fn other_name(step: u64) -> String {
    format!("other {step}")
}

/// Writer that leaves a mark with the step's number in every step. The marks show which steps a
/// reader sees.
struct Writer {
    env: CrashEnv,
    open: Mutex<Option<(Db, Vec<Tree>)>>,
    /// Number of completed steps.
    steps: AtomicU64,
}

impl Writer {
    /// Creates a store and runs `steps` steps.
    fn new(steps: u64) -> Writer {
        let w = Writer { env: CrashEnv::new(1), open: Mutex::default(), steps: AtomicU64::new(0) };
        w.reopen();
        (0..steps).for_each(|_| w.step());
        w
    }

    /// Returns another writer that continues on a copy of the store.
    fn fork(&self) -> Arc<Writer> {
        let w = Writer {
            env: self.env.fork(),
            open: Mutex::default(),
            steps: AtomicU64::new(self.done()),
        };
        w.reopen();
        Arc::new(w)
    }

    fn reopen(&self) {
        let mut open = self.open.lock().unwrap();
        *open = None;
        if (self.done() / 11).is_multiple_of(2) {
            // Leftover files of a crash make the opening begin another manifest instead of
            // appending to the existing one.
            self.env.create_dir_all(DIR.as_ref()).unwrap();
            self.env.write_file(format!("{DIR}/CURRENT.tmp").as_ref(), b"").unwrap();
        }
        let db = Db::open_in(Arc::new(self.env.clone()), DIR, options()).unwrap();
        let trees = TREES.map(|name| db.tree(name, tree_options()).unwrap()).into();
        *open = Some((db, trees));
    }

    /// Runs one step with number `n`. It puts `n` into all trees in one batch, except for a tree
    /// that receives it by ingestion. It then performs an operation that depends on `n`, and puts
    /// its mark.
    fn step(&self) {
        let n = self.steps.load(Ordering::Relaxed) + 1;
        if n.is_multiple_of(11) {
            self.reopen();
        }
        let open = self.open.lock().unwrap();
        let (db, trees) = open.as_ref().unwrap();
        let mut batch = Batch::new();
        let (one, another) = (&trees[n as usize % 3], &trees[(n as usize + 1) % 3]);
        let put_into = |t: &&Tree| !is_ingestion(n) || t.name() != one.name();
        trees
            .iter()
            .filter(put_into)
            .for_each(|t| batch.put(t, &n.to_be_bytes(), &[n as u8; 3000]).unwrap());
        db.write(batch).unwrap();
        match n % 8 {
            0 => drop(one.ingest([(n.to_be_bytes(), [n as u8; 3000])]).unwrap()),
            1 => one.compact().unwrap(),
            2 => {
                let other = db.tree(&other_name(n), tree_options()).unwrap();
                other.put(b"key", &[7; 500]).unwrap();
            }
            4 => db.drop_tree(&other_name(n - 2)).unwrap(),
            _ => one.flush().unwrap(),
        }
        if n.is_multiple_of(3) {
            trees.iter().for_each(|t| t.flush().unwrap());
        }
        another.put(&[0xff], &n.to_be_bytes()).unwrap();
        self.steps.store(n, Ordering::Relaxed);
    }

    fn done(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// Returns the step numbers and the mark that each tree of a reader shows.
fn shown(db: &Db) -> BTreeMap<&'static str, (Vec<u64>, u64)> {
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let of = |name| {
        let tree = db.existing_tree(name).unwrap();
        let steps = tree.range(..[0xff]);
        let steps = steps.map(|pair| pair.unwrap()).map(|(k, v)| {
            assert_eq!(&v[..], [number(&k) as u8; 3000]);
            number(&k)
        });
        (name, (steps.collect(), tree.get(&[0xff]).unwrap().map_or(0, |v| number(&v))))
    };
    TREES.into_iter().map(of).collect()
}

/// How a reader obtains the current state.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Opens,
    /// The reader was opened this number of steps before, and refreshes.
    Refreshes(u64),
}

/// Opens or refreshes a reader. At each operation of the reader, `busy` decides whether the writer
/// runs a step. Returns the number of the reader's operations.
fn read_beside(
    writer: &Arc<Writer>,
    how: How,
    busy: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> u64 {
    let env = FaultEnv::new(Arc::new(writer.env.clone()));
    env.only(&[OpClass::Read]);
    let open = || {
        Db::open_in(Arc::new(env.clone()), DIR, DbOptions { read_only: true, ..options() }).unwrap()
    };
    let old = if let How::Refreshes(steps) = how { Some((open(), steps)) } else { None };
    let held = old.as_ref().map(|(db, steps)| {
        let held = (shown(db), db.snapshot(), db.existing_tree("a").unwrap().iter());
        (0..*steps).for_each(|_| writer.step());
        held
    });
    let first = env.count();
    let before = writer.done();
    let beside = writer.clone();
    env.call_each(move |n| {
        if n >= first && busy(n - first) {
            // The writer stands for another process: it takes its locks as if this thread had none.
            elsewhere(|| beside.step());
        }
    });
    let db = old.as_ref().map_or_else(open, |(old, _)| old.refresh().unwrap());
    let (operations, after) = (env.count() - first, writer.done());
    env.call_each(|_| {});
    let all = shown(&db);
    let last = all.values().flat_map(|(steps, _)| steps.last().copied()).max().unwrap_or(0);
    assert!(
        (before..=after).contains(&last),
        "the reader sees step {last}, expected {before} to {after}"
    );
    let marks = all.values().map(|(_, mark)| *mark).max().unwrap();
    assert!(
        marks == last || marks + 1 == last,
        "the reader sees step {last} and the mark of step {marks}"
    );
    for (name, (steps, mark)) in &all {
        // An ingestion comes after its step's batch and before its mark.
        let least = if is_ingestion(last) && marks < last && *name == TREES[last as usize % 3] {
            last - 1
        } else {
            last
        };
        let seen = steps.last().copied().unwrap_or(0);
        assert!(
            steps.iter().copied().eq(1..=seen) && seen >= least,
            "tree {name} of {last} steps, mark {marks}: {steps:?}"
        );
        assert!(
            *mark + 3 > marks && marks >= *mark,
            "tree {name} has mark {mark} where the newest mark is {marks}"
        );
    }
    for step in (2..=last).step_by(8) {
        let other = db.existing_tree(&other_name(step));
        let is_there = other.is_ok_and(|t| t.contains(b"key").unwrap());
        assert!(
            (!is_there || marks < step + 2) && (is_there || marks < step || last >= step + 2),
            "the tree of step {step} is {}visible with mark {marks} and step {last}",
            if is_there { "" } else { "not " }
        );
    }
    if let (Some((old, _)), Some((then, snapshot, iter))) = (old, held) {
        // The old handle still shows its old state.
        assert!(shown(&old) == then, "the old handle shows another state");
        let a = old.existing_tree("a").unwrap();
        assert!(snapshot.iter(&a).map(Result::unwrap).eq(iter.map(Result::unwrap)));
        assert_eq!(snapshot.iter(&a).count(), then["a"].0.len() + usize::from(then["a"].1 > 0));
    }
    operations
}

#[test]
fn a_step_of_the_writer_at_any_place_of_the_opening_is_met() {
    let store = Writer::new(30);
    // Covers the types of steps in order, and injects each at every operation of the reader.
    for _ in 0..11 {
        store.step();
        let (mut at, mut operations) = (0, 1);
        while at < operations {
            operations = read_beside(&store.fork(), How::Opens, move |n| n == at);
            at += 1;
        }
        assert!(operations > 20, "{operations}");
    }
}

/// Runs the same test with a reader that was opened some steps earlier and refreshes.
#[test]
fn a_step_of_the_writer_at_any_place_of_a_refresh_is_met() {
    let store = Writer::new(30);
    for steps in 0..9 {
        store.step();
        let (mut at, mut operations) = (0, 1);
        while at < operations {
            operations = read_beside(&store.fork(), How::Refreshes(steps), move |n| n == at);
            at += 1 + steps / 4;
        }
        assert!(operations > 5, "{operations}");
    }
}

/// A reader that refreshes after each step opens only the new tables.
#[test]
fn a_reader_follows_the_writer_and_opens_what_is_new() {
    let store = Arc::new(Writer::new(40));
    let env = FaultEnv::new(Arc::new(store.env.clone()));
    let mut db =
        Db::open_in(Arc::new(env.clone()), DIR, DbOptions { read_only: true, ..options() })
            .unwrap();
    let tables = |db: &Db| -> std::collections::BTreeSet<u64> {
        TREES
            .iter()
            .flat_map(|t| db.existing_tree(t).unwrap().tables().unwrap())
            .map(|t| t.id)
            .collect()
    };
    for _ in 0..30 {
        let known = tables(&db);
        store.step();
        let from = env.count();
        db = db.refresh().unwrap();
        let opened = (from..env.count())
            .filter_map(|n| env.describe(n))
            .filter(|w| w.starts_with("open ") && w.ends_with(".sst"))
            .count();
        assert_eq!(opened, tables(&db).difference(&known).count(), "tables opened");
        assert_eq!(
            shown(&db).values().map(|(steps, _)| steps.len() as u64).max(),
            Some(store.done())
        );
    }
}

#[test]
fn what_cannot_be_refreshed_says_why() {
    let store = Writer::new(10);
    let open = |options: DbOptions| Db::open_in(Arc::new(store.env.clone()), DIR, options).unwrap();
    let reader = open(DbOptions { read_only: true, ..options() });
    {
        let writer = store.open.lock().unwrap();
        assert_eq!(
            writer.as_ref().unwrap().0.refresh().unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        writer.as_ref().unwrap().0.checkpoint("/copy").unwrap();
    }
    // Another store replaces the writer's store.
    *store.open.lock().unwrap() = None;
    let (dir, copy) = (std::path::Path::new(DIR), std::path::Path::new("/copy"));
    for name in store.env.list(dir).unwrap() {
        store.env.remove(&dir.join(name)).unwrap();
    }
    for name in store.env.list(copy).unwrap() {
        store.env.rename(&copy.join(&name), &dir.join(&name)).unwrap();
    }
    let e = reader.refresh().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Incompatible, "{e}");
    assert_eq!(
        reader.existing_tree("a").unwrap().iter().count(),
        11,
        "the reader must continue with its state"
    );
    reader.close().unwrap();
    assert_eq!(reader.refresh().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_race_with_a_busy_writer_ends() {
    let store = Writer::new(60);
    for every in [5, 6, 7, 9, 20] {
        for first in (0..every).step_by(3) {
            let how = if first == 0 { How::Refreshes(3) } else { How::Opens };
            read_beside(&store.fork(), how, move |n| {
                assert!(n < 20_000, "the reader never succeeds against the writer");
                n % every == first
            });
        }
    }
}

#[test]
fn a_burst_of_the_writer_costs_attempts_and_no_failure() {
    let store = Writer::new(60);
    for steps in [60, 600] {
        read_beside(&store.fork(), How::Opens, move |n| n < steps);
        read_beside(&store.fork(), How::Refreshes(5), move |n| n < steps);
    }
}

/// Runs the other process of [`a_second_process_follows`]. Answers each line with the number of
/// keys that it sees after a refresh.
fn follow(dir: &std::ffi::OsStr) {
    let mut db = Db::open_with(dir, DbOptions { read_only: true, ..options() }).unwrap();
    for line in std::io::stdin().lines() {
        db = db.refresh().unwrap();
        println!("\n{} {}", line.unwrap(), db.existing_tree("t").unwrap().len().unwrap());
    }
}

/// Another process sees all writes that this process acknowledged before the other one refreshed.
#[test]
fn a_second_process_follows() {
    if let Some(dir) = std::env::var_os("FIRN_FOLLOW") {
        return follow(&dir);
    }
    let dir = std::env::temp_dir().join(format!("firn-follow-{}", std::process::id()));
    let db = Db::open_with(&dir, options()).unwrap();
    let tree = db.tree("t", tree_options()).unwrap();
    let mut child = command("reader::a_second_process_follows")
        .env("FIRN_FOLLOW", &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut asks, answers) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut answers = answers.lines().map(Result::unwrap).filter(|l| l.starts_with("seen "));
    for n in 1..=40u64 {
        tree.put(n.to_be_bytes(), vec![n as u8; 3000]).unwrap();
        if n % 7 == 0 {
            tree.compact().unwrap();
        }
        writeln!(asks, "seen").unwrap();
        assert_eq!(answers.next().unwrap(), format!("seen {n}"));
    }
    drop(asks);
    assert!(child.wait().unwrap().success());
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}
