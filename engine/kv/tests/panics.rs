//! Hooks that panic in any method, in a read, a write, a manual compaction or a background job. No
//! thread waits forever. Acknowledged writes survive the next opening. The caller of an operation
//! receives its error or panic.
//!
//! The same holds for an environment that panics in any of its operations.
//!
//! Every scenario runs under a timeout: a scenario that takes minutes hangs.

#![allow(clippy::disallowed_methods, reason = "a thread enforces the timeout")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Once};
use std::time::Duration;

use firn_crash::{CrashEnv, FaultEnv};
use firn_kv::internals::base::key::Kind;
use firn_kv::policy::Tiered;
use firn_kv::{
    Batch, CompactionFilter, CompactionFilterContext, CompactionFilterPass, Db, DbOptions, Env,
    Error, FilterDecision, FilterPrefix, MergeOperator, MergeResult, Policy, Summary, SummaryPass,
    Tree, TreeOptions,
};
use firn_testkit::effort::times_effort;

const WORDS: &str = "a hook of the test panics";

/// Methods of hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Fold,
    Combine,
    Decided,
    StartPurge,
    Judge,
    Reach,
    GoneAt,
    StartSummary,
    Add,
    Finish,
    PrefixLen,
}

const PLACES: [Place; 11] = [
    Place::Fold,
    Place::Combine,
    Place::Decided,
    Place::StartPurge,
    Place::Judge,
    Place::Reach,
    Place::GoneAt,
    Place::StartSummary,
    Place::Add,
    Place::Finish,
    Place::PrefixLen,
];

/// Hooks that panic in one method while they are armed.
#[derive(Clone)]
struct Touchy {
    place: Place,
    armed: Arc<AtomicBool>,
    panics: Arc<AtomicU64>,
}

impl Touchy {
    fn at(&self, place: Place) {
        if self.place == place && self.armed.load(Ordering::SeqCst) {
            self.panics.fetch_add(1, Ordering::SeqCst);
            panic!("{WORDS}");
        }
    }
}

impl MergeOperator for Touchy {
    fn name(&self) -> &str {
        "sum"
    }
    fn full_merge(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<MergeResult, Error> {
        self.at(Place::Fold);
        let sum = base.iter().chain(operands).map(|n| number(n)).sum::<u64>();
        Ok(MergeResult::Value(sum.to_be_bytes().to_vec()))
    }
    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.at(Place::Combine);
        Some((number(older) + number(newer)).to_be_bytes().to_vec())
    }
    fn is_decided(&self, _: &[u8], _: &[&[u8]], _: &[u8]) -> bool {
        self.at(Place::Decided);
        false
    }
}

impl CompactionFilter for Touchy {
    fn name(&self) -> &str {
        "nothing"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        self.at(Place::StartPurge);
        Box::new(self.clone())
    }
    fn expires_at(&self, _: &[u8]) -> Option<u64> {
        self.at(Place::GoneAt);
        None
    }
}

impl CompactionFilterPass for Touchy {
    fn filter(&mut self, _: &[u8], _: Kind, _: &[u8], _: bool) -> FilterDecision {
        self.at(Place::Judge);
        FilterDecision::Keep
    }
    fn reach(&mut self, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> bool {
        self.at(Place::Reach);
        false
    }
}

impl Summary for Touchy {
    fn name(&self) -> &str {
        "nothing"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        self.at(Place::StartSummary);
        Box::new(self.clone())
    }
}

impl SummaryPass for Touchy {
    fn add(&mut self, _: &[u8], _: Kind, _: &[u8]) {
        self.at(Place::Add);
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        self.at(Place::Finish);
        vec![1]
    }
}

impl FilterPrefix for Touchy {
    fn name(&self) -> &str {
        "all"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        self.at(Place::PrefixLen);
        key.len()
    }
}

/// Returns a key above the keys that [`write`] uses.
fn beside(i: u16) -> [u8; 3] {
    let [high, low] = i.to_be_bytes();
    [0xfe, high, low]
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Runs a call that may panic, and returns a panic as an error.
fn tried<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .expect("the panic message must come from a hook")),
    }
}

