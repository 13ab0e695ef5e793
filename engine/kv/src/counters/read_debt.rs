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
//! - The atomics are those of the standard library, as in [`reads`](crate::counters::reads).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compaction::MIN_READ_DEBT;
use crate::counters::reads::{SAMPLED, should_sample};

/// Cost of a seek for each source after the first, in sixteenths of an entry.
const SEEK: u64 = 40;
/// Cost from which a cursor always reports for itself, in sixteenths of an entry.
const MUCH: u64 = 16 << 12;

/// Callback that reports a further cost of reads.
pub type ReadAmpCallback = Box<dyn Fn() + Send + Sync>;

/// Read costs of one tree.
pub struct ReadDebt {
    /// Cost of reads since the last read-triggered compaction, in entries.
    paid: AtomicU64,
    /// Bytes of tables that existed at opening or were flushed since.
    held: AtomicU64,
    /// Bytes that read-triggered compactions have written.
    written: AtomicU64,
    /// Callback for each [`MIN_READ_DEBT`] entries of further cost.
    bell: ReadAmpCallback,
}

debug_by!(ReadDebt, "ReadDebt", paid, held, written);

impl ReadDebt {
    /// Creates the account of an empty tree. `bell` is called from time to time while reads add
    /// cost, possibly under any lock.
    pub fn new(bell: ReadAmpCallback) -> ReadDebt {
        let [paid, held, written] = [0; 3].map(AtomicU64::new);
        ReadDebt { paid, held, written, bell }
    }

    /// Returns the cost of reads so far, in entries.
    pub fn paid(&self) -> u64 {
        self.paid.load(Ordering::Relaxed)
    }

    /// Adds the cost of reads.
    fn pay(&self, entries: u64) {
        let before = self.paid.fetch_add(entries, Ordering::Relaxed);
        // Below `MIN_READ_DEBT` no compaction is due, so the callback runs once per `MIN_READ_DEBT`
        // entries.
        if before / MIN_READ_DEBT != before.saturating_add(entries) / MIN_READ_DEBT {
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
    to: Option<Arc<ReadDebt>>,
}

impl SeekCost {
    /// Creates the cost of a cursor over `sources` sources. A cursor over a single source costs
    /// nothing.
    pub fn new(sources: usize, to: &Arc<ReadDebt>) -> SeekCost {
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
        } else if should_sample() {
            to.pay(self.due * u64::from(SAMPLED) / 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_debt() -> Arc<ReadDebt> {
        Arc::new(ReadDebt::new(Box::new(|| ())))
    }

    #[test]
    fn a_long_walk_over_two_sources_pays_a_sixteenth_of_each_step() {
        let read_debt = read_debt();
        let mut cost = SeekCost::new(2, &read_debt);
        (0..1_600_000).for_each(|_| cost.step());
        drop(cost);
        assert_eq!(read_debt.paid(), 100_000);
    }

    #[test]
    fn one_source_costs_nothing() {
        let read_debt = read_debt();
        let mut cost = SeekCost::new(1, &read_debt);
        (0..1_600_000).for_each(|_| cost.seek());
        drop(cost);
        assert_eq!(read_debt.paid(), 0);
    }

    /// One sampled cursor reports for all: the sum is within a tenth over many cursors.
    #[test]
    fn short_cursors_pay_on_average() {
        let read_debt = read_debt();
        for _ in 0..SAMPLED * 100 {
            SeekCost::new(3, &read_debt).seek();
        }
        let due = u64::from(SAMPLED) * 100 * 2 * SEEK / 16;
        assert!(read_debt.paid().abs_diff(due) * 10 < due, "{} of {due}", read_debt.paid());
    }

    #[test]
    fn the_bell_rings_when_readers_have_paid_much_and_merges_keep_to_their_share() {
        let rung = Arc::new(AtomicU64::new(0));
        let counter = rung.clone();
        let read_debt =
            ReadDebt::new(Box::new(move || _ = counter.fetch_add(1, Ordering::Relaxed)));
        read_debt.pay(MIN_READ_DEBT - 1);
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        read_debt.pay(1);
        read_debt.pay(1);
        assert_eq!((rung.load(Ordering::Relaxed), read_debt.paid()), (1, MIN_READ_DEBT + 1));
        read_debt.hold(1000);
        assert_eq!((read_debt.allowance(50), read_debt.allowance(0)), (500, 0));
        read_debt.spend(300);
        assert_eq!((read_debt.allowance(50), read_debt.paid()), (200, 0));
    }
}
