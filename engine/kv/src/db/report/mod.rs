//! Reports about a store: statistics, metrics, traces.

#[cfg(feature = "prometheus")]
pub mod metrics;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod snapshot_space;
pub mod stats;
#[cfg(feature = "tracing")]
pub mod tracing;
