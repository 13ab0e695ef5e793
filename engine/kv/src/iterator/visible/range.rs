//! Key range of a reader.

use std::ops::Bound;

/// A range of user keys, `[from, until)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleRange {
    /// First key of the range.
    pub from: Vec<u8>,
    /// First key after the range; `None` for no end.
    pub until: Option<Vec<u8>>,
}

/// Returns the immediate successor of this key.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    let mut k = Vec::with_capacity(key.len() + 1);
    k.extend_from_slice(key);
    k.push(0);
    k
}

impl VisibleRange {
    /// Creates a range from arbitrary bounds, converted to half-open ones.
    pub fn new(start: Bound<&[u8]>, end: Bound<&[u8]>) -> VisibleRange {
        let from = match start {
            Bound::Included(k) => k.to_vec(),
            Bound::Excluded(k) => successor(k),
            Bound::Unbounded => vec![],
        };
        let until = match end {
            Bound::Included(k) => Some(successor(k)),
            Bound::Excluded(k) => Some(k.to_vec()),
            Bound::Unbounded => None,
        };
        VisibleRange { from, until }
    }

    /// Reports whether the range begins after `key`. If it begins at the first possible key,
    /// nothing is compared: an empty vector has a dangling pointer, and comparing zero bytes there
    /// takes 50 ns on some processors.
    #[inline]
    pub(super) fn begins_after(&self, key: &[u8]) -> bool {
        !self.from.is_empty() && key < self.from.as_slice()
    }

    /// Reports whether `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.begins_after(key) && self.until.as_deref().is_none_or(|u| key < u)
    }

    /// Reports whether the range can contain no key.
    pub fn is_empty(&self) -> bool {
        self.until.as_deref().is_some_and(|u| u <= self.from.as_slice())
    }
}
