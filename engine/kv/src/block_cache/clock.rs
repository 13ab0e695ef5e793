//! CLOCK eviction: chooses which frames to evict when memory is needed.
//!
//! The hand visits frames in the order of their memory, chunk by chunk, then those with their own
//! allocation. A frame that was read since the last visit loses its bit and stays. A frame that a
//! caller references stays. Any other frame is evicted. Frames start without the bit. So blocks
//! that a scan reads once are evicted after one round, and blocks read twice stay.
//!
//! Invariants, all under the pool's lock:
//! 1. An entry maps a frame's place to the slot that points to it. It is created when the frame is
//!    linked, and removed when the frame is unlinked or freed.
//! 2. When a class needs memory, the hand empties chunks of other classes that are less than half
//!    full. So memory moves between classes.
//! 3. A sweep's work is bounded whatever the state of the cache.

use std::sync::{Arc, Weak};

use crate::block_cache::frame::FrameState;
use crate::block_cache::probation::{BlockHash, ProbationBounds, Probationer};
use crate::block_cache::slab::{LOOSE, SlabPlace};
use crate::block_cache::slot::{CacheSlots, Garbage, Swept};
use crate::block_cache::sync::epoch::Guard;

/// The slot that points to a frame.
#[derive(Debug)]
struct ClockEntry {
    slots: Weak<CacheSlots>,
    index: u32,
    size: u32,
}

/// The entries by place, and the clock hand.
#[derive(Debug, Default)]
pub(super) struct ClockRing {
    chunks: Vec<Vec<Option<ClockEntry>>>,
    loose: Vec<Option<ClockEntry>>,
    /// Row (a chunk, or one past the last for the loose frames) and index of the next frame to
    /// visit.
    row: usize,
    index: usize,
    /// Whether the hand empties this row.
    emptying: bool,
    linked: usize,
    linked_bytes: usize,
    /// Fraction of recently visited frames that the hand did not evict, in 65,536ths.
    kept: u32,
}

/// Number of visits over which the hand averages that fraction.
const MET: u32 = 256;

impl ClockRing {
    /// Records a visit of the hand to a frame.
    fn has_met(&mut self, keeps: bool) {
        self.kept -= self.kept / MET;
        self.kept += if keeps { (1 << 16) / MET } else { 0 };
    }

    /// Reports whether more than a quarter of the visited frames stay: the cached blocks are read
    /// repeatedly.
    pub(super) fn is_hot(&self) -> bool {
        self.kept > 1 << 14
    }

    fn row(&mut self, chunk: u32) -> &mut Vec<Option<ClockEntry>> {
        if chunk == LOOSE {
            return &mut self.loose;
        }
        let chunk = chunk as usize;
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        &mut self.chunks[chunk]
    }

    /// Reports whether the frame at `place` is linked.
    pub(super) fn knows(&mut self, place: SlabPlace) -> bool {
        self.row(place.chunk).get(place.index as usize).is_some_and(Option::is_some)
    }

    /// Returns the slot that points to the frame at `place`: the address of its table's slots, and
    /// its number.
    fn slot_of(&mut self, place: SlabPlace) -> Option<(usize, u32)> {
        let entry = self.row(place.chunk).get(place.index as usize)?.as_ref()?;
        Some((entry.slots.as_ptr().addr(), entry.index))
    }

    /// Records that the frame of `size` bytes at `place` was linked as block `index` of `slots`.
    pub(super) fn enter(
        &mut self,
        place: SlabPlace,
        slots: &Arc<CacheSlots>,
        index: u32,
        size: usize,
    ) {
        let row = self.row(place.chunk);
        let at = place.index as usize;
        if at >= row.len() {
            row.resize_with(at + 1, || None);
        }
        row[at] = Some(ClockEntry { slots: Arc::downgrade(slots), index, size: size as u32 });
        self.linked += 1;
        self.linked_bytes += size;
    }

    /// Records that the frame at `place` was unlinked or freed.
    pub(super) fn forget(&mut self, place: SlabPlace) {
        let entry = self.row(place.chunk).get_mut(place.index as usize).and_then(Option::take);
        if let Some(entry) = entry {
            self.linked -= 1;
            self.linked_bytes -= entry.size as usize;
        }
    }

