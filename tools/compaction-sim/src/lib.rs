//! Firn's compaction policies on virtual tables: how many bytes a store would write, how much space
//! it would take and how long its writers would wait, without the store.

pub mod advise;
pub mod batch;
pub mod candidates;
pub mod cli;
pub mod commands;
pub mod course;
pub mod drawn;
pub mod engine;
pub mod exact;
mod figure;
pub mod filters;
pub mod history;
pub mod html;
pub mod idea;
pub mod latency;
pub mod machine;
pub mod meter;
pub mod paper;
pub mod plot;
pub mod policy;
pub mod question;
pub mod recorded;
pub mod report;
pub mod reproduce;
mod rocksdb_trace;
pub mod script;
pub mod sim;
pub mod size;
pub mod sketch;
pub mod ssd;
pub mod store;
pub mod summary;
pub mod tell;
pub mod trace;
pub mod validate;
pub mod workload;
