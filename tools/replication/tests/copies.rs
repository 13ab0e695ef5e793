//! A replica copies again when the log does not have what it needs, and only then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_kv::{Db, ErrorKind};
use firn_replication::{Primary, Replica, ReplicaListener};
use firn_testkit::rng::Rng;

use crate::common::{
    DIR, assert_equal, catch_up, change, mem, open, open_with_key, primary, primary_options,
    replica, replica_options, small, wait,
};

/// Counts calls, and holds the open store.
#[derive(Default)]
struct Holder {
    opened: AtomicU64,
    closed: AtomicU64,
}

impl ReplicaListener for Holder {
    fn close_handles(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn open_handles(&self, store: Db) {
        assert!(store.is_read_only());
        self.opened.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_replica_that_was_away_for_too_long_copies_again() {
    let mut rng = Rng::new(1);
    let (home, away) = (mem(), mem());
    let db = open(&home);
    let mut options = primary_options();
    options.max_log_bytes = 256 << 10;
    let serving = Primary::start_in(home.clone(), &db, options).unwrap();
    let copy = replica(&away, &serving);
    assert_equal(&db, &copy);
    copy.stop();
    let tree = db.tree("t1", small()).unwrap();
    for n in 0..3000u32 {
        tree.put(n.to_be_bytes(), [7; 1000]).unwrap();
    }
    tree.flush().unwrap();
    (0..20).for_each(|_| change(&db, &mut rng));
    let copy = replica(&away, &serving);
    let old = copy.reader().unwrap();
    wait("the second copy", || copy.status().copies == 1);
    assert_equal(&db, &copy);
    // The handle of the store before fails, and says so.
    if let Err(e) = old.existing_tree("t1").and_then(|t| t.get("k")) {
        assert_eq!(e.kind(), ErrorKind::Closed);
    }
    (0..50).for_each(|_| change(&db, &mut rng));
    assert_equal(&db, &copy);
    assert_eq!(copy.status().copies, 1);
}

#[test]
fn data_that_bypassed_the_log_is_copied() {
    let mut rng = Rng::new(2);
    let (home, away) = (mem(), mem());
    let db = open(&home);
    let serving = primary(&home, &db);
    let holder = Arc::new(Holder::default());
    let mut options = replica_options(&serving);
    options.listener = Some(holder.clone());
    let copy = Replica::start_in(away.clone(), DIR, options).unwrap();
    catch_up(&db, &copy);
    for round in 1..4u64 {
        (0..30).for_each(|_| change(&db, &mut rng));
        let tree = db.tree("t2", small()).unwrap();
        tree.ingest((0..500u32).map(|n| (n.to_be_bytes(), [round as u8; 50]))).unwrap();
        (0..30).for_each(|_| change(&db, &mut rng));
        assert_equal(&db, &copy);
        assert_eq!(copy.status().copies, round + 1);
        let (opened, closed) = (&holder.opened, &holder.closed);
        assert_eq!(opened.load(Ordering::SeqCst), round + 1);
        assert_eq!(closed.load(Ordering::SeqCst), round);
    }
}

#[test]
fn handles_are_reopened_around_the_writes_that_the_rule_names() {
    let (home, away) = (mem(), mem());
    let db = open(&home);
    let tree = db.tree("schema", small()).unwrap();
    let serving = primary(&home, &db);
    let holder = Arc::new(Holder::default());
    let mut options = replica_options(&serving);
    options.listener = Some(holder.clone());
    options.reopen_on =
        Some(Arc::new(|tree: &str, key: &[u8]| tree == "schema" && key.starts_with(b"table")));
    let copy = Replica::start_in(away, DIR, options).unwrap();
    catch_up(&db, &copy);
    let counts = || (holder.opened.load(Ordering::SeqCst), holder.closed.load(Ordering::SeqCst));
    assert_eq!(counts(), (1, 0));
    tree.put("clock", "1").unwrap();
    db.tree("other", small()).unwrap().put("table", "x").unwrap();
    catch_up(&db, &copy);
    assert_eq!(counts(), (1, 0));
    tree.put("table a", "1").unwrap();
    catch_up(&db, &copy);
    assert_eq!(counts(), (2, 1));
    tree.delete("table a").unwrap();
    catch_up(&db, &copy);
    assert_eq!(counts(), (3, 2));
}

#[test]
fn a_replica_without_its_primary_can_be_read() {
    let (home, away) = (mem(), mem());
    let db = open_with_key(&home);
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    catch_up(&db, &copy);
    copy.stop();
    serving.stop();
    drop(copy);
    let copy = replica(&away, &serving);
    let seen = copy.reader().unwrap();
    assert_eq!(seen.existing_tree("t").unwrap().get("k").unwrap().unwrap(), "v");
    wait("the error", || copy.status().error.is_some());
    let status = copy.status();
    assert!(!status.is_connected && status.lag > Duration::ZERO, "{status:?}");
    assert!(status.error.unwrap().contains("cannot connect to the primary"));
}
