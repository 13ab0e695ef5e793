//! Floor 1: the single door to the world: files, clock, threads, randomness.
//!
//! Invariants:
//! - Nothing else in the crate touches `std::fs`, a clock, a thread spawn or a source of randomness
//!   (`clippy.toml` holds it).
//! - Every error names its file.
//! - What a call promises to have survived a crash is written on the call; [`mem`] implements
//!   exactly that and no more, so that its crash images are what a disk may show.
//!
//! `closable` is a file that is opened when it is read, so that few are open at once.
//!
//! Three implementations: [`os`] (the real thing), [`mem`] (in memory, records every operation,
//! makes crash images), [`fault`] (wraps another one and makes its nth operation fail). `map` and
//! `write_back` hold the floor's only `unsafe` code.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, Result};

pub(crate) mod closable;
pub mod fault;
mod map;
pub mod mem;
mod memory;
pub mod os;
mod place;
mod system;
#[cfg(test)]
mod tests;
mod write_back;

/// A file that is read at any place by any thread.
pub trait ReadFile: Send + Sync {
    /// Length in bytes at the time of opening.
    fn len(&self) -> u64;
    /// Fills `buf` from `offset`. A file that ends before is a corruption error.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
    /// The whole file as a map, when it was opened for mapping and the environment has maps. It
    /// needs the file no more: the file may be closed and removed.
    fn map(&self) -> Option<Arc<dyn FileMap>>;
    /// Reads will come at places that no earlier read foretells: the system is to read what it is
    /// asked for and nothing beside it, which is how maps are anyway. Best effort; says nothing of
    /// what may be read.
    fn at_random(&self) {}
    /// These bytes will be read soon: the system is to begin with it, and the call does not wait
    /// for it. Best effort, for any range; errors are met by the read itself.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of a whole file, which was finished before; they stay as they are as long as this
/// lives.
pub trait FileMap: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// As [`ReadFile::will_need`].
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// A copy of a file.
impl FileMap for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A new file that grows at its end. What was appended is the operating system's when `append`
/// returns (it survives a process crash); it survives a power cut once `sync` has returned, and the
/// file's name does once [`Env::sync_dir`] has.
pub trait WriteFile: Send {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes content and length durable. After an error the file must be considered lost: never
    /// retry.
    fn sync(&mut self) -> Result<()>;
    /// Bytes appended so far.
    fn len(&self) -> u64;
    /// Whether nothing has been appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file of fixed size whose blocks are reserved before use, written through a shared map where
/// the environment has one. A recycled file holds stale bytes. Callers keep their writes disjoint;
/// they may come from many threads.
pub trait LogFile: Send + Sync {
    /// The file's fixed length in bytes.
    fn capacity(&self) -> u64;
    /// Puts `bytes` at `offset`. They survive a process crash when the call returns.
    /// `offset + bytes.len()` must lie within the capacity.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes everything written so far survive a power cut. After an error: never retry.
    fn sync(&self) -> Result<()>;
    /// Touches the pages from `offset` on for `len` bytes, so that later writes to them do not
    /// fault. Changes no byte, for others may write there at the same time. Best effort.
    fn prepare(&self, offset: u64, len: u64);
    /// Says that nothing from `offset` on is wanted, or will be written: what of it is in memory
    /// only need not get to the device. The bytes there are any from now on. Best effort.
    fn discard_from(&self, offset: u64) {
        let _ = offset;
    }
    /// Cuts the file off at `len` bytes, more than none and at most its capacity, which is `len`
    /// from now on: what lies behind is given back to the device. Takes the file for itself, so
    /// nobody writes there meanwhile. What is left is as durable as before; the new length is when
    /// the file has been synced.
    fn shorten(&mut self, len: u64) -> Result<()>;
}

/// Holds an exclusive lock until dropped.
pub trait FileLock: Send + Sync {}

/// A thread started by [`Env::spawn`].
pub trait Thread: Send {
    /// Waits for it to end.
    fn join(self: Box<Self>);
}

/// Terms on which an environment creates files and makes them durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTerms {
    /// Permission bits of new files, as far as the process's umask lets them be. Directories may
    /// also be entered by those who may read or write files.
    pub file_mode: u32,
    /// Go on where the file system cannot sync a directory.
    pub unsynced_dirs: bool,
}

impl Default for FileTerms {
    /// Files are their owner's alone, and directories are synced.
    fn default() -> FileTerms {
        FileTerms { file_mode: 0o600, unsynced_dirs: false }
    }
}

/// The door to the world.
///
/// It should not panic. Who calls one that does panics too, or gets an error
/// ([`Panicked`](crate::ErrorKind::Panicked)), and nobody waits for ever.
pub trait Env: Send + Sync + 'static {
    /// This environment, with `dir` held open: names below it are found through the open directory
    /// from now on, whatever becomes of the working directory and of the path. Once
    /// [`lock`](Env::lock) has locked a file in it, changes and syncs below it fail when that file
    /// is no longer at its path. `None`, the default, where directories cannot be moved, or the
    /// environment cannot tell: names are paths then.
    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn Env>>> {
        let _ = dir;
        Ok(None)
    }
    /// This environment under these terms. `None`, the default, where there is nothing that they
    /// would change.
    fn with_terms(&self, terms: FileTerms) -> Option<Arc<dyn Env>> {
        let _ = terms;
        None
    }
    /// Creates a directory and its parents.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Names of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Makes the directory's entries (creations, renames, links, removals) survive a power cut.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Length of a file; `NotFound` when it is not there.
    fn file_len(&self, file: &Path) -> Result<u64>;
    /// Opens a file for reading; with `map`, it can be mapped where that is possible.
    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>>;
    /// The whole content; files longer than `cap` are refused as corrupt, before anything is
    /// allocated.
    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>>;
    /// Creates a file, or empties one that is there.
    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>>;
    /// Opens a file for appending, creating it when it is not there.
    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>>;
    /// Creates a log file of `capacity` bytes, all reserved: a full disk is an error here, not
    /// later.
    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>>;
    /// Opens an existing log file for writing again, at its present length, keeping its stale
    /// bytes.
    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>>;
    /// The same to write again what is in it, each byte at its place: a sync may have failed to
    /// make it durable. It differs where the bytes of the file are not those that were written, as
    /// where they are encrypted.
    fn rewrite_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        self.reuse_log(file)
    }
    /// Renames a file, replacing what has the new name. Atomic; durable after
    /// [`sync_dir`](Env::sync_dir).
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives a file a second name.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Readers that have it open keep it.
    fn remove(&self, file: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    /// Takes an exclusive lock on a file, creating it; `Locked` when another holds it.
    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>>;
    /// Bytes free to this process on the device of `dir`; `None` where unknown.
    fn free_space(&self, dir: &Path) -> Option<u64>;
    /// Bytes of memory that this process and its files in the page cache may take: the machine's,
    /// or less where a limit is set on the process's group. `None` where unknown.
    fn memory(&self) -> Option<u64> {
        None
    }
    /// How many files this process may have open at once; `None` where there is no bound, or it is
    /// unknown.
    fn descriptors(&self) -> Option<u64> {
        None
    }

    /// Wall clock in microseconds since 1970.
    fn wall_micros(&self) -> u64;
    /// A clock that never goes back, in nanoseconds since some fixed point.
    fn monotonic_nanos(&self) -> u64;
    /// Sleeps at least this long.
    fn sleep(&self, time: Duration);
    /// Starts a thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>>;
    /// Lets the calling thread give way to others that want the processor. Best effort, and for
    /// good.
    fn give_way(&self) {}
    /// Whether this process is a child, made by `fork()`, of the one that made the environment: it
    /// has the memory and the open files, but none of the threads, and what it writes to the log's
    /// map would destroy what the parent writes there. Cheap. Never where the system cannot tell
    /// (before Linux 4.14, and elsewhere).
    fn is_forked(&self) -> bool {
        false
    }
    /// A random number from the operating system (or the seed of a test). No two processes may draw
    /// from one sequence, also not a process and its children that `fork()` made: stores, writers
    /// and tables are told apart by such numbers.
    fn random(&self) -> u64;
}

/// Starts a thread of an environment. A panic there is an error: who counts on the thread must hear
/// that it does not come.
pub(crate) fn start_thread(
    env: &dyn Env,
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<Box<dyn Thread>> {
    Error::catch("the start of a thread", || env.spawn(name, Box::new(work)))
}
