//! Locks on keys in transactions: order, deadlocks, timeouts, and what the owner of a lock reads.

#![allow(clippy::disallowed_methods, reason = "its threads run on a store in memory")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use firn_kv::{Db, ErrorKind, Result, Retry, Transaction, Tree, TreeOptions};
use firn_testkit::rng::Rng;

/// Longer than any wait of these tests, so that it ends only those that would never end.
const LONG: Duration = Duration::from_secs(60);

fn store() -> (Db, Tree) {
    let db = Db::in_memory().unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    (db, tree)
}

fn number(tx: &Transaction, tree: &Tree, key: &str) -> Result<u64> {
    tx.get(tree, key)?.map_or(Ok(0), |v| v.to_array().map(u64::from_be_bytes))
}

#[test]
fn a_lock_excludes_other_locks_until_its_transaction_ends() {
    let (db, tree) = store();
    let refused =
        |key: &str| db.transaction().lock(&tree, key, Duration::ZERO).map_err(|e| e.kind()).err();
    let mut tx = db.transaction();
    tx.lock(&tree, "k", LONG).unwrap();
    tx.lock(&tree, "k", LONG).unwrap();
    assert_eq!(refused("k"), Some(ErrorKind::Locked));
    assert_eq!(refused("other"), None);
    assert!(format!("{tx:?}").contains("locks: 1"), "{tx:?}");
    // Nothing that a lock excludes keeps other writes away.
    tree.put("k", "written beside").unwrap();
    tx.put(&tree, "k", "locked").unwrap();
    tx.commit().unwrap();
    assert_eq!(refused("k"), None);
    let mut tx = db.transaction();
    tx.lock(&tree, "k", LONG).unwrap();
    drop(tx);
    assert_eq!(refused("k"), None);
    // The wait of a lock that was refused has ended: it is not granted later.
    let mut tx = db.transaction();
    tx.lock(&tree, "k", LONG).unwrap();
    let mut second = db.transaction();
    let e = second.lock(&tree, "k", Duration::from_millis(5)).unwrap_err();
    assert!(e.kind() == ErrorKind::Locked && e.to_string().contains("within 5ms"), "{e}");
    drop(tx);
    assert_eq!(refused("k"), None);
}

