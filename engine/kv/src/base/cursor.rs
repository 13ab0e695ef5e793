//! The cursor trait of all sorted sources inside the engine (memtable, table, run, merge).
//!
//! Invariants, numbered so that code can refer to them:
//! - C1: a cursor is *invalid* when new, after an error, and after it ran off either end. `key`,
//!   `trailer` and `value` may be called only while it is valid; the slices live until the cursor
//!   is moved.
//! - C2: entries come in the order of [`compare`](crate::base::key::compare): user key ascending,
//!   newest version first.
//! - C3: `next` on a cursor that ran off the front, and `prev` on one that ran off the back, leave
//!   it invalid. Only the seeks, `first` and `last` make a cursor valid again.
//! - C4: a cursor returns every version and every kind of point entry; layers above decide
//!   visibility. Range tombstones are not entries of a cursor: see
//!   [`tombstone`](crate::range_del::tombstone).
//! - C5: an error is returned once and leaves the cursor invalid.

use crate::base::error::{Error, Result};
use crate::base::key::{Trailer, head};

/// Number of steps of [`Cursor::approach`].
pub const STEPS_AHEAD: usize = 3;

/// Position in a sorted sequence of entries.
pub trait Cursor {
    /// Reports whether the cursor is positioned at an entry.
    fn valid(&self) -> bool;
    /// Returns the user key of the entry.
    fn key(&self) -> &[u8];
    /// Returns the sequence number and kind of the entry.
    fn trailer(&self) -> Trailer;
    /// Returns the value of the entry. It is empty for deletes, and the blob handle for an entry
    /// with a blob. After [`defer_values`](Self::defer_values), call it only after
    /// [`complete`](Self::complete).
    fn value(&self) -> &[u8];
    /// Allows the cursor to load values only on request from now on.
    fn defer_values(&mut self) {}
    /// Loads the value of the current entry if it was deferred.
    #[inline]
    fn complete(&mut self) -> Result<()> {
        Ok(())
    }
    /// Reads the blob of an entry of kind [`Blob`](crate::base::key::Kind::Blob) into `out`. The
    /// default is for sources that have no such entries, and returns an error.
    fn fetch_blob(&self, _out: &mut Vec<u8>) -> Result<()> {
        Err(Error::corruption("a blob reference where only inline values are allowed"))
    }
    /// Returns the first 8 bytes of the key as a number. Merging cursors compare it without
    /// touching the key.
    #[inline]
    fn head(&self) -> u64 {
        head(self.key())
    }
    /// Prefetches the memory that a seek to `key` will read. Steps 0 to [`STEPS_AHEAD`] - 1 go one
    /// level further each, so that several cursors wait for their cache misses at the same time. It
    /// does not move the cursor, and may do nothing. The next `seek` or `seek_before` must be for
    /// this key, unless `first` or `last` comes before it. Returns false if the seek will have to
    /// read a file.
    #[inline]
    fn approach(&mut self, _key: &[u8], _step: usize) -> bool {
        true
    }
    /// Moves to the first entry at or after `(key, at)`.
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()>;
    /// Moves to the last entry whose user key is less than `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the first entry.
    fn first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn last(&mut self) -> Result<()>;
    /// Moves to the next entry.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry.
    fn prev(&mut self) -> Result<()>;
}
