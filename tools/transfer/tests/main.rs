//! Integration tests of transfers, one module for each subject.

#[cfg(feature = "parquet")]
mod arrow_files;
mod common;
mod conversions;
mod floors;
mod imports;
mod stores;
mod texts;
