//! Tables that are opened on first use, and runs of them.
//!
//! Invariants:
//! - A [`TableRun`]'s tables are sorted by key and disjoint in user keys. All versions of a key are
//!   in one table.
//! - A [`TableHandle`] keeps its file alive. When the last handle of an obsolete file is dropped
//!   and the Db is still open, the file is removed; otherwise the next open removes it.
//! - Any thread may drop the last handle, including a reader's. Unmapping and removing a large file
//!   takes tens of milliseconds. So if there are workers, the file is only added to their list
//!   ([`TableOpener::delete_obsolete_files`]).
//! - Opening a table costs in proportion to its index and filter and happens on first use. So
//!   opening a Db costs in proportion to its number of live files. An open table retains index and
//!   filter, while its file may be closed and reopened by name (`env::closable`). The name is valid
//!   while a handle exists.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use crate::base::blob_ref::{BlobFileMeta, BlobHandle};
use crate::base::cursor::Cursor;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Kind, Seq, Trailer, head, successor};
use crate::base::open_files::{FileStats, OpenFileList, OpenFiles};
use crate::base::options::{DbOptions, ReadMode};
use crate::block_cache::{Cache, FrameRef};
use crate::counters::reads::ReadCounters;
use crate::env::Env;
use crate::env::closable::{ClosableFile, FileOwner};
use crate::manifest::TableMeta;
use crate::range_del::tombstone::CoveredRange;
use crate::sstable::format::FOOTER;
use crate::sstable::{
    BlobFile, BlobStreams, Maps, Properties, Table, TableCursor, TableValue, WarmBlocks, WholeBlock,
};
use crate::util::sync::{AtomicBool, AtomicU64, Mutex, Ordering, epoch};

use crate::iterator::cost::{BlockRead, Origin};
use crate::iterator::value::Value;

/// Memory of a live table in bytes, besides the memory of its open state. It contains its metadata
/// and keys in the manifest state, in its run and for policies, and its file and name. Measured on
/// small tables, including allocator overhead.
pub const HANDLE: u64 = 2 << 10;

/// A file to be removed, and the object that still maps it.
type DeadFile = (PathBuf, Option<Arc<dyn Any + Send + Sync>>);

/// Opens the tables of one Db.
pub struct TableOpener {
    /// Owner of the files, with their environment.
    owner: Arc<FileOwner>,
    /// Directory of the Db.
    pub dir: PathBuf,
    /// Cache of decoded blocks.
    pub cache: Arc<Cache>,
    /// mmap, pread or automatic.
    mode: ReadMode,
    maps: Arc<Maps>,
    /// Maximum total size of all tables, in bytes, up to which blocks are served from mappings.
    most_mapped: u64,
    /// Total size in bytes of all files that have a handle.
    live: AtomicU64,
    /// Number of tables with a handle.
    handles: AtomicU64,
    /// Whether a worker removes obsolete files.
    has_background_deleter: AtomicBool,
    /// Files to be removed by a worker, each with the object that still maps it.
    dead: Mutex<Vec<DeadFile>>,
    /// Memory in bytes of open tables and blob files that have a handle or are ready for one:
    /// indexes, filters and the like.
    opened: AtomicU64,
    /// Tables that have been written and opened in advance, so no reader waits for that, and that
    /// have no handle yet.
    ready: Mutex<HashMap<u64, Arc<Table>>>,
    /// Blob files that have been written and opened in advance and have no handle yet.
    ready_values: Mutex<HashMap<u64, Arc<BlobFile>>>,
    /// Blob files that have a handle, by number.
    values: Mutex<HashMap<u64, Weak<BlobFileHandle>>>,
}

debug_by!(TableOpener, "TableOpener", dir);

impl TableOpener {
    /// Creates an opener for the Db in `dir` with these options.
    pub fn new(
        env: Arc<dyn Env>,
        dir: &Path,
        cache: Arc<Cache>,
        options: &DbOptions,
    ) -> TableOpener {
        let mode = options.read_mode;
        let most_mapped = if mode == ReadMode::Auto {
            env.memory().map_or(0, |bytes| bytes / 2)
        } else {
            u64::MAX
        };
        let bound =
            options.open_files.clone().unwrap_or_else(|| OpenFiles::of_process(env.descriptors()));
        TableOpener {
            owner: Arc::new(FileOwner {
                env,
                files: OpenFileList::new(bound),
                holds: options.read_only,
                closed: AtomicBool::new(false),
            }),
            dir: dir.to_path_buf(),
            cache,
            mode,
            maps: Maps::new(mode == ReadMode::Mmap),
            most_mapped,
            live: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            has_background_deleter: AtomicBool::new(false),
            dead: Mutex::default(),
            opened: AtomicU64::new(0),
            ready: Mutex::default(),
            ready_values: Mutex::default(),
            values: Mutex::default(),
        }
    }

