//! Commit pipeline: the log, sequence numbers, and the memtables that writers enter.

pub mod mem_handle;
pub mod probe_schedule;
pub mod write_state;
