//! Integration tests of the command `sstable-dump`, one module a subject.

mod blobs;
mod bounds;
mod cassandra;
mod cli;
mod current;
mod cuts;
mod damage;
mod floors;
mod foreign_files;
mod golden;
mod golden_stores;
#[path = "../examples/health.rs"]
#[allow(dead_code, reason = "a program, of which the tests are run here")]
mod health;
mod identity;
mod lost_records;
mod nameless;
mod raw;
mod robust;
mod salvage;
mod stores;
mod support;
mod truth;
