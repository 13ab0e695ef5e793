//! Lock ranks: the order in which a thread may take locks.
//!
//! Invariants:
//! - Each [`Mutex`](crate::util::lock::Mutex) and [`RwLock`](crate::util::lock::RwLock) has a rank
//!   in its type. A thread that holds a lock takes only locks whose rank comes later in the list. A
//!   lock without a rank is a [`Leaf`]; under a leaf no lock is taken.
//! - No thread pins the epoch under a leaf. Pinning may free replaced values, and that takes the
//!   locks of frames, arenas and dead tables, which are leaves.
//! - `try_lock` may be called in any order, because it does not wait. Locks taken under it must
//!   still come later in the list.
//! - No lock is held during a sync of a file, with these exceptions. [`Catalog`] is held during the
//!   sync of the manifest. [`Flushing`] is held during the sync of its own tables. The locks of an
//!   ingestion are held during the sync of the log. Dropping a tree holds the write lock during the
//!   syncs of log and manifest. A writer that finds no prepared segment holds it while it creates
//!   one and syncs the directory.
//!
//! Debug builds check the first three at each lock, across all Dbs, where `FIRN_CHECK_LOCKS` is
//! set, as it is in this workspace. So the first test that takes two locks in the wrong order
//! fails, even if no thread takes them in the opposite order. Elsewhere nothing is checked, because
//! a hook of a user may take the locks of another Db.

/// Rank of a lock.
pub(crate) trait LockRank {
    /// Position in the list.
    #[cfg(all(debug_assertions, not(any(loom, interleave))))]
    const ORDER: usize;
}

macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[cfg(all(debug_assertions, not(any(loom, interleave))))]
        enum Order { $($name),* }
        $($(#[$doc])* pub(crate) enum $name {}
        impl LockRank for $name {
            #[cfg(all(debug_assertions, not(any(loom, interleave))))]
            const ORDER: usize = Order::$name as usize;
        })*
        /// Names of the ranks, in order.
        #[cfg(all(debug_assertions, not(any(loom, interleave))))]
        pub(super) const NAMES: [&str; [$(Order::$name as usize),*].len()] = [$(stringify!($name)),*];
    };
}

ranks! {
    /// Closing of a whole Db.
    Closing,
    /// Creation of snapshots, and dropping of tables with their contents.
    Drops,
    /// Flush of a memtable of a tree. A thread takes several only in the order of the tree numbers,
    /// by `try_lock`, or while no other thread can take them.
    Flushing,
    /// Trees with late compactions, and the slowdown that follows.
    Pressed,
    /// Manifest and its state.
    Catalog,
    /// Files of a tree, and the job that owns each.
    Files,
    /// Write-ahead log and sequence numbers.
    Write,
    /// Read and write sets of a transaction. The reads are validated under it.
    Transaction,
    /// Empty-range cache of a tree.
    EmptyRangeCache,
    /// Replacement of the view of a tree.
    View,
    /// Live snapshots.
    Snapshots,
    /// Trees of a Db.
    Trees,
    /// Trees with immutable memtables that wait for their flush.
    Sealed,
    /// Current reason for a slowdown of writers.
    Slowed,
    /// Worker threads.
    Threads,
    /// Signals between writers and workers.
    Generation,
    /// Cause of a permanent write failure.
    FirstFailure,
    /// Event log.
    Events,
    /// Insertion of a range deletion into a memtable.
    Deletions,
    /// Active recordings of the reads of a Db.
    Recordings,
    /// Reads of one recording.
    Recording,
    /// Counts of one source of a recorded scan. The cache is queried for blocks under it.
    Counted,
    /// Table file that is opened on demand.
    OpenFile,
    /// Log segments that are not synced yet.
    Unsynced,
    /// Next log segment, which is prepared in advance.
    Segment,
    /// Lock of the directory against other processes.
    Directory,
    /// All locks under which no other lock is taken.
    Leaf,
}

/// Reports whether a thread may hold several locks of this rank.
#[cfg(all(debug_assertions, not(any(loom, interleave))))]
pub(super) fn may_be_several(order: usize) -> bool {
    order == Flushing::ORDER
}
