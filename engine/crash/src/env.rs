//! A deterministic in-memory environment with an exact model of crashes. The model:
//! - A file has a present and a durable content; `sync` makes the first the second. Between two
//!   syncs a power cut leaves, for each 512-byte sector, the old or the new content, and any length
//!   between the two.
//! - A directory has present and durable entries; [`Env::sync_dir`] makes the first the second.
//!   Syncing a file does *not* make its name durable. Creating a directory does not make that
//!   directory's own name durable.
//! - A failed sync leaves its bytes undurable for good, as on Linux. A later successful sync does
//!   not cover them, unless they are written again.
//! - A log file's reserved length is an unsynced change like any other.
//!
//! After [`CrashEnv::start_journal`], every operation that changes the disk is recorded. So the
//! disk after a crash at any point of the history can be made: by [`CrashEnv::crash_image`], or by
//! [`Crasher`] for all points in order.
//!
//! Invariants:
//! - The disk changes only in `CrashState::commit`, except that files without a name and handle
//!   are dropped.
//! - The clock moves only by [`CrashEnv::advance`] and `sleep`.
//! - Random numbers come from the seed.
//! - Threads are real ones. Under `--cfg interleave`, threads, sleeps and clock are the scheduler's
//!   (`time`), and each operation is a possible thread switch.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn_kv::{Env, Error, ErrorKind, Result};

use firn_kv::fs::{FileLock, FileMap, LogFile, ReadFile, Thread, WriteFile};

use crate::disk::{Cut, Disk, DiskEntry, DiskOp, Ino, ROOT};
use crate::rng::CrashRng;
use crate::time::{self, Mutex};

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

/// Start of the wall clock: 2020-01-01, in microseconds since 1970.
const FIRST_WALL_MICROS: u64 = 1_577_836_800_000_000;
/// Number of operations between two checkpoints of the disk, from which crash images are made.
const CHECKPOINT_EVERY: usize = 256;

/// A deterministic in-memory environment that records every operation and makes the disk after a
/// crash at any point. Clones are handles to the same one.
///
/// - Between two syncs of a file a power cut leaves, for each 512-byte sector, the old or the new
///   content, and any length between the two.
/// - Syncing a file does *not* make its name durable; [`Env::sync_dir`] of its directory does.
/// - A failed sync leaves its bytes undurable for good, as on Linux.
/// - The clock moves only by [`CrashEnv::advance`] and `sleep`; random numbers come from the seed.
#[derive(Clone)]
pub struct CrashEnv {
    state: Arc<Mutex<CrashState>>,
}

impl fmt::Debug for CrashEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashEnv").finish_non_exhaustive()
    }
}

/// Initial result of [`Env::memory`], in bytes.
const MEMORY: u64 = 16 << 30;

struct CrashState {
    disk: Disk,
    journal: Option<OpJournal>,
    /// Number of handles per open file. A file without a name lives as long as it has one.
    open: HashMap<Ino, usize>,
    locked: BTreeSet<Ino>,
    nanos: u64,
    rng: CrashRng,
    free_space: Option<u64>,
    memory: Option<u64>,
}

#[derive(Default)]
struct OpJournal {
    ops: Vec<Arc<DiskOp>>,
    /// The disk before operation `i * CHECKPOINT_EVERY`.
    checkpoints: Vec<Disk>,
}

