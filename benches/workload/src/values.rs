//! Values: slices of a pool that is created once, so that a put needs no random number per byte.
//!
//! The pool consists of pieces of 100 bytes (as in db_bench), each with a repeated random part:
//! with a random share of 0.5, LZ4 compresses them to about 0.55.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::phase::parse_count;
use crate::rng::{Random, Rng};

/// Largest value that a workload may write: 16 MiB.
pub const MAX_VALUE_SIZE: usize = 16 << 20;

/// Number of quantiles from which the figures of a Pareto distribution are calculated.
const QUANTILES: u64 = 4096;

const PIECE: usize = 100;
const POOL: usize = 1 << 20;

/// Size of values.
///
/// As text: `100`, `10k` (10,000), `100-1000`, `pareto`, or `pareto:theta:k:sigma:max`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub enum ValueSize {
    /// Always this many bytes.
    Fixed(usize),
    /// Every length from the first to the second with equal probability.
    Uniform(usize, usize),
    /// Generalized Pareto, as measured for ZippyDB (FAST'20).
    Pareto(Pareto),
}

/// The Generalized Pareto distribution: location `theta`, shape `k`, scale `sigma`. Results above
/// `max` are replaced by their remainder, as in db_bench, so that they do not accumulate there; the
/// minimum is 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pareto {
    /// Location: the smallest result.
    pub theta: f64,
    /// Shape: how heavy the tail is.
    pub k: f64,
    /// Scale.
    pub sigma: f64,
    /// Largest result.
    pub max: u64,
}

/// A number, or its text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum NumberOrText {
    Number(u64),
    Text(String),
}

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberOrText::Number(n) => n.fmt(f),
            NumberOrText::Text(text) => f.write_str(text),
        }
    }
}

impl TryFrom<NumberOrText> for ValueSize {
    type Error = String;

    fn try_from(text: NumberOrText) -> Result<Self, String> {
        text.to_string().parse()
    }
}

impl From<ValueSize> for String {
    fn from(size: ValueSize) -> String {
        size.to_string()
    }
}

impl fmt::Display for ValueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSize::Fixed(n) => n.fmt(f),
            ValueSize::Uniform(lo, hi) => write!(f, "{lo}-{hi}"),
            ValueSize::Pareto(Pareto { theta, k, sigma, max }) => {
                write!(f, "pareto:{theta}:{k}:{sigma}:{max}")
            }
        }
    }
}

impl Pareto {
    /// Sizes of mixgraph's values.
    pub const MIXGRAPH: Pareto = Pareto { theta: 0.0, k: 0.2615, sigma: 25.45, max: 1024 };

    /// Draws one number.
    #[inline]
    pub fn sample(&self, rng: &mut impl Random) -> u64 {
        self.at(rng.unit_above_zero())
    }

    /// Returns the number of the quantile 1 − `u`.
    fn at(&self, u: f64) -> u64 {
        let x = if self.k == 0.0 {
            self.theta - self.sigma * u.ln()
        } else {
            self.theta + self.sigma * (u.powf(-self.k) - 1.0) / self.k
        };
        let x = x.ceil() as u64;
        if x > self.max { (x % self.max.max(1)).max(1) } else { x.max(1) }
    }
}

impl ValueSize {
    /// Draws one length.
    #[inline]
    pub fn sample(&self, rng: &mut impl Random) -> usize {
        match self {
            ValueSize::Fixed(n) => *n,
            ValueSize::Uniform(lo, hi) => lo + rng.below((hi - lo + 1) as u64) as usize,
            ValueSize::Pareto(p) => p.sample(rng) as usize,
        }
    }

    /// Returns the length that a share `u` (0 to 1) of all values do not reach.
    pub fn quantile(&self, u: f64) -> usize {
        match *self {
            ValueSize::Fixed(n) => n,
            ValueSize::Uniform(lo, hi) => lo + ((hi - lo + 1) as f64 * u) as usize,
            ValueSize::Pareto(p) => p.at((1.0 - u).max(f64::MIN_POSITIVE)) as usize,
        }
    }

