//! Cost of a read, source by source: skipped sources with reasons, examined blocks and entries, and
//! entries passed on the way.

use crate::base::key::{Kind, Seq, Trailer};

/// Cost of a read in one memtable or run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SourceCost {
    /// The source.
    pub location: EntryLocation,
    /// Reason for which it was not searched; `None` if it was.
    pub skipped: Option<Skipped>,
    /// Numbers of the tables whose index and filter had to be read first.
    pub opened: Vec<u64>,
    /// Filter lookups.
    pub filters: Vec<FilterAnswer>,
    /// Data blocks that were examined, in order of table and offset.
    pub blocks: Vec<BlockRead>,
    /// Blobs that were read, each with the number of its blob file, in the order of reading.
    pub values: Vec<BlockRead>,
    /// Number of seeks by binary search from the root.
    pub seeks: u64,
    /// Entries that were examined.
    pub entries: Entries,
    /// The same for each table, in order of their numbers; empty for a memtable.
    pub tables: Vec<(u64, Entries)>,
    /// Number of its range deletions in the searched range. For a key: 1 if one covers it.
    pub range_deletions: u64,
    /// Sequence number of the newest of them that the read may see.
    pub covered_by: Option<Seq>,
    /// Time spent in the source, in nanoseconds, including the counting.
    pub nanos: u64,
}

/// Location of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryLocation {
    /// The mutable memtable, which takes writes.
    #[default]
    Active,
    /// An immutable memtable that waits for its flush.
    Sealed,
    /// A run of tables.
    Run {
        /// Level of the run.
        level: u8,
        /// Number of the run.
        number: u64,
        /// Number of its tables.
        tables: usize,
    },
}

/// Reason for which a source was not searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// It has no entries.
    Empty,
    /// The key, or the key range, is outside the bounds of all its tables.
    Bounds,
    /// Its filter, or the filters of its tables, exclude the key.
    Filter,
    /// Its filters contain prefixes and exclude all keys of the range.
    Prefix,
    /// A newer source had the answer.
    Decided,
    /// The merge operator excluded it based on the table's properties.
    Facts,
}

/// Result of a filter lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterAnswer {
    /// Number of the table; 0 for a memtable.
    pub table: u64,
    /// Whether the filter reported that the key may exist.
    pub maybe: bool,
    /// Whether the report was correct; `None` for a range, where it is not verified.
    pub right: Option<bool>,
}

/// A data block or the block of a blob that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockRead {
    /// Number of the table or blob file.
    pub table: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Stored size in bytes.
    pub stored: u64,
    /// Whether it had to be decompressed for this read.
    pub decompressed: bool,
    /// Origin of the block.
    pub origin: Origin,
}

/// Origin of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The block cache.
    Cache,
    /// The file.
    File,
    /// The mapping of the file. Only the system knows whether that part is in memory.
    Map,
}

/// Numbers of entries by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entries {
    /// Puts.
    pub puts: u64,
    /// Point deletes.
    pub deletes: u64,
    /// Merge operands.
    pub operands: u64,
    /// Those of the above that are newer than the read may see.
    pub unseen: u64,
    /// Those of the above that are older than a range deletion over them.
    pub covered: u64,
    /// Deletes skipped by whole blocks, without examining each.
    pub skipped_deletes: u64,
    /// Entries under a range deletion that were skipped at once, without examining each.
    pub skipped_covered: u64,
}

impl Entries {
    /// Returns the number of examined entries.
    pub fn all(&self) -> u64 {
        self.puts + self.deletes + self.operands
    }

    /// Returns the number of tombstones passed, one by one or by whole blocks.
    pub fn tombstones(&self) -> u64 {
        self.deletes + self.skipped_deletes
    }

    /// Returns the number of entries passed because a range deletion covers them.
    pub fn covered_entries(&self) -> u64 {
        self.covered + self.skipped_covered
    }

    /// Counts an entry.
    pub(crate) fn count(&mut self, t: Trailer, read: Seq, cover: Seq) {
        match t.kind() {
            Some(Kind::Put | Kind::Blob) => self.puts += 1,
            Some(Kind::Delete) => self.deletes += 1,
            Some(Kind::Merge) => self.operands += 1,
            None => {}
        }
        self.unseen += u64::from(t.seq() > read);
        self.covered += u64::from(t.seq() < cover);
    }

    /// Adds the numbers of another count.
    #[doc(hidden)]
    pub fn add(&mut self, other: &Entries) {
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.operands += other.operands;
        self.unseen += other.unseen;
        self.covered += other.covered;
        self.skipped_deletes += other.skipped_deletes;
        self.skipped_covered += other.skipped_covered;
    }
}

impl SourceCost {
    /// Adds the cost of another source.
    #[doc(hidden)]
    pub fn add(&mut self, s: &SourceCost) {
        self.opened.extend(&s.opened);
        self.filters.extend(&s.filters);
        self.blocks.extend(&s.blocks);
        self.values.extend(&s.values);
        self.seeks += s.seeks;
        self.entries.add(&s.entries);
        self.tables.extend(&s.tables);
        self.range_deletions += s.range_deletions;
        self.covered_by = self.covered_by.max(s.covered_by);
        self.nanos += s.nanos;
    }
}