    /// Returns the number of linked frames, and the bytes of memory they take.
    pub(super) fn linked(&self) -> (usize, usize) {
        (self.linked, self.linked_bytes)
    }
}

/// Parameters of a sweep.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockOrder {
    /// The class that needs memory; `None` for any.
    pub(super) class: Option<usize>,
    /// Number of frames of that class to evict.
    pub(super) goal: usize,
    /// Whether to evict hot frames too.
    pub(super) force: bool,
}

/// Results of a sweep. Drop it without holding the pool's lock.
#[derive(Default)]
pub(super) struct SweepResult {
    pub(super) garbage: Garbage,
    pub(super) evicted: usize,
    /// Evicted frames that had been on probation.
    pub(super) ghosts: Vec<BlockHash>,
    /// Visited tables, referenced while the lock is held: dropping the last reference to one needs
    /// the lock.
    tables: Vec<Arc<CacheSlots>>,
}

/// Work units per visited frame. A visit to an empty place costs one unit.
const FRAME_WORK: usize = 8;

impl FrameState {
    /// Moves the hand until the goal is met or the work limit is reached.
    pub(super) fn sweep(&mut self, order: ClockOrder, guard: &Guard, out: &mut SweepResult) {
        let mut work = FRAME_WORK * (64 + 8 * order.goal);
        let mut met = 0;
        while work > 0 && met < order.goal {
            work -= 1;
            let row = self.clock.row;
            let chunk = if row < self.clock.chunks.len() { row as u32 } else { LOOSE };
            let class = self.slab.chunk(row).map(|(class, _)| class);
            let entry = match self.clock.row(chunk).len() {
                len if self.clock.index >= len || (chunk != LOOSE && class.is_none()) => {
                    self.next_row(order);
                    continue;
                }
                _ => {
                    let index = self.clock.index;
                    self.clock.index += 1;
                    SlabPlace { chunk, index: index as u32 }
                }
            };
            let force = order.force || self.clock.emptying;
            let Some(swept) = self.sweep_one(entry, force, guard, out) else { continue };
            work = work.saturating_sub(FRAME_WORK - 1);
            if swept != Swept::Gone {
                self.clock.has_met(swept == Swept::Kept);
            }
            if swept == Swept::Evicted {
                self.clock.forget(entry);
                out.evicted += 1;
                met += usize::from(order.class.is_none() || order.class == class);
            }
        }
    }

    /// Ends the probation of the oldest frames. Evicts those that were not read again and that no
    /// caller references.
    pub(super) fn end_probations(
        &mut self,
        bounds: ProbationBounds,
        guard: &Guard,
        out: &mut SweepResult,
    ) {
        while let Some(Probationer { place, slot, hash, .. }) = self.probation.end(bounds) {
            // Another frame may occupy the place by now.
            if self.clock.slot_of(place) == Some(slot)
                && self.sweep_one(place, false, guard, out) == Some(Swept::Evicted)
            {
                self.clock.forget(place);
                out.evicted += 1;
                out.ghosts.push(hash);
            }
        }
    }

    /// Visits one frame; returns `None` if no table points to it.
    fn sweep_one(
        &mut self,
        place: SlabPlace,
        force: bool,
        guard: &Guard,
        out: &mut SweepResult,
    ) -> Option<Swept> {
        let entry = self.clock.row(place.chunk)[place.index as usize].as_ref()?;
        if out.tables.last().is_none_or(|t| Arc::as_ptr(t) != entry.slots.as_ptr()) {
            // None: the table is being dropped and frees its frames itself.
            out.tables.push(entry.slots.upgrade()?);
        }
        out.tables
            .last()
            .map(|t| t.sweep(entry.index as usize, place, force, guard, &mut out.garbage))
    }

    fn next_row(&mut self, order: ClockOrder) {
        let clock = &mut self.clock;
        clock.index = 0;
        clock.row = if clock.row >= clock.chunks.len() { 0 } else { clock.row + 1 };
        clock.emptying = match self.slab.chunk(clock.row) {
            Some((class, live)) => {
                order.class != Some(class) && live * 2 < self.slab.per_chunk(class)
            }
            None => false,
        };
    }
}
