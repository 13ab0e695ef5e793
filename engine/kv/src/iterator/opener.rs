//! Opens table and blob files, and removes obsolete ones.
//!
//! Invariants:
//! - A handle keeps its file alive. When the last handle of an obsolete file is dropped and the Db
//!   is still open, the file is removed; otherwise the next open removes it.
//! - Any thread may drop the last handle, including a reader's. Unmapping and removing a large file
//!   takes tens of milliseconds. So if there are workers, the file is only added to their list
//!   ([`TableOpener::delete_obsolete_files`]).
//! - An open table retains index and filter, while its file may be closed and reopened by name
//!   (`env::closable`). The name is valid while a handle exists.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Seq, successor};
use crate::base::open_files::{FileStats, OpenFileList, OpenFiles};
use crate::base::options::{DbOptions, ReadMode};
use crate::block_cache::{Cache, FrameRef};
use crate::env::Env;
use crate::env::closable::{ClosableFile, FileOwner};
use crate::manifest::TableMeta;
use crate::sstable::format::FOOTER;
use crate::sstable::{BlobFile, Maps, Properties, Table, WarmBlocks};
use crate::util::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

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
    ready_blobs: Mutex<HashMap<u64, Arc<BlobFile>>>,
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
            ready_blobs: Mutex::default(),
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

    pub(super) fn is_closed(&self) -> bool {
        self.owner.closed.load(Ordering::Acquire)
    }

    /// Counts a new handle of this table, and returns the table if it was opened in advance.
    pub(super) fn add_handle(&self, meta: &TableMeta) -> Option<Arc<Table>> {
        self.resized(meta.size, 0);
        self.handles.fetch_add(1, Ordering::Relaxed);
        self.ready.lock().remove(&meta.id)
    }

    /// Discounts a handle of this table that is dropped.
    pub(super) fn remove_handle(&self, meta: &TableMeta) {
        self.resized(0, meta.size);
        self.handles.fetch_sub(1, Ordering::Relaxed);
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
            self.ready_blobs.lock().insert(id, file);
        }
    }

    /// Discards table or blob file `id`, which will not be used after all.
    pub fn forget(&self, id: u64) {
        let table = self.ready.lock().remove(&id);
        table.iter().for_each(|t| self.count(t.memory(), false));
        let file = self.ready_blobs.lock().remove(&id);
        file.iter().for_each(|f| self.count(f.memory(), false));
    }

    /// Adds or subtracts the memory of an open table or blob file.
    pub(super) fn count(&self, bytes: usize, comes: bool) {
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

    pub(super) fn open(&self, id: u64, ingested: Seq) -> Result<Arc<Table>> {
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
    /// As [`TableHandle::table`](crate::iterator::table_handle::TableHandle::table).
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
    pub fn blob_handle(self: &Arc<Self>, facts: &Arc<BlobFileMeta>) -> Arc<BlobFileHandle> {
        let ready = self.ready_blobs.lock().remove(&facts.id);
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
    pub(super) fn discard(&self, path: PathBuf, mapped: Option<Arc<dyn Any + Send + Sync>>) {
        if self.has_background_deleter.load(Ordering::Acquire) {
            self.dead.lock().push((path, mapped));
        } else {
            drop(mapped);
            self.remove(&path);
        }
    }

    /// Sets whether a worker calls [`delete_obsolete_files`](Self::delete_obsolete_files)
    /// periodically. If not, the thread that drops the last handle removes the file.
    pub fn set_background_deletion(&self, has_background_deleter: bool) {
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

pub(super) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the store has been closed, and a table that is needed was not open yet",
    )
}

/// Returns the path of a table's file.
pub fn table_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:08}.sst"))
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

debug_by!(BlobFileHandle, "BlobFileHandle", facts);

impl BlobFileHandle {
    pub(super) fn claim(&self) {
        self.claims.fetch_add(1, Ordering::AcqRel);
        self.orphan.store(false, Ordering::Release);
    }

    pub(super) fn disclaim(&self) {
        let before = self.claims.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "disclaim without claim of a blob file");
        if before == 1 {
            self.orphan.store(true, Ordering::Release);
        }
    }

    /// Records that a merge has found an unreadable blob in it.
    pub(super) fn mark_spoiled(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
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
    pub(super) fn open(&self) -> Result<&Arc<BlobFile>> {
        let opened = self.opener.open_values(self.facts.id).map_err(|e| match e.kind() {
            ErrorKind::NotFound => missing_blobs(&self.opener.dir, &self.facts),
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
            .then(|| "this blob file has other counts than the manifest tells of".to_owned())
    };
    facts.identity.mismatch(&found.identity).or_else(other)
}

/// Returns the error that a blob file named in the manifest is not in the directory.
pub fn missing_blobs(dir: &Path, facts: &BlobFileMeta) -> Error {
    let words = "a live blob file is missing; put it back from a checkpoint or a backup, or save the rest with `sstable-dump salvage`";
    Error::corruption(words).at(table_path(dir, facts.id), 0)
}
