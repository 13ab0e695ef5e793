//! Comparators of the embedder, and the registry that finds them by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::name::with_package;
use super::{Malformed, TypeError};

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

/// The comparators that names may mean beside the built-in types.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    custom: BTreeMap<String, Custom>,
}

impl Registry {
    /// One that knows the built-in types only.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a comparator, found by its name; one without a package also with Cassandra's. Built-in
    /// names can't be taken.
    pub fn register(&mut self, comparator: Arc<dyn Comparator>) {
        self.custom.insert(with_package(comparator.name()), Custom(comparator));
    }

    /// The comparator of this name, with or without Cassandra's package.
    pub fn get(&self, name: &str) -> Option<&Custom> {
        self.custom.get(&with_package(name))
    }

    /// The names that exist: the built-in ones without their package, then the registered ones.
    pub fn names(&self) -> Vec<String> {
        let built_in = super::name::SIMPLE
            .iter()
            .map(|s| s.1)
            .chain(super::name::PARAMETRIC)
            .map(str::to_owned);
        built_in.chain(self.custom.values().map(|c| c.0.name().to_owned())).collect()
    }
}
