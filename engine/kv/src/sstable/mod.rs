//! Floor 2: sorted tables on disk: written once front to back, then only read.
//!
//! [`TableWriter`] writes a file ([`mod@format`]: blocks with context-bound checksums; `block`:
//! entries laid out for search; `index`, `filter`, `tombstones`, `properties`), [`Table`] answers
//! point reads and hands out [`TableCursor`]s, [`Table::verify`] checks a file against itself,
//! [`walk`] finds the blocks of a file whose index may be lost, [`values`] are files of values that
//! tables refer to. `zstd` is there with the
//! feature. `search` is the module's one room for `unsafe`.
//!
//! Invariants: a table never changes once it is finished; whatever its bytes have become, reading
//! gives the right answer or an error that names the place. Spec: `format-spec/README.md`,
//! "Tables".

mod block;
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

pub use copy::WholeBlock;
pub use cursor::TableCursor;
pub use index::{BlockInfo, decode as decode_index};
pub use properties::Properties;
pub use stream::BlobStreams;
pub use table::{Maps, Table, TableHit, TableValue, WarmBlocks, block_entries};
pub use tombstones::decode as decode_tombstones;
pub use values::{BlobFile, ValueOptions, ValueWriter};
pub use verify::VerifyReport;
pub use writer::{TableWriter, WriterOptions};