#[test]
fn a_lock_of_another_tree_or_key_is_another_lock() {
    let (db, tree) = store();
    let beside = db.tree("u", TreeOptions::default()).unwrap();
    let mut tx = db.transaction();
    tx.lock(&tree, "k", Duration::ZERO).unwrap();
    db.transaction().lock(&beside, "k", Duration::ZERO).unwrap();
    db.transaction().lock(&tree, "k2", Duration::ZERO).unwrap();
    let (_other, foreign) = store();
    let e = tx.lock(&foreign, "k", Duration::ZERO).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    let e = tx.lock(&tree, vec![0; firn_kv::MAX_KEY_LEN + 1], Duration::ZERO).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    db.drop_tree("u").unwrap();
    assert_eq!(tx.lock(&beside, "k", Duration::ZERO).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_owner_of_a_lock_reads_what_the_last_one_wrote() {
    let (db, tree) = store();
    let mut first = db.transaction();
    let mut second = db.transaction();
    first.lock(&tree, "k", LONG).unwrap();
    first.put(&tree, "k", 7_u64.to_be_bytes()).unwrap();
    first.commit().unwrap();
    // `second` began before the commit, but has not read.
    second.lock(&tree, "k", LONG).unwrap();
    assert_eq!(number(&second, &tree, "k").unwrap(), 7);
    second.commit().unwrap();
    // A transaction that has read keeps its snapshot: a changed key is a conflict at once.
    let mut late = db.transaction();
    assert_eq!(number(&late, &tree, "other").unwrap(), 0);
    tree.put("k", 8_u64.to_be_bytes()).unwrap();
    let e = late.lock(&tree, "k", LONG).unwrap_err();
    assert!(e.kind() == ErrorKind::Conflict && e.to_string().contains("locked key"), "{e}");
}

#[test]
fn waiting_transactions_get_a_lock_in_the_order_of_their_calls() {
    let (db, tree) = store();
    let mut owner = db.transaction();
    owner.lock(&tree, "k", LONG).unwrap();
    let (got, order) = mpsc::channel();
    thread::scope(|s| {
        for n in 0..4_u64 {
            let (got, db, tree) = (got.clone(), &db, &tree);
            s.spawn(move || {
                let mut tx = db.transaction();
                tx.lock(tree, "k", LONG).unwrap();
                got.send(n).unwrap();
                tx.commit().unwrap();
            });
            // The thread waits when a lock that does not wait reports one more before it.
            while db.stats().lock_waits <= n {
                thread::yield_now();
            }
        }
        drop(owner);
    });
    drop(got);
    assert_eq!(order.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(db.stats().lock_waits, 0);
}

/// Lets `n` transactions each lock a key and then that of the next, and returns how many of them
/// were refused.
fn ring(n: usize) -> u64 {
    let (db, tree) = store();
    let (all_have_one, refused) = (Barrier::new(n), AtomicU64::new(0));
    thread::scope(|s| {
        for i in 0..n {
            let (db, tree, all_have_one, refused) = (&db, &tree, &all_have_one, &refused);
            s.spawn(move || {
                let mut tx = db.transaction();
                tx.lock(tree, [i as u8], LONG).unwrap();
                all_have_one.wait();
                if let Err(e) = tx.lock(tree, [((i + 1) % n) as u8], LONG) {
                    assert!(e.kind() == ErrorKind::Conflict, "{e}");
                    assert!(e.to_string().contains("deadlock"), "{e}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    refused.into_inner()
}

#[test]
fn one_transaction_of_a_deadlock_is_refused() {
    assert_eq!([2, 3, 5].map(ring), [1, 1, 1]);
}

/// Moves amounts between accounts in several threads. Returns the number of attempts per transfer.
fn transfers(sorted: bool) -> f64 {
    const ACCOUNTS: u64 = 6;
    const TRANSFERS: u64 = 200;
    let (db, tree) = store();
    let name = |n: u64| format!("account {n}");
    (0..ACCOUNTS).for_each(|n| tree.put(name(n), 100_u64.to_be_bytes()).unwrap());
    let attempts = AtomicU64::new(0);
    thread::scope(|s| {
        for seed in 0..4 {
            let (db, tree, attempts) = (&db, &tree, &attempts);
            s.spawn(move || {
                let mut rng = Rng::new(seed);
                let retry = Retry { attempts: u32::MAX, ..Retry::default() };
                for _ in 0..TRANSFERS {
                    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS - 1));
                    let to = (from + 1 + to) % ACCOUNTS;
                    let mut locked = [name(from), name(to)];
                    if sorted {
                        locked.sort();
                    }
                    retry
                        .transact(db, |tx| {
                            attempts.fetch_add(1, Ordering::Relaxed);
                            locked.iter().try_for_each(|key| tx.lock(tree, key, LONG))?;
                            let (a, b) =
                                (number(tx, tree, &name(from))?, number(tx, tree, &name(to))?);
                            let amount = a.min(3);
                            tx.put(tree, name(from), (a - amount).to_be_bytes())?;
                            tx.put(tree, name(to), (b + amount).to_be_bytes())
                        })
                        .unwrap();
                }
            });
        }
    });
    let sum = db
        .transact(|tx| (0..ACCOUNTS).try_fold(0, |s, n| number(tx, &tree, &name(n)).map(|v| s + v)))
        .unwrap();
    assert_eq!(sum, ACCOUNTS * 100);
    attempts.into_inner() as f64 / (4 * TRANSFERS) as f64
}

#[test]
fn transfers_under_locks_lose_nothing_and_run_once() {
    // All locks are taken in one order and before the first read, so no transaction is refused.
    assert_eq!(transfers(true), 1.0);
    assert!(transfers(false) >= 1.0);
}

#[test]
fn a_wait_ends_when_the_store_is_closed() {
    let (db, tree) = store();
    let mut owner = db.transaction();
    owner.lock(&tree, "k", LONG).unwrap();
    thread::scope(|s| {
        let waiting = s.spawn(|| db.transaction().lock(&tree, "k", LONG));
        while db.stats().lock_waits == 0 {
            thread::yield_now();
        }
        db.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_savepoint_is_of_its_transaction() {
    let (db, tree) = store();
    let mut tx = db.transaction();
    tx.put(&tree, "a", "1").unwrap();
    let (begin, other) = (tx.savepoint(), db.transaction().savepoint());
    assert_eq!(tx.rollback_to(&other).unwrap_err().kind(), ErrorKind::InvalidArgument);
    tx.delete_range(&tree, ..).unwrap();
    let emptied = tx.savepoint();
    tx.rollback_to(&begin).unwrap();
    assert!(tx.contains(&tree, "a").unwrap());
    // A savepoint can be used again, also after a rollback to an earlier one.
    tx.rollback_to(&emptied).unwrap();
    assert!(!tx.contains(&tree, "a").unwrap());
    tx.rollback_to(&begin).unwrap();
    tx.commit().unwrap();
    assert_eq!(tree.get("a").unwrap().unwrap(), "1");
}
