//! Column masks, which replace values for roles that may not see them.

use super::ColumnType;
use super::function::{Signature, signature};
use super::record::MaskRecord;
use serde::{Deserialize, Serialize};

/// A function called with a column's value and constants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MaskRecord", into = "MaskRecord")]
pub struct ColumnMask {
    /// Keyspace of the function; `system` for native functions.
    pub keyspace: String,
    /// Name of the function.
    pub name: String,
    /// Types of its arguments; the first is that of the column's value.
    pub types: Vec<ColumnType>,
    /// Arguments after the value; `None` is null.
    pub values: Vec<Option<Vec<u8>>>,
}

impl ColumnMask {
    /// Returns the signature of the function.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.types)
    }

    /// Iterates over the types and values of the arguments after the value.
    pub fn arguments(&self) -> impl Iterator<Item = (&ColumnType, Option<&[u8]>)> {
        self.types.iter().skip(1).zip(self.values.iter().map(Option::as_deref))
    }
}
