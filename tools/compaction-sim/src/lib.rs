//! Firn's compaction policies on virtual tables.
pub mod exact;
pub mod machine;
pub mod size;
pub mod store;
pub mod summary;
pub mod workload;
