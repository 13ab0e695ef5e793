//! Memory budget of memtables, cache and jobs.

pub mod budget;
