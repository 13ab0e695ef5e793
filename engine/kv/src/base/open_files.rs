//! Limit on open table files (RocksDB: `max_open_files`), of one Db or shared by several.
//!
//! An open table has its index and filter in memory; its file is only needed to read blocks. So a
//! file may be closed at any time, and the next reader opens it again (`env::closable`). Reads of
//! cached or mapped blocks never use this module.
//!
//! Invariants:
//! - A reader that opens a file first counts it (`OpenFileList::admit`) and then closes others
//!   while there are too many. It waits for no other reader. Files in use at that moment stay open.
//!   So the number of files may exceed the limit by the number of readers, until the next open.
//!   Readers wait for each other only if they need the same file, and one of them opens it.
//! - The choice is a clock algorithm: a file used since its last inspection is skipped once, so
//!   frequently read files stay open. If too many files remain, any file without a current reader
//!   is closed.
//! - While a file is closed, the only locks held are those of the file being opened and of the file
//!   being closed.
//! - If the system has no descriptor left, the thread that meets this (`relieve`) closes some files
//!   of every list in the process, whatever their limits.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use crate::util::sync::{AtomicU64, Mutex, Ordering};

/// Smallest value of the limit of the process, in files.
const LEAST: u64 = 8;

/// Maximum number of files that a reader inspects to find one to close. The next reader continues
/// after them.
const LOOKS: usize = 512;

/// Limit on the number of table files open at once, for one Db or for several that share it.
///
/// More tables than that are still readable. The file that was not used for the longest time is
/// closed, and opened again when a block of it is read from the device. Cached or mapped blocks
/// need no file.
///
/// A Db whose [`DbOptions::open_files`](crate::DbOptions::open_files) is `None` uses the limit of
/// the process. That limit is half of the descriptors that the process may have (`ulimit -n`), at
/// least 8. It is recomputed whenever a Db is opened. On systems without such a limit there is
/// none.
///
/// These files are not counted:
/// - the file of each running read, until the next file is opened;
/// - for each Db: its directory, its lock, its manifest, its event log and one to three log
///   segments;
/// - the files that flushes and compactions are writing, one for each.
///
/// A Db that was closed cleanly and is only read has just the directory and the lock open, and the
/// event log if enabled. A Db opened with `read_only` holds open all log segments that it has read,
/// because a writer may remove them. Where files are not mapped
/// ([`ReadMode::Pread`](crate::ReadMode::Pread), Windows, an `Env` without maps) it also holds its
/// tables open.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("firn-doc-open-files-{}", std::process::id()));
/// use firn_kv::{Db, DbOptions, OpenFiles};
/// let files = OpenFiles::new(100);
/// let tenants: Vec<Db> = (0..3)
///     .map(|i| {
///         let options = DbOptions { open_files: Some(files.clone()), background_threads: 1, ..DbOptions::default() };
///         Db::open_with(dir.join(format!("tenant-{i}")), options)
///     })
///     .collect::<Result<_, _>>()?;
/// assert_eq!(tenants[0].stats().files.limit, 100);
/// assert!(files.open_count() <= 100);
/// # drop(tenants); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenFiles(Arc<Ring>);

struct Ring {
    most: AtomicU64,
    open: AtomicU64,
    /// Open files, the next one to inspect first. Some may already be gone.
    files: Mutex<VecDeque<Weak<dyn Closable>>>,
}

/// File that can be closed and opened again.
pub(crate) trait Closable: Send + Sync {
    /// Reports whether the file was used since the last call, and clears the mark.
    fn take_used(&self) -> bool;
    /// Closes the file unless it is in use now. Reports whether it did.
    fn close(&self) -> bool;
    /// Reports whether the Db of the file has been closed.
    fn is_of_closed_db(&self) -> bool;
}

/// All limits of the process. This is a plain lock: no other lock is taken under it.
static ALL: std::sync::Mutex<Vec<Weak<Ring>>> = std::sync::Mutex::new(Vec::new());

impl OpenFiles {
    /// Creates a limit of `most` files. The minimum is 1, checked when a Db is opened.
    pub fn new(most: u64) -> OpenFiles {
        let ring = Arc::new(Ring {
            most: AtomicU64::new(most),
            open: AtomicU64::new(0),
            files: Mutex::new(VecDeque::new()),
        });
        let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|r| r.strong_count() > 0);
        all.push(Arc::downgrade(&ring));
        OpenFiles(ring)
    }

    /// Returns the limit for Dbs without one of their own, in a process that may have
    /// `descriptors`.
    pub(crate) fn of_process(descriptors: Option<u64>) -> OpenFiles {
        static PROCESS: OnceLock<OpenFiles> = OnceLock::new();
        let Some(descriptors) = descriptors else { return OpenFiles::new(u64::MAX) };
        let files = PROCESS.get_or_init(|| OpenFiles::new(LEAST));
        files.0.most.store((descriptors / 2).max(LEAST), Ordering::Relaxed);
        files.clone()
    }

    /// Returns the limit, in files.
    pub fn limit(&self) -> u64 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// Returns the number of files open now in all Dbs that share the limit.
    pub fn open_count(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenFiles").field(&self.limit()).finish()
    }
}

