//! An in-memory store that holds changes of tables as they are stored, and nothing else. So a
//! change can be read like a whole table.

use std::fmt;
use std::sync::Arc;

use firn_kv::{BatchOp, DbOptions, Env, TreeOptions};
use firn_tools::output::Done;
use firn_wide::internals::key::ROWS;
use firn_wide::internals::store::{
    CellStore, FamilySpec, StoreFamily, StoreMutation, StoreOptions, StoreView,
};

use crate::model_trouble;

/// Memtable budget in bytes.
const BUDGET: usize = 64 << 20;

/// The in-memory store.
pub struct MirrorStore(CellStore);

impl fmt::Debug for MirrorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorStore").finish_non_exhaustive()
    }
}

impl MirrorStore {
    /// Creates an empty store in this environment.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn new(env: Arc<dyn Env>) -> Done<MirrorStore> {
        let db = DbOptions {
            background_threads: 0,
            memory_budget: BUDGET,
            wal_segment: 1 << 20,
            event_log: false,
            ..DbOptions::default()
        };
        let options = StoreOptions { db, clock: None, ..StoreOptions::default() };
        CellStore::open_in(env, "mirror", options).map(MirrorStore).map_err(model_trouble)
    }

    /// Opens the mirror of a column family.
    ///
    /// # Errors
    /// Errors of creating it.
    pub fn open(&self, family: &StoreFamily) -> Done<StoreFamily> {
        let spec = FamilySpec {
            id: family.id(),
            layout: family.layout().clone(),
            counter: family.is_counter(),
            gc_grace: u32::MAX,
            indexes: vec![],
            tree: TreeOptions::default(),
            has_views: false,
        };
        let mirrored = self.0.open_family(spec).map_err(model_trouble)?;
        if !mirrored.is_counter() {
            self.know_deletions(&mirrored)?;
        }
        Ok(mirrored)
    }

    /// Marks a column family as possibly having deletions of each type: changes are put in as
    /// stored.
    fn know_deletions(&self, family: &StoreFamily) -> Done {
        let mut place = vec![];
        let layout = family.layout();
        layout.put_static(&1_u16.to_be_bytes(), &mut place).map_err(model_trouble)?;
        let mut all = StoreMutation::new(b"any");
        all.delete_complex(family, &place, 1);
        all.delete_row(family, &place, 1);
        all.delete_range(family, &[ROWS], &[ROWS + 1], 1);
        all.delete_partition(family, 1);
        self.0.apply(&[all], firn_kv::Durability::Process).map_err(model_trouble)?;
        self.truncate(family)
    }

    /// Applies an operation as stored. The data that a deletion covers is not there, and the
    /// deletion itself is a put.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn apply(family: &StoreFamily, op: &BatchOp<'_>) -> Done {
        match op {
            BatchOp::Put { key, value, .. } => family.tree().put(key, value)?,
            BatchOp::Merge { key, operand, .. } => family.tree().merge(key, operand)?,
            _ => {}
        }
        Ok(())
    }

    /// Removes everything from the mirror of a column family.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn truncate(&self, family: &StoreFamily) -> Done {
        self.0.truncate(family).map_err(model_trouble)
    }

    /// Returns a view of the present state.
    pub fn latest(&self) -> StoreView {
        self.0.latest()
    }
}
