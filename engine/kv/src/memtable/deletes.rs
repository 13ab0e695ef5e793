//! The range deletions of a memtable: asked by every read, added to at any time.
//!
//! The newest few are a list; older ones are in immutable [`Deletions`], layers of which each is
//! larger than the one behind it. When the list has grown to [`TAIL`], it becomes a layer together
//! with all layers that are not larger. So an add costs O(log² n) on average, and a question a
//! binary search in each of O(log n) layers.
//!
//! Invariants:
//! - L1: the layers hold the first `merged` deletions of the list, each in one of them; the list
//!   goes on holding them too.
//! - L2: a reader takes the newest of the list first and the layers second. What the layers lack is
//!   in the list at or before what it took, so it walks down to `merged`; what they have beyond
//!   that was added since, and does no harm.
//! - L3: readers wait for nobody. Adds wait for each other.

use super::arena::{Arena, AtomicRef, Ref, Tombstone};
use crate::base::deletions::Deletions;
use crate::base::key::{Seq, Trailer};
use crate::base::shared::Shared;
use crate::base::sync::epoch::{self, Guard};
use crate::base::sync::modelled::Mutex;
use crate::base::sync::rank;
use crate::base::tombstone::{Fragments, RangeTombstone};
use std::sync::Arc;

/// How long the list becomes before it is made a layer. Loom gets the shortest that is merged.
const TAIL: u32 = if cfg!(loom) { 2 } else { 8 };

pub(super) struct RangeDeletes {
    newest: AtomicRef<Tombstone>,
    layers: Shared<Layers>,
    /// Held while something is added.
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
    /// How many deletions it was made of.
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

    /// The same deletions, of a copy of their arena. Nobody adds any meanwhile.
    pub fn copied(&self) -> Self {
        RangeDeletes {
            newest: AtomicRef::new(self.newest.load()),
            layers: Shared::new(self.layers.load_full()),
            adding: Mutex::new(()),
        }
    }

    /// How many there are.
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

    /// The newest deletion of `key` that a reader at `read` sees; for the price of one load where
    /// there are none.
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

    /// All of them, in a few sets.
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

    /// The fragments that readers at these snapshots, and of the newest state, need.
    pub fn fragments(&self, arena: &Arena, snapshots: &[Seq]) -> Fragments {
        match self.newest.load() {
            Some(newest) => Deletions::build(list(arena, newest, 0)).fragments(snapshots),
            None => Fragments::default(),
        }
    }

    /// Bytes of heap that the layers take.
    pub fn memory(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.layers.load(&epoch::pin()).sets.iter().map(|l| l.set.memory()).sum()
    }
}

impl Layers {
    /// These layers with those of the list up to `newest` that they lack.
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

/// The deletions of the list from `newest` down to the one that `merged` come before.
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
