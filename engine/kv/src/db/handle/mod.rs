//! Public handles of the engine: the store, its trees, snapshots, iterators and transactions.

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
#[cfg(feature = "internals")]
pub mod replication;
mod scan;
pub mod snapshot;
pub mod subscription;
pub mod tables;
mod tree;
pub mod ttl;
pub mod txn;
pub mod update;
pub mod walk;
