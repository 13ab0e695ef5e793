//! Random numbers of a workload: xoshiro256++ (Blackman and Vigna), seeded through SplitMix64.
//!
//! Not for cryptography. Equal seeds give equal sequences on every machine, so results are
//! reproducible.

/// Source of random bits, with the numbers that are derived from them.
pub trait Random {
    /// Returns the next 64 random bits.
    fn bits(&mut self) -> u64;

    /// Returns a number below `n`, which is at least 1. The bias is below n / 2^64.
    #[inline]
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number in [0, 1), of 53 random bits.
    #[inline]
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a number in (0, 1]: safe for a logarithm or a negative power.
    #[inline]
    fn unit_above_zero(&mut self) -> f64 {
        1.0 - self.unit()
    }
}

/// Random numbers of one operation: a part of a SplitMix64 sequence, found by the operation's
/// number. So any thread, and the simulator, can calculate operation `i` without those before it.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draws {
    /// Number of draws after which the numbers of the next operation begin.
    const PER_OPERATION: u64 = 8;

    /// Creates the numbers of operation `i` of the sequence `seed`.
    #[inline]
    pub fn new(seed: u64, i: u64) -> Self {
        Draws { state: seed.wrapping_add(i.wrapping_mul(GOLDEN.wrapping_mul(Self::PER_OPERATION))) }
    }
}

impl Random for Draws {
    #[inline]
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }
}

/// Random number generator; each thread of a workload has its own.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Random for Rng {
    #[inline]
    fn bits(&mut self) -> u64 {
        Rng::bits(self)
    }
}

/// A bijection of the 64-bit numbers without visible patterns: the finalizer of SplitMix64.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Creates the generator of `seed`'s stream number `stream`: streams of one seed are
    /// independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut at = mix(seed).wrapping_add(mix(stream ^ 0x5851_f42d_4c95_7f2d));
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(GOLDEN);
            mix(at)
        });
        Rng { state }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Returns a number below `n`, which is at least 1. The bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        Random::below(self, n)
    }

    /// Returns a number in [0, 1), of 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        Random::unit(self)
    }

    /// Returns a number in (0, 1]: safe for a logarithm or a negative power.
    #[inline]
    pub fn unit_above_zero(&mut self) -> f64 {
        Random::unit_above_zero(self)
    }

    /// Returns a nearly normal number with mean 0 and deviation 1: the sum of twelve even ones.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let take = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            (0..100).map(|_| rng.bits()).collect::<Vec<_>>()
        };
        assert_eq!(take(7, 1), take(7, 1));
        assert_ne!(take(7, 1), take(7, 2));
        assert_ne!(take(7, 1), take(8, 1));
        assert_ne!(take(1, 2), take(2, 1));
    }

    #[test]
    fn operations_have_different_draws() {
        let mut seen = std::collections::HashSet::new();
        for i in 0..1000 {
            let mut draws = Draws::new(3, i);
            assert!((0..Draws::PER_OPERATION).all(|_| seen.insert(draws.bits())), "operation {i}");
        }
        let mean = (0..100_000).map(|i| Draws::new(3, i).unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "mean {mean}");
    }

    #[test]
    fn below_is_even_and_in_bounds() {
        let mut rng = Rng::new(1, 0);
        let (bins, draws) = (97usize, 970_000u64);
        let mut seen = vec![0u64; bins];
        (0..draws).for_each(|_| seen[rng.below(bins as u64) as usize] += 1);
        let expected = draws as f64 / bins as f64;
        let chi: f64 = seen.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        // 96 degrees of freedom: 99.9 % of samples are below 144.
        assert!(chi < 144.0, "chi-square {chi}");
        assert_eq!((0..1000).map(|_| rng.below(1)).max(), Some(0));
    }

    #[test]
    fn units_stay_in_their_intervals() {
        let mut rng = Rng::new(3, 0);
        let mean = (0..100_000)
            .map(|_| rng.unit())
            .inspect(|u| assert!((0.0..1.0).contains(u)))
            .sum::<f64>()
            / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "mean {mean}");
        assert!((0..100_000).all(|_| rng.unit_above_zero() > 0.0));
    }
}
