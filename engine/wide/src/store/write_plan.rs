//! Pending entries of a call, each with its full key and stored value.

use std::sync::Arc;

use firn_kv::Batch;

use crate::base::error::Result;
use crate::key::BEYOND;

use super::family::StoreFamily;
use super::mutation::Container;
use super::ranges::{RangeFragment, put_ranges, range_at};

/// An entry to be written.
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
    pub value: EntryValue<'a>,
}

/// Stored form of a value: of the mutation, or in the plan's bytes.
#[derive(Clone, Copy)]
pub(super) enum EntryValue<'a> {
    Mutation(&'a [u8]),
    Plan(usize, usize),
}

impl EntryValue<'_> {
    pub fn bytes<'s>(&'s self, plan: &'s [u8]) -> &'s [u8] {
        match *self {
            EntryValue::Mutation(bytes) => bytes,
            EntryValue::Plan(from, until) => &plan[from..until],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteKind {
    Cell,
    Deletion(Container),
    Add,
    RemoveCounter,
    RemoveCounters,
}

/// Pending entries of a call.
pub(super) struct WritePlan<'a> {
    pub entries: Vec<WriteEntry<'a>>,
    pub bytes: Vec<u8>,
    /// Microseconds since 1970, if an operation needs the time.
    pub now: i64,
    /// Time for expiration in seconds since 1970, if an operation needs the time.
    pub second: i64,
}

impl WritePlan<'_> {
    pub fn key(&self, e: &WriteEntry<'_>) -> &[u8] {
        &self.bytes[e.key.0..e.key.1]
    }

    pub fn value<'s>(&'s self, e: &'s WriteEntry<'_>) -> &'s [u8] {
        e.value.bytes(&self.bytes)
    }

    /// Adds to a batch the changes of stored fragments by range deletions.
    pub fn put_ranges(&self, batch: &mut Batch) -> Result<()> {
        let is_range = |e: &WriteEntry<'_>| e.kind == WriteKind::Deletion(Container::Range);
        let partition = |e: &WriteEntry<'_>| &self.key(e)[..e.partition];
        let is_same = |a: &WriteEntry<'_>, b: &WriteEntry<'_>| {
            is_range(a)
                && is_range(b)
                && Arc::ptr_eq(&a.family.0, &b.family.0)
                && partition(a) == partition(b)
        };
        for entries in self.entries.chunk_by(is_same) {
            let Some(first) = entries.first().filter(|e| is_range(e)) else { continue };
            let fragment = |e: &WriteEntry<'_>| -> Result<RangeFragment> {
                let (start, end, deletion) = range_at(self.key(e), e.partition, self.value(e))?;
                Ok(RangeFragment { start: start.to_vec(), end: end.to_vec(), deletion })
            };
            let ranges = entries.iter().map(fragment).collect::<Result<_>>()?;
            put_ranges(first.family, partition(first), ranges, batch)?;
        }
        Ok(())
    }
}

/// Returns the key range of the container of a deletion with this key.
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
