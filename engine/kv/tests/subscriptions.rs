//! Durable change feeds. A consumer that stores its position with its effects follows a store
//! across restarts, power cuts and damage. It applies each change exactly once, or is required to
//! copy a snapshot.

use std::sync::Arc;
use std::time::Duration;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv, OpClass};
use firn_kv::{ChangePosition, Db, DbOptions, Env, ErrorKind, MemEnv, Subscription, TreeOptions};
use firn_testkit::rng::Rng;

use crate::changes::{Replica, change, options};

const DIR: &str = "/db";
const MANY: u64 = 1 << 40;

/// A consumer outside the store. Its state is durable at once.
#[derive(Clone, Default)]
struct Consumer {
    replica: Replica,
    /// `None` before its first copy.
    position: Option<ChangePosition>,
    /// Number of copied snapshots.
    copies: u32,
}

impl Consumer {
    /// Opens the subscription, continues at the stored position, and applies all changes.
    fn catch_up(&mut self, db: &Db, max_log_bytes: u64) -> firn_kv::Result<Subscription> {
        let mut changes = db.subscribe("replica", max_log_bytes)?;
        let resumed = match self.position {
            Some(position) => changes.resume(position),
            None => Err(firn_kv::Error::new(ErrorKind::Lagged, "nothing was copied yet")),
        };
        match resumed {
            Err(e) if e.kind() == ErrorKind::Lagged || e.kind() == ErrorKind::InvalidArgument => {
                self.copy(db, &mut changes)?;
            }
            resumed => resumed?,
        }
        self.drain(db, &mut changes)?;
        Ok(changes)
    }

    fn copy(&mut self, db: &Db, changes: &mut Subscription) -> firn_kv::Result<()> {
        assert!(self.position.is_none() || changes.is_snapshot_due() || self.is_ahead(db));
        let snapshot = changes.snapshot()?;
        self.replica = Replica::with_trees(db, changes.trees())?;
        assert_eq!(self.replica.seq, snapshot.seq(), "nobody else writes");
        self.position = Some(changes.position());
        self.copies += 1;
        changes.acknowledge(snapshot.seq())?;
        assert!(!changes.is_snapshot_due());
        Ok(())
    }

    fn is_ahead(&self, db: &Db) -> bool {
        self.position.is_some_and(|p| p.seq > db.stats().seq)
    }

    fn drain(&mut self, db: &Db, changes: &mut Subscription) -> firn_kv::Result<()> {
        while let Some(change) = changes.next(Duration::ZERO)? {
            self.replica.apply(&change);
            self.position = Some(changes.position());
            assert_eq!(changes.position().seq, self.replica.seq);
        }
        self.replica.finish(db, changes.trees())?;
        changes.acknowledge(self.replica.seq)
    }
}

fn open(env: &Arc<dyn Env>, threads: usize) -> Db {
    Db::open_in(env.clone(), DIR, options(threads)).unwrap()
}

#[test]
fn a_consumer_follows_a_store_across_restarts_without_copies() {
    for seed in 0..20 {
        let env: Arc<dyn Env> = Arc::new(CrashEnv::new(seed));
        let mut rng = Rng::new(seed);
        let mut consumer = Consumer::default();
        for _ in 0..8 {
            let db = open(&env, (seed % 3) as usize);
            // Changes before it continues, and beside it.
            (0..rng.below(60)).for_each(|_| change(&db, &mut rng));
            let mut changes = consumer.catch_up(&db, MANY).unwrap();
            (0..rng.below(60)).for_each(|_| change(&db, &mut rng));
            if rng.one_in(2) {
                consumer.drain(&db, &mut changes).unwrap();
                assert!(consumer.replica.is_as(&db), "seed {seed}");
            }
            if rng.one_in(3) {
                changes.persist().unwrap();
            }
        }
        assert_eq!(consumer.copies, 1, "seed {seed}");
    }
}

