//! State for reads: the newest, or a snapshot.

use firn_kv::{Seq, Snapshot};

use crate::base::error::Result;

use super::family::StoreFamily;
use super::moment::StoreMoment;
use super::point::CellValue;
use super::{CellStore, IndexRange, IndexScan, IndexWalk, Partitions, SliceReader, StoreSlice};

/// A state of all families for reads: a snapshot, or the newest state at each read. Compactions
/// retain the data that a snapshot can see, so drop it when done. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreView {
    store: CellStore,
    /// `None`: the newest state.
    snapshot: Option<Snapshot>,
}

impl CellStore {
    /// Returns a snapshot of the current state of all families.
    pub fn view(&self) -> StoreView {
        self.view_of(self.0.db.snapshot())
    }

    /// Returns the state of all families in a snapshot of the store's engine.
    pub fn view_of(&self, snapshot: Snapshot) -> StoreView {
        StoreView { store: self.clone(), snapshot: Some(snapshot) }
    }

    /// Returns the newest state of all families at each read: two reads may see different states.
    pub fn latest(&self) -> StoreView {
        StoreView { store: self.clone(), snapshot: None }
    }
}

macro_rules! reads {
    ($who:ty, $self:ident, $store:expr, $at:expr) => {
        impl $who {
            /// Returns the live cell at a position.
            ///
            /// # Errors
            /// Errors of the engine, and `Corrupt`.
            #[inline]
            pub fn get(&$self, family: &StoreFamily, key: &[u8], place: &[u8]) -> Result<Option<CellValue>> {
                $store.get_at($at, family, key, place)
            }

            /// Returns the live cells at several positions of a partition, from one snapshot.
            ///
            /// # Errors
            /// Those of [`get`](Self::get).
            pub fn get_many<P: AsRef<[u8]>>(&$self, family: &StoreFamily, key: &[u8], places: &[P]) -> Result<Vec<Option<CellValue>>> {
                $store.get_many_at($at, family, key, places)
            }

            /// Returns a reader of a slice of one partition. It is positioned in the partition from
            /// the start.
            ///
            /// # Errors
            /// Those of [`get`](Self::get).
            pub fn read(&$self, family: &StoreFamily, key: &[u8], slice: &StoreSlice) -> Result<SliceReader> {
                $store.read_at($at, family, key, slice)
            }

            /// Returns a reader of a slice of each partition in a range, in token order.
            ///
            /// # Errors
            /// Those of [`get`](Self::get).
            pub fn scan(&$self, family: &StoreFamily, range: &Partitions, slice: &StoreSlice) -> Result<SliceReader> {
                $store.scan_at($at, family, range, slice)
            }

            /// Returns the rows whose indexed column has this value, from the partition of a key
            /// on, in token order.
            ///
            /// # Errors
            /// `InvalidRequest` if the family has no such index, or if it is being built; those of
            /// [`get`](Self::get).
            pub fn index(&$self, family: &StoreFamily, index: u32, value: &[u8], from: Option<&[u8]>) -> Result<IndexScan> {
                $store.index_at($at, family, index, value, from)
            }

            /// Returns the entries of an index with values in a range, in the order of values,
            /// without checking them.
            ///
            /// # Errors
            /// Those of [`index`](Self::index).
            pub fn walk_index(&$self, family: &StoreFamily, index: u32, range: IndexRange<'_>) -> Result<IndexWalk> {
                $store.walk_index_at($at, family, index, range)
            }
        }
    };
}

reads!(CellStore, self, self, StoreMoment::Now);
reads!(
    StoreView,
    self,
    self.store,
    self.snapshot.as_ref().map_or(StoreMoment::Now, StoreMoment::Then)
);

impl StoreView {
    /// Returns the sequence number of the snapshot; `None` if it reads the newest state.
    pub fn seq(&self) -> Option<Seq> {
        self.snapshot.as_ref().map(Snapshot::seq)
    }

    /// Returns the store.
    pub fn store(&self) -> &CellStore {
        &self.store
    }
}
