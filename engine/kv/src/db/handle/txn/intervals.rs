//! Sets of keys, stored as ranges.
//!
//! Invariant: the ranges are ordered, not empty, and neither overlap nor touch. Adding a range
//! joins it with those that it overlaps or touches.

use crate::base::key::successor;
use crate::util::version_map::{Iter, MapKey, VersionMap};

/// Ranges `[from, until)` of keys, indexed by `from`. A range without `until` is unbounded. A clone
/// costs nothing.
#[derive(Clone, Default)]
pub struct KeyIntervals(VersionMap<Option<MapKey>>);

impl KeyIntervals {
    /// Returns the range that contains a key.
    pub fn around(&self, key: &[u8]) -> Option<(&MapKey, &Option<MapKey>)> {
        self.0
            .end(false, |from| from <= key)
            .filter(|(_, until)| until.as_deref().is_none_or(|u| key < u))
    }

    /// Adds a range.
    pub fn add(&mut self, from: &[u8], until: Option<&[u8]>) {
        if until.is_some_and(|u| u <= from) {
            return;
        }
        let reaches = |end: &Option<MapKey>, to: Option<&[u8]>| {
            end.as_deref().is_none_or(|e| to.is_some_and(|to| e >= to))
        };
        let before = self.0.end(false, |k| k <= from).filter(|(_, end)| reaches(end, Some(from)));
        let last = self.0.end(false, |k| until.is_none_or(|u| k <= u));
        let until = last
            .filter(|(_, end)| reaches(end, until))
            .map_or(until.map(MapKey::from), |(_, end)| end.clone());
        let from = before.map_or(from.into(), |(k, _)| k.clone());
        self.0.take(&from, until.as_deref());
        self.0.insert(&from, until);
    }

    /// Adds one key.
    pub fn add_key(&mut self, key: &[u8]) {
        self.add(key, successor(key).as_deref());
    }

    pub fn iter(&self) -> Iter<'_, Option<MapKey>> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_what_a_list_of_ranges_is(added in prop::collection::vec((0u8..40, 0u8..44), 0..30)) {
            let (mut set, mut plain) = (KeyIntervals::default(), vec![]);
            for (from, until) in added {
                // Some ranges are unbounded.
                let until = Some(until).filter(|u| *u < 42);
                set.add(&[from], until.as_ref().map(std::slice::from_ref));
                plain.push((from, until));
                let has = |k: u8| plain.iter().any(|(f, u)| *f <= k && u.is_none_or(|u| k < u));
                for k in 0..50 {
                    let around = set.around(&[k]).map(|(from, until)| (from[0], until.as_ref().map(|u| u[0])));
                    // The expected range extends in both directions as long as all keys are in the
                    // set.
                    let first = (0..=k).rev().take_while(|k| has(*k)).last();
                    let end = (k..50).find(|k| !has(*k));
                    prop_assert_eq!(around, first.filter(|_| has(k)).map(|f| (f, end)));
                }
            }
        }
    }
}
