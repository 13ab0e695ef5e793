//! The entries that a call is about to write, each with its full key and stored value.

use crate::base::error::Result;
use crate::key::BEYOND;

use super::family::StoreFamily;
use super::mutation::Container;
use super::point::range_at;

/// One entry to be written.
pub(super) struct WriteEntry<'a> {
    pub family: &'a StoreFamily,
    pub kind: WriteKind,
    pub timestamp: i64,
    /// Whether everything in its stripe is older.
    pub newest: bool,
    /// Whether nothing in its stripe is newer.
    pub none_newer: bool,
    /// Length of the partition part of its key.
    pub partition: usize,
    pub key: (usize, usize),
    pub value: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteKind {
    Cell,
    Deletion(Container),
    Add,
    RemoveCounter,
    RemoveCounters,
}

/// The entries of a call.
pub(super) struct WritePlan<'a> {
    pub entries: Vec<WriteEntry<'a>>,
    pub bytes: Vec<u8>,
    /// Microseconds since 1970, where an operation asks for the time.
    pub now: i64,
    /// The second since 1970 that expiry goes by, where an operation asks for the time.
    pub second: i64,
}

impl WritePlan<'_> {
    pub fn key(&self, e: &WriteEntry<'_>) -> &[u8] {
        &self.bytes[e.key.0..e.key.1]
    }

    pub fn value(&self, e: &WriteEntry<'_>) -> &[u8] {
        &self.bytes[e.value.0..e.value.1]
    }
}

/// The key range that the container of a deletion with this key covers.
pub(super) fn container_range(
    key: &[u8],
    partition: usize,
    what: Container,
    value: &[u8],
) -> Result<(Vec<u8>, Vec<u8>)> {
    if what == Container::Range {
        let (start, end, _) = range_at(key, partition, value)?;
        return Ok(([&key[..partition], start].concat(), [&key[..partition], end].concat()));
    }
    let prefix = &key[..key.len() - 1];
    Ok((key.to_vec(), [prefix, &[BEYOND]].concat()))
}
