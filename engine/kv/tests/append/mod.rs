//! A merge operator that several tests open trees with.

use firn_kv::{Folded, Merge, Result};

/// Appends operands in the order in which they were merged.
pub struct Append;

impl Merge for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Folded> {
        Ok(Folded::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
}
