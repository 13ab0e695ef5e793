//! Internal keys: a user key plus a trailer (sequence number and kind).
//!
//! Invariants:
//! - Entries are ordered by user key ascending, bytewise, then by trailer **descending**, so the
//!   newest version of a key comes first.
//! - Sequence numbers have 56 bits. 0 means older than every version that a reader can still
//!   request.

use std::cmp::Ordering;
use std::fmt;

/// Maximum length of a user key, in bytes (512 KiB less one).
///
/// Layers above build a key from several parts, each in an order-preserving form that marks its
/// end. Zero bytes lengthen that form by up to half. Five parts of 65,535 bytes fit in this form,
/// whatever they contain.
pub const MAX_KEY_LEN: usize = (512 << 10) - 1;
/// Maximum length of a value, in bytes (256 MiB).
pub const MAX_VALUE_LEN: usize = 256 << 20;
/// Maximum size of an encoded batch, in bytes (512 MiB).
pub const MAX_BATCH_LEN: usize = 512 << 20;
/// Maximum number of operations in a batch (16,777,216). Together with [`MAX_BATCH_LEN`] it bounds
/// the memory of a batch in memtables: 2.5 GiB if its operations have the minimum size.
pub const MAX_BATCH_OPS: usize = 16 << 20;

/// Sequence number. Each operation has one, and they increase over the whole Db.
pub type Seq = u64;
/// The largest sequence number.
pub const MAX_SEQ: Seq = (1 << 56) - 1;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// Tombstone: the key has no value.
    Delete = 2,
    /// Operand for the merge operator of the tree ([`MergeOperator`](crate::MergeOperator)).
    Merge = 3,
    /// The key has a value in a blob file, and the entry's own value is the handle
    /// ([`BlobHandle`](crate::base::blob_ref::BlobHandle)). Only tables have such entries: the log
    /// and memtables store the values themselves.
    Blob = 4,
}

impl Kind {
    /// Returns the kind with this number.
    #[inline]
    #[doc(hidden)]
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
    /// Sorts before every entry of a key, because no trailer is newer.
    pub const NEWEST: Trailer = Trailer(u64::MAX);

    /// Packs a sequence number and a kind.
    #[inline]
    pub fn new(seq: Seq, kind: Kind) -> Trailer {
        Trailer(seq << 8 | kind as u64)
    }

    /// Returns the seek position of a reader that sees everything up to and including `seq`.
    #[inline]
    pub fn at(seq: Seq) -> Trailer {
        Trailer(seq << 8 | 0xff)
    }

    /// Returns the sequence number.
    #[inline]
    pub fn seq(self) -> Seq {
        self.0 >> 8
    }

    /// Returns the kind; `None` for a byte that is no kind.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.0 as u8)
    }
}

/// Compares two entries: user key ascending, then newest first.
#[inline]
pub fn compare(a: &[u8], at: Trailer, b: &[u8], bt: Trailer) -> Ordering {
    a.cmp(b).then(bt.cmp(&at))
}

/// Returns the first 8 bytes of `key` as a big-endian number, short keys padded with zeros.
/// `head(a) < head(b)` implies `a < b`.
#[inline]
pub fn head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    // The loads overlap. A copy of unknown length would be a function call, and all its stores
    // would have to reach memory before the 8 bytes could be loaded.
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

/// Returns the length of the longest common prefix, in bytes.
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

/// Returns the smallest key greater than every key that starts with `prefix`; `None` if there is
/// none (all bytes are 0xff).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

/// Returns the smallest key greater than `key`. Returns `None` for the greatest possible key,
/// [`MAX_KEY_LEN`] bytes of 0xff. No key is between the two. The successor is a valid key: a key of
/// maximum length has no room for another byte, so its last bytes change.
pub fn successor(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() >= MAX_KEY_LEN {
        return prefix_end(key);
    }
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    Some(next)
}

/// Displays a key in a message, escaped. For a long key it shows the first bytes and the length.
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
    fn no_key_is_between_a_key_and_its_successor() {
        assert_eq!(successor(b""), Some(vec![0]));
        assert_eq!(successor(b"a\xff"), Some(b"a\xff\0".to_vec()));
        let longest = |end: &[u8]| [&vec![b'm'; MAX_KEY_LEN - end.len()], end].concat();
        assert_eq!(successor(&longest(b"")), Some(longest(b"n")));
        // All keys that begin with `m…mn`, except that key itself, are too long to be between the
        // two.
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
