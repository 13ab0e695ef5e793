//! What the reads of one operation did: a recording of what one thread reads within a closure,
//! summed up.

use std::sync::Arc;

use crate::merge::cost::{Origin, VersionPlace};

use super::super::state::meters::Meters;
use super::cost::{ReadCost, Recorded};
use super::recording::Recording;

/// What the reads of an operation have done so far: see
/// [`Db::with_context`](crate::Db::with_context).
pub struct ReadContext(Recording);

impl ReadContext {
    pub(in crate::db) fn begin(meters: Arc<Meters>) -> ReadContext {
        ReadContext(Recording::of_this_thread(meters))
    }

    /// The sum of what the reads of this operation have done until now, those of iterators and
    /// cursors as far as they have been walked. Of more than [`MOST_READS`](super::MOST_READS)
    /// reads the others are only counted ([`ReadSum::more`]).
    pub fn sum(&self) -> ReadSum {
        let recorded = self.0.so_far();
        let mut sum = ReadSum { more: recorded.more, ..ReadSum::default() };
        recorded.reads.iter().for_each(|read| sum.add(read));
        sum
    }

    /// The reads one by one.
    pub fn recorded(&self) -> Recorded {
        self.0.so_far()
    }
}

impl std::fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReadContext").field(&self.sum()).finish()
    }
}

/// What some reads did together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadSum {
    /// Reads: each get, of each key where there are several, each cursor and each end of an
    /// iterator.
    pub reads: u64,
    /// Reads that were not looked at, because there were too many.
    pub more: u64,
    /// Keys that were shown.
    pub found: u64,
    /// Memtables that were searched.
    pub memtables: u64,
    /// Runs of which a table was searched.
    pub runs: u64,
    /// Tables that had to be opened.
    pub tables_opened: u64,
    /// Filters of tables that were asked.
    pub filters_asked: u64,
    /// Those that knew that nothing is there.
    pub filters_no: u64,
    /// Those that said that a key may be there where it was not.
    pub filters_wrong: u64,
    /// Blocks that were in the cache. Values that lie apart are blocks of their own, here and below.
    pub blocks_cached: u64,
    /// Blocks that were served from the map of their file.
    pub blocks_mapped: u64,
    /// Blocks that were read from their files.
    pub blocks_read: u64,
    /// Of those such as had to be decompressed.
    pub blocks_decompressed: u64,
    /// Bytes that the blocks that were read have in their files.
    pub bytes_read: u64,
    /// Entries that were looked at.
    pub entries: u64,
    /// Deletes of single keys that were stepped over, by ones and by whole blocks.
    pub tombstones: u64,
    /// Entries that were stepped over because a range deletion covers them.
    pub covered: u64,
    /// How long the reads took, in nanoseconds, counting included.
    pub nanos: u64,
}

impl ReadSum {
    fn add(&mut self, read: &ReadCost) {
        self.reads += 1;
        self.found += read.found;
        self.nanos += read.nanos;
        for s in &read.sources {
            let is_memtable = matches!(s.place, VersionPlace::Active | VersionPlace::Sealed);
            let searched = u64::from(s.skipped.is_none());
            if is_memtable {
                self.memtables += searched
            } else {
                self.runs += searched
            }
            self.tables_opened += s.opened.len() as u64;
            for f in s.filters.iter().filter(|_| !is_memtable) {
                self.filters_asked += 1;
                self.filters_no += u64::from(!f.maybe);
                self.filters_wrong += u64::from(f.right == Some(false));
            }
            for b in s.blocks.iter().chain(&s.values) {
                match b.origin {
                    Origin::Cache => self.blocks_cached += 1,
                    Origin::Map => self.blocks_mapped += 1,
                    Origin::File => {
                        self.blocks_read += 1;
                        self.bytes_read += b.stored;
                    }
                }
                self.blocks_decompressed += u64::from(b.decompressed);
            }
            self.entries += s.entries.all();
            self.tombstones += s.entries.tombstones();
            self.covered += s.entries.beneath();
        }
    }
}
