//! Append merge operator that several tests share.

use firn_kv::{Folded, MergeOperator, Result};

/// Merge operator that appends operands in the order of their writes.
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(Folded::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
}
