//! The compiled statements that were used last.

use std::collections::HashMap;

use super::prepared::Prepared;

/// Keeps the statements that were used last: when it is full, the older half goes.
#[derive(Debug)]
pub(crate) struct StatementCache {
    limit: usize,
    clock: u64,
    kept: HashMap<[u8; 16], (u64, Prepared)>,
}

impl StatementCache {
    pub fn new(limit: usize) -> StatementCache {
        StatementCache { limit, clock: 0, kept: HashMap::new() }
    }

    pub fn get(&mut self, key: &[u8; 16]) -> Option<Prepared> {
        self.clock += 1;
        let (used, found) = self.kept.get_mut(key)?;
        *used = self.clock;
        Some(found.clone())
    }

    /// One that has this id. Which of several makes no difference.
    #[allow(clippy::disallowed_methods, reason = "whichever is found does")]
    pub fn find(&self, id: &[u8]) -> Option<Prepared> {
        self.kept.values().map(|(_, kept)| kept).find(|kept| kept.id() == *id).cloned()
    }

    #[allow(clippy::disallowed_methods, reason = "the uses are sorted")]
    pub fn put(&mut self, prepared: Prepared) {
        if self.kept.len() >= self.limit {
            let mut uses: Vec<u64> = self.kept.values().map(|k| k.0).collect();
            uses.sort_unstable();
            let median = uses[uses.len() / 2];
            self.kept.retain(|_, k| k.0 >= median);
        }
        self.clock += 1;
        self.kept.insert(prepared.0.key, (self.clock, prepared));
    }
}
