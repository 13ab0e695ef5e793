//! Observers of reads: the read paths report each source and what they find in it.
//!
//! Invariant: observers are generic parameters, so a read without an observer (`()`) executes no
//! instruction for it.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::counters::reads::ReadCounters;
use crate::iterator::run::TableRun;
use crate::iterator::table_handle::TableHandle;
use crate::sstable::Table;
use crate::util::sync::epoch::Guard;

use crate::db::commit::mem_handle::MemHandle;

/// Source of a read.
#[derive(Clone, Copy)]
pub enum SearchedSource<'a> {
    /// A memtable.
    Memtable(&'a MemHandle),
    /// A run of tables.
    Run(&'a Arc<TableRun>),
}

/// Observes the sources of a read, newest first. By default it ignores everything.
pub trait ReadObserver {
    /// Whether the block cache must hold all blocks of the read until the observer is done.
    fn caches_all(&self) -> bool {
        false
    }

    /// Called before a source is considered. The previous source is finished.
    fn on_source(&mut self, _: SearchedSource<'_>) {}

    /// Called by point lookups when no memtable has the key.
    fn on_memtables_done(&mut self) {}

    /// Called with the sequence number of the newest range deletion over the key; 0 if there is
    /// none.
    fn on_cover(&mut self, _: Seq) {}

    /// Called with the answer of the filter of a table, or of the memtable (`None`).
    fn on_filter(&mut self, _: Option<&Table>, _maybe: bool) {}

    /// Called if the merge operator rules a table out by its properties.
    fn on_decided(&mut self) {}

    /// Called before the source is searched for the key.
    fn on_search(&mut self, _: Option<&Table>, _key: &[u8], _: &Guard) {}

    /// Called for each version of the key, with the newest range deletion over it.
    fn on_version(&mut self, _: Trailer, _cover: Seq) {}

    /// Called if the table does not have the key, with the answer of its filter.
    fn on_miss(&mut self, _: &Table, _maybe: bool) {}

    /// Called before the value of the key is read from a blob file.
    fn on_blob(&mut self, _: &TableHandle, _key: &[u8], _handle: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Observes nothing, as for most reads.
impl ReadObserver for () {}

/// Observer of a sampled get, whose counts stand for all gets of its sampling interval.
pub struct CountedRead<'a> {
    reads: &'a ReadCounters,
    in_memtable: bool,
}

impl<'a> CountedRead<'a> {
    /// Creates an observer that counts into `reads`.
    pub fn new(reads: &'a ReadCounters) -> CountedRead<'a> {
        CountedRead { reads, in_memtable: true }
    }

    /// Counts the get itself.
    pub fn finish(self, found: bool) {
        self.reads.got(found, self.in_memtable);
    }
}

impl ReadObserver for CountedRead<'_> {
    fn on_memtables_done(&mut self) {
        self.in_memtable = false;
    }

    fn on_filter(&mut self, table: Option<&Table>, maybe: bool) {
        if table.is_some_and(Table::has_filter) {
            self.reads.checked_filter(maybe);
        }
    }

    fn on_search(&mut self, table: Option<&Table>, key: &[u8], guard: &Guard) {
        if let Some(table) = table {
            table.count_search(key, guard);
        }
    }

    fn on_miss(&mut self, table: &Table, maybe: bool) {
        if maybe && table.has_filter() {
            self.reads.filter_was_wrong();
        }
    }
}