/// At each operation of the store, the power fails, and the consumer has the state of that moment.
#[test]
fn each_change_takes_effect_once_across_power_cuts() {
    let (mut resumed, mut images) = (0, 0);
    for seed in 0..8 {
        let mem = CrashEnv::new(seed);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        let db = open(&env, 0);
        let mut rng = Rng::new(seed);
        (0..20).for_each(|_| change(&db, &mut rng));
        mem.start_journal();
        // Its states, with the length of the journal at which each was stored.
        let mut states = vec![(0, Consumer::default())];
        let mut consumer = Consumer::default();
        for _ in 0..3 {
            let mut changes = consumer.catch_up(&db, MANY).unwrap();
            states.push((mem.journal_len(), consumer.clone()));
            for _ in 0..25 {
                change(&db, &mut rng);
                if rng.one_in(3) {
                    consumer.drain(&db, &mut changes).unwrap();
                    states.push((mem.journal_len(), consumer.clone()));
                }
            }
        }
        drop(db);
        let step = 1 + mem.journal_len() / 120;
        for at in (0..mem.journal_len()).step_by(step) {
            let cut = if at % 2 == 0 { Cut::Process } else { Cut::PowerRandom(at as u64) };
            let image: Arc<dyn Env> = Arc::new(mem.crash_image(at, &cut));
            let db = open(&image, 0);
            let (_, consumer) = states.iter().rev().find(|(len, _)| *len <= at).unwrap();
            let mut consumer = Consumer { copies: 0, ..consumer.clone() };
            let mut changes = consumer.catch_up(&db, MANY).unwrap();
            images += 1;
            if consumer.copies == 0 {
                resumed += 1;
            }
            change(&db, &mut rng);
            consumer.drain(&db, &mut changes).unwrap();
            assert!(consumer.replica.is_as(&db), "seed {seed}, operation {at}, {cut:?}");
            // Only a consumer without a position copies.
            assert!(
                consumer.copies == 0
                    || states.iter().any(|(len, c)| *len <= at && c.position.is_none()),
                "seed {seed}, operation {at}"
            );
        }
    }
    assert!(resumed * 10 > images * 8, "{resumed} of {images}");
}

/// A crash amid a close may leave its mark in the middle of a segment.
#[test]
fn a_close_that_is_cut_off_does_not_lag_a_subscription() {
    for seed in 0..4 {
        let mem = CrashEnv::new(seed);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        let db = open(&env, 0);
        let mut rng = Rng::new(seed);
        (0..20).for_each(|_| change(&db, &mut rng));
        let mut consumer = Consumer::default();
        let changes = consumer.catch_up(&db, MANY).unwrap();
        drop(changes);
        mem.start_journal();
        let at_close = mem.journal_len();
        drop(db);
        for at in at_close..=mem.journal_len() {
            for cut in [Cut::Process, Cut::PowerRandom(at as u64)] {
                let image: Arc<dyn Env> = Arc::new(mem.crash_image(at, &cut));
                let db = open(&image, 0);
                let mut consumer = Consumer { copies: 0, ..consumer.clone() };
                let mut changes = consumer.catch_up(&db, MANY).unwrap();
                for _ in 0..3 {
                    change(&db, &mut rng);
                    consumer.drain(&db, &mut changes).unwrap();
                }
                assert!(consumer.replica.is_as(&db) && consumer.copies == 0, "operation {at}");
            }
        }
    }
}

#[test]
fn an_unacknowledged_change_is_reported_again() {
    let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
    let db = open(&env, 0);
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    tree.put("before", "1").unwrap();
    let mut changes = db.subscribe("index", MANY).unwrap();
    assert!(changes.is_snapshot_due());
    let start = changes.position().seq;
    // It continues without a snapshot, too.
    for n in 0..10u8 {
        tree.put([n], [n]).unwrap();
    }
    let report = |changes: &mut Subscription| -> Vec<u64> {
        std::iter::from_fn(|| changes.next(Duration::ZERO).unwrap())
            .map(|change| *change.seqs().end())
            .collect()
    };
    assert_eq!(report(&mut changes), Vec::from_iter(start + 1..=start + 10));
    changes.acknowledge(start + 4).unwrap();
    assert!(!changes.is_snapshot_due());
    let e = changes.acknowledge(start + 11).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    // An earlier number changes nothing.
    changes.acknowledge(start + 2).unwrap();
    let info = &db.subscriptions()[0];
    assert_eq!((&*info.name, info.seq, info.behind), ("index", start + 4, 6));
    assert!(info.retained_bytes > 0 && !info.is_snapshot_due, "{info:?}");
    drop(changes);
    // A flush does not release unacknowledged changes.
    tree.flush().unwrap();
    drop((tree, db));
    let db = open(&env, 0);
    let mut changes = db.subscribe("index", MANY).unwrap();
    assert!(!changes.is_snapshot_due());
    assert_eq!(report(&mut changes), Vec::from_iter(start + 5..=start + 10));
    let position = changes.position();
    assert_eq!(position.to_string().parse::<ChangePosition>().unwrap(), position);
    for (bad, kind) in [
        (ChangePosition { seq: start + 3, ..position }, ErrorKind::Lagged),
        (ChangePosition { seq: start + 11, ..position }, ErrorKind::InvalidArgument),
        (ChangePosition { store: position.store ^ 1, ..position }, ErrorKind::InvalidArgument),
    ] {
        assert_eq!(changes.resume(bad).unwrap_err().kind(), kind, "{bad}");
    }
    changes.resume(ChangePosition { seq: start + 7, ..position }).unwrap();
    assert_eq!(report(&mut changes), Vec::from_iter(start + 8..=start + 10));
}

