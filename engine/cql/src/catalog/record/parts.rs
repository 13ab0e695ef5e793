//! Common parts of all records: version, JSON encoding, types.

use firn_wide::{Registry, Type};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::catalog::ColumnType;
use crate::error::{Result, corrupt};

/// Version of the records that this code writes and reads.
pub(super) const FORMAT: u32 = 1;

/// Stored form of a type: its full class name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeText {
    class: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    multicell: bool,
}

impl From<ColumnType> for TypeText {
    fn from(of: ColumnType) -> TypeText {
        TypeText { class: of.of.full_name(), multicell: of.multicell }
    }
}

impl TryFrom<TypeText> for ColumnType {
    type Error = String;

    fn try_from(text: TypeText) -> std::result::Result<ColumnType, String> {
        let of = Type::parse(&text.class, &Registry::new()).map_err(|e| e.0)?;
        let may_be = matches!(of, Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Udt(_));
        if text.multicell && !may_be {
            return Err(format!("a {} has no cells of its own", text.class));
        }
        Ok(ColumnType { of, multicell: text.multicell })
    }
}

pub(super) fn json(record: &impl Serialize) -> Vec<u8> {
    // Maps with text keys and plain values can always be encoded as JSON.
    serde_json::to_vec(record).unwrap_or_default()
}

pub(super) fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let wrong = |e: serde_json::Error| corrupt!("system.schema, record {key}: {e}");
    let version: Versioned = serde_json::from_slice(value).map_err(wrong)?;
    if version.format != FORMAT {
        return Err(corrupt!(
            "system.schema, record {key}: format {}, but {FORMAT} is known",
            version.format
        ));
    }
    serde_json::from_slice(value).map_err(wrong)
}
