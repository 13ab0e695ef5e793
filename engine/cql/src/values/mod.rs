//! Floor 1, based on the catalog's types: values. Converts terms of statements to bytes, and bytes
//! to text and to Rust values (model 3.3, 3.5).
//!
//! - [`BoundTerm`]: a term of a statement, checked against the expected type ([`Receiver`]);
//!   [`BoundTerm::eval`] returns its bytes.
//! - [`Value`]: a decoded value; [`literal`] and [`json`] are its text forms.
//! - [`plain`] and [`exported_json`]: text forms for files, which are read back as the same bytes.
//! - [`FromValue`], [`ToValue`], [`Values`]: conversions of Rust types.
//! - [`function`]: native functions, casts, arithmetic.
//!
//! Collections are encoded as in the native protocol from version 3 on: a 4-byte count, then each
//! part with a 4-byte length. Sets and maps are sorted without duplicates; of equal keys the last
//! one wins. [`canonical`] converts bound bytes to this form before they are stored, compared or
//! used as a key.

pub mod aggregate;
mod bytes;
mod call;
mod context;
mod convert;
mod exported;
pub mod function;
mod heap;
mod infer;
mod json;
mod literal;
mod logarithm;
mod mask;
mod native;
pub(crate) mod number;
mod plain;
mod prepare;
mod term;
mod user;
mod value;
mod varint;
pub mod vector;

pub use bytes::{canonical, put_collection, put_many, put_parts, put_tuple, split};
pub use call::{ArgumentFit, CallArguments};
pub use context::{Context, Markers, Receiver};
pub(crate) use convert::check_amount;
pub use convert::{FromValue, Named, ToValue, Values};
pub use exported::{exported_json, from_exported_json};
pub(crate) use heap::{HeapBytes, heap_bytes};
pub use infer::{inferred_type, is_assignable, own_type, resolve_call, term_fit};
pub use json::{from_json, is_null, json, server_text};
pub use literal::literal;
pub use mask::{MaskCall, column_mask};
pub use plain::{from_plain, plain};
pub use prepare::{ambiguous, is_marker};
pub use term::BoundTerm;
pub use user::{Callee, find_callee, is_callable, misplaced_aggregate, user_function};
pub use value::Value;
pub use varint::VarInt;

use crate::catalog::{ColumnType, TableSchema};

/// A value bound to a marker, or the result of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundValue<B = Vec<u8>> {
    /// Not set: the column is not changed.
    Unset,
    /// Null.
    Null,
    /// A value.
    Bytes(B),
}

impl<B: AsRef<[u8]>> BoundValue<B> {
    /// Returns the bytes; `None` for null and unset.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            BoundValue::Bytes(bytes) => Some(bytes.as_ref()),
            _ => None,
        }
    }
}

impl<B> BoundValue<B> {
    /// Returns the bytes; `None` for null and unset.
    pub fn into_bytes(self) -> Option<B> {
        match self {
            BoundValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Converts the bytes.
    pub fn map<C>(self, convert: impl FnOnce(B) -> C) -> BoundValue<C> {
        match self {
            BoundValue::Unset => BoundValue::Unset,
            BoundValue::Null => BoundValue::Null,
            BoundValue::Bytes(bytes) => BoundValue::Bytes(convert(bytes)),
        }
    }
}

impl From<Option<Vec<u8>>> for BoundValue {
    fn from(value: Option<Vec<u8>>) -> BoundValue {
        value.map_or(BoundValue::Null, BoundValue::Bytes)
    }
}

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnSpec {
    /// Keyspace of the table.
    pub keyspace: String,
    /// Name of the table.
    pub table: String,
    /// Name of the column, or of the marker.
    pub name: String,
    /// Type of the column.
    pub column_type: ColumnType,
}

impl ColumnSpec {
    #[doc(hidden)]
    pub fn from_parts(
        keyspace: String,
        table: String,
        name: String,
        column_type: ColumnType,
    ) -> ColumnSpec {
        ColumnSpec { keyspace, table, name, column_type }
    }

    /// Creates the spec of a table column, or of a column such as `[applied]`, `[json]` or a
    /// computed one.
    #[doc(hidden)]
    pub fn new(table: &TableSchema, name: &str, of: &ColumnType) -> ColumnSpec {
        ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: name.to_owned(),
            column_type: of.clone(),
        }
    }
}

/// Environment for evaluating terms.
pub struct EvalEnv<'a> {
    /// Values bound to the markers, by marker number.
    pub bound: &'a [BoundValue],
    /// Time of the statement, in microseconds since 1970. The whole statement uses the same time.
    pub now: i64,
    /// Source of random bits, for `uuid()` and `now()`.
    pub random: &'a dyn Fn() -> u128,
}

impl std::fmt::Debug for EvalEnv<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("now", &self.now).finish_non_exhaustive()
    }
}
