//! State of an open store: its parts, which its handles, trees and workers share.
//!
//! Each part owns its state behind private fields. The order in which locks may be taken is defined
//! in [`rank`](crate::util::rank).

use std::sync::{Arc, OnceLock, Weak};

use crate::base::options::DbOptions;
use crate::db::commit::CommitPipeline;
use crate::db::key_locks::KeyLocks;
use crate::db::memory::budget::MemoryManager;
use crate::db::observe::Observer;
use crate::db::scheduler::Scheduler;
use crate::db::scheduler::gate::CloseGate;
use crate::db::versions::VersionSet;
use crate::env::Env;

/// State of an open store, shared by its handles, trees and workers.
pub struct DbInner {
    /// Access to files, clock and threads.
    pub env: Arc<dyn Env>,
    /// Options as given at open.
    pub options: DbOptions,
    /// Whether the store takes calls.
    pub gate: Arc<CloseGate>,
    /// Log, sequence numbers, group commit.
    pub commit: CommitPipeline,
    /// Manifest, trees, tables, snapshots.
    pub versions: VersionSet,
    /// Keys that transactions have locked.
    pub key_locks: KeyLocks,
    /// Background work: queue, worker slots, limits.
    pub scheduler: Scheduler,
    /// Memory of memtables and jobs, and the block cache.
    pub memory: Arc<MemoryManager>,
    /// Counters, latencies, events.
    pub observer: Observer,
    /// Weak reference to itself for helper threads; set when workers may start.
    pub me: OnceLock<Weak<DbInner>>,
}

impl DbInner {
    /// Signals the workers that there may be work.
    pub fn signal_work(&self) {
        self.scheduler.queue().signal();
        self.call_workers_to_flush();
    }

    /// Calls workers if a memtable waits for its flush. May be called under any lock.
    pub fn call_workers_to_flush(&self) {
        if !self.scheduler.has_all_workers() && self.is_flush_due() {
            self.scheduler.queue().start_workers();
        }
    }

    fn is_flush_due(&self) -> bool {
        let ids = self.scheduler.queue().sealed();
        let trees = self.versions.trees();
        ids.iter().filter_map(|id| trees.by_id(*id)).any(|t| !t.view.load_full().sealed.is_empty())
    }
}
