//! Hooks of the layer above: merge operator ([`MergeOperator`]), compaction filter
//! ([`CompactionFilter`]), table summary ([`Summary`]) and prefix extractor ([`FilterPrefix`]).
//!
//! Invariants:
//! - Hooks are pure: the same input gives the same result in every process, because the engine
//!   stores and replays their results.
//! - Each hook has a name that the manifest records. Opening a tree with another name is an error
//!   of kind [`Incompatible`](crate::base::error::ErrorKind::Incompatible).
//! - A hook holds no handle of a store. Dropping the last handle closes the store, and a worker
//!   cannot wait for its own end.
//!
//! Hooks should not panic:
//! - In a call of a reader, the panic reaches the reader.
//! - In a flush or a compaction, the job changes nothing and fails with an error of kind
//!   [`Panicked`](crate::base::error::ErrorKind::Panicked). The caller of the job gets the error.
//!   In the background it makes the store read-only.
//! - If a [`FilterPrefix`] panics during a write, the write may be in the log. The store is then
//!   read-only until it is opened again.
//! - If [`CompactionFilter::expires_at`] panics, the result is taken to be `None`.

use crate::base::error::Result;
use crate::base::key::Kind;

/// Name of the compaction filter of a [`TtlTree`](crate::TtlTree).
pub(crate) const TTL_FILTER: &str = "firn.ttl";

/// Result of folding the versions of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeResult {
    /// The key has this value.
    Value(Vec<u8>),
    /// The key has no value.
    Absent,
}

/// Merge operator. Folds the versions of one key into one value: the increments of a counter, or
/// the competing writes of a cell.
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait MergeOperator: Send + Sync + 'static {
    /// Returns the name that the manifest records.
    fn name(&self) -> &str;

    /// Returns the value of `key`, given `base` and the operands, oldest first. `base` is the
    /// newest put older than the operands, or `None` if there is none or it was deleted. A reader
    /// gets an error returned to it. If an error occurs in a compaction, the versions stay
    /// unchanged.
    fn full_merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<MergeResult>;

    /// Combines `older` followed by `newer` into one operand, if that is possible without the base.
    /// Compactions and flushes use it to shorten runs of operands.
    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }

    /// Reports whether `newest` (the operands read so far, newest first) already decides the
    /// result, whatever an older table with this [`Summary`] may hold. A read can then stop early.
    /// `false` is always correct.
    fn is_decided(&self, key: &[u8], newest: &[&[u8]], older_summary: &[u8]) -> bool {
        let _ = (key, newest, older_summary);
        false
    }
}

/// Decision of a compaction filter about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterDecision {
    /// Keep the entry unchanged.
    Keep,
    /// Drop the entry: no reader needs it.
    Drop,
    /// Keep the key with this value instead.
    Replace(Vec<u8>),
}

/// Compaction filter. Decides during compaction which entries are dropped: expired, shadowed, or
/// past their grace period.
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait CompactionFilter: Send + Sync + 'static {
    /// Returns the name that the manifest records.
    fn name(&self) -> &str;
    /// Starts one pass over the output of a job. The pass sees entries in key order, one surviving
    /// version of each key. Merge operands that the job folds appear as the resulting put. The pass
    /// does not see operands that remain.
    fn start(&self, job: CompactionFilterContext) -> Box<dyn CompactionFilterPass>;

    /// Returns the time from which no entry of a table with this [`Summary`] is needed, in
    /// microseconds since 1970. `None` means never, and is always correct. The engine then drops
    /// the table without reading it, provided that no older versions of its keys remain.
    fn expires_at(&self, summary: &[u8]) -> Option<u64> {
        let _ = summary;
        None
    }
}

/// Facts about a job for its [`CompactionFilterPass`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CompactionFilterContext {
    /// Wall-clock time at the start of the job, in microseconds since 1970.
    pub now_micros: u64,
}

impl CompactionFilterContext {
    /// Returns the context of a job that starts at this time, for tests of a filter.
    pub fn new(now_micros: u64) -> CompactionFilterContext {
        CompactionFilterContext { now_micros }
    }
}

/// One pass of a [`CompactionFilter`] hook over the output of one job.
pub trait CompactionFilterPass: Send {
    /// Decides about one entry. `alone` is true if no older version of the key can exist in another
    /// table or for a snapshot, so that dropping the entry uncovers nothing. The pass sees only
    /// entries that no snapshot can see differently.
    fn filter(&mut self, key: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision;

    /// Reports whether the entry also affects other keys, as a marker that hides the keys after it
    /// does. If so, appends the end of the affected key range, which begins with the entry's own
    /// key. For such an entry, `alone` is true only if no table outside the job can hold an entry
    /// older than this one in the whole range.
    fn reach(&mut self, key: &[u8], value: &[u8], end: &mut Vec<u8>) -> bool {
        let _ = (key, value, end);
        false
    }
}

/// Table summary hook. Collects a few bytes of facts about each table while it is written.
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait Summary: Send + Sync + 'static {
    /// Returns the name that the manifest records.
    fn name(&self) -> &str;
    /// Starts the summary of one table.
    fn start(&self) -> Box<dyn SummaryPass>;
}

/// Builder of the summary of one table.
pub trait SummaryPass: Send {
    /// Adds an entry of the table.
    fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]);
    /// Returns the bytes to store: at most 64 KiB.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Prefix extractor. Chooses the number of leading key bytes that go into a table's filter. One
/// probe then answers "does this table hold any entry of this row".
///
/// It should not panic ([`Panicked`](crate::ErrorKind::Panicked)).
pub trait FilterPrefix: Send + Sync + 'static {
    /// Returns the name that the manifest records.
    fn name(&self) -> &str;
    /// Returns the length of the prefix in bytes, at most `key.len()`. Keys with the same prefix
    /// must give the same length.
    fn prefix_len(&self, key: &[u8]) -> usize;

    /// Returns the length of the prefix that every key in `[from, until)` has, if they all have the
    /// same one. Range reads use it to skip tables. `None` is always correct.
    fn shared_len(&self, from: &[u8], until: &[u8]) -> Option<usize> {
        let _ = (from, until);
        None
    }
}
