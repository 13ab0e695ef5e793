//! Handles of live tables, which are opened on first use.
//!
//! Opening a table costs in proportion to its index and filter and happens on first use. So opening
//! a Db costs in proportion to its number of live files.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::base::blob_ref::{BlobFileMeta, BlobHandle};
use crate::base::cursor::Cursor;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::Kind;
use crate::counters::reads::ReadCounters;
use crate::manifest::TableMeta;
use crate::sstable::format::FOOTER;
use crate::sstable::{BlobFile, BlobStreams, Table, TableValue};
use crate::util::sorted_map::SortedMap;
use crate::util::sync::{AtomicBool, Ordering};

use crate::iterator::cost::{BlockRead, Origin};
use crate::iterator::opener::{BlobFileHandle, TableOpener, closed, mismatch, table_path};

/// Returns the error that a table named in the manifest is not in the directory.
pub fn missing_table(dir: &Path, m: &TableMeta) -> Error {
    let words = "a live table is missing; put it back from a checkpoint or a backup, or save the rest with `sstable-dump salvage`, \
                 which also finds it under a wrong name";
    Error::corruption(words).at(table_path(dir, m.id), 0).keys(&m.first_key, &m.last_key)
}

/// Handle of a live table file. Its metadata is available at once, its content is opened on first
/// use.
pub struct TableHandle {
    /// Metadata from the manifest.
    pub meta: Arc<TableMeta>,
    opener: Arc<TableOpener>,
    /// Read counters of its tree.
    reads: Arc<ReadCounters>,
    table: OnceLock<Arc<Table>>,
    obsolete: AtomicBool,
    /// Whether its filter may be used. `false` while the hook that defines its content is unknown.
    filter: AtomicBool,
    /// Blob files that the table refers to, by number.
    values: Box<[Arc<BlobFileHandle>]>,
}

debug_by!(TableHandle, "TableHandle", meta);

impl TableHandle {
    /// Creates a handle for the table with this metadata, open if the table was opened in advance.
    /// `values` contains the blob files of its tree.
    pub fn new(
        meta: Arc<TableMeta>,
        opener: Arc<TableOpener>,
        reads: Arc<ReadCounters>,
        values: &SortedMap<u64, Arc<BlobFileMeta>>,
    ) -> Arc<TableHandle> {
        let ready = opener.add_handle(&meta);
        let table =
            ready.map_or_else(OnceLock::new, |table| OnceLock::from(counted(table, &reads)));
        let (obsolete, filter) = (AtomicBool::new(false), AtomicBool::new(true));
        let values: Box<[_]> = meta
            .values
            .iter()
            .filter_map(|u| Some(opener.blob_handle(values.get(&u.file)?)))
            .collect();
        debug_assert_eq!(
            values.len(),
            meta.values.len(),
            "the manifest lists all blob files of tables"
        );
        values.iter().for_each(|v| v.claim());
        Arc::new(TableHandle { meta, opener, reads, table, obsolete, filter, values })
    }

    /// Returns the opener of the table.
    pub(super) fn opener(&self) -> &TableOpener {
        &self.opener
    }

    /// Returns the blob files that the table refers to.
    pub fn values(&self) -> &[Arc<BlobFileHandle>] {
        &self.values
    }

    /// Returns the blob file that the entry value `reference` refers to, and the location in it.
    fn blob_file(&self, reference: &[u8]) -> Result<(&Arc<BlobFile>, BlobHandle)> {
        let bad = |what| Error::corruption(what).at(self.path(), 0).block("data");
        let Some(r) = BlobHandle::decode(reference) else {
            return Err(bad("an entry refers to no value"));
        };
        let at = self.values.binary_search_by_key(&r.file, |v| v.facts.id);
        let handle = at.ok().and_then(|i| self.values.get(i));
        let Some(handle) = handle else {
            return Err(bad("an entry refers to a blob file that the manifest does not tell of"));
        };
        Ok((handle.file()?, r))
    }

    /// Verifies the blobs of the table's entries without the cache: each must exist, be intact, and
    /// belong to its key. Calls `progress` with the bytes read in each step, and `found` with each
    /// error.
    ///
    /// # Errors
    /// Errors of iterating over the table.
    pub fn verify_blobs(
        &self,
        mut progress: impl FnMut(u64),
        mut found: impl FnMut(Error),
    ) -> Result<u64> {
        let (mut c, mut checked) = (self.table()?.cursor(false), 0);
        c.first()?;
        while c.valid() {
            if c.trailer().kind() == Some(Kind::Blob) {
                let verified = self.blob_file(c.value()).and_then(|(file, r)| {
                    progress(r.stored.into());
                    file.verify(&r, c.key())
                });
                match verified {
                    Ok(()) => checked += 1,
                    Err(e) => found(e.keys(c.key(), c.key())),
                }
            }
            c.next()?;
        }
        Ok(checked)
    }

    /// Reads the blob that the `Blob` entry of `key` refers to. `ahead` holds the readahead streams
    /// of the iterator.
    ///
    /// # Errors
    /// `Corruption` with the location if the blob is unusable. Any error has this key as its range,
    /// because no other key is affected.
    pub fn blob(
        &self,
        key: &[u8],
        reference: &[u8],
        ahead: Option<&mut BlobStreams>,
    ) -> Result<TableValue> {
        self.blob_file(reference)
            .and_then(|(file, r)| file.get(&r, &self.reads, ahead))
            .map_err(|e| e.keys(key, key))
    }

