//! What a body may use.

/// The language, as `LANGUAGE` names it.
pub const LANGUAGE: &str = "rhai";
/// Steps of one call.
pub const MAX_OPERATIONS: u64 = 100_000;
/// Calls of functions within each other.
pub const MAX_CALLS: usize = 32;
/// Expressions within each other.
pub const MAX_NESTING: usize = 32;
/// Bytes of a text, and of all texts in an array or map.
pub const MAX_TEXT: usize = 256 << 10;
/// Elements of an array with those of the arrays in it, and bytes of a blob.
pub const MAX_ELEMENTS: usize = 8192;
/// Entries of a map with those of the maps in it.
pub const MAX_ENTRIES: usize = 4096;
/// Variables at one time, and functions that a body defines.
pub const MAX_NAMES: usize = 64;
/// How deep the parts of a result may be nested.
pub const MAX_DEPTH: usize = 64;
