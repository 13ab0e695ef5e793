//! Table filter: a binary fuse filter over the hashes of keys or of their filter prefixes.
//!
//! Filter block, little-endian:
//! ```text
//! 0   u8   kind: 1 for 8-bit fingerprints, 2 for 16-bit ones
//! 1   u8   number of the highest bits that each fingerprint drops, 0 to 7
//! 2   2 x 0
//! 4   u32  segment_length, a power of two
//! 8   u64  seed
//! 16  u32  segment_count_length, a multiple of segment_length, at least one of it
//! 20  u32  number of fingerprints: segment_count_length + 2 * segment_length
//! 24       fingerprints of 8 * kind - dropped bits each, packed from the lowest bit on
//! ```
//! A lookup of hash `k` computes `h = mix(k + seed)`, where `mix` is the 64-bit finalizer of
//! MurmurHash3. It reads the fingerprints at three positions:
//! - `a = (h * segment_count_length) >> 64`
//! - `b = (a + segment_length) ^ ((h >> 18) & (segment_length - 1))`
//! - `c = (a + 2 * segment_length) ^ (h & (segment_length - 1))`
//!
//! The hash may be in the set if the three fingerprints XOR to the lowest bits of `h ^ (h >> 32)`.
//! This holds for each bit separately, so a filter with dropped bits still finds every member. Each
//! dropped bit doubles the false positives.
//!
//! Invariant: [`BlockFilter::decode`] accepts only sizes for which `a`, `b` and `c` are in bounds
//! for every `h`. Segments are aligned to their length, so XOR with a smaller number stays inside a
//! segment.

use xorf::{BinaryFuse8, BinaryFuse16, Filter as _};

use crate::base::options::FilterKind;
use crate::util::coding::{u32_at, u64_at};

const HEADER: usize = 24;

/// Padding bytes after the fingerprints in memory, so that each can be loaded as four bytes.
const PADDING: usize = 3;

/// A filter held in memory.
#[derive(Clone, Debug)]
pub(crate) struct BlockFilter {
    pub seed: u64,
    pub segment: u32,
    pub count: u32,
    kind: FilterKind,
    dropped: u8,
    /// Fingerprints as in the block, and the padding.
    prints: Box<[u8]>,
}

#[inline]
fn mix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// Builds the filter block for `hashes`. Omits the `dropped` (0 to 7) highest bits of each
/// fingerprint. Returns `None` for no filter. Hashes may repeat, rarely.
pub(crate) fn build(kind: FilterKind, dropped: u8, hashes: &mut Vec<u64>) -> Option<Vec<u8>> {
    debug_assert!(dropped < 8, "at most 7 bits of a fingerprint can be dropped");
    if hashes.len() > u32::MAX as usize / 4 {
        return None;
    }
    let head = |seed, segments, prints| header([kind as u8, dropped], seed, segments, prints);
    match kind {
        FilterKind::None => None,
        FilterKind::Fuse8 => {
            let f = retry(hashes, |h| BinaryFuse8::try_from(h).ok())?;
            let d = &f.descriptor;
            let mut out = head(d.seed, [d.segment_length, d.segment_count_length], f.len());
            pack(f.fingerprints.iter().map(|&p| p.into()), kind.bits() - dropped, &mut out);
            Some(out)
        }
        FilterKind::Fuse16 => {
            let f = retry(hashes, |h| BinaryFuse16::try_from(h).ok())?;
            let d = &f.descriptor;
            let mut out = head(d.seed, [d.segment_length, d.segment_count_length], f.len());
            pack(f.fingerprints.iter().copied(), kind.bits() - dropped, &mut out);
            Some(out)
        }
    }
}

/// Appends the lowest `bits` (1 to 16) bits of each fingerprint.
fn pack(prints: impl Iterator<Item = u16>, bits: u8, out: &mut Vec<u8>) {
    let (mut gathered, mut have) = (0u32, 0);
    for print in prints {
        gathered |= (u32::from(print) & mask(bits)) << have;
        have += bits;
        while have >= 8 {
            out.push(gathered as u8);
            gathered >>= 8;
            have -= 8;
        }
    }
    if have > 0 {
        out.push(gathered as u8);
    }
}

#[inline]
fn mask(bits: u8) -> u32 {
    (1 << bits) - 1
}

/// Builds a filter. Construction tries new seeds by itself and fails for good only on repeated
/// hashes. So they are removed only after a failure.
fn retry<T>(hashes: &mut Vec<u64>, make: impl Fn(&[u64]) -> Option<T>) -> Option<T> {
    make(hashes).or_else(|| {
        hashes.sort_unstable();
        hashes.dedup();
        make(hashes)
    })
}

fn header(
    [kind, dropped]: [u8; 2],
    seed: u64,
    [segment, count]: [u32; 2],
    prints: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + prints * kind as usize);
    out.extend_from_slice(&[kind, dropped, 0, 0]);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&seed.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(prints as u32).to_le_bytes());
    out
}

