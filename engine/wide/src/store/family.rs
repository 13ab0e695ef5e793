//! One column family as it is open: its tree, its indexes, and what kinds of deletions it may hold.
//!
//! Invariants:
//! - A kind of deletion that is anywhere in the tree has its flag set, here and in the schema tree:
//!   the flag is set before the first such deletion is committed, and recorded in the same batch.
//!   Readers look at the flags after they have taken their state.
//! - A family belongs to the store that opened it. It is marked as dropped before writers who hold
//!   a stripe are waited for, and its tree goes after that: who has found it open under a stripe
//!   may write.
//! - A layout that is extended makes another handle of the family, which shares its state. Who has
//!   the one of before goes on with the keys that there were.
//! - Indexes are read by writers under a stripe's lock; [`StoreFamily::set_indexes`] takes all of
//!   those locks once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::key::Layout;
use firn_kv::{Tree, TreeOptions};
use parking_lot::RwLock;

use super::indexed::{IndexSpec, StoredIndex};
use super::view_rows::ViewRows;

/// The definition of a family, as the store needs it.
#[derive(Clone, Debug)]
pub struct FamilySpec {
    /// Names its tree; never used again for another family.
    pub id: u32,
    /// How its keys are made. May only be [extended](Layout::extends).
    pub layout: Layout,
    /// Whether its cells are counters. Doesn't change.
    pub counter: bool,
    /// How long tombstones are kept, in seconds.
    pub gc_grace: u32,
    /// Its indexes. None in a family of counters.
    pub indexes: Vec<IndexSpec>,
    /// Options of its tree; hooks are set by the store.
    pub tree: TreeOptions,
    /// Whether it has views: until [`set_views`](super::CellStore::set_views) says how they are kept,
    /// writes are refused. Looked at when the family is opened first.
    pub has_views: bool,
}

/// Whether a family may be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyAccess {
    Open = 0,
    /// All of it is put into another one.
    Moving = 1,
    Dropped = 2,
}

/// Kinds of deletions, as flags.
pub(super) const PARTITIONS: u8 = 1;
pub(super) const RANGES: u8 = 2;
pub(super) const ROWS: u8 = 4;
pub(super) const COMPLEX: u8 = 8;

/// An open family. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct StoreFamily(pub(super) Arc<OpenFamily>);

/// A view of a family.
#[derive(Clone)]
pub struct StoredView {
    /// Where its rows are.
    pub family: StoreFamily,
    /// How they are made.
    pub rows: Arc<dyn ViewRows>,
}

/// The views of a family at one moment.
#[derive(Default)]
pub(super) struct FamilyViews {
    /// Where the rows are that they are made of. None: it was not said yet which views there are.
    pub rows: Option<Layout>,
    pub all: Vec<StoredView>,
}

impl std::fmt::Debug for StoredView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredView").field("family", &self.family).finish_non_exhaustive()
    }
}

/// Tells one open store from others, by where it lies.
#[derive(Default)]
pub(super) struct StoreMark;

/// The indexes of a family at one moment.
pub(super) type Indexes = Arc<Vec<Arc<StoredIndex>>>;

pub(super) struct OpenFamily {
    pub id: u32,
    /// That of the store that opened it.
    pub owner: Arc<StoreMark>,
    pub layout: Layout,
    pub counter: bool,
    pub tree: Tree,
    pub state: Arc<FamilyState>,
}

/// What of an open family changes.
#[derive(Default)]
pub(super) struct FamilyState {
    /// A [`FamilyAccess`].
    pub access: AtomicU8,
    /// The kinds of deletions that may be there.
    pub kinds: AtomicU8,
    /// Those that the schema tree has on record.
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
    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// How its keys are made.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Whether its cells are counters.
    pub fn is_counter(&self) -> bool {
        self.0.counter
    }

    /// Its tree in the engine.
    pub fn tree(&self) -> &Tree {
        &self.0.tree
    }

    /// Whether it is a family of this store that may be written to.
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

    /// Whether a write to it writes elsewhere too: to indexes or views.
    #[inline]
    pub(super) fn is_followed(&self) -> bool {
        self.has_indexes() || self.has_views()
    }

    /// The same family with another layout.
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
