//! Errors for invalid values, texts and encoded forms.

use std::fmt;

/// Error for an invalid value or text; its text is that of a server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError(pub String);

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TypeError {}

impl From<TypeError> for crate::base::error::Error {
    fn from(e: TypeError) -> Self {
        crate::base::error::Error::InvalidRequest(e.0)
    }
}

/// Error for bytes that are not a form of any value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed encoded value")
    }
}

impl std::error::Error for Malformed {}

/// Returns an error with this text.
pub(super) fn error<T>(text: impl Into<String>) -> Result<T, TypeError> {
    Err(TypeError(text.into()))
}
