//! Defines [`KeyBounds`]: ranges of keys as callers write them.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::base::key::prefix_end;
use crate::iterator::value::Value;
use crate::iterator::visible::VisibleRange;

/// A range of keys: `..`, `"a".."b"`, `"a"..="b"`, `"a"..`, `.."b"`, `..="b"`, or a pair of
/// [`Bound`]s, of any type that converts to bytes.
///
/// It is like [`RangeBounds`], but without a type parameter for the bounds. `..` has no such type,
/// so `tree.range(..)` needs no type annotation. A range whose end is before its start has no keys.
///
/// ```
/// use std::ops::Bound;
/// use firn_kv::{Db, TreeOptions};
/// let db = Db::in_memory()?;
/// let tree = db.tree("t", TreeOptions::default())?;
/// for k in ["a", "b", "c"] {
///     tree.put(k, "")?;
/// }
/// assert_eq!(tree.range(..).count(), 3);
/// assert_eq!(tree.range("b"..).count(), 2);
/// assert_eq!(tree.range(.."b").count(), 1);
/// assert_eq!(tree.range((Bound::Excluded("a"), Bound::Included("c"))).count(), 2);
/// # Ok::<(), firn_kv::Error>(())
/// ```
pub trait KeyBounds {
    /// Returns the start bound.
    fn start_key(&self) -> Bound<&[u8]>;
    /// Returns the end bound.
    fn end_key(&self) -> Bound<&[u8]>;
}

impl<R: KeyBounds + ?Sized> KeyBounds for &R {
    fn start_key(&self) -> Bound<&[u8]> {
        (**self).start_key()
    }
    fn end_key(&self) -> Bound<&[u8]> {
        (**self).end_key()
    }
}

impl KeyBounds for RangeFull {
    fn start_key(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
    fn end_key(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn start_key(&self) -> Bound<&[u8]> {
        self.0.as_ref().map(K::as_ref)
    }
    fn end_key(&self) -> Bound<&[u8]> {
        self.1.as_ref().map(K::as_ref)
    }
}

macro_rules! bounds_of {
    ($($range:ident)*) => {$(
        impl<K: AsRef<[u8]>> KeyBounds for $range<K> {
            fn start_key(&self) -> Bound<&[u8]> {
                self.start_bound().map(K::as_ref)
            }
            fn end_key(&self) -> Bound<&[u8]> {
                self.end_bound().map(K::as_ref)
            }
        }
    )*};
}

bounds_of! { Range RangeFrom RangeInclusive RangeTo RangeToInclusive }

impl KeyBounds for VisibleRange {
    fn start_key(&self) -> Bound<&[u8]> {
        Bound::Included(&self.from)
    }
    fn end_key(&self) -> Bound<&[u8]> {
        self.until.as_deref().map_or(Bound::Unbounded, Bound::Excluded)
    }
}

/// Returns the half-open form of any range.
pub fn key_range(range: impl KeyBounds) -> VisibleRange {
    VisibleRange::new(range.start_key(), range.end_key())
}

/// Key and value.
pub type Entry = (Value, Value);

pub fn prefix_range(prefix: &[u8]) -> VisibleRange {
    VisibleRange { from: prefix.to_vec(), until: prefix_end(prefix) }
}
