//! Tests of writers that publish concurrently, and of writers whose turn comes late.

#![allow(clippy::disallowed_methods, reason = "threads of a test, without a Db")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::base::visible_seq::VisibleSeq;

/// There are more writers than cores, and writes have one or several numbers. Some writers lose
/// their core between taking a number and publishing it.
#[test]
fn many_writers_publish_in_order_and_see_their_own() {
    const WRITERS: u64 = 16;
    const WRITES: u64 = 500;
    let horizon = VisibleSeq::new(0);
    let next = Mutex::new(1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut before = 0;
            while !done.load(Ordering::Relaxed) {
                let now = horizon.now();
                assert!(now >= before);
                before = now;
                thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (horizon, next) = (&horizon, &next);
                scope.spawn(move || {
                    for write in 0..WRITES {
                        let count = 1 + (writer + write) % 3;
                        let first = {
                            let mut next = next.lock().unwrap();
                            *next += count;
                            *next - count
                        };
                        if write % 100 == writer {
                            thread::sleep(Duration::from_micros(300));
                        }
                        horizon.publish(first, count);
                        assert!(horizon.now() >= first + count - 1);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    assert_eq!(horizon.now(), *next.lock().unwrap() - 1);
}

/// The last of three writers comes first, then the second. The first one publishes all three.
#[test]
fn an_early_writer_sleeps_and_is_published_by_its_predecessor() {
    let horizon = VisibleSeq::new(0);
    let published = AtomicU64::new(0);
    thread::scope(|scope| {
        for first in [3, 2] {
            let (horizon, published) = (&horizon, &published);
            scope.spawn(move || {
                horizon.publish(first, 1);
                published.fetch_add(1, Ordering::Relaxed);
            });
            while !horizon.sleepers.lock().writes.iter().any(|w| w.0 == first) {
                thread::yield_now();
            }
        }
        let reader = scope.spawn(|| {
            horizon.wait_below(4);
            horizon.now()
        });
        while horizon.sleepers.lock().others == 0 {
            thread::yield_now();
        }
        assert_eq!((horizon.now(), published.load(Ordering::Relaxed)), (0, 0));
        horizon.publish(1, 1);
        assert_eq!(horizon.now(), 3);
        assert_eq!(reader.join().unwrap(), 3);
    });
    assert_eq!(published.load(Ordering::Relaxed), 2);
    assert!(horizon.sleepers.lock().is_empty());
}
