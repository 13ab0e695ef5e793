//! Creates the tables that flushes, compactions and ingestions write, and removes the outputs of
//! failed ones.
//!
//! Invariant: every file has a unique number, which is listed as being written ([`PinnedTask`])
//! before the file exists.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::facts::TableFacts;
use crate::base::options::{FilterAllocation, FilterKind, TreeOptions};
use crate::block_cache::FrameRef;
use crate::compaction::{flushed_bits, whole_bits};
use crate::env::WriteFile;
use crate::iterator::opener::table_path;
use crate::manifest::TableMeta;
use crate::rewrite::job::Outputs;
use crate::sstable::{BlobOptions, BlobWriter, TableWriter, WarmBlocks, WriterOptions};
use crate::util::sync::AtomicU64;
use crate::wal::Lsn;

use crate::db::inner::DbInner;
use crate::db::memory::budget::JobBuffers;
use crate::db::observe::pins::{PinKind, PinnedTask};
use crate::db::scheduler::throttle::Account;
use crate::db::versions::tree::TreeInner;

/// Creates output tables in the Db's directory.
pub struct PendingOutputs<'a> {
    pub inner: &'a DbInner,
    pub tree: &'a TreeInner,
    pub options: Arc<TreeOptions>,
    pub level: u8,
    pub task: Arc<PinnedTask>,
    /// Called periodically, with the number of input entries processed since the last call.
    pub during: &'a mut dyn FnMut(u64) -> Result<()>,
    /// Counter of the bytes written.
    pub written: Option<Arc<AtomicU64>>,
    /// Share of the memory budget that a table under construction uses.
    pub buffers: JobBuffers,
    /// End of the log for the tables ([`Properties::log_end`](crate::sstable::Properties)).
    pub log_end: Lsn,
}

impl Outputs for PendingOutputs<'_> {
    fn create(&mut self) -> Result<TableWriter> {
        let (file, path, id) = self.new_file()?;
        let o = &self.options;
        let (filter, filter_dropped) = self.filter(id);
        let options = WriterOptions {
            version: self.inner.versions.format(),
            identity: self.inner.versions.new_identity(),
            tree: self.tree.id,
            tree_name: self.tree.name.to_string(),
            log_end: self.log_end,
            log_writer: self
                .inner
                .commit
                .writer_id()
                .unwrap_or_else(|| self.inner.versions.last_writer_id()),
            level: self.level,
            block_size: o.block_size,
            compression: o.compression_at(self.level as usize),
            filter,
            filter_dropped,
            filter_prefix: o.filter_prefix.clone(),
            summary: o.summary.clone(),
            merge_operator: o
                .merge_operator
                .as_ref()
                .map_or_else(String::new, |h| h.name().to_owned()),
            compaction_filter: o
                .compaction_filter
                .as_ref()
                .map_or_else(String::new, |h| h.name().to_owned()),
            created_micros: self.inner.env.wall_micros(),
            warm: Some(self.inner.memory.cache().clone()),
        };
        Ok(TableWriter::new(file, &path, id, options))
    }

    fn blob_from(&self) -> usize {
        // A tree without its hooks may have hooks that are not known yet. The options may also have
        // been taken before the hooks were set.
        if !self.tree.is_hooked() {
            return usize::MAX;
        }
        match self.tree.view.load_full().options.blob_from() {
            usize::MAX => usize::MAX,
            _ => self.options.blob_from(),
        }
    }

    fn create_blob_file(&mut self) -> Result<BlobWriter> {
        let (file, path, id) = self.new_file()?;
        let options = BlobOptions {
            version: self.inner.versions.format(),
            identity: self.inner.versions.new_identity(),
            tree: self.tree.id,
            level: self.level,
            compression: self.options.compression_at(self.level as usize),
            created_micros: self.inner.env.wall_micros(),
            warm: Some(self.inner.memory.cache().clone()),
        };
        Ok(BlobWriter::new(file, &path, id, options))
    }

    fn progress(&mut self, entries: u64) -> Result<()> {
        (self.during)(entries)
    }

    fn holds(&mut self, bytes: usize) {
        self.buffers.grow_to(bytes as u64);
    }

    fn finished(&mut self, id: u64, warm: WarmBlocks) {
        self.inner.versions.opener().make_ready(id, warm);
        self.inner.memory.rebalance();
    }

    fn finished_blobs(&mut self, id: u64, frames: Vec<(u32, FrameRef)>) {
        self.inner.versions.opener().make_values_ready(id, frames);
    }
}

impl PendingOutputs<'_> {
    /// Creates the next output file, with a new number.
    fn new_file(&self) -> Result<(Box<dyn WriteFile>, PathBuf, u64)> {
        self.inner.gate.check_process()?;
        let id = self.inner.versions.new_file();
        self.task.creates(id);
        let path = table_path(self.inner.versions.dir(), id);
        let file = self.inner.env.create(&path)?;
        let file = match &self.written {
            Some(written) => Account::watch(written, file),
            None => file,
        };
        Ok((file, path, id))
    }

    /// Returns the filter type for table `id`, and the number of its dropped bits. There is no
    /// filter if the filter prefix hook has not been set, or had not been set when the options were
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

    /// Returns the fingerprint bits of filters for tables of a new run of level 0. Only a flush
    /// knows the number of entries of the run.
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

/// Removes files that were written but never named by the manifest. Files that cannot be removed
/// are garbage-collected at the next open.
pub fn remove_tables(inner: &DbInner, ids: &[u64]) {
    for &id in ids {
        inner.versions.opener().forget(id);
        let _ = inner.env.remove(&table_path(inner.versions.dir(), id));
    }
}

/// Returns the manifest's metadata of a new table. `newest_micros` is that of the inputs.
pub fn meta(facts: &TableFacts, now: u64, newest_micros: u64) -> TableMeta {
    TableMeta { facts: facts.clone(), created_micros: now, newest_micros, ingested_seq: 0 }
}

/// Returns the number in a table's file name; `None` for any other name.
pub fn table_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".sst")?.parse().ok()?;
    (table_path(Path::new(""), number) == Path::new(name)).then_some(number)
}
