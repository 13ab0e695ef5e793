//! Floor 7: the Db, which embedding programs use, and which combines the floors below.
//!
//! No file depends on one that depends on it. From top to bottom:
//!
//! - `handle`: types that applications hold. `handles` has the three on which all others are built.
//! - `open`: opening and closing of a store, its trees, checkpoints, and replay of the log.
//! - `report`, `explain`: statistics, metrics, and traces of single reads.
//! - `jobs`: flush, compaction, ingestion, and the threads that run them. `install` makes a result
//!   live.
//! - `write`: the write path, with its backpressure (`slowdown`, `room`).
//! - `read`: the read path of a key, and the sources of a range (`sources`).
//! - `inner`: the state of an open store. It combines the parts `commit` (log and sequence
//!   numbers), `versions` (files and trees), `key_locks`, `scheduler` (background work), `memory`
//!   and `observe`. Each part owns its state.

mod commit;
#[cfg(feature = "explain")]
pub mod explain;
mod handle;
mod inner;
mod jobs;
mod key_locks;
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

pub use handle::changes::{Change, ChangeFeed, ChangeOps, DecodedOp};
pub use handle::check::StoreVerification;
pub use handle::cursor::Cursor;
pub use handle::handles::{Db, Tree};
pub use handle::pause::Pause;
pub use handle::range::{Keys, Range};
pub use handle::readable::Readable;
#[cfg(feature = "internals")]
pub use handle::replication;
pub use handle::snapshot::Snapshot;
pub use handle::subscription::{ChangePosition, Subscription, SubscriptionInfo};
pub use handle::tables::TableInfo;
pub use handle::ttl::{TtlRange, TtlTree, TtlValue};
pub use handle::txn::{Retry, Savepoint, Transaction};
pub use handle::update::Updated;
pub use observe::meters::{Latencies, Latency};
pub use observe::pins::{Pin, PinKind, Space};
pub use open::create_dir::{create_dir, new_id};
pub use read::bounds::KeyBounds;
#[cfg(feature = "prometheus")]
pub use report::metrics;
#[cfg(feature = "prometheus")]
pub use report::prometheus::PrometheusText;
pub use report::stats::{BlobStats, Memory, RunStats, Stats, TreeStats};
#[cfg(feature = "tracing")]
pub use report::tracing::TracingListener;
pub use versions::snapshots::SnapshotInfo;
pub use write::batch::{Batch, BatchOp, BatchOps};