impl Ring {
    /// Closes files until `enough` holds, all files were inspected twice, or `most` were inspected.
    /// Returns the number of files closed.
    ///
    /// The first half of the inspections skips files used since their last inspection. The second
    /// half closes every file without a current reader. Otherwise fast readers would mark every
    /// file as used before a slow thread inspects it again, and the limit would not hold.
    fn close(&self, most: usize, enough: impl Fn(u64) -> bool) -> u64 {
        let len = self.files.lock().len();
        let first = len.min(most / 2);
        let mut closed = 0;
        for look in 0..2 * first {
            if enough(closed) {
                break;
            }
            let Some(next) = self.files.lock().pop_front() else { break };
            let Some(file) = next.upgrade() else { continue };
            let was_used = file.take_used();
            if (look >= first || !was_used) && file.close() {
                closed += 1;
            } else {
                self.files.lock().push_back(next);
            }
        }
        closed
    }
}

/// Closes a quarter of all table files that the process has open, so that another file can be
/// opened. Returns false if none could be closed.
#[cold]
pub(crate) fn relieve() -> bool {
    let all: Vec<_> =
        ALL.lock().unwrap_or_else(|e| e.into_inner()).iter().filter_map(Weak::upgrade).collect();
    let mut closed = 0;
    for ring in all {
        let wanted = ring.open.load(Ordering::Relaxed).div_ceil(4);
        closed += ring.close(usize::MAX, |closed| closed >= wanted);
    }
    closed > 0
}

/// Files of one Db under a limit.
pub(crate) struct OpenFileList {
    bound: OpenFiles,
    open: AtomicU64,
    reopened: AtomicU64,
}

/// Counts an open file until it is dropped.
pub(crate) struct Admitted {
    files: Arc<OpenFileList>,
    /// Whether the limit counts the file too.
    is_bound: bool,
}

impl Admitted {
    /// Excludes the file from the limit, because it cannot be closed. Otherwise other files would
    /// be closed for it in vain.
    pub fn hold(&mut self) {
        if std::mem::replace(&mut self.is_bound, false) {
            self.files.bound.0.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Statistics of the table files of a Db.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// Open files of this Db.
    pub open: u64,
    /// Number of times that a file closed because of the limit was opened again.
    pub reopened: u64,
    /// Open files of all Dbs that share the limit, without those that cannot be closed.
    pub shared_open: u64,
    /// Limit on open files ([`OpenFiles`]); `u64::MAX` for none.
    pub limit: u64,
}

impl OpenFileList {
    pub fn new(bound: OpenFiles) -> Arc<OpenFileList> {
        Arc::new(OpenFileList { bound, open: AtomicU64::new(0), reopened: AtomicU64::new(0) })
    }

    /// Counts a file that is about to be opened, and closes others while there are too many.
    pub fn admit(self: &Arc<Self>) -> Admitted {
        self.open.fetch_add(1, Ordering::Relaxed);
        let ring = &self.bound.0;
        let is_enough = || ring.open.load(Ordering::Relaxed) <= ring.most.load(Ordering::Relaxed);
        ring.open.fetch_add(1, Ordering::Relaxed);
        if !is_enough() {
            ring.close(LOOKS, |_| is_enough());
        }
        Admitted { files: self.clone(), is_bound: true }
    }

    /// Allows `file`, which is open, to be closed from now on.
    pub fn offer(&self, file: Weak<dyn Closable>) {
        let ring = &self.bound.0;
        let mut files = ring.files.lock();
        // Remove entries of tables that are gone.
        if files.len() as u64 > 2 * ring.open.load(Ordering::Relaxed) + 64 {
            files.retain(|f| f.strong_count() > 0);
        }
        files.push_back(file);
    }

    /// Closes the files of Dbs that have been closed. Their tables may live on for a while, because
    /// a reader of another Db delays the freeing of replaced values.
    pub fn close_of_closed_dbs(&self) {
        let ring = &self.bound.0;
        let len = ring.files.lock().len();
        for _ in 0..len {
            let Some(next) = ring.files.lock().pop_front() else { break };
            let Some(file) = next.upgrade() else { continue };
            if !(file.is_of_closed_db() && file.close()) {
                ring.files.lock().push_back(next);
            }
        }
    }

    /// Counts that a file was opened again.
    pub fn count_reopened(&self) {
        self.reopened.fetch_add(1, Ordering::Relaxed);
    }

    pub fn report(&self) -> FileStats {
        FileStats {
            open: self.open.load(Ordering::Relaxed),
            reopened: self.reopened.load(Ordering::Relaxed),
            shared_open: self.bound.open_count(),
            limit: self.bound.limit(),
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.hold();
        self.files.open.fetch_sub(1, Ordering::Relaxed);
    }
}
