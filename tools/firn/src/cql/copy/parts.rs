//! Code shared by both directions of `COPY`.

use firn_cql::quote_if_needed;
use firn_tools::output::Failure;

use crate::cql::backend::ShellRefusal;

/// Line number and error of a bad row.
pub type BadRow = (u64, String);

/// Returns a list of names as statements write them.
pub fn quoted(names: &[String]) -> String {
    names.iter().map(|n| quote_if_needed(n)).collect::<Vec<_>>().join(", ")
}

/// Converts the error of a statement of the command itself.
pub fn failure(e: ShellRefusal) -> Failure {
    match e {
        ShellRefusal::Fatal(failure) => failure,
        other => Failure::new(other.text()),
    }
}
