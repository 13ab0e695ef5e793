//! The stored form of comparators that are scripts: JSON records in the kv tree `system.schema`.
//!
//! - `wide/comparator/<class>`: `{"format":1,"language":…,"script":…}`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::types::{ComparatorLanguage, Registry, ScriptComparator};

/// The prefix of the keys of the records.
pub const COMPARATORS: &str = "wide/comparator/";
/// The version of the records that this code writes and reads.
const FORMAT: u32 = 1;

/// A comparator that is a script.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparatorRecord {
    format: u32,
    /// The language, by its name.
    pub language: String,
    /// The script.
    pub script: String,
}

impl ComparatorRecord {
    /// A script of a language.
    pub fn new(language: String, script: String) -> ComparatorRecord {
        ComparatorRecord { format: FORMAT, language, script }
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A number and texts: there is nothing that could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The record under a key.
    ///
    /// # Errors
    /// `Corrupt` with the name of the record where it can't be read.
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

/// The language of this name.
pub fn language_of<'l>(
    languages: &'l [Arc<dyn ComparatorLanguage>],
    name: &str,
) -> Option<&'l dyn ComparatorLanguage> {
    languages.iter().map(|language| &**language).find(|language| language.name() == name)
}

/// Registers the scripts that are among these records of the tree. A type that is registered stands
/// before a script of the same name. Without its language a script's values can be read all the
/// same.
///
/// # Errors
/// `Corrupt` with the name of a record that can't be read.
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
