//! Probation queue: a full cache evicts blocks early that are read only once.
//!
//! A missed block enters a full cache on probation. After a number of further insertions it is
//! evicted, long before the clock hand would visit it. It stays if it was read again or a caller
//! references it. The ghost queue remembers evicted blocks; a block that is missed again soon skips
//! probation. So most memory holds blocks read at least twice, and blocks read once pass through
//! few frames. These are the two short queues of S3-FIFO (Yang et al., SOSP 2023) and 2Q (Johnson
//! and Shasha, VLDB 1994) in front of the clock. The ghost queue is a table of marks.
//!
//! Probation applies only while cached blocks are read repeatedly: while more than a quarter of the
//! frames that the clock hand visits stay. Otherwise, for example after a load, new blocks enter
//! without probation.
//!
//! Invariants:
//! 1. A frame on probation is linked and has a clock entry like any other frame.
//! 2. Few frames are on probation: at most [`ProbationBounds`] plus one batch.
//! 3. The ghost queue is a hint: if two blocks have the same mark, one may skip probation for the
//!    other.
//! 4. A changed working set becomes cached eventually, whatever the ghost queue holds: 1 in
//!    [`UNTRIED`] blocks skips probation.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::block_cache::slab::SlabPlace;

/// Minimum and maximum number of frames on probation. In between it is 1 in `ONE_IN` of the frames
/// that fit into the cache.
const FEWEST: usize = 64;
const MOST: usize = 256;
const ONE_IN: usize = 512;
/// Frames on probation take at most 1/`PART` of the capacity.
const PART: usize = 16;
/// Assumed size of a frame in bytes.
const FRAME: usize = 4 << 10;
/// 1 in `UNTRIED` blocks bypasses the probation queue.
const UNTRIED: u64 = 32;

/// Evenly distributed hash of a file number and a block number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHash(u64);

/// Multiplier that spreads a number over all 64 bits, the high ones best.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Reports whether the item with this number is in a sample of 1 in `many`. The sample is
/// scattered, so callers that draw numbers in turn each get their share.
pub(super) fn is_one_in(many: u64, number: u64) -> bool {
    (number.wrapping_mul(SCATTER) >> 32).is_multiple_of(many)
}

impl BlockHash {
    pub(super) fn of(file: u64, index: u32) -> BlockHash {
        let file = file.wrapping_mul(SCATTER).rotate_left(32);
        BlockHash(file.wrapping_add(u64::from(index)).wrapping_mul(SCATTER))
    }
}

/// Marks per set. A new mark replaces the oldest mark of its set.
const SET: usize = 8;
/// Maximum number of remembered blocks.
const MOST_REMEMBERED: usize = 4 << 20;

/// Blocks evicted after their probation. It remembers as many blocks as the cache holds at 4 KiB
/// each.
#[derive(Debug)]
pub(super) struct GhostQueue {
    sets: OnceLock<Box<[[AtomicU32; SET]]>>,
    number: usize,
}

impl GhostQueue {
    /// Creates the queue of a cache that may grow to `most` bytes. It allocates memory at the first
    /// eviction.
    pub(super) fn new(most: usize) -> GhostQueue {
        let number = (most / FRAME).clamp(SET, MOST_REMEMBERED) / SET;
        GhostQueue { sets: OnceLock::new(), number }
    }

    fn find(sets: &[[AtomicU32; SET]], hash: BlockHash) -> (&[AtomicU32; SET], u32) {
        let at = ((hash.0 >> 32) * sets.len() as u64) >> 32;
        (&sets[at as usize], hash.0 as u32 | 1)
    }

    /// Remembers a block in place of another.
    pub(super) fn remember(&self, hash: BlockHash) {
        let sets = self.sets.get_or_init(|| (0..self.number).map(|_| Default::default()).collect());
        let (set, mark) = Self::find(sets, hash);
        set.iter().fold(mark, |mark, place| {
            let before = place.load(Ordering::Relaxed);
            place.store(mark, Ordering::Relaxed);
            before
        });
    }

    /// Removes a block. Reports whether it was remembered.
    pub(super) fn take(&self, hash: BlockHash) -> bool {
        let Some(sets) = self.sets.get() else { return false };
        let (set, mark) = Self::find(sets, hash);
        let found = set.iter().find(|place| place.load(Ordering::Relaxed) == mark);
        found.inspect(|place| place.store(0, Ordering::Relaxed)).is_some()
    }
}

/// A frame on probation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probationer {
    /// The frame's place.
    pub(super) place: SlabPlace,
    /// The slot that pointed to it: the address of the table's slots, and the number.
    pub(super) slot: (usize, u32),
    pub(super) hash: BlockHash,
    pub(super) size: usize,
}

/// Limits of the probation queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbationBounds {
    frames: usize,
    /// Limit in bytes. The newest frame does not count: it may be as large as all others.
    bytes: usize,
}

impl ProbationBounds {
    /// Returns the limits for a cache of `capacity` bytes.
    pub(super) fn of(capacity: usize) -> ProbationBounds {
        let frames = (capacity / FRAME / ONE_IN).clamp(FEWEST, MOST);
        ProbationBounds { frames, bytes: capacity / PART }
    }

