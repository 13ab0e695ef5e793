//! Live bytes of a tree's blob files, and the files to garbage-collect.
//!
//! Invariant: once no table references the files to collect, the garbage is within the bound of the
//! tree's options. So the compactions that collect garbage end.

use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::compaction::{BlobFileShape, gc_files};
use crate::manifest::TreeState;
use crate::util::sorted_map::SortedSet;

/// Contents of the blob files of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveBlobs {
    /// File numbers.
    pub files: Arc<SortedSet<u64>>,
    /// Bytes of all files.
    pub size: u64,
    /// Bytes that tables reference.
    pub live: u64,
    /// Files to garbage-collect: a compaction rewrites the values that tables reference in them.
    pub gc_files: Arc<SortedSet<u64>>,
}

impl LiveBlobs {
    /// Computes the contents for a tree.
    pub fn of(state: &TreeState) -> LiveBlobs {
        if state.values.is_empty() {
            return LiveBlobs::default();
        }
        let uses = state.uses();
        let shape = |v: &Arc<BlobFileMeta>| BlobFileShape {
            id: v.id,
            bytes: v.bytes,
            live: uses.get(&v.id).map_or(0, |u| u.bytes),
        };
        let shapes: Vec<BlobFileShape> = state.values.values().map(shape).collect();
        let live = shapes.iter().map(|f| f.live).sum();
        let gc_files = gc_files(&state.options.policy, state.options.blob_gc_percent, shapes);
        let size = state.values.values().map(|v| v.size).sum();
        let files = Arc::new(state.values.keys().copied().collect());
        LiveBlobs { files, size, live, gc_files: Arc::new(gc_files) }
    }
}