fn open(env: Arc<dyn Env>, threads: usize, hooks: &Touchy) -> Result<(Db, Tree), Error> {
    let options = DbOptions {
        background_threads: threads,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let db = Db::open_in(env, "/db", options)?;
    let options = TreeOptions {
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        policy: Policy::Tiered(Tiered::default()),
        merge_operator: Some(Arc::new(hooks.clone())),
        compaction_filter: Some(Arc::new(hooks.clone())),
        summary: Some(Arc::new(hooks.clone())),
        filter_prefix: Some(Arc::new(hooks.clone())),
        ..TreeOptions::default()
    };
    let tree = db.tree("t", options)?;
    Ok((db, tree))
}

/// Returns a key. Every second key is one of only 100, so a memtable holds several operands of
/// each.
fn key(i: u64) -> [u8; 8] {
    let keys = if i.is_multiple_of(2) { 5000 } else { 100 };
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys).to_be_bytes()
}

/// Writes until an operation fails, and records the possible value of each key.
fn write(tree: &Tree, acknowledged: &mut Sums, steps: u64) -> Result<(), String> {
    for i in 0..steps {
        let k = key(i);
        let sum = acknowledged.entry(k).or_insert((0, 0));
        let (done, then) = match i {
            _ if i.is_multiple_of(7) => (tried(|| tree.put(&k, &1u64.to_be_bytes())), (1, 1)),
            _ if i.is_multiple_of(11) => (tried(|| tree.delete(&k)), (0, 0)),
            _ => (tried(|| tree.merge(&k, &1u64.to_be_bytes())), (sum.0 + 1, sum.1 + 1)),
        };
        // A failed write may have been applied.
        *sum = match &done {
            Ok(()) => then,
            Err(_) => (sum.0.min(then.0), sum.1.max(then.1)),
        };
        done?;
    }
    Ok(())
}

/// Smallest and largest possible value of each key.
type Sums = BTreeMap<[u8; 8], (u64, u64)>;

fn check(tree: &Tree, sums: &Sums, what: &str) {
    for (k, &(least, most)) in sums {
        let is = tree.get(k).unwrap().map_or(0, |v| number(&v));
        assert!((least..=most).contains(&is), "{what}: {k:?} is {is}, expected {least} to {most}");
    }
}