thread_local! {
    static SYNCS_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with failing syncs: every sync by this thread on an in-memory environment fails and
/// leaves its bytes undurable.
pub(crate) fn with_failing_syncs<T>(work: impl FnOnce() -> T) -> T {
    SYNCS_FAIL.set(true);
    let result = work();
    SYNCS_FAIL.set(false);
    result
}

/// Returns `EIO`, as from a failing device.
pub(crate) fn device_error() -> io::Error {
    // ERROR_IO_DEVICE of Windows, and WASI's number; Unixes agree.
    io::Error::from_raw_os_error(if cfg!(windows) {
        1117
    } else if cfg!(target_os = "wasi") {
        29
    } else {
        5
    })
}

fn past_capacity(file: &Path, offset: u64, len: usize, capacity: u64) -> Error {
    Error::invalid(format!("a write of {len} bytes does not fit into the log's {capacity}"))
        .at(file, offset)
}

fn refused(what: &str, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(what, path, io::Error::from(kind))
}

impl CrashState {
    fn new(disk: Disk, seed: u64) -> CrashState {
        let (open, locked) = (HashMap::new(), BTreeSet::new());
        CrashState {
            disk,
            journal: None,
            open,
            locked,
            nanos: 0,
            rng: CrashRng(seed),
            free_space: None,
            memory: Some(MEMORY),
        }
    }

    fn commit(&mut self, op: DiskOp) {
        self.disk.apply(&op);
        if let Some(journal) = &mut self.journal {
            journal.ops.push(Arc::new(op));
            if journal.ops.len().is_multiple_of(CHECKPOINT_EVERY) {
                journal.checkpoints.push(self.disk.clone());
            }
        }
    }

    /// Returns the directory and the last name of a path.
    fn split(&self, what: &str, path: &Path) -> Result<(Ino, String)> {
        let name =
            path.file_name().ok_or_else(|| refused(what, path, io::ErrorKind::InvalidInput))?;
        let dir = self.dir(what, path.parent().unwrap_or(Path::new("/")))?;
        Ok((dir, name.to_string_lossy().into_owned()))
    }

    fn names(what: &str, path: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(refused(what, path, io::ErrorKind::InvalidInput));
                }
            }
        }
        Ok(names)
    }

    fn dir(&self, what: &str, path: &Path) -> Result<Ino> {
        let mut at = ROOT;
        for name in Self::names(what, path)? {
            at = match self.entry(at, &name) {
                Some(DiskEntry::Dir(ino)) => ino,
                Some(DiskEntry::File(_)) => {
                    return Err(refused(what, path, io::ErrorKind::NotADirectory));
                }
                None => return Err(refused(what, path, io::ErrorKind::NotFound)),
            };
        }
        Ok(at)
    }

    fn entry(&self, dir: Ino, name: &str) -> Option<DiskEntry> {
        self.disk.dir(dir)?.entries().get(name).copied()
    }

    /// Returns the inode of an existing file.
    fn file(&self, what: &str, path: &Path) -> Result<Ino> {
        let (dir, name) = self.split(what, path)?;
        match self.entry(dir, &name) {
            Some(DiskEntry::File(ino)) => Ok(ino),
            Some(DiskEntry::Dir(_)) => Err(refused(what, path, io::ErrorKind::IsADirectory)),
            None => Err(refused(what, path, io::ErrorKind::NotFound)),
        }
    }

    /// Returns the inode of a file; creates the file if it does not exist.
    fn file_or_new(&mut self, what: &str, path: &Path) -> Result<Ino> {
        let (dir, name) = self.split(what, path)?;
        match self.entry(dir, &name) {
            Some(DiskEntry::File(ino)) => Ok(ino),
            Some(DiskEntry::Dir(_)) => Err(refused(what, path, io::ErrorKind::IsADirectory)),
            None => {
                let ino = self.disk.next_ino();
                self.commit(DiskOp::Create { dir, name, ino, path: path.to_path_buf() });
                Ok(ino)
            }
        }
    }

    fn len(&self, ino: Ino) -> u64 {
        self.disk.file(ino).map_or(0, |f| f.now().len())
    }

    fn content(&self, ino: Ino) -> Vec<u8> {
        self.disk.file(ino).map_or(Vec::new(), |f| f.now().to_vec())
    }

    /// Drops a file that has neither name nor handle.
    fn forget(&mut self, ino: Ino) {
        if !self.open.contains_key(&ino) {
            self.disk.drop_if_nameless(ino);
        }
    }

    /// Returns the disk before the last of the first `at` operations, and that last one.
    fn disk_before(&self, at: usize) -> (Disk, Option<Arc<DiskOp>>) {
        let Some(journal) = &self.journal else {
            assert!(at == 0, "no journal: call start_journal first");
            return (self.disk.clone(), None);
        };
        assert!(
            at <= journal.ops.len(),
            "the journal has {} operations, not {at}",
            journal.ops.len()
        );
        let Some(last) = at.checked_sub(1) else { return (journal.checkpoints[0].clone(), None) };
        let from = last / CHECKPOINT_EVERY;
        let mut disk = journal.checkpoints[from].clone();
        for op in &journal.ops[from * CHECKPOINT_EVERY..last] {
            disk.apply(op);
        }
        (disk, Some(journal.ops[last].clone()))
    }

    fn files_below(&self, dir: Ino, path: &Path, out: &mut Vec<PathBuf>) {
        for (name, entry) in self.disk.dir(dir).into_iter().flat_map(|d| d.entries()) {
            match entry {
                DiskEntry::File(_) => out.push(path.join(name)),
                DiskEntry::Dir(ino) => self.files_below(*ino, &path.join(name), out),
            }
        }
    }
}

