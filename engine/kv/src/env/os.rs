//! The operating system's files, clocks and threads.
//!
//! Invariants:
//! - An interrupted call (`EINTR`) is repeated and a short write is continued; callers never see
//!   either.
//! - A failed sync is reported once and never repeated here: the kernel may have marked the lost
//!   pages clean.
//! - A log file has all its blocks before it is mapped. So a full disk is an error of
//!   [`Env::create_log`] and not a signal later. If blocks cannot be reserved, the file is not
//!   mapped, and a full disk is an error of the write (see `system`).
//! - `read_at` is one `pread` even when the file is mapped, so that a failing device is an error
//!   and not a signal.
//! - Names in a held directory are resolved through it, regardless of changes to its path (see
//!   `place`).
//!
//! Syncing a log is `fdatasync` of its descriptor. On Linux that also writes the dirty pages of a
//! shared map; elsewhere the map is flushed first.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the only module that may

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::map::{ForkMark, LogMap, ReadMap};
use super::place::{HeldDir, HeldDirs, OpenMode};
use super::system;
use super::write_back::begin_writing;
use super::{Env, FileLock, FileMap, FileTerms, LogFile, ReadFile, Thread, WriteFile};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::open_files::relieve;
use crate::util::sort::sort;

/// The operating system as an environment.
pub struct OsEnv {
    /// Zero of the monotonic clock.
    start: Instant,
    /// Detects `fork()` children.
    mark: Option<Arc<ForkMark>>,
    /// Whether files are mapped.
    maps: bool,
    /// Directories that are held open.
    held: HeldDirs,
}

debug_by!(OsEnv, "OsEnv", maps);

impl OsEnv {
    /// Creates the environment.
    #[allow(clippy::new_ret_no_self)] // an environment is always used through the trait
    pub fn new() -> Arc<dyn Env> {
        Arc::new(OsEnv::with_maps(system::MAPS))
    }

    fn with_maps(maps: bool) -> OsEnv {
        OsEnv {
            start: Instant::now(),
            mark: ForkMark::new().map(Arc::new),
            maps,
            held: HeldDirs::default(),
        }
    }

    /// Creates an environment that maps no files.
    #[cfg(test)]
    pub(super) fn without_maps() -> Arc<dyn Env> {
        Arc::new(OsEnv::with_maps(false))
    }

    fn open(&self, file: &Path, mode: OpenMode, what: &str) -> Result<NamedFile> {
        if mode != OpenMode::Read {
            self.held.check(file)?;
        }
        let opened = opened(|| self.held.open(file, mode)).map_err(|e| Error::io(what, file, e))?;
        Ok(NamedFile { file: opened, path: file.to_path_buf(), dir: self.held.dir_of(file) })
    }

    /// Sets a log file's length and reserves its blocks if possible; if so, maps it. `fresh`: the
    /// file has no content.
    fn open_log(&self, named: NamedFile, capacity: u64, fresh: bool) -> Result<Box<dyn LogFile>> {
        let len = usize::try_from(capacity).ok().filter(|n| *n > 0);
        let Some(len) = len else {
            return Err(Error::invalid(format!("a log file cannot have {capacity} bytes"))
                .in_file(&named.path));
        };
        let reserved = system::reserve(&named.file, capacity, fresh)
            .map_err(|e| named.error("reserve the log's space", e))?;
        if !(reserved && self.maps) {
            return Ok(Box::new(PlainLog { named, capacity }));
        }
        let map = LogMap::new(&named.file, len).map_err(|e| named.error("map", e))?;
        Ok(Box::new(OsLog { named, capacity, map: Arc::new(map) }))
    }
}

/// An open file with its name, for errors, and the held directory that contains it.
struct NamedFile {
    file: File,
    path: PathBuf,
    dir: Option<Arc<HeldDir>>,
}

impl NamedFile {
    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| self.error("read the length", e))?.len())
    }

    fn error(&self, what: &str, e: io::Error) -> Error {
        Error::io(what, &self.path, e)
    }

    fn sync_data(&self) -> Result<()> {
        system::sync_data(&self.file).map_err(|e| self.error("sync", e))?;
        // A removed file is lost with its last descriptor, even if its content is durable.
        self.dir.as_ref().map_or(Ok(()), |dir| dir.check())
    }
}

/// How often an open that lacks a descriptor closes table files and retries. Other threads may take
/// the freed descriptors.
const RELIEFS: usize = 10;

