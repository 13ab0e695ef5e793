//! Floor 1: compaction. Decides which tables are merged, moved or dropped, and when.
//!
//! - [`shape`]: plain-data model of a tree; [`job`]: of one compaction. `tables`: the tables of a
//!   run, with cached totals.
//! - [`policy`]: the compaction policies and their registry, one file each. They build on
//!   [`describe`] (declaration of name and parameters), `strategy` (decisions) and `view` (shared
//!   queries on a shape).
//! - [`custom`]: interface of policies outside the engine, and the checks of their requests.
//! - [`choose`]: picks the most urgent job and estimates the pending bytes. `deletes`, `expired`,
//!   `readers` and `values` hold rules common to several policies. `adopt` finds the inputs of a
//!   merge that need not be rewritten.
//! - `steps`: splits a merge into steps whose outputs are installed before the rest is written.
//! - `division`: number of subcompactions of a large job, and the keys that divide it.
//! - `filters`: distribution of filter memory among runs.
//! - [`space`]: space bound of a policy. [`pace`]: delay of writers.
//!
//! All of it is pure: no I/O, no threads, no clocks. The engine, the simulator and the text tests
//! in `tests/policies` run the same code. It depends on no other part of the engine, so options,
//! the manifest and tools can name policies.

mod adopt;
pub mod choose;
pub mod custom;
mod deletes;
pub mod describe;
mod division;
mod expired;
mod filters;
pub mod job;
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
pub use custom::ActivePolicy;
pub use division::{least_flushed, marks_of_each, piece_ends, pieces_of};
pub use filters::{FilteredRun, flushed_bits, merged_bits, share_bits, whole_bits};
pub use job::{Action, CompactionInput, CompactionJob, CompactionReason, OutputSplits};
pub use pace::{delay, fill_delay, pressure};
pub use readers::{MIN_READ_DEBT, is_paid};
pub use shape::{LsmShape, RunShape, TableShape};
pub use space::{SpaceBound, fits, one_copy, space_bound};
pub use steps::steps;
pub use tables::RunTables;
pub use values::{BlobFileShape, gc_files};
