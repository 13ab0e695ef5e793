//! Random numbers of a workload: xoshiro256++ (Blackman and Vigna), seeded through SplitMix64.
//!
//! Not for cryptography. Equal seeds give equal sequences on every machine, so results are
//! reproducible.

/// Random number generator; each thread of a workload has its own.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
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
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
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
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number in [0, 1), of 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a number in (0, 1]: safe for a logarithm or a negative power.
    #[inline]
    pub fn unit_above_zero(&mut self) -> f64 {
        1.0 - self.unit()
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
