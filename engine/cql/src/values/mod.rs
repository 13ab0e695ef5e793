//! Floor 1, on the catalog's types: values: terms of statements made into bytes, bytes made into
//! values for people and for Rust (model 3.3, 3.5).
//!
//! - [`BoundTerm`]: a term of a statement, checked against what is wanted ([`Receiver`]);
//!   [`BoundTerm::eval`] gives its bytes.
//! - [`Value`]: a value by itself; [`literal`] and [`json`] are its text.
//! - [`plain`] and [`exported_json`]: its text in a file, which is read back as the same bytes.
//! - [`FromValue`], [`ToValue`], [`Values`]: Rust's own types.
//! - [`function`]: native functions, casts, arithmetic.
//!
//! Bytes of collections are those of the native protocol from version 3 on: a 4-byte count, each
//! part with a 4-byte length. Sets and maps are sorted and hold nothing twice, the last wins:
//! whatever bytes are bound, [`canonical`] brings them into that form before they are stored,
//! looked for or compared.

pub mod aggregate;
mod bytes;
mod call;
mod context;
mod convert;
mod exported;
pub mod function;
mod heap;
mod json;
mod literal;
mod logarithm;
mod mask;
mod native;
pub(crate) mod number;
mod plain;
mod term;
mod user;
mod value;
pub mod vector;

pub use bytes::{canonical, put_collection, put_many, put_parts, put_tuple, split};
pub use call::{ArgumentFit, CallArguments};
pub use context::{Context, Markers, Receiver};
pub(crate) use convert::check_amount;
pub use convert::{FromValue, Named, ToValue, Values};
pub use exported::{exported_json, from_exported_json};
pub(crate) use heap::HeapBytes;
pub use json::{from_json, is_null, json, server_text};
pub use literal::literal;
pub use mask::{MaskCall, column_mask};
pub use plain::{from_plain, plain};
pub use term::{BoundTerm, EvaluatedTerm, ambiguous, is_assignable, is_marker, own_type, term_fit};
pub use user::{Callee, find_callee, is_callable, misplaced_aggregate, user_function};
pub use value::Value;

use crate::catalog::{ColumnType, TableSchema};

/// A value as it is bound to a marker, or as a term gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing is said: the column stays as it is.
    Unset,
    /// No value.
    Null,
    /// The value.
    Bytes(Vec<u8>),
}

impl Bound {
    /// The bytes; `None` for null and unset.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Bound::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl From<Option<Vec<u8>>> for Bound {
    fn from(value: Option<Vec<u8>>) -> Bound {
        value.map_or(Bound::Null, Bound::Bytes)
    }
}

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ColumnSpec {
    pub keyspace: String,
    pub table: String,
    pub name: String,
    pub of: ColumnType,
}

impl ColumnSpec {
    /// A column of a table's, or what stands beside those: `[applied]`, `[json]`, a computed one.
    pub fn new(table: &TableSchema, name: &str, of: &ColumnType) -> ColumnSpec {
        ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: name.to_owned(),
            of: of.clone(),
        }
    }
}

/// The values that the evaluation of terms needs.
pub struct EvalEnv<'a> {
    /// The values bound to the markers, by their number.
    pub bound: &'a [Bound],
    /// The time of the statement, microseconds since 1970; the same for all of it.
    pub now: i64,
    /// Fresh random bits, for `uuid()` and `now()`.
    pub random: &'a dyn Fn() -> u128,
}

impl std::fmt::Debug for EvalEnv<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("now", &self.now).finish_non_exhaustive()
    }
}
