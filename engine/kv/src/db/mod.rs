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

mod commit;
pub mod explain;
mod handle;
mod inner;
mod jobs;
mod memory;
mod observe;
mod open;
mod read;
mod report;
mod scheduler;
#[cfg(test)]
mod tests;
mod versions;
mod write;

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
pub use observe::meters::{Latencies, Latency};
pub use observe::pins::{Pin, PinKind, Space};
pub use open::create_dir::{create_dir, new_id};
pub use read::bounds::KeyBounds;
pub use report::prometheus::PrometheusText;
pub use report::stats::{BlobStats, Memory, RunStats, Stats, TreeStats};
#[cfg(feature = "tracing")]
pub use report::tracing::TracingListener;
pub use versions::snapshots::SnapshotInfo;
pub use write::batch::{Batch, BatchOp, BatchOps};
