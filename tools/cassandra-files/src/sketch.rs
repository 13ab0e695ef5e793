//! Mergeable estimate of the number of partitions: a HyperLogLog sketch of 8,192 registers
//! (`FORMAT.md`, "Statistics.db").

/// Bits of a hash that select its register, and those of a sparse form that is not written.
const PRECISION: u32 = 13;
const SPARSE_PRECISION: u32 = 25;
/// Registers of 5 bits in a word.
const IN_WORD: usize = 6;
const WORDS: usize = (1 << PRECISION) / IN_WORD + 1;
/// Maximum of a register.
const MOST: u32 = 31;

/// Key counter.
#[derive(Debug)]
pub(crate) struct KeySketch {
    words: Vec<u32>,
}

impl Default for KeySketch {
    fn default() -> KeySketch {
        KeySketch { words: vec![0; WORDS] }
    }
}

impl KeySketch {
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = murmur2(key);
        let register = (hash >> (64 - PRECISION)) as usize;
        let run = (hash << PRECISION | 1 << (PRECISION - 1)).leading_zeros() + 1;
        let shift = 5 * (register % IN_WORD);
        let word = &mut self.words[register / IN_WORD];
        if *word >> shift & MOST < run.min(MOST) {
            *word = *word & !(MOST << shift) | run.min(MOST) << shift;
        }
    }

    /// Returns the part of `Statistics.db`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut sketch = (-2_i32).to_be_bytes().to_vec();
        let form = 0;
        for n in [PRECISION, SPARSE_PRECISION, form, self.words.len() as u32 * 4] {
            put_groups(&mut sketch, n);
        }
        sketch.extend(self.words.iter().flat_map(|w| w.to_be_bytes()));
        [&(sketch.len() as u32).to_be_bytes()[..], &sketch].concat()
    }
}

/// Appends a number in groups of 7 bits, low groups first.
fn put_groups(out: &mut Vec<u8>, mut n: u32) {
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Returns the 64-bit MurmurHash2 with seed 0; bytes after the last full 8 are sign-extended.
fn murmur2(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut h = M.wrapping_mul(key.len() as u64);
    let (blocks, rest) = key.as_chunks::<8>();
    for block in blocks {
        let k = u64::from_le_bytes(*block).wrapping_mul(M);
        h = (h ^ (k ^ k >> 47).wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().enumerate();
        h ^= tail.fold(0, |t, (i, &b)| t ^ (i64::from(b as i8) as u64) << (8 * i));
        h = h.wrapping_mul(M);
    }
    h = (h ^ h >> 47).wrapping_mul(M);
    h ^ h >> 47
}
