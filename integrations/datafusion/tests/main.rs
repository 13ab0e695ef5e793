//! Tests of the tables of DataFusion over stores in memory.

mod common;
mod plans;
mod predicates;
mod snapshots;
mod trees;
mod types;
