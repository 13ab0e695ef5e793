//! The names of a pool: a journal of changes in files 0 and 1, of which one is in use.
//!
//! | part | layout, little endian |
//! |---|---|
//! | header | `FIRNPOOL`, `u64` generation |
//! | record | `u32` length, `u32` CRC-32 of generation and payload, payload |
//! | payload | for each name: `u32` file, `u32` length of the name, the name |
//!
//! The first record has all names, later ones have changes. A change of several names is one record,
//! so a rename is atomic.
//!
//! Invariants:
//! - A journal is valid if its header and its first record are. If both are valid, the one with the
//!   higher generation counts. So an interrupted rewrite has no effect.
//! - Records end at the first one that is not valid. The checksum covers the generation, so bytes of
//!   an older generation are not taken for records.
//! - After a failed sync no further change is accepted.

use std::collections::BTreeMap;
use std::io;

use crate::storage::PoolStorage;

/// Number of files that hold journals.
pub(super) const JOURNALS: u32 = 2;
const MAGIC: [u8; 8] = *b"FIRNPOOL";
const HEADER: usize = 16;
/// Bytes of a record before its payload.
const PREFIX: usize = 8;
/// Bytes of changes after which a journal is rewritten, beside the length of the first record.
const MAX_CHANGES: u64 = 64 << 10;
/// Maximum length of a journal that is read: a pool of 100,000 names with 100 bytes each has less.
const MAX_JOURNAL: u64 = 32 << 20;

const ABSENT: u32 = u32::MAX;
const DIRECTORY: u32 = u32::MAX - 1;

/// Meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameTarget {
    Absent,
    Directory,
    File(u32),
}

impl NameTarget {
    fn number(self) -> u32 {
        match self {
            NameTarget::Absent => ABSENT,
            NameTarget::Directory => DIRECTORY,
            NameTarget::File(file) => file,
        }
    }

    fn of_number(number: u32) -> NameTarget {
        match number {
            ABSENT => NameTarget::Absent,
            DIRECTORY => NameTarget::Directory,
            file => NameTarget::File(file),
        }
    }
}

/// Names and their meanings.
pub(super) type NameTargets = BTreeMap<String, NameTarget>;

/// The journal that is in use.
#[derive(Debug)]
pub(super) struct NameJournal {
    /// The file: 0 or 1.
    file: u32,
    generation: u64,
    /// Bytes up to the end of the last record.
    len: u64,
    /// Length from which on the journal is rewritten.
    max_len: u64,
    is_synced: bool,
    has_failed: bool,
}

impl NameJournal {
    /// Reads the newest valid journal and continues with a new generation, so that remains of an
    /// interrupted write are gone. An empty pool has no names.
    pub(super) fn open(storage: &dyn PoolStorage) -> io::Result<(NameJournal, NameTargets)> {
        let mut newest: Option<(u64, u32, NameTargets)> = None;
        for file in 0..JOURNALS {
            if let Some((generation, names)) = read(storage, file)?
                && newest.as_ref().is_none_or(|(other, ..)| generation > *other)
            {
                newest = Some((generation, file, names));
            }
        }
        let (generation, file, names) = match newest {
            Some(newest) => newest,
            None => {
                for file in JOURNALS..storage.count() {
                    if storage.len(file)? > 0 {
                        let why = "the names of the files are damaged: delete the store, or restore a copy";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                    }
                }
                (0, 1, NameTargets::new())
            }
        };
        let mut journal = NameJournal {
            file,
            generation,
            len: 0,
            max_len: 0,
            is_synced: false,
            has_failed: false,
        };
        journal.rewrite(storage, &names)?;
        Ok((journal, names))
    }

