//! Keys inside the engine: a user key plus a trailer (sequence number and kind).
//!
//! Invariants: entries are ordered by user key ascending, bytewise, then by trailer **descending**,
//! so the newest version of a key comes first. Sequence numbers are 56 bits; 0 means "older than
//! everything that anyone can still ask about".

use std::cmp::Ordering;
use std::fmt;

/// The longest user key, in bytes (512 KiB less one).
///
/// Layers above make a key of several parts, each in a form that sorts like it and says where it
/// ends; zero bytes make such a form up to half as long again. Five parts of 65,535 bytes fit in
/// this form, whatever they hold.
pub const MAX_KEY_LEN: usize = (512 << 10) - 1;
/// The longest value, in bytes (256 MiB).
pub const MAX_VALUE_LEN: usize = 256 << 20;
/// The largest encoded batch, in bytes (512 MiB).
pub const MAX_BATCH_LEN: usize = 512 << 20;
/// The most operations of a batch (16,777,216). With [`MAX_BATCH_LEN`] it bounds what a batch takes
/// in memtables: 2.5 GiB, if its operations are as small as can be.
pub const MAX_BATCH_OPS: usize = 16 << 20;

/// A sequence number: one per operation, ever increasing over the whole Db.
pub type Seq = u64;
/// The largest sequence number.
pub const MAX_SEQ: Seq = (1 << 56) - 1;

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key has no value.
    Delete = 2,
    /// An operand for the tree's `Merge` hook.
    Merge = 3,
    /// The key has a value that lies in a value file; the entry's own value says where
    /// ([`BlobHandle`](super::blob_ref::BlobHandle)). In tables only: the log and memtables have values
    /// themselves.
    Blob = 4,
}

impl Kind {
    /// The kind with this number.
    #[inline]
    pub fn from_u8(b: u8) -> Option<Kind> {
        match b {
            1 => Some(Kind::Put),
            2 => Some(Kind::Delete),
            3 => Some(Kind::Merge),
            4 => Some(Kind::Blob),
            _ => None,
        }
    }
}

/// Sequence number and kind in one word: `seq << 8 | kind`. Larger is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// Sorts before every entry of a key: the newest that can be.
    pub const NEWEST: Trailer = Trailer(u64::MAX);

    /// Packs a sequence number and a kind.
    #[inline]
    pub fn new(seq: Seq, kind: Kind) -> Trailer {
        Trailer(seq << 8 | kind as u64)
    }

    /// The place to start reading at when everything up to and including `seq` may be seen.
    #[inline]
    pub fn at(seq: Seq) -> Trailer {
        Trailer(seq << 8 | 0xff)
    }

    /// The sequence number.
    #[inline]
    pub fn seq(self) -> Seq {
        self.0 >> 8
    }

    /// The kind; `None` for a byte that is no kind.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.0 as u8)
    }
}

/// Orders two entries: user key ascending, then newest first.
#[inline]
pub fn compare(a: &[u8], at: Trailer, b: &[u8], bt: Trailer) -> Ordering {
    a.cmp(b).then(bt.cmp(&at))
}

/// The first 8 bytes of `key` as a big-endian number, short keys padded with zeros.
/// `head(a) < head(b)` implies `a < b`.
#[inline]
pub fn head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    // Parts that overlap: a copy of unknown length would be a call, and its parts would have to be in
    // memory before all could be read.
    let behind = 8 * (8 - key.len() as u32);
    match (key.first_chunk::<4>(), key.last_chunk::<4>(), key) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_be_bytes(*first)) << 32
                | u64::from(u32::from_be_bytes(*last)) << behind
        }
        (_, _, &[first, .., last]) => {
            let middle = key.len() / 2;
            u64::from(first) << 56
                | u64::from(key[middle]) << (56 - 8 * middle)
                | u64::from(last) << behind
        }
        (_, _, &[only]) => u64::from(only) << 56,
        _ => 0,
    }
}

