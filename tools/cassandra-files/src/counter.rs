//! Contents of a counter cell: the shards of its nodes (`FORMAT.md`, "Counters").

use std::collections::BTreeMap;

/// Bytes of a shard: node id, clock, count.
const SHARD: usize = 32;

/// Returns the sum of a counter from all versions of its cell. For each node the shard with the
/// highest clock counts, and shards local to a node are added. `None` for invalid bytes, and
/// without any bytes.
///
/// ```
/// let mut shard = vec![0, 1, 0x80, 0]; // one shard, and the first is global
/// shard.extend([7; 16]);               // its node
/// shard.extend(3_i64.to_be_bytes());   // its clock
/// shard.extend(42_i64.to_be_bytes());  // its count
/// assert_eq!(firn_cassandra::counter_sum([&*shard, &*shard]), Some(42));
/// ```
pub fn counter_sum<'a>(contexts: impl IntoIterator<Item = &'a [u8]>) -> Option<i64> {
    let mut shards: BTreeMap<[u8; 16], Shard> = BTreeMap::new();
    let mut any = false;
    for context in contexts {
        any = true;
        for (node, shard) in shards_of(context)? {
            shards.entry(node).and_modify(|s| s.merge(shard)).or_insert(shard);
        }
    }
    any.then(|| shards.values().fold(0_i64, |sum, s| sum.wrapping_add(s.count)))
}

/// Returns a counter cell with one global shard, as nodes write them since 2.1. If two shards have
/// the same `owner`, the one with the higher clock counts, and they are never added. So a shard
/// that is written twice counts once.
///
/// ```
/// let shard = |clock, count| firn_cassandra::counter_shard([7; 16], clock, count);
/// let (first, then) = (shard(1, 40), shard(2, 42));
/// assert_eq!(firn_cassandra::counter_sum([&*then, &*first]), Some(42));
/// ```
pub fn counter_shard(owner: [u8; 16], clock: i64, count: i64) -> Vec<u8> {
    let marks = [1_i16.to_be_bytes(), i16::MIN.to_be_bytes()].concat();
    [&marks[..], &owner, &clock.to_be_bytes(), &count.to_be_bytes()].concat()
}

/// Reports whether a counter cell has shards that are not global, or is invalid.
pub(crate) fn has_old_shards(context: &[u8]) -> bool {
    let shards = shards_of(context);
    shards.is_none_or(|all| all.iter().any(|(_, s)| s.kind != ShardKind::Global))
}

/// Precedence of the shards of one node: later variants win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShardKind {
    Remote,
    Local,
    Global,
}

#[derive(Clone, Copy, Debug)]
struct Shard {
    kind: ShardKind,
    clock: i64,
    count: i64,
}

impl Shard {
    fn merge(&mut self, other: Shard) {
        if (self.kind, other.kind) == (ShardKind::Local, ShardKind::Local) {
            self.clock = self.clock.wrapping_add(other.clock);
            self.count = self.count.wrapping_add(other.count);
        } else if (other.kind, other.clock) > (self.kind, self.clock) {
            *self = other;
        }
    }
}

fn shards_of(context: &[u8]) -> Option<Vec<([u8; 16], Shard)>> {
    let (count, rest) = context.split_first_chunk::<2>()?;
    let marked = usize::try_from(i16::from_be_bytes(*count)).ok()?;
    let (marks, body) = rest.split_at_checked(marked * 2)?;
    let (shards, rest) = body.as_chunks::<SHARD>();
    if !rest.is_empty() {
        return None;
    }
    let mut kinds = vec![ShardKind::Remote; shards.len()];
    for mark in marks.as_chunks::<2>().0 {
        let n = i16::from_be_bytes(*mark);
        // The mark of a global shard is its number minus 32,768.
        let (kind, i) = match n < 0 {
            true => (ShardKind::Global, i32::from(n) + 32_768),
            false => (ShardKind::Local, i32::from(n)),
        };
        *kinds.get_mut(usize::try_from(i).ok()?)? = kind;
    }
    let read = |bytes: &[u8; SHARD], kind| {
        let (node, rest) = bytes.split_first_chunk::<16>()?;
        let (clock, count) = rest.split_first_chunk::<8>()?;
        let clock = i64::from_be_bytes(*clock);
        let count = i64::from_be_bytes(*count.first_chunk()?);
        Some((*node, Shard { kind, clock, count }))
    };
    shards.iter().zip(kinds).map(|(s, kind)| read(s, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(marks: &[i16], shards: &[(u8, i64, i64)]) -> Vec<u8> {
        let mut out = (marks.len() as i16).to_be_bytes().to_vec();
        marks.iter().for_each(|m| out.extend(m.to_be_bytes()));
        for (node, clock, count) in shards {
            out.extend([*node; 16]);
            out.extend(clock.to_be_bytes());
            out.extend(count.to_be_bytes());
        }
        out
    }

    #[test]
    fn shards_of_several_files_are_merged() {
        let sum = |all: &[Vec<u8>]| counter_sum(all.iter().map(|c| &**c));
        let older = context(&[i16::MIN, i16::MIN + 1], &[(1, 5, 100), (2, 1, 7)]);
        let newer = context(&[i16::MIN], &[(1, 6, 90)]);
        assert_eq!(sum(std::slice::from_ref(&older)), Some(107));
        assert_eq!(sum(&[older.clone(), newer.clone()]), Some(97));
        assert_eq!(sum(&[newer.clone(), older]), Some(97));
        let local = context(&[0], &[(1, 1, 3)]);
        assert_eq!(sum(&[local.clone(), local.clone()]), Some(6));
        assert_eq!(sum(&[local.clone(), newer]), Some(90));
        let remote = context(&[], &[(3, 1, 3)]);
        assert_eq!(sum(&[remote.clone(), context(&[], &[(3, 2, 4)])]), Some(4));
        assert_eq!(sum(&[]), None);
        for wrong in [&[][..], &[0], &[0, 2, 0, 0], &[0xff, 0xff], &remote[..30]] {
            assert_eq!(counter_sum([wrong]), None);
        }
        assert_eq!(sum(&[context(&[3], &[(1, 1, 1)])]), None);
        assert_eq!(counter_shard([1; 16], 5, 100), context(&[i16::MIN], &[(1, 5, 100)]));
        assert!(has_old_shards(&local) && has_old_shards(&[]));
        assert!(!has_old_shards(&counter_shard([1; 16], 5, 100)));
    }
}
