//! The range deletions of a memtable: every read queries them, and writers add at any time.
//!
//! A list contains all of them; lookups search it only for the newest few. Older ones are also in
//! immutable [`Deletions`], called layers, each larger than the next newer one. When the unmerged
//! part of the list reaches [`TAIL`], it becomes a layer, merged with all layers that are not
//! larger. So an add costs O(log² n) on average. A lookup costs a binary search in each of O(log n)
//! layers.
//!
//! Invariants:
//! - L1: the layers contain the first `merged` deletions of the list, each in one of them. The list
//!   still contains them too.
//! - L2: a reader loads the newest of the list first and the layers second. Everything missing from
//!   the layers is in the list at or before the loaded one, so the reader walks down to `merged`.
//!   Further deletions in the layers were added since and are harmless.
//! - L3: readers wait for no other thread. Adds wait for each other.

use super::arena::{Arena, AtomicRef, Ref, Tombstone};
use crate::base::key::{Seq, Trailer};
use crate::range_del::deletions::Deletions;
use crate::range_del::tombstone::{Fragments, RangeTombstone};
use crate::util::shared::Shared;
use crate::util::sync::epoch::{self, Guard};
use crate::util::sync::modelled::Mutex;
use crate::util::sync::rank;
use std::sync::Arc;

/// Length at which the list's unmerged part becomes a layer. Loom gets the shortest that is merged.
const TAIL: u32 = if cfg!(loom) { 2 } else { 8 };

pub(super) struct RangeDeletes {
    newest: AtomicRef<Tombstone>,
    layers: Shared<Layers>,
    /// Held during an add.
    adding: Mutex<(), rank::Deletions>,
}

/// Layers, largest first.
#[derive(Default)]
struct Layers {
    merged: u32,
    sets: Vec<Layer>,
}

#[derive(Clone)]
struct Layer {
    /// How many deletions it was built from.
    count: u32,
    set: Arc<Deletions>,
}

impl RangeDeletes {
    pub fn new() -> Self {
        RangeDeletes {
            newest: AtomicRef::new(None),
            layers: Shared::new(Arc::default()),
            adding: Mutex::new(()),
        }
    }

    /// Returns the same deletions for a copy of their arena. No thread may add any meanwhile.
    pub fn copied(&self) -> Self {
        RangeDeletes {
            newest: AtomicRef::new(self.newest.load()),
            layers: Shared::new(self.layers.load_full()),
            adding: Mutex::new(()),
        }
    }

    /// Returns their number.
    #[inline]
    pub fn len(&self, arena: &Arena) -> u64 {
        self.newest.load().map_or(0, |t| arena.get(t).before as u64 + 1)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest.load().is_none()
    }

    pub fn add(&self, arena: &Arena, t: &RangeTombstone) {
        let entry = arena.add(&t.start, Trailer(t.seq), &t.end, false);
        let _one_writer = self.adding.lock();
        let next = self.newest.load();
        let before = next.map_or(0, |n| arena.get(n).before + 1);
        let newest = arena.alloc(Tombstone { entry, before, next });
        self.newest.publish(Some(newest));
        let layers = self.layers.load_full();
        if before + 1 - layers.merged >= TAIL {
            self.layers.replace(Arc::new(layers.grown(arena, newest)));
        }
    }

    /// Returns the newest deletion of `key` that a reader at `read` sees. Costs one load if there
    /// are no deletions.
    #[inline]
    pub fn newest_covering(
        &self,
        arena: &Arena,
        key: &[u8],
        read: Seq,
        guard: &Guard,
    ) -> Option<Seq> {
        let newest = self.newest.load()?;
        self.search(arena, newest, key, read, guard)
    }

    #[inline(never)]
    fn search(
        &self,
        arena: &Arena,
        newest: Ref<Tombstone>,
        key: &[u8],
        read: Seq,
        guard: &Guard,
    ) -> Option<Seq> {
        let layers = self.layers.load(guard);
        let listed = list(arena, newest, layers.merged)
            .filter(|&(start, end, seq)| seq <= read && start <= key && key < end);
        let listed = listed.map(|t| t.2).max();
        layers.sets.iter().filter_map(|l| l.set.newest_covering(key, read)).max().max(listed)
    }

    /// Returns all of them, in a few sets.
    pub fn sets(&self, arena: &Arena) -> Vec<Arc<Deletions>> {
        let Some(newest) = self.newest.load() else { return vec![] };
        let guard = epoch::pin();
        let layers = self.layers.load(&guard);
        let mut sets: Vec<_> = layers.sets.iter().map(|l| l.set.clone()).collect();
        let tail = Deletions::build(list(arena, newest, layers.merged));
        if !tail.is_empty() {
            sets.push(Arc::new(tail));
        }
        sets
    }

    /// Returns the fragments that readers need at these snapshots and at the newest state.
    pub fn fragments(&self, arena: &Arena, snapshots: &[Seq]) -> Fragments {
        match self.newest.load() {
            Some(newest) => Deletions::build(list(arena, newest, 0)).fragments(snapshots),
            None => Fragments::default(),
        }
    }

    /// Returns the bytes of heap that the layers take.
    pub fn memory(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.layers.load(&epoch::pin()).sets.iter().map(|l| l.set.memory()).sum()
    }
}

impl Layers {
    /// Returns these layers with the missing ones of the list up to `newest` added.
    fn grown(&self, arena: &Arena, newest: Ref<Tombstone>) -> Layers {
        let merged = arena.get(newest).before + 1;
        let mut count = merged - self.merged;
        let mut keep = self.sets.len();
        while let Some(layer) = keep.checked_sub(1).map(|i| &self.sets[i])
            && layer.count <= count
        {
            count += layer.count;
            keep -= 1;
        }
        let (stay, go) = self.sets.split_at(keep);
        let all = go.iter().flat_map(|l| l.set.iter()).chain(list(arena, newest, self.merged));
        let set = Arc::new(Deletions::build(all));
        Layers { merged, sets: stay.iter().cloned().chain([Layer { count, set }]).collect() }
    }
}

/// Iterates over the list from `newest` down to the deletion with `merged` predecessors.
fn list(
    arena: &Arena,
    newest: Ref<Tombstone>,
    merged: u32,
) -> impl Iterator<Item = (&[u8], &[u8], Seq)> {
    let there = std::iter::successors(Some(arena.get(newest)), |t| t.next.map(|n| arena.get(n)));
    there.take_while(move |t| t.before >= merged).map(|t| {
        let e = arena.entry(t.entry);
        (e.key(), e.value(), e.trailer().0)
    })
}
