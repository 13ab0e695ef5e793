//! An environment over a pool of open files without names. A browser opens files of its origin
//! private file system (OPFS) only asynchronously, and the engine needs them at once. So the pool
//! opens files in advance, and a journal maps names to them.
//!
//! Invariants:
//! - A file is free when it has no name and no handle. It is emptied after the removal of its name is
//!   durable, and gets another name after that is durable. So a power cut never shows a name with
//!   another file's content.
//! - A change of names is in the journal before it has an effect here.
//! - `names` is locked before `released`.
//!
//! Durability: written bytes are the browser's when a call returns, so they survive the end of the
//! worker and of the page. After a sync they survive a power cut, as far as the browser's `flush`
//! reaches the device.

mod clock;
mod files;
mod journal;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_kv::fs::{FileLock, LogFile, ReadFile, Thread, WriteFile};
use firn_kv::{Env, Error, ErrorKind, Result};

use self::files::{PoolFile, PoolHandle, ReleasedFiles, too_long};
use self::journal::{JOURNALS, NameJournal, NameTarget, NameTargets};
pub use self::storage::{MemoryFiles, PoolStorage};

/// Number of free files that a pool has beside as many as are in use: a compaction of everything
/// finds files for its output.
const SPARE_FILES: u32 = 32;

/// Locks a mutex, also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of files as an environment.
pub struct PoolEnv {
    storage: Arc<dyn PoolStorage>,
    names: Mutex<PoolNames>,
    locks: LockedNames,
}

/// Names of locked files.
type LockedNames = Arc<Mutex<BTreeSet<String>>>;

struct PoolNames {
    journal: NameJournal,
    entries: BTreeMap<String, NameEntry>,
    /// Files without content and names.
    free: Vec<u32>,
    /// Number of files that have a name or a handle, are free or were released.
    known: u32,
    /// Files that lost their last name and handle.
    released: ReleasedFiles,
}

#[derive(Clone)]
enum NameEntry {
    Directory,
    File(Arc<PoolFile>),
}

impl NameEntry {
    fn target(&self) -> NameTarget {
        match self {
            NameEntry::Directory => NameTarget::Directory,
            NameEntry::File(file) => NameTarget::File(file.number()),
        }
    }
}

fn refused(what: &str, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(what, path, io::Error::from(kind))
}

/// Removes the content of a file durably, so that a later name never shows it.
fn empty(storage: &dyn PoolStorage, number: u32) -> io::Result<()> {
    storage.set_len(number, 0)?;
    storage.flush(number)
}

/// Returns the path without leading slash, its components separated by one slash.
fn normal(what: &str, path: &Path) -> Result<String> {
    let mut parts = vec![];
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(refused(what, path, io::ErrorKind::InvalidInput));
            }
        }
    }
    Ok(parts.join("/"))
}

impl PoolEnv {
    /// Number of files that a storage needs before it is opened, unless it can add some.
    pub const MIN_FILES: u32 = JOURNALS;

