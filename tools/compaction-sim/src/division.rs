//! Where jobs that are done in pieces are divided: no table reaches from one piece into the next.
//!
//! The engine looks at keys between blocks. Here the bytes of a table lie evenly between its first
//! and its last key.

use std::sync::Arc;

use firn_kv::internals::base::key::head;
use firn_kv::internals::compaction::{CompactionJob, TreeShape, marks_of_each, piece_ends};

/// Heads of keys, so many and evenly behind `from` up to `to`, each with its share of the bytes.
pub fn marks((from, to): (u64, u64), bytes: u64, many: usize) -> impl Iterator<Item = (u64, u64)> {
    let part = move |of: u64, i: usize| (u128::from(of) * i as u128 / many as u128) as u64;
    let width = to.saturating_sub(from);
    (1..=many).map(move |i| (from + part(width, i), part(bytes, i) - part(bytes, i - 1)))
}

/// The keys at which the pieces of a job but the first begin.
pub fn piece_starts(marks: Vec<(u64, u64)>, pieces: usize) -> Vec<Arc<[u8]>> {
    let behind = |end: u64| Arc::from(&end.saturating_add(1).to_be_bytes()[..]);
    piece_ends(marks, pieces).into_iter().map(behind).collect()
}

/// Cuts a merge where its pieces begin.
pub fn cut_merge(shape: &TreeShape, job: &mut CompactionJob, pieces: usize) {
    if pieces < 2 {
        return;
    }
    let of_each = marks_of_each(pieces, job.taken(shape).count());
    let ends = job.taken(shape).map(|t| ((head(&t.first), head(&t.last)), t.size));
    let marks = ends.flat_map(|(ends, size)| marks(ends, size, of_each)).collect();
    job.cuts.at.extend(piece_starts(marks, pieces));
    job.cuts.at.sort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_evenly() {
        let all: Vec<(u64, u64)> = marks((100, 200), 11, 4).collect();
        assert_eq!(all, [(125, 2), (150, 3), (175, 3), (200, 3)]);
        let widest: Vec<(u64, u64)> = marks((0, u64::MAX), u64::MAX, 2).collect();
        assert_eq!(widest, [(u64::MAX / 2, u64::MAX / 2), (u64::MAX, u64::MAX / 2 + 1)]);
        let starts = piece_starts(all.into_iter().chain(marks((0, 100), 11, 4)).collect(), 2);
        assert_eq!(starts, [Arc::from(&101u64.to_be_bytes()[..])]);
    }
}
