//! Backup storage: named files, written once and read in parts.
//!
//! Names are relative, with `/` between their parts. A file appears whole or not at all. The
//! effects of [`StorageFile::finish`] and [`BackupStorage::remove`] are durable when they return.

use firn_kv::Result;

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name, without the listed directory.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
}

/// A directory, a prefix of a bucket, or any other storage of files.
pub trait BackupStorage: Send + Sync {
    /// Returns the path or address for messages.
    fn address(&self) -> String;
    /// Reports whether nothing is stored.
    ///
    /// # Errors
    /// Errors of the storage.
    fn is_empty(&self) -> Result<bool>;
    /// Returns the files of a directory, sorted by name; none if it is missing.
    ///
    /// # Errors
    /// Errors of the storage.
    fn list(&self, folder: &str) -> Result<Vec<StoredFile>>;
    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    /// `NotFound` if it is missing; errors of the storage.
    fn size(&self, name: &str) -> Result<u64>;
    /// Reads `len` bytes of a file from `offset` on. Callers use small values of `len`.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `Corruption` if it is too short; errors of the storage.
    fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>>;
    /// Begins a file, which replaces one of the same name when it is finished.
    ///
    /// # Errors
    /// Errors of the storage.
    fn create(&self, name: &str) -> Result<Box<dyn StorageFile + '_>>;
    /// Removes files; ignores missing ones.
    ///
    /// # Errors
    /// Errors of the storage.
    fn remove(&self, names: &[String]) -> Result<()>;
}

/// A file being written. If it is dropped before it is finished, no file of its name appears.
pub trait StorageFile {
    /// Appends bytes.
    ///
    /// # Errors
    /// Errors of the storage.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes the file visible under its name.
    ///
    /// # Errors
    /// Errors of the storage.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Writes a small file at once.
pub fn put(place: &dyn BackupStorage, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = place.create(name)?;
    file.append(bytes)?;
    file.finish()
}