    /// Returns the mean length.
    pub fn mean(&self) -> f64 {
        match self {
            ValueSize::Fixed(n) => *n as f64,
            ValueSize::Uniform(lo, hi) => f64::midpoint(*lo as f64, *hi as f64),
            ValueSize::Pareto(p) => {
                let at = |i: u64| p.at((i as f64 + 0.5) / QUANTILES as f64) as f64;
                (0..QUANTILES).map(at).sum::<f64>() / QUANTILES as f64
            }
        }
    }

    /// Returns the share of the values of at least this many bytes.
    pub fn share_from(&self, bytes: usize) -> f64 {
        match *self {
            ValueSize::Fixed(n) => f64::from(u8::from(n >= bytes)),
            ValueSize::Uniform(lo, hi) => {
                (hi + 1).saturating_sub(bytes.max(lo)) as f64 / (hi - lo + 1) as f64
            }
            ValueSize::Pareto(p) => {
                let at = |i: u64| p.at((i as f64 + 0.5) / QUANTILES as f64) >= bytes as u64;
                (0..QUANTILES).filter(|&i| at(i)).count() as f64 / QUANTILES as f64
            }
        }
    }

    /// Returns the longest value that can be drawn.
    pub fn max(&self) -> usize {
        match self {
            ValueSize::Fixed(n) => *n,
            ValueSize::Uniform(_, hi) => *hi,
            ValueSize::Pareto(p) => usize::try_from(p.max).unwrap_or(usize::MAX),
        }
    }
}

impl FromStr for ValueSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| {
            let bytes = parse_count(t).map_err(|e| format!("value size {text:?}: {e}"))?;
            usize::try_from(bytes).map_err(|e| format!("value size {text:?}: {e}"))
        };
        let size = if let Some(rest) = text.strip_prefix("pareto") {
            let mut p = Pareto::MIXGRAPH;
            let parts: Vec<&str> = rest.split(':').skip(1).collect();
            match parts[..] {
                [] if rest.is_empty() => {}
                [theta, k, sigma, max] => {
                    let float =
                        |t: &str| t.parse::<f64>().map_err(|e| format!("value size {text:?}: {e}"));
                    p = Pareto {
                        theta: float(theta)?,
                        k: float(k)?,
                        sigma: float(sigma)?,
                        max: number(max)? as u64,
                    };
                }
                _ => {
                    return Err(format!(
                        "value size {text:?}: expected pareto or pareto:theta:k:sigma:max"
                    ));
                }
            }
            ValueSize::Pareto(p)
        } else if let Some((lo, hi)) = text.split_once('-') {
            let (lo, hi) = (number(lo)?, number(hi)?);
            if lo > hi {
                return Err(format!(
                    "value size {text:?}: the first number is larger than the second"
                ));
            }
            ValueSize::Uniform(lo, hi)
        } else {
            ValueSize::Fixed(number(text)?)
        };
        if size.max() > MAX_VALUE_SIZE {
            return Err(format!("value size {text:?} exceeds {MAX_VALUE_SIZE}"));
        }
        Ok(size)
    }
}

/// Bytes for the values.
#[derive(Debug)]
pub struct ValuePool {
    bytes: Vec<u8>,
}

impl ValuePool {
    /// Creates a pool for values of up to `longest` bytes; a fraction of `random_share` (0 to 1) of
    /// their bytes is random, the rest repeats.
    pub fn new(longest: usize, random_share: f64, seed: u64) -> Self {
        let len = POOL + longest;
        let mut rng = Rng::new(seed, u64::MAX);
        let random = ((PIECE as f64 * random_share) as usize).clamp(1, PIECE);
        let mut bytes = Vec::with_capacity(len + PIECE);
        while bytes.len() < len {
            let start = bytes.len();
            bytes.extend((0..random).map(|_| rng.bits() as u8));
            for i in random..PIECE {
                let byte = bytes[start + i % random];
                bytes.push(byte);
            }
        }
        ValuePool { bytes }
    }

