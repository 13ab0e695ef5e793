//! Tombstone block: the table's range tombstones, divided into fragments.
//!
//! ```text
//! varint  number of fragments
//! per fragment: varint length of the start, start, varint length of the end, end,
//!               varint number of sequence numbers, at least 1; the newest as a varint,
//!               each older one as its difference from the previous one
//! ```
//! Invariants: fragments are sorted, disjoint and not empty; sequence numbers strictly decrease.
//! [`decode`] refuses anything else.

use crate::base::key::{MAX_KEY_LEN, MAX_SEQ, Seq};
use crate::range_del::tombstone::{Fragment, Fragments};
use crate::util::coding::{ByteReader, put_bytes, put_varint};

/// Encodes the tombstone block.
pub(crate) fn encode(fragments: &Fragments) -> Vec<u8> {
    let mut out = vec![];
    put_varint(&mut out, fragments.as_slice().len() as u64);
    for f in fragments.as_slice() {
        put_bytes(&mut out, &f.start);
        put_bytes(&mut out, &f.end);
        put_varint(&mut out, f.seqs.len() as u64);
        let mut above = None;
        for &seq in &f.seqs {
            put_varint(&mut out, above.map_or(seq, |a: Seq| a - seq));
            above = Some(seq);
        }
    }
    out
}

/// Decodes the fragments of a decompressed tombstone block; returns `None` if it is invalid.
pub fn decode(block: &[u8]) -> Option<Fragments> {
    let mut r = ByteReader::new(block);
    let n = r.len(r.remaining() / 4)?;
    let mut fragments = Vec::with_capacity(n);
    for _ in 0..n {
        let start = r.bytes().filter(|k| k.len() <= MAX_KEY_LEN)?;
        let end = r.bytes().filter(|k| k.len() <= MAX_KEY_LEN)?;
        let count = r.len(r.remaining())?;
        let mut seqs = Vec::with_capacity(count);
        for i in 0..count {
            let v = r.varint()?;
            let seq =
                if i == 0 { v } else { seqs[i - 1] - Some(v).filter(|&v| v <= seqs[i - 1])? };
            seqs.push(Some(seq).filter(|&s: &Seq| s <= MAX_SEQ)?);
        }
        fragments.push(Fragment { start: start.to_vec(), end: end.to_vec(), seqs });
    }
    if r.is_empty() { Fragments::from_sorted(fragments) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_del::tombstone::RangeTombstone;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fragments_round_trip(ts in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>(), 0..MAX_SEQ), 0..12)) {
            let f = Fragments::build(ts.into_iter().map(|(start, end, seq)| RangeTombstone { start, end, seq }).collect());
            let block = encode(&f);
            prop_assert_eq!(decode(&block), Some(f));
            prop_assert_eq!(decode(&block[..block.len() - 1]), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(block: Vec<u8>) {
            decode(&block);
        }
    }
}
