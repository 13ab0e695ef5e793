//! Which rows of a partition: intervals of places.

use firn_wide::internals::key::{END, ROWS};
use firn_wide::internals::store::StoreSlice;

/// From one place to before another.
type Interval = (Vec<u8>, Vec<u8>);

/// Half-open intervals of places, ascending, none touching the next; or all rows, which most
/// statements read and which costs nothing.
#[derive(Clone, Debug)]
pub struct ValueIntervals(Option<Vec<Interval>>);

fn all_rows() -> StoreSlice {
    StoreSlice::between(vec![ROWS], vec![ROWS + 1])
}

impl ValueIntervals {
    /// All rows.
    pub fn all() -> ValueIntervals {
        ValueIntervals(None)
    }

    /// Whether they are all rows, and known to be.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// From one place to before another, which lies behind it.
    pub fn one(from: Vec<u8>, until: Vec<u8>) -> ValueIntervals {
        debug_assert!(from < until);
        ValueIntervals(Some(vec![(from, until)]))
    }

    /// What is in any of these.
    pub fn union(mut parts: Vec<Interval>) -> ValueIntervals {
        parts.retain(|(from, until)| from < until);
        parts.sort();
        let mut kept: Vec<Interval> = Vec::with_capacity(parts.len());
        for (from, until) in parts {
            match kept.last_mut() {
                Some(last) if from <= last.1 => {
                    if until > last.1 {
                        last.1 = until;
                    }
                }
                _ => kept.push((from, until)),
            }
        }
        ValueIntervals(Some(kept))
    }

    /// What is in both.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The intervals, ascending: a slice for each.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = StoreSlice> + ExactSizeIterator {
        (0..self.len()).map(|i| self.slice(i))
    }

    /// The interval of this number, which is below [`len`](ValueIntervals::len).
    pub fn slice(&self, i: usize) -> StoreSlice {
        match &self.0 {
            Some(parts) => StoreSlice::between(parts[i].0.clone(), parts[i].1.clone()),
            None => all_rows(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(1, Vec::len)
    }

    /// The smallest interval over all of them.
    pub fn hull(&self) -> StoreSlice {
        let Some(parts) = &self.0 else { return all_rows() };
        match (parts.first(), parts.last()) {
            (Some(first), Some(last)) => StoreSlice::between(first.0.clone(), last.1.clone()),
            _ => StoreSlice::between(vec![ROWS], vec![ROWS]),
        }
    }

    /// Whether the row with these components ([`firn_wide::internals::key::KeyPlace::row`]) is in
    /// one. `place` is a buffer to work in.
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
