//! Directory as backup storage.
//!
//! A file is written in the directory [`UNFINISHED`], synced, and renamed; then its parent
//! directory is synced. Files that a crash leaves there are leftovers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::fs::WriteFile;
use firn_kv::internals::db::create_dir;
use firn_kv::{Env, Error, ErrorKind, Result};

use crate::names::UNFINISHED;
use crate::storage::{BackupStorage, StorageFile, StoredFile};

/// A directory of an environment.
pub struct FolderStorage {
    env: Arc<dyn Env>,
    root: PathBuf,
}

impl fmt::Debug for FolderStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderPlace").field("root", &self.root).finish_non_exhaustive()
    }
}

impl FolderStorage {
    /// Uses the directory `root`, which is created at the first write.
    pub fn new(env: Arc<dyn Env>, root: impl AsRef<Path>) -> FolderStorage {
        FolderStorage { env, root: root.as_ref().to_path_buf() }
    }

    /// Returns the names in a directory; none if it is missing.
    fn names(&self, dir: &Path) -> Result<Vec<String>> {
        match self.env.list(dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(vec![]),
            names => names,
        }
    }
}

impl BackupStorage for FolderStorage {
    fn address(&self) -> String {
        self.root.display().to_string()
    }

    fn is_empty(&self) -> Result<bool> {
        Ok(self.names(&self.root)?.iter().all(|n| n == UNFINISHED))
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>> {
        let dir = self.root.join(folder);
        let mut files = vec![];
        for name in self.names(&dir)? {
            match self.env.file_len(&dir.join(&name)) {
                Ok(size) => files.push(StoredFile { name, size }),
                // Another run has finished or removed it meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(files)
    }

    fn size(&self, name: &str) -> Result<u64> {
        self.env.file_len(&self.root.join(name))
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        let file = self.env.open_read(&self.root.join(name), false)?;
        let mut bytes = vec![0; len];
        file.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, name: &str) -> Result<Box<dyn StorageFile + '_>> {
        let path = self.root.join(name);
        let dir = path.parent().unwrap_or(&self.root).to_path_buf();
        create_dir(&*self.env, &dir)?;
        let unfinished = self.root.join(UNFINISHED);
        create_dir(&*self.env, &unfinished)?;
        let unfinished = unfinished.join(format!("{:016x}", self.env.random()));
        let file = Some(self.env.create(&unfinished)?);
        Ok(Box::new(FolderFile { env: &*self.env, file, unfinished, path, dir }))
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        let mut dirs: Vec<PathBuf> = vec![];
        for name in names {
            let path = self.root.join(name);
            match self.env.remove(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let dir = path.parent().unwrap_or(&self.root);
            if !dirs.iter().any(|d| d == dir) {
                dirs.push(dir.to_path_buf());
            }
        }
        dirs.iter().try_for_each(|d| self.env.sync_dir(d))
    }
}

/// A file being written.
struct FolderFile<'a> {
    env: &'a dyn Env,
    /// `None` once it is renamed.
    file: Option<Box<dyn WriteFile>>,
    unfinished: PathBuf,
    path: PathBuf,
    dir: PathBuf,
}

impl StorageFile for FolderFile<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let closed = || Error::invalid("the file is finished").in_file(&self.path);
        self.file.as_mut().ok_or_else(closed)?.append(bytes)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.sync()?;
        }
        self.env.rename(&self.unfinished, &self.path)?;
        self.file = None;
        self.env.sync_dir(&self.dir)
    }
}

impl Drop for FolderFile<'_> {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // If this fails, a prune removes the file.
            let _ = self.env.remove(&self.unfinished);
        }
    }
}
