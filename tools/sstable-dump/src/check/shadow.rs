//! A writable view of a store's directory that never changes the directory. This [`Env`] holds
//! created, changed, renamed and removed files in memory, and reads all other files from the disk.
//! So the engine opens a store for writing, with all checks of such an opening, and without effect
//! on the store.
//!
//! Invariants:
//! - Nothing on the disk is written, and no lock is taken there, so a program that has the store
//!   open is not affected.
//! - A name in memory is never looked up on the disk again.
//! - A file that was opened once remains readable, as for any reader, even if its writer removes
//!   it.
//! - The memory use equals the size of the writes. For an opened store that is the part of its log
//!   that is not known to be synced.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::fs::{FileLock, LogFile, ReadFile, Thread, WriteFile};
use firn_kv::{Error, ErrorKind, Result};

use crate::store::target::env;

/// Number of bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// See the [module](self).
pub struct ShadowStore {
    disk: Arc<dyn Env>,
    dir: PathBuf,
    /// Files that have been written to, by their names below its root.
    memory: MemEnv,
    /// Names that memory decides, whether a file exists or was removed.
    taken: Mutex<BTreeSet<String>>,
    /// Files of the disk that have been opened.
    pinned: Mutex<HashMap<PathBuf, Arc<dyn ReadFile>>>,
}

fn refused(what: &str, file: &Path, kind: io::ErrorKind) -> Error {
    Error::io(what, file, io::Error::from(kind))
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ShadowStore {
    /// Creates a view of the directory `dir`.
    pub fn of(dir: &Path) -> ShadowStore {
        let disk = env();
        let memory = MemEnv::new(disk.random());
        ShadowStore {
            disk,
            dir: dir.to_path_buf(),
            memory,
            taken: Mutex::default(),
            pinned: Mutex::default(),
        }
    }

    /// Returns the name of a file of the directory.
    fn name<'a>(&self, file: &'a Path) -> Option<&'a str> {
        file.file_name().and_then(|n| n.to_str()).filter(|_| file.parent() == Some(&self.dir))
    }

    /// Returns the path of this file in memory, if memory decides its name.
    fn taken(&self, file: &Path) -> Option<PathBuf> {
        self.name(file).filter(|&n| lock(&self.taken).contains(n)).map(|n| Path::new("/").join(n))
    }

    /// Lets memory decide this name from now on; returns its path there. Returns the error of the
    /// operating system if a directory has this name.
    fn take(&self, what: &str, file: &Path) -> Result<PathBuf> {
        if let Some(there) = self.taken(file) {
            return Ok(there);
        }
        let name =
            self.name(file).ok_or_else(|| refused(what, file, io::ErrorKind::PermissionDenied))?;
        if self.disk.list(file).is_ok() {
            return Err(refused(what, file, io::ErrorKind::IsADirectory));
        }
        lock(&self.taken).insert(name.to_owned());
        Ok(Path::new("/").join(name))
    }

    /// Does the same for a file whose content is needed: copies it into memory.
    fn take_content(&self, what: &str, file: &Path) -> Result<PathBuf> {
        if let Some(there) = self.taken(file) {
            return Ok(there);
        }
        let from = match self.disk.open_read(file, false) {
            Ok(from) => from,
            Err(e) if e.kind() == ErrorKind::NotFound => return self.take(what, file),
            Err(e) => return Err(e),
        };
        let to = self.take(what, file)?;
        if from.is_empty() {
            self.memory.create(&to)?;
            return Ok(to);
        }
        let copy = self.memory.create_log(&to, from.len())?;
        let mut buffer = vec![0; CHUNK.min(from.len()) as usize];
        let mut at = 0;
        while at < from.len() {
            let n = (from.len() - at).min(CHUNK) as usize;
            from.read_at(at, &mut buffer[..n])?;
            // Reserved space takes no memory.
            if buffer[..n].iter().any(|&b| b != 0) {
                copy.write_at(at, &buffer[..n])?;
            }
            at += n as u64;
        }
        Ok(to)
    }

    fn is_there(&self, file: &Path) -> Result<()> {
        self.file_len(file).map(drop)
    }

    /// Returns `found`, or else the value of the opened file if the file has been removed since.
    fn or_pinned<T>(
        &self,
        file: &Path,
        found: Result<T>,
        pinned: impl FnOnce(&Arc<dyn ReadFile>) -> T,
    ) -> Result<T> {
        match found {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                lock(&self.pinned).get(file).map(pinned).ok_or(e)
            }
            found => found,
        }
    }
}

impl Env for ShadowStore {
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.disk.list(dir)?;
        if dir == self.dir {
            let taken = lock(&self.taken);
            names.retain(|n| !taken.contains(n));
            names.extend(self.memory.list(Path::new("/"))?);
            names.sort_unstable();
        }
        Ok(names)
    }

    fn file_len(&self, file: &Path) -> Result<u64> {
        match self.taken(file) {
            Some(there) => self.memory.file_len(&there),
            None => self.or_pinned(file, self.disk.file_len(file), |f| f.len()),
        }
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        if let Some(there) = self.taken(file) {
            return self.memory.open_read(&there, map);
        }
        let opened = self.or_pinned(file, self.disk.open_read(file, map), Arc::clone)?;
        lock(&self.pinned).insert(file.to_path_buf(), opened.clone());
        Ok(opened)
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        match self.taken(file) {
            Some(there) => self.memory.read_all(&there, cap),
            None => self.disk.read_all(file, cap),
        }
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        self.memory.create(&self.take("create", file)?)
    }

    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        self.memory.append(&self.take_content("open for appending", file)?)
    }

    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        self.memory.create_log(&self.take("replace", file)?, capacity)
    }

    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        self.memory.reuse_log(&self.take_content("open for writing again", file)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let from = self.take_content("rename", from)?;
        self.memory.rename(&from, &self.take("rename to", to)?)
    }

    fn remove(&self, file: &Path) -> Result<()> {
        self.is_there(file)?;
        if let Some(there) = self.taken(file) {
            return self.memory.remove(&there);
        }
        self.take("remove", file).map(drop)
    }

    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        self.memory.lock(&self.take("open the lock", file)?)
    }

    // Opening an existing store neither creates nor removes directories, and creates no hard links.

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.list(dir).map(drop)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Err(refused("remove the directory", dir, io::ErrorKind::PermissionDenied))
    }

    fn hard_link(&self, from: &Path, _: &Path) -> Result<()> {
        Err(refused("link", from, io::ErrorKind::PermissionDenied))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.list(dir).map(drop)
    }

    delegate! { disk:
        fn free_space(dir: &Path) -> Option<u64>;
        fn memory() -> Option<u64>;
        fn descriptors() -> Option<u64>;
        fn wall_micros() -> u64;
        fn monotonic_nanos() -> u64;
        fn sleep(time: Duration) -> ();
        fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>>;
        fn random() -> u64;
    }
}
