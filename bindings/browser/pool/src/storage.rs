//! Files without names that a pool consists of: numbered, open all the time.

use std::io;
use std::sync::Mutex;

use crate::lock;

/// Numbered files that are open for reading and writing.
pub trait PoolStorage: Send + Sync + 'static {
    /// Returns the number of files.
    fn count(&self) -> u32;
    /// Adds an empty file and returns its number.
    ///
    /// # Errors
    /// `Unsupported` if files can only be added between two calls of JavaScript.
    fn add(&self) -> io::Result<u32>;
    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    /// Errors of the storage.
    fn len(&self, file: u32) -> io::Result<u64>;
    /// Reads bytes at an offset. Returns fewer than `buf` has at the end of the file.
    ///
    /// # Errors
    /// Errors of the storage.
    fn read(&self, file: u32, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes at an offset; grows the file if needed.
    ///
    /// # Errors
    /// Errors of the storage; `StorageFull` if the quota is reached.
    fn write(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Sets the length of a file. New bytes are zero.
    ///
    /// # Errors
    /// Errors of the storage; `StorageFull` if the quota is reached.
    fn set_len(&self, file: u32, len: u64) -> io::Result<()>;
    /// Makes content and length of a file durable.
    ///
    /// # Errors
    /// Errors of the storage.
    fn flush(&self, file: u32) -> io::Result<()>;
    /// Returns the bytes of memory that a page cache may use beside the files; `None` if unknown.
    fn page_cache_bytes(&self) -> Option<u64>;
}

/// Files in memory.
#[derive(Debug, Default)]
pub struct MemoryFiles(Mutex<Vec<Vec<u8>>>);

impl MemoryFiles {
    fn with<T>(&self, file: u32, work: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut files = lock(&self.0);
        let bytes = files.get_mut(file as usize).ok_or(io::ErrorKind::NotFound)?;
        Ok(work(bytes))
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl PoolStorage for MemoryFiles {
    fn count(&self) -> u32 {
        lock(&self.0).len() as u32
    }

    fn add(&self) -> io::Result<u32> {
        let mut files = lock(&self.0);
        files.push(vec![]);
        Ok(files.len() as u32 - 1)
    }

    fn len(&self, file: u32) -> io::Result<u64> {
        self.with(file, |bytes| bytes.len() as u64)
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.with(file, |bytes| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let count = buf.len().min(bytes.len() - from);
            buf[..count].copy_from_slice(&bytes[from..from + count]);
            count
        })
    }

    fn write(&self, file: u32, offset: u64, new: &[u8]) -> io::Result<()> {
        let from = position(offset)?;
        let end = from.checked_add(new.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.with(file, |bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[from..end].copy_from_slice(new);
        })
    }

    fn set_len(&self, file: u32, len: u64) -> io::Result<()> {
        let len = position(len)?;
        self.with(file, |bytes| {
            bytes.resize(len, 0);
            bytes.shrink_to_fit();
        })
    }

    fn flush(&self, _file: u32) -> io::Result<()> {
        Ok(())
    }

    fn page_cache_bytes(&self) -> Option<u64> {
        Some(0)
    }
}