/// Writes, then makes the hook panic. Some caller must see the failure, and no work may hang.
fn scenario(place: Place, threads: usize) -> u64 {
    let what = format!("{place:?}, {threads} threads");
    let env = CrashEnv::new(threads as u64);
    let hooks = Touchy { place, armed: Arc::default(), panics: Arc::default() };
    let open = |env: &CrashEnv, threads, hooks: &Touchy| {
        open(Arc::new(env.clone()), threads, hooks).unwrap()
    };
    let (db, tree) = open(&env, threads, &hooks);
    let plain = db.tree("plain", TreeOptions::default()).unwrap();
    plain.put(b"k", b"v").unwrap();
    let mut sums = Sums::new();
    write(&tree, &mut sums, 20_000).unwrap();
    hooks.armed.store(true, Ordering::SeqCst);
    // A reader or a manual compaction receives its own panic.
    let read = (0..200).map(|i| tried(|| tree.get(&key(i)))).collect::<Result<Vec<_>, _>>();
    assert!(read.is_ok() || hooks.panics.load(Ordering::SeqCst) > 0, "{what}: {read:?}");
    let walked = tried(|| tree.iter().collect::<Result<Vec<_>, _>>());
    assert!(walked.is_ok() || hooks.panics.load(Ordering::SeqCst) > 0, "{what}: {walked:?}");
    let wrote = write(&tree, &mut sums, 20_000);
    // No other operation uses these two keys.
    let other = |n: u8| [0xff, n];
    let batch = || {
        let mut batch = Batch::new();
        batch.merge(&tree, other(0), 1u64.to_be_bytes())?;
        batch.put(&plain, b"k", b"v")?;
        db.write(batch)
    };
    let transact = || {
        db.transact(|t| {
            let sum = t.get(&tree, other(0))?.map_or(0, |v| number(&v));
            t.put(&tree, other(1), sum.to_be_bytes())
        })
    };
    let exported = tried(|| tree.export(.., "/exported").map(|_| ()));
    assert_eq!(exported.is_ok(), env.file_len(Path::new("/exported")).is_ok(), "{what}");
    let reported = [
        tried(|| tree.flush()),
        tried(|| tree.compact()),
        tried(|| tree.compact()),
        tried(|| tree.ingest((0..300u16).map(|i| (beside(i), [0; 8]))).map(|_| ())),
        tried(batch),
        tried(transact),
        exported,
        tried(|| tree.drop_range([0xfe]..[0xff])),
        tried(|| tree.delete_range([0xff]..)),
        tried(|| db.checkpoint("/checkpoint").map(|_| ())),
        tried(|| db.wait_idle()),
    ];
    let panics = hooks.panics.load(Ordering::SeqCst);
    if panics == 0 {
        assert!(
            wrote.is_ok() && reported.iter().all(Result::is_ok),
            "{what}: {wrote:?} {reported:?}"
        );
    } else if place != Place::GoneAt && read.is_ok() && walked.is_ok() {
        // If the filter's expiry method panics, the engine ignores it.
        let all = [&wrote].into_iter().chain(&reported);
        assert!(all.clone().any(Result::is_err), "{what}: no caller saw a failure");
    }
    assert_eq!(plain.get(b"k").unwrap().unwrap(), b"v"[..], "{what}: other trees must be readable");
    // The hook no longer panics. The engine holds no locks or files from the failed calls.
    hooks.armed.store(false, Ordering::SeqCst);
    check(&tree, &sums, &what);
    if plain.put(b"k", b"w").is_ok() {
        tree.flush().unwrap();
        tree.compact().unwrap();
        db.wait_idle().unwrap();
        check(&tree, &sums, &what);
    }
    drop((tree, plain));
    let _ = db.close();
    // An opening that panics does not block the next one.
    hooks.armed.store(true, Ordering::SeqCst);
    let opened = tried(|| Ok(open(&env, threads, &hooks)));
    hooks.armed.store(false, Ordering::SeqCst);
    drop(opened);
    let (db, tree) = open(&env, threads, &hooks);
    check(&tree, &sums, &what);
    tree.compact().unwrap();
    check(&tree, &sums, &what);
    drop(tree);
    db.close().unwrap();
    panics
}

/// Runs a scenario with a timeout. Does not print the panics that the test causes.
fn in_time<T: Send + 'static>(what: &str, scenario: impl FnOnce() -> T + Send + 'static) -> T {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<String>().is_none_or(|words| words != WORDS) {
                usual(panic);
            }
        }));
    });
    let (done, ends) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let came = scenario();
        // The scenario has ended, so it did not hang.
        let _ = done.send(());
        came
    });
    if ends.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what}: it hangs");
    }
    thread.join().unwrap_or_else(|_| panic!("{what}: it panicked"))
}

#[test]
fn hooks_that_panic_hold_up_nobody() {
    for place in PLACES {
        let one = |threads| {
            in_time(&format!("{place:?}, {threads} threads"), move || scenario(place, threads))
        };
        // With threads, compactions may leave nothing for some hooks to do. So there are several
        // attempts.
        let attempts = (0..5).map(|_| [0, 1, 2, 4].map(one).iter().sum::<u64>());
        assert!(attempts.into_iter().any(|panics| panics > 0), "{place:?} is never called");
    }
}