impl BlockFilter {
    /// Decodes a filter block. Returns a description of the fault if it is invalid.
    pub fn decode(b: &[u8]) -> Result<BlockFilter, &'static str> {
        if b.len() < HEADER || b[1] > 7 || b[2..4] != [0; 2] {
            return Err("a filter that is cut off");
        }
        let kind = match b[0] {
            1 => FilterKind::Fuse8,
            2 => FilterKind::Fuse16,
            _ => return Err("a filter of unknown kind"),
        };
        let dropped = b[1];
        let (segment, seed, count, prints) =
            (u32_at(b, 4), u64_at(b, 8), u32_at(b, 16), u32_at(b, 20));
        let need = count as u64 + 2 * segment as u64;
        let sound = segment.is_power_of_two()
            && count >= segment
            && count.is_multiple_of(segment)
            && prints as u64 == need;
        let body = &b[HEADER..];
        let bits = need * u64::from(kind.bits() - dropped);
        if !sound || body.len() as u64 != bits.div_ceil(8) {
            return Err("a filter whose sizes do not fit together");
        }
        let mut prints = Vec::with_capacity(body.len() + PADDING);
        prints.extend_from_slice(body);
        prints.extend_from_slice(&[0; PADDING]);
        Ok(BlockFilter { seed, segment, count, kind, dropped, prints: prints.into() })
    }

    /// Returns the fingerprint at a position. Higher bits contain the following bits of the array.
    #[inline]
    fn print(&self, at: u32) -> u32 {
        let bit = u64::from(at) * u64::from(self.bits());
        u32_at(&self.prints, (bit >> 3) as usize) >> (bit & 7)
    }

    /// Reports whether the hash may be in the set; `false` is always correct.
    #[inline(always)]
    pub fn may_contain(&self, hash: u64) -> bool {
        let h = mix(hash.wrapping_add(self.seed));
        let within = self.segment - 1;
        let a = ((h as u128 * self.count as u128) >> 64) as u32;
        let b = (a + self.segment) ^ ((h >> 18) as u32 & within);
        let c = (a + 2 * self.segment) ^ (h as u32 & within);
        let print = (h ^ (h >> 32)) as u32;
        (self.print(a) ^ self.print(b) ^ self.print(c) ^ print) & mask(self.bits()) == 0
    }

    /// Returns the kind of filter.
    pub fn kind(&self) -> FilterKind {
        self.kind
    }

    /// Returns the number of the highest bits that each fingerprint drops.
    pub fn dropped(&self) -> u8 {
        self.dropped
    }

    /// Returns the bits of a fingerprint, 1 to 16.
    #[inline]
    fn bits(&self) -> u8 {
        self.kind.bits() - self.dropped
    }

    /// Returns the number of fingerprints.
    pub fn len(&self) -> u64 {
        u64::from(self.count) + 2 * u64::from(self.segment)
    }

    /// Returns the packed fingerprints.
    pub fn fingerprints(&self) -> &[u8] {
        &self.prints[..self.prints.len() - PADDING]
    }

    /// Returns the bytes of memory held.
    pub fn memory(&self) -> usize {
        self.prints.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::hash::key_hash;
    use proptest::prelude::*;

    fn hashes(n: u64) -> Vec<u64> {
        (0..n).map(|i| key_hash(&i.to_le_bytes())).collect()
    }

    #[test]
    fn members_are_found_and_others_mostly_not() {
        for n in [0, 1, 2, 3, 10, 1000, 100_000] {
            for bits in 1..=16 {
                let (kind, dropped) = FilterKind::holding(bits);
                let block = build(kind, dropped, &mut hashes(n)).unwrap();
                let f = BlockFilter::decode(&block).unwrap();
                assert_eq!((f.kind(), f.dropped(), f.bits()), (kind, dropped, bits));
                assert_eq!(f.memory() - PADDING, block.len() - HEADER);
                assert!(hashes(n).into_iter().all(|h| f.may_contain(h)), "{n} {bits}");
                let wrong =
                    (n..n + 50_000).filter(|i| f.may_contain(key_hash(&i.to_le_bytes()))).count();
                let expected = 50_000.0 * 0.5f64.powi(bits.into());
                assert!(n < 10 || (wrong as f64) < 1.3 * expected + 16.0, "{n} {bits} {wrong}");
                assert!(n < 1000 || (wrong as f64) > 0.7 * expected - 16.0, "{n} {bits} {wrong}");
            }
        }
    }

    #[test]
    fn the_query_is_the_crates_own() {
        let keys = hashes(5000);
        let theirs = BinaryFuse8::try_from(&keys).unwrap();
        let ours =
            BlockFilter::decode(&build(FilterKind::Fuse8, 0, &mut keys.clone()).unwrap()).unwrap();
        assert!(hashes(100_000).iter().all(|h| theirs.contains(h) == ours.may_contain(*h)));
    }

    proptest! {
        #[test]
        fn damaged_filters_are_refused_or_answer(n in 0u64..40, bits in 1u8..=16, at in 0usize..24, bit in 0u8..8, cut in 0usize..30, probes: [u64; 8]) {
            let (kind, dropped) = FilterKind::holding(bits);
            let mut b = build(kind, dropped, &mut hashes(n)).unwrap();
            b[at] ^= 1 << bit;
            b.truncate(b.len() - cut.saturating_sub(20));
            if let Ok(f) = BlockFilter::decode(&b) {
                for p in probes { f.may_contain(p); }
            }
        }
    }
}
