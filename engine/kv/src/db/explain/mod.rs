//! What reads cost, and why: a recording of every get and every cursor, made by the read itself
//! while it is under way.
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
//! [`Db::record_reads`](super::Db::record_reads) records the reads of all threads,
//! [`Db::with_context`](super::Db::with_context) those that one thread does within a closure. Both
//! are the same recording.
//!
//! Invariants:
//! - A recorded read gives what it would have given: a cursor is the same
//!   [`Visible`](crate::merge::visible::Visible), over sources that count; a get asks the same
//!   sources in the same order, and ends where a get ends.
//! - A read that nobody records asks one flag, once for a get or a cursor; while other threads'
//!   reads are recorded, one of its own thread more. It takes no lock.
//! - What is kept is bounded: of more than [`MOST_READS`] reads the others are only counted.

mod context;
mod cost;
mod get;
pub(super) mod recorder;
mod recording;
mod walk;
mod walked;

pub(super) use get::{get, get_in};
pub(super) use walk::visible;

pub use context::{ReadContext, ReadSum};
pub use cost::{ReadCost, ReadOf, Recorded};
pub use recorder::MOST_READS;
pub use recording::Recording;

pub use crate::merge::cost::{
    BlockRead, Entries, FilterAnswer, Origin, Skipped, SourceCost, VersionPlace,
};
