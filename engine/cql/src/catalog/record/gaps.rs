//! Finds records that are missing, for tools that repair stores.
//!
//! Invariant: a record that cannot be read is skipped, and does not affect others.

use std::collections::BTreeSet;

use super::parts::{FORMAT, json, parse};
use super::{Catalog, CatalogHeadRecord, FIRST_ID, HEAD, TABLE, TYPE, TableRecord, functions};

/// Definitions that are missing for [`Catalog::load`] to read the records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecordGaps {
    /// Keyspaces of their tables, types and functions.
    pub keyspaces: BTreeSet<String>,
    /// The head record, if it is missing and ids are in use.
    pub head: Option<(Vec<u8>, Vec<u8>)>,
}

impl Catalog {
    /// Returns the gaps of these records. Ids up to `largest` may be in use too.
    pub fn gaps<'a>(
        records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        mut largest: u32,
    ) -> RecordGaps {
        let mut gaps = RecordGaps::default();
        let mut has_head = false;
        for (key, value) in records {
            let key = String::from_utf8_lossy(key);
            if key == HEAD {
                has_head = true;
            } else if let Some(id) = key.strip_prefix(TABLE) {
                let Ok(table) = parse::<TableRecord<'_>>(&key, value) else { continue };
                let numbers = table.indexes.iter().map(|i| i.id).chain(id.parse());
                largest = numbers.fold(largest, u32::max);
                gaps.keyspaces.insert(table.keyspace);
            } else if let Some((keyspace, _)) =
                key.strip_prefix(TYPE).and_then(|k| k.split_once('/'))
            {
                gaps.keyspaces.insert(keyspace.to_owned());
            } else if let Ok(Some(found)) = functions::load(&key, value) {
                gaps.keyspaces.insert(found.keyspace().to_owned());
            }
        }
        if !has_head && largest >= FIRST_ID {
            let head = CatalogHeadRecord { format: FORMAT, next_id: largest.saturating_add(1) };
            gaps.head = Some((HEAD.into(), json(&head)));
        }
        gaps
    }
}
