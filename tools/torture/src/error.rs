//! Errors of comparing a store with its expected state.

use std::fmt;

use firn_kv::Error;

use super::client::StatementError;

/// Reason why a comparison ended.
#[derive(Debug)]
pub enum CheckError {
    /// The store is not as expected.
    Wrong(String),
    /// A call failed.
    Failed(Error),
}

impl From<Error> for CheckError {
    fn from(e: Error) -> CheckError {
        CheckError::Failed(e)
    }
}

impl From<StatementError> for CheckError {
    fn from(e: StatementError) -> CheckError {
        match e {
            StatementError::Failed(e) => CheckError::Failed(e),
            StatementError::Refused(code, text) => {
                CheckError::Wrong(format!("a statement failed, with code {code:#06x}: {text}"))
            }
        }
    }
}

impl From<firn_cql::Error> for CheckError {
    fn from(e: firn_cql::Error) -> CheckError {
        StatementError::from(e).into()
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Wrong(words) => f.write_str(words),
            CheckError::Failed(e) => write!(f, "{e}"),
        }
    }
}

/// Result of a comparison.
pub type Checked<T = ()> = Result<T, CheckError>;

/// Returns an error for a wrong state.
pub fn wrong<T>(words: impl Into<String>) -> Checked<T> {
    Err(CheckError::Wrong(words.into()))
}