impl CrashEnv {
    /// Creates an environment with an empty root directory. The seed determines the random numbers.
    /// Recording is off.
    pub fn new(seed: u64) -> CrashEnv {
        CrashEnv { state: Arc::new(Mutex::new(CrashState::new(Disk::new(), seed))) }
    }

    /// Starts recording from the present state of the disk; drops the previous journal.
    pub fn start_journal(&self) {
        let mut st = self.state.lock();
        st.journal = Some(OpJournal { ops: Vec::new(), checkpoints: vec![st.disk.clone()] });
    }

    /// Stops recording and drops the journal.
    pub fn stop_journal(&self) {
        self.state.lock().journal = None;
    }

    /// Returns the number of recorded operations.
    pub fn journal_len(&self) -> usize {
        self.state.lock().journal.as_ref().map_or(0, |j| j.ops.len())
    }

    /// Describes the recorded operation `n`.
    pub fn journal_op(&self, n: usize) -> Option<String> {
        Some(self.state.lock().journal.as_ref()?.ops.get(n)?.to_string())
    }

    /// Returns the disk after a crash right after the first `at` recorded operations. The result is
    /// a new environment with the same clock, without locks, open files or journal. Everything that
    /// survived a power cut is durable in it; after [`Cut::Process`] unsynced data is still
    /// unsynced. Without a journal, `at` must be 0 and the crash is now.
    ///
    /// # Panics
    /// If `at` exceeds the journal's length.
    pub fn crash_image(&self, at: usize, cut: &Cut) -> CrashEnv {
        let (disk, last) = self.state.lock().disk_before(at);
        self.with_disk(disk.crash(last.as_deref(), cut))
    }

    /// Returns a [`Crasher`] for all crash points of the journal, positioned before the first
    /// operation.
    pub fn crasher(&self) -> Crasher {
        let (disk, last) = self.state.lock().disk_before(0);
        Crasher { env: self.clone(), disk, last, at: 0 }
    }

    /// Returns a copy with its own disk (shared until written), clock and random numbers; without
    /// locks, open files or journal.
    pub fn fork(&self) -> CrashEnv {
        let disk = self.state.lock().disk.clone();
        self.with_disk(disk.crash(None, &Cut::Process))
    }

    fn with_disk(&self, disk: Disk) -> CrashEnv {
        let st = self.state.lock();
        let mut copy = CrashState::new(disk, st.rng.0);
        copy.nanos = st.nanos;
        (copy.free_space, copy.memory) = (st.free_space, st.memory);
        CrashEnv { state: Arc::new(Mutex::new(copy)) }
    }

    /// Returns the content of a file.
    pub fn read_file(&self, file: &Path) -> Result<Vec<u8>> {
        let st = self.state.lock();
        Ok(st.content(st.file("read", file)?))
    }

