//! Snapshots: read points that are registered, so that compactions keep what can be seen at them.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::db::jobs::pick;

use crate::db::handle::handles::{CloseHandle, Tree};

/// A registered read point.
pub(in crate::db) struct ReadPoint {
    pub(in crate::db) handle: Arc<CloseHandle>,
    key: (Seq, u64),
}

impl ReadPoint {
    /// Whoever `compares` will ask what has changed since.
    pub(in crate::db) fn new(handle: Arc<CloseHandle>, name: &str, compares: bool) -> ReadPoint {
        let inner = &handle.inner;
        let now = inner.env.wall_micros();
        let key = inner.versions.snapshots().take(inner.commit.visible(), name, now, compares);
        ReadPoint { handle, key }
    }

    pub(in crate::db) fn seq(&self) -> Seq {
        self.key.0
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        if self.handle.inner.versions.snapshots().release(self.key) {
            self.handle.inner.signal_work();
            pick::call_workers_for_any(&self.handle.inner);
        }
    }
}

/// A frozen view of all trees of a Db. While it lives, compactions keep what it can see; drop it
/// when done. What can be read is in [`Readable`](crate::Readable).
#[derive(Clone)]
pub struct Snapshot {
    pub(in crate::db) point: Arc<ReadPoint>,
}

impl Snapshot {
    /// The sequence number up to which it sees.
    pub fn seq(&self) -> Seq {
        self.point.seq()
    }

    /// An error when `tree` is one of another store: its sequence numbers mean something else.
    pub(in crate::db) fn check_own(&self, tree: &Tree) -> Result<()> {
        tree.check_of(&self.point.handle)
    }
}
