//! At what state a read looks: the newest, or a frozen one.

use firn_kv::{Seq, Snapshot};

use crate::base::error::Result;

use super::family::StoreFamily;
use super::moment::StoreMoment;
use super::point::CellValue;
use super::{CellStore, IndexRange, IndexScan, IndexWalk, Partitions, SliceReader, StoreSlice};

/// One state of all families that is read: a frozen one, or the newest at each look. While a frozen
/// one lives, compactions keep what it can see; drop it when done. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreView {
    store: CellStore,
    /// `None`: the newest.
    snapshot: Option<Snapshot>,
}

impl CellStore {
    /// The state of all families now, frozen.
    pub fn view(&self) -> StoreView {
        StoreView { store: self.clone(), snapshot: Some(self.0.db.snapshot()) }
    }

    /// The newest state of all families at each look: what one look sees, another need not.
    pub fn latest(&self) -> StoreView {
        StoreView { store: self.clone(), snapshot: None }
    }
}

macro_rules! reads {
    ($who:ty, $self:ident, $store:expr, $at:expr) => {
        impl $who {
            /// The live cell at a place.
            ///
            /// # Errors
            /// Errors of the engine, and `Corrupt`.
            #[inline]
            pub fn get(&$self, family: &StoreFamily, key: &[u8], place: &[u8]) -> Result<Option<CellValue>> {
                $store.get_at($at, family, key, place)
            }

            /// The live cells at several places of a partition, of one moment.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn get_many<P: AsRef<[u8]>>(&$self, family: &StoreFamily, key: &[u8], places: &[P]) -> Result<Vec<Option<CellValue>>> {
                $store.get_many_at($at, family, key, places)
            }

            /// A reader of a slice of one partition. It stands in the partition from the start.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn read(&$self, family: &StoreFamily, key: &[u8], slice: &StoreSlice) -> Result<SliceReader> {
                $store.read_at($at, family, key, slice)
            }

            /// A reader of a slice of each partition of a range, in the order of their tokens.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn scan(&$self, family: &StoreFamily, range: &Partitions, slice: &StoreSlice) -> Result<SliceReader> {
                $store.scan_at($at, family, range, slice)
            }

            /// The rows whose indexed column has this value, from the partition of a key on, in the
            /// order of tokens.
            ///
            /// # Errors
            /// `InvalidRequest` when the family has no such index, or it is being built; else as
            /// [`get`](Self::get).
            pub fn index(&$self, family: &StoreFamily, index: u32, value: &[u8], from: Option<&[u8]>) -> Result<IndexScan> {
                $store.index_at($at, family, index, value, from)
            }

            /// The entries of an index whose values are in a range, in the order of values, none
            /// looked at.
            ///
            /// # Errors
            /// As [`index`](Self::index).
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
    /// The sequence number of the state that is frozen; `None`: it reads the newest.
    pub fn seq(&self) -> Option<Seq> {
        self.snapshot.as_ref().map(Snapshot::seq)
    }

    /// The store.
    pub fn store(&self) -> &CellStore {
        &self.store
    }
}
