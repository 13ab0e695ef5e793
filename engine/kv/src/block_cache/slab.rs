//! Slab allocation state: which place of which chunk is taken. This is safe code over integers; the
//! memory itself belongs to [`frame`](crate::block_cache::frame).
//!
//! Invariants:
//! 1. A place is handed out only once until it is returned.
//! 2. A chunk serves one size class while any of its places is taken. After the last place is
//!    returned, it can serve any class.
//! 3. `resident` counts every chunk whose memory may have been touched and was not returned since.

/// Bytes before the contents of every frame.
pub(super) const HEADER: usize = 64;
/// Size of the smallest frame in bytes, header included.
const SMALLEST: usize = 1024;
/// Size classes per power of two.
const STEPS: usize = 8;
/// Chunk number of frames that have their own allocation.
pub(super) const LOOSE: u32 = u32::MAX;
const NO_CLASS: usize = usize::MAX;

/// Location of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlabPlace {
    /// The chunk's number or [`LOOSE`].
    pub(super) chunk: u32,
    /// The frame's number in the chunk.
    pub(super) index: u32,
}

/// Returns the size class of a frame of `total` bytes, header included.
pub(super) fn class_of(total: usize) -> usize {
    if total <= SMALLEST {
        return 0;
    }
    let doubling = ((total - 1) / SMALLEST).ilog2() as usize;
    let base = SMALLEST << doubling;
    doubling * STEPS + (total - base).div_ceil(base / STEPS)
}

/// Returns the bytes of a frame of this class, header included.
pub(super) fn class_size(class: usize) -> usize {
    let base = SMALLEST << (class.saturating_sub(1) / STEPS);
    if class == 0 { SMALLEST } else { base + ((class - 1) % STEPS + 1) * (base / STEPS) }
}

#[derive(Debug)]
struct SlabChunk {
    class: usize,
    /// Number of taken places.
    live: u32,
    /// First place that was never taken since the chunk got its class.
    next: u32,
    /// Returned places.
    free: Vec<u16>,
    /// Index in its class's `partial` list, if any place is free.
    listed: Option<u32>,
}

/// Allocation state of all chunks.
#[derive(Debug)]
pub(super) struct Slab {
    chunk_size: usize,
    largest: usize,
    chunks: Vec<SlabChunk>,
    /// Chunks without a class whose memory is resident (`empty`) or not (`returned`).
    empty: Vec<u32>,
    returned: Vec<u32>,
    /// Per class: the chunks with free places (`partial`), and the number of free places (`free`).
    partial: Vec<Vec<u32>>,
    free: Vec<usize>,
    loose_next: u32,
    loose_free: Vec<u32>,
    loose_bytes: usize,
}

impl Slab {
    /// Creates the state for chunks of `chunk_size` bytes, a power of two from 64 KiB to 2 MiB.
    pub(super) fn new(chunk_size: usize) -> Slab {
        let largest = class_of(chunk_size / 8);
        Slab {
            chunk_size,
            largest,
            chunks: vec![],
            empty: vec![],
            returned: vec![],
            partial: vec![vec![]; largest + 1],
            free: vec![0; largest + 1],
            loose_next: 0,
            loose_free: vec![],
            loose_bytes: 0,
        }
    }

    /// Returns the class of a frame with contents of `len` bytes; `None` if it is too large for a
    /// chunk.
    pub(super) fn class_for(&self, len: usize) -> Option<usize> {
        Some(class_of(len.checked_add(HEADER)?)).filter(|&c| c <= self.largest)
    }

    /// Returns the number of frames in a chunk of this class.
    pub(super) fn per_chunk(&self, class: usize) -> usize {
        self.chunk_size / class_size(class)
    }

    /// Takes a free place of this class.
    pub(super) fn take(&mut self, class: usize) -> Option<SlabPlace> {
        let number = *self.partial[class].last()?;
        let per_chunk = self.per_chunk(class);
        let chunk = &mut self.chunks[number as usize];
        let index = chunk.free.pop().map_or(chunk.next, u32::from);
        if index == chunk.next {
            chunk.next += 1;
        }
        chunk.live += 1;
        self.free[class] -= 1;
        if chunk.live as usize == per_chunk {
            chunk.listed = None;
            self.partial[class].pop();
        }
        Some(SlabPlace { chunk: number, index })
    }

    /// Assigns a class to an empty chunk, or to a new one if `may_grow`. Returns its number. The
    /// number is at most the previous value of [`chunks`](Self::chunks).
    pub(super) fn assign(&mut self, class: usize, may_grow: bool) -> Option<u32> {
        let number = match self.empty.pop() {
            Some(number) => number,
            None if !may_grow => return None,
            None => self.returned.pop().unwrap_or_else(|| {
                let chunk =
                    SlabChunk { class: NO_CLASS, live: 0, next: 0, free: vec![], listed: None };
                self.chunks.push(chunk);
                self.chunks.len() as u32 - 1
            }),
        };
        let per_chunk = self.per_chunk(class);
        let chunk = &mut self.chunks[number as usize];
        (chunk.class, chunk.live, chunk.next) = (class, 0, 0);
        chunk.free.clear();
        chunk.listed = Some(self.partial[class].len() as u32);
        self.partial[class].push(number);
        self.free[class] += per_chunk;
        Some(number)
    }

