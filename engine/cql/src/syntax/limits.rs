//! Limits of a statement.

/// Maximum nesting depth of terms, selectors, types and parentheses, and maximum number of
/// consecutive operators.
pub const MAX_DEPTH: u32 = 64;
/// Maximum bytes of a statement, and of a script.
pub const MAX_LENGTH: usize = 64 << 20;
/// Maximum number of terms and selectors of a statement, including those in collections.
pub const MAX_TERMS: u32 = 1 << 20;
/// Maximum number of changes in a batch, as in a request of the native protocol.
pub const MAX_CHANGES: usize = u16::MAX as usize;
/// Maximum number of bind markers of a statement.
pub const MAX_MARKERS: u32 = u16::MAX as u32;
