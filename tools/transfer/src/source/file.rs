//! Files that readers of other stores read at positions.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use firn_tools::output::{Done, Failure};

use super::rows::damaged;

/// A file with positioned reads.
pub struct SourceFile {
    path: PathBuf,
    file: std::fs::File,
    len: u64,
}

impl SourceFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open(path: &Path) -> Done<SourceFile> {
        let mut file = firn_tools::io::open(path).map_err(|e| Failure::file("open", path, &e))?;
        let len = file.seek(SeekFrom::End(0)).map_err(|e| Failure::file("read", path, &e))?;
        Ok(SourceFile { path: path.to_path_buf(), file, len })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads bytes at an offset.
    ///
    /// # Errors
    /// The file ends before; it is unreadable.
    pub fn read_at(&mut self, offset: u64, bytes: usize) -> Done<Vec<u8>> {
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.len);
        if end.is_none() {
            let why = format!("byte {offset}: {bytes} bytes are beyond the end of {}", self.len);
            return Err(damaged(&self.path, why));
        }
        let mut out = vec![0; bytes];
        let mut read = || {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.read_exact(&mut out)
        };
        read().map_err(|e| Failure::file("read", &self.path, &e))?;
        Ok(out)
    }
}
