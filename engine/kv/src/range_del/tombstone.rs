//! Range tombstones: every key in `[start, end)` older than a sequence number is deleted.
//!
//! Invariants of [`Fragments`]: fragments are sorted, disjoint and not empty. Each lists the
//! sequence numbers of the tombstones that cover it, newest first, without repeats.
//!
//! A lookup of a key costs one binary search. [`Deletions`](crate::range_del::deletions::Deletions)
//! cuts overlapping tombstones at each other's ends. Cutting never changes which keys are covered
//! by which sequence number.

use crate::base::key::Seq;

/// Range deletion: it deletes keys in `[start, end)` with a sequence number below `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First key covered.
    pub start: Vec<u8>,
    /// First key no longer covered.
    pub end: Vec<u8>,
    /// Sequence number of the deletion.
    pub seq: Seq,
}

/// Part of the key space that each of its deletions covers completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First key covered.
    pub start: Vec<u8>,
    /// First key no longer covered.
    pub end: Vec<u8>,
    /// Sequence numbers of the deletions, newest first.
    pub seqs: Vec<Seq>,
}

impl Fragment {
    /// Returns the newest deletion of this fragment that a reader at `read` sees.
    pub fn newest_at(&self, read: Seq) -> Option<Seq> {
        self.seqs.get(self.seqs.partition_point(|&s| s > read)).copied()
    }
}

/// Largest key range around a looked-up key in which a reader sees the same deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredRange<'a> {
    /// First key of the range.
    pub from: &'a [u8],
    /// First key after the range; `None` if the range has no end.
    pub until: Option<&'a [u8]>,
    /// Newest deletion of the range that the reader sees.
    pub newest: Option<Seq>,
}

/// Sorted, disjoint fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments(Vec<Fragment>);

impl Fragments {
    /// Creates a set from fragments that are sorted and disjoint; returns `None` if they are not.
    pub fn from_sorted(fragments: Vec<Fragment>) -> Option<Fragments> {
        Self::is_sound(&fragments).then_some(Fragments(fragments))
    }

    /// Creates a set from parts that were cut out of valid fragments, in their order.
    pub fn from_parts(fragments: Vec<Fragment>) -> Fragments {
        debug_assert!(Self::is_sound(&fragments), "parts of valid fragments are not valid");
        Fragments(fragments)
    }

    fn is_sound(fragments: &[Fragment]) -> bool {
        fragments
            .iter()
            .all(|f| f.start < f.end && !f.seqs.is_empty() && f.seqs.is_sorted_by(|a, b| a > b))
            && fragments.windows(2).all(|w| w[0].end <= w[1].start)
    }

    /// Returns the fragments, in key order.
    pub fn as_slice(&self) -> &[Fragment] {
        &self.0
    }

    /// Reports whether there are no fragments.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fragment that covers `key`.
    pub fn covering(&self, key: &[u8]) -> Option<&Fragment> {
        let i = self.0.partition_point(|f| f.end.as_slice() <= key);
        self.0.get(i).filter(|f| f.start.as_slice() <= key)
    }

    /// Reports whether any fragment covers a key in `first..=last`.
    pub fn touches(&self, first: &[u8], last: &[u8]) -> bool {
        let i = self.0.partition_point(|f| f.end.as_slice() <= first);
        self.0.get(i).is_some_and(|f| f.start.as_slice() <= last)
    }

    /// Reports whether any key in `[from, until)` was deleted after `since`; `None` means no upper
    /// bound.
    pub fn changed_since(&self, from: &[u8], until: Option<&[u8]>, since: Seq) -> bool {
        let there = self.0[self.0.partition_point(|f| f.end.as_slice() <= from)..].iter();
        let mut there = there.take_while(|f| until.is_none_or(|u| f.start.as_slice() < u));
        there.any(|f| f.seqs.first().is_some_and(|&s| s > since))
    }

    /// Returns the newest deletion of `key` that a reader at `read` sees.
    pub fn newest_covering(&self, key: &[u8], read: Seq) -> Option<Seq> {
        self.covering(key)?.newest_at(read)
    }

    /// Returns the key range around `key` in which a reader at `read` sees the same deletion.
    pub fn range_around(&self, key: &[u8], read: Seq) -> CoveredRange<'_> {
        let i = self.0.partition_point(|f| f.end.as_slice() <= key);
        let before = i.checked_sub(1).map_or(&[][..], |i| &self.0[i].end);
        match self.0.get(i) {
            None => CoveredRange { from: before, until: None, newest: None },
            Some(f) if f.start.as_slice() <= key => {
                CoveredRange { from: &f.start, until: Some(&f.end), newest: f.newest_at(read) }
            }
            Some(f) => CoveredRange { from: before, until: Some(&f.start), newest: None },
        }
    }

    /// Returns the fragments, cut to `[from, until)`.
    pub fn slice(&self, from: &[u8], until: Option<&[u8]>) -> Fragments {
        let first = self.0.partition_point(|f| f.end.as_slice() <= from);
        let behind =
            until.map_or(self.0.len(), |u| self.0.partition_point(|f| f.start.as_slice() < u));
        let inside = self.0.get(first..behind).unwrap_or_default().iter().map(|f| {
            let start = f.start.as_slice().max(from);
            let end = until.map_or(f.end.as_slice(), |u| u.min(&f.end));
            Fragment { start: start.to_vec(), end: end.to_vec(), seqs: f.seqs.clone() }
        });
        Fragments(inside.collect())
    }

    /// Returns the same deletions as tombstones, one for each fragment and sequence number.
    pub fn to_tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.0.iter().flat_map(|f| {
            f.seqs.iter().map(|&seq| RangeTombstone {
                start: f.start.clone(),
                end: f.end.clone(),
                seq,
            })
        })
    }

    /// Returns the heap memory of the fragments in bytes.
    pub fn memory(&self) -> usize {
        self.0
            .iter()
            .map(|f| {
                size_of::<Fragment>()
                    + f.start.capacity()
                    + f.end.capacity()
                    + 8 * f.seqs.capacity()
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fragments_cover_what_the_tombstones_cover(ts in prop::collection::vec((0u8..30, 0u8..30, 1u64..9), 0..12), key in 0u8..30, read in 0u64..10) {
            let ts: Vec<_> = ts.into_iter().map(|(a, b, seq)| RangeTombstone { start: vec![a], end: vec![b], seq }).collect();
            let want = ts.iter().filter(|t| t.start[0] <= key && key < t.end[0] && t.seq <= read).map(|t| t.seq).max();
            let f = Fragments::build(ts);
            prop_assert_eq!(f.newest_covering(&[key], read), want);
            prop_assert_eq!(Fragments::from_sorted(f.as_slice().to_vec()), Some(f.clone()));
            prop_assert_eq!(Fragments::build(f.to_tombstones().collect()), f);
        }
    }
}
