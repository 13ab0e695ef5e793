//! Encoding of operations: the contents of WAL records and batches.
//!
//! One operation is `op u8 ‖ tree varint ‖ key length varint ‖ key`. Puts and merge operands
//! continue with `value length varint ‖ value`, range deletions with `end length varint ‖ end`.
//! Operations are numbered consecutively from the record's sequence number. Spec:
//! `format-spec/README.md`, "Operations".

use crate::base::key::{Kind, MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::util::coding::{ByteReader, put_bytes, put_varint};

/// Number of a tree in its Db.
pub type TreeId = u32;

/// Number that no tree has. Operations on it have no effect. They fill gaps in a repaired log.
pub const NO_TREE: TreeId = TreeId::MAX;

/// One operation, borrowed from its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Point entry; the value is empty for deletes.
    Point {
        /// Put, delete or merge operand.
        kind: Kind,
        /// User key.
        key: &'a [u8],
        /// Value or operand.
        value: &'a [u8],
    },
    /// Range deletion of `[start, end)`.
    DeleteRange {
        /// First key covered.
        start: &'a [u8],
        /// First key no longer covered.
        end: &'a [u8],
    },
}

const DELETE_RANGE: u8 = 4;

/// Appends one encoded operation.
#[inline]
pub fn encode(out: &mut Vec<u8>, tree: TreeId, op: Op<'_>) {
    match op {
        Op::Point { kind, key, value } => {
            out.push(kind as u8);
            put_varint(out, tree as u64);
            put_bytes(out, key);
            if kind != Kind::Delete {
                put_bytes(out, value);
            }
        }
        Op::DeleteRange { start, end } => {
            out.push(DELETE_RANGE);
            put_varint(out, tree as u64);
            put_bytes(out, start);
            put_bytes(out, end);
        }
    }
}

/// Iterator over encoded operations. At invalid bytes it yields `None` in place of the operation,
/// once, and then ends.
#[derive(Clone, Debug)]
pub struct OpReader<'a>(Option<ByteReader<'a>>);

impl<'a> OpReader<'a> {
    /// Creates an iterator over `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        OpReader(Some(ByteReader::new(bytes)))
    }

    fn read(r: &mut ByteReader<'a>) -> Option<(TreeId, Op<'a>)> {
        let op = r.u8()?;
        let tree = u32::try_from(r.varint()?).ok()?;
        let key = r.bytes().filter(|k| k.len() <= MAX_KEY_LEN)?;
        if op == DELETE_RANGE {
            let end = r.bytes().filter(|k| k.len() <= MAX_KEY_LEN)?;
            return Some((tree, Op::DeleteRange { start: key, end }));
        }
        let kind = Kind::from_u8(op).filter(|&k| k != Kind::Blob)?;
        let value = if kind == Kind::Delete {
            &[]
        } else {
            r.bytes().filter(|v| v.len() <= MAX_VALUE_LEN)?
        };
        Some((tree, Op::Point { kind, key, value }))
    }
}

impl<'a> Iterator for OpReader<'a> {
    type Item = Option<(TreeId, Op<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let r = self.0.as_mut()?;
        if r.is_empty() {
            return None;
        }
        let op = Self::read(r);
        if op.is_none() {
            self.0 = None;
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn operations_round_trip(ops in prop::collection::vec((1u8..=4, any::<u32>(), any::<Vec<u8>>(), any::<Vec<u8>>()), 0..8), cut in 1usize..9) {
            let mut bytes = vec![];
            for (k, tree, a, b) in &ops {
                let op = match Kind::from_u8(*k) {
                    Some(kind) => Op::Point { kind, key: a, value: if kind == Kind::Delete { &[] } else { b } },
                    None => Op::DeleteRange { start: a, end: b },
                };
                encode(&mut bytes, *tree, op);
            }
            let back: Vec<_> = OpReader::new(&bytes).collect();
            prop_assert_eq!(back.len(), ops.len());
            for (got, (k, tree, a, b)) in back.iter().zip(&ops) {
                match got.unwrap() {
                    (t, Op::Point { kind, key, value }) => prop_assert!(t == *tree && kind as u8 == *k && key == a && (kind == Kind::Delete || value == b)),
                    (t, Op::DeleteRange { start, end }) => prop_assert!(t == *tree && *k == 4 && start == a && end == b),
                }
            }
            if bytes.len() > cut {
                prop_assert!(OpReader::new(&bytes[..bytes.len() - 1]).any(|o| o.is_none()) );
            }
        }

        #[test]
        fn any_bytes_are_walked_without_panic(bytes: Vec<u8>) {
            let _ = OpReader::new(&bytes).count();
        }
    }
}
