//! Cassandra's variant of MurmurHash3 x64 128 with seed 0: the bytes of the last, incomplete block
//! are treated as signed.

const C1: u64 = 0x87C3_7B91_1142_53D5;
const C2: u64 = 0x4CF5_AD43_2745_937F;

/// Returns the token of a key: the first half of the hash. `i64::MIN` is the smallest token, which
/// only the empty key has; a hash equal to it becomes `i64::MAX`.
#[inline]
pub(super) fn token(key: &[u8]) -> i64 {
    if key.is_empty() {
        return i64::MIN;
    }
    match murmur3(key)[0] as i64 {
        i64::MIN => i64::MAX,
        n => n,
    }
}

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut h: u64) -> u64 {
    h = (h ^ h >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h = (h ^ h >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    h ^ h >> 33
}

/// Returns the bytes of an incomplete half block, each sign-extended.
fn tail(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |k, (i, &b)| k ^ (i64::from(b as i8) as u64) << (8 * i))
}

/// Returns both halves of the hash, as a node's filters use them; the first one is the token.
pub fn murmur3(key: &[u8]) -> [u64; 2] {
    let (mut h1, mut h2) = (0u64, 0u64);
    let (blocks, rest) = key.as_chunks::<16>();
    for block in blocks {
        let both = u128::from_le_bytes(*block);
        h1 ^= mix1(both as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 ^= mix2((both >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    let (low, high) = rest.split_at(rest.len().min(8));
    h2 ^= mix2(tail(high));
    h1 ^= mix1(tail(low));
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let (h1, h2) = (finish(h1), finish(h2));
    let first = h1.wrapping_add(h2);
    [first, h2.wrapping_add(first)]
}
