//! Combined merge operands: the operands of a key that a read has walked, stored as one.
//!
//! A key that is changed by operands alone collects them until the memtable is flushed, and a read
//! would fold all of them each time. The first read that walks [`MIN_STEPS`] of them stores their
//! combination ([`Merge::combine`](crate::Merge::combine)) here; later reads take it in one step.
//! So reads walk each operand once, beside the newest few.
//!
//! Invariants:
//! - O1: a combination stands for all entries of its key in this memtable from `newest` down to
//!   `oldest`. All of them are operands, and no range deletion of the key lies between them: a
//!   reader that saw all of them combined them, and what a reader sees no later write changes.
//! - O2: a reader takes it when it stands on the entry `newest`. So it is never used by a reader
//!   of an older state.
//! - O3: combinations take at most 1/64 of the memtable's capacity, in bytes; further ones are
//!   not stored.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::base::key::Seq;
use crate::base::sync::Mutex;

/// How many operands a read walks before it stores their combination.
pub const MIN_STEPS: usize = 64;
/// Combinations take at most one part in so many of a memtable's capacity.
const SHARE: usize = 64;
/// Bytes that an entry of the map takes beside its key and its operand.
const OVERHEAD: usize = 96;

/// Several operands of a key as one.
#[derive(Debug)]
pub struct CombinedOperand {
    /// Sequence number of the newest of them.
    pub newest: Seq,
    /// Sequence number of the oldest of them.
    pub oldest: Seq,
    /// What they are together.
    pub operand: Vec<u8>,
}

/// The combinations of a memtable.
#[derive(Default)]
pub(super) struct CombinedOperands {
    is_used: AtomicBool,
    map: Mutex<CombinedMap>,
}

#[derive(Default)]
struct CombinedMap {
    by_key: HashMap<Box<[u8]>, Arc<CombinedOperand>>,
    bytes: usize,
}

fn size(key: &[u8], combined: &CombinedOperand) -> usize {
    OVERHEAD + key.len() + combined.operand.len()
}

impl CombinedOperands {
    /// The combined operands of a key, if a read has stored them.
    pub fn get(&self, key: &[u8]) -> Option<Arc<CombinedOperand>> {
        if !self.is_used.load(Relaxed) {
            return None;
        }
        self.map.lock().by_key.get(key).cloned()
    }

    /// Stores the combined operands of a key (O1), where there is room in a memtable of this
    /// capacity (O3) and none newer.
    pub fn store(&self, key: &[u8], combined: CombinedOperand, capacity: usize) {
        let mut map = self.map.lock();
        let before = map.by_key.get(key);
        if before.is_some_and(|b| b.newest >= combined.newest) {
            return;
        }
        let freed = before.map_or(0, |b| size(key, b));
        let bytes = map.bytes - freed + size(key, &combined);
        if bytes > capacity / SHARE {
            return;
        }
        map.bytes = bytes;
        map.by_key.insert(key.into(), Arc::new(combined));
        self.is_used.store(true, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn combinations_take_a_share_of_the_capacity() {
        let (stored, capacity) = (CombinedOperands::default(), 1 << 20);
        let put = |key: u32, newest: Seq, len: usize| {
            let combined = CombinedOperand { newest, oldest: 1, operand: vec![7; len] };
            stored.store(&key.to_be_bytes(), combined, capacity);
            stored.get(&key.to_be_bytes()).is_some_and(|c| c.newest == newest)
        };
        let bytes = || {
            let map = stored.map.lock();
            let sizes = (0..1000_u32).map(u32::to_be_bytes);
            let sizes = sizes.filter_map(|k| map.by_key.get(&k[..]).map(|c| size(&k, c)));
            assert_eq!(map.bytes, sizes.sum::<usize>());
            map.bytes
        };
        let taken = (0..1000).filter(|&key| put(key, 2, 100)).count();
        assert!((50..200).contains(&taken), "{taken}");
        // One is replaced by a newer one, also by one of another length, and by no older one.
        assert!(put(0, 5, 50) && !put(0, 4, 50) && put(0, 6, 90));
        assert!(!put(0, 7, capacity) && bytes() <= capacity / SHARE);
    }
}
