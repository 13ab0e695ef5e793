//! Records the cost of every get and every cursor, measured by the read itself while it runs.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("firn-doc-explain-{}", std::process::id()));
//! use firn_kv::{Db, TreeOptions};
//! let db = Db::open(&dir)?;
//! let tree = db.tree("t", TreeOptions::default())?;
//! tree.put(b"apple", b"red")?;
//! tree.flush()?;
//! let recording = db.record_reads();
//! tree.get(b"apple")?;
//! let recorded = recording.finish();
//! assert_eq!(recorded.reads[0].total().blocks.len(), 1);
//! # drop((tree, db)); std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), firn_kv::Error>(())
//! ```
//!
//! [`Db::record_reads`](crate::db::Db::record_reads) records the reads of all threads.
//! [`Db::with_read_context`](crate::db::Db::with_read_context) records the reads of one thread within a
//! closure. Both use the same kind of recording.
//!
//! Invariants:
//! - A recorded read returns the same result as an unrecorded one. A cursor is the same
//!   [`Visible`](crate::iterator::visible::Visible), over sources that count. A get searches the
//!   same sources in the same order, and stops at the same point.
//! - An unrecorded get or cursor loads one flag, once. While reads of other threads are recorded,
//!   it also loads a flag of its own thread. It takes no lock.
//! - The memory of a recording is bounded: reads beyond [`MAX_READS`] are only counted.

mod context;
mod cost;
pub(super) mod profile;
pub(super) mod recorder;
mod recording;
mod scan;

pub use context::{ReadContext, ReadSum};
pub use cost::{ReadCost, ReadTarget, RecordedReads};
pub use recorder::MAX_READS;
pub use recording::Recording;

pub use crate::iterator::cost::{
    BlockRead, Entries, EntryLocation, FilterAnswer, Origin, Skipped, SourceCost,
};
