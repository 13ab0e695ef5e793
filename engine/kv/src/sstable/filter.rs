//! The filter of a table: a binary fuse filter over the hashes of its keys (or of their filter
//! prefixes).
//!
//! Filter block, little-endian:
//! ```text
//! 0   u8   kind: 1 for 8-bit fingerprints, 2 for 16-bit ones
//! 1   3 x 0
//! 4   u32  segment_length, a power of two
//! 8   u64  seed
//! 16  u32  segment_count_length, a multiple of segment_length, at least one of it
//! 20  u32  number of fingerprints: segment_count_length + 2 * segment_length
//! 24       fingerprints, u8 or u16
//! ```
//! A hash `k` may be in the set when, with `h = mix(k + seed)` (`mix`: the finalizer of
//! MurmurHash3, 64 bits) and `a = (h * segment_count_length) >> 64`,
//! `b = (a + segment_length) ^ ((h >> 18) & (segment_length - 1))`, `c = (a + 2 * segment_length) ^
//! (h & (segment_length - 1))`, the fingerprints at `a`, `b` and `c` XOR to the lowest bits of
//! `h ^ (h >> 32)`.
//!
//! Invariants: [`BlockFilter::decode`] accepts only sizes for which `a`, `b` and `c` are in bounds
//! for every `h`: segments are aligned to their length, so XOR with less than that stays inside
//! one.

use xorf::{BinaryFuse8, BinaryFuse16, Filter as _};

use crate::base::coding::{u32_at, u64_at};
use crate::base::options::FilterKind;

const HEADER: usize = 24;

/// A filter held in memory.
#[derive(Clone, Debug)]
pub(crate) struct BlockFilter {
    pub seed: u64,
    pub segment: u32,
    pub count: u32,
    prints: Prints,
}

#[derive(Clone, Debug)]
enum Prints {
    Narrow(Box<[u8]>),
    Wide(Box<[u16]>),
}

#[inline]
fn mix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// Builds the block for `hashes`; `None` for no filter. Hashes may repeat, rarely.
pub(crate) fn build(kind: FilterKind, hashes: &mut Vec<u64>) -> Option<Vec<u8>> {
    if hashes.len() > u32::MAX as usize / 4 {
        return None;
    }
    match kind {
        FilterKind::None => None,
        FilterKind::Fuse8 => {
            let f = retry(hashes, |h| BinaryFuse8::try_from(h).ok())?;
            let mut out = header(
                kind,
                f.descriptor.seed,
                [f.descriptor.segment_length, f.descriptor.segment_count_length],
                f.len(),
            );
            out.extend_from_slice(&f.fingerprints);
            Some(out)
        }
        FilterKind::Fuse16 => {
            let f = retry(hashes, |h| BinaryFuse16::try_from(h).ok())?;
            let mut out = header(
                kind,
                f.descriptor.seed,
                [f.descriptor.segment_length, f.descriptor.segment_count_length],
                f.len(),
            );
            f.fingerprints.iter().for_each(|p| out.extend_from_slice(&p.to_le_bytes()));
            Some(out)
        }
    }
}

/// Construction draws new seeds by itself; what makes it fail for good is repeats, so they are
/// taken out only then.
fn retry<T>(hashes: &mut Vec<u64>, make: impl Fn(&[u64]) -> Option<T>) -> Option<T> {
    make(hashes).or_else(|| {
        hashes.sort_unstable();
        hashes.dedup();
        make(hashes)
    })
}

fn header(kind: FilterKind, seed: u64, [segment, count]: [u32; 2], prints: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + prints * kind as usize);
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&seed.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(prints as u32).to_le_bytes());
    out
}

