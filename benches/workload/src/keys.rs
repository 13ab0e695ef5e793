//! Keys, as db_bench makes them: the number in 8 bytes big-endian, then the character '0' up to the key size.
//!
//! So key order is the order of the numbers. YCSB's keys are the same with the number scrambled ([`crate::rng::mix`]).

/// Shortest key: a number in 8 bytes.
pub const MIN_KEY_SIZE: usize = 8;

/// Longest key.
pub const MAX_KEY_SIZE: usize = 4096;

/// The buffer in which one key after the other is made.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    bytes: Vec<u8>,
}

impl KeyBuf {
    /// A buffer for keys of `size` bytes; below [`MIN_KEY_SIZE`] it is that.
    pub fn new(size: usize) -> Self {
        KeyBuf { bytes: vec![b'0'; size.max(MIN_KEY_SIZE)] }
    }

    /// The key of `number`.
    #[inline]
    pub fn set(&mut self, number: u64) -> &[u8] {
        self.bytes[..8].copy_from_slice(&number.to_be_bytes());
        &self.bytes
    }
}

/// A permutation of the numbers below `n`: visits each once, in an order that depends on the seed.
///
/// Feistel rounds over the next even number of bits that holds `n`, walked until the image lies below `n`.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation of `seed` over the numbers below `n`.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Permutation { n, half: bits.div_ceil(2).max(1), seed }
    }

    /// The image of `i`, which must be below `n`.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = i;
        loop {
            x = self.rounds(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn rounds(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for round in 0..4u64 {
            let f = crate::rng::mix(right ^ self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15))) & mask;
            (left, right) = (right, left ^ f);
        }
        (left << self.half) | right
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
            assert!(n < 10 || seen.iter().enumerate().any(|(i, &v)| i as u64 != v), "identity for {n}");
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
        let (p, q) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        assert!((0..1000).any(|i| p.at(i) != q.at(i)));
    }
}
