//! Arrow arrays of CQL values.

mod columns;
mod values;

pub use columns::{ArrowForms, CQL_TYPE, Column, field};
#[cfg(feature = "parquet")]
pub use values::flat;
pub use values::{column_type, read};
