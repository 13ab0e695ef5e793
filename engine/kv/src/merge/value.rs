//! A value as readers get it: bytes, and a handle on whatever keeps them in place. Nothing is copied unless asked.

use std::fmt;
use std::ops::Deref;

use crate::memtable::MemValue;
use crate::sstable::TableValue;

/// A value (or a key) read from the store. Derefs to `[u8]`; while it lives, the block or memtable that holds the bytes stays in
/// memory, so keep many of them only as long as needed, or copy with `to_vec`.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Table(TableValue),
    Mem(MemValue),
    Owned(Box<[u8]>),
}

impl Deref for Value {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Table(v) => v,
            Repr::Mem(v) => v,
            Repr::Owned(v) => v,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<TableValue> for Value {
    fn from(v: TableValue) -> Value {
        Value(Repr::Table(v))
    }
}

impl From<MemValue> for Value {
    fn from(v: MemValue) -> Value {
        Value(Repr::Mem(v))
    }
}

impl From<Vec<u8>> for Value {
    fn from(v: Vec<u8>) -> Value {
        Value(Repr::Owned(v.into_boxed_slice()))
    }
}

impl From<&[u8]> for Value {
    fn from(v: &[u8]) -> Value {
        Value(Repr::Owned(v.into()))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Value {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for Value {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}
