//! Integration tests of the simulator, one module per subject.

mod advise;
mod blobs;
mod closed;
#[path = "../examples/compare.rs"]
#[allow(dead_code, reason = "a program, of which the tests are run here")]
mod compare;
mod exact;
mod filters;
mod floors;
#[path = "../examples/idea.rs"]
#[allow(dead_code, reason = "a program, of which the tests are run here")]
mod idea;
mod invariants;
mod latency;
mod output;
mod page;
mod reproduce;
mod skew;
mod summary;
