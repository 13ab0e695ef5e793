//! Probation: what is read once leaves a full cache early.
//!
//! A block that a reader has missed enters a full cache on probation. When some others have come after
//! it and nobody has read it again, it goes, long before the clock's hand would come by; of those that
//! went, the cache remembers which they were, and one that is missed again soon stays. So what is read
//! twice has the memory, and what is read once passes through few frames, which are in the processor's
//! caches. These are the two short queues of S3-FIFO (Yang et al., SOSP 2023) and 2Q (Johnson and
//! Shasha, VLDB 1994) before the clock, the second of them as a table of hashes.
//!
//! Invariants:
//! 1. A frame on probation is linked, and in the clock's books, as any other is.
//! 2. Frames on probation are few: [`MOST`] of them and a batch, and a 16th of the capacity or one.
//! 3. What is remembered is a hint: of two blocks with one hash, one may stay for the other.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::clock::Swath;
use super::frame::FrameState;
use super::slab::SlabPlace;
use super::slot::{CacheSlots, Swept};
use super::sync::epoch::Guard;

/// Frames on probation,
const MOST: usize = 64;
/// and how many more there are before some of them are looked at, together.
const BATCH: usize = 16;
/// Of the capacity, they have no more than this part.
const PART: usize = 16;
/// For so many bytes of capacity one block that went is remembered: about two for four frames.
const PER_REMEMBERED: usize = 8 << 10;
/// As many at most.
const MOST_REMEMBERED: usize = 1 << 20;

/// A hash of a block's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHash(u64);

impl BlockHash {
    pub(super) fn of(slots: *const CacheSlots, index: u32) -> BlockHash {
        const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
        let slot = (slots.addr() as u64 / 16).wrapping_mul(SCATTER).wrapping_add(u64::from(index));
        BlockHash(slot.wrapping_mul(SCATTER))
    }
}

/// Blocks that went after their probation.
#[derive(Debug, Default)]
pub(super) struct Departed(OnceLock<Box<[AtomicU32]>>);

impl Departed {
    fn place(all: &[AtomicU32], hash: BlockHash) -> (&AtomicU32, u32) {
        // The number of places is a power of two, at least two.
        let at = hash.0 >> (u64::BITS - all.len().ilog2());
        (&all[at as usize], hash.0 as u32 | 1)
    }

    /// Remembers a block, in place of another, in a cache of this capacity.
    pub(super) fn remember(&self, hash: BlockHash, capacity: usize) {
        let all = self.0.get_or_init(|| {
            let places = (capacity / PER_REMEMBERED).clamp(MOST, MOST_REMEMBERED);
            (0..places.next_power_of_two()).map(|_| AtomicU32::new(0)).collect()
        });
        let (place, mark) = Self::place(all, hash);
        place.store(mark, Ordering::Relaxed);
    }

    /// Whether a block is remembered; it is forgotten then.
    pub(super) fn take(&self, hash: BlockHash) -> bool {
        let Some(all) = self.0.get() else { return false };
        let (place, mark) = Self::place(all, hash);
        let found = place.load(Ordering::Relaxed) == mark;
        if found {
            place.store(0, Ordering::Relaxed);
        }
        found
    }
}

/// The frames on probation, oldest first.
#[derive(Debug, Default)]
pub(super) struct Probation {
    frames: VecDeque<(SlabPlace, BlockHash, usize)>,
    bytes: usize,
}

impl FrameState {
    /// The frame of `size` bytes at `place`, which has been linked, is on probation from now on; ends
    /// that of others, if it is time.
    pub(super) fn try_out(
        &mut self,
        (place, hash, size): (SlabPlace, BlockHash, usize),
        capacity: usize,
        guard: &Guard,
        out: &mut Swath,
    ) {
        let most = capacity / PART;
        self.probation.frames.push_back((place, hash, size));
        self.probation.bytes += size;
        if self.probation.frames.len() < MOST + BATCH && self.probation.bytes <= most {
            return;
        }
        while (self.probation.frames.len() > MOST || self.probation.bytes > most)
            && self.probation.frames.len() > 1
            && let Some((place, hash, size)) = self.probation.frames.pop_front()
        {
            self.probation.bytes -= size;
            // The place may be another's by now.
            if self.clock.hash_at(place) == Some(hash)
                && self.sweep_one(place, false, guard, out) == Some(Swept::Evicted)
            {
                self.clock.forget(place);
                out.evicted += 1;
                out.departed.push(hash);
            }
        }
    }
}
