//! Models of writers and a reader as in `db::write` and `db::read`.
//!
//! A lock gives out sequence numbers and a memtable. Insertion continues without the lock, and
//! publication is in order. Between any two writes a memtable may be sealed and a new view
//! installed. Memtables are an array of relaxed words, so only the visible sequence number and the
//! pointer to the view order the reader's loads.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::base::key::Seq;
use crate::base::visible_seq::VisibleSeq;
use crate::util::shared::Shared;
use crate::util::sync::{epoch, model};

const SEQS: usize = 4;

/// For each sequence number, the mark of the write that it belongs to; 0 for none.
#[derive(Default)]
struct Memtable([AtomicU64; SEQS]);

struct View(Vec<Arc<Memtable>>);

struct Store {
    next: Mutex<Seq>,
    view: Shared<View>,
    horizon: VisibleSeq,
}

impl Store {
    fn new() -> Arc<Store> {
        let view = Shared::new(Arc::new(View(vec![Arc::default()])));
        Arc::new(Store { next: Mutex::new(1), view, horizon: VisibleSeq::new(0) })
    }

    /// Writes `count` operations as one batch; `seal` starts a new memtable first.
    fn write(&self, mark: u64, count: u64, seal: bool) {
        let (first, mem) = {
            let mut next = self.next.lock().unwrap();
            if seal {
                let old = self.view.load_full();
                let mut all = vec![Arc::default()];
                all.extend(old.0.iter().cloned());
                self.view.replace(Arc::new(View(all)));
            }
            let first = *next;
            *next += count;
            (first, self.view.load_full().0[0].clone())
        };
        for seq in first..first + count {
            mem.0[seq as usize - 1].store(mark, Ordering::Relaxed);
        }
        self.horizon.publish(first, count);
    }

    /// Reads like a reader: the view first, then the read point. Returns the marks by sequence
    /// number, the read point, and the number of memtables.
    fn read(&self) -> (Vec<u64>, Seq, usize) {
        let guard = epoch::pin();
        let view = self.view.load(&guard);
        let read = self.horizon.now();
        let mark = |seq: Seq| {
            view.0.iter().map(|m| m.0[seq as usize - 1].load(Ordering::Relaxed)).find(|&m| m != 0)
        };
        ((1..=read).map(|seq| mark(seq).unwrap_or(0)).collect(), read, view.0.len())
    }
}

/// Checks that the marks are a prefix of the writes, each whole. The write `mark` has `sizes[mark -
/// 1]` operations.
fn check(marks: &[u64], sizes: &[usize]) {
    let seen = marks.iter().take_while(|&&m| m != 0).count();
    assert!(marks[seen..].iter().all(|&m| m == 0), "a gap: {marks:?}");
    for (i, &size) in sizes.iter().enumerate() {
        let n = marks.iter().filter(|&&m| m == i as u64 + 1).count();
        assert!(n == 0 || n == size, "part of a write: {marks:?}");
    }
}

#[test]
fn published_writes_are_complete_and_in_order() {
    model(3, || {
        let s = Store::new();
        let other = thread::spawn({
            let s = s.clone();
            move || s.write(1, 2, false)
        });
        let reader = thread::spawn({
            let s = s.clone();
            move || {
                let (marks, read, _) = s.read();
                check(&marks, &[2, 1]);
                assert!(
                    !marks.contains(&0),
                    "nothing was sealed, so all up to {read} is in the view: {marks:?}"
                );
            }
        });
        s.write(2, 1, false);
        other.join().unwrap();
        reader.join().unwrap();
        assert_eq!(s.read().1, 3);
    });
}

#[test]
fn a_view_taken_before_the_read_point_lacks_only_what_is_newer() {
    model(3, || {
        let s = Store::new();
        let writer = thread::spawn({
            let s = s.clone();
            move || {
                s.write(1, 2, false);
                s.write(2, 1, true);
            }
        });
        let (marks, _, memtables) = s.read();
        check(&marks, &[2, 1]);
        assert!(memtables == 1 || !marks.contains(&0), "{marks:?}");
        writer.join().unwrap();
        assert_eq!(s.read().0, [1, 1, 2]);
    });
}

#[test]
fn a_writer_reads_its_own_write() {
    model(3, || {
        let s = Store::new();
        let other = thread::spawn({
            let s = s.clone();
            move || {
                s.write(1, 1, true);
                assert!(s.read().0.contains(&1));
            }
        });
        s.write(2, 2, false);
        let marks = s.read().0;
        check(&marks, &[1, 2]);
        assert!(marks.contains(&2));
        other.join().unwrap();
    });
}

/// Three writers, each of which may sleep: all of them wake up.
#[test]
fn sleeping_threads_are_woken() {
    model(3, || {
        let s = Store::new();
        let others = [1, 2].map(|mark| {
            let s = s.clone();
            thread::spawn(move || s.write(mark, 1, false))
        });
        s.horizon.wait_below(1);
        s.write(3, 1, false);
        others.into_iter().for_each(|o| o.join().unwrap());
        s.horizon.wait_below(4);
        assert_eq!(s.horizon.now(), 3);
    });
}
