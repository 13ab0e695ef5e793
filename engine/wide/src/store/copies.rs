//! The second copy of each definition, so that one damaged block of a table costs none.
//!
//! The copy of a record of the tree of definitions is another record of that tree, whose key is
//! behind all others. Between records and copies there is one that fills a block, so that no block
//! has a record and its copy.
//!
//! Invariant: a record and its copy are written and removed by one batch.

use firn_kv::Batch;

use super::CellStore;
use crate::base::error::Result;

/// What the key of a copy begins with; the key of the record follows.
const COPY: [u8; 2] = [0xff, 0xff];

/// The key of the record between.
const SEPARATOR: [u8; 2] = [0xff, 0xfe];

/// At least what a block of the tree of definitions aims for.
const SEPARATOR_LEN: usize = 4096;

/// The key of a record's copy.
pub fn copy_key(key: &[u8]) -> Vec<u8> {
    [&COPY[..], key].concat()
}

impl CellStore {
    /// Adds a record of the tree of definitions to a batch, or `None` its removal, with its copy.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn put_record(&self, batch: &mut Batch, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        for key in [key, &copy_key(key)] {
            match value {
                Some(value) => batch.put(self.schema_tree(), key, value)?,
                None => batch.delete(self.schema_tree(), key)?,
            }
        }
        Ok(())
    }

    /// Adds to the first batch of a new store what is between records and copies.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn separate_copies(&self, batch: &mut Batch) -> Result<()> {
        Ok(batch.put(self.schema_tree(), SEPARATOR, vec![0; SEPARATOR_LEN])?)
    }
}

/// The records that are lost and have copies among `records`, which are all of the tree of
/// definitions. Of one that differs from its copy `is_lost` tells whether its newest version may
/// have been lost.
pub fn lost_records(
    records: &[(Vec<u8>, Vec<u8>)],
    is_lost: impl Fn(&[u8]) -> bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = |key: &[u8]| {
        let at = records.binary_search_by(|r| r.0.as_slice().cmp(key)).ok()?;
        Some(&records[at].1)
    };
    let copies = records.iter().filter_map(|(key, value)| Some((key.strip_prefix(&COPY)?, value)));
    copies
        .filter(|(key, value)| own(key).is_none_or(|has| has != *value && is_lost(key)))
        .map(|(key, value)| (key.to_vec(), value.clone()))
        .collect()
}