#[test]
fn a_subscription_has_one_handle_and_a_name() {
    let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
    let db = open(&env, 0);
    let mut one = db.subscribe("one", 1 << 20).unwrap();
    assert_eq!(db.subscribe("one", 1).unwrap_err().kind(), ErrorKind::Locked);
    let long = "n".repeat(256);
    for bad in ["", &*long] {
        assert_eq!(db.subscribe(bad, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    db.subscribe(&long[1..], 1).unwrap();
    for n in 2..256 {
        db.subscribe(&format!("more-{n}"), 1).unwrap();
    }
    let e = db.subscribe("too many", 1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert_eq!(db.subscriptions().len(), 256);
    db.drop_subscription("one").unwrap();
    assert_eq!(db.drop_subscription("one").unwrap_err().kind(), ErrorKind::NotFound);
    for e in [
        one.next(Duration::ZERO).map(drop).unwrap_err(),
        one.acknowledge(0).unwrap_err(),
        one.snapshot().map(drop).unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    }
    // The bound is that of the last call, also after a restart.
    drop(one);
    drop(db.subscribe("more-2", 77).unwrap());
    let copy = "/copy";
    db.checkpoint(copy).unwrap();
    drop(db);
    let db = open(&env, 0);
    let all = db.subscriptions();
    assert_eq!(all.len(), 255);
    assert!(all.iter().all(|s| s.max_log_bytes == if s.name == "more-2" { 77 } else { 1 }));
    assert!(all.iter().all(|s| s.is_snapshot_due), "nothing was acknowledged");
    let checkpoint = Db::open_in(env.clone(), copy, options(0)).unwrap();
    assert!(checkpoint.subscriptions().is_empty(), "a checkpoint has none");
    // A handle that only reads shows them.
    let reader = DbOptions { read_only: true, ..options(0) };
    assert_eq!(Db::open_in(env.clone(), DIR, reader.clone()).unwrap().subscriptions(), all);
    let e = Db::open_in(env, DIR, reader).unwrap().subscribe("x", 1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ReadOnly, "{e}");
}

#[test]
fn the_log_is_retained_up_to_the_bound() {
    let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
    let db = open(&env, 0);
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let fill = |mib: u32| {
        for n in 0..mib * 1024 {
            tree.put(n.to_be_bytes(), vec![7; 1000]).unwrap();
        }
        tree.flush().unwrap();
    };
    let log = || -> u64 {
        let names = env.list(std::path::Path::new(DIR)).unwrap();
        let logs = names.iter().filter(|n| n.ends_with(".wal"));
        logs.map(|n| env.file_len(&std::path::Path::new(DIR).join(n)).unwrap()).sum()
    };
    let mut slow = db.subscribe("slow", 3 << 20).unwrap();
    slow.acknowledge(slow.position().seq).unwrap();
    fill(2);
    assert!(log() >= 2 << 20, "{}", log());
    assert!(!db.subscriptions()[0].is_snapshot_due);
    fill(4);
    assert!(log() < 4 << 20, "{}", log());
    let info = &db.subscriptions()[0];
    assert!(info.is_snapshot_due && info.retained_bytes == 0, "{info:?}");
    for e in [
        slow.next(Duration::ZERO).map(drop).unwrap_err(),
        slow.acknowledge(slow.position().seq).unwrap_err(),
        slow.resume(slow.position()).unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::Lagged, "{e}");
    }
    drop(slow);
    drop(tree);
    drop(db);
    // Still so after a restart; a snapshot begins it again.
    let db = open(&env, 0);
    let mut slow = db.subscribe("slow", 3 << 20).unwrap();
    assert_eq!(slow.next(Duration::ZERO).unwrap_err().kind(), ErrorKind::Lagged);
    let mut consumer = Consumer::default();
    drop(slow);
    let mut slow = consumer.catch_up(&db, 3 << 20).unwrap();
    // A consumer that acknowledges is never too late, even if it reports much more than the bound.
    let tree = db.existing_tree("t").unwrap();
    for round in 0..20u32 {
        for n in 0..400 {
            tree.put((round * 400 + n).to_be_bytes(), vec![8; 1000]).unwrap();
        }
        consumer.drain(&db, &mut slow).unwrap();
        tree.flush().unwrap();
        assert!(log() < 2 << 20, "{}", log());
    }
    assert!(consumer.replica.is_as(&db) && consumer.copies == 1);
}

/// The bound counts from the subscription's own position, however much log another one retains.
#[test]
fn a_subscription_does_not_pay_for_another_one() {
    let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
    let db = open(&env, 0);
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let _retains_all = db.subscribe("first", MANY).unwrap();
    for n in 0..3000u32 {
        tree.put(n.to_be_bytes(), vec![7; 1000]).unwrap();
    }
    let mut second = db.subscribe("second", 1 << 20).unwrap();
    let mut feed = db.changes_since(second.position().seq, 1 << 20).unwrap();
    tree.put("a", "1").unwrap();
    tree.flush().unwrap();
    assert_eq!(second.next(Duration::ZERO).unwrap().unwrap().ops().count(), 1);
    assert_eq!(feed.next(Duration::ZERO).unwrap().unwrap().ops().count(), 1);
    let retained: Vec<_> = db.subscriptions().iter().map(|s| s.retained_bytes).collect();
    assert!(retained[0] > 3_000_000 && retained[1] < 1000, "{retained:?}");
}

/// An opening that discards a damaged end of the log gives its numbers again.
#[test]
fn accepted_loss_of_log_requires_a_snapshot() {
    let mem = CrashEnv::new(1);
    let db = open(&(Arc::new(mem.clone()) as Arc<dyn Env>), 0);
    mem.start_journal();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let mut consumer = Consumer::default();
    let mut changes = consumer.catch_up(&db, MANY).unwrap();
    for n in 0..40u8 {
        tree.put([n], vec![n; 500]).unwrap();
        if n == 10 {
            consumer.drain(&db, &mut changes).unwrap();
            changes.persist().unwrap();
        }
    }
    let env: Arc<dyn Env> = Arc::new(mem.crash_image(mem.journal_len(), &Cut::Process));
    // Damages a record, with sound ones behind it.
    let dir = std::path::Path::new(DIR);
    let names = env.list(dir).unwrap();
    let name = names.iter().filter(|n| n.ends_with(".wal")).max().unwrap();
    let path = dir.join(name);
    let mut bytes = vec![0; env.file_len(&path).unwrap() as usize];
    env.open_read(&path, false).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[12_000] ^= 1;
    let mut file = env.create(&path).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    drop(file);
    assert_eq!(
        Db::open_in(env.clone(), DIR, options(0)).map(drop).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    let accepting = DbOptions { accept_log_loss: true, ..options(0) };
    let db = Db::open_in(env.clone(), DIR, accepting).unwrap();
    let tree = db.existing_tree("t").unwrap();
    // New writes get the numbers of lost ones.
    for n in 0..60u8 {
        tree.put([n], [1]).unwrap();
    }
    drop((tree, db));
    let db = open(&env, 0);
    assert!(db.subscriptions()[0].is_snapshot_due);
    let mut changes = consumer.catch_up(&db, MANY).unwrap();
    consumer.drain(&db, &mut changes).unwrap();
    assert!(consumer.replica.is_as(&db) && consumer.copies == 2);
}

#[test]
fn a_failed_operation_leaves_a_subscription_usable() {
    for class in [OpClass::Write, OpClass::Sync, OpClass::Read] {
        let mut failed = 0;
        for nth in 0..30 {
            let mem = CrashEnv::new(nth);
            let faulty = FaultEnv::new(Arc::new(mem.clone()));
            let env: Arc<dyn Env> = Arc::new(faulty.clone());
            let db = open(&env, 0);
            let mut rng = Rng::new(nth);
            (0..10).for_each(|_| change(&db, &mut rng));
            faulty.only(&[class]);
            let mut consumer = Consumer::default();
            faulty.fail_nth(faulty.count() + nth, Fault::Eio);
            let tried = consumer.catch_up(&db, MANY).and_then(|mut changes| {
                let tree = db.tree("tree-0", TreeOptions::default())?;
                tree.put("k", "v")?;
                tree.flush()?;
                consumer.drain(&db, &mut changes)?;
                changes.persist()
            });
            failed += u32::from(tried.is_err());
            faulty.heal();
            drop(db);
            let db = open(&env, 0);
            let mut changes = consumer.catch_up(&db, MANY).unwrap();
            change(&db, &mut rng);
            consumer.drain(&db, &mut changes).unwrap();
            assert!(consumer.replica.is_as(&db), "{class:?} {nth}");
        }
        assert!(failed > 0, "{class:?}");
    }
}
