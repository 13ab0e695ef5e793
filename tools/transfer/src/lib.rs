//! Copies data between Firn stores and other formats and stores.
//!
//! - [`text`]: records of CSV, TSV, JSON lines and deb822.
//! - [`source`]: rows of files and of other stores, each a [`source::RowSource`].
//! - [`convert`]: values of one CQL type as values of another.
//! - [`target`]: trees and tables of CQL, which also store the position of an import.
//! - [`import`]: the loop between both. [`export`]: the way out.
//! - `arrow`: Arrow arrays of CQL values, and back.
//!
//! A value in between has a CQL type and the bytes of CQL's protocol. So a value that both sides can
//! represent arrives unchanged.
//!
//! Invariants:
//! - A chunk of rows and the position after it are one atomic write. So a kill neither loses rows
//!   nor writes them twice when the import is resumed.
//! - A source is only read; no file of it is created or changed.
//! - Memory is bounded by a chunk, a batch of the format, and the longest row.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `transfer` | `parquet` and `sqlite` |
//! | `parquet` | Parquet and Arrow IPC files; includes `arrow` |
//! | `arrow` | Arrow arrays of CQL values |
//! | `sqlite` | SQLite databases |
//! | `rocksdb` | RocksDB directories |

#[cfg(feature = "arrow")]
pub mod arrow;
pub mod convert;
pub mod export;
pub mod form;
pub mod format;
pub mod import;
pub mod source;
pub mod target;
pub mod text;

#[cfg(test)]
extern crate self as firn_transfer;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
