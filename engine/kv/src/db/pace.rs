//! Back-pressure: writers are slowed smoothly as compaction falls behind, and wait only when every memtable is full.
//!
//! Invariants:
//! - The delay follows the number of runs ([`pace`](crate::compaction::pace)): a writer is slowed by runs, never stopped.
//! - Waiting for a memtable ends with the next flush, and a flush never waits for writers or compactions, so no history ends in
//!   a Db that cannot be written.
//! - Delays are owed and paid in sleeps of at least [`SLEEP`], so that small writes do not each pay a system call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::compaction::delay;

use super::core::Core;
use super::tree::TreeCore;

const SLEEP: u64 = 1_000_000;

/// The state of back-pressure.
#[derive(Default)]
pub struct Pace {
    nanos_per_kib: AtomicU64,
    owed: AtomicU64,
    /// Nanoseconds that writers have slept for pacing.
    pub slept: AtomicU64,
    /// Nanoseconds that writers have waited for a memtable.
    pub stalled: AtomicU64,
}

impl Pace {
    /// Sets the delay from the position between the soft and the hard limit: 0 is none, 1 the most.
    pub fn set(&self, pressure: f64) {
        self.nanos_per_kib.store(delay(pressure), Ordering::Relaxed);
    }

    /// The present delay in nanoseconds for each KiB written.
    pub fn delay(&self) -> u64 {
        self.nanos_per_kib.load(Ordering::Relaxed)
    }
}

impl Core {
    /// Slows the caller down if compaction is behind.
    #[inline]
    pub fn pace(&self, bytes: usize) {
        let rate = self.pace.delay();
        if rate > 0 {
            self.pay(rate, bytes);
        }
    }

    #[cold]
    fn pay(&self, rate: u64, bytes: usize) {
        let owed = self.pace.owed.fetch_add(rate * bytes as u64 / 1024, Ordering::Relaxed);
        if owed >= SLEEP {
            let pay = self.pace.owed.swap(0, Ordering::Relaxed).min(100 * SLEEP);
            if pay >= SLEEP {
                self.env.sleep(Duration::from_nanos(pay));
                self.pace.slept.fetch_add(pay, Ordering::Relaxed);
            }
        }
    }

    /// Waits until `tree` has room for another sealed memtable.
    pub fn wait_for_flush(&self, tree: &TreeCore) -> Result<()> {
        let from = self.env.monotonic_nanos();
        self.signal_work();
        if self.options.background_threads == 0 {
            return self.work_inline();
        }
        let mut g = self.work.generation.lock();
        while tree.view.load_full().sealed.len() >= self.max_sealed {
            self.check_writable()?;
            tree.check_live()?;
            if self.is_closing() {
                return Err(Error::new(ErrorKind::Closed, "the store is closing"));
            }
            self.work.done.wait_for(&mut g, Duration::from_millis(50));
        }
        drop(g);
        let waited = self.env.monotonic_nanos().saturating_sub(from);
        self.pace.stalled.fetch_add(waited, Ordering::Relaxed);
        self.events.note("stall", |e| {
            e.str("tree", &tree.name).str("reason", "memtables full").num("micros", waited / 1000);
        });
        Ok(())
    }

    /// Whether the Db is being closed.
    pub fn is_closing(&self) -> bool {
        self.work.closing.load(Ordering::Relaxed)
    }
}
