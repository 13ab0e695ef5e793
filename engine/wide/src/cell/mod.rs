//! Floor 1: the cells and deletions of a column family: encoding, reconciliation, and compaction
//! filters. Pure functions over bytes.
//!
//! A stored value is `flags u8 | timestamp i64 LE |`, followed by a part that depends on its kind.
//! The kind is the low four bits of the flags; the other bits are 0, reserved for a version.
//!
//! | kind | meaning | after the timestamp |
//! |---|---|---|
//! | 1 | live cell | value |
//! | 2 | expiring cell | ttl u32 LE, second of expiry i64 LE, value (cut by compactions once it has expired) |
//! | 3 | tombstone of a cell | second of deletion i64 LE |
//! | 4 | deletion of a partition, row or complex column | second of deletion i64 LE |
//! | 5 | deletion of a range of rows | second of deletion i64 LE, the bound that it ends before |
//! | 6 | counter | sum i64 LE |
//!
//! Invariants: the result of [`reconcile`] does not depend on the order and grouping of
//! comparisons, nor on a clock.

mod hooks;
mod reconcile;
mod stored;
mod value;

pub use hooks::{CellFacts, CounterMerge, PartitionPrefix, StoredFacts, StoredPurge};
pub use reconcile::reconcile;
pub use stored::{CellDeletion, StoredCell};
pub use value::{Cell, CellState};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = (u8, Vec<u8>, u32, i64)> {
        (0u8..4, prop::collection::vec(any::<u8>(), 0..4), any::<u32>(), any::<i64>())
    }

    proptest! {
        #[test]
        fn encoding_and_decoding_are_inverse((kind, value, ttl, n) in state(), timestamp in any::<i64>()) {
            let state = match kind {
                0 => CellState::Live(&value),
                1 => CellState::Expiring { value: &value, ttl, expires: n },
                2 => CellState::Tombstone { deleted: n },
                _ => CellState::Counter(n),
            };
            let cell = Cell { timestamp, state };
            let mut bytes = vec![];
            cell.encode(&mut bytes);
            prop_assert_eq!(StoredCell::decode(&bytes).unwrap(), StoredCell::Cell(cell));
            let deletion = CellDeletion { timestamp, local: n };
            bytes.clear();
            deletion.encode(&mut bytes);
            prop_assert_eq!(StoredCell::decode(&bytes).unwrap(), StoredCell::Deletion(deletion));
            bytes.clear();
            deletion.encode_range(&value, &mut bytes);
            prop_assert_eq!(StoredCell::decode(&bytes).unwrap(), StoredCell::Range(deletion, &value));
        }

        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = StoredCell::decode(&bytes);
        }
    }
}