    /// Opens a pool in this storage, or creates an empty one.
    ///
    /// # Errors
    /// `Corruption` if the names of the files are damaged, and errors of the storage.
    pub fn open(storage: Arc<dyn PoolStorage>) -> Result<PoolEnv> {
        let path = Path::new("the pool of files");
        let opened = |e: io::Error| match e.kind() {
            io::ErrorKind::InvalidData => Error::corruption(e.to_string()).in_file(path),
            _ => Error::io("open", path, e),
        };
        while storage.count() < JOURNALS {
            storage.add().map_err(opened)?;
        }
        let (journal, targets) = NameJournal::open(&*storage).map_err(opened)?;
        let released = ReleasedFiles::default();
        let mut by_number: BTreeMap<u32, Arc<PoolFile>> = BTreeMap::new();
        let mut entries = BTreeMap::new();
        for (name, target) in targets {
            let entry = match target {
                NameTarget::Absent => continue,
                NameTarget::Directory => NameEntry::Directory,
                NameTarget::File(number) if (JOURNALS..storage.count()).contains(&number) => {
                    let file =
                        by_number.entry(number).or_insert_with(|| PoolFile::new(number, &released));
                    NameEntry::File(file.clone())
                }
                NameTarget::File(number) => {
                    let why = format!(
                        "file {number} of the pool is missing: restore a copy of the store"
                    );
                    return Err(Error::corruption(why).in_file(name));
                }
            };
            entries.insert(name, entry);
        }
        let mut free = vec![];
        for number in (JOURNALS..storage.count()).rev().filter(|n| !by_number.contains_key(n)) {
            if storage.len(number).map_err(opened)? > 0 {
                empty(&*storage, number).map_err(opened)?;
            }
            free.push(number);
        }
        let known = storage.count();
        let names = Mutex::new(PoolNames { journal, entries, free, known, released });
        Ok(PoolEnv { storage, names, locks: LockedNames::default() })
    }

    /// Returns the number of files that the storage should have before the next call.
    pub fn wanted_files(&self) -> u32 {
        let free = lock(&self.names).free.len() as u32;
        let used = self.storage.count().saturating_sub(free);
        used.saturating_mul(2).saturating_add(SPARE_FILES)
    }

    /// Makes files available that the storage has got since the last call.
    pub fn add_free(&self) {
        let mut names = lock(&self.names);
        let (from, count) = (names.known, self.storage.count());
        names.free.splice(0..0, (from..count).rev());
        names.known = count;
    }

    fn handle(&self, file: Arc<PoolFile>, path: &Path, what: &str) -> Result<PoolHandle> {
        PoolHandle::new(file, self.storage.clone(), path).map_err(|e| Error::io(what, path, e))
    }

    /// Changes names, in the journal and then here.
    fn change(
        &self,
        names: &mut PoolNames,
        changes: &[(&str, Option<NameEntry>)],
    ) -> io::Result<()> {
        let target = |entry: &Option<NameEntry>| {
            entry.as_ref().map_or(NameTarget::Absent, NameEntry::target)
        };
        let recorded: Vec<_> = changes.iter().map(|(name, to)| (*name, target(to))).collect();
        names.journal.append(&*self.storage, &recorded)?;
        for (name, to) in changes {
            match to {
                Some(entry) => names.entries.insert((*name).to_owned(), entry.clone()),
                None => names.entries.remove(*name),
            };
        }
        if names.journal.is_long() {
            let all: NameTargets =
                names.entries.iter().map(|(name, entry)| (name.clone(), entry.target())).collect();
            names.journal.rewrite(&*self.storage, &all)?;
        }
        Ok(())
    }

    /// Makes changes of names durable. Files that no name and no handle needs become free.
    fn sync_names(&self, names: &mut PoolNames) -> io::Result<()> {
        let released = names.released.take();
        names.journal.sync(&*self.storage)?;
        for number in released {
            empty(&*self.storage, number)?;
            names.free.push(number);
        }
        Ok(())
    }

    /// Takes a free file.
    fn take_free(&self, names: &mut PoolNames) -> io::Result<Arc<PoolFile>> {
        if names.free.is_empty() {
            self.sync_names(names)?;
        }
        let number = match names.free.pop() {
            Some(number) => number,
            None => {
                names.known = self.storage.add()? + 1;
                names.known - 1
            }
        };
        Ok(PoolFile::new(number, &names.released))
    }

    /// Returns a file; creates it if it does not exist.
    fn file_or_new(&self, what: &str, path: &Path) -> Result<Arc<PoolFile>> {
        let mut names = lock(&self.names);
        let (name, file) = names.target(what, path)?;
        if let Some(file) = file {
            return Ok(file);
        }
        let wrong = |e| Error::io(what, path, e);
        let file = self.take_free(&mut names).map_err(wrong)?;
        self.change(&mut names, &[(&name, Some(NameEntry::File(file.clone())))]).map_err(wrong)?;
        Ok(file)
    }
}

