//! Custom comparators.

use std::fmt;
use std::sync::Arc;

use super::errors::{Malformed, TypeError};

/// A custom type. Its behaviour must not change as long as data of the type is stored.
pub trait Comparator: Send + Sync {
    /// Returns its class name, with or without a package.
    fn name(&self) -> &str;

    /// Checks whether bytes are a value of the type.
    ///
    /// # Errors
    /// The reason why they are not.
    fn validate(&self, value: &[u8]) -> Result<(), TypeError>;

    /// Appends bytes that sort (unsigned, shorter first) like the value, which is valid and not
    /// empty. They are escaped afterwards, so they need not be prefix-free.
    ///
    /// # Errors
    /// An error if the value is invalid.
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError>;

    /// Appends the value of an encoded form. It must not panic on any input.
    ///
    /// # Errors
    /// An error if the bytes are not an encoded form.
    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Parses a text and appends its value.
    ///
    /// # Errors
    /// An error if the text is invalid.
    #[expect(
        clippy::wrong_self_convention,
        reason = "the type is what reads, the text what is read"
    )]
    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError>;

    /// Returns the value as text.
    fn to_text(&self, value: &[u8]) -> String;
}

/// A shared [`Comparator`]. Two are equal if their names are.
#[derive(Clone)]
pub struct Custom(pub Arc<dyn Comparator>);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.0.name()).finish()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for Custom {}
