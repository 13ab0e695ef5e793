//! Reproducible random numbers for tests: xoshiro256++ seeded by SplitMix64. The same seed gives
//! the same numbers on every machine and in every version; never change the sequence, because
//! recorded seeds depend on it. Not for cryptography.

/// A generator of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// Performs one step of SplitMix64: a good mixer of counters and seeds.
pub fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Creates a generator that always returns the same numbers for the same seed; any seed is
    /// valid.
    pub fn new(seed: u64) -> Rng {
        let mut s = seed;
        Rng { state: [mix(&mut s), mix(&mut s), mix(&mut s), mix(&mut s)] }
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number from 0 to `n - 1`; 0 if `n` is 0. (The bias is below `n` / 2^64.)
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number in `range`; its start if it is empty.
    pub fn range(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// Returns true once in `n` times on average; never if `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// Returns a number in 0.0..1.0.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns one of the items; `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// Fills the buffer with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Returns an independent generator for a part of the test, so that changes there do not shift
    /// the numbers here.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed() {
        // SplitMix64's published first output for seed 0.
        assert_eq!(mix(&mut 0), 0xe220_a839_7b1d_cdaf);
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn numbers_stay_in_bounds_and_cover_them() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[rng.below(10) as usize] += 1);
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert!(
            (0..1000)
                .all(|_| (5..8).contains(&rng.range(5..8)) && (0.0..1.0).contains(&rng.unit()))
        );
        assert_eq!((rng.below(0), rng.range(4..4), rng.one_in(0)), (0, 4, false));
        let mut items: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        let mut buffer = [0; 13];
        rng.fill(&mut buffer);
        assert_ne!(buffer[8..], [0; 5]);
    }
}
