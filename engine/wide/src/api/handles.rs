//! Handles of a database and of a keyspace, on which all calls are made.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_kv::Durability;
use parking_lot::{Mutex, RwLock};

use super::state::{ApiState, ApiTable};
use crate::base::error::Result;
use crate::ring::Partitioner;
use crate::store::CellStore;
use crate::types::{ComparatorLanguage, Registry};

/// An open database of keyspaces. Clones are cheap and share it.
#[derive(Clone)]
pub struct Wide {
    pub(super) shared: Arc<SharedApi>,
    /// Store of this handle for reads and index builds; it may be stoppable.
    pub(super) store: CellStore,
}

pub(super) struct SharedApi {
    pub(super) partitioner: Partitioner,
    pub(super) cluster_name: String,
    pub(super) durability: Durability,
    pub(super) memtable_size: usize,
    pub(super) registry: RwLock<Arc<Registry>>,
    pub(super) languages: Vec<Arc<dyn ComparatorLanguage>>,
    pub(super) state: RwLock<Arc<ApiState>>,
    /// Number of schema changes.
    pub(super) serial: AtomicU64,
    /// Lock for schema changes.
    pub(super) changes: Mutex<()>,
    /// Reports names in keyspaces that are in use although no family has them.
    pub(super) names: RwLock<Option<Arc<NameInUse>>>,
}

/// Reports whether a higher layer uses a name in a keyspace.
pub type NameInUse = dyn Fn(&str, &str) -> bool + Send + Sync;

impl std::fmt::Debug for Wide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wide")
            .field("cluster_name", &self.shared.cluster_name)
            .finish_non_exhaustive()
    }
}

/// A keyspace: reads and writes of its families' rows. Cheap to clone. Calls fail after the
/// keyspace is dropped.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(super) wide: Wide,
    pub(super) name: Arc<str>,
}

impl Keyspace {
    /// Returns the name of the keyspace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the database of the keyspace.
    pub fn wide(&self) -> &Wide {
        &self.wide
    }

    pub(super) fn table(&self, family: &str) -> Result<Arc<ApiTable>> {
        self.wide.shared.state.read().table(&self.name, family).cloned()
    }

    pub(super) fn store(&self) -> &CellStore {
        &self.wide.store
    }
}