    /// Returns limits that are a quarter larger, because evicting frames in batches costs less.
    fn with_a_batch(self) -> ProbationBounds {
        let ProbationBounds { frames, bytes } = self;
        ProbationBounds { frames: frames + frames / 4, bytes: bytes + bytes / 4 }
    }
}

/// Frames on probation.
#[derive(Debug, Default)]
pub(super) struct ProbationQueue {
    /// Oldest first.
    frames: VecDeque<Probationer>,
    bytes: usize,
    /// Number of frames offered.
    asked: u64,
}

impl ProbationQueue {
    fn exceeds(&self, bounds: ProbationBounds) -> bool {
        let newest = self.frames.back().map_or(0, |newest| newest.size);
        self.frames.len() > bounds.frames || self.bytes - newest > bounds.bytes
    }

    /// Puts a linked frame on probation, unless it is one of the few that bypass it. Reports
    /// whether the caller should [`end`](Self::end) the probation of others.
    pub(super) fn begin(&mut self, frame: Probationer, bounds: ProbationBounds) -> bool {
        self.asked = self.asked.wrapping_add(1);
        if is_one_in(UNTRIED, self.asked) {
            return false;
        }
        self.frames.push_back(frame);
        self.bytes += frame.size;
        self.exceeds(bounds.with_a_batch())
    }

    /// Removes and returns the oldest frame if the limits are exceeded.
    pub(super) fn end(&mut self, bounds: ProbationBounds) -> Option<Probationer> {
        let oldest = if self.exceeds(bounds) { self.frames.pop_front() } else { None }?;
        self.bytes -= oldest.size;
        Some(oldest)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_are_remembered_as_the_cache_holds() {
        let ghosts = GhostQueue::new(4096 * FRAME);
        let block = |file: u64, index: u32| BlockHash::of(file, index);
        assert!(!ghosts.take(block(1, 1)));
        // Eight files, read in turn, one block of each.
        let half = || (0..256).flat_map(|i| (1..=8).map(move |file| block(file, i)));
        half().for_each(|hash| ghosts.remember(hash));
        let found = half().filter(|hash| ghosts.take(*hash)).count();
        assert!(found > 2020, "{found} of 2048");
        assert_eq!(half().filter(|hash| ghosts.take(*hash)).count(), 0, "removed once");
        // Excess blocks replace the oldest.
        (0..40_000).for_each(|i| ghosts.remember(block(9, i)));
        let newest = (36_000..40_000).filter(|i| ghosts.take(block(9, *i))).count();
        let oldest = (0..30_000).filter(|i| ghosts.take(block(9, *i))).count();
        assert!(newest > 2500 && oldest < 20, "{newest} {oldest}");
        // A cache of zero bytes remembers at least one set.
        let ghosts = GhostQueue::new(0);
        ghosts.remember(block(1, 1));
        assert!(ghosts.take(block(1, 1)));
    }

    #[test]
    fn probation_ends_oldest_first_and_within_bounds() {
        let mut probation = ProbationQueue::default();
        let bounds = ProbationBounds::of(4 << 20);
        assert_eq!((bounds.frames, bounds.bytes), (FEWEST, 256 << 10));
        let frame = |i: u32, size| Probationer {
            place: SlabPlace { chunk: 0, index: i },
            slot: (0, i),
            hash: BlockHash::of(1, i),
            size,
        };
        let mut ended = vec![];
        for i in 0..1000 {
            // Frames of 1 KiB exceed the count limit first; frames of 8 KiB exceed the byte limit
            // first.
            let size = if i < 500 { 1 << 10 } else { 8 << 10 };
            if probation.begin(frame(i, size), bounds) {
                while let Some(frame) = probation.end(bounds) {
                    ended.push(frame.place.index);
                }
                assert!(probation.frames.len() <= FEWEST);
            }
            assert!(probation.frames.len() <= FEWEST + FEWEST / 4);
            assert!(probation.bytes <= (256 << 10) * 5 / 4 + size);
            assert_eq!(probation.bytes, probation.frames.iter().map(|f| f.size).sum::<usize>());
        }
        assert!(ended.is_sorted());
        let tried = ended.len() + probation.frames.len();
        assert!((940..990).contains(&tried), "1 in 32 bypasses probation: {tried} of 1000 do not");
        // A frame larger than the byte limit evicts no other by itself.
        let before = probation.frames.len();
        let is_due = (0..4).any(|i| probation.begin(frame(2000 + i, 1 << 20), bounds));
        assert!(is_due && probation.frames.len() > before);
        while probation.end(bounds).is_some() {}
        assert_eq!(probation.frames.len(), 1);
        // Limits for 64 GiB and for zero bytes.
        assert_eq!(ProbationBounds::of(64 << 30).frames, MOST);
        while probation.end(ProbationBounds::of(0)).is_some() {}
        assert_eq!(probation.frames.len(), 1);
    }
}
