//! The events of a store, and who is told of them: [`Event`] and [`Listener`].

use std::fmt;
use std::path::PathBuf;

use super::error::Error;
use super::key::Seq;

/// Something that happened in a store. Tables are named by their numbers, times are in
/// microseconds, sizes in bytes.
///
/// What begins ends, well or badly: each `FlushBegun` is followed by `FlushEnded` or `FlushFailed`
/// of the same tree before its next one, and each `CompactionBegun` by `CompactionEnded` or
/// `CompactionFailed` of the same tree and job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store has been opened.
    #[non_exhaustive]
    Opened {
        /// The store's id.
        store: u64,
        /// The newest sequence number.
        seq: Seq,
        /// Records of the log that were read again.
        records_replayed: u64,
        /// How many memtables of a tree may wait for their flush before its writers wait too.
        max_sealed: usize,
        /// As in [`DbOptions::background_threads`](crate::DbOptions::background_threads).
        background_threads: usize,
    },
    /// The log ended before its files do: in a record that a crash has cut off, or at damage.
    #[non_exhaustive]
    LogEndedEarly {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// Why.
        reason: String,
        /// Bytes behind that place.
        bytes_beyond: u64,
        /// Sound records behind it.
        records_beyond: u64,
    },
    /// A tree has been created.
    #[non_exhaustive]
    TreeCreated {
        /// Its name.
        tree: String,
        /// Its number.
        id: u32,
    },
    /// A tree has been opened with these options, or they have been set: it has them from now on.
    #[non_exhaustive]
    TreeOpened {
        /// Its name.
        tree: String,
        /// Its options.
        options: Box<crate::base::options::TreeOptions>,
    },
    /// A tree has been dropped.
    #[non_exhaustive]
    TreeDropped {
        /// Its name.
        tree: String,
        /// Its number.
        id: u32,
    },
    /// A memtable begins to be written to tables.
    #[non_exhaustive]
    FlushBegun {
        /// The tree.
        tree: String,
        /// Bytes that the memtable has in memory.
        memory: u64,
    },
    /// A memtable is in tables.
    #[non_exhaustive]
    FlushEnded {
        /// The tree.
        tree: String,
        /// Entries written.
        entries: u64,
        /// Versions of keys that the memtable had taken in: what they are more than `entries` was
        /// overwritten or covered before it got to a table.
        versions: u64,
        /// Deletes among the entries written.
        deletes: u64,
        /// Bytes of the tables.
        bytes_out: u64,
        /// Bytes of their keys and values.
        raw_bytes: u64,
        /// The tables.
        tables: Vec<u64>,
        /// The first 8 bytes of the first and of the last key, as numbers.
        heads: Vec<u64>,
        /// The place in the log up to which the tree is in tables now.
        flushed: u64,
        /// The place in the log below which no tree needs it any more.
        log_floor: u64,
        /// Bytes that the memtable had in memory.
        memory: u64,
        /// How long it took.
        micros: u64,
        /// How long the memtable had waited for it.
        waited_micros: u64,
        /// How long writers have slept since the opening because compactions were behind.
        paced_micros: u64,
        /// How long writers have waited since the opening for a memtable.
        stalled_micros: u64,
        /// In how many pieces it was written, by one thread or several side by side; 0 where there
        /// was nothing to write.
        pieces: usize,
        /// Runs that the tree then has, and the bytes of its tables.
        runs: usize,
        /// See `runs`.
        bytes: u64,
    },
    /// A memtable could not be written: it is still there, and is tried again unless the store is
    /// read-only now.
    #[non_exhaustive]
    FlushFailed {
        /// The tree.
        tree: String,
        /// Why.
        error: Error,
    },
    /// A compaction begins.
    #[non_exhaustive]
    CompactionBegun {
        /// The tree.
        tree: String,
        /// The job in words.
        job: String,
        /// Why the policy wants it.
        reason: &'static str,
        /// The tables that it takes.
        inputs: Vec<u64>,
        /// Their bytes.
        bytes_in: u64,
        /// The level of what it makes.
        level: u8,
    },
    /// A compaction is done: its inputs are gone, and what it made is there.
    #[non_exhaustive]
    CompactionEnded {
        /// The tree.
        tree: String,
        /// The job in words.
        job: String,
        /// Why the policy wanted it.
        reason: &'static str,
        /// Bytes of the tables that were read: none when they were only moved or dropped.
        bytes_in: u64,
        /// Bytes of the tables that were written.
        bytes_out: u64,
        /// Blocks that went over as they were.
        blocks_copied: u64,
        /// Entries read.
        entries_in: u64,
        /// Entries written.
        entries_out: u64,
        /// The level of what it made.
        level: u8,
        /// The tables that it took.
        removed: Vec<u64>,
        /// The tables that it made or moved.
        tables: Vec<u64>,
        /// In how many pieces it was written, by one thread or several side by side; 0 where tables
        /// were only moved or dropped.
        pieces: usize,
        /// How long it took.
        micros: u64,
        /// Runs that the tree then has, and the bytes of its tables.
        runs: usize,
        /// See `runs`.
        bytes: u64,
    },
    /// A compaction was not carried out; what it took is as it was.
    #[non_exhaustive]
    CompactionFailed {
        /// The tree.
        tree: String,
        /// The job in words.
        job: String,
        /// Why.
        error: Error,
    },
    /// Writers are slowed down from now on: told once, not for each write, and whether or not
    /// anybody writes. The end of it is told as `PacingEnded` with the same tree and reason, at the
    /// latest when the tree is dropped or the store is closed.
    #[non_exhaustive]
    PacingBegun {
        /// The tree that is behind. By runs that pile up writers of all trees are slowed, and this
        /// is the first tree that had too many; by a flush those of this tree alone.
        tree: String,
        /// What is behind.
        reason: &'static str,
    },
    /// Writers are not slowed down any more for this reason.
    #[non_exhaustive]
    PacingEnded {
        /// The tree that `PacingBegun` named.
        tree: String,
        /// What was behind.
        reason: &'static str,
        /// How long it was.
        micros: u64,
        /// How long writers, all threads together, have slept meanwhile.
        slept_micros: u64,
    },
    /// A writer waits for a memtable.
    #[non_exhaustive]
    StallBegun {
        /// The tree that it writes to.
        tree: String,
        /// What it lacks.
        reason: String,
    },
    /// A writer has waited for a memtable.
    #[non_exhaustive]
    StallEnded {
        /// The tree that it writes to.
        tree: String,
        /// What it lacked.
        reason: String,
        /// How long it waited.
        micros: u64,
    },
    /// Tables have been loaded into a tree.
    #[non_exhaustive]
    Ingested {
        /// The tree.
        tree: String,
        /// The sequence number of what is in them.
        seq: Seq,
        /// The tables.
        tables: Vec<u64>,
    },
    /// Tables have been dropped, because all of their keys were deleted.
    #[non_exhaustive]
    TablesDropped {
        /// The tree.
        tree: String,
        /// The tables.
        removed: Vec<u64>,
    },
    /// A checkpoint has been made.
    #[non_exhaustive]
    CheckpointMade {
        /// Where.
        dir: PathBuf,
    },
    /// Background work lacked space, file descriptors or memory. It is tried again by itself.
    #[non_exhaustive]
    PutOff {
        /// What it lacked.
        error: Error,
    },
    /// Something failed that cannot be made good: the store takes no writes from now on.
    #[non_exhaustive]
    Latched {
        /// The cause.
        error: Error,
    },
    /// The listener was too slow: so many events before the next one were not kept for it.
    #[non_exhaustive]
    Missed {
        /// How many.
        events: u64,
    },
}

/// Is told what happens in a store ([`DbOptions::listener`](crate::DbOptions::listener)).
///
/// It is called by a thread of its own, `firn-listener`, one event after the other in the order in
/// which they happened, soon after. No lock of the engine is held: it may use the store in every
/// way, and nothing in the store waits for it. While it is busy, up to [`MOST_WAITING`] events wait
/// for it; of more it is told how many it has missed ([`Event::Missed`]).
///
/// What it panics with is caught: it is called again with the next event. Closing a store delivers
/// what has happened and waits for that. A listener that holds a handle of its store keeps it open.
/// Where there are no threads (`wasm32-wasip1`) a store with a listener can't be opened.
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
    /// Something has happened.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}

/// So many events wait for a [`Listener`] that is busy.
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
