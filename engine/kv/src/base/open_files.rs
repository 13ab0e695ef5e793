//! The bound on open files of tables, which Dbs of a process share, and the choice of the file that
//! is closed when it is reached.
//!
//! A table that has been opened keeps its index and filter in memory; its file is only needed to
//! read blocks. So a file may be closed at any time, and whoever reads next opens it again
//! (`env::closable`). Reads of what is cached or mapped never come here.
//!
//! Invariants:
//! - Whoever opens a file counts it first (`OpenFileList::admit`) and then closes others while
//!   there are too many. It waits for nobody: what others read at that moment stays open, so there
//!   may be as many files beyond the bound as there are readers, until the next is opened. Readers
//!   wait for each other only where they want the same file, and one of them opens it.
//! - What was used since it was last looked at is passed over once (a clock), so what is read often
//!   stays open; where that leaves too many, any file is closed that nobody reads at that moment.
//! - No lock is held while a file is closed but those of the file that is being opened and of the
//!   one that is closed.
//! - When the system has no descriptor left, whoever meets that (`relieve`) closes some of all the
//!   process's, whatever their bounds.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use super::sync::{AtomicU64, Mutex, Ordering};

/// The least that the process's own bound allows.
const LEAST: u64 = 8;

/// How many files a reader that opens one looks at, at most, to find one that can be closed: who
/// comes next goes on behind them.
const LOOKS: usize = 512;

/// A bound on how many files of tables are open at once, of one Db or of several that share it.
/// Further tables are readable all the same: the file that was not used for longest is closed, and
/// opened again when a block of it is read from the device. Blocks that are cached or mapped need
/// no file.
///
/// A Db whose [`DbOptions::open_files`](crate::DbOptions::open_files) names none shares the
/// process's, which allows half of the descriptors that the process may have (`ulimit -n`), at
/// least 8, and is taken anew from the system when a Db is opened; where the system has no such
/// limit there is no bound.
///
/// Beyond the bound come: the file that each running read is in, until the next file is opened; of
/// each Db its directory, its lock, its manifest, its event log and one to three segments of its
/// log (a Db that was closed cleanly and is only read has the directory and the lock alone, and the
/// event log where it is written);
/// and the files that flushes and compactions are writing, one each. A Db opened with `read_only`
/// holds all segments of the log that it has read open, because a writer may remove them, and where
/// files are not mapped ([`ReadMode::Pread`](crate::ReadMode::Pread), Windows, an `Env` without
/// maps) its tables too.
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
/// assert_eq!(tenants[0].stats().files.most, 100);
/// assert!(files.open() <= 100);
/// # drop(tenants); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenFiles(Arc<Ring>);

struct Ring {
    most: AtomicU64,
    open: AtomicU64,
    /// Those that are open, the next to be looked at first; and some that are gone.
    files: Mutex<VecDeque<Weak<dyn Closable>>>,
}

/// A file that can be closed and opened again.
pub(crate) trait Closable: Send + Sync {
    /// Whether it was used since the last call.
    fn take_used(&self) -> bool;
    /// Closes it, unless somebody uses it now. Whether it did.
    fn close(&self) -> bool;
    /// Whether its Db has been closed.
    fn is_of_closed_db(&self) -> bool;
}

/// All bounds of the process. A plain lock: nothing else is taken under it.
static ALL: std::sync::Mutex<Vec<Weak<Ring>>> = std::sync::Mutex::new(Vec::new());

impl OpenFiles {
    /// At most so many files, at least 1, which is checked when a Db is opened.
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

    /// What Dbs share that name none, where a process may have `descriptors`.
    pub(crate) fn of_process(descriptors: Option<u64>) -> OpenFiles {
        static PROCESS: OnceLock<OpenFiles> = OnceLock::new();
        let Some(descriptors) = descriptors else { return OpenFiles::new(u64::MAX) };
        let files = PROCESS.get_or_init(|| OpenFiles::new(LEAST));
        files.0.most.store((descriptors / 2).max(LEAST), Ordering::Relaxed);
        files.clone()
    }

    /// The bound.
    pub fn most(&self) -> u64 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// How many files are open now, of all who share the bound.
    pub fn open(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenFiles").field(&self.most()).finish()
    }
}

impl Ring {
    /// Closes files until it is `enough`, or all have been looked at twice, or `most` have been
    /// looked at. How many it closed.
    ///
    /// The first half of the looks passes over what was used since the last look. The second half
    /// closes all that nobody reads at that moment: threads that read much would otherwise mark
    /// every file as used before a slow thread comes to it again, and the bound would not hold.
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

/// Closes a quarter of all files of tables that the process has open, so that something else can be
/// opened. False when none could be closed.
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

/// The files of one Db under a bound.
pub(crate) struct OpenFileList {
    bound: OpenFiles,
    open: AtomicU64,
    reopened: AtomicU64,
}

/// What counts an open file until it is dropped.
pub(crate) struct Admitted {
    files: Arc<OpenFileList>,
    /// Whether the bound counts it too.
    is_bound: bool,
}

impl Admitted {
    /// The file can't be closed: from now on it is one beyond the bound, which others would be
    /// closed for in vain.
    pub fn hold(&mut self) {
        if std::mem::replace(&mut self.is_bound, false) {
            self.files.bound.0.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The files of tables of a Db.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// How many of this Db's are open.
    pub open: u64,
    /// How often one that had been closed to stay within the bound was opened again.
    pub reopened: u64,
    /// How many are open of all Dbs that share the bound, without those that can't be closed.
    pub shared_open: u64,
    /// The bound ([`OpenFiles`]); `u64::MAX` for none.
    pub most: u64,
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

    /// Lets `file`, which is open, be closed from now on.
    pub fn offer(&self, file: Weak<dyn Closable>) {
        let ring = &self.bound.0;
        let mut files = ring.files.lock();
        // Those of tables that are gone.
        if files.len() as u64 > 2 * ring.open.load(Ordering::Relaxed) + 64 {
            files.retain(|f| f.strong_count() > 0);
        }
        files.push_back(file);
    }

    /// Closes the files of Dbs that have been closed. Their tables may live on for a while, because
    /// a reader of another Db keeps what was replaced from being freed.
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

    pub fn told(&self) -> FileStats {
        FileStats {
            open: self.open.load(Ordering::Relaxed),
            reopened: self.reopened.load(Ordering::Relaxed),
            shared_open: self.bound.open(),
            most: self.bound.most(),
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.hold();
        self.files.open.fetch_sub(1, Ordering::Relaxed);
    }
}
