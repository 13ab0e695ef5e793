//! Opens a store to measure it, also one whose comparators only its own program has.
//!
//! Invariant: nothing is written, and no comparator is called: entries are read in their stored
//! order.

use std::sync::Arc;

use firn_cql::Session;
use firn_kv::OsEnv;
use firn_table_events::model_trouble;
use firn_tools::output::{Done, Failure};
use firn_wide::internals::schema::{RECORD_PREFIX, Schema};
use firn_wide::internals::store::CellStore;
use firn_wide::internals::types::ForeignType;
use firn_wide::{Registry, StoreOptions, Wide};

use crate::store::Global;

/// Opens the store for reading.
pub fn open(global: &Global) -> Done<Session> {
    let dir = &global.store.db;
    let options = || StoreOptions { db: global.to_read(), clock: None, ..StoreOptions::default() };
    let mut registry = Registry::new();
    let store = CellStore::open_in(OsEnv::new(), dir, options()).map_err(model_trouble)?;
    let records = store.records(RECORD_PREFIX).map_err(model_trouble)?;
    drop(store);
    let records = records.iter().map(|(key, value)| (&**key, &**value));
    for name in Schema::class_names(records).map_err(model_trouble)? {
        // The names of built-in types keep their meaning.
        registry.register(Arc::new(ForeignType(name)));
    }
    let registry = Arc::new(registry);
    let options = firn_wide::Options { store: options(), registry, ..Default::default() };
    let wide = Wide::open_with(dir, options).map_err(model_trouble)?;
    Session::new(wide).map_err(|e| Failure::new(format!("cannot open {}: {e}", dir.display())))
}
