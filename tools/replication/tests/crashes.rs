//! Power cuts and kills of the replica at any operation: it continues without a copy once it has one,
//! and with the content of the primary.

use std::sync::Arc;
use std::time::Duration;

use firn_crash::{CrashEnv, Cut, Fault, FaultEnv};
use firn_kv::{Env, OsEnv};
use firn_replication::Replica;
use firn_testkit::rng::Rng;

use crate::common::{DIR, assert_equal, change, mem, open, primary, replica, replica_options};

#[test]
fn a_replica_continues_after_any_crash() {
    for seed in 0..2 {
        let mut rng = Rng::new(seed);
        let home = mem();
        let db = open(&home);
        (0..60).for_each(|_| change(&db, &mut rng));
        let serving = primary(&home, &db);
        let disk = CrashEnv::new(seed);
        let env: Arc<dyn Env> = Arc::new(disk.clone());
        disk.start_journal();
        let mut copy = replica(&env, &serving);
        assert_equal(&db, &copy);
        let copied = disk.journal_len();
        for _ in 0..4 {
            (0..30).for_each(|_| change(&db, &mut rng));
            assert_equal(&db, &copy);
        }
        // A copy over an existing one, too.
        db.tree("t1", crate::common::small()).unwrap().ingest([("loaded", "1")]).unwrap();
        assert_equal(&db, &copy);
        let again = disk.journal_len();
        (0..30).for_each(|_| change(&db, &mut rng));
        assert_equal(&db, &copy);
        copy.stop();
        copy = replica(&env, &serving);
        assert_equal(&db, &copy);
        drop(copy);
        let (mut resumed, mut images) = (0, 0);
        for at in (0..disk.journal_len()).step_by(1 + disk.journal_len() / 150) {
            let cut = if at % 3 == 0 { Cut::Process } else { Cut::PowerRandom(at as u64) };
            let image: Arc<dyn Env> = Arc::new(disk.crash_image(at, &cut));
            let copy = Replica::start_in(image, DIR, replica_options(&serving))
                .unwrap_or_else(|e| panic!("seed {seed}, operation {at}, {cut:?}: {e}"));
            assert_equal(&db, &copy);
            images += 1;
            resumed += u32::from(copy.status().copies == 0);
            if at < copied {
                assert!(copy.status().copies <= 1, "seed {seed}, operation {at}");
            }
        }
        assert!(resumed > 0 && images > 90, "{resumed} of {images}, {copied}, {again}");
    }
}

/// Operations of the replica that fail, once or for some time: it recovers by itself.
#[test]
fn a_replica_recovers_from_any_failed_operation() {
    let mut rng = Rng::new(9);
    let home = mem();
    let db = open(&home);
    (0..60).for_each(|_| change(&db, &mut rng));
    let serving = primary(&home, &db);
    let mut failed = 0;
    for n in (2..200).step_by(3) {
        let faults = FaultEnv::new(Arc::new(CrashEnv::new(n)));
        let all = [Fault::Eio, Fault::Enospc, Fault::ShortWrite, Fault::SyncFails];
        let fault = all[n as usize % all.len()];
        if n % 2 == 0 {
            faults.fail_nth(n, fault);
        } else {
            faults.fail_from(n, fault);
        }
        let env: Arc<dyn Env> = Arc::new(faults.clone());
        let mut options = replica_options(&serving);
        options.name = format!("copy {n}");
        let copy = match Replica::start_in(env.clone(), DIR, options.clone()) {
            Ok(copy) => copy,
            Err(_) => {
                faults.heal();
                Replica::start_in(env, DIR, options).unwrap()
            }
        };
        for _ in 0..3 {
            (0..10).for_each(|_| change(&db, &mut rng));
            OsEnv::new().sleep(Duration::from_millis(5));
        }
        if faults.injected() > 0 {
            failed += 1;
        }
        faults.heal();
        assert_equal(&db, &copy);
    }
    assert!(failed > 40, "{failed}");
}