    /// Replaces a file's content, or creates the file. Tests use it to damage files. Durable at
    /// once if the file's name is.
    pub fn write_file(&self, file: &Path, bytes: &[u8]) -> Result<()> {
        let mut st = self.state.lock();
        let ino = st.file_or_new("write", file)?;
        let path: Arc<Path> = file.into();
        st.commit(DiskOp::SetLen { ino, len: bytes.len() as u64, path: file.to_path_buf() });
        st.commit(DiskOp::Write { ino, offset: 0, bytes: bytes.into(), path: path.clone() });
        st.commit(DiskOp::Sync { ino, path });
        Ok(())
    }

    /// Returns all files, sorted by path.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        self.state.lock().files_below(ROOT, Path::new("/"), &mut files);
        files.sort_unstable();
        files
    }

    /// Moves the clock forward.
    pub fn advance(&self, time: Duration) {
        let mut st = self.state.lock();
        st.nanos = st.nanos.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Sets the result of [`Env::free_space`]; `None` (unknown) at first.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.state.lock().free_space = bytes;
    }

    /// Sets the result of [`Env::memory`]; 16 GiB at first.
    pub fn set_memory(&self, bytes: Option<u64>) {
        self.state.lock().memory = bytes;
    }

    fn handle(&self, st: &mut CrashState, ino: Ino, path: &Path) -> CrashHandle {
        *st.open.entry(ino).or_insert(0) += 1;
        CrashHandle { env: self.clone(), ino, path: path.into() }
    }
}

/// Makes crash images at each point of a journal in order, without replaying from the beginning:
/// see [`CrashEnv::crasher`].
pub struct Crasher {
    env: CrashEnv,
    /// The disk before the last operation.
    disk: Disk,
    last: Option<Arc<DiskOp>>,
    at: usize,
}

impl fmt::Debug for Crasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crasher").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Crasher {
    /// Returns how many operations have happened before the crash.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Describes the last operation before the crash.
    pub fn last_op(&self) -> Option<String> {
        self.last.as_ref().map(|op| op.to_string())
    }

    /// Returns how many bytes the last operation wrote to a file. If it wrote any, [`Cut::Torn`]
    /// differs from [`Cut::PowerAll`].
    pub fn last_write(&self) -> Option<u64> {
        match self.last.as_deref() {
            Some(DiskOp::Write { bytes, .. }) => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// Advances by one operation; returns `false` at the journal's present end.
    pub fn advance(&mut self) -> bool {
        let st = self.env.state.lock();
        let Some(next) = st.journal.as_ref().and_then(|j| j.ops.get(self.at)) else { return false };
        if let Some(op) = self.last.replace(next.clone()) {
            self.disk.apply(&op);
        }
        self.at += 1;
        true
    }

    /// Returns the disk after a crash here: see [`CrashEnv::crash_image`].
    pub fn image(&self, cut: &Cut) -> CrashEnv {
        self.env.with_disk(self.disk.crash(self.last.as_deref(), cut))
    }
}

/// An open file.
struct CrashHandle {
    env: CrashEnv,
    ino: Ino,
    path: Arc<Path>,
}

impl CrashHandle {
    fn write(&self, offset: u64, bytes: &[u8]) {
        let bytes = bytes.into();
        self.env.state.lock().commit(DiskOp::Write {
            ino: self.ino,
            offset,
            bytes,
            path: self.path.clone(),
        });
    }

    fn sync(&self) -> Result<()> {
        let (ino, path) = (self.ino, self.path.clone());
        if SYNCS_FAIL.get() {
            self.env.state.lock().commit(DiskOp::SyncFailed { ino, path });
            return Err(Error::io("sync", &self.path, device_error()));
        }
        self.env.state.lock().commit(DiskOp::Sync { ino, path });
        Ok(())
    }
}

impl Drop for CrashHandle {
    fn drop(&mut self) {
        let mut st = self.env.state.lock();
        if let Some(n) = st.open.get_mut(&self.ino) {
            *n -= 1;
            if *n == 0 {
                st.open.remove(&self.ino);
                st.forget(self.ino);
            }
        }
    }
}

struct CrashRead {
    handle: CrashHandle,
    len: u64,
    mappable: bool,
}

impl ReadFile for CrashRead {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let st = self.handle.env.state.lock();
        match st.disk.file(self.handle.ino) {
            Some(f) if f.now().read(offset, buf) => Ok(()),
            _ => {
                let wanted = buf.len();
                let why = format!("the file ends before the {wanted} bytes that should be there");
                Err(Error::corruption(why).at(&self.handle.path, offset))
            }
        }
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        let content =
            self.mappable.then(|| self.handle.env.state.lock().content(self.handle.ino))?;
        Some(Arc::new(content))
    }
}