/// Runs `open`. If the system has no descriptor left, closes idle table files and retries.
fn opened<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..RELIEFS {
        match open() {
            Err(e) if system::is_out_of_descriptors(&e) && relieve() => {}
            opened => return opened,
        }
    }
    open()
}

struct OsRead {
    named: NamedFile,
    len: u64,
    /// The length, if the file may be mapped.
    mappable: Option<usize>,
}

impl ReadFile for OsRead {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        system::read_exact_at(&self.named.file, buf, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => ends_early(&self.named.path, offset, buf.len()),
            _ => self.named.error("read", e).at(&self.named.path, offset),
        })
    }

    /// Returns `None` if the system cannot map the file; it is read instead.
    fn map(&self) -> Option<Arc<dyn FileMap>> {
        Some(Arc::new(ReadMap::new(&self.named.file, self.mappable?).ok()??))
    }

    fn at_random(&self) {
        system::at_random(&self.named.file);
    }

    fn will_need(&self, offset: u64, len: u64) {
        system::will_need(&self.named.file, offset, len);
    }
}

/// Returns the error of a read past a file's end.
pub(super) fn ends_early(file: &Path, offset: u64, wanted: usize) -> Error {
    Error::corruption(format!("the file ends before the {wanted} bytes that should be there"))
        .at(file, offset)
}

/// Returns the error of a file that exceeds its maximum length.
pub(super) fn too_long(file: &Path, len: u64, cap: u64) -> Error {
    Error::corruption(format!("the file has {len} bytes, more than the {cap} that it can have"))
        .at(file, cap)
}

/// Returns the error of a log write outside the reserved bytes.
pub(super) fn past_capacity(file: &Path, offset: u64, len: usize, capacity: u64) -> Error {
    Error::invalid(format!("a write of {len} bytes does not fit into the log's {capacity}"))
        .at(file, offset)
}

/// Returns the error of a lock that another owner holds.
pub(super) fn already_locked(file: &Path) -> Error {
    let why =
        "another process, or another handle in this process, has the store open; close it first";
    Error::new(ErrorKind::Locked, why).in_file(file)
}

/// Stride, in bytes, in which write-back of a growing file starts, so that its sync waits only for
/// the last stride.
const STRIDE: u64 = 4 << 20;

struct OsWrite {
    named: NamedFile,
    len: u64,
    /// Offset up to which write-back has started.
    begun: u64,
}

impl WriteFile for OsWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.named
            .file
            .write_all(bytes)
            .map_err(|e| self.named.error("append", e).at(&self.named.path, self.len))?;
        self.len += bytes.len() as u64;
        if self.len - self.begun >= STRIDE {
            // Exclude the page that the next append continues, or it would be written twice.
            let until = self.len & !(system::LARGEST_PAGE - 1);
            begin_writing(&self.named.file, self.begun, until - self.begun);
            self.begun = until;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.named.sync_data()?;
        self.begun = self.len;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct OsLog {
    named: NamedFile,
    capacity: u64,
    map: Arc<LogMap>,
}

/// A log that is written without a map.
struct PlainLog {
    named: NamedFile,
    capacity: u64,
}

impl LogFile for PlainLog {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset > self.capacity || bytes.len() as u64 > self.capacity - offset {
            return Err(past_capacity(&self.named.path, offset, bytes.len(), self.capacity));
        }
        system::write_all_at(&self.named.file, bytes, offset)
            .map_err(|e| self.named.error("write", e).at(&self.named.path, offset))
    }

    fn sync(&self) -> Result<()> {
        self.named.sync_data()
    }

    fn prepare(&self, _offset: u64, _len: u64) {}

    fn shorten(&mut self, len: u64) -> Result<()> {
        if len == 0 || len > self.capacity {
            return Err(past_capacity(&self.named.path, len, 0, self.capacity));
        }
        self.named.file.set_len(len).map_err(|e| self.named.error("shorten", e))?;
        self.capacity = len;
        Ok(())
    }
}

