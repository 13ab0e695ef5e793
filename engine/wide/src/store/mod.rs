//! Floor 2: one open store: families, writes of mutations, reads of partitions, indexes. Bytes of
//! keys are those of [`key`](crate::key), values those of [`cell`](crate::cell).
//!
//! One engine [`Db`] holds everything: a tree `system.schema` (whose keys that begin with a zero
//! byte are the store's own), a tree `cf-<id>` per family, a tree `ix-<id>` per index.
//!
//! Invariants:
//! - A call's mutations are one engine batch: readers and crashes see all of them or none.
//! - **What is stored later wins.** A write locks the stripes of its partitions. What is newer than
//!   every timestamp that its stripe has seen needs no look at what is there; everything else is
//!   compared with what is there under the lock, and isn't written when it loses, be it against the
//!   cell or deletion of its key or against a deletion that covers it. So the newest version of a
//!   key is the one that counts, reads never compare versions, and compactions may rely on it that
//!   a deletion is newer than all that it covers.
//! - A stripe's bound on record is at least as large as every timestamp that was written to its
//!   partitions.
//! - A materialized view holds what its base makes of it, at every moment.

mod clock;
pub mod copies;
mod drops;
mod family;
pub mod hooks;
mod index;
mod index_walk;
mod indexed;
pub mod loss;
mod materialized;
mod moment;
mod moved;
mod mutation;
mod open;
mod point;
mod purge;
mod ranges;
mod reader;
mod shared;
mod slice;
mod stripes;
mod trees;
mod view;
mod view_rows;
mod write;
mod write_plan;

pub use clock::{Clock, ManualClock};
pub use drops::DroppedFamilies;
pub use family::{FamilySpec, StoreFamily, StoredView};
pub use index::{IndexHit, IndexScan};
pub use index_walk::{IndexEntry, IndexRange, IndexWalk};
pub use indexed::{IndexPart, IndexSpec};
pub use moved::MovedPlaces;
pub use mutation::{MutatedBody, MutatedPlace, StoreMutation};
pub use open::StoreOptions;
pub use point::CellValue;
pub use purge::{Blocker, Grace, PurgeReport, TablePurge};
pub use reader::{Body, RowItem, SliceReader};
pub use shared::CellStore;
pub use slice::{Partitions, StoreSlice};
pub use trees::{SCHEMA_TREE, TreeName};
pub use view::StoreView;
pub use view_rows::{RowParts, ViewPlace, ViewRows};

use shared::kind_record;
