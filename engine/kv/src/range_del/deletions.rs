//! Set of range deletions that may overlap. It returns the newest deletion that covers a key.
//!
//! The bounds of all deletions cut the key space into *pieces*. A segment tree over the pieces
//! stores each deletion in O(log n) nodes, whose pieces it covers completely. So a build takes O(n
//! log n) time and space, however deeply the deletions are nested. The deletions of a piece are
//! those of the nodes from its leaf to the root.
//!
//! Invariants:
//! - D1: bounds ascend strictly, and each is a bound of a deletion; piece `i` is `[bound i, bound i
//!   + 1)`.
//! - D2: spans of one sequence number neither overlap nor touch; spans are in order of their
//!   sequence numbers.
//! - D3: the sequence numbers of a node ascend strictly. `newest` has the greatest of each piece,
//!   or `NONE`.

use crate::base::key::{MAX_SEQ, Seq};
use crate::range_del::tombstone::{CoveredRange, Fragment, Fragments, RangeTombstone};

/// Marks a piece without a deletion.
const NONE: Seq = Seq::MAX;

/// Set of range deletions that may overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    /// All bounds, concatenated.
    keys: Vec<u8>,
    /// End of each bound in `keys`.
    ends: Vec<usize>,
    spans: Vec<DeletedSpan>,
    newest: Vec<Seq>,
    /// The sequence numbers of node `n` are `seqs[nodes[n]..nodes[n + 1]]`.
    nodes: Vec<u32>,
    seqs: Vec<Seq>,
}

/// Deletion, from one bound to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeletedSpan {
    from: u32,
    until: u32,
    seq: Seq,
}

