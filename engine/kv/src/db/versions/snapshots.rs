//! The registry of live snapshots. Compactions use it to retain visible versions, and jobs that
//! drop whole tables use it to exclude snapshots.
//!
//! Invariant: a read point is taken and registered atomically, so that no compaction misses it.

use crate::base::key::Seq;
use crate::base::visible_seq::VisibleSeq;
use crate::util::sorted_map::SortedMap;
use crate::util::sync::{AtomicBool, Mutex, Ordering, RwLock, RwLockWriteGuard, rank};

/// The registry of live snapshots.
#[derive(Default)]
pub struct Snapshots {
    live: Mutex<SortedMap<(Seq, u64), HeldSnapshot>, rank::Snapshots>,
    /// Whether a job waits for the release of a snapshot.
    waited_for: AtomicBool,
    /// Taking a snapshot locks it shared; dropping tables with their data locks it exclusively.
    drops: RwLock<(), rank::Drops>,
}

struct HeldSnapshot {
    name: String,
    since_micros: u64,
    /// Whether its holder will query the changes since then.
    is_transaction: bool,
}

/// A live snapshot as listed by the statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// Name given at its creation.
    pub name: String,
    /// Read point.
    pub seq: Seq,
    /// Wall clock at its creation, in microseconds since 1970.
    pub since_micros: u64,
}

impl Snapshots {
    /// Takes a read point and registers it; `now` is the wall clock in microseconds.
    pub fn take(
        &self,
        visible: &VisibleSeq,
        name: &str,
        now: u64,
        is_transaction: bool,
    ) -> (Seq, u64) {
        let _no_drop = self.drops.read();
        let mut s = self.live.lock();
        let seq = visible.now();
        let id = s.last().map_or(0, |(k, _)| k.1 + 1).max(s.len() as u64);
        let id = (id..).find(|i| !s.contains_key(&(seq, *i))).unwrap_or(id);
        s.insert(
            (seq, id),
            HeldSnapshot { name: name.to_owned(), since_micros: now, is_transaction },
        );
        (seq, id)
    }

    /// Releases a snapshot. Reports whether a job waited for a release and may now run.
    pub fn release(&self, key: (Seq, u64)) -> bool {
        self.live.lock().remove(&key);
        self.waited_for.swap(false, Ordering::Relaxed)
    }

    /// Blocks new snapshots until the guard is dropped, so that none sees data dropped meanwhile.
    pub fn block_new(&self) -> RwLockWriteGuard<'_, (), rank::Drops> {
        self.drops.write()
    }

    /// Reports whether a live snapshot may see data whose smallest sequence number is `min_seq`. If
    /// so, the next release of a snapshot wakes the workers.
    pub fn may_be_seen(&self, min_seq: Option<Seq>) -> bool {
        let live = self.live.lock();
        let seen = live.last().is_some_and(|(k, _)| min_seq.is_some_and(|m| k.0 >= m));
        if seen {
            self.waited_for.store(true, Ordering::Relaxed);
        }
        seen
    }

    /// Returns the read points in ascending order, without duplicates.
    pub fn list(&self) -> Vec<Seq> {
        let mut v: Vec<Seq> = self.live.lock().keys().map(|k| k.0).collect();
        v.dedup();
        v
    }

    /// Returns the oldest read point.
    pub fn oldest(&self) -> Option<Seq> {
        self.live.lock().first().map(|(k, _)| k.0)
    }

    /// Returns the oldest read point of a transaction. It will query the changes since that point,
    /// so an earlier change must not get a later sequence number.
    pub fn oldest_transaction(&self) -> Option<Seq> {
        self.live.lock().iter().find(|(_, h)| h.is_transaction).map(|(k, _)| k.0)
    }

    /// Lists all live snapshots.
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
