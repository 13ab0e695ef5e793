//! A blocked Bloom filter over the keys of a memtable. Most lookups of missing keys end here, at
//! the cost of one cache line instead of a search.
//!
//! Invariants:
//! - A key whose add has returned is found by every reader that may see the add.
//! - Bits are only ever set.
//!
//! Each key has four bits in one 64-bit word (Putze, Sanders and Singler, "Cache-, hash- and
//! space-efficient Bloom filters", 2007). With 8 bits per key about one miss in twenty still needs
//! the search.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Arena bytes per word of filter: entries of 128 bytes get 8 bits each.
const BYTES_PER_WORD: usize = 1024;

/// The filter of one memtable.
pub(super) struct KeyFilter(Box<[AtomicU64]>);

/// Returns the word index and the bits of a hash.
#[inline]
fn place(hash: u64, words: usize) -> (usize, u64) {
    let word = (((hash >> 32) * words as u64) >> 32) as usize;
    let bit = |shift: u32| 1u64 << ((hash >> shift) & 63);
    let bits = bit(0) | bit(6) | bit(12) | bit(18);
    (word, bits)
}

impl KeyFilter {
    /// Creates a filter for a memtable of `capacity` bytes.
    pub fn new(capacity: usize) -> KeyFilter {
        KeyFilter((0..Self::memory_for(capacity) / 8).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the size in bytes of such a filter.
    pub fn memory_for(capacity: usize) -> usize {
        8 * capacity.div_ceil(BYTES_PER_WORD).max(1)
    }

    /// Adds a key's hash. A later Release publication of the key also publishes the bits.
    #[inline]
    pub fn add(&self, hash: u64) {
        let (word, bits) = place(hash, self.0.len());
        if self.0[word].load(Relaxed) & bits != bits {
            self.0[word].fetch_or(bits, Relaxed);
        }
    }

    /// Reports whether a key with this hash may be present; `false` is always correct.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let (word, bits) = place(hash, self.0.len());
        self.0[word].load(Relaxed) & bits == bits
    }

    /// Returns its size in bytes.
    pub fn memory(&self) -> usize {
        8 * self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::hash::key_hash;

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
