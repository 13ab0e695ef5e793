//! [`TypedWriter`], the writes that trees, batches and transactions share.

use firn_kv::{Batch, KeyBounds, Result, Transaction, Tree};

/// A batch or a transaction, to which a typed tree adds its writes
/// ([`TypedTree::put_in`](crate::TypedTree::put_in)). The trait is sealed.
pub trait TypedWriter: sealed::RawWriter {}

impl<W: sealed::RawWriter> TypedWriter for W {}

pub(crate) mod sealed {
    use super::*;

    /// Writes of bytes.
    pub trait RawWriter {
        fn put_raw(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()>;
        fn delete_raw(&mut self, tree: &Tree, key: &[u8]) -> Result<()>;
        fn delete_range_raw(&mut self, tree: &Tree, range: impl KeyBounds) -> Result<()>;
    }

    macro_rules! writers {
        ($($writer:ty)*) => {$(
            impl RawWriter for $writer {
                fn put_raw(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
                    self.put(tree, key, value)
                }

                fn delete_raw(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
                    self.delete(tree, key)
                }

                fn delete_range_raw(&mut self, tree: &Tree, range: impl KeyBounds) -> Result<()> {
                    self.delete_range(tree, range)
                }
            }
        )*};
    }

    writers! { Batch Transaction }
}
