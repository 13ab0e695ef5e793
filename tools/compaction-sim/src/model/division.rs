//! Split points of jobs that run in pieces: no table spans two pieces.
//!
//! The engine uses keys between blocks. Here the bytes of a table are spread evenly between its
//! first and last key.

use std::sync::Arc;

use firn_kv::internals::base::key::head;
use firn_kv::internals::compaction::{CompactionJob, LsmShape, marks_of_each, piece_ends};

/// Returns `many` key heads, evenly spaced after `from` up to `to`, each with its share of the
/// bytes.
fn marks((from, to): (u64, u64), bytes: u64, many: usize) -> impl Iterator<Item = (u64, u64)> {
    let part = move |of: u64, i: usize| (of as f64 * (i as f64 / many as f64)) as u64;
    let width = to.saturating_sub(from);
    (1..=many).map(move |i| {
        (from.saturating_add(part(width, i)), part(bytes, i).saturating_sub(part(bytes, i - 1)))
    })
}

fn behind(end: u64) -> Arc<[u8]> {
    Arc::from(&end.saturating_add(1).to_be_bytes()[..])
}

/// Returns the first keys of all pieces of a flush but the first. `stretches` are ranges of keys in
/// order, with bytes spread evenly in each.
pub fn flush_starts(stretches: &[((u64, u64), f64)], pieces: usize) -> Vec<Arc<[u8]>> {
    let total: f64 = stretches.iter().map(|s| s.1).sum();
    let (mut starts, mut passed) = (vec![], 0.0);
    for &((from, to), bytes) in stretches {
        while starts.len() + 1 < pieces {
            let due = total * (starts.len() + 1) as f64 / pieces as f64 - passed;
            if due >= bytes {
                break;
            }
            let width = to.saturating_sub(from) as f64;
            starts.push(behind(from.saturating_add((width * due / bytes) as u64)));
        }
        passed += bytes;
    }
    starts
}

/// Splits a compaction into at most `pieces` pieces. Returns the number of pieces.
pub fn cut_merge(shape: &LsmShape, job: &mut CompactionJob, pieces: usize) -> usize {
    if pieces < 2 {
        return 1;
    }
    let inputs: Vec<_> =
        job.taken(shape).map(|t| ((head(&t.first), head(&t.last)), t.size)).collect();
    let of_each = marks_of_each(pieces, inputs.len());
    let marks = inputs.into_iter().flat_map(|(ends, size)| marks(ends, size, of_each)).collect();
    let ends = piece_ends(marks, pieces);
    let made = ends.len() + 1;
    job.cuts.at.extend(ends.into_iter().map(behind));
    job.cuts.at.sort();
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_evenly() {
        let all: Vec<(u64, u64)> = marks((100, 200), 11, 4).collect();
        assert_eq!(all, [(125, 2), (150, 3), (175, 3), (200, 3)]);
        assert_eq!(marks((5, 5), 3, 1).collect::<Vec<_>>(), [(5, 3)]);
        assert_eq!(marks((0, u64::MAX), u64::MAX, 2).last().map(|m| m.0), Some(u64::MAX));
    }

    #[test]
    fn the_pieces_of_a_flush_have_as_many_bytes() {
        let starts = |stretches: &[((u64, u64), f64)], pieces| -> Vec<u64> {
            flush_starts(stretches, pieces).iter().map(|key| head(key)).collect()
        };
        let two = [((0, 100), 30.0), ((200, 300), 10.0)];
        assert_eq!(starts(&two, 4), [34, 67, 201]);
        assert_eq!(starts(&two, 2), [67]);
        assert_eq!(starts(&two, 1), [0; 0]);
        assert_eq!(starts(&[((0, u64::MAX), 8.0)], 2), [(1 << 63) + 1]);
        assert_eq!(starts(&[], 3), [0; 0]);
    }
}
