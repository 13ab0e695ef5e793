//! Delays writers: computes the debt of sleep time and counts the time slept.
//!
//! Invariants:
//! - Writers accumulate debt and nanos it in sleeps of at least [`SLEEP`], so a small write rarely
//!   needs a system call. Concurrent writers sleep one after the other.
//! - The thread that sets a delay reports its begin ([`Event::SlowdownBegun`]) and its end, each
//!   once; writes report nothing. The delay is locked while its causes are read ([`HeldDelay`]). So
//!   a late thread sees that the tree was dropped, its memtable flushed or the store closed, and
//!   does not begin a delay.

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

/// Reason of a delay: too many runs.
pub const RUNS: &str = "compactions are behind";
/// Reason of a delay: the flush of the tree is slow.
pub const FLUSH: &str = "the flush that runs is behind";

/// Start of a period in which writers are delayed.
struct Slowed {
    /// Tree that caused the delay.
    tree: String,
    reason: &'static str,
    /// Start time, and the total sleep time of writers until then.
    since: u64,
    slept: u64,
}

/// Delay of writers.
#[derive(Default)]
pub struct WriteDelay {
    nanos_per_kib: AtomicU64,
    slowed: Mutex<Option<Slowed>, rank::Slowed>,
}

/// A locked delay, which only its holder can set.
pub struct HeldDelay<'a> {
    rate: &'a AtomicU64,
    slowed: MutexGuard<'a, Option<Slowed>, rank::Slowed>,
}

impl WriteDelay {
    /// Returns the delay in nanoseconds for each KiB written.
    #[inline]
    pub fn rate(&self) -> u64 {
        self.nanos_per_kib.load(Ordering::Relaxed)
    }

    /// Locks the delay.
    pub fn hold(&self) -> HeldDelay<'_> {
        HeldDelay { rate: &self.nanos_per_kib, slowed: self.slowed.lock() }
    }
}

impl HeldDelay<'_> {
    /// Sets the delay. Reports the begin of the delay with this tree and reason if there was none,
    /// and its end if `rate` is 0.
    pub fn set(&mut self, rate: u64, tree: &str, reason: &'static str, to: &WriteController) {
        self.rate.store(rate, Ordering::Relaxed);
        if rate == 0 {
            self.report_end(to);
        } else if self.slowed.is_none() {
            let (since, slept) = (to.env.monotonic_nanos(), to.slept());
            *self.slowed = Some(Slowed { tree: tree.to_owned(), reason, since, slept });
            to.events.note(|| Event::SlowdownBegun { tree: tree.to_owned(), reason });
        }
    }

    /// Ends the delay, whichever tree caused it.
    pub fn end(&mut self, to: &WriteController) {
        self.rate.store(0, Ordering::Relaxed);
        self.report_end(to);
    }

    fn report_end(&mut self, to: &WriteController) {
        let Some(Slowed { tree, reason, since, slept }) = self.slowed.take() else { return };
        to.events.note(|| Event::SlowdownEnded {
            tree,
            reason,
            micros: to.env.monotonic_nanos().saturating_sub(since) / 1000,
            slept_micros: (to.slept() - slept) / 1000,
        });
    }
}

/// Debt of writers, and the time that they slept and waited.
pub struct WriteController {
    env: Arc<dyn Env>,
    events: Arc<Events>,
    /// Delay for runs, set by the tree with the most runs over its limit.
    runs: WriteDelay,
    debt: AtomicU64,
    /// Wake-up time of the last sleeping writer.
    wake: AtomicU64,
    slept: AtomicU64,
    stalled: AtomicU64,
}

impl WriteController {
    /// Creates the controller of a store, which reports to `events`.
    pub fn new(env: Arc<dyn Env>, events: Arc<Events>) -> WriteController {
        let zero = || AtomicU64::new(0);
        let (debt, wake, slept, stalled) = (zero(), zero(), zero(), zero());
        WriteController { env, events, runs: WriteDelay::default(), debt, wake, slept, stalled }
    }

    /// Returns the delay for runs, set by the tree with the most runs over its limit.
    #[inline]
    pub fn runs(&self) -> &WriteDelay {
        &self.runs
    }

    /// Adds the delay for `bytes` at this rate to the debt. Returns the nanoseconds that the caller
    /// must sleep now, for itself and for others, if any.
    pub fn charge(&self, rate: u64, bytes: usize) -> Option<u64> {
        let debt = rate * bytes as u64 / 1024;
        if self.debt.fetch_add(debt, Ordering::Relaxed) + debt < SLEEP {
            return None;
        }
        let nanos = self.debt.swap(0, Ordering::Relaxed).min(100 * SLEEP);
        (nanos > 0).then_some(nanos)
    }

    /// Sleeps for `nanos` nanoseconds after the writers that sleep already.
    pub fn sleep(&self, nanos: u64) {
        let now = self.env.monotonic_nanos();
        self.wake.fetch_max(now, Ordering::Relaxed);
        let wake = self.wake.fetch_add(nanos, Ordering::Relaxed) + nanos;
        self.env.sleep(Duration::from_nanos((wake - now).min(100 * SLEEP)));
        self.slept.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Counts the time that a writer waited for a memtable.
    pub fn stall(&self, nanos: u64) {
        self.stalled.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the nanoseconds that writers slept because of delays.
    pub fn slept(&self) -> u64 {
        self.slept.load(Ordering::Relaxed)
    }

    /// Returns the nanoseconds that writers waited for a memtable.
    pub fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::Relaxed)
    }
}

/// Fill and flush times of the memtables of one tree, in nanoseconds.
#[derive(Default)]
pub struct MemtableFill {
    /// Delay of the tree's writers until its flush ends.
    delay: WriteDelay,
    /// Duration of the last flush per KiB of memtable.
    flush_per_kib: AtomicU64,
    /// Start of the running flush; 0 if none runs.
    flushing_since: AtomicU64,
    /// Creation time of the active memtable, and the total time that writers slept and waited until
    /// then.
    begun: AtomicU64,
    delayed: AtomicU64,
}

impl MemtableFill {
    /// Returns the delay of the tree's writers until its flush ends.
    #[inline]
    pub fn delay(&self) -> &WriteDelay {
        &self.delay
    }

    /// Notes the start of a flush.
    pub fn flush_began(&self, now: u64) {
        self.flushing_since.store(now, Ordering::Relaxed);
    }

    /// Notes the successful end of a flush of `memory` bytes of memtable.
    pub fn flush_ended(&self, now: u64, memory: usize) {
        let took = now.saturating_sub(self.flushing_since.swap(0, Ordering::Relaxed));
        self.flush_per_kib
            .store(took.saturating_mul(1024) / memory.max(1) as u64, Ordering::Relaxed);
    }

    /// Notes that a memtable of `memory` bytes was created at `now`, and returns the delay for its
    /// writers. If `wait` is set, the memtable may fill before the running flush ends. The delay
    /// adds the missing time: the rest of the flush less the fill time of the previous memtable.
    pub fn begin(&self, now: u64, delayed: u64, memory: usize, wait: bool) -> u64 {
        let elapsed = now.saturating_sub(self.begun.swap(now, Ordering::Relaxed));
        let idle = delayed.saturating_sub(self.delayed.swap(delayed, Ordering::Relaxed));
        let done = match self.flushing_since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        };
        let known = self.flush_per_kib.load(Ordering::Relaxed);
        if wait { fill_delay(memory, known, done, elapsed.saturating_sub(idle)) } else { 0 }
    }
}
