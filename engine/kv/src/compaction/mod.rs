//! Compaction: which tables are merged, moved or dropped, and when.
//!
//! [`shape`] is the plain-data picture of a tree and of one unit of work; [`policy`] chooses the work; [`space`] declares how much
//! room each policy may take; [`pace`] says how much writers are slowed. All four are pure: no I/O, no threads, no clocks. The
//! engine, the simulator and the text tests in `tests/policies` run this very code.

pub mod job;
pub mod pace;
pub mod policy;
pub mod shape;
pub mod space;

pub use pace::{delay, fill_delay, pressure};
pub use policy::{Blocked, debt, manual, pick, run_limits};
pub use shape::{Action, Cuts, Input, Job, Reason, RunShape, Shape, TableShape};
pub use space::{SpaceBound, fits, one_copy, space_bound};
