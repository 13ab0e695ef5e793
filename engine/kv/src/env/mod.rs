//! The environment: the engine's only access to files, clocks, threads and randomness.
//!
//! Invariants:
//! - Nothing else in the crate uses `std::fs`, a clock, a thread spawn or a source of randomness.
//!   `clippy.toml` enforces it.
//! - Every error names its file.
//! - Each call documents which of its effects survive a crash. [`mem`] implements exactly these
//!   guarantees and no more, so its crash images show states that a real disk may show.
//!
//! `closable` is a table file that is reopened on demand, which limits the number of open files.
//!
//! There are three implementations:
//! - [`os`]: the operating system.
//! - [`mem`]: in memory; records every operation and makes crash images.
//! - [`fault`]: wraps another environment and makes its nth operation fail.
//!
//! `map` and `write_back` contain the only `unsafe` code of this module.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, Result};

pub(crate) mod closable;
mod map;
pub mod mem;
mod memory;
pub mod os;
mod place;
mod system;
#[cfg(test)]
mod tests;
mod write_back;

/// A file that any thread can read at any offset.
pub trait ReadFile: Send + Sync {
    /// Returns the file's length in bytes at the time of opening.
    fn len(&self) -> u64;
    /// Fills `buf` from `offset`. Returns a corruption error if the file ends earlier.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
    /// Returns a memory map of the whole file. Returns `None` unless the file was opened for
    /// mapping and the environment supports maps. The map stays valid after the file is closed or
    /// removed.
    fn map(&self) -> Option<Arc<dyn FileMap>>;
    /// Advises the system that reads come at random offsets, so that it reads nothing ahead. Maps
    /// always behave this way. Best effort; it does not restrict later reads.
    fn at_random(&self) {}
    /// Advises the system to start reading these bytes, without waiting for them. Best effort, for
    /// any range. The later read reports errors.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Reports whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of a whole, finished file. They do not change while this value lives.
pub trait FileMap: Send + Sync {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];
    /// Advises the system to read these bytes, like [`ReadFile::will_need`].
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// A copy of a file in memory.
impl FileMap for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A new file that grows at its end. Appended bytes survive a process crash once `append` returns,
/// because the operating system has them. They survive a power cut once `sync` returns; the file's
/// name does once [`Env::sync_dir`] returns.
pub trait WriteFile: Send {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes content and length durable. After an error the file is lost: never retry.
    fn sync(&mut self) -> Result<()>;
    /// Returns the number of bytes appended so far.
    fn len(&self) -> u64;
    /// Reports whether nothing has been appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file of fixed size whose blocks are reserved before use. It is written through a shared map if
/// the environment has one. A recycled file contains stale bytes. Many threads may write at once;
/// callers keep their ranges disjoint.
pub trait LogFile: Send + Sync {
    /// Returns the file's fixed length in bytes.
    fn capacity(&self) -> u64;
    /// Writes `bytes` at `offset`. They survive a process crash when the call returns. `offset +
    /// bytes.len()` must be within the capacity.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes everything written so far survive a power cut. After an error: never retry.
    fn sync(&self) -> Result<()>;
    /// Touches the pages of `len` bytes from `offset`, so that later writes do not fault. Changes
    /// no byte, because other threads may write there at the same time. Best effort.
    fn prepare(&self, offset: u64, len: u64);
    /// Declares the bytes from `offset` on unneeded: nobody reads or writes them again. Dirty pages
    /// there need not be written to the device. The bytes are undefined afterwards. Best effort.
    fn discard_from(&self, offset: u64) {
        let _ = offset;
    }
    /// Returns a view of the bytes before `end`, if this process has them in memory. They must have
    /// been written. While the view lives, nobody writes to them, through this or any other handle;
    /// [`write_at`](LogFile::write_at) refuses it. The default, `None`: the caller keeps a copy.
    fn view(&self, end: u64) -> Option<Arc<dyn LogView>> {
        let _ = end;
        None
    }
    /// Truncates the file to `len` bytes, at least 1 and at most the capacity. `len` becomes the
    /// new capacity, and the rest returns to the file system. Needs exclusive access, so no other
    /// thread writes meanwhile. The remaining bytes stay as durable as before; the new length is
    /// durable after the next sync.
    fn shorten(&mut self, len: u64) -> Result<()>;
}

/// Bytes of a log file that do not change. It outlives the handle and the name of the file.
pub trait LogView: Send + Sync {
    /// Returns `len` bytes at `offset`. Returns `None` if they are not before the end of the view.
    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]>;
}

/// A part of a log file's memory, such as the payload of a record.
#[derive(Clone)]
pub struct LogSlice {
    view: Arc<dyn LogView>,
    offset: u64,
    len: usize,
}

debug_by!(LogSlice, "LogSlice", offset, len);

impl LogSlice {
    /// Returns `len` bytes at `offset` of the file, if they are before the end of the view.
    pub fn new(view: Arc<dyn LogView>, offset: u64, len: usize) -> Option<LogSlice> {
        view.bytes(offset, len)?;
        Some(LogSlice { view, offset, len })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        self.view.bytes(self.offset, self.len).unwrap_or_default()
    }

