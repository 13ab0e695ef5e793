//! Caches combined merge operands: the operands of a key that a read has folded, stored as one.
//!
//! A key that receives only operands collects them until the memtable is flushed, and each read
//! would fold all of them. The first read that walks [`MIN_STEPS`] of them stores their combination
//! ([`MergeOperator::partial_merge`](crate::MergeOperator::partial_merge)) here; later reads use it in one
//! step. So each operand is walked once; only the newest few are walked again.
//!
//! Invariants:
//! - O1: a combination replaces all entries of its key in this memtable from `newest` down to
//!   `oldest`. All of them are operands, and no range deletion of the key is between them. A reader
//!   that saw all of them combined them, and no later write changes a reader's view.
//! - O2: a reader uses it when it is positioned at the entry `newest`. So no reader of an older
//!   state uses it.
//! - O3: combinations take at most 1/64 of the memtable's capacity, in bytes; further ones are not
//!   stored.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::base::key::Seq;
use crate::util::sync::Mutex;

/// Number of operands that a read walks before it stores their combination.
pub const MIN_STEPS: usize = 64;
/// Combinations take at most this fraction (1/`SHARE`) of a memtable's capacity.
const SHARE: usize = 64;
/// Estimated bytes of a map entry in addition to its key and its operand.
const OVERHEAD: usize = 96;

/// Several operands of a key, combined into one.
#[derive(Debug)]
pub struct CombinedOperand {
    /// Sequence number of the newest of them.
    pub newest: Seq,
    /// Sequence number of the oldest of them.
    pub oldest: Seq,
    /// The combined operand.
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
    /// Returns the combined operands of a key, if a read has stored them.
    pub fn get(&self, key: &[u8]) -> Option<Arc<CombinedOperand>> {
        if !self.is_used.load(Relaxed) {
            return None;
        }
        self.map.lock().by_key.get(key).cloned()
    }

    /// Stores the combined operands of a key (O1), unless newer ones exist or a memtable of this
    /// capacity has no space for them (O3).
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
        // A newer combination replaces it, even at another length; an older one does not.
        assert!(put(0, 5, 50) && !put(0, 4, 50) && put(0, 6, 90));
        assert!(!put(0, 7, capacity) && bytes() <= capacity / SHARE);
    }
}
