//! The limits of a statement.

/// How deeply terms, selectors, types and parentheses may be nested, and how many operators may
/// follow each other.
pub const MAX_DEPTH: u32 = 64;
/// The length of a statement, and of a script, in bytes.
pub const MAX_LENGTH: usize = 64 << 20;
/// How many terms and selectors a statement may have, those in collections included.
pub const MAX_TERMS: u32 = 1 << 20;
/// How many changes a batch may have, as in a request of the native protocol.
pub const MAX_CHANGES: usize = u16::MAX as usize;
/// How many bind markers a statement may have.
pub const MAX_MARKERS: u32 = u16::MAX as u32;
