//! LRU cache of compiled statements, bounded in bytes.

use std::collections::HashMap;

use super::prepared::Prepared;

/// Maximum bytes of a cached statement that was not prepared. A larger one is large because of its
/// constants, so the same text will hardly come again.
const MOST_UNPREPARED: usize = 16 << 10;
/// Divisor of the memory budget: compiled statements may take one `SHARE`th of it.
const SHARE: usize = 32;
/// Bytes that compiled statements may always take.
const LEAST: usize = 1 << 20;

/// Returns the maximum bytes of compiled statements for a database with this memory budget.
pub(crate) fn cache_bytes(memory_budget: u64) -> usize {
    (usize::try_from(memory_budget).unwrap_or(usize::MAX) / SHARE).max(LEAST)
}

#[derive(Debug)]
struct CachedStatement {
    used: u64,
    prepared: Prepared,
}

/// Cache of the most recently used statements. When they exceed the bound, it evicts the least
/// recently used ones until the rest takes at most half of it.
#[derive(Debug)]
pub(crate) struct StatementCache {
    most_bytes: usize,
    bytes: usize,
    clock: u64,
    by_key: HashMap<[u8; 16], CachedStatement>,
}

impl StatementCache {
    /// Creates an empty cache of at most this many bytes.
    pub fn new(most_bytes: usize) -> StatementCache {
        StatementCache { most_bytes, bytes: 0, clock: 0, by_key: HashMap::new() }
    }

    pub fn get(&mut self, key: &[u8; 16]) -> Option<Prepared> {
        self.clock += 1;
        let cached = self.by_key.get_mut(key)?;
        cached.used = self.clock;
        Some(cached.prepared.clone())
    }

    /// Returns any statement with this id. All of them are equivalent.
    #[allow(clippy::disallowed_methods, reason = "whichever is found does")]
    pub fn find(&self, id: &[u8]) -> Option<Prepared> {
        self.by_key.values().map(|cached| &cached.prepared).find(|p| p.id() == *id).cloned()
    }

    /// Returns the number of statements and their bytes.
    pub fn counts(&self) -> (usize, usize) {
        (self.by_key.len(), self.bytes)
    }

    /// Caches a statement, unless it is too large. `is_prepared`: a client prepared it and will
    /// execute it by its id.
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

    /// Evicts the least recently used statements until at most this many bytes remain.
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
