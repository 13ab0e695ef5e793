//! Floor 0: the language that functions of users are written in. It knows no types of CQL; `values`
//! makes its values of bytes and bytes of them.
//!
//! A body can reach nothing but its arguments: no file, no network, no clock, no other function of
//! the database. Orders of column families may be scripts too ([`with_scripts`]). What it may use
//! is limited ([`MAX_OPERATIONS`] and the others), so that every call ends, with an error if need
//! be. Without the feature `rhai` functions are kept, and a call of one is refused.

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
