//! Jobs that write tables: flush, compaction, ingestion; their choice, and the threads that run
//! them.

pub mod background;
pub mod compact;
pub mod flush;
pub mod ingest;
pub mod install;
pub mod manual;
pub mod outputs;
pub mod pick;
pub mod subcompactions;
pub mod workers;