    /// Takes a place back.
    pub(super) fn give(&mut self, place: SlabPlace) {
        let chunk = &mut self.chunks[place.chunk as usize];
        let class = chunk.class;
        chunk.live -= 1;
        chunk.free.push(place.index as u16);
        self.free[class] += 1;
        if chunk.listed.is_none() {
            chunk.listed = Some(self.partial[class].len() as u32);
            self.partial[class].push(place.chunk);
        }
        if chunk.live == 0 {
            self.retire(place.chunk);
        }
    }

    /// Removes an unused chunk from its class.
    fn retire(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        let class = std::mem::replace(&mut chunk.class, NO_CLASS);
        if let Some(at) = chunk.listed.take() {
            self.partial[class].swap_remove(at as usize);
            if let Some(&moved) = self.partial[class].get(at as usize) {
                self.chunks[moved as usize].listed = Some(at);
            }
        }
        self.free[class] -= self.per_chunk(class);
        self.empty.push(number);
    }

    /// Removes an empty chunk from the resident ones. The caller must return its memory now.
    pub(super) fn return_one(&mut self) -> Option<u32> {
        let number = self.empty.pop()?;
        self.returned.push(number);
        Some(number)
    }

    /// Allocates a number for a frame of `size` bytes with its own allocation.
    pub(super) fn take_loose(&mut self, size: usize) -> SlabPlace {
        self.loose_bytes += size;
        let index = self.loose_free.pop().unwrap_or_else(|| {
            self.loose_next += 1;
            self.loose_next - 1
        });
        SlabPlace { chunk: LOOSE, index }
    }

    /// Takes back the number of a frame of `size` bytes.
    pub(super) fn give_loose(&mut self, place: SlabPlace, size: usize) {
        self.loose_bytes -= size;
        self.loose_free.push(place.index);
    }

    /// Returns the bytes of memory held: whole chunks, and frames with their own allocation.
    pub(super) fn resident(&self) -> usize {
        self.chunk_bytes() + self.loose_bytes
    }

    /// Returns the bytes of the chunks alone.
    pub(super) fn chunk_bytes(&self) -> usize {
        (self.chunks.len() - self.returned.len()) * self.chunk_size
    }

    /// Returns the bytes of the taken frames.
    pub(super) fn live_bytes(&self) -> usize {
        let taken = |c: &SlabChunk| {
            c.live as usize * if c.class == NO_CLASS { 0 } else { class_size(c.class) }
        };
        self.chunks.iter().map(taken).sum::<usize>() + self.loose_bytes
    }

    /// Reports whether a resident chunk has no class.
    pub(super) fn has_empty(&self) -> bool {
        !self.empty.is_empty()
    }

    /// Returns the bytes of free places beyond one chunk per class. Compacting the frames would
    /// free this memory as whole chunks. It visits each class.
    pub(super) fn scattered(&self) -> usize {
        let free = self.free.iter().enumerate().map(|(class, n)| n * class_size(class));
        free.map(|bytes| bytes.saturating_sub(self.chunk_size)).sum()
    }

    /// Returns the number of free places of a class.
    pub(super) fn free_of(&self, class: usize) -> usize {
        self.free[class]
    }

    /// Returns the number of chunks ever created.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the class of a chunk and its number of taken places; `None` for a chunk without a
    /// class.
    pub(super) fn chunk(&self, number: usize) -> Option<(usize, usize)> {
        self.chunks.get(number).filter(|c| c.class != NO_CLASS).map(|c| (c.class, c.live as usize))
    }

    /// Returns the bytes of a chunk.
    pub(super) fn chunk_size(&self) -> usize {
        self.chunk_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn classes_hold_what_they_are_for() {
        assert_eq!(class_size(class_of(4096)), 4096);
        for total in 1..300_000 {
            let c = class_of(total);
            assert!(class_size(c) >= total);
            assert!(c == 0 || class_size(c - 1) < total, "{total}");
            assert_eq!(class_size(c) % 64, 0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, ..ProptestConfig::default() })]
        #[test]
        fn no_place_is_handed_out_twice(ops in prop::collection::vec((any::<bool>(), 0usize..3, any::<usize>()), 1..400)) {
            let mut slab = Slab::new(64 << 10);
            let classes = [0, 16, slab.largest];
            let mut taken = vec![];
            let mut set = HashSet::new();
            for (take, class, pick) in ops {
                if take || taken.is_empty() {
                    let class = classes[class];
                    let Some(p) = slab.take(class).or_else(|| {
                        slab.assign(class, true);
                        slab.take(class)
                    }) else { unreachable!() };
                    prop_assert!((p.index as usize) < slab.per_chunk(class));
                    prop_assert!(set.insert((p.chunk, p.index)));
                    prop_assert_eq!(slab.chunk(p.chunk as usize).unwrap().0, class);
                    taken.push(p);
                } else {
                    let p: SlabPlace = taken.swap_remove(pick % taken.len());
                    set.remove(&(p.chunk, p.index));
                    slab.give(p);
                }
                let live: usize = (0..slab.chunks()).filter_map(|n| slab.chunk(n)).map(|c| c.1).sum();
                prop_assert_eq!(live, taken.len());
            }
            for p in taken {
                slab.give(p);
            }
            prop_assert_eq!(slab.free.iter().sum::<usize>(), 0);
            while slab.return_one().is_some() {}
            prop_assert_eq!(slab.resident(), 0);
        }
    }
}
