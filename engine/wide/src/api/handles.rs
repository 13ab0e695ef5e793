//! The handles of a database and of a keyspace, which all calls are made with.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_kv::Durability;
use parking_lot::{Mutex, RwLock};

use super::state::{ApiState, ApiTable};
use crate::base::error::Result;
use crate::ring::Partitioner;
use crate::store::CellStore;
use crate::types::{ComparatorLanguage, Registry};

/// An open database of keyspaces. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Wide {
    pub(super) shared: Arc<SharedApi>,
    /// The store that this handle reads and builds through: it may be a stoppable one.
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
    /// How often definitions were changed.
    pub(super) serial: AtomicU64,
    /// The lock for changes of definitions.
    pub(super) changes: Mutex<()>,
    /// Who says which names in keyspaces are not free though no family has them.
    pub(super) names: RwLock<Option<Arc<NamesElsewhere>>>,
}

/// Whether a layer above has given a name in a keyspace to something of its own.
pub type NamesElsewhere = dyn Fn(&str, &str) -> bool + Send + Sync;

impl std::fmt::Debug for Wide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wide")
            .field("cluster_name", &self.shared.cluster_name)
            .finish_non_exhaustive()
    }
}

/// A keyspace: reads and writes of its families' rows. Cheap to clone. Calls fail once the keyspace
/// has been dropped.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(super) wide: Wide,
    pub(super) name: Arc<str>,
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database that it is in.
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
