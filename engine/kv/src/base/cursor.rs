//! The cursor: how every sorted source inside the engine is walked (memtable, table, run, merge).
//!
//! Invariants, numbered so that code can point at them:
//! - C1: a cursor is *invalid* when new, after an error, and when it has run off either end. `key`,
//!   `trailer` and `value` may be called only while it is valid; the slices live until the cursor
//!   is moved.
//! - C2: entries come in the order of [`compare`](super::key::compare): user key ascending, newest
//!   version first.
//! - C3: `next` on a cursor that ran off the front, and `prev` on one that ran off the back, keep
//!   it invalid; only the seeks, `first` and `last` make a cursor valid again.
//! - C4: a cursor sees every version and every kind of point entry; visibility is decided above it.
//!   Range tombstones are not entries of a cursor: see [`tombstone`](super::tombstone).
//! - C5: errors are returned once and leave the cursor invalid.

use super::error::{Error, Result};
use super::key::{Trailer, head};

/// How many steps [`Cursor::approach`] has.
pub const STEPS_AHEAD: usize = 3;

/// A position in a sorted sequence of entries.
pub trait Cursor {
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// The user key of the entry.
    fn key(&self) -> &[u8];
    /// Sequence number and kind of the entry.
    fn trailer(&self) -> Trailer;
    /// The entry's value (empty for deletes; of an entry whose value lies apart what refers to it).
    /// Once values may be [deferred](Self::defer_values) only after [`complete`](Self::complete).
    fn value(&self) -> &[u8];
    /// From now on values may be missing until somebody asks for them.
    fn defer_values(&mut self) {}
    /// Sees to it that the value of the entry it stands on is there.
    #[inline]
    fn complete(&mut self) -> Result<()> {
        Ok(())
    }
    /// Reads the value that lies apart, of an entry of the kind
    /// [`Blob`](super::key::Kind::Blob), into `out`. No other source has such entries.
    fn fetch_blob(&self, _out: &mut Vec<u8>) -> Result<()> {
        Err(Error::corruption("an entry refers to a value where values are themselves"))
    }
    /// The first 8 bytes of the key as a number: lets merges compare without touching the key.
    #[inline]
    fn head(&self) -> u64 {
        head(self.key())
    }
    /// Asks the memory for what a seek to `key` will look at, a step further with each of the steps
    /// 0 to [`STEPS_AHEAD`] - 1, so that several cursors can wait for their cache misses at the
    /// same time. It moves nothing and may do nothing. The seek or `seek_before` that follows is to
    /// this key, unless `first` or `last` comes before it. False where that will have to read a file.
    #[inline]
    fn approach(&mut self, _key: &[u8], _step: usize) -> bool {
        true
    }
    /// To the first entry at or after `(key, at)`.
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()>;
    /// To the last entry whose user key is less than `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// To the first entry.
    fn first(&mut self) -> Result<()>;
    /// To the last entry.
    fn last(&mut self) -> Result<()>;
    /// To the following entry.
    fn next(&mut self) -> Result<()>;
    /// To the preceding entry.
    fn prev(&mut self) -> Result<()>;
}