struct CrashWrite {
    handle: CrashHandle,
    len: u64,
}

impl WriteFile for CrashWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.handle.write(self.len, bytes);
            self.len += bytes.len() as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.handle.sync()
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct CrashLog {
    handle: CrashHandle,
    capacity: u64,
}

impl LogFile for CrashLog {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.capacity) {
            return Err(past_capacity(&self.handle.path, offset, bytes.len(), self.capacity));
        }
        if !bytes.is_empty() {
            self.handle.write(offset, bytes);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync()
    }

    fn prepare(&self, _offset: u64, _len: u64) {}

    fn shorten(&mut self, len: u64) -> Result<()> {
        if len == 0 || len > self.capacity {
            return Err(past_capacity(&self.handle.path, len, 0, self.capacity));
        }
        self.capacity = len;
        let (ino, path) = (self.handle.ino, self.handle.path.to_path_buf());
        self.handle.env.state.lock().commit(DiskOp::SetLen { ino, len, path });
        Ok(())
    }
}

struct CrashLock {
    env: CrashEnv,
    ino: Ino,
}

impl FileLock for CrashLock {}

impl Drop for CrashLock {
    fn drop(&mut self) {
        self.env.state.lock().locked.remove(&self.ino);
    }
}

impl Env for CrashEnv {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let what = "create the directory";
        let mut st = self.state.lock();
        let (mut at, mut path) = (ROOT, PathBuf::from("/"));
        for name in CrashState::names(what, dir)? {
            path.push(&name);
            at = match st.entry(at, &name) {
                Some(DiskEntry::Dir(ino)) => ino,
                Some(DiskEntry::File(_)) => {
                    return Err(refused(what, dir, io::ErrorKind::NotADirectory));
                }
                None => {
                    let ino = st.disk.next_ino();
                    st.commit(DiskOp::CreateDir { dir: at, name, ino, path: path.clone() });
                    ino
                }
            };
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let st = self.state.lock();
        let ino = st.dir("list", dir)?;
        Ok(st.disk.dir(ino).map_or(Vec::new(), |d| d.entries().keys().cloned().collect()))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut st = self.state.lock();
        let ino = st.dir("sync the directory", dir)?;
        if SYNCS_FAIL.get() {
            return Err(Error::io("sync the directory", dir, device_error()));
        }
        let replaced = st.disk.replaced_in(ino);
        st.commit(DiskOp::SyncDir { dir: ino, path: dir.to_path_buf() });
        for file in replaced {
            st.forget(file);
        }
        Ok(())
    }

