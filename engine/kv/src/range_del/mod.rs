//! Floor 3: range deletions: sorted lists of them, and fragments that do not overlap.

pub mod deletions;
pub mod tombstone;
