//! Registry of custom comparators by name.

use std::collections::BTreeMap;

use std::sync::Arc;

use super::class::{PACKAGE, PARAMETRIC, SIMPLE, with_package};
use super::comparator::{Comparator, Custom};

/// Comparators that names can refer to besides the built-in types.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    custom: Arc<BTreeMap<String, Custom>>,
}

impl Registry {
    /// Creates a registry with the built-in types only.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Creates a registry with these comparators too.
    pub(super) fn of(custom: &Arc<BTreeMap<String, Custom>>) -> Registry {
        Registry { custom: custom.clone() }
    }

    /// Returns the comparators by full name.
    pub(super) fn custom(&self) -> &Arc<BTreeMap<String, Custom>> {
        &self.custom
    }

    /// Adds a comparator under its name. A name without a package gets Cassandra's. Built-in types
    /// take precedence.
    pub fn register(&mut self, comparator: Arc<dyn Comparator>) {
        let name = with_package(comparator.name());
        Arc::make_mut(&mut self.custom).insert(name, Custom(comparator));
    }

    /// Returns the comparator with this name, with or without Cassandra's package.
    pub fn get(&self, name: &str) -> Option<&Custom> {
        self.custom.get(&with_package(name))
    }

    /// Reports whether a built-in type has this name.
    pub fn is_built_in(name: &str) -> bool {
        let full = with_package(name);
        let short = full.strip_prefix(PACKAGE);
        short.is_some_and(|s| PARAMETRIC.contains(&s) || SIMPLE.iter().any(|known| known.1 == s))
    }

    /// Returns all names: the built-in ones without their package, then the registered ones.
    pub fn names(&self) -> Vec<String> {
        let built_in = SIMPLE.iter().map(|s| s.1).chain(PARAMETRIC).map(str::to_owned);
        built_in.chain(self.custom.values().map(|c| c.0.name().to_owned())).collect()
    }
}
