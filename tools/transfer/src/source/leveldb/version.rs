//! The manifest of LevelDB: the tables of each level, and the logs that belong to them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use firn_tools::io::Input;
use firn_tools::output::{Done, Failure};

use super::super::file::SourceFile;
use super::super::rows::damaged;
use super::bytes::ByteReader;
use super::log;

/// Levels that a manifest may name.
const MAX_LEVELS: usize = 64;
/// Maximum bytes of the file `CURRENT`.
const MAX_NAME: u64 = 1 << 10;

const COMPARATOR: u64 = 1;
const LOG_NUMBER: u64 = 2;
const NEXT_FILE: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const COMPACT_POINTER: u64 = 5;
const DELETED_FILE: u64 = 6;
const NEW_FILE: u64 = 7;
const PREVIOUS_LOG: u64 = 9;

/// Key of an entry: the user's key, and the inverted sequence number and type, so that newer
/// versions come first.
pub type VersionedKey = (Vec<u8>, std::cmp::Reverse<u64>);

/// Splits a stored key; `None` if it is malformed.
pub fn versioned(key: &[u8]) -> Option<VersionedKey> {
    let (user, tag) = key.split_last_chunk::<8>()?;
    Some((user.to_vec(), std::cmp::Reverse(u64::from_le_bytes(*tag))))
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// Number in its name.
    pub number: u64,
    /// Its smallest key.
    pub smallest: VersionedKey,
}

/// Content of a manifest.
#[derive(Debug, Default)]
pub struct LevelDbVersion {
    /// Name of the comparator of keys.
    pub comparator: String,
    /// Number of the first log that tables do not have.
    pub log: u64,
    /// Number of an older such log, or 0.
    pub previous_log: u64,
    /// Tables by level and number.
    pub levels: Vec<BTreeMap<u64, TableFile>>,
}

impl LevelDbVersion {
    /// Reads the current manifest of a directory.
    ///
    /// # Errors
    /// It is missing, unreadable or damaged.
    pub fn load(dir: &Path) -> Done<LevelDbVersion> {
        let current = dir.join("CURRENT");
        let input = Input::open(&current).map_err(|e| Failure::file("open", &current, &e))?;
        let mut name = String::new();
        let read = input.take(MAX_NAME).read_to_string(&mut name);
        read.map_err(|e| Failure::file("read", &current, &e))?;
        let name = name.trim_end();
        if !name.starts_with("MANIFEST-") || name.contains(['/', '\\']) {
            return Err(damaged(&current, "it does not name a manifest"));
        }
        let mut file = SourceFile::open(&dir.join(name))?;
        let mut version = LevelDbVersion::default();
        log::records(&mut file, &mut |offset, record| {
            version.edit(record).ok_or_else(|| format!("byte {offset}: a malformed edit"))
        })?;
        Ok(version)
    }

    /// Applies an edit; `None` if it is malformed.
    fn edit(&mut self, record: &[u8]) -> Option<()> {
        let mut bytes = ByteReader::new(record);
        while !bytes.is_empty() {
            match bytes.varint()? {
                COMPARATOR => {
                    self.comparator = String::from_utf8_lossy(bytes.slice()?).into_owned();
                }
                LOG_NUMBER => self.log = bytes.varint()?,
                PREVIOUS_LOG => self.previous_log = bytes.varint()?,
                NEXT_FILE | LAST_SEQUENCE => drop(bytes.varint()?),
                COMPACT_POINTER => drop((bytes.varint()?, bytes.slice()?)),
                DELETED_FILE => {
                    let (level, number) = (bytes.length()?, bytes.varint()?);
                    self.level(level)?.remove(&number);
                }
                NEW_FILE => {
                    let (level, number, _size) =
                        (bytes.length()?, bytes.varint()?, bytes.varint()?);
                    let (smallest, _largest) = (versioned(bytes.slice()?)?, bytes.slice()?);
                    self.level(level)?.insert(number, TableFile { number, smallest });
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn level(&mut self, level: usize) -> Option<&mut BTreeMap<u64, TableFile>> {
        if level >= MAX_LEVELS {
            return None;
        }
        self.levels.resize_with(self.levels.len().max(level + 1), BTreeMap::new);
        self.levels.get_mut(level)
    }
}