impl PoolNames {
    fn check_dir(&self, what: &str, path: &Path, dir: &str) -> Result<()> {
        match self.entries.get(dir) {
            Some(NameEntry::File(_)) => Err(refused(what, path, io::ErrorKind::NotADirectory)),
            None if !dir.is_empty() => Err(refused(what, path, io::ErrorKind::NotFound)),
            _ => Ok(()),
        }
    }

    /// Returns the paths below a directory, relative to it.
    fn below(&self, dir: &str) -> impl Iterator<Item = &str> {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let from = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.entries.range(from).map_while(move |(path, _)| path.strip_prefix(&prefix))
    }

    /// Returns the normal path of a file, which may be new, and the present file.
    fn target(&self, what: &str, path: &Path) -> Result<(String, Option<Arc<PoolFile>>)> {
        let name = normal(what, path)?;
        self.check_dir(what, path, name.rsplit_once('/').map_or("", |(dir, _)| dir))?;
        let file = match self.entries.get(&name) {
            Some(NameEntry::File(file)) => Some(file.clone()),
            None if !name.is_empty() => None,
            _ => return Err(refused(what, path, io::ErrorKind::IsADirectory)),
        };
        Ok((name, file))
    }

    /// Returns an existing file and its normal path.
    fn file(&self, what: &str, path: &Path) -> Result<(String, Arc<PoolFile>)> {
        match self.target(what, path)? {
            (name, Some(file)) => Ok((name, file)),
            _ => Err(refused(what, path, io::ErrorKind::NotFound)),
        }
    }
}

/// A lock that ends when it is dropped.
struct PoolLock {
    name: String,
    locks: LockedNames,
}

impl FileLock for PoolLock {}

impl Drop for PoolLock {
    fn drop(&mut self) {
        lock(&self.locks).remove(&self.name);
    }
}

/// A thread, where the system has them.
struct NativeThread(std::thread::JoinHandle<()>);

impl Thread for NativeThread {
    fn join(self: Box<Self>) {
        // A panic of the thread has been reported by its own message.
        let _ = self.0.join();
    }
}

