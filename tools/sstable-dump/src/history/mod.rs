//! The history of a store, from manifests, event log, log and tables: which files are its own and current.

pub mod current;
pub mod event_log;
pub mod evidence;
pub mod gather;
pub mod owner;
pub mod recovered;
