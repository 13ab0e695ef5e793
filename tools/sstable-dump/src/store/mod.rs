//! The files of a store's directory: under their true names, damaged or not, and while a program writes.

pub mod blobs;
pub mod log_copy;
pub mod merging;
pub mod names;
pub mod retry;
pub mod survey;
pub mod target;