impl BlockFilter {
    /// Reads a filter block. What is wrong, if it is none.
    pub fn decode(b: &[u8]) -> Result<BlockFilter, &'static str> {
        if b.len() < HEADER || b[1..4] != [0; 3] {
            return Err("a filter that is cut off");
        }
        let (segment, seed, count, prints) =
            (u32_at(b, 4), u64_at(b, 8), u32_at(b, 16), u32_at(b, 20));
        let need = count as u64 + 2 * segment as u64;
        let sound = segment.is_power_of_two()
            && count >= segment
            && count.is_multiple_of(segment)
            && prints as u64 == need;
        let body = &b[HEADER..];
        if !sound || body.len() as u64 != need * b[0] as u64 {
            return Err("a filter whose sizes do not fit together");
        }
        let prints = match b[0] {
            1 => Prints::Narrow(body.into()),
            2 => Prints::Wide(
                body.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect(),
            ),
            _ => return Err("a filter of unknown kind"),
        };
        Ok(BlockFilter { seed, segment, count, prints })
    }

    /// Whether the hash may be in the set: `false` is always right.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let h = mix(hash.wrapping_add(self.seed));
        let mask = self.segment - 1;
        let a = ((h as u128 * self.count as u128) >> 64) as u32;
        let b = (a + self.segment) ^ ((h >> 18) as u32 & mask);
        let c = (a + 2 * self.segment) ^ (h as u32 & mask);
        let (a, b, c) = (a as usize, b as usize, c as usize);
        let print = h ^ (h >> 32);
        match &self.prints {
            Prints::Narrow(p) => p[a] ^ p[b] ^ p[c] == print as u8,
            Prints::Wide(p) => p[a] ^ p[b] ^ p[c] == print as u16,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> FilterKind {
        match self.prints {
            Prints::Narrow(_) => FilterKind::Fuse8,
            Prints::Wide(_) => FilterKind::Fuse16,
        }
    }

    /// The fingerprints.
    pub fn fingerprints(&self) -> Vec<u16> {
        match &self.prints {
            Prints::Narrow(p) => p.iter().map(|&p| p.into()).collect(),
            Prints::Wide(p) => p.to_vec(),
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        match &self.prints {
            Prints::Narrow(p) => p.len(),
            Prints::Wide(p) => 2 * p.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash::key_hash;
    use proptest::prelude::*;

    fn hashes(n: u64) -> Vec<u64> {
        (0..n).map(|i| key_hash(&i.to_le_bytes())).collect()
    }

    #[test]
    fn members_are_found_and_strangers_mostly_not() {
        for n in [0, 1, 2, 3, 10, 1000, 100_000] {
            for (kind, most) in [(FilterKind::Fuse8, 0.006), (FilterKind::Fuse16, 0.0004)] {
                let f = BlockFilter::decode(&build(kind, &mut hashes(n)).unwrap()).unwrap();
                assert!(hashes(n).into_iter().all(|h| f.may_contain(h)), "{n} {kind:?}");
                let wrong =
                    (n..n + 50_000).filter(|i| f.may_contain(key_hash(&i.to_le_bytes()))).count();
                assert!(n < 10 || (wrong as f64) < 50_000.0 * most, "{n} {kind:?} {wrong}");
            }
        }
    }

    #[test]
    fn the_query_is_the_crates_own() {
        let keys = hashes(5000);
        let theirs = BinaryFuse8::try_from(&keys).unwrap();
        let ours =
            BlockFilter::decode(&build(FilterKind::Fuse8, &mut keys.clone()).unwrap()).unwrap();
        assert!(hashes(100_000).iter().all(|h| theirs.contains(h) == ours.may_contain(*h)));
    }

    proptest! {
        #[test]
        fn damaged_filters_are_refused_or_answer(n in 0u64..40, at in 0usize..24, bit in 0u8..8, cut in 0usize..30, probes: [u64; 8]) {
            let mut b = build(FilterKind::Fuse8, &mut hashes(n)).unwrap();
            b[at] ^= 1 << bit;
            b.truncate(b.len() - cut.saturating_sub(20));
            if let Ok(f) = BlockFilter::decode(&b) {
                for p in probes { f.may_contain(p); }
            }
        }
    }
}
