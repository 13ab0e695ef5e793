//! Integration tests of the command `firn`, one module per subject.

mod backup;
mod bench;
mod cassandra;
mod changes;
mod check;
mod cli;
mod common;
mod comparators;
mod connect;
mod console;
mod cql;
mod explain;
mod export;
mod floors;
mod follow;
mod install;
mod kills;
mod migrate;
mod migrate_follow;
mod migrate_from;
mod newer;
#[cfg(unix)]
mod odd_files;
mod otlp;
mod pages;
mod replication;
mod serve;
mod source_texts;
mod terminal;
mod torture;
mod transfer;
mod trees;
mod truth;
mod wide;