    /// Returns the environment of the files.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.owner.env
    }

    /// Returns statistics of open files.
    pub fn files(&self) -> FileStats {
        self.owner.files.report()
    }

    /// Closes the opener: from now on another process may own the directory.
    pub fn close(&self) {
        self.owner.closed.store(true, Ordering::Release);
        self.owner.files.close_of_closed_dbs();
    }

    fn is_closed(&self) -> bool {
        self.owner.closed.load(Ordering::Acquire)
    }

    /// Records that the files with handles have grown by `came` bytes and shrunk by `went` bytes.
    fn resized(&self, came: u64, went: u64) {
        self.live.fetch_add(came, Ordering::Relaxed);
        let before = self.live.fetch_sub(went, Ordering::Relaxed);
        self.maps.serve(before - went <= self.most_mapped);
    }

    /// Opens table `id`, which has just been written, and puts its `warm` blocks into the cache.
    pub fn make_ready(&self, id: u64, warm: WarmBlocks) {
        // The first reader of the table will meet the same error again.
        if let Ok(table) = self.open(id, 0) {
            table.adopt(warm);
            self.count(table.memory(), true);
            self.ready.lock().insert(id, table);
        }
    }

    /// Opens blob file `id`, which has just been written, and puts these `frames` of it into the
    /// cache.
    pub fn make_values_ready(&self, id: u64, frames: Vec<(u32, FrameRef)>) {
        if let Ok(file) = self.open_values(id) {
            file.adopt(frames);
            self.count(file.memory(), true);
            self.ready_values.lock().insert(id, file);
        }
    }

    /// Discards table or blob file `id`, which will not be used after all.
    pub fn forget(&self, id: u64) {
        let table = self.ready.lock().remove(&id);
        table.iter().for_each(|t| self.count(t.memory(), false));
        let file = self.ready_values.lock().remove(&id);
        file.iter().for_each(|f| self.count(f.memory(), false));
    }

    /// Adds or subtracts the memory of an open table or blob file.
    fn count(&self, bytes: usize, comes: bool) {
        let bytes = bytes as u64;
        let before = if comes {
            self.opened.fetch_add(bytes, Ordering::Relaxed)
        } else {
            self.opened.fetch_sub(bytes, Ordering::Relaxed)
        };
        debug_assert!(comes || before >= bytes, "table memory subtracted without being added");
    }

    /// Returns the memory in bytes that table handles take regardless of table size.
    pub fn of_handles(&self) -> u64 {
        self.handles.load(Ordering::Relaxed) * HANDLE
    }

    /// Reports whether tables are small on average: less than a hundred times the memory of their
    /// handles.
    pub fn are_small(&self) -> bool {
        self.live.load(Ordering::Relaxed) < 100 * self.of_handles()
    }

    /// Returns the memory in bytes of table handles plus the indexes, filters and the like of
    /// tables that are open or ready for a handle.
    pub fn memory(&self) -> u64 {
        self.of_handles() + self.opened.load(Ordering::Relaxed)
    }

    fn open_file(&self, path: &Path) -> Result<Arc<ClosableFile>> {
        ClosableFile::open(&self.owner, path, self.mode != ReadMode::Pread, FOOTER)
    }

    fn open(&self, id: u64, ingested: Seq) -> Result<Arc<Table>> {
        let path = table_path(&self.dir, id);
        let file = self.open_file(&path)?;
        Table::open_with(file, &path, id, self.cache.clone(), ingested, self.maps.clone())
    }

    fn open_values(&self, id: u64) -> Result<Arc<BlobFile>> {
        let path = table_path(&self.dir, id);
        let file = self.open_file(&path)?;
        BlobFile::open(file, &path, id, self.cache.clone(), self.maps.clone())
    }

    /// Opens the table with this metadata independently of its handle. Use it to examine tables
    /// without their blobs.
    ///
    /// # Errors
    /// As [`TableHandle::table`].
    pub fn table_alone(&self, meta: &TableMeta) -> Result<Arc<Table>> {
        let table = self.open(meta.id, meta.ingested_seq)?;
        match mismatch(meta, &table) {
            None => Ok(table),
            Some(what) => {
                let e = Error::corruption(what).at(table_path(&self.dir, meta.id), 0);
                Err(e.block("footer").keys(&meta.first_key, &meta.last_key))
            }
        }
    }

    /// Returns the existing handle of a blob file, or a new one.
    pub fn value_handle(self: &Arc<Self>, facts: &Arc<BlobFileMeta>) -> Arc<BlobFileHandle> {
        let ready = self.ready_values.lock().remove(&facts.id);
        let mut values = self.values.lock();
        if let Some(handle) = values.get(&facts.id).and_then(Weak::upgrade) {
            ready.iter().for_each(|f| self.count(f.memory(), false));
            return handle;
        }
        self.resized(facts.size, 0);
        let handle = Arc::new(BlobFileHandle {
            facts: facts.clone(),
            opener: self.clone(),
            file: ready.map_or_else(OnceLock::new, OnceLock::from),
            claims: AtomicU64::new(0),
            orphan: AtomicBool::new(false),
            spoiled: AtomicBool::new(false),
        });
        values.insert(facts.id, Arc::downgrade(&handle));
        handle
    }

    /// Removes the file at `path`, which is no longer needed, once nothing maps it.
    fn discard(&self, path: PathBuf, mapped: Option<Arc<dyn Any + Send + Sync>>) {
        if self.has_background_deleter.load(Ordering::Acquire) {
            self.dead.lock().push((path, mapped));
        } else {
            drop(mapped);
            self.remove(&path);
        }
    }

    /// Sets whether a worker calls [`delete_obsolete_files`](Self::delete_obsolete_files)
    /// periodically. If not, the thread that drops the last handle removes the file.
    pub fn attend(&self, has_background_deleter: bool) {
        self.has_background_deleter.store(has_background_deleter, Ordering::Release);
    }

    /// Removes the files whose last handle was dropped.
    pub fn delete_obsolete_files(&self) {
        let all = std::mem::take(&mut *self.dead.lock());
        for (path, table) in all {
            drop(table);
            self.remove(&path);
        }
    }

    fn remove(&self, path: &Path) {
        if !self.is_closed() && !self.env().is_forked() {
            // The next open removes a file that cannot be removed now. The thread that drops the
            // last handle may work for another store and must not panic for this one.
            let _ = Error::catch("a removal", || self.env().remove(path));
        }
    }
}

fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the store has been closed, and a table that is needed was not open yet",
    )
}

/// Returns the path of a table's file.
pub fn table_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:08}.sst"))
}

/// Returns the error that a table named in the manifest is not in the directory.
pub fn missing_table(dir: &Path, m: &TableMeta) -> Error {
    let words = "a live table is missing; put it back from a checkpoint or a backup, or save the rest with `sstable-dump salvage`, \
                 which also finds it under a wrong name";
    Error::corruption(words).at(table_path(dir, m.id), 0).keys(&m.first_key, &m.last_key)
}

/// Describes a table that is not the one in the manifest: one of another store, of a clone or of
/// another time. Returns `None` if it is the right one.
pub fn mismatch(m: &TableMeta, t: &Table) -> Option<String> {
    let other = || {
        (!has_facts_of(m, t.properties()))
            .then(|| "this table has other counts or bounds than the manifest tells of".to_owned())
    };
    m.identity.mismatch(&t.identity()).or_else(other)
}

fn has_facts_of(m: &TableMeta, p: &Properties) -> bool {
    let seqs = m.ingested_seq > 0 || (m.min_seq, m.max_seq) == (p.min_seq, p.max_seq);
    let counts = (m.entries, m.deletes, m.merges, m.range_deletes)
        == (p.entries, p.deletes, p.merges, p.range_deletes);
    seqs && counts && m.values == p.values && same_bounds(m, p)
}

