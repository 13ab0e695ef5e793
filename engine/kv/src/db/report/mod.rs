//! Reports about a store: statistics, metrics, traces.

pub mod prometheus;
pub mod snapshot_space;
pub mod stats;
#[cfg(feature = "tracing")]
pub mod tracing;
