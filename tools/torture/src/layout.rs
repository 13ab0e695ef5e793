//! Content of the stores under torture: trees, keys and values, all computed from numbers.
//!
//! A key belongs to a *shard*. A shard belongs to one thread at a time, which therefore knows its
//! exact content. The key ranges of shards are interleaved, so tables, runs and memtables mix the
//! keys of all threads. A value is computed from its key and its *version*: the number of the step
//! that wrote it. So the expected state is one number per key, and a wrong value identifies its
//! origin.

use std::sync::Arc;

use firn_kv::{Error, MAX_KEY_LEN, MergeOperator, MergeResult, Result};
use firn_workload::rng::{Rng, mix};

/// Number of trees whose content is known exactly.
pub const TREES: usize = 5;
/// Trees of plain keys and values.
pub const PLAIN: [usize; 2] = [0, 1];
/// Tree of numbers, to which merge operands are added.
pub const SUMS: usize = 2;
/// Two trees that are only written together, by batches that change both alike.
pub const TWINS: [usize; 2] = [3, 4];
/// Rows of a CQL table.
pub const ROWS: usize = 5;
/// Counters of a CQL table.
pub const COUNTS: usize = 6;
/// CQL roles.
pub const ROLES: usize = 7;
/// Number of parts whose content is known exactly: trees, followed by CQL tables and roles.
pub const PARTS: usize = 8;
/// Names of the parts.
pub const NAMES: [&str; PARTS] =
    ["plain", "other", "sums", "twin-a", "twin-b", "rows", "counts", "roles"];
/// Tree of accounts, between which all threads transfer money.
pub const BANK: &str = "bank";
/// Number of accounts.
pub const ACCOUNTS: u64 = 64;
/// Initial balance of an account.
pub const DEPOSIT: i64 = 1000;
/// Temporary trees, which all threads create, write and drop at once.
pub const SCRATCH: [&str; 2] = ["scratch-a", "scratch-b"];

/// Number of a writing step, which is the version of the data that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutVersion(pub u64);

impl LayoutVersion {
    /// Creates the version of the step `step` of a thread in a cycle.
    pub fn new(cycle: u64, thread: u64, step: u64) -> LayoutVersion {
        LayoutVersion((cycle & 0xff_ffff) << 40 | (thread & 0xff) << 32 | (step & 0xffff_ffff))
    }

    /// Returns the version that a value was computed from.
    pub fn of(value: &[u8]) -> Option<LayoutVersion> {
        Some(LayoutVersion(u64::from_le_bytes(value.first_chunk::<8>().copied()?)))
    }
}

impl std::fmt::Display for LayoutVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cycle {} thread {} step {}",
            self.0 >> 40,
            self.0 >> 32 & 0xff,
            self.0 & 0xffff_ffff
        )
    }
}

/// Returns the bytes between shard and number in the keys of a shard: none, a few bytes, or more
/// than the key heads in blocks can distinguish.
fn middle(shard: u32) -> &'static [u8] {
    match shard % 4 {
        0 => b"",
        1 => b"\x00\xff\x00",
        2 => b"users/by-email/",
        _ => b"a prefix that all keys of the shard have in common, and that is longer than a head",
    }
}

/// Returns the key number `index` of a shard. Keys of a shard are ordered by their numbers.
pub fn key(shard: u32, index: u32) -> Vec<u8> {
    let mut k = (shard as u16).to_be_bytes().to_vec();
    k.extend_from_slice(middle(shard));
    k.extend_from_slice(&index.to_be_bytes());
    let len = match index % 512 {
        7 if index == 7 && shard.is_multiple_of(8) => MAX_KEY_LEN,
        9 => 5000,
        n if n % 64 == 5 => 300,
        _ => k.len(),
    };
    k.resize(len.max(k.len()), b'k');
    k
}

/// Returns the shard and number of a key; `None` if it is not a key of this layout.
pub fn parse(key_bytes: &[u8]) -> Option<(u32, u32)> {
    let shard = u32::from(u16::from_be_bytes(*key_bytes.first_chunk::<2>()?));
    let rest = key_bytes[2..].strip_prefix(middle(shard))?;
    let index = u32::from_be_bytes(*rest.first_chunk::<4>()?);
    (key(shard, index) == key_bytes).then_some((shard, index))
}

/// Returns the value of a key at a version. In the tree of sums it is the number itself.
pub fn value(tree: usize, shard: u32, index: u32, version: u64) -> Vec<u8> {
    let mut v = version.to_le_bytes().to_vec();
    if tree == SUMS {
        return v;
    }
    let seed = mix(version ^ u64::from(shard) << 40 ^ u64::from(index));
    v.extend_from_slice(&seed.to_le_bytes());
    let more = match seed % 1000 {
        0 => 200_000,
        1..=9 => 20_000,
        10..=199 => seed >> 20 & 0x7ff,
        _ => seed >> 20 & 0x7f,
    };
    let len = v.len() + more as usize;
    if seed & 1 << 60 == 0 {
        v.resize(len, seed as u8);
    } else {
        let mut rng = Rng::new(seed, 0);
        while v.len() < len {
            v.extend_from_slice(&rng.bits().to_le_bytes());
        }
        v.truncate(len);
    }
    v
}

/// Merge operator that adds numbers.
pub struct Adds;

impl MergeOperator for Adds {
    fn name(&self) -> &str {
        "firn.torture.adds"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        let mut sum = base.map_or(Ok(0), number)?;
        for operand in operands {
            sum = sum.wrapping_add(number(operand)?);
        }
        Ok(MergeResult::Value(sum.to_le_bytes().to_vec()))
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(number(older).ok()?.wrapping_add(number(newer).ok()?).to_le_bytes().to_vec())
    }
}

/// Decodes a stored number.
pub fn number(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes
        .try_into()
        .map_err(|_| Error::invalid(format!("a number has 8 bytes, this one {}", bytes.len())))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns the merge operator of a tree.
pub fn merge_of(tree: usize) -> Option<Arc<dyn MergeOperator>> {
    (tree == SUMS).then(|| Arc::new(Adds) as Arc<dyn MergeOperator>)
}

/// Returns the key of an account.
pub fn account(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_order_and_parse() {
        for shard in 0..16 {
            let keys: Vec<_> = (0..600).map(|i| key(shard, i)).collect();
            assert!(keys.is_sorted() && keys.iter().all(|k| k.len() <= MAX_KEY_LEN));
            assert!(keys.iter().zip(0..).all(|(k, i)| parse(k) == Some((shard, i))));
            assert!(keys.last() < Some(&key(shard + 1, 0)));
        }
        assert_eq!(
            (parse(b""), parse(b"\0\0\0\0\0"), parse(b"\0\0\0\0\0\x01x")),
            (None, None, None)
        );
    }

    #[test]
    fn values_tell_their_version() {
        let v = LayoutVersion::new(3, 1, 77);
        assert_eq!(LayoutVersion::of(&value(0, 1, 2, v.0)), Some(v));
        assert_eq!(v.to_string(), "cycle 3 thread 1 step 77");
        assert_ne!(value(0, 1, 2, 5), value(0, 1, 3, 5));
        assert_eq!(value(3, 1, 2, 5), value(4, 1, 2, 5));
    }
}
