//! The registry of live snapshots: for compactions, which keep what snapshots see, and for those
//! who drop tables whole.
//!
//! Invariant: a read point is taken and registered in one step, so that no compaction finds it
//! missing.

use crate::base::key::Seq;
use crate::base::visible_seq::VisibleSeq;
use crate::util::sorted_map::SortedMap;
use crate::util::sync::{AtomicBool, Mutex, Ordering, RwLock, RwLockWriteGuard, rank};

/// The registry of live snapshots.
#[derive(Default)]
pub struct Snapshots {
    live: Mutex<SortedMap<(Seq, u64), HeldSnapshot>, rank::Snapshots>,
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
    /// Takes a read point and registers it; `now` is the wall clock in microseconds.
    pub fn take(&self, visible: &VisibleSeq, name: &str, now: u64, compares: bool) -> (Seq, u64) {
        let _no_drop = self.drops.read();
        let mut s = self.live.lock();
        let seq = visible.now();
        let id = s.last().map_or(0, |(k, _)| k.1 + 1).max(s.len() as u64);
        let id = (id..).find(|i| !s.contains_key(&(seq, *i))).unwrap_or(id);
        s.insert((seq, id), HeldSnapshot { name: name.to_owned(), since_micros: now, compares });
        (seq, id)
    }

    /// Lets a snapshot go. Whether work waits for that, and may be done now.
    pub fn release(&self, key: (Seq, u64)) -> bool {
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
        let seen = live.last().is_some_and(|(k, _)| min_seq.is_some_and(|m| k.0 >= m));
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

    /// The oldest read point.
    pub fn oldest(&self) -> Option<Seq> {
        self.live.lock().first().map(|(k, _)| k.0)
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
