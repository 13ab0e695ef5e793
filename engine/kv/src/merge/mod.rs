//! Floor 3: many sorted sources as one: a run of tables, a merge of runs, and what of it a reader
//! may see.
//!
//! - [`run`]: tables that are sorted and disjoint, walked as one cursor; opened when first needed.
//! - [`merging`]: k cursors as one, every version of every key.
//! - [`shadow`]: which range deletions cover a key.
//! - [`gaps`]: where readers have found nothing, so that others need not look.
//! - [`visible`]: the newest version of each key at a read point, folded and without deletions.
//! - [`emptied`]: where the deletes of a memtable leave nothing, so that range deletions can stand
//!   for them.
//! - [`operands`]: gathers merge operands, and combines long runs of them in memtables.
//! - [`retain`]: the versions that a flush or a compaction must keep.
//! - [`job`]: writes the tables of a flush or a compaction.
//! - [`value`]: a value that pins what holds it.
//! - [`traced`], [`cost`]: a source that counts what is done with it, and what is counted.

pub mod cost;
pub mod emptied;
pub mod gaps;
pub mod job;
pub mod merging;
pub mod operands;
pub mod retain;
pub mod run;
pub mod shadow;
pub mod traced;
pub mod value;
pub mod visible;
