//! Floor 0: compaction: which tables are merged, moved or dropped, and when.
//!
//! - [`shape`]: the plain-data picture of a tree and of one unit of work; `tables`: those of a run,
//!   with their sums.
//! - [`policy`]: the policies and their registry, each a file; over [`describe`], what a policy
//!   says of itself, `strategy`, what it does, and `view`, what of a shape several of them need.
//! - [`choose`]: the most urgent work, what there is to do in all; with `deletes`, `expired` and
//!   `readers`, which are common to policies, and `adopt`, what of a merge need not be written again.
//! - `steps`: what of a merge is put in place before the rest is written.
//! - `division`: in how many pieces a large job is done, and where it is divided.
//! - `filters`: how runs share the memory of filters.
//! - [`space`]: how much room a policy may take; [`pace`]: how much writers are slowed.
//!
//! All are pure: no I/O, no threads, no clocks. The engine, the simulator and the text tests in
//! `tests/policies` run this very code. They know of nothing else in the engine, so options, the
//! manifest and tools can name policies.

mod adopt;
pub mod choose;
mod deletes;
pub mod describe;
mod division;
mod expired;
mod filters;
pub mod pace;
pub mod policy;
mod readers;
pub mod shape;
pub mod space;
mod steps;
mod strategy;
mod tables;
mod values;
mod view;

pub use choose::{Blocked, debt, manual, pick, run_limits};
pub use division::{least_flushed, marks_of_each, piece_ends, pieces_of};
pub use filters::{FilteredRun, flushed_bits, merged_bits, share_bits, whole_bits};
pub use pace::{delay, fill_delay, pressure};
pub use readers::{LEAST_TOLL, is_paid};
pub use shape::{
    Action, CompactionInput, CompactionJob, CompactionReason, LsmShape, OutputSplits, RunShape,
    TableShape,
};
pub use space::{SpaceBound, fits, one_copy, space_bound};
pub use steps::steps;
pub use tables::RunTables;
pub use values::{ValueFileShape, given_up};
