//! The stored position of an import.

use firn_tools::output::Failure;
use serde::{Deserialize, Serialize};

/// Position of an import in its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportPosition {
    /// Name of the source.
    pub source: String,
    /// Number of its rows that are written, or refused and skipped.
    pub rows: u64,
}

/// Returns the failure for a position in another source.
pub fn other_source(found: &str, wanted: &str) -> Failure {
    Failure::with_next(
        format!("the interrupted import was of {found}, not of {wanted}"),
        "resume it with the same file and options, or leave --resume out to begin a new one",
    )
}