/// Reports whether manifest and properties have the same bounds. For a table with range deletions,
/// the properties may contain the exclusive end of a range deletion, and the manifest the last key
/// before that end.
pub fn same_bounds(m: &TableMeta, p: &Properties) -> bool {
    let before_end = || m.range_deletes > 0 && successor(&m.last_key).as_ref() == Some(&p.last_key);
    m.first_key == p.first_key && (m.last_key == p.last_key || before_end())
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
        values: &BTreeMap<u64, Arc<BlobFileMeta>>,
    ) -> Arc<TableHandle> {
        let ready = opener.ready.lock().remove(&meta.id);
        let table =
            ready.map_or_else(OnceLock::new, |table| OnceLock::from(counted(table, &reads)));
        let (obsolete, filter) = (AtomicBool::new(false), AtomicBool::new(true));
        opener.resized(meta.size, 0);
        opener.handles.fetch_add(1, Ordering::Relaxed);
        let values: Box<[_]> = meta
            .values
            .iter()
            .filter_map(|u| Some(opener.value_handle(values.get(&u.file)?)))
            .collect();
        debug_assert_eq!(
            values.len(),
            meta.values.len(),
            "the manifest lists all blob files of tables"
        );
        values.iter().for_each(|v| v.claim());
        Arc::new(TableHandle { meta, opener, reads, table, obsolete, filter, values })
    }

    /// Returns the blob files that the table refers to.
    pub fn values(&self) -> &[Arc<BlobFileHandle>] {
        &self.values
    }

    /// Returns the blob file that the entry value `reference` refers to, and the location in it.
    fn value_file(&self, reference: &[u8]) -> Result<(&Arc<BlobFile>, BlobHandle)> {
        let bad = |what| Error::corruption(what).at(self.path(), 0).block("data");
        let Some(r) = BlobHandle::decode(reference) else {
            return Err(bad("an entry refers to no value"));
        };
        let at = self.values.binary_search_by_key(&r.file, |v| v.facts.id);
        let handle = at.ok().and_then(|i| self.values.get(i));
        let Some(handle) = handle else {
            return Err(bad("an entry refers to a value file that the manifest does not tell of"));
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
                let verified = self.value_file(c.value()).and_then(|(file, r)| {
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
        self.value_file(reference)
            .and_then(|(file, r)| file.get(&r, &self.reads, ahead))
            .map_err(|e| e.keys(key, key))
    }

    /// Returns the cost of reading the blob now.
    ///
    /// # Errors
    /// As [`blob`](Self::blob).
    pub fn blob_cost(&self, key: &[u8], reference: &[u8]) -> Result<BlockRead> {
        let lies = self.value_file(reference).and_then(|(file, r)| Ok((file.stored_value(&r)?, r)));
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
        let read = self.value_file(reference).and_then(|(file, r)| file.read_into(&r, out));
        let is_damaged =
            |e: &Error| matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotFound);
        if read.as_ref().is_err_and(is_damaged)
            && let Some(r) = BlobHandle::decode(reference)
        {
            let own = self.values.iter().filter(|v| v.facts.id == r.file);
            own.for_each(|v| v.spoiled.store(true, Ordering::Relaxed));
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
        self.opener.resized(0, self.meta.size);
        self.opener.handles.fetch_sub(1, Ordering::Relaxed);
        self.table.get().iter().for_each(|t| self.opener.count(t.memory(), false));
        if !*self.obsolete.get_mut() {
            return;
        }
        let table = self.table.take().map(|t| t as Arc<dyn Any + Send + Sync>);
        self.opener.discard(self.path(), table);
    }
}

/// Handle of a live blob file. Its metadata is available at once, its content is opened on first
/// use.
///
/// Tables that refer to the file have claims on it while they are live. When the last claim is
/// released, the file is an orphan and is removed with the last handle. When a Db is closed, tables
/// are dropped with their claims, so the file stays.
pub struct BlobFileHandle {
    /// Metadata from the manifest.
    pub facts: Arc<BlobFileMeta>,
    opener: Arc<TableOpener>,
    file: OnceLock<Arc<BlobFile>>,
    claims: AtomicU64,
    orphan: AtomicBool,
    /// Whether a merge has found an unreadable blob in it.
    spoiled: AtomicBool,
}

debug_by!(BlobFileHandle, "ValueHandle", facts);

impl BlobFileHandle {
    fn claim(&self) {
        self.claims.fetch_add(1, Ordering::AcqRel);
        self.orphan.store(false, Ordering::Release);
    }

    fn disclaim(&self) {
        let before = self.claims.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "disclaim without claim of a blob file");
        if before == 1 {
            self.orphan.store(true, Ordering::Release);
        }
    }

    /// Reports whether a merge has found an unreadable blob in it. Garbage collection does not wait
    /// until nothing refers to such a file.
    pub fn is_spoiled(&self) -> bool {
        self.spoiled.load(Ordering::Relaxed)
    }

    /// Returns the file and opens it first if needed.
    ///
    /// # Errors
    /// `Corruption` if the file is missing or not the expected one; otherwise the error of opening
    /// it.
    #[inline]
    pub fn file(&self) -> Result<&Arc<BlobFile>> {
        match self.file.get() {
            Some(f) => Ok(f),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<BlobFile>> {
        let opened = self.opener.open_values(self.facts.id).map_err(|e| match e.kind() {
            ErrorKind::NotFound => missing_values(&self.opener.dir, &self.facts),
            _ => e,
        });
        let own = opened.and_then(|f| match foreign_blobs(&self.facts, &f) {
            None => Ok(f),
            Some(what) => {
                let words = format!("{what}, and not the one that the manifest tells of");
                Err(Error::corruption(words).at(self.path(), 0).block("footer"))
            }
        });
        let file = own.map_err(|e| if self.opener.is_closed() { closed() } else { e })?;
        let mut is_first = false;
        let file = self.file.get_or_init(|| {
            is_first = true;
            file
        });
        if is_first {
            self.opener.count(file.memory(), true);
        }
        Ok(file)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        table_path(&self.opener.dir, self.facts.id)
    }
}

impl Drop for BlobFileHandle {
    fn drop(&mut self) {
        self.opener.resized(0, self.facts.size);
        let file = self.file.take();
        file.iter().for_each(|f| self.opener.count(f.memory(), false));
        {
            // Another handle may have been created since the last one was dropped.
            let mut values = self.opener.values.lock();
            if values.get(&self.facts.id).is_some_and(|v| v.strong_count() == 0) {
                values.remove(&self.facts.id);
            }
        }
        if *self.orphan.get_mut() {
            self.opener.discard(self.path(), file.map(|f| f as Arc<dyn Any + Send + Sync>));
        }
    }
}

/// Describes a blob file that is not the one in the manifest. Returns `None` if it is the right
/// one.
pub fn foreign_blobs(facts: &BlobFileMeta, file: &BlobFile) -> Option<String> {
    let found = file.facts();
    let other = || {
        (found != *facts)
            .then(|| "this value file has other counts than the manifest tells of".to_owned())
    };
    facts.identity.mismatch(&found.identity).or_else(other)
}

/// Returns the error that a blob file named in the manifest is not in the directory.
pub fn missing_values(dir: &Path, facts: &BlobFileMeta) -> Error {
    let words = "a live value file is missing; put it back from a checkpoint or a backup, or save the rest with `sstable-dump salvage`";
    Error::corruption(words).at(table_path(dir, facts.id), 0)
}

/// Attaches the read counters to a table that is not shared yet.
fn counted(mut table: Arc<Table>, reads: &Arc<ReadCounters>) -> Arc<Table> {
    if let Some(t) = Arc::get_mut(&mut table) {
        t.count_reads(reads.clone());
    }
    table
}

/// A sorted run.
pub struct TableRun {
    /// Level of the run.
    pub level: u8,
    /// Number of the run: newer runs of a level have larger ones.
    pub number: u64,
    /// Tables of the run, sorted.
    pub tables: Vec<Arc<TableHandle>>,
    last_heads: Vec<u64>,
    /// Number of tables with range deletions before each table, and after the last. Empty if there
    /// are none.
    with_range_deletes: Vec<u32>,
    newest_range_delete: Seq,
    has_deletes: bool,
}

debug_by!(TableRun, "Run", level, number);

impl TableRun {
    /// Creates a run of tables that are sorted and disjoint.
    pub fn new(level: u8, number: u64, tables: Vec<Arc<TableHandle>>) -> TableRun {
        let last_heads = tables.iter().map(|t| head(&t.meta.last_key)).collect();
        let mut with_range_deletes = vec![];
        if tables.iter().any(|t| t.meta.range_deletes > 0) {
            let count = |n: &mut u32, t: &Arc<TableHandle>| {
                *n += u32::from(t.meta.range_deletes > 0);
                Some(*n)
            };
            with_range_deletes.push(0);
            with_range_deletes.extend(tables.iter().scan(0, count));
        }
        let has_deletes = tables.iter().any(|t| t.meta.deletes > 0);
        let newest_range_delete = tables
            .iter()
            .filter(|t| t.meta.range_deletes > 0)
            .map(|t| t.meta.max_seq)
            .max()
            .unwrap_or(0);
        TableRun {
            level,
            number,
            tables,
            last_heads,
            with_range_deletes,
            newest_range_delete,
            has_deletes,
        }
    }

    /// Returns an upper bound on the sequence numbers of range deletions in its tables.
    pub fn newest_range_delete(&self) -> Seq {
        self.newest_range_delete
    }

    /// Reports whether any of its tables contains a point delete.
    pub fn has_deletes(&self) -> bool {
        self.has_deletes
    }

    /// Reports whether a table of the run may contain keys in `[from, until]`; `None` is unbounded.
    /// Examines at most two tables, because each one's metadata is elsewhere in memory.
    pub fn overlaps(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        let first = if from.is_empty() { 0 } else { self.lower_bound(from) };
        self.tables
            .get(first)
            .is_some_and(|t| until.is_none_or(|u| t.meta.first_key.as_slice() <= u))
    }

    /// Reports whether a table of the run may contain a key with the filter hash `hash` in `[from,
    /// until]`; `None` is unbounded.
    ///
    /// # Errors
    /// Errors of opening a table.
    pub fn may_contain(&self, hash: u64, from: &[u8], until: Option<&[u8]>) -> Result<bool> {
        for t in
            self.tables[self.lower_bound(from)..].iter().take_while(|t| t.overlaps(None, until))
        {
            if t.table()?.may_contain(hash) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports whether a table that may contain keys in `[from, until]` has range deletions; `None`
    /// is unbounded.
    pub fn has_range_deletes(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        let Some(all) = self.with_range_deletes.last() else { return false };
        let behind = until.map_or(*all, |u| {
            self.with_range_deletes[self.tables.len().min(self.lower_bound(u) + 1)]
        });
        behind > self.with_range_deletes[self.lower_bound(from)]
    }

    /// Returns the newest range deletion over `key` that a reader at `read` sees, and a range
    /// around `key` for which this answer holds.
    ///
    /// # Errors
    /// Errors of opening a table.
    pub fn covering<'a>(&'a self, key: &'a [u8], read: Seq) -> Result<CoveredRange<'a>> {
        let at = self.lower_bound(key);
        let first = self.tables.get(at).map(|t| t.meta.first_key.as_slice());
        let Some(t) = self.tables.get(at).filter(|t| t.meta.first_key.as_slice() <= key) else {
            // Between two tables or at an end: extend backward while the previous table has no
            // range deletion.
            let from = match at.checked_sub(1).map(|i| &self.tables[i]) {
                None => &[][..],
                Some(t) if t.meta.range_deletes == 0 => &t.meta.first_key,
                Some(t) => t.table()?.tombstones().stretch(key, read).from.max(&t.meta.first_key),
            };
            return Ok(CoveredRange { from, until: first, newest: None });
        };
        let (first, behind) = (
            t.meta.first_key.as_slice(),
            self.tables.get(at + 1).map(|t| t.meta.first_key.as_slice()),
        );
        if t.meta.range_deletes == 0 {
            return Ok(CoveredRange { from: first, until: behind, newest: None });
        }
        let s = t.table()?.tombstones().stretch(key, read);
        Ok(CoveredRange {
            from: s.from.max(first),
            until: s.until.into_iter().chain(behind).min(),
            ..s
        })
    }

    /// Returns the index of the first table whose last key is at or after `key`, the only one that
    /// can contain it.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let h = head(key);
        let i = self.last_heads.partition_point(|&l| l < h);
        if self.last_heads.get(i) == Some(&h) { self.lower_bound_among(i, h, key) } else { i }
    }

    /// Does the same among the tables from index `from` on, the first of which has a last key with
    /// head `h`. All of them may have that head, if keys share a long prefix.
    fn lower_bound_among(&self, from: usize, h: u64, key: &[u8]) -> usize {
        let same = self.last_heads[from..].partition_point(|&l| l == h);
        from + self.tables[from..from + same].partition_point(|t| t.meta.last_key.as_slice() < key)
    }

    /// Returns the table that can contain `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        let t = self.tables.get(self.lower_bound(key))?;
        (t.meta.first_key.as_slice() <= key).then_some(t)
    }

    /// Returns the size of the files in bytes.
    pub fn size(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.size).sum()
    }

    /// Returns the largest sequence number in the run.
    pub fn max_seq(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.max_seq).max().unwrap_or(0)
    }
}

/// Reports whether `key` is on this side of `edge`: before it going forward, at or after it going
/// backward.
#[inline]
pub fn is_inside(key: &[u8], forward: bool, edge: Option<&[u8]>) -> bool {
    edge.is_none_or(|e| (key < e) == forward)
}

/// A position in a run.
#[derive(Clone, Copy, Debug)]
pub struct RunPlace {
    /// Index of the table in the run.
    pub table: usize,
    /// Index of the block in the table.
    pub block: usize,
    /// Index of the entry in the block.
    pub entry: usize,
}

/// Interface of a source that a run cursor can wrap: a source that counts its operations.
pub trait SourceStandIn: Cursor + Send + Sync {
    /// Skips whole blocks of deletes: see [`TableCursor::pass_deletes`].
    ///
    /// # Errors
    /// Errors of the source.
    fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool>;

    /// Skips older entries: see [`RunCursor::pass_older`].
    ///
    /// # Errors
    /// Errors of the source.
    fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64>;

    /// Returns an owned handle of the current value, or `None` if not positioned.
    fn pin_value(&self) -> Option<Value>;

    /// Returns the location of the current entry's blob, or `None` if not positioned.
    fn blob(&self) -> Option<BlobLocation>;
}

/// Callback with the cost of reading a blob and the elapsed nanoseconds.
type BlobReadObserver = Box<dyn FnOnce(BlockRead, u64)>;

/// Location of the blob of an entry at which a cursor was positioned.
pub struct BlobLocation {
    handle: Arc<TableHandle>,
    reference: Vec<u8>,
    tell: Option<BlobReadObserver>,
}

debug_by!(BlobLocation, "BlobLocation", handle);

impl BlobLocation {
    /// Sets the callback for a counting source: it is called when the blob is read.
    pub fn observed_by(self, tell: impl FnOnce(BlockRead, u64) + 'static) -> BlobLocation {
        BlobLocation { tell: Some(Box::new(tell)), ..self }
    }

    /// Reads the blob for an iterator with the readahead streams `ahead`; `key` is the key of the
    /// entry.
    ///
    /// # Errors
    /// As [`TableHandle::blob`].
    pub fn fetch(self, key: &[u8], ahead: &mut BlobStreams) -> Result<Value> {
        let Some(tell) = self.tell else {
            return Ok(self.handle.blob(key, &self.reference, Some(ahead))?.into());
        };
        let clock = self.handle.opener.env();
        let from = clock.monotonic_nanos();
        let cost = self.handle.blob_cost(key, &self.reference)?;
        let value = self.handle.blob(key, &self.reference, Some(ahead))?;
        tell(cost, clock.monotonic_nanos().saturating_sub(from));
        Ok(value.into())
    }
}

/// A cursor over a run: a cursor over the current table and access to the neighbouring tables.
///
/// It may wrap a source that counts its operations. Then it never has a table, which every move
/// checks first. So an iterator that is not recorded pays nothing for recording.
pub struct RunCursor {
    run: Arc<TableRun>,
    at: usize,
    table: Option<TableCursor>,
    traced: Option<Box<dyn SourceStandIn>>,
    fill_cache: bool,
    keeps_all: bool,
    /// Whether values may be missing until requested.
    defers: bool,
    /// Table and block that the next seek needs, found by [`approach`](Cursor::approach).
    ahead: Option<(usize, usize)>,
}

debug_by!(RunCursor, "RunCursor", at);

impl RunCursor {
    /// Creates a cursor over `run`. `fill_cache` sets whether decoded blocks are put into the cache
    /// (see [`Table::cursor`]).
    pub fn new(run: Arc<TableRun>, fill_cache: bool) -> RunCursor {
        RunCursor {
            run,
            at: usize::MAX,
            table: None,
            traced: None,
            fill_cache,
            keeps_all: false,
            defers: false,
            ahead: None,
        }
    }

    /// Creates a cursor as [`new`](RunCursor::new), for callers that look in the cache for the
    /// blocks that it has read: see [`TableCursor::keep_all`].
    pub fn recorded(run: Arc<TableRun>) -> RunCursor {
        RunCursor { keeps_all: true, ..RunCursor::new(run, true) }
    }

    /// Creates a cursor that wraps `traced`.
    pub fn traced(traced: impl SourceStandIn + 'static) -> RunCursor {
        let nothing = Arc::new(TableRun::new(0, 0, vec![]));
        RunCursor { traced: Some(Box::new(traced)), ..RunCursor::new(nothing, false) }
    }

    fn enter(&mut self, i: usize) -> Result<Option<&mut TableCursor>> {
        if i != self.at || self.table.is_none() {
            self.table = None;
            let Some(handle) = self.run.tables.get(i) else { return Ok(None) };
            let table = self.table.insert(handle.table()?.cursor(self.fill_cache));
            if self.defers {
                table.defer_values();
            }
            if self.keeps_all {
                table.keep_all();
            }
            self.at = i;
        }
        Ok(self.table.as_mut())
    }

    /// Enters the neighbouring table `i` and passes it the readahead state of the current one.
    fn enter_beside(&mut self, i: usize) -> Result<Option<&mut TableCursor>> {
        let before = self.table.take();
        let mut entered = self.enter(i)?;
        if let (Some(table), Some(before)) = (&mut entered, &before) {
            table.go_on_from(before);
        }
        Ok(entered)
    }

    /// Tables may contain only range tombstones, so the next entry may be several tables further.
    fn skip_forward(&mut self) -> Result<()> {
        while self.table.as_ref().is_some_and(|t| !t.valid()) {
            match self.enter_beside(self.at + 1)? {
                Some(t) => t.first()?,
                None => break,
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while self.table.as_ref().is_some_and(|t| !t.valid()) {
            if self.at == 0 {
                self.table = None;
                break;
            }
            if let Some(t) = self.enter_beside(self.at - 1)? {
                t.last()?;
            }
        }
        Ok(())
    }

    /// Returns the run.
    pub fn run(&self) -> &TableRun {
        &self.run
    }

    /// Returns the current position.
    pub fn place(&self) -> Option<RunPlace> {
        let t = self.table.as_ref().filter(|t| t.valid())?;
        let (block, entry) = t.place();
        Some(RunPlace { table: self.at, block, entry })
    }

    /// Reports whether the current entry is the first of a block.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.is_at_start())
    }

    /// Reports whether the current entry is the only one of a block.
    #[inline]
    pub fn is_lone(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.is_lone())
    }

    /// Returns the block whose first entry is current: see [`TableCursor::whole_block`].
    #[inline]
    pub fn whole_block(&self) -> Option<WholeBlock<'_>> {
        self.table.as_ref().and_then(|t| t.whole_block())
    }

    /// Moves to the first entry after the current block.
    pub fn pass_block(&mut self) -> Result<()> {
        if let Some(t) = &mut self.table {
            t.pass_block()?;
        }
        self.skip_forward()
    }

    /// Skips whole blocks of deletes: see [`TableCursor::pass_deletes`]. Returns `true` if it
    /// moved.
    pub fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool> {
        if let Some(t) = &mut self.traced {
            return t.pass_deletes(forward, limit);
        }
        let mut moved = false;
        while let Some(t) = &mut self.table
            && t.pass_deletes(forward, limit)?
        {
            moved = true;
            if !t.valid() {
                if forward { self.skip_forward() } else { self.skip_backward() }?;
            }
        }
        Ok(moved)
    }

    /// Skips all entries older than `seq`, up to the first that is not or that is beyond `edge`.
    /// Beyond means at or after `edge` going forward, before it going backward. Tables with only
    /// older entries are not read. Returns the number of steps.
    pub fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64> {
        if let Some(t) = &mut self.traced {
            return t.pass_older(seq, forward, edge);
        }
        let mut steps = 0;
        while self.valid() && self.trailer().seq() < seq && is_inside(self.key(), forward, edge) {
            steps += 1;
            let older = |t: &Arc<TableHandle>| t.meta.max_seq < seq;
            if !self.run.tables.get(self.at).is_some_and(older) {
                if forward { self.next() } else { self.prev() }?;
                continue;
            }
            // Find the next table that reaches beyond the edge or contains a newer entry.
            let (before, after) = (&self.run.tables[..self.at], &self.run.tables[self.at..]);
            let stop = if forward {
                let ends = |t: &Arc<TableHandle>| !is_inside(&t.meta.last_key, true, edge);
                after.iter().position(|t| ends(t) || !older(t)).map(|i| self.at + i)
            } else {
                let begins = |t: &Arc<TableHandle>| !is_inside(&t.meta.first_key, false, edge);
                if begins(&after[0]) {
                    Some(self.at)
                } else {
                    before.iter().rposition(|t| begins(t) || !older(t))
                }
            };
            self.jump(stop, seq, forward, edge)?;
        }
        Ok(steps)
    }

    /// Moves to the edge in table `stop` if all of that table is older than `seq`, otherwise to its
    /// first entry in the direction of movement.
    fn jump(
        &mut self,
        stop: Option<usize>,
        seq: Seq,
        forward: bool,
        edge: Option<&[u8]>,
    ) -> Result<()> {
        let Some(i) = stop else {
            self.table = None;
            return Ok(());
        };
        let older = self.run.tables[i].meta.max_seq < seq;
        if let Some(t) = self.enter(i)? {
            match edge.filter(|_| older) {
                Some(key) if forward => t.seek(key, Trailer::NEWEST),
                Some(key) => t.seek_before(key),
                None if forward => t.first(),
                None => t.last(),
            }?;
        }
        if forward { self.skip_forward() } else { self.skip_backward() }
    }

    /// Returns a bound on the sequence numbers of the current block, if the block holds only puts
    /// of distinct keys.
    #[inline]
    pub fn plain_up_to(&self) -> Option<Seq> {
        self.table.as_ref().and_then(|t| t.plain_up_to())
    }

    /// Returns the location of the current entry's blob, or `None` if not positioned.
    pub fn blob(&self) -> Option<BlobLocation> {
        match (&self.table, self.run.tables.get(self.at)) {
            (Some(t), Some(handle)) => {
                let (handle, reference) = (handle.clone(), t.value().to_vec());
                Some(BlobLocation { handle, reference, tell: None })
            }
            _ => self.traced.as_ref().and_then(|t| t.blob()),
        }
    }

    /// Returns an owned handle of the current value, or `None` if not positioned.
    pub fn pin_value(&self) -> Option<Value> {
        match &self.table {
            Some(t) => Some(t.pin_value().into()),
            None => self.traced.as_ref().and_then(|t| t.pin_value()),
        }
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        match &self.table {
            Some(t) => t.valid(),
            None => self.traced.as_ref().is_some_and(|t| t.valid()),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match &self.table {
            Some(t) => t.key(),
            None => self.traced.as_ref().map_or(&[], |t| t.key()),
        }
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        match &self.table {
            Some(t) => t.trailer(),
            None => self.traced.as_ref().map_or(Trailer(0), |t| t.trailer()),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.table {
            Some(t) => t.value(),
            None => self.traced.as_ref().map_or(&[], |t| t.value()),
        }
    }

    #[inline]
    fn head(&self) -> u64 {
        match &self.table {
            Some(t) => t.head(),
            None => self.traced.as_ref().map_or(0, |t| t.head()),
        }
    }

    fn defer_values(&mut self) {
        self.defers = true;
        self.table.iter_mut().for_each(|t| t.defer_values());
    }

    #[inline]
    fn complete(&mut self) -> Result<()> {
        self.table.as_mut().map_or(Ok(()), |t| t.complete())
    }

    fn fetch_blob(&self, out: &mut Vec<u8>) -> Result<()> {
        match (&self.table, self.run.tables.get(self.at)) {
            (Some(t), Some(handle)) => handle.blob_into(t.key(), t.value(), out),
            _ => self.traced.as_ref().map_or(Ok(()), |t| t.fetch_blob(out)),
        }
    }

    fn approach(&mut self, key: &[u8], step: usize) -> bool {
        if step == 0 {
            let i = self.run.lower_bound(key);
            let handle = self.run.tables.get(i);
            let table = handle.and_then(|t| t.opened());
            self.ahead = table.and_then(|t| t.locate(key)).map(|b| (i, b));
            return handle.is_none() || table.is_some();
        }
        let Some((i, block)) = self.ahead else { return true };
        let Some(table) = self.run.tables.get(i).and_then(|t| t.opened()) else { return false };
        let guard = epoch::pin();
        if step == 1 {
            return table.fetch_block(block, &guard);
        }
        table.fetch_entry(block, key, &guard);
        true
    }

    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.seek(key, at);
        }
        let ahead = self.ahead.take();
        let i = ahead.map_or_else(|| self.run.lower_bound(key), |(i, _)| i);
        if let Some(t) = self.enter(i)? {
            match ahead {
                Some((_, block)) => t.seek_from(block, key, at),
                None => t.seek(key, at),
            }?;
        }
        self.skip_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.seek_before(key);
        }
        // A table that begins at the key or after it has no entry before the key and need not be
        // opened.
        let tables = &self.run.tables;
        let i = self.ahead.take().map_or_else(|| self.run.lower_bound(key), |(i, _)| i);
        let inside = tables.get(i).is_some_and(|t| t.meta.first_key.as_slice() < key);
        let i = if inside { Some(i) } else { i.checked_sub(1) };
        match i.map(|i| self.enter(i)).transpose()?.flatten() {
            Some(t) if inside => t.seek_before(key)?,
            Some(t) => t.last()?,
            None => self.table = None,
        }
        self.skip_backward()
    }

    fn first(&mut self) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.first();
        }
        self.ahead = None;
        if let Some(t) = self.enter(0)? {
            t.first()?;
        }
        self.skip_forward()
    }

    fn last(&mut self) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.last();
        }
        self.ahead = None;
        if let Some(t) = self.enter(self.run.tables.len().wrapping_sub(1))? {
            t.last()?;
        }
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match &mut self.table {
            Some(t) => {
                t.next()?;
                if t.valid() { Ok(()) } else { self.skip_forward() }
            }
            None => self.traced.as_mut().map_or(Ok(()), |t| t.next()),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        match &mut self.table {
            Some(t) => {
                t.prev()?;
                if t.valid() { Ok(()) } else { self.skip_backward() }
            }
            None => self.traced.as_mut().map_or(Ok(()), |t| t.prev()),
        }
    }
}
