//! Column masks in the records of tables.

use firn_wide::internals::types::{hex, hex_to_bytes};
use serde::{Deserialize, Serialize};

use super::parts::{TypeText, type_text, typed};
use crate::catalog::ColumnMask;
use crate::error::{Result, corrupt};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MaskRecord {
    keyspace: String,
    name: String,
    types: Vec<TypeText>,
    /// In hexadecimal.
    values: Vec<Option<String>>,
}

impl MaskRecord {
    pub(super) fn of(mask: &ColumnMask) -> MaskRecord {
        MaskRecord {
            keyspace: mask.keyspace.clone(),
            name: mask.name.clone(),
            types: mask.types.iter().map(type_text).collect(),
            values: mask.values.iter().map(|v| v.as_deref().map(hex)).collect(),
        }
    }

    /// Returns the mask of a column in the record with this key.
    pub(super) fn load(&self, key: &str) -> Result<ColumnMask> {
        let wrong = |what: &str| corrupt!("system.schema, record {key}: {what}");
        if self.types.len() != self.values.len() + 1 {
            return Err(wrong("a mask whose arguments do not match its types"));
        }
        let types = self.types.iter().map(|of| typed(of, key)).collect::<Result<Vec<_>>>()?;
        let bytes = |text: &Option<String>| text.as_deref().map(hex_to_bytes).transpose();
        let values: std::result::Result<Vec<_>, _> = self.values.iter().map(bytes).collect();
        Ok(ColumnMask {
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            types,
            values: values.map_err(|_| wrong("a mask with an argument that is not hexadecimal"))?,
        })
    }
}
