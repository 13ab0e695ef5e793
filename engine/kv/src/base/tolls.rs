//! What readers of ranges pay for a tree's having several sources, and what merges for their sake
//! may write.
//!
//! The unit of a toll is an entry that a merge writes: a seek that has to position one source more
//! costs about as much as `SEEK` sixteenths of one, a step that has to compare one source more a
//! sixteenth.
//!
//! Invariants:
//! - Nothing that happens for each read touches memory that threads share: a cursor counts for
//!   itself and pays when it goes; of those that have little to pay one in [`SAMPLED`] pays for all
//!   of them.
//! - What is written for readers since the store was opened is never more than the declared share
//!   of what the tree held then and of what was flushed since.
//! - The atomics are the standard library's, as those of [`reads`](super::reads) are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reads::{SAMPLED, is_looked_at};
use crate::compaction::LEAST_TOLL;

/// What a seek pays for each source more than one, in sixteenths of an entry.
const SEEK: u64 = 40;
/// From so many sixteenths on a cursor pays for itself.
const MUCH: u64 = 16 << 12;

/// Who is told that readers have paid.
pub type ReadAmpCallback = Box<dyn Fn() + Send + Sync>;

/// The tolls of one tree.
pub struct Tolls {
    /// Entries paid for since the last merge for readers.
    paid: AtomicU64,
    /// Bytes of tables that there were at the opening or have been flushed since.
    held: AtomicU64,
    /// Bytes that merges for readers have written.
    written: AtomicU64,
    /// Is told now and then that readers have paid.
    bell: ReadAmpCallback,
}

debug_by!(Tolls, "Tolls", paid, held, written);

impl Tolls {
    /// Of a tree that holds nothing. `bell` is called now and then while readers pay, maybe under
    /// any lock.
    pub fn new(bell: ReadAmpCallback) -> Tolls {
        let [paid, held, written] = [0; 3].map(AtomicU64::new);
        Tolls { paid, held, written, bell }
    }

    /// Entries that readers have paid for.
    pub fn paid(&self) -> u64 {
        self.paid.load(Ordering::Relaxed)
    }

    /// Readers pay.
    fn pay(&self, entries: u64) {
        let before = self.paid.fetch_add(entries, Ordering::Relaxed);
        // Before the least toll nothing is merged: each time that it is paid again, somebody is told.
        if before / LEAST_TOLL != before.saturating_add(entries) / LEAST_TOLL {
            (self.bell)();
        }
    }

    /// So many bytes of tables are there, or have been flushed.
    pub fn hold(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that may be written for readers now, `percent` of what was held in all.
    pub fn allowance(&self, percent: u32) -> u64 {
        let all = u128::from(self.held.load(Ordering::Relaxed)) * u128::from(percent) / 100;
        u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(self.written.load(Ordering::Relaxed))
    }

    /// What has been paid is used for a merge that writes so many bytes.
    pub fn spend(&self, bytes: u64) {
        self.paid.store(0, Ordering::Relaxed);
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many of the entries paid for are used otherwise.
    pub fn use_up(&self, entries: u64) {
        let less = |paid: u64| Some(paid.saturating_sub(entries));
        let _ = self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// What one cursor pays.
#[derive(Debug, Default)]
pub struct SeekCost {
    /// Sources that it has to look into beside one.
    extra: u64,
    /// Sixteenths of entries.
    due: u64,
    to: Option<Arc<Tolls>>,
}

impl SeekCost {
    /// Of a cursor over so many sources. One over a single source pays nothing.
    pub fn new(sources: usize, to: &Arc<Tolls>) -> SeekCost {
        let extra = (sources as u64).saturating_sub(1);
        SeekCost { extra, due: 0, to: (extra > 0).then(|| to.clone()) }
    }

    /// For a seek.
    #[inline]
    pub fn seek(&mut self) {
        self.due += SEEK * self.extra;
    }

    /// For a step.
    #[inline]
    pub fn step(&mut self) {
        self.due += self.extra;
    }
}

impl Drop for SeekCost {
    fn drop(&mut self) {
        let Some(to) = &self.to else { return };
        if self.due >= MUCH {
            to.pay(self.due / 16);
        } else if is_looked_at() {
            to.pay(self.due * u64::from(SAMPLED) / 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolls() -> Arc<Tolls> {
        Arc::new(Tolls::new(Box::new(|| ())))
    }

    #[test]
    fn a_long_walk_over_two_sources_pays_a_sixteenth_of_each_step() {
        let tolls = tolls();
        let mut toll = SeekCost::new(2, &tolls);
        (0..1_600_000).for_each(|_| toll.step());
        drop(toll);
        assert_eq!(tolls.paid(), 100_000);
    }

    #[test]
    fn one_source_costs_nothing() {
        let tolls = tolls();
        let mut toll = SeekCost::new(1, &tolls);
        (0..1_600_000).for_each(|_| toll.seek());
        drop(toll);
        assert_eq!(tolls.paid(), 0);
    }

    /// One in so many pays for all: within a tenth over many.
    #[test]
    fn short_cursors_pay_on_average() {
        let tolls = tolls();
        for _ in 0..SAMPLED * 100 {
            SeekCost::new(3, &tolls).seek();
        }
        let due = u64::from(SAMPLED) * 100 * 2 * SEEK / 16;
        assert!(tolls.paid().abs_diff(due) * 10 < due, "{} of {due}", tolls.paid());
    }

    #[test]
    fn the_bell_rings_when_readers_have_paid_much_and_merges_keep_to_their_share() {
        let rung = Arc::new(AtomicU64::new(0));
        let counter = rung.clone();
        let tolls = Tolls::new(Box::new(move || _ = counter.fetch_add(1, Ordering::Relaxed)));
        tolls.pay(LEAST_TOLL - 1);
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        tolls.pay(1);
        tolls.pay(1);
        assert_eq!((rung.load(Ordering::Relaxed), tolls.paid()), (1, LEAST_TOLL + 1));
        tolls.hold(1000);
        assert_eq!((tolls.allowance(50), tolls.allowance(0)), (500, 0));
        tolls.spend(300);
        assert_eq!((tolls.allowance(50), tolls.paid()), (200, 0));
    }
}
