//! State of the threads of a cycle.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_kv::{Db, Env, Error, ErrorKind, Snapshot, Tree};

use super::check::KnownState;
use super::error::Checked;
use super::expected::{ExpectedKeys, Shard};
use super::journal::TortureJournal;
use super::layout::LayoutVersion;
use super::served::{Served, UnreadConnection};
use super::steps::StepSpace;
use super::tables::Tables;

/// State shared by the threads of a cycle.
pub struct SharedWork {
    /// The store.
    pub db: Db,
    /// The part of it with known content.
    pub known: KnownState,
    /// The accounts.
    pub bank: Tree,
    /// Parameters from which steps are drawn.
    pub space: StepSpace,
    /// Stops all threads.
    pub stop: AtomicBool,
    /// Set before the store is closed while the threads work.
    pub closing: AtomicBool,
    /// Server over the store, if the cycle has one.
    pub served: Option<Served>,
    /// Whether disk failures are injected, so that calls may fail.
    pub failing: bool,
    /// Number of begun drops of each temporary tree.
    pub drops: [AtomicU64; 2],
    /// Directory of the run, for files of the threads.
    pub dir: PathBuf,
    /// Environment of the store.
    pub env: Arc<dyn Env>,
}

/// A thread of the cycle.
pub struct TortureWorker {
    pub(super) shared: Arc<SharedWork>,
    pub(super) thread: u64,
    pub(super) journal: TortureJournal,
    /// Expected content of the shards of this thread.
    pub(super) shards: BTreeMap<u32, Shard>,
    pub(super) held: Vec<HeldSnapshot>,
    /// The tables over the thread's own connection, if the cycle has a server.
    pub(super) connected: Option<Arc<Tables>>,
    pub(super) visitors: Vec<UnreadConnection>,
}

/// A snapshot, and the content of one shard of one tree when it was taken.
pub(super) struct HeldSnapshot {
    pub snapshot: Snapshot,
    pub tree: usize,
    pub shard: u32,
    pub keys: ExpectedKeys,
    /// Step at which it is compared.
    pub until: u64,
}

impl SharedWork {
    /// Returns the trees whose content is known.
    pub fn trees(&self) -> &[Tree] {
        &self.known.trees
    }

    /// Returns the tables over a new connection to the server, if there is one.
    pub fn connect(&self) -> Checked<Option<Arc<Tables>>> {
        let Some(served) = &self.served else { return Ok(None) };
        Ok(Some(Arc::new(Tables::over(served.client()?))))
    }

    /// Reports whether an error is due to the planned close of the store.
    pub fn is_closed(&self, e: &Error) -> bool {
        e.kind() == ErrorKind::Closed && self.closing.load(Ordering::SeqCst)
    }
}

impl TortureWorker {
    /// Creates a thread that writes these shards.
    pub fn new(
        shared: Arc<SharedWork>,
        thread: u64,
        journal: TortureJournal,
        shards: BTreeMap<u32, Shard>,
    ) -> Checked<TortureWorker> {
        let (held, connected, visitors) = (vec![], shared.connect()?, vec![]);
        Ok(TortureWorker { shared, thread, journal, shards, held, connected, visitors })
    }

    /// Returns the version that a step of this number writes.
    pub fn at(&self, step: u64) -> LayoutVersion {
        LayoutVersion::new(self.shared.space.cycle, self.thread, step)
    }

    /// Returns the expected keys of a shard of this thread.
    pub fn keys(&self, tree: usize, shard: u32) -> &ExpectedKeys {
        &self.shards[&shard][tree]
    }
}