/// Length of the longest common prefix.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let mut i = 0;
    while i + 8 <= n {
        let x = head(&a[i..]) ^ head(&b[i..]);
        if x != 0 {
            return i + (x.leading_zeros() / 8) as usize;
        }
        i += 8;
    }
    while i < n && a[i] == b[i] {
        i += 1;
    }
    i
}

/// The smallest key that is greater than every key starting with `prefix`; `None` when there is
/// none (all 0xff).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

/// The smallest key that is greater than `key`; `None` for the greatest of all, [`MAX_KEY_LEN`]
/// bytes 0xff. No key lies between the two, and the successor is a key itself: one of the greatest
/// length has no room for another byte.
pub fn successor(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() >= MAX_KEY_LEN {
        return prefix_end(key);
    }
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    Some(next)
}

/// Prints a key in a message: escaped, and of a long one the first bytes and how many there are.
pub(crate) struct ShownKey<'a>(pub &'a [u8]);

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 256;
        match self.0.split_at_checked(MOST) {
            Some((first, rest)) if !rest.is_empty() => {
                write!(f, "{}… ({} bytes)", first.escape_ascii(), self.0.len())
            }
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_agree_with_the_order(a: Vec<u8>, b: Vec<u8>) {
            if head(&a) < head(&b) { prop_assert!(a < b); }
            let n = common_prefix(&a, &b);
            prop_assert_eq!(&a[..n], &b[..n]);
            prop_assert!(n == a.len() || n == b.len() || a[n] != b[n]);
            if let Some(e) = prefix_end(&a) {
                prop_assert!(e > a);
                prop_assert_eq!(b.starts_with(&a), b >= a && b < e);
            }
        }
    }

    #[test]
    fn a_short_key_is_padded_with_zeros() {
        let key: Vec<u8> = (0..12).map(|i| 0x83 + 9 * i).collect();
        for n in 0..=key.len() {
            let padded: Vec<u8> = key[..n].iter().copied().chain([0; 8]).take(8).collect();
            assert_eq!(head(&key[..n]).to_be_bytes(), padded[..], "{n}");
        }
    }

    #[test]
    fn nothing_lies_between_a_key_and_its_successor() {
        assert_eq!(successor(b""), Some(vec![0]));
        assert_eq!(successor(b"a\xff"), Some(b"a\xff\0".to_vec()));
        let longest = |end: &[u8]| [&vec![b'm'; MAX_KEY_LEN - end.len()], end].concat();
        assert_eq!(successor(&longest(b"")), Some(longest(b"n")));
        // Of the keys that begin with `m…mn` all but itself would be too long to lie between.
        assert_eq!(
            successor(&longest(b"m\xff\xff")),
            Some(longest(b"n\xff\xff")[..MAX_KEY_LEN - 2].to_vec())
        );
        assert_eq!(successor(&vec![0xff; MAX_KEY_LEN]), None);
    }

    #[test]
    fn messages_are_short_whatever_the_key() {
        assert_eq!(ShownKey(b"").to_string(), "");
        assert_eq!(ShownKey(b"a\xff").to_string(), "a\\xff");
        assert_eq!(ShownKey(&[b'k'; 256]).to_string(), "k".repeat(256));
        assert_eq!(
            ShownKey(&[b'k'; MAX_KEY_LEN]).to_string(),
            format!("{}… ({MAX_KEY_LEN} bytes)", "k".repeat(256))
        );
    }

    #[test]
    fn newest_first() {
        let old = Trailer::new(4, Kind::Put);
        let new = Trailer::new(5, Kind::Delete);
        assert_eq!(compare(b"k", new, b"k", old), Ordering::Less);
        assert!(Trailer::at(5) > new && Trailer::at(4) < new);
        assert_eq!((new.seq(), new.kind()), (5, Some(Kind::Delete)));
    }
}