    /// Returns what keeps the bytes in memory.
    pub fn view(&self) -> &Arc<dyn LogView> {
        &self.view
    }
}

/// An exclusive lock on a file, held until dropped.
pub trait FileLock: Send + Sync {}

/// A thread started by [`Env::spawn`].
pub trait Thread: Send {
    /// Waits until the thread ends.
    fn join(self: Box<Self>);
}

/// Policy for creating files and making them durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileTerms {
    /// Permission bits of new files, restricted by the process's umask. Directories are
    /// additionally enterable by everyone with read or write access to files.
    pub file_mode: u32,
    /// Whether to continue when the file system cannot sync a directory.
    pub unsynced_dirs: bool,
}

impl Default for FileTerms {
    /// Files are accessible to their owner only, and directories are synced.
    fn default() -> FileTerms {
        FileTerms { file_mode: 0o600, unsynced_dirs: false }
    }
}

/// The interface to the operating system or to a replacement of it.
///
/// Implementations should not panic. A caller of one that panics either panics too or returns an
/// error ([`Panicked`](crate::ErrorKind::Panicked)); no thread waits forever.
pub trait Env: Send + Sync + 'static {
    /// Returns this environment with `dir` held open. It resolves names in `dir` through the open
    /// directory, regardless of changes to the working directory or the path. After
    /// [`lock`](Env::lock) has locked a file in `dir`, changes and syncs there fail when that file
    /// is no longer at its path. The default, `None`, means that directories cannot be moved or the
    /// environment cannot detect it; names then are plain paths.
    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn Env>>> {
        let _ = dir;
        Ok(None)
    }
    /// Returns this environment with this policy. The default, `None`, means that the policy would
    /// change nothing.
    fn with_terms(&self, terms: FileTerms) -> Option<Arc<dyn Env>> {
        let _ = terms;
        None
    }
    /// Creates a directory and its parents.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Returns the names of a directory's entries, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Makes the directory's entries (creations, renames, links, removals) survive a power cut.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Returns the length of a file; `NotFound` if it does not exist.
    fn file_len(&self, file: &Path) -> Result<u64>;
    /// Opens a file for reading. With `map`, it can be mapped if the environment supports that.
    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>>;
    /// Reads a whole file. Rejects a file longer than `cap` as corrupt before it allocates.
    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>>;
    /// Creates a file, or truncates an existing one.
    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>>;
    /// Opens a file for appending; creates it if it does not exist.
    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>>;
    /// Creates a log file of `capacity` bytes and reserves all of them. A full disk therefore fails
    /// here and not later.
    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>>;
    /// Opens an existing log file for overwriting. It keeps its present length and its stale bytes.
    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>>;
    /// Opens a log file to write its present content again in place, because a failed sync may not
    /// have made it durable. Differs from [`reuse_log`](Env::reuse_log) if the stored bytes are not
    /// the written ones, for example under encryption.
    fn rewrite_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        self.reuse_log(file)
    }
    /// Renames a file and replaces any file of the new name. Atomic; durable after
    /// [`sync_dir`](Env::sync_dir).
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Creates a second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Readers that have it open can still read it.
    fn remove(&self, file: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    /// Takes an exclusive lock on a file and creates it if needed; `Locked` if another owner has
    /// it.
    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>>;
    /// Returns the bytes available to this process on the device of `dir`; `None` if unknown.
    fn free_space(&self, dir: &Path) -> Option<u64>;
    /// Returns the bytes of memory that this process and its cached files may use. That is the
    /// machine's memory, or less if a control group limits the process. `None` if unknown.
    fn memory(&self) -> Option<u64> {
        None
    }
    /// Returns how many files this process may have open at once; `None` if unlimited or unknown.
    fn descriptors(&self) -> Option<u64> {
        None
    }

    /// Returns the wall clock in microseconds since 1970.
    fn wall_micros(&self) -> u64;
    /// Returns a monotonic clock in nanoseconds since an arbitrary fixed point.
    fn monotonic_nanos(&self) -> u64;
    /// Sleeps at least this long.
    fn sleep(&self, time: Duration);
    /// Starts a thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>>;
    /// Lowers the calling thread's priority permanently. Best effort.
    fn lower_priority(&self) {}
    /// Reports whether this process is a `fork()` child of the one that created the environment. A
    /// child has the memory and the open files but no threads. Its writes to the log's map would
    /// destroy the parent's. Cheap. Always `false` if the system cannot detect it (before Linux
    /// 4.14, and elsewhere).
    fn is_forked(&self) -> bool {
        false
    }
    /// Returns a random number from the operating system, or from a test's seed. Two processes
    /// never share a sequence, not even a parent and its `fork()` children. Such numbers identify
    /// stores, writers and tables.
    fn random(&self) -> u64;
}

/// Starts a thread and turns a panic of the environment into an error, so that the caller learns
/// that the thread does not run.
pub(crate) fn start_thread(
    env: &dyn Env,
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<Box<dyn Thread>> {
    Error::catch("the start of a thread", || env.spawn(name, Box::new(work)))
}
