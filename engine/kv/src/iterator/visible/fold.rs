//! Folds operands with the merge operator.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::{MergeOperator, MergeResult};
use crate::base::key::MAX_VALUE_LEN;

/// Folds operands (oldest first) over a base with the tree's merge operator.
pub fn fold(
    merge: Option<&dyn MergeOperator>,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[Vec<u8>],
) -> Result<MergeResult> {
    let Some(merge) = merge else {
        let words = "the tree holds merge operands; open it with its merge operator";
        return Err(Error::new(ErrorKind::Incompatible, words).keys(key, key));
    };
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    let folded = merge.full_merge(key, base, &operands)?;
    match &folded {
        // No table can store such a value. Merges retain the operands, and readers get this error.
        MergeResult::Value(v) if v.len() > MAX_VALUE_LEN => {
            let words = format!(
                "the merge operator {:?} made a value of {} bytes; one has {MAX_VALUE_LEN} at most: put or delete the key to go on",
                merge.name(),
                v.len()
            );
            Err(Error::invalid(words).keys(key, key))
        }
        _ => Ok(folded),
    }
}

/// Returns the error for operands over a blob: trees with a merge operator have no blobs.
pub(super) fn blob_under_operands(key: &[u8]) -> Error {
    Error::corruption("a merge operand is newer than a value in a blob file").keys(key, key)
}
