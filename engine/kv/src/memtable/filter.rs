//! A blocked Bloom filter over the keys of a memtable: most reads of a key that is not there end
//! here, for one cache line instead of a search.
//!
//! Invariants: a key whose add has returned is found by every reader that knows of it; bits are
//! only ever set. Each key has four bits in one 64-bit word (Putze, Sanders and Singler, "Cache-,
//! hash- and space-efficient Bloom filters", 2007). With 8 bits a key about one miss in twenty goes
//! on to the search.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of arena per word of filter: entries of 128 bytes have 8 bits each.
const BYTES_PER_WORD: usize = 1024;

/// The filter of one memtable.
pub(super) struct KeyFilter(Box<[AtomicU64]>);

/// The word and the bits of a hash.
#[inline]
fn place(hash: u64, words: usize) -> (usize, u64) {
    let word = (((hash >> 32) * words as u64) >> 32) as usize;
    let bit = |shift: u32| 1u64 << ((hash >> shift) & 63);
    let bits = bit(0) | bit(6) | bit(12) | bit(18);
    (word, bits)
}

impl KeyFilter {
    /// A filter for a memtable of `capacity` bytes.
    pub fn new(capacity: usize) -> KeyFilter {
        KeyFilter((0..Self::memory_for(capacity) / 8).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bytes that such a filter takes.
    pub fn memory_for(capacity: usize) -> usize {
        8 * capacity.div_ceil(BYTES_PER_WORD).max(1)
    }

    /// Takes a key's hash in. Whoever publishes the key after this with Release publishes the bits
    /// with it.
    #[inline]
    pub fn add(&self, hash: u64) {
        let (word, bits) = place(hash, self.0.len());
        if self.0[word].load(Relaxed) & bits != bits {
            self.0[word].fetch_or(bits, Relaxed);
        }
    }

    /// Whether a key with this hash may be there; `false` is always right.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let (word, bits) = place(hash, self.0.len());
        self.0[word].load(Relaxed) & bits == bits
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        8 * self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash::key_hash;

    #[test]
    fn no_key_is_missed_and_few_others_are_found() {
        let filter = KeyFilter::new(64 << 20);
        let hash = |i: u32| key_hash(&i.to_be_bytes());
        (0..500_000).for_each(|i| filter.add(hash(i)));
        assert!((0..500_000).all(|i| filter.may_contain(hash(i))));
        let wrong = (500_000..600_000).filter(|&i| filter.may_contain(hash(i))).count();
        assert!(wrong < 8_000, "{wrong} of 100,000");
        assert_eq!(filter.memory(), 512 << 10);
    }
}