impl Deletions {
    /// Creates the set of deletions of `[start, end)` with these sequence numbers. Empty ranges are
    /// ignored. Costs O(n log n).
    pub fn build<'a>(deletions: impl IntoIterator<Item = (&'a [u8], &'a [u8], Seq)>) -> Deletions {
        Deletions::of(deletions.into_iter().filter(|(start, end, _)| start < end).collect())
    }

    /// Creates the set of these deletions, none of which is empty.
    fn of(mut list: Vec<(&[u8], &[u8], Seq)>) -> Deletions {
        list.sort_unstable_by_key(|&(start, _, seq)| (seq, start));
        list.dedup_by(|next, kept| {
            let one = next.2 == kept.2 && next.0 <= kept.1;
            if one {
                kept.1 = kept.1.max(next.1);
            }
            one
        });
        let mut bounds: Vec<&[u8]> =
            list.iter().flat_map(|&(start, end, _)| [start, end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let at = |key: &[u8]| bounds.partition_point(|b| *b < key) as u32;
        let spans = list
            .iter()
            .map(|&(start, end, seq)| DeletedSpan { from: at(start), until: at(end), seq })
            .collect();
        let mut made = Deletions { keys: bounds.concat(), spans, ..Deletions::default() };
        made.ends = bounds
            .iter()
            .scan(0, |end, b| {
                *end += b.len();
                Some(*end)
            })
            .collect();
        made.build_tree();
        made
    }

    /// Builds the segment tree.
    fn build_tree(&mut self) {
        let pieces = self.pieces();
        let mut nodes = vec![0u32; 2 * pieces + 1];
        for s in &self.spans {
            cover(*s, pieces, |n| nodes[n + 1] += 1);
        }
        for n in 0..2 * pieces {
            nodes[n + 1] += nodes[n];
        }
        let mut next = nodes.clone();
        let mut seqs = vec![0; nodes.last().map_or(0, |&n| n as usize)];
        // Spans are in order of their sequence numbers (D2), so those of each node ascend (D3).
        for s in &self.spans {
            cover(*s, pieces, |n| {
                seqs[next[n] as usize] = s.seq;
                next[n] += 1;
            });
        }
        (self.nodes, self.seqs) = (nodes, seqs);
        let mut newest = vec![None; 2 * pieces];
        for n in 1..2 * pieces {
            newest[n] = newest[n / 2].max(self.node(n).last().copied());
        }
        self.newest = newest.iter().skip(pieces).map(|s| s.unwrap_or(NONE)).collect();
    }

    fn pieces(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    fn node(&self, n: usize) -> &[Seq] {
        &self.seqs[self.nodes[n] as usize..self.nodes[n + 1] as usize]
    }

    fn bound(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.keys[start..self.ends[i]]
    }

    /// Returns the number of bounds at or before `key`.
    fn bounds_before(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let mid = (low + high) / 2;
            if self.bound(mid) <= key { low = mid + 1 } else { high = mid }
        }
        low
    }

    /// Returns the newest deletion of a piece that a reader at `read` sees.
    fn newest_of(&self, piece: usize, read: Seq) -> Option<Seq> {
        match self.newest[piece] {
            NONE => None,
            newest if newest <= read => Some(newest),
            _ => {
                let path = std::iter::successors(Some(piece + self.pieces()), |n| Some(n / 2))
                    .take_while(|&n| n > 0);
                path.filter_map(|n| {
                    let seqs = self.node(n);
                    seqs[..seqs.partition_point(|&s| s <= read)].last().copied()
                })
                .max()
            }
        }
    }

    /// Reports whether there are no deletions.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the largest sequence number of a deletion; 0 if there are none.
    pub fn newest(&self) -> Seq {
        self.spans.last().map_or(0, |s| s.seq)
    }

    /// Returns the deletions. Deletions that touch and have the same sequence number are merged.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], Seq)> {
        self.spans
            .iter()
            .map(|s| (self.bound(s.from as usize), self.bound(s.until as usize), s.seq))
    }

    /// Returns the pieces that may have a key in `[from, until)`; `None` means no upper bound.
    fn pieces_of(&self, from: &[u8], until: Option<&[u8]>) -> impl Iterator<Item = usize> {
        let first = self.bounds_before(from).saturating_sub(1);
        (first..self.pieces())
            .take_while(move |&i| until.is_none_or(|u| self.bound(i) < u))
            .filter(|&i| self.bound(i + 1) > from)
    }

    /// Reports whether any key in `[from, until)` was deleted after `since`; `None` means no upper
    /// bound.
    pub fn changed_since(&self, from: &[u8], until: Option<&[u8]>, since: Seq) -> bool {
        self.pieces_of(from, until).any(|i| self.newest_of(i, MAX_SEQ).is_some_and(|s| s > since))
    }

    /// Returns the newest deletion of any key in `[from, until)` that a reader at `read` sees.
    pub fn newest_in(&self, from: &[u8], until: &[u8], read: Seq) -> Option<Seq> {
        self.pieces_of(from, Some(until)).filter_map(|i| self.newest_of(i, read)).max()
    }

    /// Reports whether any key in `[first, last]` was deleted.
    pub fn touches(&self, first: &[u8], last: &[u8]) -> bool {
        let is_deleted = |i: usize| self.newest[i] != NONE;
        let behind = self.bounds_before(last).min(self.pieces());
        let from = self.bounds_before(first).saturating_sub(1);
        (from..behind).any(|i| is_deleted(i) && self.bound(i + 1) > first)
    }

    /// Returns the newest deletion of `key` that a reader at `read` sees. Costs one binary search,
    /// or more if deletions newer than `read` cover the key: then it searches the nodes from the
    /// leaf to the root.
    pub fn newest_covering(&self, key: &[u8], read: Seq) -> Option<Seq> {
        match self.bounds_before(key) {
            0 => None,
            n if n > self.pieces() => None,
            n => self.newest_of(n - 1, read),
        }
    }

    /// Returns the key range around `key` in which a reader at `read` sees the same deletion.
    pub fn range_around(&self, key: &[u8], read: Seq) -> CoveredRange<'_> {
        let n = self.bounds_before(key);
        let newest = if n == 0 || n > self.pieces() { None } else { self.newest_of(n - 1, read) };
        let from = n.checked_sub(1).map_or(&[][..], |i| self.bound(i));
        CoveredRange { from, until: (n < self.ends.len()).then(|| self.bound(n)), newest }
    }

    /// Returns fragments that suffice for readers at these snapshots (ascending) and for the newest
    /// state. Between two snapshots, only the newest deletion is included.
    pub fn fragments(&self, snapshots: &[Seq]) -> Fragments {
        self.cut(|seq| snapshots[..snapshots.partition_point(|&s| s < seq)].last().copied())
    }

    /// Returns fragments with all deletions. Where deletions are nested, the output has up to
    /// fragments times deletions sequence numbers.
    pub fn all_fragments(&self) -> Fragments {
        self.cut(|seq| seq.checked_sub(1))
    }

    /// Returns fragments with the deletions that `next` selects. After one sequence number, the
    /// next included is the newest at or below the result of `next`.
    fn cut(&self, next: impl Fn(Seq) -> Option<Seq>) -> Fragments {
        let fragment = |piece| {
            let first = self.newest_of(piece, MAX_SEQ)?;
            let seqs =
                std::iter::successors(Some(first), |&s| self.newest_of(piece, next(s)?)).collect();
            Some(Fragment {
                start: self.bound(piece).to_vec(),
                end: self.bound(piece + 1).to_vec(),
                seqs,
            })
        };
        Fragments::from_parts((0..self.pieces()).filter_map(fragment).collect())
    }

    /// Returns the heap memory of the set in bytes.
    pub fn memory(&self) -> usize {
        let words = self.ends.capacity()
            + self.newest.capacity()
            + self.seqs.capacity()
            + self.nodes.capacity() / 2;
        self.keys.capacity() + 8 * words + size_of::<DeletedSpan>() * self.spans.capacity()
    }
}

