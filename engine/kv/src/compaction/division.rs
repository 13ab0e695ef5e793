//! Number of subcompactions of a large job, and the keys that divide it.

use crate::util::sort::sort;

/// Maximum number of subcompactions for each background thread. It is also the minimum size of each
/// in units of the least size. Late threads thus still find work, and all threads finish at about
/// the same time.
const EVEN: u64 = 4;

/// Minimum size of a subcompaction of a flush in bytes, unless a table is smaller.
const FLUSH_PIECE: u64 = 16 << 20;

/// Returns the minimum bytes of a memtable for one subcompaction of its flush.
pub fn least_flushed(table_size: u64) -> u64 {
    table_size.min(FLUSH_PIECE)
}

/// Returns the number of subcompactions of a job over `bytes` bytes, each of at least `least`
/// bytes. Uses one for each of the `threads` background threads, and several if each is still
/// large.
pub fn pieces_of(bytes: u64, least: u64, threads: usize) -> usize {
    if threads < 2 {
        return 1;
    }
    let (least, threads) = (least.max(1), threads as u64);
    let even = (bytes / least.saturating_mul(EVEN)).min(threads * EVEN);
    (bytes / least).min(threads).max(even).max(1) as usize
}

/// Number of candidate split keys for each subcompaction.
const MARKS: usize = 64;

/// Returns how many keys to sample from each of `tables` tables when their merge is divided into
/// `pieces` subcompactions. At least 1, which is the table's last key.
pub fn marks_of_each(pieces: usize, tables: usize) -> usize {
    (MARKS * pieces / tables.max(1)).max(1)
}

/// Returns the last key of each subcompaction except the final one, so that all have about the same
/// number of bytes. Returns fewer keys if `marks` has few. `marks` are keys, each with the bytes
/// since the previous mark of the same source.
///
/// ```
/// use firn_kv::internals::compaction::piece_ends;
/// let (one, other) = ([(20, 10), (40, 10)], [(10, 10), (30, 10), (50, 5)]);
/// let marks: Vec<(i32, u64)> = one.into_iter().chain(other).collect();
/// assert_eq!(piece_ends(marks, 3), [20, 30]);
/// ```
pub fn piece_ends<K: Ord>(mut marks: Vec<(K, u64)>, pieces: usize) -> Vec<K> {
    sort(&mut marks);
    let total: u128 = marks.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
    let (mut ends, mut passed): (Vec<K>, u128) = (vec![], 0);
    for (key, bytes) in marks {
        passed += u128::from(bytes);
        let due = ends.len() + 1;
        let is_due = passed < total && passed * (pieces as u128) >= total * due as u128;
        if is_due && due < pieces && ends.last().is_none_or(|end| *end < key) {
            ends.push(key);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_jobs_have_a_piece_for_each_thread_and_large_ones_several() {
        for threads in 0..2 {
            assert_eq!(pieces_of(u64::MAX, 1, threads), 1);
        }
        let of = |bytes| pieces_of(bytes, 10, 3);
        assert_eq!([0, 9, 19, 20, 30, 159, 160, 479, 480].map(of), [1, 1, 1, 2, 3, 3, 4, 11, 12]);
        assert_eq!([of(1 << 40), pieces_of(u64::MAX, u64::MAX, 3), pieces_of(9, 0, 3)], [12, 1, 3]);
    }
}