    fn file_len(&self, file: &Path) -> Result<u64> {
        let st = self.state.lock();
        Ok(st.len(st.file("read the length", file)?))
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        let mut st = self.state.lock();
        let ino = st.file("open", file)?;
        let len = st.len(ino);
        let mappable = map && len > 0;
        let handle = self.handle(&mut st, ino, file);
        Ok(Arc::new(CrashRead { handle, len, mappable }))
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        let st = self.state.lock();
        let ino = st.file("open", file)?;
        let len = st.len(ino);
        if len > cap {
            let why = format!("the file has {len} bytes, more than the {cap} that it can have");
            return Err(Error::corruption(why).at(file, cap));
        }
        Ok(st.content(ino))
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let mut st = self.state.lock();
        let ino = st.file_or_new("create", file)?;
        if st.len(ino) > 0 {
            st.commit(DiskOp::SetLen { ino, len: 0, path: file.to_path_buf() });
        }
        let handle = self.handle(&mut st, ino, file);
        Ok(Box::new(CrashWrite { handle, len: 0 }))
    }

    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let mut st = self.state.lock();
        let ino = st.file_or_new("open for appending", file)?;
        let len = st.len(ino);
        let handle = self.handle(&mut st, ino, file);
        Ok(Box::new(CrashWrite { handle, len }))
    }

    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        if capacity == 0 {
            return Err(Error::invalid("a log file cannot have 0 bytes").in_file(file));
        }
        let mut st = self.state.lock();
        let (dir, name) = st.split("create", file)?;
        if let Some(DiskEntry::File(_)) = st.entry(dir, &name) {
            st.commit(DiskOp::Remove { dir, name, path: file.to_path_buf() });
        }
        let ino = st.file_or_new("create", file)?;
        st.commit(DiskOp::SetLen { ino, len: capacity, path: file.to_path_buf() });
        let handle = self.handle(&mut st, ino, file);
        Ok(Box::new(CrashLog { handle, capacity }))
    }

    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        let mut st = self.state.lock();
        let ino = st.file("open for writing again", file)?;
        let capacity = st.len(ino);
        if capacity == 0 {
            return Err(Error::invalid("a log file cannot have 0 bytes").in_file(file));
        }
        let handle = self.handle(&mut st, ino, file);
        Ok(Box::new(CrashLog { handle, capacity }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut st = self.state.lock();
        let ino = st.file("rename", from)?;
        let (source, target) = (st.split("rename", from)?, st.split("rename to", to)?);
        match st.entry(target.0, &target.1) {
            Some(DiskEntry::Dir(_)) => {
                return Err(refused("rename to", to, io::ErrorKind::IsADirectory));
            }
            Some(DiskEntry::File(other)) if other == ino => return Ok(()), // same file: no effect
            _ => {}
        }
        st.commit(DiskOp::Rename {
            from: source,
            to: target,
            paths: (from.to_path_buf(), to.to_path_buf()),
        });
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut st = self.state.lock();
        let ino = st.file("link", from)?;
        let target = st.split("link as", to)?;
        if st.entry(target.0, &target.1).is_some() {
            return Err(refused("link as", to, io::ErrorKind::AlreadyExists));
        }
        st.commit(DiskOp::Link { ino, to: target, paths: (from.to_path_buf(), to.to_path_buf()) });
        Ok(())
    }

    fn remove(&self, file: &Path) -> Result<()> {
        let mut st = self.state.lock();
        st.file("remove", file)?;
        let (dir, name) = st.split("remove", file)?;
        st.commit(DiskOp::Remove { dir, name, path: file.to_path_buf() });
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let what = "remove the directory";
        let mut st = self.state.lock();
        let ino = st.dir(what, dir)?;
        let (parent, name) = st.split(what, dir)?;
        if st.disk.dir(ino).is_some_and(|d| !d.entries().is_empty()) {
            return Err(refused(what, dir, io::ErrorKind::DirectoryNotEmpty));
        }
        st.commit(DiskOp::Remove { dir: parent, name, path: dir.to_path_buf() });
        Ok(())
    }

    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        let mut st = self.state.lock();
        let ino = st.file_or_new("open the lock", file)?;
        if !st.locked.insert(ino) {
            let why = "another process, or another handle in this process, has the store open; close it first";
            return Err(Error::new(ErrorKind::Locked, why).in_file(file));
        }
        Ok(Box::new(CrashLock { env: self.clone(), ino }))
    }

    fn free_space(&self, _dir: &Path) -> Option<u64> {
        self.state.lock().free_space
    }

    fn memory(&self) -> Option<u64> {
        self.state.lock().memory
    }

    fn wall_micros(&self) -> u64 {
        FIRST_WALL_MICROS + self.monotonic_nanos() / 1000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.state.lock().nanos + time::passed()
    }

    fn sleep(&self, time: Duration) {
        time::sleep(|| self.advance(time), time);
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        time::spawn(name, work)
    }

    fn random(&self) -> u64 {
        self.state.lock().rng.next()
    }
}
