//! Sums up the cost of one operation's reads: a recording of one thread's reads within a closure.

use std::sync::Arc;

use crate::iterator::cost::{EntryLocation, Origin};

use crate::db::explain::cost::{ReadCost, RecordedReads};
use crate::db::explain::recording::Recording;
use crate::db::observe::meters::Meters;

/// Cost of an operation's reads so far; see [`Db::with_read_context`](crate::Db::with_read_context).
pub struct ReadContext(Recording);

impl ReadContext {
    pub(in crate::db) fn begin(meters: Arc<Meters>) -> ReadContext {
        ReadContext(Recording::of_this_thread(meters))
    }

    /// Returns the sum over the reads of this operation until now. Iterators and cursors count up
    /// to their current position. Reads beyond [`MAX_READS`](crate::db::explain::MAX_READS) are
    /// only counted ([`ReadSum::more`]).
    pub fn sum(&self) -> ReadSum {
        let recorded = self.0.so_far();
        let mut sum = ReadSum { more: recorded.more, ..ReadSum::default() };
        recorded.reads.iter().for_each(|read| sum.add(read));
        sum
    }

    /// Returns the individual reads.
    pub fn recorded(&self) -> RecordedReads {
        self.0.so_far()
    }
}

impl std::fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReadContext").field(&self.sum()).finish()
    }
}

/// Sum of the costs of several reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadSum {
    /// Number of reads: each get, each key of a multi-get, each cursor and each end of an iterator.
    pub reads: u64,
    /// Number of reads that were not measured, because there were too many.
    pub more: u64,
    /// Number of keys returned.
    pub found: u64,
    /// Number of memtables searched.
    pub memtables: u64,
    /// Number of runs of which a table was searched.
    pub runs: u64,
    /// Number of tables that had to be opened.
    pub tables_opened: u64,
    /// Number of table filters queried.
    pub filter_probes: u64,
    /// Number of negative answers of filters.
    pub filter_negatives: u64,
    /// Number of false positives of filters.
    pub filter_false_positives: u64,
    /// Number of blocks found in the cache. Blob values are blocks of their own, here and below.
    pub blocks_cached: u64,
    /// Number of blocks served from a memory-mapped file.
    pub blocks_mapped: u64,
    /// Number of blocks read from files.
    pub blocks_read: u64,
    /// Number of blocks that had to be decompressed, whether cached, mapped or read.
    pub blocks_decompressed: u64,
    /// Bytes of the read blocks, as stored in their files.
    pub bytes_read: u64,
    /// Number of entries examined.
    pub entries: u64,
    /// Number of point tombstones skipped, one by one or in whole blocks.
    pub tombstones: u64,
    /// Number of entries skipped because a range deletion covers them.
    pub covered: u64,
    /// Duration of the reads in nanoseconds, including the measurement.
    pub nanos: u64,
}

impl ReadSum {
    fn add(&mut self, read: &ReadCost) {
        self.reads += 1;
        self.found += read.found;
        self.nanos += read.nanos;
        for s in &read.sources {
            let is_memtable = matches!(s.location, EntryLocation::Active | EntryLocation::Sealed);
            let searched = u64::from(s.skipped.is_none());
            if is_memtable {
                self.memtables += searched
            } else {
                self.runs += searched
            }
            self.tables_opened += s.opened.len() as u64;
            for f in s.filters.iter().filter(|_| !is_memtable) {
                self.filter_probes += 1;
                self.filter_negatives += u64::from(!f.maybe);
                self.filter_false_positives += u64::from(f.right == Some(false));
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
            self.covered += s.entries.covered_entries();
        }
    }
}
