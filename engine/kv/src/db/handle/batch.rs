//! What is added to a batch by the handles of its trees.

use crate::base::error::Result;
use crate::base::key::Kind;

use super::super::batch::Batch;
use super::super::bounds::KeyBounds;
use super::handles::Tree;

impl Batch {
    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` when key, value or batch are over the limits; the batch is then as before.
    pub fn put(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.point(&tree.core, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.point(&tree.core, Kind::Delete, key.as_ref(), &[])
    }

    /// Adds an operand for the tree's merge hook.
    ///
    /// # Errors
    /// As [`put`](Batch::put), and when the tree has no merge hook.
    pub fn merge(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        tree.check_merge()?;
        self.point(&tree.core, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Deletes every key of a range, those that the batch has put there before too. Adds nothing
    /// when the range ends before it begins.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete_range(&mut self, tree: &Tree, range: impl KeyBounds) -> Result<()> {
        self.delete_between(&tree.core, &range)
    }
}
