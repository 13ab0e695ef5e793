//! Where backups lie: files with names, written once and read in parts.
//!
//! Names are relative, with `/` between their parts. A file appears whole or not at all, and what
//! [`PlacedFile::finish`] and [`BackupPlace::remove`] have done is durable when they return.

use firn_kv::Result;

/// A file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name, without the folder that was listed.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
}

/// A folder, a part of a bucket, or whatever else can hold files.
pub trait BackupPlace: Send + Sync {
    /// What people call it: a path or an address.
    fn address(&self) -> String;
    /// Whether nothing is there.
    ///
    /// # Errors
    /// What the place says.
    fn is_empty(&self) -> Result<bool>;
    /// The files of a folder, sorted by name; none when there is no such folder.
    ///
    /// # Errors
    /// What the place says.
    fn list(&self, folder: &str) -> Result<Vec<StoredFile>>;
    /// The length of a file in bytes.
    ///
    /// # Errors
    /// `NotFound` when it is not there, and what the place says.
    fn size(&self, name: &str) -> Result<u64>;
    /// `len` bytes of a file from `offset` on. Callers keep `len` small.
    ///
    /// # Errors
    /// `NotFound` when it is not there, `Corruption` when it ends before, and what the place says.
    fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>>;
    /// Begins a file, which replaces one of the same name when it is finished.
    ///
    /// # Errors
    /// What the place says.
    fn create(&self, name: &str) -> Result<Box<dyn PlacedFile + '_>>;
    /// Removes files. One that is not there is no error.
    ///
    /// # Errors
    /// What the place says.
    fn remove(&self, names: &[String]) -> Result<()>;
}

/// A file that is being written. One that is dropped before it is finished leaves no file of its
/// name.
pub trait PlacedFile {
    /// Appends bytes.
    ///
    /// # Errors
    /// What the place says.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Gives the file its name.
    ///
    /// # Errors
    /// What the place says.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Writes a small file at once.
pub fn put(place: &dyn BackupPlace, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = place.create(name)?;
    file.append(bytes)?;
    file.finish()
}
