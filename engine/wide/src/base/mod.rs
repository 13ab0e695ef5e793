//! Floor 0: what every room uses.

pub mod error;
