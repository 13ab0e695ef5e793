//! Column masks in the records of tables.

use firn_wide::internals::types::{hex, hex_to_bytes};
use serde::{Deserialize, Serialize};

use crate::catalog::{ColumnMask, ColumnType};

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
