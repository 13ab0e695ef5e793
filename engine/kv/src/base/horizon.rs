//! The horizon: the newest sequence number that readers may see. Writers move it on in the order of
//! their numbers.
//!
//! Invariants:
//! - H1: it only grows, and moves over whole groups of numbers: a reader sees all of a batch or
//!   none.
//! - H2: [`publish`](VisibleSeq::publish) releases and [`now`](VisibleSeq::now) acquires, and each
//!   publisher has acquired what the ones before it released; so whoever sees a number sees
//!   everything that was done before that number or a lower one was published.
//!
//! - H3: a writer that has waited for a while sleeps, and whoever is before it publishes for it: a
//!   writer that lost its core in the middle holds up the others, but they leave it theirs.
//!
//! `loom_tests` enumerates it together with the view's pointer.

use super::key::Seq;
use super::stripe::CachePadded;
use super::sync::modelled::{Mutex, MutexGuard, WakeUp};
use super::sync::{AtomicU64, Ordering, spin_loop};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, interleave))))]
mod tests;

/// Somebody sleeps. Sequence numbers have 56 bits.
const SLEEPERS: u64 = 1 << 63;
/// How often a writer looks before it sleeps: about as long as others insert into a memtable.
const LOOKS: u32 = if cfg!(any(loom, interleave)) { 1 } else { 64 };

/// The newest sequence number that may be read. All readers and all writers come by, and wait for
/// nothing else: it lies apart.
pub struct VisibleSeq {
    /// With [`SLEEPERS`].
    newest: CachePadded<AtomicU64>,
    sleepers: Mutex<Sleepers>,
    moved: WakeUp,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// The first and the last number of writes that are done and wait for their turn.
    writes: Vec<(Seq, Seq)>,
    /// How many wait for the writes of others.
    others: usize,
}

impl Sleepers {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.others == 0
    }

    /// The last number of the write that begins with this one, if that is here.
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
    /// Everything up to `seq` may be read.
    pub fn new(seq: Seq) -> Self {
        let (newest, sleepers) =
            (CachePadded(AtomicU64::new(seq)), Mutex::new(Sleepers::default()));
        VisibleSeq { newest, sleepers, moved: WakeUp::new() }
    }

    /// Everything up to `seq` may be read from now on: what an opening found, before there are
    /// readers.
    pub fn start(&self, seq: Seq) {
        self.newest.store(seq, Ordering::Release);
    }

    /// The newest sequence number that may be read.
    #[inline]
    pub fn now(&self) -> Seq {
        self.newest.load(Ordering::Acquire) & !SLEEPERS
    }

    /// Whether every number below `first` may be read, at once or soon.
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

    /// Waits until every number below `first` may be read. Their writers need nothing from the
    /// caller, so this is short.
    #[inline]
    pub fn wait_below(&self, first: Seq) {
        if !self.is_soon_below(first) {
            let mut sleepers = self.sleepers.lock();
            sleepers.others += 1;
            sleepers = self.sleep(sleepers, first - 1);
            sleepers.others -= 1;
        }
    }

    /// Lets the `count` numbers from `first` on be read, after all lower ones.
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

    /// Sleeps until everything up to `seq` may be read.
    #[cold]
    fn sleep<'h>(
        &'h self,
        mut sleepers: MutexGuard<'h, Sleepers>,
        seq: Seq,
    ) -> MutexGuard<'h, Sleepers> {
        // What was awaited may have come before there was a sign that somebody sleeps.
        if self.publish_sleepers(&mut sleepers) {
            self.moved.notify_all();
        }
        while self.now() < seq {
            sleepers = self.moved.wait(sleepers);
        }
        sleepers
    }

    /// Publishes those whose turn it is: whether there were any. Where some go on sleeping, the next
    /// one who publishes is told.
    #[cold]
    fn publish_sleepers(&self, sleepers: &mut Sleepers) -> bool {
        let mut any = false;
        while !sleepers.is_empty() {
            // The sign and the number in one step: whoever moves it on from here sees the sign.
            let now = self.newest.fetch_or(SLEEPERS, Ordering::AcqRel) & !SLEEPERS;
            let Some(last) = sleepers.take(now + 1) else { break };
            // Only the writer of the next number moves it, and that one sleeps.
            self.newest.store(last | SLEEPERS, Ordering::Release);
            any = true;
        }
        any
    }
}
