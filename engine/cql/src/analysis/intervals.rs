//! Intervals of positions, which select rows in a partition.

use firn_wide::internals::key::{END, ROWS};
use firn_wide::internals::store::StoreSlice;

/// A half-open interval of positions.
type Interval = (Vec<u8>, Vec<u8>);

/// Half-open intervals of positions, ascending, not adjacent; or all rows, which is the most
/// frequent case and needs no memory.
#[derive(Clone, Debug)]
pub struct ValueIntervals(Option<Vec<Interval>>);

fn all_rows() -> StoreSlice {
    StoreSlice::between(vec![ROWS], vec![ROWS + 1])
}

impl ValueIntervals {
    /// Returns the interval of all rows.
    pub fn all() -> ValueIntervals {
        ValueIntervals(None)
    }

    /// Reports whether these are all rows, without an explicit interval.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Returns one interval, which must not be empty.
    pub fn one(from: Vec<u8>, until: Vec<u8>) -> ValueIntervals {
        debug_assert!(from < until);
        ValueIntervals(Some(vec![(from, until)]))
    }

    /// Returns the union of these intervals.
    pub fn union(mut parts: Vec<Interval>) -> ValueIntervals {
        parts.retain(|(from, until)| from < until);
        parts.sort();
        let mut merged: Vec<Interval> = Vec::with_capacity(parts.len());
        for (from, until) in parts {
            match merged.last_mut() {
                Some(last) if from <= last.1 => {
                    if until > last.1 {
                        last.1 = until;
                    }
                }
                _ => merged.push((from, until)),
            }
        }
        ValueIntervals(Some(merged))
    }

    /// Returns the intersection.
    pub fn intersection(&self, other: &ValueIntervals) -> ValueIntervals {
        let (Some(own), Some(others)) = (&self.0, &other.0) else {
            return if self.is_all() { other.clone() } else { self.clone() };
        };
        let mut out = vec![];
        for (from, until) in own {
            for (other_from, other_until) in others {
                out.push((from.max(other_from).clone(), until.min(other_until).clone()));
            }
        }
        ValueIntervals::union(out)
    }

    /// Reports whether there are no intervals.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the intervals in ascending order, each as a slice.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = StoreSlice> + ExactSizeIterator {
        (0..self.len()).map(|i| self.slice(i))
    }

    /// Returns the interval with this index, which is below [`len`](ValueIntervals::len).
    pub fn slice(&self, i: usize) -> StoreSlice {
        match &self.0 {
            Some(parts) => StoreSlice::between(parts[i].0.clone(), parts[i].1.clone()),
            None => all_rows(),
        }
    }

    /// Returns the number of intervals.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(1, Vec::len)
    }

    /// Returns the smallest interval that contains all of them.
    pub fn hull(&self) -> StoreSlice {
        let Some(parts) = &self.0 else { return all_rows() };
        match (parts.first(), parts.last()) {
            (Some(first), Some(last)) => StoreSlice::between(first.0.clone(), last.1.clone()),
            _ => StoreSlice::between(vec![ROWS], vec![ROWS]),
        }
    }

    /// Reports whether the row with these components ([`firn_wide::internals::key::KeyPlace::row`])
    /// is in an interval. `place` is a scratch buffer.
    pub fn contains(&self, row: &[u8], place: &mut Vec<u8>) -> bool {
        let Some(parts) = &self.0 else { return true };
        place.clear();
        place.push(ROWS);
        place.extend_from_slice(row);
        place.push(END);
        let after = parts.partition_point(|(from, _)| from <= place);
        after > 0 && *place < parts[after - 1].1
    }
}
