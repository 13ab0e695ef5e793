//! Floor 2: common types of the engine. It has no I/O, no threads and no clocks.
//!
//! All higher floors may use this module. It knows nothing about files or trees.

pub mod blob_ref;
pub mod cursor;
pub mod error;
pub mod events;
pub mod facts;
pub mod format_version;
pub mod hooks;
pub mod identity;
pub mod key;
pub mod open_files;
pub mod ops;
pub mod options;
pub mod visible_seq;
