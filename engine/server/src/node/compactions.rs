//! Compactions since the start of the server, for `system.compaction_history`.

use std::collections::VecDeque;
use std::sync::Arc;

use firn_kv::{Env, Event, Listener};
use firn_wide::uuids::time_uuid;
use parking_lot::Mutex;
use uuid::Uuid;

/// Number of stored compactions; the oldest are dropped.
const MAX_COMPACTIONS: usize = 1000;

/// A compaction that has ended.
#[derive(Clone, Debug)]
pub struct PastCompaction {
    /// Time UUID of its end.
    pub id: Uuid,
    /// The tree that was compacted.
    pub tree: Arc<str>,
    /// Bytes of the tables that were read.
    pub bytes_in: u64,
    /// Bytes of the tables that were written.
    pub bytes_out: u64,
    /// Milliseconds since 1970 when it ended.
    pub ended_millis: i64,
}

/// The last compactions of a store. Listens to the store's events and passes them on.
pub struct CompactionHistory {
    env: Arc<dyn Env>,
    next: Option<Arc<dyn Listener>>,
    past: Mutex<VecDeque<PastCompaction>>,
}

impl CompactionHistory {
    /// Creates an empty history that passes events on to `next`.
    pub fn new(env: Arc<dyn Env>, next: Option<Arc<dyn Listener>>) -> CompactionHistory {
        CompactionHistory { env, next, past: Mutex::default() }
    }

    /// Returns the compactions, the oldest one first.
    pub fn all(&self) -> Vec<PastCompaction> {
        self.past.lock().iter().cloned().collect()
    }

    fn add(&self, tree: &str, bytes_in: u64, bytes_out: u64) {
        let (micros, random) = (self.env.wall_micros() as i64, self.env.random());
        let mut past = self.past.lock();
        if past.len() == MAX_COMPACTIONS {
            past.pop_front();
        }
        // There are few trees: entries share the name.
        let known = past.iter().rev().find(|p| &*p.tree == tree).map(|p| p.tree.clone());
        past.push_back(PastCompaction {
            id: Uuid::from_bytes(time_uuid(micros, 0, random as u16, random >> 16)),
            tree: known.unwrap_or_else(|| tree.into()),
            bytes_in,
            bytes_out,
            ended_millis: micros / 1000,
        });
    }
}

impl Listener for CompactionHistory {
    fn event(&self, event: &Event) {
        // Trivial moves and drops of tables are no compactions.
        if let Event::CompactionEnded { tree, bytes_in, bytes_out, .. } = event
            && *bytes_in > 0
        {
            self.add(tree, *bytes_in, *bytes_out);
        }
        if let Some(next) = &self.next {
            next.event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::OsEnv;

    use super::*;

    #[test]
    fn the_last_compactions_are_stored() {
        let history = CompactionHistory::new(OsEnv::new(), None);
        (0..MAX_COMPACTIONS as u64 + 7).for_each(|n| history.add("tree", n, 1));
        let all = history.all();
        assert_eq!((all.len(), all[0].bytes_in), (MAX_COMPACTIONS, 7));
        let ids: std::collections::BTreeSet<_> = all.iter().map(|c| c.id).collect();
        assert_eq!(ids.len(), MAX_COMPACTIONS);
    }
}
