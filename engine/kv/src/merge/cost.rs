//! The cost of a read in numbers, source by source: what it skipped and why, what it looked at, and
//! what it passed on the way.

use crate::base::key::{Kind, Seq, Trailer};

/// A memtable or a run, and what a read did with it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SourceCost {
    /// What it is.
    pub place: VersionPlace,
    /// Why nothing of it was searched; `None` when it was.
    pub skipped: Option<Skipped>,
    /// Tables whose index and filter had to be read first.
    pub opened: Vec<u64>,
    /// The filters that were asked.
    pub filters: Vec<FilterAnswer>,
    /// The data blocks that were looked at, in order of table and offset.
    pub blocks: Vec<BlockRead>,
    /// The blocks of values that lie apart, each in the value file that it names, in the order in
    /// which they were read.
    pub values: Vec<BlockRead>,
    /// Searches by binary search from above.
    pub seeks: u64,
    /// Entries that were looked at.
    pub entries: Entries,
    /// The same for each table, in order of their numbers; empty for a memtable.
    pub tables: Vec<(u64, Entries)>,
    /// Range deletions of it that lie in what was read: for a key one that covers it.
    pub range_deletions: u64,
    /// The newest of those, as far as this read may see.
    pub covered_by: Option<Seq>,
    /// Time spent in it, in nanoseconds, counting included.
    pub nanos: u64,
}

/// Where entries are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionPlace {
    /// The memtable that takes writes.
    #[default]
    Active,
    /// A memtable that waits for its flush.
    Sealed,
    /// A run of tables.
    Run {
        /// Its level.
        level: u8,
        /// Its number.
        number: u64,
        /// How many tables it has.
        tables: usize,
    },
}

/// Why a source was not searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// It holds nothing.
    Empty,
    /// No table of it has the key, or keys of the range, between its bounds.
    Bounds,
    /// Its filter, or those of its tables, know that the key is not there.
    Filter,
    /// Its filters hold prefixes, and know that none of the range's keys is there.
    Prefix,
    /// Something newer had the answer.
    Decided,
    /// The merge hook knew from the table's facts that nothing in it counts.
    Facts,
}

/// A filter's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The table; 0 for a memtable's.
    pub table: u64,
    /// Whether it said that the key may be there.
    pub maybe: bool,
    /// Whether that was right; `None` for a range, where nobody looked.
    pub right: Option<bool>,
}

/// A data block that was looked at, or the block of a value that lies apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRead {
    /// The number of the table, or of the value file.
    pub table: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes that it takes there.
    pub stored: u64,
    /// Whether it had to be decompressed for this read.
    pub decompressed: bool,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a block came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was decoded before.
    Cache,
    /// It was read from the file.
    File,
    /// It lies in the map of the file; whether in memory, the system knows.
    Map,
}

/// Entries by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entries {
    /// Puts.
    pub puts: u64,
    /// Deletes of single keys.
    pub deletes: u64,
    /// Operands for the merge hook.
    pub operands: u64,
    /// Of all those, such as are newer than the read may see.
    pub unseen: u64,
    /// Of all those, such as are older than a range deletion over them.
    pub covered: u64,
    /// Deletes that were passed by whole blocks, without a look at each.
    pub leapt_deletes: u64,
    /// Entries beneath a range deletion that were passed at once, without a look at each.
    pub leapt_covered: u64,
}

impl Entries {
    /// All that were looked at.
    pub fn all(&self) -> u64 {
        self.puts + self.deletes + self.operands
    }

    /// Tombstones that were passed: one by one and by whole blocks.
    pub fn tombstones(&self) -> u64 {
        self.deletes + self.leapt_deletes
    }

    /// Entries that were passed because a range deletion covers them.
    pub fn beneath(&self) -> u64 {
        self.covered + self.leapt_covered
    }

    /// Takes note of an entry.
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

    /// Adds those of another count.
    pub fn add(&mut self, other: &Entries) {
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.operands += other.operands;
        self.unseen += other.unseen;
        self.covered += other.covered;
        self.leapt_deletes += other.leapt_deletes;
        self.leapt_covered += other.leapt_covered;
    }
}

impl SourceCost {
    /// A source that nothing was done with yet.
    pub(crate) fn of(place: VersionPlace) -> SourceCost {
        SourceCost { place, ..SourceCost::default() }
    }

    /// Adds what was done with another source.
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
