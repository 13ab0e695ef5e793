//! Arrow arrays of CQL values.

mod columns;
#[cfg(feature = "parquet")]
mod values;

pub use columns::{ArrowForms, CQL_TYPE, Column, field};
#[cfg(feature = "parquet")]
pub use values::{column_type, flat, read};
