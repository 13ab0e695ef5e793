//! Common parts of all records: version, JSON encoding, types.

use firn_wide::{Registry, Type};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::catalog::ColumnType;
use crate::error::{Result, corrupt};

/// Version of the records that this code writes and reads.
pub(super) const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TypeText {
    pub(super) class: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) multicell: bool,
}

pub(super) fn type_text(of: &ColumnType) -> TypeText {
    TypeText { class: of.of.full_name(), multicell: of.multicell }
}

pub(super) fn typed(text: &TypeText, key: &str) -> Result<ColumnType> {
    let of = Type::parse(&text.class, &Registry::new())
        .map_err(|e| corrupt!("system.schema, record {key}: {e}"))?;
    let may_be = matches!(of, Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Udt(_));
    if text.multicell && !may_be {
        return Err(corrupt!(
            "system.schema, record {key}: a {} has no cells of its own",
            text.class
        ));
    }
    Ok(ColumnType { of, multicell: text.multicell })
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
