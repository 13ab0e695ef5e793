//! Reads and writes SSTable files of Apache Cassandra and ScyllaDB: partitions, static rows, rows,
//! cells with their timestamps and TTLs, and all deletions. `FORMAT.md` beside this crate's sources
//! describes the format.
//!
//! It is independent of Firn, and reads sequentially, without the indexes. So `Data.db` and
//! `Statistics.db` are sufficient, with `CompressionInfo.db` if present. Claimed sizes are compared
//! with the remaining file before any allocation. For any bytes, the result is rows or a
//! [`NodeFault`] with file and offset.
//!
//! ```no_run
//! use firn_cassandra::{NodeEvent, NodeFolder, NodeTable};
//!
//! let files = NodeFolder::of("data/shop/orders-5f2c…/nb-1-big-Data.db".as_ref())?;
//! let table = NodeTable::open(&files)?;
//! let mut reader = table.read(&files)?;
//! while let Some(event) = reader.advance()? {
//!     if let NodeEvent::Row(row) = event {
//!         println!("{} columns of {}", row.columns.len(), table.header.regulars.len());
//!     }
//! }
//! # Ok::<(), firn_cassandra::NodeFault>(())
//! ```
//!
//! A [`NodeTableWriter`] writes the events of a reader, as version `nb`.

mod chunk_writer;
mod chunks;
mod class;
mod content;
mod counter;
mod cursor;
#[cfg(test)]
mod damage;
mod encode;
mod fault;
mod files;
mod format;
mod header;
mod index_writer;
mod key_filter;
mod measures;
mod part_writer;
mod reader;
mod row_writer;
mod rows;
mod sketch;
mod statistics;
#[cfg(test)]
mod trip;
mod writer;

pub use class::{ClassArgument, MarshalClass};
pub use counter::{counter_shard, counter_sum};
pub use fault::{NodeFault, NodeFaultKind};
pub use files::{
    FileVersion, NodeFiles, NodeFolder, NodePart, NodePartWriter, NodeSink, table_of_folder,
};
pub use header::{HeaderColumn, LeastTimes, NodeHeader};
pub use reader::{NodeReader, NodeTable};
pub use rows::{
    NodeBound, NodeCell, NodeCellState, NodeColumn, NodeDeletion, NodeEvent, NodeExpiry,
    NodeLiveness, NodeMarker, NodePartition, NodeRow,
};
pub use writer::{NodeTableWriter, WriteOptions};

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CassandraFilesReadme;

#[cfg(test)]
extern crate self as firn_cassandra;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
