//! The hooks by which a layer above teaches the engine its rules: [`Merge`], [`Purge`],
//! [`Summary`], [`FilterPrefix`].
//!
//! Hooks should not panic. In a reader's call a panic is the reader's. In a flush or a merge the job
//! fails, having changed nothing, with an error of kind [`Panicked`](super::error::ErrorKind::Panicked):
//! whoever called for it gets it, and in the background it makes the store read-only. A write
//! whose [`FilterPrefix`] panics may be in the log, and the store is read-only then until it is opened
//! again. [`Purge::gone_at`] is taken to have said `None`.
//!
//! A hook holds no handle of a store: the last one that goes closes it, and a worker can't wait for
//! itself to end.
//!
//! Invariants: hooks are pure (the same input gives the same answer in every process), because
//! their results are stored and replayed. Each has a name that is kept in the manifest; opening a
//! tree with another name is an error of kind
//! [`Incompatible`](super::error::ErrorKind::Incompatible).

use super::error::Result;
use super::key::Kind;

/// What folding the versions of a key gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folded {
    /// The key has this value.
    Value(Vec<u8>),
    /// The key has no value.
    Absent,
}

/// Folds the versions of one key into one value: a counter's increments, a cell's competing writes.
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait Merge: Send + Sync + 'static {
    /// The name kept in the manifest.
    fn name(&self) -> &str;

    /// The value of `key` given `base` (the newest put beneath the operands, `None` when there is
    /// none or it was deleted) and the operands, oldest first. An error is returned to the reader;
    /// in a compaction the versions are kept as they are.
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded>;

    /// One operand that stands for `older` followed by `newer`, when that can be told without the
    /// base. Lets compactions and flushes shrink runs of operands.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }

    /// Whether `newest` (the operands met so far, newest first) already decides the result whatever
    /// an older table with this [`Summary`] may hold. Lets a read stop early; `false` is always
    /// right.
    fn decided(&self, key: &[u8], newest: &[&[u8]], older_summary: &[u8]) -> bool {
        let _ = (key, newest, older_summary);
        false
    }
}

/// What a compaction does with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it as it is.
    Keep,
    /// Drop it: nobody can miss it.
    Drop,
    /// Keep the key with this value instead.
    Replace(Vec<u8>),
}

/// Decides during compaction what may vanish: expired, shadowed, past grace.
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait Purge: Send + Sync + 'static {
    /// The name kept in the manifest.
    fn name(&self) -> &str;
    /// Starts one pass over a job's output. Entries are then shown in key order, one surviving
    /// version per key. Merge operands that the pass folds are shown as the put that they become;
    /// operands that stay are not shown.
    fn start(&self, job: PurgeJob) -> Box<dyn PurgePass>;

    /// From when on nothing in a table with this [`Summary`] is wanted, in microseconds since 1970,
    /// provided that nothing older of its keys is left: such a table is dropped without being read.
    /// `None` for never, which is always right.
    fn gone_at(&self, summary: &[u8]) -> Option<u64> {
        let _ = summary;
        None
    }
}

/// What a [`PurgePass`] may know of its job.
#[derive(Clone, Copy, Debug)]
pub struct PurgeJob {
    /// Wall clock at the job's start, in microseconds since 1970.
    pub now_micros: u64,
}

/// One pass of a [`Purge`] hook over the output of one job.
pub trait PurgePass: Send {
    /// Judges one entry. `alone` says that nothing older of the key can be left, in another table
    /// or for a snapshot, so that dropping the entry uncovers nothing. Only entries that no
    /// snapshot can see differently are shown.
    fn judge(&mut self, key: &[u8], kind: Kind, value: &[u8], alone: bool) -> Verdict;

    /// Whether the entry speaks for other keys too, as a marker that hides what follows it does;
    /// then appends the end of the range of keys that it speaks for, which begins with its own. For
    /// such an entry `alone` says that no table outside of the job can hold anything older than the
    /// entry in the whole range.
    fn reach(&mut self, key: &[u8], value: &[u8], end: &mut Vec<u8>) -> bool {
        let _ = (key, value, end);
        false
    }
}

/// Collects a few bytes of facts about each table as it is written.
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait Summary: Send + Sync + 'static {
    /// The name kept in the manifest.
    fn name(&self) -> &str;
    /// Starts the summary of one table.
    fn start(&self) -> Box<dyn SummaryPass>;
}

/// One table's summary in the making.
pub trait SummaryPass: Send {
    /// Takes in an entry that the table holds.
    fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]);
    /// The bytes to be stored: at most 64 KiB.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Says how many leading bytes of a key go into a table's filter, so that one probe answers "is
/// anything of this row here".
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait FilterPrefix: Send + Sync + 'static {
    /// The name kept in the manifest.
    fn name(&self) -> &str;
    /// Length of the prefix: at most `key.len()`. Keys with the same prefix must give the same
    /// length.
    fn prefix_len(&self, key: &[u8]) -> usize;

    /// Length of the prefix that every key in `[from, until)` has, when they all have the same one.
    /// Lets reads of a range leave out tables; `None` is always right.
    fn shared_len(&self, from: &[u8], until: &[u8]) -> Option<usize> {
        let _ = (from, until);
        None
    }
}
