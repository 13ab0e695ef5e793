//! Comparators of the embedder.

use std::fmt;
use std::sync::Arc;

use super::errors::{Malformed, TypeError};

/// A type that an embedder brings. What it says must not change for as long as data of it is
/// stored.
pub trait Comparator: Send + Sync {
    /// The name of its class, with or without a package.
    fn name(&self) -> &str;

    /// Refuses what is not a value.
    ///
    /// # Errors
    /// The reason.
    fn validate(&self, value: &[u8]) -> Result<(), TypeError>;

    /// Appends bytes that sort (unsigned, shorter first) as the valid value (never empty) does.
    /// They are escaped afterwards, so that they need not be prefix-free.
    ///
    /// # Errors
    /// When the value is invalid.
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError>;

    /// Appends the value that these bytes stand for. Any bytes may come; it must not panic.
    ///
    /// # Errors
    /// When there is none.
    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed>;

    /// Appends the value that a text means.
    ///
    /// # Errors
    /// When it means none.
    #[expect(
        clippy::wrong_self_convention,
        reason = "the type is what reads, the text what is read"
    )]
    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError>;

    /// The value as text.
    fn to_text(&self, value: &[u8]) -> String;
}

/// A shared [`Comparator`]; two are equal when their names are.
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
