//! Back-pressure: writers are slowed smoothly as compaction falls behind, and wait only when every
//! memtable is full.
//!
//! Invariants:
//! - The delay follows the number of runs ([`pace`](crate::compaction::pace)): a writer is slowed
//!   by runs, never stopped.
//! - When the memtable that is being filled would be full before the one that is being flushed is
//!   written, what is missing is spread over it beforehand ([`MemtableFill`]): a writer is a little
//!   slower for a while instead of standing still at the end.
//! - Waiting for a memtable, or for memory ([`budget`](super::budget)), ends with the next flush,
//!   or with the error of one that lacks space; and a flush never waits for writers or compactions,
//!   so no history ends in a Db that cannot be written, and none in a writer that waits for a full
//!   disk.
//! - Delays are owed and paid in sleeps of at least [`SLEEP`], so that small writes do not each pay
//!   a system call; however many threads write, they pay one after the other.
//! - That writers are slowed is told when it begins and when it ends ([`Event::PacingBegun`]), by
//!   whoever sets the delay: a write tells nothing. Whatever began ends, once: with its cause, with
//!   the tree, or with the Db. So what a delay goes by is looked at under the lock that keeps its
//!   beginning: who was late finds the tree dropped, its memtable flushed, or the Db closed, and
//!   begins nothing.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::base::error::Result;
use crate::base::events::Event;
use crate::base::sync::{AtomicU64, Mutex, Ordering, rank};
use crate::compaction::{delay, fill_delay};

use super::close::closed;
use super::core::{Core, PutOff};
use super::meters::TimedCall;
use super::tree::TreeCore;

const SLEEP: u64 = 1_000_000;

/// Why writers are slowed.
const RUNS: &str = "compactions are behind";
const FLUSH: &str = "the flush that runs is behind";

/// A time in which writers are slowed, as it was when it began.
struct Slowed {
    /// The tree that began it.
    tree: String,
    reason: &'static str,
    /// When, and how long writers had slept until then.
    since: u64,
    slept: u64,
}

/// The state of back-pressure.
#[derive(Default)]
pub struct WritePace {
    nanos_per_kib: AtomicU64,
    owed: AtomicU64,
    slowed: Mutex<Option<Slowed>, rank::Slowed>,
    /// When the last of those who sleep will wake.
    wake: AtomicU64,
    /// Nanoseconds that writers have slept for pacing.
    pub slept: AtomicU64,
    /// Nanoseconds that writers have waited for a memtable.
    pub stalled: AtomicU64,
}

impl WritePace {
    /// The present delay in nanoseconds for each KiB written.
    pub fn delay(&self) -> u64 {
        self.nanos_per_kib.load(Ordering::Relaxed)
    }
}

