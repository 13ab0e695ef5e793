//! Second copies of schema records, so that one damaged block of a table loses no definition.
//!
//! The copy of a record in the schema tree is another record of that tree, with a key after all
//! others. Between records and copies is one record that fills a block, so that no block contains a
//! record and its copy.
//!
//! Invariant: a record and its copy are written and removed in one batch.

use firn_kv::Batch;

use super::CellStore;
use crate::base::error::Result;

/// Prefix of the key of a copy; the key of the record follows.
const COPY: [u8; 2] = [0xff, 0xff];

/// Key of the record between records and copies.
const SEPARATOR: [u8; 2] = [0xff, 0xfe];

/// Length of its value: at least the target size of a block of the schema tree.
const SEPARATOR_LEN: usize = 4096;

/// Returns the key of a record's copy.
pub fn copy_key(key: &[u8]) -> Vec<u8> {
    [&COPY[..], key].concat()
}

impl CellStore {
    /// Adds to a batch a write of a schema record, or its removal with `None`, and the same for its
    /// copy.
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

    /// Adds the record between records and copies to the first batch of a new store.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn separate_copies(&self, batch: &mut Batch) -> Result<()> {
        Ok(batch.put(self.schema_tree(), SEPARATOR, vec![0; SEPARATOR_LEN])?)
    }
}

/// Returns the records that are lost but have copies among `records`, which are all records of the
/// schema tree. If a record differs from its copy, `is_lost` reports whether its newest version may
/// be lost.
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