    /// Returns the cost of reading the blob now.
    ///
    /// # Errors
    /// As [`blob`](Self::blob).
    pub fn blob_cost(&self, key: &[u8], reference: &[u8]) -> Result<BlockRead> {
        let lies = self.blob_file(reference).and_then(|(file, r)| Ok((file.stored_value(&r)?, r)));
        let (lies, r) = lies.map_err(|e| e.keys(key, key))?;
        let origin = match (lies.is_mapped, lies.is_cached) {
            (true, _) => Origin::Map,
            (_, true) => Origin::Cache,
            _ => Origin::File,
        };
        Ok(BlockRead {
            table: r.file,
            offset: r.offset,
            stored: r.stored.into(),
            decompressed: origin == Origin::File && lies.is_compressed,
            origin,
        })
    }

    /// Reads the blob into `out`, bypassing the cache.
    ///
    /// # Errors
    /// As [`blob`](Self::blob).
    pub fn blob_into(&self, key: &[u8], reference: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let read = self.blob_file(reference).and_then(|(file, r)| file.read_into(&r, out));
        let is_damaged =
            |e: &Error| matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotFound);
        if read.as_ref().is_err_and(is_damaged)
            && let Some(r) = BlobHandle::decode(reference)
        {
            let own = self.values.iter().filter(|v| v.facts.id == r.file);
            own.for_each(|v| v.mark_spoiled());
        }
        read.map_err(|e| e.keys(key, key))
    }

    /// Returns the read counters of its tree.
    pub fn reads(&self) -> &Arc<ReadCounters> {
        &self.reads
    }

    /// Returns the table and opens it first if needed.
    #[inline]
    pub fn table(&self) -> Result<&Arc<Table>> {
        match self.table.get() {
            Some(t) => Ok(t),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<Table>> {
        let opened =
            self.opener.open(self.meta.id, self.meta.ingested_seq).map_err(|e| match e.kind() {
                ErrorKind::NotFound => missing_table(&self.opener.dir, &self.meta),
                _ => e.keys(&self.meta.first_key, &self.meta.last_key),
            });
        let own = opened.and_then(|t| self.check_own(&t).map(|()| t));
        // The new owner of the directory may have removed the file.
        let mut table = own.map_err(|e| if self.opener.is_closed() { closed() } else { e })?;
        if !self.filter.load(Ordering::Relaxed)
            && let Some(t) = Arc::get_mut(&mut table)
        {
            t.forget_filter();
        }
        let table = counted(table, &self.reads);
        let mut is_first = false;
        let table = self.table.get_or_init(|| {
            is_first = true;
            table
        });
        if is_first {
            self.opener.count(table.memory(), true);
        }
        Ok(table)
    }

    /// Checks that the file holds the table described in the manifest, and not a table of another
    /// Db under its name.
    fn check_own(&self, table: &Table) -> Result<()> {
        let m = &self.meta;
        let Some(what) = mismatch(m, table) else { return Ok(()) };
        let words = format!(
            "{what}, and not the one that the manifest tells of; put the right file here, or save the rest with `sstable-dump salvage`"
        );
        let footer = table.size().saturating_sub(FOOTER as u64);
        Err(Error::corruption(words)
            .at(self.path(), footer)
            .block("footer")
            .keys(&m.first_key, &m.last_key))
    }

    /// Sets whether the filter may be used, if the table is opened after this call.
    pub fn use_filter(&self, yes: bool) {
        self.filter.store(yes, Ordering::Relaxed);
    }

    /// Returns the table if it is open.
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.table.get()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        table_path(&self.opener.dir, self.meta.id)
    }

    /// Marks the table as removed from the manifest, so the file is removed with the last handle.
    pub fn make_obsolete(&self) {
        if !self.obsolete.swap(true, Ordering::AcqRel) {
            self.values.iter().for_each(|v| v.disclaim());
        }
    }

    /// Reports whether the table was removed from the manifest.
    pub fn is_obsolete(&self) -> bool {
        self.obsolete.load(Ordering::Relaxed)
    }

    /// Reports whether the table may contain keys in `[start, end]`; `None` is unbounded.
    pub fn overlaps(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        start.is_none_or(|s| self.meta.last_key.as_slice() >= s)
            && end.is_none_or(|e| self.meta.first_key.as_slice() <= e)
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        self.opener.remove_handle(&self.meta);
        self.table.get().iter().for_each(|t| self.opener.count(t.memory(), false));
        if !*self.obsolete.get_mut() {
            return;
        }
        let table = self.table.take().map(|t| t as Arc<dyn Any + Send + Sync>);
        self.opener.discard(self.path(), table);
    }
}

/// Attaches the read counters to a table that is not shared yet.
fn counted(mut table: Arc<Table>, reads: &Arc<ReadCounters>) -> Arc<Table> {
    if let Some(t) = Arc::get_mut(&mut table) {
        t.count_reads(reads.clone());
    }
    table
}
