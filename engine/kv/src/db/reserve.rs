//! Space that a store sets aside, so that on a full disk there is enough for what frees space:
//! an opening, deletions, the removal of a tree, a compaction.
//!
//! Invariants: nothing depends on the file, which holds no data; it is given up only after a want
//! of space, when nothing has been written, and set aside again by a later flush.

use crate::base::error::{ErrorKind, Result};

use super::batch::{Batch, BatchOp};
use super::state::core::DbInner;

/// The name of the file.
pub const RESERVE: &str = "RESERVE";
/// Its length: a first segment of the log, and as much for the manifest and small tables.
const RESERVE_BYTES: u64 = 512 << 10;
/// A store with tables of so many bytes has one: 1.6 % of them.
const RESERVE_FROM: u64 = 32 << 20;

impl DbInner {
    /// Does what frees space. Where the disk is full, the reserve is given up, and it is tried once
    /// more.
    pub fn with_reserve<T>(&self, mut frees: impl FnMut() -> Result<T>) -> Result<T> {
        match frees() {
            Err(e) if e.kind() == ErrorKind::NoSpace && self.give_up_reserve() => frees(),
            done => done,
        }
    }

    /// Gives the reserve up, if there is one. A file of another length is somebody else's.
    #[cold]
    pub fn give_up_reserve(&self) -> bool {
        let path = self.dir.join(RESERVE);
        self.env.file_len(&path).is_ok_and(|len| len == RESERVE_BYTES)
            && self.env.remove(&path).is_ok()
    }

    /// Sets space aside where the store has none yet and is large enough. A disk without that much
    /// is no error.
    pub(super) fn keep_reserve(&self) {
        let path = self.dir.join(RESERVE);
        if self.env.file_len(&path).is_ok() {
            return;
        }
        let bytes: u64 = {
            let c = self.catalog.lock();
            c.state().trees.values().flat_map(|t| t.tables()).map(|t| t.size).sum()
        };
        if bytes >= RESERVE_FROM && self.env.create_log(&path, RESERVE_BYTES).is_err() {
            // What could not be reserved in full is of no use.
            let _ = self.env.remove(&path);
        }
    }
}

impl Batch {
    /// Whether it only deletes.
    pub(super) fn frees_space(&self) -> bool {
        self.iter().all(|op| matches!(op, BatchOp::Delete { .. } | BatchOp::DeleteRange { .. }))
    }
}
