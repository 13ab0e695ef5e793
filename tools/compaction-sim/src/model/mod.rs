//! The simulator: its event loop ([`sim`]), the two models of a tree's data ([`exact`], [`summary`])
//! with one interface ([`store`]), the machine and its device, and the measured outcome ([`meter`]).

#[doc(hidden)]
pub mod blobs;
mod division;
#[doc(hidden)]
pub mod exact;
pub mod filters;
mod jobs;
pub mod latency;
pub mod machine;
pub mod meter;
#[doc(hidden)]
pub mod setup;
mod shape;
pub mod sim;
pub mod size;
mod slowdown;
pub mod ssd;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod summary;
