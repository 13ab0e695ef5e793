//! State that all clones of an open store share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::{Db, Durability, Env, Tree};
use parking_lot::RwLock;

use crate::base::error::{Error, Result, invalid};

use super::clock::{Clock, Ticker};
use super::family::{FamilyAccess, StoreFamily, StoreMark};
use super::stripes::Stripes;

/// An open store. Clones are cheap and share it.
#[derive(Clone)]
pub struct CellStore(pub(super) Arc<SharedStore>, pub(super) HandleSettings);

/// Settings of one handle of a store.
#[derive(Clone, Default)]
pub(super) struct HandleSettings {
    /// When set, the operations of the handle end.
    pub stop: Option<Arc<AtomicBool>>,
    /// Current time in seconds since 1970. `None`: the clock's.
    pub now: Option<i64>,
}

/// State that all clones of a store share.
pub(super) struct SharedStore {
    /// Identifies the store in its families.
    pub mark: Arc<StoreMark>,
    pub env: Arc<dyn Env>,
    pub db: Db,
    /// Handle of `db` for unsynced writes. [`CellStore::sync_if`] syncs them.
    pub writer: Db,
    pub schema: Tree,
    pub clock: Arc<dyn Clock>,
    pub ticker: Ticker,
    pub stripes: Stripes,
    pub families: RwLock<BTreeMap<u32, StoreFamily>>,
}

/// Returns the key of the record that a family may contain deletions of one kind.
pub(super) fn kind_record(id: u32, kind: u8) -> Vec<u8> {
    [&b"\0kind"[..], &id.to_be_bytes(), &[kind]].concat()
}

impl std::fmt::Debug for CellStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl CellStore {
    /// Returns the tree `system.schema`. Keys that begin with a zero byte belong to the store.
    pub fn schema_tree(&self) -> &Tree {
        &self.0.schema
    }

    /// Returns an error if the operations of this handle are stopped.
    #[inline]
    pub(super) fn check_stop(&self) -> Result<()> {
        match &self.1.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(Error::Stopped),
            _ => Ok(()),
        }
    }

    pub(super) fn check_open(&self, family: &StoreFamily) -> Result<()> {
        if family.is_of(&self.0.mark) { Ok(()) } else { Err(foreign(family)) }
    }

    pub(super) fn sync_if(&self, durability: Durability) -> Result<()> {
        if durability == Durability::Power {
            self.0.db.sync()?;
        }
        Ok(())
    }
}

#[cold]
fn foreign(family: &StoreFamily) -> Error {
    let what = match family.0.state.access.load(Ordering::Acquire) {
        moving if moving == FamilyAccess::Moving as u8 => {
            "is written anew, and can't be changed until that is done"
        }
        _ => "has been dropped or belongs to another store",
    };
    invalid(format!("family {} {what}", family.0.id))
}
