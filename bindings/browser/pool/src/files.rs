//! Open files of a pool, and the count of their users.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firn_kv::fs::{FileMap, LogFile, ReadFile, WriteFile};
use firn_kv::{Error, Result};

use crate::lock;
use crate::storage::PoolStorage;

/// Numbers of files that lost their last name and handle.
#[derive(Clone, Debug, Default)]
pub(super) struct ReleasedFiles(Arc<Mutex<Vec<u32>>>);

impl ReleasedFiles {
    /// Takes all numbers.
    pub(super) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// A file that has a name or a handle. Dropping it releases its number.
#[derive(Debug)]
pub(super) struct PoolFile {
    number: u32,
    released: ReleasedFiles,
}

impl PoolFile {
    pub(super) fn new(number: u32, released: &ReleasedFiles) -> Arc<PoolFile> {
        Arc::new(PoolFile { number, released: released.clone() })
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        lock(&self.released.0).push(self.number);
    }
}

/// An open file.
pub(super) struct PoolHandle {
    file: Arc<PoolFile>,
    storage: Arc<dyn PoolStorage>,
    path: PathBuf,
    /// Length at the time of opening plus the bytes appended since; capacity of a log.
    len: u64,
}

impl PoolHandle {
    pub(super) fn new(
        file: Arc<PoolFile>,
        storage: Arc<dyn PoolStorage>,
        path: &Path,
    ) -> io::Result<PoolHandle> {
        let len = storage.len(file.number())?;
        Ok(PoolHandle { file, storage, path: path.to_path_buf(), len })
    }

    fn flush(&self) -> Result<()> {
        self.storage.flush(self.file.number()).map_err(|e| Error::io("sync", &self.path, e))
    }

    fn put(&self, what: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.storage
            .write(self.file.number(), offset, bytes)
            .map_err(|e| Error::io(what, &self.path, e).at(&self.path, offset))
    }

    fn past_capacity(&self, offset: u64, len: usize) -> Error {
        let why = format!("a write of {len} bytes does not fit into the log's {}", self.len);
        Error::invalid(why).at(&self.path, offset)
    }
}

/// Returns the error of a file that exceeds its maximum length.
pub(super) fn too_long(file: &Path, len: u64, cap: u64) -> Error {
    let why = format!("the file has {len} bytes, more than the {cap} that it can have");
    Error::corruption(why).at(file, cap)
}

impl ReadFile for PoolHandle {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let wanted = buf.len();
        let count = self
            .storage
            .read(self.file.number(), offset, buf)
            .map_err(|e| Error::io("read", &self.path, e).at(&self.path, offset))?;
        if count == wanted {
            return Ok(());
        }
        let why = format!("the file ends before the {wanted} bytes that should be there");
        Err(Error::corruption(why).at(&self.path, offset))
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        None
    }
}

impl WriteFile for PoolHandle {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.put("append", self.len, bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl LogFile for PoolHandle {
    fn capacity(&self) -> u64 {
        self.len
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Err(self.past_capacity(offset, bytes.len()));
        }
        self.put("write", offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.flush()
    }

    fn prepare(&self, _offset: u64, _len: u64) {}

    fn shorten(&mut self, len: u64) -> Result<()> {
        if len == 0 || len > self.len {
            return Err(self.past_capacity(len, 0));
        }
        self.storage
            .set_len(self.file.number(), len)
            .map_err(|e| Error::io("shorten", &self.path, e))?;
        self.len = len;
        Ok(())
    }
}
