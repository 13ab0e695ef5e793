#[path = "../examples/lost_update.rs"]
#[allow(dead_code, reason = "a program, of which the test is run here")]
mod lost_update;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::atomic::{AtomicU64, Ordering};
use crate::{
    Condvar, Failure, Mutex, Plan, RwLock, Strategy, now_nanos, run, sleep, spawn, yield_now,
};

fn plan(seed: u64) -> Plan {
    Plan::of(seed, 100_000)
}

/// Runs two threads that each increment a number in two steps.
fn race(seed: u64) -> (u64, u64) {
    let n = Arc::new(AtomicU64::new(0));
    let seen = n.clone();
    let report = run(plan(seed), move || {
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let n = n.clone();
                spawn(&format!("t{i}"), move || {
                    let was = n.load(Ordering::Relaxed);
                    n.store(was + 1, Ordering::Relaxed);
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    (seen.load(Ordering::Relaxed), report.unwrap().trace)
}

#[test]
fn a_lost_update_is_found_and_replays() {
    let all: Vec<_> = (0..200).map(race).collect();
    assert_eq!(all.iter().map(|a| a.0).collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
    assert!(
        (0..200).all(|seed| race(seed) == all[seed as usize]),
        "a schedule replays from its seed"
    );
    assert!(all.iter().map(|a| a.1).collect::<BTreeSet<_>>().len() > 10);
}

#[test]
fn locks_exclude_and_conditions_wake() {
    for seed in 0..300 {
        let done = run(plan(seed), || {
            let shared = Arc::new((Mutex::new(0u64), Condvar::new(), RwLock::new(0u64)));
            let threads: Vec<_> = (0..3)
                .map(|i| {
                    let s = shared.clone();
                    spawn(&format!("t{i}"), move || {
                        for _ in 0..3 {
                            let mut g = s.0.lock();
                            let was = *g;
                            yield_now();
                            *g = was + 1;
                            drop(g);
                            s.1.notify_all();
                            let mut w = s.2.write();
                            let was = *w;
                            yield_now();
                            *w = was + 1;
                        }
                    })
                })
                .collect();
            let mut g = shared.0.lock();
            while *g < 9 {
                shared.1.wait(&mut g);
            }
            drop(g);
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!((*shared.0.lock(), *shared.2.read()), (9, 9));
        });
        done.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn time_is_virtual() {
    for seed in 0..100 {
        let done = run(plan(seed), || {
            let late = spawn("late", || {
                sleep(Duration::from_secs(3600));
                now_nanos()
            });
            let never = (Mutex::new(()), Condvar::new());
            let mut g = never.0.lock();
            assert!(never.1.wait_for(&mut g, Duration::from_millis(5)).timed_out());
            assert!(late.join().unwrap() >= 3_600_000_000_000);
        });
        done.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// Returns the failure; in a separate thread, which may be left in the middle of a panic.
fn failure(seed: u64, main: fn()) -> Option<Failure> {
    #[allow(clippy::disallowed_methods)] // a scheduler's own test
    std::thread::spawn(move || run(plan(seed), main).err()).join().unwrap()
}

#[test]
fn deadlocks_hangs_and_panics_are_reported() {
    fn deadlock() {
        let locks = Arc::new((Mutex::new(()), Mutex::new(())));
        let other = locks.clone();
        let t = spawn("other", move || {
            let _a = other.1.lock();
            let _b = other.0.lock();
        });
        let _a = locks.0.lock();
        let _b = locks.1.lock();
        drop((_a, _b));
        t.join();
    }
    let found = (0..200).filter_map(|seed| failure(seed, deadlock)).collect::<Vec<_>>();
    assert!(
        (1..200).contains(&found.len()) && found.iter().all(|f| matches!(f, Failure::Deadlock(_))),
        "{found:?}"
    );
    let hang = failure(1, || {
        loop {
            yield_now()
        }
    });
    assert!(matches!(hang, Some(Failure::Hang(_))));
    let panic = failure(1, || {
        spawn("t", || panic!("seven")).join();
    });
    assert!(matches!(panic, Some(Failure::Panic(words)) if words.contains("seven")));
}

#[test]
fn deferred_calls_run_when_nothing_is_pinned() {
    for seed in 0..50 {
        let done = run(Plan { strategy: Strategy::Random { stay: 2 }, ..plan(seed) }, || {
            let ran = Arc::new(AtomicU64::new(0));
            let (guard, mine) = (crate::epoch::pin(), ran.clone());
            let t = spawn("t", move || {
                let g = crate::epoch::pin();
                g.defer(move || mine.store(1, Ordering::Relaxed));
            });
            t.join();
            assert_eq!(ran.load(Ordering::Relaxed), 0);
            drop(guard);
            assert_eq!(ran.load(Ordering::Relaxed), 1);
        });
        done.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}
