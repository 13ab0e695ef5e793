//! Stored form of scripted comparators: JSON records in the kv tree `system.schema`.
//!
//! - `wide/comparator/<class>`: `{"format":1,"language":…,"script":…}`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::types::{ComparatorLanguage, Registry, ScriptComparator};

/// Prefix of the keys of the records.
pub const COMPARATORS: &str = "wide/comparator/";
/// Version of the records that this code writes and reads.
const FORMAT: u32 = 1;

/// Record of a scripted comparator.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparatorRecord {
    format: u32,
    /// Name of the language.
    pub language: String,
    /// The script.
    pub script: String,
}

impl ComparatorRecord {
    /// Creates the record of a script.
    pub fn new(language: String, script: String) -> ComparatorRecord {
        ComparatorRecord { format: FORMAT, language, script }
    }

    /// Returns the stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A number and texts can always be encoded as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a record.
    ///
    /// # Errors
    /// `Corrupt` with the key of the record if it cannot be parsed.
    pub fn read(key: &[u8], value: &[u8]) -> Result<ComparatorRecord> {
        let corrupt = |why: String| {
            Error::Corrupt(format!("system.schema, record {}: {why}", key.escape_ascii()))
        };
        let record: ComparatorRecord =
            serde_json::from_slice(value).map_err(|e| corrupt(e.to_string()))?;
        match record.format {
            FORMAT => Ok(record),
            format => Err(corrupt(format!(
                "its format is {format}; this version of Firn reads {FORMAT}. Use the version that wrote it"
            ))),
        }
    }
}

/// Returns the language with this name.
pub fn language_of<'l>(
    languages: &'l [Arc<dyn ComparatorLanguage>],
    name: &str,
) -> Option<&'l dyn ComparatorLanguage> {
    languages.iter().map(|language| &**language).find(|language| language.name() == name)
}

/// Registers the scripts in these records of the tree. A registered type takes precedence over a
/// script with the same name. Values of a script whose language is missing can still be read.
///
/// # Errors
/// `Corrupt` with the key of a record that cannot be parsed.
pub fn register_scripts<'a>(
    registry: &mut Registry,
    records: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    languages: &[Arc<dyn ComparatorLanguage>],
) -> Result<()> {
    for (key, value) in records {
        let Some(class) = key.strip_prefix(COMPARATORS.as_bytes()) else { continue };
        let (record, class) = (ComparatorRecord::read(key, value)?, String::from_utf8_lossy(class));
        if registry.get(&class).is_none() {
            let language = language_of(languages, &record.language);
            registry.register(Arc::new(ScriptComparator::new(&class, &record.script, language)));
        }
    }
    Ok(())
}
