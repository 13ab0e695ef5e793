//! Probation: what is read once leaves a full cache early.
//!
//! A block that a reader has missed enters a full cache on probation. When some others have come after
//! it, it goes, long before the clock's hand would come by, unless somebody has read it again or holds
//! it. The cache remembers those that went, and one that is missed again soon stays. So what is read
//! twice has the memory, and what is read once passes through few frames. These are the two short
//! queues of S3-FIFO (Yang et al., SOSP 2023) and 2Q (Johnson and Shasha, VLDB 1994) before the clock,
//! the second of them as a table of marks.
//!
//! That is so where the cache holds what is read again and again: where the clock's hand has to keep a
//! quarter of what it meets. Elsewhere, as after a load, nothing is to be kept from those that come.
//!
//! Invariants:
//! 1. A frame on probation is linked, and in the clock's books, as any other is.
//! 2. Frames on probation are few: [`ProbationBounds`] and a batch more.
//! 3. What is remembered is a hint: of two blocks with one mark, one may stay for the other.
//! 4. Readers that turn to other blocks find those in the end, whatever is remembered: one in
//!    [`UNTRIED`] goes without probation.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::slab::SlabPlace;

/// The least and the most frames on probation; in between one in so many of those that the cache may
/// hold.
const FEWEST: usize = 64;
const MOST: usize = 256;
const ONE_IN: usize = 512;
/// Of the capacity they have no more than this part.
const PART: usize = 16;
/// What a frame is taken to have, in bytes.
const FRAME: usize = 4 << 10;
/// Of the blocks that might go on probation one in so many does not.
const UNTRIED: u64 = 32;

/// Which block it is, of which file, as a number that is spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHash(u64);

/// Spreads a number over all 64 bits, the high ones best.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether the one with this number is drawn, of each `many` one. Scattered: of several that take
/// numbers by turns each gets its share.
pub(super) fn is_one_in(many: u64, number: u64) -> bool {
    (number.wrapping_mul(SCATTER) >> 32).is_multiple_of(many)
}

impl BlockHash {
    pub(super) fn of(file: u64, index: u32) -> BlockHash {
        let file = file.wrapping_mul(SCATTER).rotate_left(32);
        BlockHash(file.wrapping_add(u64::from(index)).wrapping_mul(SCATTER))
    }
}

/// Marks in a set: the oldest of it goes for another one.
const SET: usize = 8;
/// At most so many blocks are remembered.
const MOST_REMEMBERED: usize = 4 << 20;

/// Blocks that went after their probation: of as many as the cache holds, if their frames have
/// 4 KiB.
#[derive(Debug)]
pub(super) struct GhostQueue {
    sets: OnceLock<Box<[[AtomicU32; SET]]>>,
    number: usize,
}

impl GhostQueue {
    /// For a cache that may grow to `most` bytes. It takes memory when the first block goes.
    pub(super) fn new(most: usize) -> GhostQueue {
        let number = (most / FRAME).clamp(SET, MOST_REMEMBERED) / SET;
        GhostQueue { sets: OnceLock::new(), number }
    }

    fn find(sets: &[[AtomicU32; SET]], hash: BlockHash) -> (&[AtomicU32; SET], u32) {
        let at = ((hash.0 >> 32) * sets.len() as u64) >> 32;
        (&sets[at as usize], hash.0 as u32 | 1)
    }

    /// Remembers a block, in place of another.
    pub(super) fn remember(&self, hash: BlockHash) {
        let sets = self.sets.get_or_init(|| (0..self.number).map(|_| Default::default()).collect());
        let (set, mark) = Self::find(sets, hash);
        set.iter().fold(mark, |mark, place| {
            let before = place.load(Ordering::Relaxed);
            place.store(mark, Ordering::Relaxed);
            before
        });
    }

