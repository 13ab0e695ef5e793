//! Tables that a Db writes: flushes, compactions and ingestions make them here, and remove here
//! what did not come to anything.
//!
//! Invariant: a file has a number of its own, which is listed as being written
//! ([`PinnedTask`]) before the file is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::facts::TableFacts;
use crate::base::options::{FilterAllocation, FilterKind, TreeOptions};
use crate::base::sync::AtomicU64;
use crate::cache::FrameRef;
use crate::compaction::{flushed_bits, whole_bits};
use crate::env::WriteFile;
use crate::manifest::TableMeta;
use crate::merge::job::Outputs;
use crate::merge::run::table_path;
use crate::sstable::{TableWriter, ValueOptions, ValueWriter, WarmBlocks, WriterOptions};
use crate::wal::Lsn;

use super::state::budget::JobBuffers;
use super::state::core::DbInner;
use super::state::pins::{PinKind, PinnedTask};
use super::state::throttle::Account;
use super::state::tree::TreeInner;

/// Makes output tables in the Db's directory.
pub(super) struct PendingOutputs<'a> {
    pub core: &'a DbInner,
    pub tree: &'a TreeInner,
    pub options: Arc<TreeOptions>,
    pub level: u8,
    pub task: Arc<PinnedTask>,
    /// Called now and then, with the entries of the input passed since.
    pub during: &'a mut dyn FnMut(u64) -> Result<()>,
    /// Where the bytes that it writes are counted.
    pub written: Option<Arc<AtomicU64>>,
    /// What a table in the making takes of the memory budget.
    pub buffers: JobBuffers,
    /// Where the log ends for the tables ([`Properties::log_end`](crate::sstable::Properties)).
    pub log_end: Lsn,
}

impl Outputs for PendingOutputs<'_> {
    fn create(&mut self) -> Result<TableWriter> {
        let (file, path, id) = self.new_file()?;
        let o = &self.options;
        let (filter, filter_dropped) = self.filter(id);
        let options = WriterOptions {
            identity: self.core.new_identity(),
            tree: self.tree.id,
            tree_name: self.tree.name.to_string(),
            log_end: self.log_end,
            log_writer: self.core.log_writer(),
            level: self.level,
            block_size: o.block_size,
            compression: o.compression_at(self.level as usize),
            filter,
            filter_dropped,
            filter_prefix: o.filter_prefix.clone(),
            summary: o.summary.clone(),
            merge: o.merge.as_ref().map_or_else(String::new, |h| h.name().to_owned()),
            purge: o.purge.as_ref().map_or_else(String::new, |h| h.name().to_owned()),
            created_micros: self.core.env.wall_micros(),
            warm: Some(self.core.cache.clone()),
        };
        Ok(TableWriter::new(file, &path, id, options))
    }

    fn blob_from(&self) -> usize {
        // Nobody knows yet what hooks a tree has that have not been handed in, and the options may be
        // those from before they were.
        if !self.tree.is_hooked() {
            return usize::MAX;
        }
        match self.tree.view.load_full().options.blob_from() {
            usize::MAX => usize::MAX,
            _ => self.options.blob_from(),
        }
    }

    fn create_values(&mut self) -> Result<ValueWriter> {
        let (file, path, id) = self.new_file()?;
        let options = ValueOptions {
            identity: self.core.new_identity(),
            tree: self.tree.id,
            level: self.level,
            compression: self.options.compression_at(self.level as usize),
            created_micros: self.core.env.wall_micros(),
            warm: Some(self.core.cache.clone()),
        };
        Ok(ValueWriter::new(file, &path, id, options))
    }

    fn progress(&mut self, entries: u64) -> Result<()> {
        (self.during)(entries)
    }

    fn holds(&mut self, bytes: usize) {
        self.buffers.grow_to(bytes as u64);
    }

    fn finished(&mut self, id: u64, warm: WarmBlocks) {
        self.core.opener.make_ready(id, warm);
        self.core.memory.rebalance();
    }

    fn finished_values(&mut self, id: u64, frames: Vec<(u32, FrameRef)>) {
        self.core.opener.make_values_ready(id, frames);
    }
}

impl PendingOutputs<'_> {
    /// The next file to be written, with its number.
    fn new_file(&self) -> Result<(Box<dyn WriteFile>, PathBuf, u64)> {
        self.core.check_process()?;
        let id = self.core.new_file();
        self.task.creates(id);
        let path = table_path(&self.core.dir, id);
        let file = self.core.env.create(&path)?;
        let file = match &self.written {
            Some(written) => Account::watch(written, file),
            None => file,
        };
        Ok((file, path, id))
    }

    /// The filter to make for table `id`, and how many bits of it are dropped: none while the hook
    /// that says what belongs into it has not been handed in, or was not when the options were
    /// taken.
    fn filter(&self, id: u64) -> (FilterKind, u8) {
        let same = || {
            self.tree.view.load_full().options.filter_prefix.is_some()
                == self.options.filter_prefix.is_some()
        };
        if !self.tree.is_hooked() || !same() {
            return (FilterKind::None, 0);
        }
        match self.options.filter_allocation {
            FilterAllocation::ByLevel => (self.options.filter_at(self.level as usize), 0),
            FilterAllocation::Monkey => {
                let bits = self.task.filter_bits(|| self.flushed_bits());
                FilterKind::holding(whole_bits(bits, id))
            }
        }
    }

    /// Bits of a fingerprint of tables of a new run of level 0: how many entries it will have, only
    /// a flush knows.
    fn flushed_bits(&self) -> f64 {
        let view = self.tree.view.load_full();
        let usual = |level: u8| self.options.filter_at(level.into()).bits().into();
        match view.sealed.last() {
            // Memtables are flushed oldest first.
            Some(sealed) if self.task.kind() == PinKind::Flush => {
                flushed_bits(&view.version.shapes, sealed.mem.entries(), &usual)
            }
            _ => usual(self.level),
        }
    }
}

/// Removes files that were written but never named by the manifest. What stays is collected at the
/// next open.
pub(super) fn remove_tables(core: &DbInner, ids: &[u64]) {
    for &id in ids {
        core.opener.forget(id);
        let _ = core.env.remove(&table_path(&core.dir, id));
    }
}

/// The manifest's facts of a table that has been written now. `newest_micros` is that of the
/// inputs.
pub(super) fn meta(facts: &TableFacts, now: u64, newest_micros: u64) -> TableMeta {
    TableMeta { facts: facts.clone(), created_micros: now, newest_micros, ingested_seq: 0 }
}

/// The number in a table's file name; `None` for names that are no table's.
pub(super) fn table_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".sst")?.parse().ok()?;
    (table_path(Path::new(""), number) == Path::new(name)).then_some(number)
}