    /// Creates a pool of real data, repeated, for values of up to `longest` bytes.
    pub fn of(sample: &[u8], longest: usize) -> Self {
        ValuePool { bytes: sample.iter().copied().cycle().take(POOL + longest).collect() }
    }

    /// Returns the value of operation `i`, of `len` bytes (at most the pool's longest). Values of
    /// consecutive operations of at most `longest` bytes do not overlap.
    #[inline]
    pub fn value(&self, i: u64, longest: usize, len: usize) -> &[u8] {
        // With an odd distance, all positions are used before one is used again.
        let at = (i.wrapping_mul(longest as u64 | 1) % POOL as u64) as usize;
        &self.bytes[at..at + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_or_say_why_not() {
        assert_eq!("100".parse(), Ok(ValueSize::Fixed(100)));
        assert_eq!("10k".parse(), Ok(ValueSize::Fixed(10_000)));
        assert_eq!("1-9".parse(), Ok(ValueSize::Uniform(1, 9)));
        let Ok(ValueSize::Pareto(p)) = "pareto:0:0.2:30:500".parse() else { panic!("pareto") };
        assert_eq!((p.k, p.sigma, p.max), (0.2, 30.0, 500));
        assert_eq!("pareto".parse(), Ok(ValueSize::Pareto(Pareto::MIXGRAPH)));
        for bad in ["", "x", "9-1", "pareto:1", "paretox", "99999999999"] {
            assert!(bad.parse::<ValueSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_follow_their_distribution() {
        let mut rng = Rng::new(1, 0);
        let uniform = ValueSize::Uniform(3, 5);
        let mut seen = [0u32; 6];
        (0..30_000).for_each(|_| seen[uniform.sample(&mut rng)] += 1);
        assert!(
            seen[..3].iter().all(|&n| n == 0)
                && seen[3..].iter().all(|&n| (9_500..10_500).contains(&n)),
            "{seen:?}"
        );
        // The mean of the Generalized Pareto distribution is theta + sigma / (1 - k); rounding up
        // adds one half.
        let pareto = Pareto { theta: 0.0, k: 0.2615, sigma: 25.45, max: 1 << 20 };
        let mean = (0..200_000).map(|_| pareto.sample(&mut rng) as f64).sum::<f64>() / 2e5;
        assert!((mean - (25.45 / (1.0 - 0.2615) + 0.5)).abs() < 0.6, "mean {mean}");
        let capped = Pareto { max: 40, ..pareto };
        let mut seen = [0u32; 41];
        (0..40_000).for_each(|_| seen[capped.sample(&mut rng) as usize] += 1);
        assert!(
            seen[0] == 0 && seen[40] < seen[20],
            "outcomes above the bound do not pile up there: {seen:?}"
        );
    }

    #[test]
    fn half_of_each_piece_repeats() {
        let pool = ValuePool::new(1000, 0.5, 1);
        let halves = |value: &[u8]| value.chunks(50).map(<[u8]>::to_vec).collect::<Vec<_>>();
        for i in 0..10_000 {
            // A multiple of the length of a piece, so that the value has whole ones.
            let halves = halves(pool.value(i * 100, 0, 100));
            assert_eq!(halves[0], halves[1]);
        }
        assert_eq!(pool.value(u64::MAX, 700, 1000).len(), 1000);
        let solid = ValuePool::new(100, 1.0, 1);
        let halves = halves(solid.value(0, 100, 100));
        assert_ne!(halves[0], halves[1]);
    }

    #[test]
    fn the_mean_is_that_of_samples_and_text_round_trips() {
        let mut rng = Rng::new(1, 0);
        for text in ["100", "50-150", "pareto", "pareto:0:2.517:14.236:10000"] {
            let size: ValueSize = text.parse().unwrap();
            assert_eq!(size.to_string().parse(), Ok(size));
            let mean = (0..200_000).map(|_| size.sample(&mut rng) as f64).sum::<f64>() / 2e5;
            assert!((mean / size.mean() - 1.0).abs() < 0.02, "{text}: {mean}, {}", size.mean());
        }
    }
}
