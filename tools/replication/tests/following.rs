//! A replica that follows its primary has each state of it, also across restarts of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_kv::{Batch, Env, ErrorKind, OsEnv, TreeOptions};
use firn_replication::{Primary, Replica, replica_state};
use firn_testkit::rng::Rng;

use crate::common::{
    DIR, assert_equal, catch_up, change, content, mem, open, primary, primary_options, replica,
    replica_options, small, wait,
};

#[test]
fn a_replica_equals_its_primary_after_any_history() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let (home, away) = (mem(), mem());
        let db = open(&home);
        (0..rng.below(200)).for_each(|_| change(&db, &mut rng));
        let serving = primary(&home, &db);
        let copy = replica(&away, &serving);
        for _ in 0..12 {
            (0..rng.below(60)).for_each(|_| change(&db, &mut rng));
            assert_equal(&db, &copy);
        }
        assert_eq!(copy.status().copies, 1, "seed {seed}: {:?}", copy.status());
    }
}

#[test]
fn both_sides_continue_after_restarts() {
    let mut rng = Rng::new(7);
    let (home, away) = (mem(), mem());
    let mut db = open(&home);
    let mut serving = primary(&home, &db);
    let mut copy = replica(&away, &serving);
    assert_equal(&db, &copy);
    for round in 0..10 {
        (0..50).for_each(|_| change(&db, &mut rng));
        if round % 2 == 0 {
            copy.stop();
            (0..50).for_each(|_| change(&db, &mut rng));
            copy = replica(&away, &serving);
        } else {
            // A drop before this is known as one only until the store is closed.
            catch_up(&db, &copy);
            serving.stop();
            db.close().unwrap();
            db = open(&home);
            db.tree("t1", small()).unwrap().put("after", round.to_string()).unwrap();
            serving = primary(&home, &db);
            copy.stop();
            copy = replica(&away, &serving);
        }
        assert_equal(&db, &copy);
        assert_eq!(copy.status().copies, 0, "round {round}: {:?}", copy.status());
    }
    let mut others: Vec<_> = serving.replicas();
    let known = others.pop().unwrap();
    assert_eq!((&*known.name, known.is_copying, others.len()), ("copy", false, 0));
    assert!(known.address.is_some());
    copy.stop();
    wait("the end of the connection", || serving.replicas()[0].address.is_none());
    serving.forget("copy").unwrap();
    assert!(serving.replicas().is_empty());
}

#[test]
fn readers_of_a_replica_see_whole_batches_in_order() {
    let (home, away) = (mem(), mem());
    let db = open(&home);
    let (a, b) = (db.tree("a", small()).unwrap(), db.tree("b", small()).unwrap());
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    let seen = copy.wait_for_copy(Duration::from_secs(60)).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    // Largest number that the reader has seen.
    let reached = Arc::new(AtomicU64::new(0));
    let writing = {
        let (db, is_over, reached) = (db.clone(), is_over.clone(), reached.clone());
        let work = move || {
            for n in 0u64..20_000 {
                if n > 0 && n % 4000 == 0 {
                    // A state of the last part must be seen before the next.
                    wait("a reader", || reached.load(Ordering::SeqCst) > n - 4000);
                }
                let mut batch = Batch::new();
                batch.put(&a, "n", n.to_be_bytes()).unwrap();
                batch.put(&b, n.to_be_bytes(), n.to_be_bytes()).unwrap();
                db.write(batch).unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
        };
        OsEnv::new().spawn("writer", Box::new(work)).unwrap()
    };
    let (a, b) = (seen.existing_tree("a").unwrap(), seen.existing_tree("b").unwrap());
    let (mut last, mut states) = (0, 0);
    loop {
        let is_last = is_over.load(Ordering::SeqCst);
        if is_last {
            catch_up(&db, &copy);
        }
        let snapshot = seen.snapshot();
        let number = |v: &[u8]| u64::from_be_bytes(v.try_into().unwrap());
        let n = snapshot.get(&a, "n").unwrap().map(|v| number(&v));
        let newest = snapshot.last(&b).unwrap().map(|(_, v)| number(&v));
        assert_eq!(n, newest);
        states += usize::from(n > Some(last));
        assert!(n.unwrap_or(0) >= last);
        last = n.unwrap_or(0);
        reached.store(last, Ordering::SeqCst);
        if is_last {
            break;
        }
    }
    writing.join();
    assert_eq!(last, 19_999);
    assert!(states > 3, "{states} states were seen");
    let status = copy.status();
    assert!(status.is_connected && status.error.is_none() && status.behind == 0, "{status:?}");
    assert_eq!(status.lag, Duration::ZERO);
}

#[test]
fn a_replica_refuses_writes_until_it_is_promoted() {
    let (home, away) = (mem(), mem());
    let db = open(&home);
    let tree = db.tree("t", small()).unwrap();
    tree.put("k", "1").unwrap();
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    catch_up(&db, &copy);
    let seen = copy.reader().unwrap();
    assert_eq!(
        seen.existing_tree("t").unwrap().put("k", "2").unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    let state = replica_state(&seen).unwrap().unwrap();
    assert_eq!((state.position.store, state.position.seq), (db.identity(), 1));
    let own = copy.promote().unwrap();
    assert!(replica_state(&own).unwrap().is_none());
    own.existing_tree("t").unwrap().put("k", "2").unwrap();
    assert_eq!(content(&own)["t"][&b"k"[..]], b"2");
    own.close().unwrap();
    drop((copy, own));
    // It is a store of its own now, and no replica.
    let e = Replica::start_in(away.clone(), DIR, replica_options(&serving)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert_eq!(content(&open(&away))["t"][&b"k"[..]], b"2");
}

#[test]
fn several_replicas_follow_one_primary() {
    let mut rng = Rng::new(3);
    let home = mem();
    let db = open(&home);
    let serving = primary(&home, &db);
    let places: Vec<Arc<dyn Env>> = (0..3).map(|_| mem()).collect();
    let copies: Vec<Replica> = places
        .iter()
        .enumerate()
        .map(|(n, env)| {
            let mut options = replica_options(&serving);
            options.name = format!("copy {n}");
            Replica::start_in(env.clone(), DIR, options).unwrap()
        })
        .collect();
    for _ in 0..5 {
        (0..40).for_each(|_| change(&db, &mut rng));
        copies.iter().for_each(|copy| assert_equal(&db, copy));
    }
    assert_eq!(serving.replicas().len(), 3);
    // A name is used once.
    let fourth = mem();
    let mut options = replica_options(&serving);
    options.name = "copy 1".into();
    let fourth = Replica::start_in(fourth, DIR, options).unwrap();
    wait("the refusal", || fourth.status().error.is_some_and(|e| e.contains("connected already")));
}

#[test]
fn a_replica_can_be_the_primary_of_another_one() {
    let mut rng = Rng::new(5);
    let (home, away, far) = (mem(), mem(), mem());
    let db = open(&home);
    (0..60).for_each(|_| change(&db, &mut rng));
    let serving = primary(&home, &db);
    let copy = replica(&away, &serving);
    catch_up(&db, &copy);
    // It becomes one by promotion; its former state does not confuse the next replica.
    let own = copy.promote().unwrap();
    let next = Primary::start_in(away.clone(), &own, primary_options()).unwrap();
    let second = replica(&far, &next);
    (0..60).for_each(|_| change(&own, &mut rng));
    assert_equal(&own, &second);
    own.tree("more", TreeOptions::default()).unwrap().put("k", "v").unwrap();
    assert_equal(&own, &second);
}