    /// Appends a change of names.
    pub(super) fn append(
        &mut self,
        storage: &dyn PoolStorage,
        changes: &[(&str, NameTarget)],
    ) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other(
                "an earlier sync of the names failed: open the store again",
            ));
        }
        let record = record(self.generation, changes.iter().copied());
        storage.write(self.file, self.len, &record)?;
        self.len += record.len() as u64;
        self.is_synced = false;
        Ok(())
    }

    /// Reports whether the journal should be rewritten.
    pub(super) fn is_long(&self) -> bool {
        self.len > self.max_len
    }

    /// Writes all names as a new generation into the other file, and makes it durable.
    pub(super) fn rewrite(
        &mut self,
        storage: &dyn PoolStorage,
        names: &NameTargets,
    ) -> io::Result<()> {
        let (file, generation) = (JOURNALS - 1 - self.file, self.generation + 1);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&generation.to_le_bytes());
        bytes.extend(record(generation, names.iter().map(|(name, target)| (&**name, *target))));
        storage.set_len(file, 0)?;
        storage.write(file, 0, &bytes)?;
        storage.flush(file)?;
        let len = bytes.len() as u64;
        (self.file, self.generation) = (file, generation);
        (self.len, self.max_len) = (len, 2 * len + MAX_CHANGES);
        self.is_synced = true;
        Ok(())
    }

    /// Makes all changes durable.
    pub(super) fn sync(&mut self, storage: &dyn PoolStorage) -> io::Result<()> {
        if !self.is_synced {
            storage.flush(self.file).inspect_err(|_| self.has_failed = true)?;
            self.is_synced = true;
        }
        Ok(())
    }
}

fn checksum(generation: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&generation.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn record<'a>(generation: u64, names: impl Iterator<Item = (&'a str, NameTarget)>) -> Vec<u8> {
    let mut payload = vec![];
    for (name, target) in names {
        payload.extend_from_slice(&target.number().to_le_bytes());
        payload.extend_from_slice(&(name.len() as u32).to_le_bytes());
        payload.extend_from_slice(name.as_bytes());
    }
    let mut record = (payload.len() as u32).to_le_bytes().to_vec();
    record.extend_from_slice(&checksum(generation, &payload).to_le_bytes());
    record.extend_from_slice(&payload);
    record
}

/// Reads a journal: its generation and names. Returns `None` if it is not valid.
fn read(storage: &dyn PoolStorage, file: u32) -> io::Result<Option<(u64, NameTargets)>> {
    let len = storage.len(file)?;
    if len > MAX_JOURNAL {
        let why = format!("the names of the files take {len} bytes, more than {MAX_JOURNAL}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut bytes = vec![0; len as usize];
    let count = storage.read(file, 0, &mut bytes)?;
    bytes.truncate(count);
    let Some((header, mut rest)) = bytes.split_at_checked(HEADER) else { return Ok(None) };
    let Some(generation) = header.strip_prefix(&MAGIC).and_then(number64) else { return Ok(None) };
    let (mut names, mut is_valid) = (NameTargets::new(), false);
    while let Some((payload, after)) = payload(generation, rest) {
        if apply(payload, &mut names).is_none() {
            break;
        }
        (is_valid, rest) = (true, after);
    }
    Ok(is_valid.then_some((generation, names)))
}

fn number64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Splits a number from the start of `bytes`.
fn number32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// Splits the payload of a valid record from the start of `bytes`.
fn payload(generation: u64, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX)?;
    let (len, sum) = number32(prefix)?;
    let (payload, rest) = rest.split_at_checked(len as usize)?;
    (number32(sum)?.0 == checksum(generation, payload)).then_some((payload, rest))
}

/// Applies a payload; returns `None` if it has another form.
fn apply(mut payload: &[u8], names: &mut NameTargets) -> Option<()> {
    let mut changes = vec![];
    while !payload.is_empty() {
        let (target, rest) = number32(payload)?;
        let (len, rest) = number32(rest)?;
        let (name, rest) = rest.split_at_checked(len as usize)?;
        changes.push((std::str::from_utf8(name).ok()?.to_owned(), NameTarget::of_number(target)));
        payload = rest;
    }
    for (name, target) in changes {
        if target == NameTarget::Absent {
            names.remove(&name);
        } else {
            names.insert(name, target);
        }
    }
    Some(())
}
