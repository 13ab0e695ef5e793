//! Why a value, a text or an encoded form is not of a type.

use std::fmt;

/// Why a value or a text is not of a type: the text that the server answers with.
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

/// Bytes that are not the form of any value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed encoded value")
    }
}

impl std::error::Error for Malformed {}

/// An error with this text.
pub(super) fn error<T>(text: impl Into<String>) -> Result<T, TypeError> {
    Err(TypeError(text.into()))
}
