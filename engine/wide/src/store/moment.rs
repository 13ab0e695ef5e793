//! State of the trees for a read: the newest, or a snapshot.

use firn_kv::{Cursor, KeyBounds, Snapshot, Tree, Value};

use crate::base::error::Result;

/// A state of all trees.
#[derive(Clone, Copy)]
pub(super) enum StoreMoment<'a> {
    /// The newest state at each read.
    Now,
    /// A snapshot.
    Then(&'a Snapshot),
}

impl StoreMoment<'_> {
    #[inline]
    pub fn get(self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        Ok(match self {
            StoreMoment::Now => tree.get(key)?,
            StoreMoment::Then(s) => s.get(tree, key)?,
        })
    }

    pub fn cursor(self, tree: &Tree, range: impl KeyBounds) -> Result<Cursor> {
        Ok(match self {
            StoreMoment::Now => tree.cursor(range)?,
            StoreMoment::Then(s) => s.cursor(tree, range)?,
        })
    }
}