impl LogFile for OsLog {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline]
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.map.write(offset, bytes) {
            return Ok(());
        }
        Err(past_capacity(&self.named.path, offset, bytes.len(), self.capacity))
    }

    fn sync(&self) -> Result<()> {
        #[cfg(not(target_os = "linux"))]
        self.map.flush().map_err(|e| self.named.error("flush", e))?;
        self.named.sync_data()
    }

    fn prepare(&self, offset: u64, len: u64) {
        self.map.populate(offset, len);
    }

    /// Elsewhere than on Unix, a file with a view could be neither shortened nor removed.
    #[cfg(unix)]
    fn view(&self, end: u64) -> Option<Arc<dyn super::LogView>> {
        self.map.end_writing_before(end);
        Some(self.map.clone())
    }

    fn discard_from(&self, offset: u64) {
        system::discard(&self.named.file, offset, self.capacity);
    }

    fn shorten(&mut self, len: u64) -> Result<()> {
        let short = match usize::try_from(len) {
            Ok(short) if short > 0 && len <= self.capacity => short,
            _ => return Err(past_capacity(&self.named.path, len, 0, self.capacity)),
        };
        // Replace the long map first: touching its pages after the new end would raise a signal.
        // A view of it ends before the new end.
        let map = LogMap::new(&self.named.file, short).map_err(|e| self.named.error("map", e))?;
        self.map = Arc::new(map);
        self.capacity = len;
        self.named.file.set_len(len).map_err(|e| self.named.error("shorten", e))
    }
}

/// A file lock that its owner releases by an explicit call. Closing the descriptor alone would
/// leave the lock with a program being started, which has a copy between its fork and its exec. A
/// child that continues without exec must only close its copy. So if a child cannot be detected,
/// nobody makes the call.
pub(super) struct OsLock {
    file: File,
    mark: Option<ForkMark>,
}

impl OsLock {
    /// Creates the lock of a file that this process has locked.
    pub(super) fn new(file: File) -> OsLock {
        OsLock { file, mark: ForkMark::new() }
    }
}

impl FileLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        if self.mark.as_ref().is_some_and(|mark| !mark.is_child()) {
            // If it fails, closing the descriptor next releases the lock.
            let _ = self.file.unlock();
        }
    }
}

/// Decides about a failed sync of a directory. Some file systems have no such call (CIFS, 9p,
/// shared folders of virtual machines). There, the system decides when names of files become
/// durable.
fn dir_not_synced(e: io::Error, dir: &Path, go_on: bool) -> Result<()> {
    let is_unknown = matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported);
    if is_unknown && go_on {
        return Ok(());
    }
    let what = match is_unknown {
        true => {
            "sync the directory: this file system does not make the names of files durable, so that a power cut could take whole files of \
             the store; use another file system, or accept that with DbOptions::unsynced_dirs (firn: --unsynced-dirs)"
        }
        false => "sync the directory",
    };
    Err(Error::io(what, dir, e))
}

struct OsThread(std::thread::JoinHandle<()>);

impl Thread for OsThread {
    fn join(self: Box<Self>) {
        // The thread itself has reported a panic; there is nothing to return.
        let _ = self.0.join();
    }
}

/// Niceness of low-priority threads: about a tenth of the CPU share of others.
#[cfg(target_os = "linux")]
const GIVE_WAY: i32 = 10;

/// Starts a real thread; the in-memory environment uses it too.
pub(super) fn spawn_thread(name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
    match std::thread::Builder::new().name(name.to_string()).spawn(work) {
        Ok(handle) => Ok(Box::new(OsThread(handle))),
        Err(e) => Err(Error::io("start the thread", name, e)),
    }
}

impl Env for OsEnv {
    fn with_terms(&self, terms: FileTerms) -> Option<Arc<dyn Env>> {
        Some(Arc::new(OsEnv {
            start: self.start,
            mark: self.mark.clone(),
            maps: self.maps,
            held: self.held.with_terms(terms),
        }))
    }

    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn Env>>> {
        let held =
            opened(|| self.held.with(dir)).map_err(|e| Error::io("open the directory", dir, e))?;
        Ok(Some(Arc::new(OsEnv {
            start: self.start,
            mark: self.mark.clone(),
            maps: self.maps,
            held,
        })))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.held.create_dir_all(dir).map_err(|e| Error::io("create the directory", dir, e))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = opened(|| self.held.list(dir)).map_err(|e| Error::io("list", dir, e))?;
        sort(&mut names);
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        opened(|| self.held.open_dir(dir))
            .and_then(|d| system::sync_dir(&d))
            .or_else(|e| dir_not_synced(e, dir, self.held.terms().unsynced_dirs))?;
        self.held.check(dir)
    }

