//! What the directions of `COPY` share.

use firn_cql::quote_if_needed;
use firn_tools::output::Failure;

use crate::cql::backend::ShellRefusal;

/// What a line of the file is wrong with.
pub type BadRow = (u64, String);

/// Names as statements write them, in a row.
pub fn quoted(names: &[String]) -> String {
    names.iter().map(|n| quote_if_needed(n)).collect::<Vec<_>>().join(", ")
}

/// What the command says of a statement of its own that gave nothing.
pub fn failure(e: ShellRefusal) -> Failure {
    match e {
        ShellRefusal::Fatal(failure) => failure,
        other => Failure::new(other.text()),
    }
}
