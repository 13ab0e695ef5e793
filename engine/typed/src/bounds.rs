//! Ranges of typed keys: [`TypedBounds`] and [`Prefix`].

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::buffer::Buffer;
use crate::key::{AsKey, KeyPrefix};

/// Bounds of a range as encoded keys.
pub type EncodedBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range of keys of type `K`: `..`, `3..9`, `3..=9`, `3..`, `..9`, `..=9`, a pair of [`Bound`]s,
/// or a [`Prefix`].
pub trait TypedBounds<K> {
    /// Returns the encoded bounds. The buffers are empty.
    fn encode_bounds<'a>(&'a self, start: &'a mut Buffer, end: &'a mut Buffer)
    -> EncodedBounds<'a>;
}

impl<K> TypedBounds<K> for RangeFull {
    fn encode_bounds<'a>(&'a self, _: &'a mut Buffer, _: &'a mut Buffer) -> EncodedBounds<'a> {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! bounds_of {
    ($($range:ty),*) => {$(
        impl<K, Q: AsKey<K>> TypedBounds<K> for $range {
            fn encode_bounds<'a>(
                &'a self,
                start: &'a mut Buffer,
                end: &'a mut Buffer,
            ) -> EncodedBounds<'a> {
                (
                    RangeBounds::<Q>::start_bound(self).map(|key| key.encode(start)),
                    RangeBounds::<Q>::end_bound(self).map(|key| key.encode(end)),
                )
            }
        }
    )*};
}

bounds_of! {
    Range<Q>, RangeFrom<Q>, RangeInclusive<Q>, RangeTo<Q>, RangeToInclusive<Q>, (Bound<Q>, Bound<Q>)
}

/// The range of all keys that begin with a [`KeyPrefix`].
///
/// ```
/// use firn_kv::Db;
/// use firn_typed::{Prefix, TypedTree};
/// let visits: TypedTree<(String, u32), ()> = TypedTree::open(&Db::in_memory()?, "visits")?;
/// for key in [("ann", 1), ("ann", 2), ("anna", 1)] {
///     visits.put(&key, &())?;
/// }
/// assert_eq!(visits.prefix(&("ann",)).count(), 2);
/// visits.delete_range(Prefix(("ann",)))?;
/// assert_eq!(visits.len()?, 1);
/// # Ok::<(), firn_typed::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prefix<P>(pub P);

impl<K, P: KeyPrefix<K>> TypedBounds<K> for Prefix<P> {
    fn encode_bounds<'a>(
        &'a self,
        start: &'a mut Buffer,
        end: &'a mut Buffer,
    ) -> EncodedBounds<'a> {
        self.0.write_prefix(start);
        // The end is the prefix without its last bytes FF, and with the byte before them
        // incremented.
        let len = start.iter().rposition(|byte| *byte < 0xff);
        let until = match len {
            Some(last) => {
                end.extend_from_slice(&start[..last]);
                end.push(start[last] + 1);
                Bound::Excluded(&**end)
            }
            None => Bound::Unbounded,
        };
        (Bound::Included(&**start), until)
    }
}