/// Closures and iterators of callers may panic, too. The operation then has no effect, and the
/// store works on.
#[test]
fn callers_that_panic_hold_up_nobody() {
    let (env, armed) = (CrashEnv::new(1), Arc::new(AtomicBool::new(false)));
    let hooks = Touchy { place: Place::Fold, armed, panics: Arc::default() };
    for threads in [0, 2] {
        let (db, tree) = open(Arc::new(env.clone()), threads, &hooks).unwrap();
        tree.put(beside(0), b"v").unwrap();
        let pairs = |from| (from..from + 20_000).map(move |i| (beside(i), vec![7; 100]));
        let panicking = pairs(1).inspect(|(k, _)| assert!(*k < beside(15_000), "{WORDS}"));
        let files = env.list(Path::new("/db")).unwrap();
        let ingested = tried(|| tree.ingest(panicking));
        assert_eq!(ingested, Err(WORDS.to_owned()));
        assert_eq!(env.list(Path::new("/db")).unwrap(), files);
        let worked = tried(|| {
            db.transact(|t| {
                t.put(&tree, beside(1), b"v")?;
                if t.get(&tree, beside(0))?.is_some() {
                    panic!("{WORDS}")
                }
                Ok(())
            })
        });
        assert_eq!(worked, Err(WORDS.to_owned()));
        let updated =
            tried(|| tree.update::<Vec<u8>>(beside(0), |_| panic!("{WORDS}")).map(|_| ()));
        assert_eq!(updated, Err(WORDS.to_owned()));
        assert_eq!(tree.iter().count(), 1);
        assert_eq!(tree.ingest(pairs(1)).unwrap(), 20_000);
        db.transact(|t| t.put(&tree, beside(0), b"v")).unwrap();
        tree.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(tree.iter().count(), 20_001);
        tree.clear().unwrap();
        drop(tree);
        db.close().unwrap();
    }
}

/// Runs a history on a store whose environment panics at the start of operation `n`. Returns the
/// descriptions of all operations.
fn panicking_env(threads: usize, n: u64) -> Vec<String> {
    let env = FaultEnv::new(Arc::new(CrashEnv::new(threads as u64)));
    env.call_at(n, || panic!("{WORDS}"));
    let hooks = Touchy { place: Place::Fold, armed: Arc::default(), panics: Arc::default() };
    let mut sums = Sums::new();
    let opened = tried(|| open(Arc::new(env.clone()), threads, &hooks));
    let what = || format!("{threads} threads, {:?}", env.describe(n));
    if let Ok((db, tree)) = opened {
        for round in 0..3 {
            let _ = [
                write(&tree, &mut sums, 3_000),
                tried(|| tree.flush()),
                tried(|| tree.ingest((0..300u16).map(|i| (beside(i), [0; 8]))).map(|_| ())),
                tried(|| db.checkpoint(format!("/checkpoint-{round}")).map(|_| ())),
                tried(|| db.tree(&format!("other-{round}"), TreeOptions::default()).map(|_| ())),
                tried(|| tree.iter().try_for_each(|pair| pair.map(|_| ()))),
                tried(|| db.sync()),
                tried(|| tree.compact()),
                tried(|| db.wait_idle()),
            ];
            // All data is readable after the panic. Until then, this check itself could panic.
            if env.count() > n {
                check(&tree, &sums, &what());
            }
        }
        drop(tree);
        let _ = tried(|| db.close());
    }
    // An opening that panics does not block the next one.
    let _ = tried(|| open(Arc::new(env.clone()), threads, &hooks)?.0.close());
    env.call_each(|_| {});
    let (db, tree) = open(Arc::new(env.clone()), threads, &hooks).unwrap();
    check(&tree, &sums, &what());
    tree.compact().unwrap();
    check(&tree, &sums, &what());
    drop(tree);
    db.close().unwrap();
    (0..env.count()).filter_map(|n| env.describe(n)).collect()
}

#[test]
fn an_environment_that_panics_holds_up_nobody() {
    for threads in [0, 2, 1, 4].into_iter().take(times_effort(2) as usize) {
        let all = in_time("nothing panics", move || panicking_env(threads, u64::MAX));
        // Groups the operations that do the same on files of the same type.
        let mut alike = BTreeMap::<String, Vec<u64>>::new();
        for (what, n) in all.iter().zip(0..) {
            let kind = what.replace(|c: char| c.is_ascii_digit(), "");
            alike.entry(kind).or_default().push(n);
        }
        assert!(alike.len() > 20, "{:?}", alike.keys());
        for (kind, places) in alike {
            for &n in places.iter().step_by(places.len().div_ceil(times_effort(2) as usize)) {
                let what = format!("{threads} threads, {kind}, operation {n}");
                in_time(&what, move || panicking_env(threads, n));
            }
        }
    }
}
