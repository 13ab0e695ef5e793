//! An open column family: its tree, its indexes, and the kinds of deletions that it may contain.
//!
//! Invariants:
//! - Every kind of deletion in the tree has its flag set, here and in the schema tree. The flag is
//!   set before the first such deletion is committed, and recorded in the same batch. Readers check
//!   the flags after they have taken their snapshot.
//! - A family belongs to the store that opened it. A drop first marks it, then waits for writers
//!   that hold a stripe, and then drops its tree. A writer that finds it open under a stripe may
//!   write.
//! - Extending a layout creates another handle of the family, which shares its state. Holders of
//!   the old handle continue with the old layout.
//! - Writers read the indexes under a stripe's lock; [`StoreFamily::set_indexes`] takes all of
//!   those locks once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::key::Layout;
use firn_kv::{Tree, TreeOptions};
use parking_lot::RwLock;

use super::indexed::{IndexSpec, StoredIndex};
use super::view_rows::ViewRows;

/// Definition of a family for the store.
#[derive(Clone, Debug)]
pub struct FamilySpec {
    /// Id, which names its tree; never reused for another family.
    pub id: u32,
    /// Layout of its keys. It may only be [extended](Layout::extends).
    pub layout: Layout,
    /// Whether its cells are counters. Does not change.
    pub counter: bool,
    /// Time in seconds for which tombstones are retained.
    pub gc_grace: u32,
    /// Indexes. None in a family of counters.
    pub indexes: Vec<IndexSpec>,
    /// Options of its tree; hooks are set by the store.
    pub tree: TreeOptions,
    /// Whether it has views: writes are refused until [`set_views`](super::CellStore::set_views)
    /// registers them. Used at the first opening of the family.
    pub has_views: bool,
}

/// Write access to a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyAccess {
    Open = 0,
    /// It is being copied to another one.
    Moving = 1,
    Dropped = 2,
}

/// Kinds of deletions, as flags.
pub(super) const PARTITIONS: u8 = 1;
pub(super) const RANGES: u8 = 2;
pub(super) const ROWS: u8 = 4;
pub(super) const COMPLEX: u8 = 8;

/// An open family. Clones are cheap and share it.
#[derive(Clone)]
pub struct StoreFamily(pub(super) Arc<OpenFamily>);

/// A view of a family.
#[derive(Clone)]
pub struct StoredView {
    /// Family with its rows.
    pub family: StoreFamily,
    /// Computes its rows.
    pub rows: Arc<dyn ViewRows>,
}

/// Views of a family at one time.
#[derive(Default)]
pub(super) struct FamilyViews {
    /// Layout of the base rows. `None`: the views are not registered yet.
    pub rows: Option<Layout>,
    pub all: Vec<StoredView>,
}

impl std::fmt::Debug for StoredView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredView").field("family", &self.family).finish_non_exhaustive()
    }
}

/// Identifies an open store by its address.
#[derive(Default)]
pub(super) struct StoreMark;

/// Indexes of a family at one time.
pub(super) type Indexes = Arc<Vec<Arc<StoredIndex>>>;

pub(super) struct OpenFamily {
    pub id: u32,
    /// Mark of the store that opened it.
    pub owner: Arc<StoreMark>,
    pub layout: Layout,
    pub counter: bool,
    pub tree: Tree,
    pub state: Arc<FamilyState>,
}

/// Mutable state of an open family.
#[derive(Default)]
pub(super) struct FamilyState {
    /// A [`FamilyAccess`].
    pub access: AtomicU8,
    /// Kinds of deletions that may exist.
    pub kinds: AtomicU8,
    /// Kinds of deletions that are recorded in the schema tree.
    pub recorded: AtomicU8,
    pub has_indexes: AtomicBool,
    pub indexes: RwLock<Indexes>,
    pub has_views: AtomicBool,
    pub views: RwLock<Arc<FamilyViews>>,
}

impl std::fmt::Debug for StoreFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("id", &self.0.id).finish_non_exhaustive()
    }
}

impl StoreFamily {
    /// Returns the id.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// Returns the layout of its keys.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Reports whether its cells are counters.
    pub fn is_counter(&self) -> bool {
        self.0.counter
    }

    /// Returns its tree in the engine.
    pub fn tree(&self) -> &Tree {
        &self.0.tree
    }

    /// Reports whether it belongs to this store and may be written to.
    #[inline]
    pub(super) fn is_of(&self, store: &Arc<StoreMark>) -> bool {
        Arc::ptr_eq(&self.0.owner, store)
            && self.0.state.access.load(Ordering::Acquire) == FamilyAccess::Open as u8
    }

    #[inline]
    pub(super) fn kinds(&self) -> u8 {
        self.0.state.kinds.load(Ordering::Acquire)
    }

    pub(super) fn indexes(&self) -> Indexes {
        self.0.state.indexes.read().clone()
    }

    #[inline]
    pub(super) fn has_indexes(&self) -> bool {
        self.0.state.has_indexes.load(Ordering::Acquire)
    }

    pub(super) fn views(&self) -> Arc<FamilyViews> {
        self.0.state.views.read().clone()
    }

    #[inline]
    pub(super) fn has_views(&self) -> bool {
        self.0.state.has_views.load(Ordering::Acquire)
    }

    /// Reports whether writes to it also write to indexes or views.
    #[inline]
    pub(super) fn is_followed(&self) -> bool {
        self.has_indexes() || self.has_views()
    }

    /// Returns the family with another layout.
    pub(super) fn with_layout(&self, layout: Layout) -> StoreFamily {
        let OpenFamily { id, owner, counter, tree, state, .. } = &*self.0;
        StoreFamily(Arc::new(OpenFamily {
            id: *id,
            owner: owner.clone(),
            layout,
            counter: *counter,
            tree: tree.clone(),
            state: state.clone(),
        }))
    }

    pub(super) fn set_indexes(&self, indexes: Vec<Arc<StoredIndex>>) {
        self.0.state.has_indexes.store(!indexes.is_empty(), Ordering::Release);
        *self.0.state.indexes.write() = Arc::new(indexes);
    }
}
