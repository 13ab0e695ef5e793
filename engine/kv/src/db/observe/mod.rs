//! Observation of a running store: counters, latencies, events, and what holds space.

pub mod counters;
pub mod events;
pub mod meters;
pub mod pins;
