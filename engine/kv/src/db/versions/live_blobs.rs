//! The blob files of a tree: how much of them tables still refer to, and which are given up.
//!
//! Invariant: once no table refers to those that are given up, what nobody refers to is within the
//! bound of the tree's options. So merges end that go by it.

use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::compaction::{ValueFileShape, gc_files};
use crate::manifest::TreeState;
use crate::util::sorted_map::SortedSet;

/// What the blob files of a tree hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveValues {
    /// The numbers of the files.
    pub files: Arc<SortedSet<u64>>,
    /// Bytes of all of them.
    pub size: u64,
    /// Bytes of them that tables refer to.
    pub live: u64,
    /// The files that are given up: what tables refer to in them is to be written again.
    pub gc_files: Arc<SortedSet<u64>>,
}

impl LiveValues {
    /// Those of a tree.
    pub fn of(state: &TreeState) -> LiveValues {
        if state.values.is_empty() {
            return LiveValues::default();
        }
        let uses = state.uses();
        let shape = |v: &Arc<BlobFileMeta>| ValueFileShape {
            id: v.id,
            bytes: v.bytes,
            live: uses.get(&v.id).map_or(0, |u| u.bytes),
        };
        let shapes: Vec<ValueFileShape> = state.values.values().map(shape).collect();
        let live = shapes.iter().map(|f| f.live).sum();
        let gc_files = gc_files(&state.options.policy, state.options.blob_gc_percent, shapes);
        let size = state.values.values().map(|v| v.size).sum();
        let files = Arc::new(state.values.keys().copied().collect());
        LiveValues { files, size, live, gc_files: Arc::new(gc_files) }
    }
}
