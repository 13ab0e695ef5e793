//! Workloads for key-value stores: db_bench's, YCSB's and mixgraph's, through one loop for every
//! engine.
//!
//! A driver implements [`Store`]; a [`Runner`] runs [`Phase`]s on it and returns an [`Outcome`] for
//! each. All loops are generic over the store, so that an engine pays only for its own calls: no
//! virtual call per operation, no allocation, a clock reading only on every
//! [`Config::sample_every`]-th operation.
//!
//! Properties of all workloads:
//! - Equal [`Config`]s and phases give every engine the same keys and values in the same order per
//!   thread. Each operation is calculated from its number ([`stream`]).
//! - Keys are numbers ([`keys`]), values are slices of a pool created in advance ([`values`]).
//! - A [`WorkloadDescription`] has keys, values, phases and the settings of the store. The simulator of
//!   compactions reads the same.
//! - All read data is touched: the first byte and the length of each value (and key, in scans)
//!   enter a sum that the compiler cannot drop.
//!
//! ```
//! use firn_workload::{Config, Phase, Runner, map::MapStore};
//! # fn main() -> firn_workload::Result<()> {
//! let store = MapStore::default();
//! let runner = Runner::new(Config { keys: 1000, ..Config::default() })?;
//! for phase in Phase::parse_list("filluniquerandom,readrandom:2,seekrandom@100")? {
//!     let outcome = runner.run(&store, &phase, |_| ())?;
//!     println!("{phase}: {:.0} operations a second, {} found", outcome.ops_per_second, outcome.found);
//! }
//! # Ok(())
//! # }
//! ```
// A benchmark reads clocks, starts threads and accesses files itself; none of it is engine code.
#![allow(clippy::disallowed_methods)]

pub mod cliffs;
pub mod config;
pub mod description;
pub mod dist;
pub mod embedding;
#[cfg(feature = "firn")]
pub mod firn;
pub mod keys;
pub mod limit;
pub mod map;
pub mod meter;
pub mod outcome;
pub mod phase;
pub mod process;
pub mod ranges;
pub mod recipe;
pub mod rng;
pub mod runner;
pub mod store;
pub mod stream;
pub mod values;

mod loops;

pub use config::Config;
pub use description::{StoreSettings, WorkloadDescription, WorkloadStep};
pub use dist::Distribution;
pub use outcome::{LatencyFigures, OpKind, Outcome, OutcomeClass, Point, RunProgress};
pub use phase::{Extent, OperationMix, Phase};
pub use ranges::KeyRanges;
pub use runner::Runner;
pub use store::{Direction, Error, Result, Store, StoreBatch, StoreStats, fold};
pub use values::ValueSize;

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct WorkloadReadme;
