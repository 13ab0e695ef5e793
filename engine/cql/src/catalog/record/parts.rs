//! Common parts of all records: version, JSON encoding, types.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Result, corrupt};

/// Version of the records that this code writes and reads.
pub(super) const FORMAT: u32 = 1;

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
