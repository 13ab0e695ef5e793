//! Column masks, which replace values for roles that may not see them.

use super::ColumnType;
use super::function::{Signature, signature};
use firn_wide::internals::types::{hex, hex_to_bytes};
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

/// Stored form of a mask: values are hexadecimal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskRecord {
    keyspace: String,
    name: String,
    types: Vec<ColumnType>,
    values: Vec<Option<String>>,
}

impl From<ColumnMask> for MaskRecord {
    fn from(mask: ColumnMask) -> MaskRecord {
        let ColumnMask { keyspace, name, types, values } = mask;
        let values = values.iter().map(|v| v.as_deref().map(hex)).collect();
        MaskRecord { keyspace, name, types, values }
    }
}

impl TryFrom<MaskRecord> for ColumnMask {
    type Error = &'static str;

    fn try_from(record: MaskRecord) -> Result<ColumnMask, &'static str> {
        let MaskRecord { keyspace, name, types, values } = record;
        if types.len() != values.len() + 1 {
            return Err("a mask whose arguments do not match its types");
        }
        let bytes = |text: &Option<String>| text.as_deref().map(hex_to_bytes).transpose();
        let values: Result<_, _> = values.iter().map(bytes).collect();
        let values = values.map_err(|_| "a mask with an argument that is not hexadecimal")?;
        Ok(ColumnMask { keyspace, name, types, values })
    }
}
