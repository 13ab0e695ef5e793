//! The inputs of a repair without a manifest, and its report.

use std::path::Path;

use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::sstable::{Table, WriterOptions};
use firn_tools::io::remove;
use firn_tools::output::{Done, Failure};

use crate::history::recovered::RecoveredHistory;
use crate::repair::log::LogContents;
use crate::salvage::report::NewStoreReport;
use crate::salvage::table::{TakenTable, options_of, take};
use crate::store::blobs::OldStore;

/// See the [module](self).
pub struct RepairContext<'a> {
    /// The files of the old store, and the new directory.
    pub old: OldStore<'a>,
    /// Facts from remains of manifests and from the event log.
    pub history: &'a mut RecoveredHistory,
    /// The readable log.
    pub log: &'a LogContents,
    /// The report.
    pub report: &'a mut NewStoreReport,
}

impl RepairContext<'_> {
    /// Takes over the table `id` of the file `path`, with the options of `tree` if its properties
    /// are lost.
    ///
    /// # Errors
    /// As [`take`].
    pub fn take(&self, path: &Path, id: u64, tree: TreeId) -> firn_kv::Result<TakenTable> {
        let options = match self.history.trees.get(&tree).and_then(|t| t.options.as_ref()) {
            Some(o) => options_of(self.old.format, tree, o),
            None => WriterOptions { version: self.old.format, tree, ..WriterOptions::default() },
        };
        take(path, self.old.out, id, self.history.ingested_seq(id), &options, self.old.files)
    }

    /// Removes a table from the new store again.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove_table(&self, id: u64) -> Done {
        let path = table_path(self.old.out, id);
        remove(&path).map_err(|e| Failure::file("remove", &path, &e))
    }

    /// Removes a table from the new store and from the counts of the report.
    ///
    /// # Errors
    /// I/O errors.
    pub fn leave_out(&mut self, t: &Table) -> Done {
        self.remove_table(t.id())?;
        self.report.entries -= t.properties().entries;
        self.report.bytes -= t.size();
        Ok(())
    }
}
