//! Integration tests of the engine, with one module for each subject.

mod api;
mod append;
mod auto_traits;
mod bad_input;
mod basics;
mod bitflips;
mod blobs;
mod bounds;
mod changes;
mod close;
mod copies;
mod crash;
mod custom_policy;
mod deletes;
mod draw;
#[path = "../examples/encrypted/env.rs"]
mod encrypted;
#[path = "../examples/encrypted/tests.rs"]
mod encrypted_example;
mod env;
mod explain;
mod faults;
mod filter_allocation;
mod floors;
mod forked;
mod formats;
mod gaps;
mod golden;
mod history;
mod hooks;
mod identity;
#[path = "../examples/jobs.rs"]
#[allow(dead_code, reason = "this example program's tests run here")]
mod jobs;
mod large;
mod left_behind;
mod locks;
mod long_values;
mod long_walks;
mod longest;
mod memory;
mod model;
mod moved;
mod moves;
mod observe;
mod open_files;
mod operands;
mod options;
mod panics;
mod pieces;
mod policies;
mod probation;
mod public_api;
mod queue;
mod read_triggered;
mod reader;
mod reads;
mod refusals;
mod replay;
mod small;
mod space;
mod spec;
mod subscriptions;
mod throttle;
mod ttl;
mod walks_ahead;
