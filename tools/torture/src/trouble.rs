//! Errors of comparing a store with its expected state.

use std::fmt;

use firn_kv::Error;

use super::speaker::SpeechError;

/// Reason why a comparison ended.
#[derive(Debug)]
pub enum CheckTrouble {
    /// The store is not as expected.
    Wrong(String),
    /// A call failed.
    Failed(Error),
}

impl From<Error> for CheckTrouble {
    fn from(e: Error) -> CheckTrouble {
        CheckTrouble::Failed(e)
    }
}

impl From<SpeechError> for CheckTrouble {
    fn from(e: SpeechError) -> CheckTrouble {
        match e {
            SpeechError::Failed(e) => CheckTrouble::Failed(e),
            SpeechError::Refused(code, text) => {
                CheckTrouble::Wrong(format!("a statement failed, with code {code:#06x}: {text}"))
            }
        }
    }
}

impl From<firn_cql::Error> for CheckTrouble {
    fn from(e: firn_cql::Error) -> CheckTrouble {
        SpeechError::from(e).into()
    }
}

impl fmt::Display for CheckTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckTrouble::Wrong(words) => f.write_str(words),
            CheckTrouble::Failed(e) => write!(f, "{e}"),
        }
    }
}

/// Result of a comparison.
pub type Checked<T = ()> = Result<T, CheckTrouble>;

/// Returns an error for a wrong state.
pub fn wrong<T>(words: impl Into<String>) -> Checked<T> {
    Err(CheckTrouble::Wrong(words.into()))
}
