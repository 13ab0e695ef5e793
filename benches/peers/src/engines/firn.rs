//! Firn, with the default options of a tree.
//!
//! Its single memory budget covers the cache and up to two memtables of the other engines.

use std::path::Path;
use std::sync::Arc;

use firn_kv::{Compression, DbOptions, TreeOptions};
use firn_workload::Result;
use firn_workload::firn::{FirnStore, StoreSums};

use super::{Settings, Terms, built, lz4, mebibytes, values};

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<FirnStore> {
    let options = DbOptions {
        memory_budget: settings.cache + 2 * settings.memtable,
        background_threads: settings.background,
        ..DbOptions::default()
    };
    let compression = vec![if settings.lz4 { Compression::Lz4 } else { Compression::None }];
    let merge_operator = Some(Arc::new(StoreSums) as Arc<_>);
    let tree = TreeOptions {
        compression,
        memtable_size: settings.memtable,
        merge_operator,
        blob_threshold: settings.apart,
        ..TreeOptions::default()
    };
    FirnStore::open(dir, options, "default", tree)
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Result<Terms> {
    let budget = mebibytes(settings.cache + 2 * settings.memtable);
    Ok(Terms {
        built: built("firn-kv")?,
        memtable: mebibytes(settings.memtable),
        cache: format!("{budget}, memtables included"),
        background: settings.background.to_string(),
        compression: lz4(settings),
        filter: "8-bit binary fuse".into(),
        values: values(settings),
        put: "in the log, handed to the system",
        sync: "the log, one sync for all waiting writers",
        compact: "everything",
    })
}
