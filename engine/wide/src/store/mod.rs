//! Floor 2: an open store: families, writes of mutations, reads of partitions, indexes. Keys are
//! those of [`key`](crate::key), values those of [`cell`](crate::cell).
//!
//! One engine [`Db`] contains everything: a tree `system.schema`, a tree `cf-<id>` for each family,
//! and a tree `ix-<id>` for each index. Keys in `system.schema` that begin with a zero byte belong
//! to the store.
//!
//! Invariants:
//! - The mutations of a call are one engine batch: readers and crashes see all of them or none.
//! - **The version stored later wins.** A write locks the stripes of its partitions. A write newer
//!   than every timestamp of its stripe needs no comparison. Any other write is compared with
//!   existing data under the lock. It is skipped if it loses against the cell or deletion at its
//!   key, or against a deletion that covers it. So the newest version of a key is the valid one,
//!   and reads never compare versions. Compactions may assume that a deletion is newer than
//!   everything that it covers.
//! - The recorded bound of a stripe is at least as large as every timestamp written to its
//!   partitions.
//! - A materialized view always contains the rows computed from its base.

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
mod row_item;
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
pub use reader::SliceReader;
pub use row_item::{Body, RowItem};
pub use shared::CellStore;
pub use slice::{Partitions, StoreSlice};
pub use trees::{SCHEMA_TREE, TreeName, is_remembered};
pub use view::StoreView;
pub use view_rows::{RowParts, ViewPlace, ViewRows};

use shared::kind_record;
