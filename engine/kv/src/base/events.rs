//! Events of a store ([`Event`]) and their receiver ([`Listener`]).

use std::fmt;
use std::path::PathBuf;

use crate::base::error::Error;
use crate::base::key::Seq;

/// An event of a store. Tables are identified by their numbers. Times are in microseconds and sizes
/// in bytes.
///
/// Every begin event has an end event. `FlushBegun` is followed by `FlushEnded` or `FlushFailed` of
/// the same tree before its next `FlushBegun`. `CompactionBegun` is followed by `CompactionEnded`
/// or `CompactionFailed` of the same tree and job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened.
    #[non_exhaustive]
    Opened {
        /// Id of the store.
        store: u64,
        /// Newest sequence number.
        seq: Seq,
        /// Log records that were replayed.
        records_replayed: u64,
        /// Number of immutable memtables that a tree may have before its writers wait.
        max_sealed: usize,
        /// Same as [`DbOptions::background_threads`](crate::DbOptions::background_threads).
        background_threads: usize,
    },
    /// The readable log ended before the end of its files, at a record cut off by a crash or at
    /// damage.
    #[non_exhaustive]
    LogEndedEarly {
        /// File in which the log ended.
        file: PathBuf,
        /// Offset of the end in that file, in bytes.
        offset: u64,
        /// Reason why the log ended.
        reason: String,
        /// Bytes after that offset.
        bytes_beyond: u64,
        /// Valid records after that offset.
        records_beyond: u64,
    },
    /// A tree was created.
    #[non_exhaustive]
    TreeCreated {
        /// Name of the tree.
        tree: String,
        /// Number of the tree.
        id: u32,
    },
    /// A tree was opened with these options, or its options were changed to these.
    #[non_exhaustive]
    TreeOpened {
        /// Name of the tree.
        tree: String,
        /// Options of the tree from now on.
        options: Box<crate::base::options::TreeOptions>,
    },
    /// A tree was dropped.
    #[non_exhaustive]
    TreeDropped {
        /// Name of the tree.
        tree: String,
        /// Number of the tree.
        id: u32,
    },
    /// A flush began to write a memtable to tables.
    #[non_exhaustive]
    FlushBegun {
        /// Name of the tree.
        tree: String,
        /// Memory of the memtable in bytes.
        memory: u64,
    },
    /// A flush ended: the memtable is in tables.
    #[non_exhaustive]
    FlushEnded {
        /// Name of the tree.
        tree: String,
        /// Entries written.
        entries: u64,
        /// Versions of keys that the memtable had received. The excess over `entries` was
        /// overwritten or covered before it reached a table.
        versions: u64,
        /// Tombstones among the entries written.
        deletes: u64,
        /// Bytes of the tables.
        bytes_out: u64,
        /// Bytes of the keys and values in the tables.
        raw_bytes: u64,
        /// Numbers of the tables.
        tables: Vec<u64>,
        /// First 8 bytes of the first and of the last key of the flush, as numbers.
        heads: Vec<u64>,
        /// Log position up to which the tree is now in tables.
        flushed: u64,
        /// Log position below which no tree needs the log any more.
        log_floor: u64,
        /// Memory that the memtable used, in bytes.
        memory: u64,
        /// Duration of the flush.
        micros: u64,
        /// Time that the memtable waited before its flush.
        waited_micros: u64,
        /// Time that writers have slept since the store was opened because of slowdowns.
        slowdown_micros: u64,
        /// Time that writers have waited for a memtable since the store was opened.
        stalled_micros: u64,
        /// Number of subcompactions of the flush, run by one thread or several in parallel. 0 if
        /// there was nothing to write.
        subcompactions: usize,
        /// Runs of the tree after the flush.
        runs: usize,
        /// Bytes of the tree's tables after the flush.
        bytes: u64,
    },
    /// A flush failed. The memtable remains, and the flush is retried unless the store is now
    /// read-only.
    #[non_exhaustive]
    FlushFailed {
        /// Name of the tree.
        tree: String,
        /// Cause of the failure.
        error: Error,
    },
    /// A compaction began.
    #[non_exhaustive]
    CompactionBegun {
        /// Name of the tree.
        tree: String,
        /// Description of the job.
        job: String,
        /// Reason why the policy picked the job.
        reason: &'static str,
        /// Numbers of the input tables.
        inputs: Vec<u64>,
        /// Bytes of the input tables.
        bytes_in: u64,
        /// Output level.
        level: u8,
    },
    /// A compaction ended: its outputs have replaced its inputs.
    #[non_exhaustive]
    CompactionEnded {
        /// Name of the tree.
        tree: String,
        /// Description of the job.
        job: String,
        /// Reason why the policy picked the job.
        reason: &'static str,
        /// Bytes of the tables that were read; 0 if tables were only moved or dropped.
        bytes_in: u64,
        /// Bytes of the tables that were written.
        bytes_out: u64,
        /// Blocks that were copied without decoding.
        blocks_copied: u64,
        /// Entries read.
        entries_in: u64,
        /// Entries written.
        entries_out: u64,
        /// Output level.
        level: u8,
        /// Numbers of the input tables.
        removed: Vec<u64>,
        /// Numbers of the tables that were written or moved.
        tables: Vec<u64>,
        /// Number of subcompactions, run by one thread or several in parallel. 0 if tables were
        /// only moved or dropped.
        subcompactions: usize,
        /// Duration of the compaction.
        micros: u64,
        /// Runs of the tree after the compaction.
        runs: usize,
        /// Bytes of the tree's tables after the compaction.
        bytes: u64,
    },
    /// A compaction failed. Its input tables are unchanged.
    #[non_exhaustive]
    CompactionFailed {
        /// Name of the tree.
        tree: String,
        /// Description of the job.
        job: String,
        /// Cause of the failure.
        error: Error,
    },
    /// A slowdown of writers began. The event comes once, not for each write, and whether or not
    /// there are writes. A `SlowdownEnded` with the same tree and reason reports the end, at the
    /// latest when the tree is dropped or the store is closed.
    #[non_exhaustive]
    SlowdownBegun {
        /// Tree that causes the slowdown. A slowdown by accumulated runs slows the writers of all
        /// trees; this is the first tree that had too many. A slowdown by a flush slows only the
        /// writers of this tree.
        tree: String,
        /// Work that is late.
        reason: &'static str,
    },
    /// Writers are no longer slowed down for this reason.
    #[non_exhaustive]
    SlowdownEnded {
        /// Tree that `SlowdownBegun` named.
        tree: String,
        /// Work that was late.
        reason: &'static str,
        /// Duration of the slowdown.
        micros: u64,
        /// Time that writers slept during the slowdown, all threads together.
        slept_micros: u64,
    },
    /// A write stall began: a writer waits for a memtable.
    #[non_exhaustive]
    StallBegun {
        /// Tree of the write.
        tree: String,
        /// Resource that the writer waits for.
        reason: String,
    },
    /// A write stall ended.
    #[non_exhaustive]
    StallEnded {
        /// Tree of the write.
        tree: String,
        /// Resource that the writer waited for.
        reason: String,
        /// Duration of the wait.
        micros: u64,
    },
    /// Tables were ingested into a tree.
    #[non_exhaustive]
    Ingested {
        /// Name of the tree.
        tree: String,
        /// Sequence number of the entries in the tables.
        seq: Seq,
        /// Numbers of the tables.
        tables: Vec<u64>,
    },
    /// Tables were dropped, because all of their keys were deleted.
    #[non_exhaustive]
    TablesDropped {
        /// Name of the tree.
        tree: String,
        /// Numbers of the dropped tables.
        removed: Vec<u64>,
    },
    /// A checkpoint was created.
    #[non_exhaustive]
    CheckpointMade {
        /// Directory of the checkpoint.
        dir: PathBuf,
    },
    /// A custom policy failed. The stored policies of its trees decide from now on.
    #[non_exhaustive]
    PolicyFailed {
        /// Tree for which it failed.
        tree: String,
        /// Name of the policy.
        policy: String,
        /// Reason of the failure.
        reason: String,
    },
    /// Background work lacked disk space, file descriptors or memory. The store retries it by
    /// itself.
    #[non_exhaustive]
    Postponed {
        /// Error that describes the missing resource.
        error: Error,
    },
    /// An unrecoverable failure occurred. The store accepts no writes from now on.
    #[non_exhaustive]
    BecameReadOnly {
        /// Cause of the failure.
        error: Error,
    },
    /// The listener was too slow, and events before the next one were discarded.
    #[non_exhaustive]
    Missed {
        /// Number of discarded events.
        events: u64,
    },
}

