//! Snapshots: read points that compactions respect, with a name that shows who holds
//! space.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::base::sync::{AtomicBool, Mutex, Ordering, RwLock, RwLockWriteGuard, rank};
use crate::merge::value::Value;
use crate::merge::visible::VisibleRange;

use super::bounds::{KeyBounds, key_range};
use super::core::Core;
use super::iter::{Cursor, Range};
use super::readable::ReadSource;
use super::{CloseHandle, Tree};

/// The registry of live snapshots.
#[derive(Default)]
pub struct Snapshots {
    live: Mutex<BTreeMap<(Seq, u64), HeldSnapshot>, rank::Snapshots>,
    /// Whether work waits for a snapshot to go.
    waited_for: AtomicBool,
    /// Held by who takes a snapshot, shared, and by who drops tables with their data, alone.
    drops: RwLock<(), rank::Drops>,
}

struct HeldSnapshot {
    name: String,
    since_micros: u64,
    /// Whether its holder will ask what has changed since.
    compares: bool,
}

/// A live snapshot as listed by the statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The name given when it was taken.
    pub name: String,
    /// Its read point.
    pub seq: Seq,
    /// Wall clock when it was taken, in microseconds since 1970.
    pub since_micros: u64,
}

impl Snapshots {
    /// Takes a read point and registers it.
    pub fn take(&self, core: &Core, name: &str, compares: bool) -> (Seq, u64) {
        let _no_drop = self.drops.read();
        let mut s = self.live.lock();
        let seq = core.read_point();
        let id = s.last_key_value().map_or(0, |(k, _)| k.1 + 1).max(s.len() as u64);
        let id = (id..).find(|i| !s.contains_key(&(seq, *i))).unwrap_or(id);
        s.insert(
            (seq, id),
            HeldSnapshot { name: name.to_owned(), since_micros: core.env.wall_micros(), compares },
        );
        (seq, id)
    }

    /// Whether work waits for a snapshot to go, and may be done now.
    fn release(&self, key: (Seq, u64)) -> bool {
        self.live.lock().remove(&key);
        self.waited_for.swap(false, Ordering::Relaxed)
    }

    /// Keeps new snapshots from being taken until the guard goes: what is dropped meanwhile is seen
    /// by none of them.
    pub fn hold_off(&self) -> RwLockWriteGuard<'_, (), rank::Drops> {
        self.drops.write()
    }

    /// Whether a live snapshot may see something whose smallest sequence number is this; then the
    /// next one that goes wakes the workers.
    pub fn wait_for(&self, min_seq: Option<Seq>) -> bool {
        let live = self.live.lock();
        let seen = live.last_key_value().is_some_and(|(k, _)| min_seq.is_some_and(|m| k.0 >= m));
        if seen {
            self.waited_for.store(true, Ordering::Relaxed);
        }
        seen
    }

    /// The read points in ascending order, without repeats.
    pub fn list(&self) -> Vec<Seq> {
        let mut v: Vec<Seq> = self.live.lock().keys().map(|k| k.0).collect();
        v.dedup();
        v
    }

    /// The oldest read point of those who will ask what has changed since: a change before it must
    /// not be given a later number.
    pub fn oldest_compared(&self) -> Option<Seq> {
        self.live.lock().iter().find(|(_, h)| h.compares).map(|(k, _)| k.0)
    }

    /// All live snapshots.
    pub fn infos(&self) -> Vec<SnapshotInfo> {
        let s = self.live.lock();
        s.iter()
            .map(|(k, h)| SnapshotInfo {
                name: h.name.clone(),
                seq: k.0,
                since_micros: h.since_micros,
            })
            .collect()
    }
}

/// A registered read point.
pub(super) struct ReadPoint {
    pub(super) handle: Arc<CloseHandle>,
    key: (Seq, u64),
}

impl ReadPoint {
    /// Whoever `compares` will ask what has changed since.
    pub(super) fn new(handle: Arc<CloseHandle>, name: &str, compares: bool) -> ReadPoint {
        let key = handle.core.snapshots.take(&handle.core, name, compares);
        ReadPoint { handle, key }
    }

    pub(super) fn seq(&self) -> Seq {
        self.key.0
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        if self.handle.core.snapshots.release(self.key) {
            self.handle.core.signal_work();
            self.handle.core.call_workers_for_any();
        }
    }
}

/// A frozen view of all trees of a Db. While it lives, compactions keep what it can see; drop it
/// when done. What can be read is in [`Readable`](crate::Readable).
#[derive(Clone)]
pub struct Snapshot {
    pub(super) point: Arc<ReadPoint>,
}

impl Snapshot {
    /// The sequence number up to which it sees.
    pub fn seq(&self) -> Seq {
        self.point.seq()
    }

    /// An error when `tree` is one of another store: its sequence numbers mean something else.
    pub(super) fn check_own(&self, tree: &Tree) -> Result<()> {
        tree.check_of(&self.point.handle)
    }

    /// A cursor over a range.
    ///
    /// # Errors
    /// As [`Readable`](crate::Readable)'s methods.
    pub fn cursor(&self, tree: &Tree, range: impl KeyBounds) -> Result<Cursor> {
        tree.cursor_at(key_range(range), self)
    }
}

impl ReadSource for Snapshot {
    fn read(&self, tree: &Tree, key: &[u8]) -> Result<Option<Value>> {
        tree.core.check_live()?;
        self.check_own(tree)?;
        tree.handle.core.get_at(&tree.core, key, self.seq())
    }

    fn walk(&self, tree: &Tree, range: VisibleRange) -> Range {
        tree.range_at(range, self)
    }
}
