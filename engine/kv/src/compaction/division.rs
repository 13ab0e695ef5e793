//! In how many pieces a large job is done, by several threads side by side, and where it is divided.

/// A large job is cut into up to so many pieces for each background thread, each of at least so many
/// times the least: so there are some left for hands that come late, and the last ones end at about
/// the same time.
const EVEN: u64 = 4;

/// A piece of a flush has at least so many bytes of its memtable, or a table's.
const FLUSH_PIECE: u64 = 16 << 20;

/// The least bytes of a memtable for a piece of its flush, where tables have this size.
pub fn least_flushed(table_size: u64) -> u64 {
    table_size.min(FLUSH_PIECE)
}

/// The number of pieces of a job over so many bytes, of which each has at least `least`, that so many
/// background threads may do: one for each thread, and several where each is large all the same.
pub fn pieces_of(bytes: u64, least: u64, threads: usize) -> usize {
    if threads < 2 {
        return 1;
    }
    let (least, threads) = (least.max(1), threads as u64);
    let even = (bytes / least.saturating_mul(EVEN)).min(threads * EVEN);
    (bytes / least).min(threads).max(even).max(1) as usize
}

/// So many keys are looked at, for each piece, where a job might be divided.
const MARKS: usize = 64;

/// At how many keys each of so many tables is looked at, to divide their merge into so many pieces:
/// at its last one at least.
pub fn marks_of_each(pieces: usize, tables: usize) -> usize {
    (MARKS * pieces / tables.max(1)).max(1)
}

/// The last keys of all pieces of a job but the last, so that all have about as many bytes: fewer of
/// them where keys are few. `marks` are keys, each with the bytes since the one before of the same
/// source.
///
/// ```
/// use firn_kv::internals::compaction::piece_ends;
/// let (one, other) = ([(20, 10), (40, 10)], [(10, 10), (30, 10), (50, 5)]);
/// let marks: Vec<(i32, u64)> = one.into_iter().chain(other).collect();
/// assert_eq!(piece_ends(marks, 3), [20, 30]);
/// ```
pub fn piece_ends<K: Ord>(mut marks: Vec<(K, u64)>, pieces: usize) -> Vec<K> {
    marks.sort_unstable();
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