/// How fast the memtables of one tree fill and how fast they are flushed; times in nanoseconds.
#[derive(Default)]
pub struct MemtableFill {
    nanos_per_kib: AtomicU64,
    slowed: Mutex<Option<Slowed>, rank::Slowed>,
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
    fn begin(&self, now: u64, stood: u64, memory: usize, wait: bool) -> u64 {
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

impl Core {
    /// Slows the caller, who takes `bytes` of memtables, if compactions or the tree's flushes are
    /// behind.
    #[inline]
    pub fn pace(&self, tree: &TreeCore, bytes: usize) {
        let rate = self.pace.delay().max(tree.fill.nanos_per_kib.load(Ordering::Relaxed));
        if rate > 0 {
            self.pay(rate, bytes);
        }
    }

    #[cold]
    fn pay(&self, rate: u64, bytes: usize) {
        let owed = rate * bytes as u64 / 1024;
        if self.pace.owed.fetch_add(owed, Ordering::Relaxed) + owed < SLEEP {
            return;
        }
        let pay = self.pace.owed.swap(0, Ordering::Relaxed).min(100 * SLEEP);
        if pay == 0 {
            return;
        }
        let now = self.env.monotonic_nanos();
        self.pace.wake.fetch_max(now, Ordering::Relaxed);
        let wake = self.pace.wake.fetch_add(pay, Ordering::Relaxed) + pay;
        self.env.sleep(Duration::from_nanos((wake - now).min(100 * SLEEP)));
        self.pace.slept.fetch_add(pay, Ordering::Relaxed);
        self.watch.meters.record(TimedCall::Pace, pay);
    }

    /// Sets the delay from the position between the soft and the hard limit of the tree that is
    /// furthest behind, after that of `tree` has changed: 0 is none, 1 the most. One caller at a
    /// time.
    pub fn set_pace(&self, tree: &TreeCore, pressure: f64) {
        self.set_delay(
            &self.pace.nanos_per_kib,
            delay(pressure),
            &mut self.pace.slowed.lock(),
            tree,
            RUNS,
        );
    }

    /// A fresh memtable of `tree` has been begun at `now`, after one of `memory` bytes.
    pub fn begin_fill(&self, tree: &TreeCore, now: u64, memory: usize) {
        let stood =
            self.pace.slept.load(Ordering::Relaxed) + self.pace.stalled.load(Ordering::Relaxed);
        let fill = &tree.fill;
        let mut slowed = fill.slowed.lock();
        let rate = fill.begin(now, stood, memory, self.is_full_soon(tree));
        self.set_delay(&fill.nanos_per_kib, rate, &mut slowed, tree, FLUSH);
    }

    /// A memtable of `tree` has been flushed, or the tree is gone: when nobody will wait for a
    /// flush any more, nobody is slowed for it.
    pub fn end_fill(&self, tree: &TreeCore) {
        let mut slowed = tree.fill.slowed.lock();
        if !self.is_full_soon(tree) {
            self.set_delay(&tree.fill.nanos_per_kib, 0, &mut slowed, tree, FLUSH);
        }
    }

    /// Whether the writers of `tree` will wait for a flush when the memtable is full that they fill
    /// now. Without workers they flush themselves, and there is nobody to wait for.
    fn is_full_soon(&self, tree: &TreeCore) -> bool {
        let is_full = || tree.view.load_full().sealed.len() >= self.max_sealed;
        self.options.background_threads > 0 && tree.check_live().is_ok() && is_full()
    }

    /// The Db is closed, and all trees are marked so: nobody is slowed any more.
    pub fn end_pacing(&self) {
        {
            let mut pressed = self.work.pressed.lock();
            pressed.clear();
            self.pace.nanos_per_kib.store(0, Ordering::Relaxed);
            self.tell_end(&mut self.pace.slowed.lock());
        }
        self.trees.read().iter().for_each(|t| self.end_fill(t));
    }

    /// Makes a delay this one, and tells when writers begin to be slowed by it, and when that ends.
    fn set_delay(
        &self,
        delay: &AtomicU64,
        rate: u64,
        slowed: &mut Option<Slowed>,
        tree: &TreeCore,
        reason: &'static str,
    ) {
        delay.store(rate, Ordering::Relaxed);
        if rate == 0 {
            self.tell_end(slowed);
        } else if slowed.is_none() {
            let (since, slept) =
                (self.env.monotonic_nanos(), self.pace.slept.load(Ordering::Relaxed));
            *slowed = Some(Slowed { tree: tree.name.clone(), reason, since, slept });
            self.events.note(|| Event::PacingBegun { tree: tree.name.clone(), reason });
        }
    }

    fn tell_end(&self, slowed: &mut Option<Slowed>) {
        let Some(Slowed { tree, reason, since, slept }) = slowed.take() else { return };
        self.events.note(|| Event::PacingEnded {
            tree,
            reason,
            micros: self.env.monotonic_nanos().saturating_sub(since) / 1000,
            slept_micros: (self.pace.slept.load(Ordering::Relaxed) - slept) / 1000,
        });
    }

    /// Waits until flushes have ended that a writer of `tree` needs: as long as `is_full` says, of
    /// which `reason` is told.
    pub fn wait_for_flush(
        &self,
        tree: &TreeCore,
        reason: &str,
        is_full: &dyn Fn() -> bool,
    ) -> Result<()> {
        let from = self.watch.meters.now();
        self.signal_work();
        if self.options.background_threads == 0 {
            match self.work_inline() {
                Ok(true) => {}
                Ok(false) => {
                    // Another caller is flushing this tree: to ask again and again would only keep
                    // it from the lock.
                    let mut g = self.work.generation.lock();
                    if is_full() {
                        self.work.done.wait_for(&mut g, Duration::from_millis(20));
                    }
                }
                // What lacks space is work of another tree.
                Err(e) if e.is_transient() && !is_full() => self.put_off(e)?,
                Err(e) => return Err(e),
            }
            return Ok(());
        }
        // With its own memtables in tables it may still be another tree that holds the memory.
        let put_off = if tree.view.load_full().sealed.is_empty() {
            &self.work.put_off
        } else {
            &tree.put_off
        };
        let since = put_off.lock().times();
        let told = || (tree.name.clone(), reason.to_owned());
        self.events.note(|| {
            let (tree, reason) = told();
            Event::StallBegun { tree, reason }
        });
        let done = self.wait_while(tree, put_off, since, is_full);
        let waited = self.watch.meters.since(TimedCall::Stall, from);
        self.pace.stalled.fetch_add(waited, Ordering::Relaxed);
        self.events.note(|| {
            let (tree, reason) = told();
            Event::StallEnded { tree, reason, micros: waited / 1000 }
        });
        done
    }

    /// Waits as long as `is_full` says, unless there is an error or work has been put off since.
    fn wait_while(
        &self,
        tree: &TreeCore,
        put_off: &Mutex<PutOff>,
        since: u64,
        is_full: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut g = self.work.generation.lock();
        while is_full() {
            self.check_writable()?;
            tree.check_live()?;
            put_off.lock().check(since)?;
            if self.is_closing() {
                return Err(closed());
            }
            self.work.done.wait_for(&mut g, Duration::from_millis(50));
            if !self.has_all_workers() {
                drop(g);
                self.call_workers();
                g = self.work.generation.lock();
            }
        }
        Ok(())
    }
}
