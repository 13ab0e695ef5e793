//! Floor 0: common definitions of all modules.

pub mod error;
