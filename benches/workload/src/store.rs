//! Interface of an engine's driver.
//!
//! Reads and scans pass their bytes to a generic closure, so that each engine's loop is compiled
//! with its own iterator, without virtual calls and unnecessary copies. Every method may be called
//! from many threads.

use serde::{Deserialize, Serialize};
use std::error;

/// An error of an engine.
pub type Error = Box<dyn error::Error + Send + Sync>;

/// Result of a driver's call.
pub type Result<T> = std::result::Result<T, Error>;

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// In key order, from the first key at or after the start.
    Forward,
    /// Against key order, from the last key at or before the start.
    Reverse,
}

/// Entries to write at once, in a reused buffer.
#[derive(Debug, Default)]
pub struct StoreBatch {
    bytes: Vec<u8>,
    /// End of the key and end of the value of each entry, in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl StoreBatch {
    /// Clears the batch and retains its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reports whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the entries in the order of their addition.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, end)| {
            let entry = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
            start = end;
            entry
        })
    }
}

/// Statistics of a store; `None` for values that the engine does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoreStats {
    /// Bytes that the store occupies on disk.
    pub disk_bytes: Option<u64>,
    /// Bytes that the engine has written to files since it was opened.
    pub written_bytes: Option<u64>,
}

/// Operand of mergerandom: a number of eight bytes, little-endian.
pub const OPERAND: [u8; 8] = 1u64.to_le_bytes();

/// Returns the sum of the first eight bytes of base value and operands: the expected result of
/// merging.
pub fn fold<'a>(base: Option<&'a [u8]>, operands: impl IntoIterator<Item = &'a [u8]>) -> [u8; 8] {
    let number = |bytes: &[u8]| {
        let mut first = [0; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        u64::from_le_bytes(first)
    };
    base.into_iter()
        .chain(operands)
        .fold(0u64, |sum, bytes| sum.wrapping_add(number(bytes)))
        .to_le_bytes()
}

/// An ordered key-value store.
pub trait Store: Send + Sync {
    /// Puts one entry. With `sync` it is durable when the call returns; without, it was passed to
    /// the operating system.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Puts all entries of `batch` at once, without a sync.
    fn write_batch(&self, batch: &StoreBatch) -> Result<()>;

    /// Reads the value of `key` and passes it to `f`; `None` if it is missing.
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;

    /// Deletes `key`, whether it exists or not, without a sync.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Adds an operand of [`OPERAND`] to the value of `key`, without a sync. Engines without merge
    /// operators return an error.
    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let _ = (key, operand);
        Err("this engine has no merges".into())
    }

    /// Deletes every key in `[from, to)` without a scan, without a sync. Engines without range
    /// deletions return an error.
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let _ = (from, to);
        Err("this engine has no range deletions".into())
    }

    /// Opens a cursor and iterates from `from` (`None`: the first or last key) over at most `limit`
    /// entries. Passes each key and value to `f`, and returns their number.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64>;

    /// Flushes all earlier writes; a no-op for engines without a memtable.
    fn flush(&self) -> Result<()>;

    /// Compacts the store completely; a no-op for engines without compaction.
    fn compact(&self) -> Result<()>;

    /// Returns the statistics of the store.
    fn stats(&self) -> Result<StoreStats>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_was_pushed() {
        let mut batch = StoreBatch::default();
        for round in 0..2u8 {
            batch.clear();
            assert!(batch.is_empty());
            batch.push(b"a", &[round; 3]);
            batch.push(b"", b"");
            batch.push(b"key", b"");
            let entries: Vec<_> = batch.iter().collect();
            assert_eq!(entries, [(&b"a"[..], &[round; 3][..]), (b"", b""), (b"key", b"")]);
            assert_eq!(batch.len(), 3);
        }
    }
}
