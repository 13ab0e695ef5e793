//! Integration tests of replication, one module for each subject.

mod common;
mod copies;
mod crashes;
mod following;
mod strangers;
