//! Which rows of a partition: intervals of places.

use firn_wide::key::{END, ROWS};
use firn_wide::store::Slice;

/// Half-open intervals of places, ascending, none touching the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervals(Vec<(Vec<u8>, Vec<u8>)>);

impl Intervals {
    /// All rows.
    pub fn all() -> Intervals {
        Intervals(vec![(vec![ROWS], vec![ROWS + 1])])
    }

    /// What is in any of these.
    pub fn union(mut parts: Vec<(Vec<u8>, Vec<u8>)>) -> Intervals {
        parts.retain(|(from, until)| from < until);
        parts.sort();
        let mut kept: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(parts.len());
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
        Intervals(kept)
    }

    /// What is in both.
    pub fn intersection(&self, other: &Intervals) -> Intervals {
        let mut out = vec![];
        for (from, until) in &self.0 {
            for (other_from, other_until) in &other.0 {
                out.push((from.max(other_from).clone(), until.min(other_until).clone()));
            }
        }
        Intervals::union(out)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The intervals, ascending: a slice for each.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = Slice> + ExactSizeIterator {
        self.0.iter().map(|(from, until)| Slice::between(from.clone(), until.clone()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest interval over all of them.
    pub fn hull(&self) -> Slice {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => Slice::between(first.0.clone(), last.1.clone()),
            _ => Slice::between(vec![ROWS], vec![ROWS]),
        }
    }

    /// Whether the row with these components ([`firn_wide::key::Place::row`]) is in one. `place` is a buffer to work in.
    pub fn contains(&self, row: &[u8], place: &mut Vec<u8>) -> bool {
        place.clear();
        place.push(ROWS);
        place.extend_from_slice(row);
        place.push(END);
        let after = self.0.partition_point(|(from, _)| from <= place);
        after > 0 && *place < self.0[after - 1].1
    }
}
