//! Floor 4: the Db, which embedding programs use, and which combines the floors below.
//!
//! It has layers of its own, and no file depends on one that depends on it:
//!
//! - `handle/`: types that applications hold. `handles` has the three on which all others are
//!   built.
//! - This folder: operations. The write path is [`write`], the read path of a key [`read`], of a
//!   range [`sources`]. [`flush`] turns memtables into tables, [`compact`] turns tables into fewer,
//!   and [`install`] makes the result live. [`background`] runs both in steps, and [`workers`]
//!   assigns the threads. [`pacing`] and [`room`] implement write slowdown and write stalls.
//! - `state/`: state of an open store. Each part owns its state, and `core` combines them.

mod background;
mod batch;
mod behind;
mod bounds;
mod checkpoint;
mod close;
mod compact;
mod durable;
pub mod explain;
mod flush;
mod fresh;
mod handle;
mod ingest;
mod install;
mod kept;
mod limits;
mod lookup;
mod manual;
mod open;
mod outputs;
mod pacing;
mod pieces;
mod prometheus;
mod rate;
mod read;
mod reader;
mod replay;
mod reserve;
mod room;
mod seal;
mod sources;
mod state;
mod stats;
#[cfg(test)]
mod tests;
#[cfg(feature = "tracing")]
mod tracing;
mod trees;
mod wishes;
mod workers;
mod write;

pub use batch::{Batch, BatchOp, BatchOps};
pub use bounds::KeyBounds;
pub use fresh::{create_dir, new_id};
pub use handle::changes::{Change, ChangeFeed, ChangeOps};
pub use handle::check::Verified;
pub use handle::cursor::Cursor;
pub use handle::handles::{Db, Tree};
pub use handle::pause::Pause;
pub use handle::range::{Keys, Range};
pub use handle::readable::Readable;
pub use handle::snapshot::Snapshot;
pub use handle::tables::TableInfo;
pub use handle::ttl::{TtlRange, TtlTree, TtlValue};
pub use handle::txn::{Retry, Transaction};
pub use handle::update::Updated;
pub use prometheus::PrometheusText;
pub use state::meters::{Latencies, Latency};
pub use state::pins::{Pin, PinKind, Space};
pub use state::snapshots::SnapshotInfo;
pub use stats::{BlobStats, Memory, RunStats, Stats, TreeStats};
#[cfg(feature = "tracing")]
pub use tracing::TracingListener;
