//! The inside of an open Db, shared by its handles, its trees and its workers: the parts put
//! together, and what each of its verbs needs of several parts: failures, signals, numbers.
//!
//! In which order its locks may be taken says [`rank`](crate::base::rank).

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::horizon::VisibleSeq;
use crate::base::identity::TableIdentity;
use crate::base::key::Seq;
use crate::base::options::DbOptions;
use crate::base::sync::{Mutex, RwLock, rank};
use crate::env::{Env, FileLock};
use crate::merge::run::TableOpener;
use crate::wal::{Syncer, TornTail};

use crate::db::commit::write_state::WriteState;
use crate::db::memory::budget::MemoryManager;
use crate::db::observe::counters::Counters;
use crate::db::observe::events::Events;
use crate::db::observe::meters::Meters;
use crate::db::observe::pins::Pins;
use crate::db::scheduler::gate::CloseGate;
use crate::db::scheduler::queue::BackgroundQueue;
use crate::db::scheduler::slots::SubcompactionSlots;
use crate::db::scheduler::throttle::Throttle;
use crate::db::scheduler::write_controller::WriteController;
use crate::db::versions::catalog::TreeCatalog;
use crate::db::versions::open_trees::OpenTrees;
use crate::db::versions::snapshots::Snapshots;
use crate::db::versions::tree::TreeParts;

/// State of an open store, shared by its handles, trees and workers.
pub struct DbInner {
    /// Access to files, clock and threads.
    pub env: Arc<dyn Env>,
    /// Options as given at open.
    pub options: DbOptions,
    /// Whether the store takes calls.
    pub gate: CloseGate,
    /// Log, sequence numbers, group commit.
    pub commit: CommitPipeline,
    /// Manifest, trees, tables, snapshots.
    pub versions: VersionSet,
    /// Background work: queue, workers, limits.
    pub scheduler: Scheduler,
    /// Memtable memory and block cache.
    pub memory: Arc<MemoryManager>,
    /// Counters, latencies, events.
    pub observer: Observer,
}

/// Log, sequence numbers and group commit of an open store.
pub struct CommitPipeline {
    /// The log and the sequence numbers.
    pub write: Mutex<WriteState, rank::Write>,
    /// Group commit; not there before the Db begins to write.
    pub syncer: OnceLock<Arc<Syncer>>,
    /// The number that the log's writer drew; not there before the Db begins to write.
    pub log_writer: OnceLock<u64>,
    /// The newest sequence number that may be read.
    pub visible: VisibleSeq,
    /// The end of the log that opening found, unless it was a clean one.
    pub torn: OnceLock<TornTail>,
}

/// Live files and trees of an open store.
pub struct VersionSet {
    /// The directory.
    pub dir: PathBuf,
    /// The store's id, which no edit changes: here without the catalogue's lock, which is held over
    /// syncs.
    pub store: u64,
    /// Opens tables.
    pub opener: Arc<TableOpener>,
    /// The manifest and what it says; `None` for a Db opened read-only.
    pub catalog: Mutex<TreeCatalog, rank::Catalog>,
    /// The trees.
    pub trees: RwLock<OpenTrees, rank::Trees>,
    /// Live snapshots.
    pub snapshots: Snapshots,
    /// Parts of the store that each tree refers to.
    pub tree_parts: TreeParts,
    /// Keeps other processes out.
    pub lock: Mutex<Option<Box<dyn FileLock>>, rank::Directory>,
}

/// Background work of an open store.
pub struct Scheduler {
    /// Back-pressure.
    pub pace: WriteController,
    /// How much compactions may do.
    pub throttle: Throttle,
    /// Work that waits for a worker.
    pub work: Arc<BackgroundQueue>,
    /// Threads that help with pieces of jobs.
    pub hands: Arc<SubcompactionSlots>,
    /// Itself, for threads that it starts: set when it may have some.
    pub me: OnceLock<Weak<DbInner>>,
}

/// Counters, latencies and events of an open store.
pub struct Observer {
    /// Sums of flushes and compactions.
    pub counters: Counters,
    /// Latencies.
    pub meters: Arc<Meters>,
    /// Readers and tasks that hold space.
    pub pins: Arc<Pins>,
    /// Event log and listener.
    pub events: Arc<Events>,
}

impl DbInner {
    /// An error in a child process made by `fork()`: the store is its parent's. Asked before locks
    /// are taken, which a thread of the parent may have held.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.env.is_forked() { Err(forked()) } else { Ok(()) }
    }

    /// A fresh file number. Numbers are handed out in memory; the manifest learns of them with the
    /// next edit.
    pub fn new_file(&self) -> u64 {
        self.versions.catalog.lock().take_file()
    }

    /// The number of the writer whose positions of the log count: before the Db begins to write it
    /// is that of the opening before. 0 in a new store.
    pub fn log_writer(&self) -> u64 {
        let before = || self.versions.catalog.lock().state().writers.last().map_or(0, |w| w.id);
        self.commit.log_writer.get().copied().unwrap_or_else(before)
    }

    /// The identity of a table that this Db is about to write.
    pub fn new_identity(&self) -> TableIdentity {
        TableIdentity { store: self.versions.store, unique: self.env.random() }
    }

    /// The newest sequence number that may be read.
    #[inline]
    pub fn read_point(&self) -> Seq {
        self.commit.visible.now()
    }

    /// Tells the workers that there may be something to do.
    pub fn signal_work(&self) {
        self.scheduler.work.signal();
        self.call_workers_to_flush();
    }

    /// Calls workers where a memtable waits for its flush. May be called under any lock.
    pub fn call_workers_to_flush(&self) {
        if !self.has_all_workers() && self.is_flush_due() {
            self.scheduler.work.call();
        }
    }

    /// Whether all workers are there that may be.
    pub fn has_all_workers(&self) -> bool {
        let n = self.options.background_threads as u32;
        self.options.read_only || self.scheduler.work.present().count_ones() == n
    }

    fn is_flush_due(&self) -> bool {
        let ids = self.scheduler.work.sealed();
        let trees = self.versions.trees.read();
        ids.iter().filter_map(|id| trees.by_id(*id)).any(|t| !t.view.load_full().sealed.is_empty())
    }
}

#[cold]
fn forked() -> Error {
    let words = "this process was made by fork(), and the store belongs to the one that opened it; open stores after the fork";
    Error::new(ErrorKind::ReadOnly, words)
}
