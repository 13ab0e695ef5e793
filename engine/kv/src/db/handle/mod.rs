//! What applications hold: the store, its trees, and what is got from them.

mod batch;
pub mod changes;
pub mod check;
pub mod cursor;
mod db;
mod debug;
pub mod handles;
mod load;
pub mod pause;
pub mod range;
pub mod readable;
mod scan;
pub mod snapshot;
pub mod tables;
mod tree;
pub mod ttl;
pub mod txn;
pub mod update;
pub mod walk;
