//! Floor 5: presents many sorted sources as one: a run of tables, a merge of runs, and the entries
//! that a reader may see.
//!
//! - [`run`]: cursor over sorted and disjoint tables, which are opened on first use.
//! - [`merging`]: merges k cursors into one with every version of every key.
//! - [`shadow`]: range deletions that cover a key.
//! - [`empty_range_cache`]: key ranges without visible keys, which iterators skip.
//! - [`visible`]: the newest version of each key at a read point, with operands folded and
//!   deletions left out.
//! - [`operands`]: gathers merge operands and combines long sequences of them in memtables.
//! - [`value`]: a value that pins its memory.
//! - [`traced`], [`cost`]: a source that counts its operations, and the counts.

pub mod cost;
pub mod empty_range_cache;
pub mod merging;
pub mod opener;
pub mod operands;
pub mod run;
pub mod run_cursor;
pub mod shadow;
pub mod table_handle;
#[cfg(feature = "explain")]
pub mod traced;
pub mod value;
pub mod visible;