impl Fragments {
    /// Cuts overlapping tombstones into fragments that list all of them. Costs O(n log n + output).
    pub fn build(tombstones: Vec<RangeTombstone>) -> Fragments {
        tombstones.iter().collect::<Deletions>().all_fragments()
    }
}

impl<'a> FromIterator<&'a RangeTombstone> for Deletions {
    fn from_iter<T: IntoIterator<Item = &'a RangeTombstone>>(tombstones: T) -> Self {
        Deletions::build(
            tombstones.into_iter().map(|t| (t.start.as_slice(), t.end.as_slice(), t.seq)),
        )
    }
}

/// Calls `f` for the nodes that together cover a span.
fn cover(span: DeletedSpan, pieces: usize, mut f: impl FnMut(usize)) {
    let (mut from, mut until) = (span.from as usize + pieces, span.until as usize + pieces);
    while from < until {
        if from % 2 == 1 {
            f(from);
            from += 1;
        }
        if until % 2 == 1 {
            until -= 1;
            f(until);
        }
        (from, until) = (from / 2, until / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tombstones(list: &[(u8, u8, u64)]) -> Vec<RangeTombstone> {
        list.iter()
            .map(|&(a, b, seq)| RangeTombstone { start: vec![a], end: vec![b], seq })
            .collect()
    }

    fn plain(list: &[(u8, u8, u64)], key: u8, read: Seq) -> Option<Seq> {
        list.iter().filter(|t| t.0 <= key && key < t.1 && t.2 <= read).map(|t| t.2).max()
    }

    proptest! {
        #[test]
        fn answers_as_a_plain_search_would(
            list in prop::collection::vec((0u8..30, 0u8..30, 0u64..9), 0..20),
            snapshots in prop::collection::btree_set(0u64..10, 0..4),
            read in 0u64..10,
        ) {
            let d: Deletions = tombstones(&list).iter().collect();
            for (from, until) in (0..30u8).flat_map(|from| [(from, from + 1), (from, from + 7)]) {
                let want = (from..until).filter_map(|key| plain(&list, key, read)).max();
                prop_assert_eq!(d.newest_in(&[from], &[until], read), want);
            }
            let snapshots: Vec<Seq> = snapshots.into_iter().collect();
            let (reduced, all) = (d.fragments(&snapshots), d.all_fragments());
            let again = Deletions::build(d.iter());
            for key in 0..32 {
                let want = plain(&list, key, read);
                prop_assert_eq!(d.newest_covering(&[key], read), want);
                prop_assert_eq!(all.newest_covering(&[key], read), want);
                prop_assert_eq!(again.newest_covering(&[key], read), want);
                for &s in snapshots.iter().chain([&MAX_SEQ]) {
                    prop_assert_eq!(reduced.newest_covering(&[key], s), plain(&list, key, s));
                }
                let s = d.range_around(&[key], read);
                prop_assert!(s.from <= &[key][..] && s.until.is_none_or(|u| u > &[key][..]));
                for other in 0..32u8 {
                    if s.from <= &[other][..] && s.until.is_none_or(|u| u > &[other][..]) {
                        prop_assert_eq!(s.newest, plain(&list, other, read));
                    }
                }
            }
            let most = snapshots.len() + 1;
            prop_assert!(reduced.as_slice().iter().all(|f| f.seqs.len() <= most));
        }
    }

    #[test]
    fn nested_deletions_take_little_space() {
        let n = 20_000u64;
        let key = |i: u64| i.to_be_bytes().to_vec();
        let list: Vec<RangeTombstone> = (0..n)
            .map(|i| RangeTombstone { start: key(i), end: key(2 * n - i), seq: i + 1 })
            .collect();
        let d: Deletions = list.iter().collect();
        assert!(d.memory() < 20 << 20, "{}", d.memory());
        assert_eq!(d.newest_covering(&key(n), MAX_SEQ), Some(n));
        assert_eq!(d.newest_covering(&key(n), 77), Some(77));
        assert_eq!(d.newest_covering(&key(9), n), Some(10));
        assert_eq!(d.newest_covering(&key(2 * n), n), None);
        assert_eq!(d.fragments(&[500]).as_slice().iter().map(|f| f.seqs.len()).max(), Some(2));
    }
}
