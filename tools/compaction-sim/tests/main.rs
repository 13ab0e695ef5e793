//! Integration tests of the simulator, one module per subject.

mod advise;
mod blobs;
mod closed;
#[path = "../examples/compare.rs"]
#[allow(dead_code, reason = "a program, of which the tests are run here")]
mod compare;
#[path = "../examples/custom_policy.rs"]
#[allow(dead_code, reason = "a program, of which the tests are run here")]
mod custom;
mod exact;
mod filters;
mod floors;
mod invariants;
mod latency;
mod output;
mod page;
mod reproduce;
mod skew;
mod summary;
#[path = "../../../examples/policy-template/src/main.rs"]
#[allow(dead_code, reason = "a program, which `.ci/nightly template` runs")]
mod template;
mod template_policies;