impl Env for PoolEnv {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let what = "create the directory";
        let path = normal(what, dir)?;
        let mut names = lock(&self.names);
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for part in ends.map(|end| &path[..end]).filter(|part| !part.is_empty()) {
            match names.entries.get(part) {
                Some(NameEntry::Directory) => {}
                Some(NameEntry::File(_)) => {
                    return Err(refused(what, dir, io::ErrorKind::NotADirectory));
                }
                None => self
                    .change(&mut names, &[(part, Some(NameEntry::Directory))])
                    .map_err(|e| Error::io(what, dir, e))?,
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let path = normal("list", dir)?;
        let names = lock(&self.names);
        names.check_dir("list", dir, &path)?;
        Ok(names.below(&path).filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let what = "sync the directory";
        let mut names = lock(&self.names);
        names.check_dir(what, dir, &normal(what, dir)?)?;
        self.sync_names(&mut names).map_err(|e| Error::io(what, dir, e))
    }

    fn file_len(&self, file: &Path) -> Result<u64> {
        let what = "read the length";
        let (_, opened) = lock(&self.names).file(what, file)?;
        self.storage.len(opened.number()).map_err(|e| Error::io(what, file, e))
    }

    fn open_read(&self, file: &Path, _map: bool) -> Result<Arc<dyn ReadFile>> {
        let (_, opened) = lock(&self.names).file("open", file)?;
        Ok(Arc::new(self.handle(opened, file, "open")?))
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        let (_, opened) = lock(&self.names).file("open", file)?;
        let handle = self.handle(opened, file, "open")?;
        let len = ReadFile::len(&handle);
        if len > cap {
            return Err(too_long(file, len, cap));
        }
        let mut bytes = vec![0; len as usize];
        handle.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let what = "create";
        let created = self.file_or_new(what, file)?;
        self.storage.set_len(created.number(), 0).map_err(|e| Error::io(what, file, e))?;
        Ok(Box::new(self.handle(created, file, what)?))
    }

    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let what = "open for appending";
        let opened = self.file_or_new(what, file)?;
        Ok(Box::new(self.handle(opened, file, what)?))
    }

    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        if capacity == 0 {
            return Err(Error::invalid("a log file cannot have 0 bytes").in_file(file));
        }
        let what = "create";
        let created = self.file_or_new(what, file)?;
        // A shorter length first: the log begins with zeros, whatever the file had.
        let reserved = |len| self.storage.set_len(created.number(), len);
        reserved(0).and_then(|()| reserved(capacity)).map_err(|e| Error::io(what, file, e))?;
        Ok(Box::new(self.handle(created, file, what)?))
    }

    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        let what = "open for writing again";
        let (_, log) = lock(&self.names).file(what, file)?;
        let handle = self.handle(log, file, what)?;
        if WriteFile::len(&handle) == 0 {
            return Err(Error::invalid("a log file cannot have 0 bytes").in_file(file));
        }
        Ok(Box::new(handle))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = lock(&self.names);
        let (old, file) = names.file("rename", from)?;
        let (new, replaced) = names.target("rename to", to)?;
        // Two names of one file stay two.
        if replaced.is_some_and(|replaced| Arc::ptr_eq(&replaced, &file)) {
            return Ok(());
        }
        self.change(&mut names, &[(&old, None), (&new, Some(NameEntry::File(file)))])
            .map_err(|e| Error::io("rename", from, e))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = lock(&self.names);
        let (_, file) = names.file("link", from)?;
        match names.target("link as", to)? {
            (_, Some(_)) => Err(refused("link as", to, io::ErrorKind::AlreadyExists)),
            (name, None) => self
                .change(&mut names, &[(&name, Some(NameEntry::File(file)))])
                .map_err(|e| Error::io("link as", to, e)),
        }
    }

    fn remove(&self, file: &Path) -> Result<()> {
        let mut names = lock(&self.names);
        let (name, _) = names.file("remove", file)?;
        self.change(&mut names, &[(&name, None)]).map_err(|e| Error::io("remove", file, e))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let what = "remove the directory";
        let path = normal(what, dir)?;
        let mut names = lock(&self.names);
        names.check_dir(what, dir, &path)?;
        if names.below(&path).next().is_some() {
            return Err(refused(what, dir, io::ErrorKind::DirectoryNotEmpty));
        }
        self.change(&mut names, &[(&path, None)]).map_err(|e| Error::io(what, dir, e))
    }

    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        let what = "open the lock";
        self.file_or_new(what, file)?;
        let name = normal(what, file)?;
        if !lock(&self.locks).insert(name.clone()) {
            let why = "another handle has the store open; close it first";
            return Err(Error::new(ErrorKind::Locked, why).in_file(file));
        }
        Ok(Box::new(PoolLock { name, locks: self.locks.clone() }))
    }

    fn free_space(&self, _dir: &Path) -> Option<u64> {
        None
    }

    fn memory(&self) -> Option<u64> {
        self.storage.page_cache_bytes()
    }

    fn wall_micros(&self) -> u64 {
        clock::wall_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        clock::monotonic_nanos()
    }

    fn sleep(&self, time: Duration) {
        clock::sleep(time);
    }

    #[allow(clippy::disallowed_methods, reason = "the threads behind `Env`; a browser refuses")]
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        match std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            Ok(thread) => Ok(Box::new(NativeThread(thread))),
            Err(e) => Err(Error::io("start the thread", name, e)),
        }
    }

    fn random(&self) -> u64 {
        clock::random()
    }
}
