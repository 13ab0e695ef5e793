//! Hash of a key: XXH3-64 with seed 0, as stored in filters. It is part of the file format.

/// Returns the hash of a key or of a key's filter prefix.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}
