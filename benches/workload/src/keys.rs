//! Keys in db_bench's format: the number in 8 bytes big-endian, then the character '0' up to the
//! key size.
//!
//! So key order is the order of the numbers. YCSB's keys are the same with the number scrambled
//! ([`crate::rng::mix`]).

use crate::rng::Rng;

/// Shortest key: a number in 8 bytes.
pub const MIN_KEY_SIZE: usize = 8;

/// Longest key: that of Firn. Other engines have their own bound.
pub const MAX_KEY_SIZE: usize = 524_287;

/// Buffer for generated keys.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    bytes: Vec<u8>,
}

impl KeyBuf {
    /// Creates a buffer for keys of `size` bytes, at least [`MIN_KEY_SIZE`].
    pub fn new(size: usize) -> Self {
        KeyBuf { bytes: vec![b'0'; size.max(MIN_KEY_SIZE)] }
    }

    /// Returns the key of `number`.
    #[inline]
    pub fn set(&mut self, number: u64) -> &[u8] {
        self.bytes[..8].copy_from_slice(&number.to_be_bytes());
        &self.bytes
    }
}

/// A permutation of the numbers below `n`: visits each once, in an order that depends on the seed.
///
/// Multiplications by odd numbers and shifted exclusive-ors permute the numbers of as many bits as
/// `n` needs. A number with an image that is not below `n` is mapped again, less than twice on
/// average.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    add: u64,
    factors: [u64; 3],
}

impl Permutation {
    /// Creates the permutation of `seed` over the numbers below `n`.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(1);
        let mut rng = Rng::new(seed, 0);
        Permutation {
            n,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            add: rng.bits(),
            factors: std::array::from_fn(|_| rng.bits() | 1),
        }
    }

    /// Returns the image of `i`, which must be below `n`.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = i;
        loop {
            x = x.wrapping_add(self.add) & self.mask;
            for factor in self.factors {
                x = x.wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers() {
        let mut a = KeyBuf::new(16);
        let mut b = KeyBuf::new(16);
        for (lo, hi) in [(0, 1), (255, 256), (1 << 32, (1 << 32) + 1), (u64::MAX - 1, u64::MAX)] {
            assert!(a.set(lo) < b.set(hi));
        }
        assert_eq!(KeyBuf::new(10).set(0x41), b"\0\0\0\0\0\0\0A00");
        assert_eq!(KeyBuf::new(3).set(1).len(), MIN_KEY_SIZE);
    }

    #[test]
    fn a_permutation_visits_each_number_once() {
        for n in [1, 2, 3, 10, 64, 1000, 4097] {
            let p = Permutation::new(n, 42);
            let mut seen: Vec<u64> = (0..n).map(|i| p.at(i)).collect();
            assert!(
                n < 10 || seen.iter().enumerate().any(|(i, &v)| i as u64 != v),
                "identity for {n}"
            );
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
        let (p, q) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        assert!((0..1000).any(|i| p.at(i) != q.at(i)));
    }
}
