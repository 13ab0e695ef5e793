//! Floor 4: sorted tables (SSTables) on disk. A table is written once, sequentially, and then only
//! read.
//!
//! - [`TableWriter`] writes a file. [`mod@format`] defines blocks, whose checksums include file and
//!   offset; `block` lays out entries for search. Other parts are `index`, `filter`, `tombstones`
//!   and `properties`.
//! - [`Table`] serves point lookups and creates [`TableCursor`]s.
//! - [`Table::verify`] checks the consistency of a file.
//! - [`walk`] finds the blocks of a file whose index may be lost.
//! - [`values`] defines blob files, to which tables refer.
//!
//! `zstd` needs the feature of that name. `search` is the only module here with `unsafe`.
//!
//! Invariants: a finished table never changes. Whatever its bytes have become, a read returns the
//! right answer or an error that names file and offset. Spec: `format-spec/README.md`, "Tables".

mod block;
mod block_access;
mod copy;
mod cursor;
pub mod fields;
mod filter;
pub mod format;
mod index;
mod lz4;
mod output;
mod properties;
mod search;
mod stream;
mod stub;
mod table;
mod tombstones;
pub mod values;
mod verify;
pub mod walk;
mod window;
mod writer;
mod zstd;

#[cfg(test)]
mod tests;

pub use block_access::{Maps, TableValue, WarmBlocks, block_entries};
pub use copy::WholeBlock;
pub use cursor::TableCursor;
pub use index::{BlockInfo, decode as decode_index};
pub use properties::Properties;
pub use stream::BlobStreams;
pub use table::{Table, TableHit};
pub use tombstones::decode as decode_tombstones;
pub use values::{BlobFile, BlobOptions, BlobWriter};
pub use verify::VerifyReport;
pub use writer::{TableWriter, WriterOptions};