    /// Whether a block is remembered; it is forgotten then.
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
    /// Where it lies,
    pub(super) place: SlabPlace,
    /// and which slot led to it: the address of the table's slots, and the number.
    pub(super) slot: (usize, u32),
    pub(super) hash: BlockHash,
    pub(super) size: usize,
}

/// How much may be on probation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbationBounds {
    frames: usize,
    /// The newest frame does not count here: it may be as large as all others.
    bytes: usize,
}

impl ProbationBounds {
    /// Of a cache of so many bytes.
    pub(super) fn of(capacity: usize) -> ProbationBounds {
        let frames = (capacity / FRAME / ONE_IN).clamp(FEWEST, MOST);
        ProbationBounds { frames, bytes: capacity / PART }
    }

    /// A quarter more: frames that go together cost less.
    fn with_a_batch(self) -> ProbationBounds {
        let ProbationBounds { frames, bytes } = self;
        ProbationBounds { frames: frames + frames / 4, bytes: bytes + bytes / 4 }
    }
}

/// The frames on probation.
#[derive(Debug, Default)]
pub(super) struct ProbationQueue {
    /// Oldest first.
    frames: VecDeque<Probationer>,
    bytes: usize,
    /// How many might have been tried.
    asked: u64,
}

impl ProbationQueue {
    fn exceeds(&self, bounds: ProbationBounds) -> bool {
        let newest = self.frames.back().map_or(0, |newest| newest.size);
        self.frames.len() > bounds.frames || self.bytes - newest > bounds.bytes
    }

    /// A frame that has been linked is on probation from now on, unless it is one of the few that are
    /// not tried. Whether it is time to [`end`](Self::end) that of others.
    pub(super) fn begin(&mut self, frame: Probationer, bounds: ProbationBounds) -> bool {
        self.asked = self.asked.wrapping_add(1);
        if is_one_in(UNTRIED, self.asked) {
            return false;
        }
        self.frames.push_back(frame);
        self.bytes += frame.size;
        self.exceeds(bounds.with_a_batch())
    }

    /// The oldest of those that are more than there may be.
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
        let departed = GhostQueue::new(4096 * FRAME);
        let block = |file: u64, index: u32| BlockHash::of(file, index);
        assert!(!departed.take(block(1, 1)));
        // Of eight files, as they are read one block of each after the other.
        let half = || (0..256).flat_map(|i| (1..=8).map(move |file| block(file, i)));
        half().for_each(|hash| departed.remember(hash));
        let found = half().filter(|hash| departed.take(*hash)).count();
        assert!(found > 2020, "{found} of 2048");
        assert_eq!(half().filter(|hash| departed.take(*hash)).count(), 0, "each is taken once");
        // What is too much drives out the oldest.
        (0..40_000).for_each(|i| departed.remember(block(9, i)));
        let newest = (36_000..40_000).filter(|i| departed.take(block(9, *i))).count();
        let oldest = (0..30_000).filter(|i| departed.take(block(9, *i))).count();
        assert!(newest > 2500 && oldest < 20, "{newest} {oldest}");
        // A cache of nothing remembers something.
        let departed = GhostQueue::new(0);
        departed.remember(block(1, 1));
        assert!(departed.take(block(1, 1)));
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
            // Frames of 1 KiB, which are too many before they are too large, then of 8.
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
        assert!((940..990).contains(&tried), "one in 32 is not tried: {tried} of 1000 are");
        // One that is larger than all may be drives out no other by itself.
        let before = probation.frames.len();
        let is_due = (0..4).any(|i| probation.begin(frame(2000 + i, 1 << 20), bounds));
        assert!(is_due && probation.frames.len() > before);
        while probation.end(bounds).is_some() {}
        assert_eq!(probation.frames.len(), 1);
        // As large as 64 GiB, and nothing at all.
        assert_eq!(ProbationBounds::of(64 << 30).frames, MOST);
        while probation.end(ProbationBounds::of(0)).is_some() {}
        assert_eq!(probation.frames.len(), 1);
    }
}