/// Receiver of the events of a store ([`DbOptions::listener`](crate::DbOptions::listener)).
///
/// A thread of its own, `firn-listener`, calls it soon after each event. Calls are sequential, in
/// the order of the events. The thread holds no lock of the engine: the listener may use the store
/// in every way, and no part of the store waits for it. While the listener is busy, up to
/// [`MOST_WAITING`] events wait for it. The engine discards further events and reports their number
/// ([`Event::Missed`]).
///
/// A panic of the listener is caught; the next event is delivered as usual. Closing a store
/// delivers all pending events and waits for that. A listener that holds a handle of its store
/// prevents the store from closing. On systems without threads (`wasm32-wasip1`) a store with a
/// listener cannot be opened.
///
/// ```
/// use std::sync::Arc;
/// use firn_kv::{Db, DbOptions, Event};
/// let listener = |event: &Event| {
///     if let Event::StallEnded { tree, micros, .. } = event {
///         eprintln!("a writer of {tree} waited for {micros} us");
///     }
/// };
/// let options = DbOptions { listener: Some(Arc::new(listener)), ..DbOptions::default() };
/// # let dir = std::env::temp_dir().join(format!("firn-doc-listener-{}", std::process::id()));
/// let db = Db::open_with(&dir, options)?;
/// # drop(db); std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_kv::Error>(())
/// ```
pub trait Listener: Send + Sync + 'static {
    /// Receives one event.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}

/// Maximum number of events that wait for a busy [`Listener`].
pub const MOST_WAITING: usize = 4096;

impl<F: Fn(&Event) + Send + Sync + 'static> Listener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

impl fmt::Debug for dyn Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}
