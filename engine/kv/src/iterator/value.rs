//! Value returned to readers: bytes and a handle that pins their memory. Values are copied only on
//! request, except when a cursor pins a value in a private block.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use crate::base::error::{Error, Result};
use crate::base::key::ShownKey;
use crate::memtable::MemValue;
use crate::sstable::TableValue;

/// A value (or a key) read from the store. Derefs to `[u8]`. While it lives, the block or memtable
/// with the bytes stays in memory. So hold many of them only as long as needed, or copy with
/// `to_vec` (or `Vec::from`, which takes over the bytes if it can).
///
/// It compares, sorts and hashes like its bytes, so maps and sets can look it up by `&[u8]`.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Table(TableValue),
    Mem(MemValue),
    Owned(Box<[u8]>),
}

impl Value {
    /// Returns the bytes as an array, for values of fixed length such as integers.
    ///
    /// ```
    /// # use firn_kv::{Db, TreeOptions};
    /// # let tree = Db::in_memory()?.tree("t", TreeOptions::default())?;
    /// tree.put("visits", 7_u64.to_be_bytes())?;
    /// let visits = tree.get("visits")?.unwrap();
    /// assert_eq!(u64::from_be_bytes(visits.to_array()?), 7);
    /// assert!(visits.to_array::<4>().is_err());
    /// # Ok::<(), firn_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the value has another length.
    pub fn to_array<const N: usize>(&self) -> Result<[u8; N]> {
        <[u8; N]>::try_from(&**self)
            .map_err(|_| Error::invalid(format!("the value has {} bytes, not {N}", self.len())))
    }
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
        write!(f, "\"{}\"", ShownKey(self))
    }
}

impl From<Value> for Vec<u8> {
    fn from(v: Value) -> Vec<u8> {
        match v.0 {
            Repr::Owned(v) => v.into_vec(),
            _ => v.to_vec(),
        }
    }
}

impl Borrow<[u8]> for Value {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// Implements the comparison of a type that dereferences to bytes with byte strings and texts.
macro_rules! equals_bytes {
    ($of:ty) => {
        $crate::iterator::value::equals_bytes! { $of:
            [] [u8], [] &[u8], [const N: usize] [u8; N], [const N: usize] &[u8; N], [] Vec<u8>, [] str, [] &str
        }
    };
    ($of:ty: $([$($n:tt)*] $other:ty),*) => {$(
        impl<$($n)*> PartialEq<$other> for $of {
            fn eq(&self, other: &$other) -> bool {
                let other: &[u8] = other.as_ref();
                **self == *other
            }
        }
        impl<$($n)*> PartialEq<$of> for $other {
            fn eq(&self, other: &$of) -> bool {
                other == self
            }
        }
    )*};
}
pub(crate) use equals_bytes;

equals_bytes!(Value);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    #[test]
    fn a_value_is_its_bytes() {
        let v = |b: &[u8]| Value::from(b);
        assert!(
            v(b"a") == b"a"
                && v(b"a") == *b"a"
                && v(b"a") == "a"
                && v(b"a") == b"a".to_vec()
                && b"a"[..] == v(b"a")
        );
        assert!("a" == v(b"a") && v(b"a") != "b" && v(b"a") < v(b"a\0") && v(b"b") > v(b"a\xff"));
        let set: HashSet<Value> = [v(b"x"), v(b"y"), v(b"x")].into();
        assert!(set.len() == 2 && set.contains(&b"x"[..]) && !set.contains(&b"z"[..]));
        let sorted: BTreeSet<Value> = [v(b"b"), v(b""), v(b"a")].into();
        assert_eq!(sorted.into_iter().map(Vec::from).collect::<Vec<_>>(), [&b""[..], b"a", b"b"]);
        assert_eq!(format!("{:?}", v(b"a\n\xff")), r#""a\n\xff""#);
    }
}
