//! How writers are slowed: the delays, what is owed of them, and what was slept.
//!
//! Invariants:
//! - Delays are owed and paid in sleeps of at least [`SLEEP`], so that small writes do not each pay
//!   a system call; however many threads write, they pay one after the other.
//! - That writers are slowed is told when it begins and when it ends ([`Event::PacingBegun`]), by
//!   whoever sets the delay: a write tells nothing. Whatever began ends, once. So what a delay goes
//!   by is looked at while it is held ([`HeldDelay`]): who was late finds the tree dropped, its
//!   memtable flushed, or the store closed, and begins nothing.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::base::events::Event;
use crate::compaction::fill_delay;
use crate::env::Env;
use crate::util::sync::{AtomicU64, Mutex, MutexGuard, Ordering, rank};

use crate::db::observe::events::Events;

const SLEEP: u64 = 1_000_000;

/// Why writers are slowed: for their runs.
pub const RUNS: &str = "compactions are behind";
/// The same, for the flush of their tree.
pub const FLUSH: &str = "the flush that runs is behind";

/// A time in which writers are slowed, as it was when it began.
struct Slowed {
    /// The tree that began it.
    tree: String,
    reason: &'static str,
    /// When, and how long writers had slept until then.
    since: u64,
    slept: u64,
}

/// A delay of writers.
#[derive(Default)]
pub struct WriteDelay {
    nanos_per_kib: AtomicU64,
    slowed: Mutex<Option<Slowed>, rank::Slowed>,
}

/// A delay that nobody else sets meanwhile.
pub struct HeldDelay<'a> {
    rate: &'a AtomicU64,
    slowed: MutexGuard<'a, Option<Slowed>, rank::Slowed>,
}

impl WriteDelay {
    /// In nanoseconds for each KiB written.
    #[inline]
    pub fn rate(&self) -> u64 {
        self.nanos_per_kib.load(Ordering::Relaxed)
    }

    /// Keeps others from setting it.
    pub fn hold(&self) -> HeldDelay<'_> {
        HeldDelay { rate: &self.nanos_per_kib, slowed: self.slowed.lock() }
    }
}

impl HeldDelay<'_> {
    /// Makes the delay this one, and tells when writers begin to be slowed by it, for this tree
    /// and reason, and when that ends.
    pub fn set(&mut self, rate: u64, tree: &str, reason: &'static str, to: &WriteController) {
        self.rate.store(rate, Ordering::Relaxed);
        if rate == 0 {
            self.report_end(to);
        } else if self.slowed.is_none() {
            let (since, slept) = (to.env.monotonic_nanos(), to.slept());
            *self.slowed = Some(Slowed { tree: tree.to_owned(), reason, since, slept });
            to.events.note(|| Event::PacingBegun { tree: tree.to_owned(), reason });
        }
    }

    /// Ends it, whatever tree has begun it.
    pub fn end(&mut self, to: &WriteController) {
        self.rate.store(0, Ordering::Relaxed);
        self.report_end(to);
    }

    fn report_end(&mut self, to: &WriteController) {
        let Some(Slowed { tree, reason, since, slept }) = self.slowed.take() else { return };
        to.events.note(|| Event::PacingEnded {
            tree,
            reason,
            micros: to.env.monotonic_nanos().saturating_sub(since) / 1000,
            slept_micros: (to.slept() - slept) / 1000,
        });
    }
}

/// What writers owe, and have paid.
pub struct WriteController {
    env: Arc<dyn Env>,
    events: Arc<Events>,
    /// The delay for runs, of the tree that is furthest behind.
    runs: WriteDelay,
    owed: AtomicU64,
    /// When the last of those who sleep will wake.
    wake: AtomicU64,
    slept: AtomicU64,
    stalled: AtomicU64,
}

impl WriteController {
    /// Creates the controller of a store, which reports to `events`.
    pub fn new(env: Arc<dyn Env>, events: Arc<Events>) -> WriteController {
        let zero = || AtomicU64::new(0);
        let (owed, wake, slept, stalled) = (zero(), zero(), zero(), zero());
        WriteController { env, events, runs: WriteDelay::default(), owed, wake, slept, stalled }
    }

    /// The delay for runs, of the tree that is furthest behind.
    #[inline]
    pub fn runs(&self) -> &WriteDelay {
        &self.runs
    }

    /// Owes the delay for so many bytes at this rate. Gives what the caller has to sleep now for
    /// itself and others, if anything.
    pub fn owe(&self, rate: u64, bytes: usize) -> Option<u64> {
        let owed = rate * bytes as u64 / 1024;
        if self.owed.fetch_add(owed, Ordering::Relaxed) + owed < SLEEP {
            return None;
        }
        let pay = self.owed.swap(0, Ordering::Relaxed).min(100 * SLEEP);
        (pay > 0).then_some(pay)
    }

    /// Sleeps so long, behind those who sleep already.
    pub fn sleep(&self, pay: u64) {
        let now = self.env.monotonic_nanos();
        self.wake.fetch_max(now, Ordering::Relaxed);
        let wake = self.wake.fetch_add(pay, Ordering::Relaxed) + pay;
        self.env.sleep(Duration::from_nanos((wake - now).min(100 * SLEEP)));
        self.slept.fetch_add(pay, Ordering::Relaxed);
    }

    /// A writer has waited for a memtable.
    pub fn stall(&self, nanos: u64) {
        self.stalled.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Nanoseconds that writers have slept for pacing.
    pub fn slept(&self) -> u64 {
        self.slept.load(Ordering::Relaxed)
    }

    /// Nanoseconds that writers have waited for a memtable.
    pub fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::Relaxed)
    }
}

/// How fast the memtables of one tree fill and how fast they are flushed; times in nanoseconds.
#[derive(Default)]
pub struct MemtableFill {
    /// The delay of the tree's writers for its flush.
    delay: WriteDelay,
    /// What a KiB of memtable took in the last flush.
    flush_per_kib: AtomicU64,
    /// When the flush that runs now began; 0 when none runs.
    flushing_since: AtomicU64,
    /// When the memtable that is being filled was begun, and how long writers had slept and stood
    /// still until then.
    begun: AtomicU64,
    stood: AtomicU64,
}

impl MemtableFill {
    /// The delay of the tree's writers for its flush.
    #[inline]
    pub fn delay(&self) -> &WriteDelay {
        &self.delay
    }

    /// A flush begins.
    pub fn flush_began(&self, now: u64) {
        self.flushing_since.store(now, Ordering::Relaxed);
    }

    /// A flush of `memory` bytes of memtable ended well.
    pub fn flush_ended(&self, now: u64, memory: usize) {
        let took = now.saturating_sub(self.flushing_since.swap(0, Ordering::Relaxed));
        self.flush_per_kib
            .store(took.saturating_mul(1024) / memory.max(1) as u64, Ordering::Relaxed);
    }

    /// A memtable of `memory` bytes has been begun at `now`. When it may not be full before the
    /// flush that runs is done (`wait`), its writers are to be slowed by the time that would be
    /// missing: what the flush still needs, less what the last one took to fill. Gives the delay.
    pub fn begin(&self, now: u64, stood: u64, memory: usize, wait: bool) -> u64 {
        let elapsed = now.saturating_sub(self.begun.swap(now, Ordering::Relaxed));
        let idle = stood.saturating_sub(self.stood.swap(stood, Ordering::Relaxed));
        let done = match self.flushing_since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        };
        let known = self.flush_per_kib.load(Ordering::Relaxed);
        if wait { fill_delay(memory, known, done, elapsed.saturating_sub(idle)) } else { 0 }
    }
}
