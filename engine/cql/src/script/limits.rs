//! Limits of function bodies.

/// Name of the language in `LANGUAGE`.
pub const LANGUAGE: &str = "rhai";
/// Maximum number of operations of one call.
pub const MAX_OPERATIONS: u64 = 100_000;
/// Maximum depth of nested calls.
pub const MAX_CALLS: usize = 32;
/// Maximum depth of nested expressions.
pub const MAX_NESTING: usize = 32;
/// Maximum bytes of a text, and of all texts in an array or map.
pub const MAX_TEXT: usize = 256 << 10;
/// Maximum number of elements of an array, including nested arrays, and maximum bytes of a blob.
pub const MAX_ELEMENTS: usize = 8192;
/// Maximum number of entries of a map, including nested maps.
pub const MAX_ENTRIES: usize = 4096;
/// Maximum number of variables at one time, and of functions that a body defines.
pub const MAX_NAMES: usize = 64;
/// Maximum nesting depth of a result.
pub const MAX_DEPTH: usize = 64;
