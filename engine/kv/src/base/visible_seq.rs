//! The visible sequence number: the newest one that readers may see. Writers advance it in the
//! order of their sequence numbers.
//!
//! Invariants:
//! - H1: it only grows, and it advances over whole groups of numbers. A reader sees all of a batch
//!   or none.
//! - H2: [`publish`](VisibleSeq::publish) releases and [`now`](VisibleSeq::now) acquires, and each
//!   publisher has acquired what the publishers before it released. So a reader of a number sees
//!   all writes made before that number or a lower one was published.
//! - H3: a writer that has waited for some time sleeps, and the writer before it publishes for it.
//!   So a writer that loses its core in the middle delays the others, but they do not compete with
//!   it for a core.
//!
//! `loom_tests` enumerates the interleavings together with those of the pointer to the view.

use crate::base::key::Seq;
use crate::util::stripe::CachePadded;
use crate::util::sync::modelled::{Mutex, MutexGuard, WakeUp};
use crate::util::sync::{AtomicU64, Ordering, spin_loop};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

/// Flag in `newest`: a thread sleeps. Sequence numbers have 56 bits, so the bit is free.
const SLEEPERS: u64 = 1 << 63;
/// Number of spins before a writer sleeps: about the time in which others insert into a memtable.
const LOOKS: u32 = if cfg!(any(loom, interleave)) { 1 } else { 64 };

/// Newest sequence number that may be read. It has its own cache lines, because all readers and all
/// writers use it.
pub struct VisibleSeq {
    /// Newest visible sequence number, with the flag [`SLEEPERS`].
    newest: CachePadded<AtomicU64>,
    sleepers: Mutex<Sleepers>,
    moved: WakeUp,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// First and last sequence number of each finished write that waits for its turn.
    writes: Vec<(Seq, Seq)>,
    /// Number of threads that wait for the writes of others.
    others: usize,
}

impl Sleepers {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.others == 0
    }

    /// Removes the write that begins with `first`, if it is here, and returns its last number.
    fn take(&mut self, first: Seq) -> Option<Seq> {
        let at = self.writes.iter().position(|w| w.0 == first)?;
        Some(self.writes.swap_remove(at).1)
    }
}

impl std::fmt::Debug for VisibleSeq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VisibleSeq").field(&self.now()).finish()
    }
}

impl VisibleSeq {
    /// Creates the number. Everything up to `seq` is visible.
    pub fn new(seq: Seq) -> Self {
        let (newest, sleepers) =
            (CachePadded(AtomicU64::new(seq)), Mutex::new(Sleepers::default()));
        VisibleSeq { newest, sleepers, moved: WakeUp::new() }
    }

    /// Makes everything up to `seq` visible. Recovery calls it before there are readers.
    pub fn start(&self, seq: Seq) {
        self.newest.store(seq, Ordering::Release);
    }

    /// Returns the newest visible sequence number.
    #[inline]
    pub fn now(&self) -> Seq {
        self.newest.load(Ordering::Acquire) & !SLEEPERS
    }

    /// Reports whether every number below `first` is visible now or after a short spin.
    #[inline]
    fn is_soon_below(&self, first: Seq) -> bool {
        for _ in 0..LOOKS {
            if self.now() + 1 == first {
                return true;
            }
            spin_loop();
        }
        self.now() + 1 == first
    }

    /// Waits until every number below `first` is visible. The wait is short, because their writers
    /// need nothing from the caller.
    #[inline]
    pub fn wait_below(&self, first: Seq) {
        if !self.is_soon_below(first) {
            let mut sleepers = self.sleepers.lock();
            sleepers.others += 1;
            sleepers = self.sleep(sleepers, first - 1);
            sleepers.others -= 1;
        }
    }

    /// Publishes the `count` numbers from `first` on, after all lower ones.
    #[inline]
    pub fn publish(&self, first: Seq, count: u64) {
        let last = first + count - 1;
        if !self.is_soon_below(first) {
            let mut sleepers = self.sleepers.lock();
            sleepers.writes.push((first, last));
            drop(self.sleep(sleepers, last));
        } else if self.newest.swap(last, Ordering::AcqRel) & SLEEPERS != 0 {
            self.publish_sleepers(&mut self.sleepers.lock());
            self.moved.notify_all();
        }
    }

    /// Sleeps until everything up to `seq` is visible.
    #[cold]
    fn sleep<'h>(
        &'h self,
        mut sleepers: MutexGuard<'h, Sleepers>,
        seq: Seq,
    ) -> MutexGuard<'h, Sleepers> {
        // The awaited number may have been published before the flag was set.
        if self.publish_sleepers(&mut sleepers) {
            self.moved.notify_all();
        }
        while self.now() < seq {
            sleepers = self.moved.wait(sleepers);
        }
        sleepers
    }

    /// Publishes the sleeping writers whose turn has come, and reports whether there were any. If
    /// some sleep on, the flag stays set for the next publisher.
    #[cold]
    fn publish_sleepers(&self, sleepers: &mut Sleepers) -> bool {
        let mut any = false;
        while !sleepers.is_empty() {
            // One step sets the flag and reads the number: the next publisher then sees the flag.
            let now = self.newest.fetch_or(SLEEPERS, Ordering::AcqRel) & !SLEEPERS;
            let Some(last) = sleepers.take(now + 1) else { break };
            // Only the writer of the next number advances it, and that writer sleeps.
            self.newest.store(last | SLEEPERS, Ordering::Release);
            any = true;
        }
        any
    }
}
