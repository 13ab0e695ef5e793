//! `Filter.db`: Bloom filter of a table's partition keys (`FORMAT.md`, "Filter.db").

/// Bits that a node adds to the number computed from the keys.
const MORE_BITS: u64 = 20;
/// Maximum number of hashes per key, sufficient for any false-positive rate.
const MOST_HASHES: f64 = 20.0;

/// Hashes of the keys; the filter is built when their number is known.
#[derive(Debug, Default)]
pub(crate) struct KeyFilter {
    hashes: Vec<[u64; 2]>,
}

impl KeyFilter {
    pub(crate) fn add(&mut self, hash: [u64; 2]) {
        self.hashes.push(hash);
    }

    /// Returns the part. `chance` is the false-positive rate, in (0, 1).
    pub(crate) fn bytes(&self, chance: f64) -> Vec<u8> {
        let ln2 = std::f64::consts::LN_2;
        let bits_a_key = (-chance.ln() / (ln2 * ln2)).ceil().clamp(1.0, 2.0 * MOST_HASHES);
        let count = (bits_a_key * ln2).round().clamp(1.0, MOST_HASHES) as u32;
        let bits = self.hashes.len() as u64 * bits_a_key as u64 + MORE_BITS;
        let words = bits.div_ceil(64);
        let capacity = words as i64 * 64;
        let mut out = count.to_be_bytes().to_vec();
        out.extend_from_slice(&(words as u32).to_be_bytes());
        let start = out.len();
        out.resize(start + words as usize * 8, 0);
        for [first, second] in &self.hashes {
            for i in 0..u64::from(count) {
                // As the node computes it: signed arithmetic, with the remainder before the
                // absolute value.
                let at = second.wrapping_add(i.wrapping_mul(*first)) as i64;
                let bit = (at % capacity).unsigned_abs() as usize;
                if let Some(byte) = out.get_mut(start + bit / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
        out
    }
}
