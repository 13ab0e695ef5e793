//! Floor 0: the language of user-defined functions. It has no CQL types; `values` converts between
//! its values and bytes.
//!
//! A body can access only its arguments: no files, network, clock or other functions of the
//! database. Comparators of column families may be scripts too ([`with_scripts`]). Limits
//! ([`MAX_OPERATIONS`] and others) guarantee that every call ends, possibly with an error. Without
//! the feature `rhai`, functions can be stored, but calls are refused.

#[cfg(feature = "rhai")]
mod engine;
mod limits;
mod order;
mod program;
#[cfg(feature = "rhai")]
mod thread;
mod value;

pub use limits::{
    LANGUAGE, MAX_CALLS, MAX_DEPTH, MAX_ELEMENTS, MAX_ENTRIES, MAX_NAMES, MAX_NESTING,
    MAX_OPERATIONS, MAX_TEXT,
};
pub use order::with_scripts;
pub use program::ScriptProgram;
pub use value::ScriptValue;