    fn file_len(&self, file: &Path) -> Result<u64> {
        self.held.len(file).map_err(|e| Error::io("read the length", file, e))
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        let named = self.open(file, OpenMode::Read, "open")?;
        let len = named.len()?;
        let mappable = usize::try_from(len).ok().filter(|n| map && self.maps && *n > 0);
        Ok(Arc::new(OsRead { named, len, mappable }))
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        let named = self.open(file, OpenMode::Read, "open")?;
        let len = named.len()?;
        if len > cap {
            return Err(too_long(file, len, cap));
        }
        let mut bytes = Vec::with_capacity(len as usize);
        (&named.file)
            .take(cap.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| named.error("read", e))?;
        if bytes.len() as u64 > cap {
            return Err(too_long(file, bytes.len() as u64, cap));
        }
        Ok(bytes)
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let named = self.open(file, OpenMode::Create, "create")?;
        Ok(Box::new(OsWrite { named, len: 0, begun: 0 }))
    }

    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let named = self.open(file, OpenMode::Append, "open for appending")?;
        let len = named.len()?;
        Ok(Box::new(OsWrite { named, len, begun: len }))
    }

    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        // Unlink a file of that name instead of truncating it: it may still be mapped and must
        // retain its length.
        self.held.check(file)?;
        match self.held.remove(file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("replace", file, e));
            }
            _ => {}
        }
        let named = self.open(file, OpenMode::CreateNew, "create")?;
        match self.open_log(named, capacity, true) {
            Ok(log) => Ok(log),
            Err(e) => {
                // Release the partly reserved space: the device may be full.
                let _ = self.held.remove(file);
                Err(e)
            }
        }
    }

    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        let named = self.open(file, OpenMode::Write, "open for writing again")?;
        let len = named.len()?;
        self.open_log(named, len, false)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.held.check(from).and_then(|()| self.held.check(to))?;
        self.held
            .rename(from, to)
            .map_err(|e| Error::io(&format!("rename to {}", to.display()), from, e))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.held.check(from).and_then(|()| self.held.check(to))?;
        self.held
            .hard_link(from, to)
            .map_err(|e| Error::io(&format!("link as {}", to.display()), from, e))
    }

    fn remove(&self, file: &Path) -> Result<()> {
        self.held.check(file)?;
        self.held.remove(file).map_err(|e| Error::io("remove", file, e))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.held.check(dir)?;
        self.held.remove_dir(dir).map_err(|e| Error::io("remove the directory", dir, e))
    }

    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        let named = self.open(file, OpenMode::Lock, "open the lock")?;
        loop {
            match named.file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => return Err(already_locked(file)),
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) => return Err(named.error("lock", e)),
            }
        }
        if let Some(dir) = &named.dir {
            dir.set_locked(file, &named.file).map_err(|e| named.error("identify", e))?;
        }
        Ok(Box::new(OsLock::new(named.file)))
    }

    fn free_space(&self, dir: &Path) -> Option<u64> {
        system::free_space(&self.held.absolute(dir))
    }

    fn memory(&self) -> Option<u64> {
        super::memory::limit()
    }

    fn descriptors(&self) -> Option<u64> {
        system::descriptors()
    }

    fn wall_micros(&self) -> u64 {
        // A clock set before 1970 reads as 1970.
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros()
            as u64
    }

    #[inline]
    fn monotonic_nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        spawn_thread(name, work)
    }

    /// Lowers the thread's priority; on Linux, priorities are per thread.
    #[cfg(target_os = "linux")]
    fn lower_priority(&self) {
        // A sandbox may forbid it; then the thread has normal priority.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), GIVE_WAY);
    }

    #[inline]
    fn is_forked(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.is_child())
    }

    fn random(&self) -> u64 {
        // Ask the operating system each time: `fork()` children would inherit any state in the
        // process, such as the per-thread keys of `RandomState`. That and the clock are only the
        // fallback if the system provides nothing.
        getrandom::u64().unwrap_or_else(|_| RandomState::new().hash_one(SystemTime::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_directory_sync_is_detected() {
        let at = |kind: io::ErrorKind, go_on| dir_not_synced(kind.into(), Path::new("d"), go_on);
        for kind in [io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported] {
            assert!(at(kind, true).is_ok());
            let words = at(kind, false).unwrap_err().to_string();
            assert!(words.contains("--unsynced-dirs") && words.contains("power cut"), "{words}");
        }
        for go_on in [false, true] {
            let words = at(io::ErrorKind::StorageFull, go_on).unwrap_err().to_string();
            assert!(!words.contains("unsynced"), "{words}");
        }
    }
}
