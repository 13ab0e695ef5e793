//! Read-triggered compaction: accounts for the extra cost of range reads over several runs, and
//! limits the bytes that such compactions write.
//!
//! The unit of cost is one entry written by a compaction. A seek that positions one more source
//! costs `SEEK` sixteenths of an entry. A step that compares one more source costs one sixteenth.
//!
//! Invariants:
//! - No work that happens for each read touches memory that threads share. A cursor counts by
//!   itself and reports its cost when it is dropped. Among cursors with a small cost, one in
//!   [`SAMPLED`] reports for all of them.
//! - Read-triggered compactions since the store was opened write a limited number of bytes. The
//!   limit is the configured share of the bytes held then plus the bytes flushed since.
//! - The atomics are those of the standard library, as in [`reads`](super::reads).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reads::{SAMPLED, is_looked_at};
use crate::compaction::LEAST_TOLL;

/// Cost of a seek for each source after the first, in sixteenths of an entry.
const SEEK: u64 = 40;
/// Cost from which a cursor always reports for itself, in sixteenths of an entry.
const MUCH: u64 = 16 << 12;

/// Callback that reports a further cost of reads.
pub type ReadAmpCallback = Box<dyn Fn() + Send + Sync>;

/// Read costs of one tree.
pub struct Tolls {
    /// Cost of reads since the last read-triggered compaction, in entries.
    paid: AtomicU64,
    /// Bytes of tables that existed at opening or were flushed since.
    held: AtomicU64,
    /// Bytes that read-triggered compactions have written.
    written: AtomicU64,
    /// Callback for each [`LEAST_TOLL`] entries of further cost.
    bell: ReadAmpCallback,
}

debug_by!(Tolls, "Tolls", paid, held, written);

impl Tolls {
    /// Creates the account of an empty tree. `bell` is called from time to time while reads add
    /// cost, possibly under any lock.
    pub fn new(bell: ReadAmpCallback) -> Tolls {
        let [paid, held, written] = [0; 3].map(AtomicU64::new);
        Tolls { paid, held, written, bell }
    }

    /// Returns the cost of reads so far, in entries.
    pub fn paid(&self) -> u64 {
        self.paid.load(Ordering::Relaxed)
    }

    /// Adds the cost of reads.
    fn pay(&self, entries: u64) {
        let before = self.paid.fetch_add(entries, Ordering::Relaxed);
        // Below `LEAST_TOLL` no compaction is due, so the callback runs once per `LEAST_TOLL`
        // entries.
        if before / LEAST_TOLL != before.saturating_add(entries) / LEAST_TOLL {
            (self.bell)();
        }
    }

    /// Adds bytes of tables that exist or were flushed.
    pub fn hold(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that read-triggered compactions may write now: `percent` of all bytes
    /// held, less the bytes written.
    pub fn allowance(&self, percent: u32) -> u64 {
        let all = u128::from(self.held.load(Ordering::Relaxed)) * u128::from(percent) / 100;
        u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(self.written.load(Ordering::Relaxed))
    }

    /// Resets the cost, because a read-triggered compaction that writes `bytes` bytes starts.
    pub fn spend(&self, bytes: u64) {
        self.paid.store(0, Ordering::Relaxed);
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Deducts cost that has justified another operation, such as sealing a memtable.
    pub fn use_up(&self, entries: u64) {
        let less = |paid: u64| Some(paid.saturating_sub(entries));
        let _ = self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// Read cost of one cursor.
#[derive(Debug, Default)]
pub struct SeekCost {
    /// Number of sources after the first.
    extra: u64,
    /// Cost in sixteenths of an entry.
    due: u64,
    to: Option<Arc<Tolls>>,
}

impl SeekCost {
    /// Creates the cost of a cursor over `sources` sources. A cursor over a single source costs
    /// nothing.
    pub fn new(sources: usize, to: &Arc<Tolls>) -> SeekCost {
        let extra = (sources as u64).saturating_sub(1);
        SeekCost { extra, due: 0, to: (extra > 0).then(|| to.clone()) }
    }

    /// Adds the cost of a seek.
    #[inline]
    pub fn seek(&mut self) {
        self.due += SEEK * self.extra;
    }

    /// Adds the cost of a step.
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

    /// One sampled cursor reports for all: the sum is within a tenth over many cursors.
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
