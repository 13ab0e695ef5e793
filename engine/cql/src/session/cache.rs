//! The compiled statements that were used last, bounded in bytes.

use std::collections::HashMap;

use super::prepared::Prepared;

/// A larger statement that nobody prepared is not cached: its constants make it, and no other text
/// has the same.
const MOST_UNPREPARED: usize = 16 << 10;
/// The share of the memory budget that compiled statements may take: this part of it.
const SHARE: usize = 32;
/// Bytes that compiled statements may take in any case.
const LEAST: usize = 1 << 20;

/// The bytes that compiled statements of a database with this memory budget may take.
pub(crate) fn cache_bytes(memory_budget: u64) -> usize {
    (usize::try_from(memory_budget).unwrap_or(usize::MAX) / SHARE).max(LEAST)
}

#[derive(Debug)]
struct CachedStatement {
    used: u64,
    prepared: Prepared,
}

/// Caches the statements that were used last. When they exceed the bound, those that were used
/// longest ago are dropped, until the rest fills half of it.
#[derive(Debug)]
pub(crate) struct StatementCache {
    most_bytes: usize,
    bytes: usize,
    clock: u64,
    by_key: HashMap<[u8; 16], CachedStatement>,
}

impl StatementCache {
    /// An empty cache of at most this many bytes.
    pub fn new(most_bytes: usize) -> StatementCache {
        StatementCache { most_bytes, bytes: 0, clock: 0, by_key: HashMap::new() }
    }

    pub fn get(&mut self, key: &[u8; 16]) -> Option<Prepared> {
        self.clock += 1;
        let cached = self.by_key.get_mut(key)?;
        cached.used = self.clock;
        Some(cached.prepared.clone())
    }

    /// One that has this id. Which of several makes no difference.
    #[allow(clippy::disallowed_methods, reason = "whichever is found does")]
    pub fn find(&self, id: &[u8]) -> Option<Prepared> {
        self.by_key.values().map(|cached| &cached.prepared).find(|p| p.id() == *id).cloned()
    }

    /// How many statements there are, and their bytes.
    pub fn counts(&self) -> (usize, usize) {
        (self.by_key.len(), self.bytes)
    }

    /// Caches a statement, unless it is too large. `is_prepared`: whether a client prepared it,
    /// and will name it again.
    pub fn put(&mut self, prepared: Prepared, is_prepared: bool) {
        let (key, bytes) = (prepared.0.key, prepared.heap_bytes());
        let most = if is_prepared { self.most_bytes / 2 } else { MOST_UNPREPARED };
        if let Some(before) = self.by_key.remove(&key) {
            self.bytes -= before.prepared.heap_bytes();
        }
        if bytes > most.min(self.most_bytes / 2) {
            return;
        }
        if self.bytes + bytes > self.most_bytes {
            self.shrink(self.most_bytes / 2);
        }
        self.clock += 1;
        self.bytes += bytes;
        self.by_key.insert(key, CachedStatement { used: self.clock, prepared });
    }

    /// Drops those that were used longest ago until at most this many bytes are left.
    #[allow(clippy::disallowed_methods, reason = "the uses are sorted")]
    fn shrink(&mut self, most: usize) {
        let of = |c: &CachedStatement| (c.used, c.prepared.heap_bytes());
        let mut uses: Vec<(u64, usize)> = self.by_key.values().map(of).collect();
        uses.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut left = 0;
        let fits = |(_, bytes): &&(u64, usize)| {
            left += bytes;
            left <= most
        };
        let oldest = uses.iter().take_while(fits).last().map_or(u64::MAX, |(used, _)| *used);
        self.by_key.retain(|_, c| c.used >= oldest);
        self.bytes = self.by_key.values().map(|c| c.prepared.heap_bytes()).sum();
    }
}
