//! Methods that add operations to a [`Batch`].

use crate::base::error::Result;
use crate::base::key::Kind;

use crate::db::handle::handles::Tree;
use crate::db::read::bounds::KeyBounds;
use crate::db::write::batch::Batch;

impl Batch {
    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` when key, value or batch exceed the limits; the batch is unchanged then.
    pub fn put(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.point(&tree.inner, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.point(&tree.inner, Kind::Delete, key.as_ref(), &[])
    }

    /// Adds an operand for the tree's merge operator.
    ///
    /// # Errors
    /// As [`put`](Batch::put), and `InvalidArgument` when the tree has no merge operator.
    pub fn merge(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        tree.check_merge()?;
        self.point(&tree.inner, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Deletes every key of a range, including earlier puts of this batch. Adds nothing when the
    /// range is empty.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete_range(&mut self, tree: &Tree, range: impl KeyBounds) -> Result<()> {
        self.delete_between(&tree.inner, &range)
    }
}
