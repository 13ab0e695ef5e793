//! Loom tests of empty ranges with concurrent writers: a reader never skips a key that it may see.

use std::sync::Mutex as Plain;

use loom::thread;

use super::*;
use crate::util::sync::model;

/// A miniature Db: single-byte entries and sequence numbers.
struct Store {
    /// Last assigned sequence number.
    last: Mutex<Seq>,
    visible: AtomicU64,
    /// Keys with the sequence numbers of their puts. Loom need not model this lock: it replaces a
    /// memtable, which is not under test.
    entries: Plain<Vec<(u8, Seq)>>,
    empty_ranges: EmptyRangeCache,
}

impl Writers for Store {
    fn hold(&self, f: &mut dyn FnMut(Seq)) {
        f(*self.last.lock());
    }
}

impl Store {
    fn new() -> Arc<Store> {
        let empty_ranges = EmptyRangeCache::new(EmptyRangeBudget::new(0));
        let store = Arc::new(Store {
            last: Mutex::new(1),
            visible: AtomicU64::new(1),
            entries: Plain::default(),
            empty_ranges,
        });
        let writers: Arc<dyn Writers> = store.clone();
        store.empty_ranges.set_writers(|| Arc::downgrade(&writers));
        store
    }

    fn put(&self, key: u8) {
        let seq = {
            let mut last = self.last.lock();
            *last += 1;
            *last
        };
        self.entries.lock().unwrap().push((key, seq));
        self.empty_ranges.cut(&[key]);
        while self.visible.load(Ordering::Acquire) + 1 != seq {
            thread::yield_now();
        }
        self.visible.store(seq, Ordering::Release);
    }

    /// Searches for the first of the keys 1 to 8, using a known range, and records the range that
    /// it passed.
    fn first(&self) -> Option<u8> {
        let read = self.visible.load(Ordering::Acquire);
        let seen: Vec<u8> =
            self.entries.lock().unwrap().iter().filter(|e| e.1 <= read).map(|e| e.0).collect();
        let want = seen.iter().min().copied();
        let (mut at, mut to) = (vec![1], vec![]);
        while self.empty_ranges.skip_empty_range(&at, true, read, &mut to) {
            assert!(
                seen.iter()
                    .all(|&k| [k].as_slice() < at.as_slice() || [k].as_slice() >= to.as_slice()),
                "{at:?} to {to:?}"
            );
            at.clone_from(&to);
        }
        self.empty_ranges.learn(&[1], &[want.unwrap_or(9)], read, 100);
        want
    }
}

/// Runs two searches of a reader concurrently with these puts, each in its own thread.
fn beside(puts: &'static [u8], preemptions: usize) {
    model(preemptions, move || {
        let store = Store::new();
        let writers: Vec<_> = puts
            .iter()
            .map(|&key| {
                let store = store.clone();
                thread::spawn(move || store.put(key))
            })
            .collect();
        store.first();
        store.first();
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(store.first(), puts.iter().min().copied());
    });
}

#[test]
fn an_empty_range_is_cut_before_its_key_is_visible() {
    beside(&[5], 3);
}

#[test]
fn an_empty_range_is_split_by_two_puts() {
    beside(&[5, 3], 2);
}
