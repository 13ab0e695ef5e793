//! Ownership of files: tables and log segments carry random numbers, and the manifest repeats them.
//!
//! Invariant: no two tables have the same identity, wherever they were written, and no two openings
//! of a store's log do. So a file of another store, of a clone or of another time is recognized,
//! even if its name, number and length are right.

use std::fmt;

/// Length of an encoded [`TableIdentity`] in bytes.
pub const IDENTITY: usize = 16;

/// Identity of a table file. All zero in tables that no store has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableIdentity {
    /// Id of the store that wrote the table. It does not change when a checkpoint or a tool copies
    /// the file.
    pub store: u64,
    /// Random number of the table, drawn when it was written.
    pub unique: u64,
}

impl TableIdentity {
    /// Encodes the identity: the store, then the number, little-endian.
    pub fn encode(&self) -> [u8; IDENTITY] {
        let mut out = [0; IDENTITY];
        out[..8].copy_from_slice(&self.store.to_le_bytes());
        out[8..].copy_from_slice(&self.unique.to_le_bytes());
        out
    }

    /// Decodes the output of [`encode`](TableIdentity::encode); returns `None` for another length.
    pub fn decode(bytes: &[u8]) -> Option<TableIdentity> {
        let (store, unique) = bytes.split_first_chunk()?;
        Some(TableIdentity {
            store: u64::from_le_bytes(*store),
            unique: u64::from_le_bytes(unique.try_into().ok()?),
        })
    }

    /// Describes a table `found` in place of this one; returns `None` if it is this one.
    pub fn mismatch(&self, found: &TableIdentity) -> Option<String> {
        if self.store != found.store {
            return Some(format!(
                "this is a table of another store (id {:016x}, not {:016x})",
                found.store, self.store
            ));
        }
        (self.unique != found.unique).then(|| {
            format!(
                "this is another table of this store, or of a clone of it ({:016x}, not {:016x})",
                found.unique, self.unique
            )
        })
    }
}

impl fmt::Display for TableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} of store {:016x}", self.unique, self.store)
    }
}

/// Writer of the log: one opening of a store. Its segments begin with its first one and end before
/// the first one of the next writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogWriter {
    /// Number of its first segment.
    pub from: u64,
    /// Random number of the writer.
    pub id: u64,
    /// Log position at which its first segment begins.
    pub base: u64,
}

/// Returns the writer of segment `number`; `writers` are in order of their first segments.
pub fn writer_of(writers: &[LogWriter], number: u64) -> Option<&LogWriter> {
    writers.iter().rfind(|w| w.from <= number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_recognised() {
        let own = TableIdentity { store: 1 << 63, unique: 7 };
        assert_eq!(TableIdentity::decode(&own.encode()), Some(own));
        assert_eq!(TableIdentity::decode(&own.encode()[..15]), None);
        assert_eq!(own.mismatch(&own), None);
        let words = |found: TableIdentity| own.mismatch(&found).unwrap_or_default();
        assert!(
            words(TableIdentity { store: 5, unique: 7 })
                .contains("another store (id 0000000000000005")
        );
        assert!(words(TableIdentity { unique: 8, ..own }).contains("another table of this store"));
    }

    #[test]
    fn a_writer_has_all_segments_up_to_the_next_one() {
        let all =
            [LogWriter { from: 2, id: 20, base: 0 }, LogWriter { from: 5, id: 50, base: 640 }];
        let ids: Vec<_> = (1..7).map(|n| writer_of(&all, n).map(|w| w.id)).collect();
        assert_eq!(ids, [None, Some(20), Some(20), Some(20), Some(50), Some(50)]);
    }
}
