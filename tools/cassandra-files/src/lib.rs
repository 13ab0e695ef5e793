//! Reads and writes the files that Apache Cassandra and ScyllaDB have for a table: partitions,
//! static rows, rows, cells with their timestamps and times to live, deletions of everything. `FORMAT.md`
//! beside this crate's sources says what is read and written.
//!
//! It knows nothing of Firn, and reads in order, without the indexes; so `Data.db` and
//! `Statistics.db` are enough, with `CompressionInfo.db` where that is there. What a file claims of
//! sizes is compared with what is left of it before anything is allocated; whatever the bytes are,
//! the answer is rows or a [`NodeFault`] with file and offset.
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
//! What a reader gives out, a [`NodeTableWriter`] writes, as version `nb`.

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

#[cfg(test)]
extern crate self as firn_cassandra;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
