//! Masks of columns: what is shown in the place of values to roles that may not see them.

use super::ColumnType;
use super::function::{Signature, signature};

/// A function that is called with a column's value, and constants behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMask {
    /// The keyspace of the function; `system` of the database's own.
    pub keyspace: String,
    /// The name of the function.
    pub name: String,
    /// The types of its arguments, that of the column's value first.
    pub types: Vec<ColumnType>,
    /// The arguments behind the value; `None` is null.
    pub values: Vec<Option<Vec<u8>>>,
}

impl ColumnMask {
    /// What tells the function apart from others of its name.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.types)
    }

    /// The types and values of the arguments behind the value.
    pub fn arguments(&self) -> impl Iterator<Item = (&ColumnType, Option<&[u8]>)> {
        self.types.iter().skip(1).zip(self.values.iter().map(Option::as_deref))
    }
}
