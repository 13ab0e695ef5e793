//! Models of the replaceable pointer: a loaded value is whole, and lives until its reader releases
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::cell::UnsafeCell;
use loom::thread;

use crate::util::shared::Shared;
use crate::util::sync::{epoch, model};

/// Value whose creation is a write and whose reads are reads to loom. Its end is a write too if
/// only the epoch keeps the value alive. It is not if reference counts do: these belong to the
/// standard library and loom does not see them. Then the value only records that it is gone.
struct Probe {
    value: UnsafeCell<u64>,
    counted: bool,
    gone: Arc<AtomicBool>,
}

// SAFETY: loom checks each access to the cell.
unsafe impl Send for Probe {}
// SAFETY: as above.
unsafe impl Sync for Probe {}

impl Probe {
    fn new(n: u64, counted: bool) -> Arc<Probe> {
        let p = Probe { value: UnsafeCell::new(0), counted, gone: Arc::default() };
        // SAFETY: no other thread has it yet.
        p.value.with_mut(|v| unsafe { *v = n });
        Arc::new(p)
    }

    fn get(&self) -> u64 {
        assert!(!self.gone.load(Ordering::Relaxed));
        // SAFETY: written before it was shared; loom checks.
        self.value.with(|v| unsafe { *v })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
        if !self.counted {
            // SAFETY: no other thread has it any more; loom checks.
            self.value.with_mut(|v| unsafe { *v = u64::MAX });
        }
    }
}

fn beside_a_writer(counted: bool, look: fn(&Shared<Probe>) -> u64) {
    model(3, move || {
        let shared = Arc::new(Shared::new(Probe::new(1, counted)));
        let reader = thread::spawn({
            let shared = shared.clone();
            move || {
                let first = look(&shared);
                let second = look(&shared);
                assert!((1..=3).contains(&first) && first <= second && second <= 3);
            }
        });
        shared.replace(Probe::new(2, counted));
        shared.replace(Probe::new(3, counted));
        assert_eq!(look(&shared), 3);
        reader.join().unwrap();
    });
}

#[test]
fn a_pinned_load_stays_whole() {
    beside_a_writer(false, |s| {
        let guard = epoch::pin();
        let p = s.load(&guard);
        let n = p.get();
        assert_eq!(p.get(), n);
        n
    });
}

#[test]
fn a_counted_load_outlives_the_pin() {
    beside_a_writer(true, |s| s.load_full().get());
}

#[test]
fn the_last_value_goes_with_its_last_reader() {
    model(3, || {
        let shared = Arc::new(Shared::new(Probe::new(1, true)));
        let reader = thread::spawn({
            let shared = shared.clone();
            move || {
                let kept = shared.load_full();
                drop(shared);
                assert_eq!(kept.get(), 1);
            }
        });
        drop(shared);
        reader.join().unwrap();
    });
}
