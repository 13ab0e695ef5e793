//! Snapshots: registered read points. Compactions retain the versions that are visible at them.

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
    /// Registers a read point; `is_transaction` if its holder will query the changes since then.
    pub(in crate::db) fn new(
        handle: Arc<CloseHandle>,
        name: &str,
        is_transaction: bool,
    ) -> ReadPoint {
        let inner = &handle.inner;
        let now = inner.env.wall_micros();
        let key =
            inner.versions.snapshots().take(inner.commit.visible(), name, now, is_transaction);
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

/// An immutable view of all trees of a Db. While it is alive, compactions retain the versions that
/// it can see; drop it when done. [`Readable`](crate::Readable) has its read methods.
#[derive(Clone)]
pub struct Snapshot {
    pub(in crate::db) point: Arc<ReadPoint>,
}

impl Snapshot {
    /// Returns the largest sequence number that it can see.
    pub fn seq(&self) -> Seq {
        self.point.seq()
    }

    /// Returns an error if `tree` belongs to another store, which has its own sequence numbers.
    pub(in crate::db) fn check_own(&self, tree: &Tree) -> Result<()> {
        tree.check_of(&self.point.handle)
    }
}
