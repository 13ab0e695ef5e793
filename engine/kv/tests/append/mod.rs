//! Append merge operator that several tests share.

use firn_kv::{MergeOperator, MergeResult, Result};

/// Merge operator that appends operands in the order of their writes.
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
}
