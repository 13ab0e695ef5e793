//! The order in which locks may be taken: the one list of it.
//!
//! Each [`Mutex`](super::lock::Mutex) and [`RwLock`](super::lock::RwLock) has a rank in its type.
//! Whoever holds a lock takes only locks of ranks that stand further below in the list; a lock that
//! names no rank is a [`Leaf`], under which none is taken. Debug builds check it at each lock,
//! whichever Db it is of, where `FIRN_CHECK_LOCKS` is set, as it is in this workspace. So the first
//! test that takes two locks the wrong way round fails, though nobody meets it from the other side.
//! Elsewhere nothing is checked: a user's hook may take the locks of another Db.
//!
//! To pin the epoch may let go of what others have replaced, and take the locks of frames, arenas
//! and dead tables for that, which are leaves: so nobody pins under a leaf, and the same builds
//! check that too.
//!
//! Who only *tries* a lock waits for nobody, and may try it in any order; what is taken under it
//! must stand below all the same.
//!
//! No lock is held over a sync of a file, except [`Catalog`] over the manifest's own, [`Flushing`]
//! over those of the tables it is held for, and those of an ingestion over that of the log.

/// The rank of a lock.
pub(crate) trait LockRank {
    /// Its place in the list.
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
        /// Their names, in order.
        #[cfg(all(debug_assertions, not(any(loom, interleave))))]
        pub(super) const NAMES: [&str; [$(Order::$name as usize),*].len()] = [$(stringify!($name)),*];
    };
}

ranks! {
    /// Of a Db that is being closed, as a whole.
    Closing,
    /// Snapshots are taken, or tables dropped with what they hold.
    Drops,
    /// A memtable of a tree becomes a table. Of several trees only in the order of their numbers,
    /// or by trying, or while nobody else can be there.
    Flushing,
    /// Which trees are behind with their merges, and the pace that follows from it.
    Pressed,
    /// The manifest and what it says.
    Catalog,
    /// The files of a tree, and whose job holds them.
    Files,
    /// The log and the sequence numbers.
    Write,
    /// What a transaction has read and written. What it has read is looked at again under it.
    Transaction,
    /// What is known of where a tree has nothing.
    EmptyRangeCache,
    /// The view of a tree is replaced.
    View,
    /// Live snapshots.
    Snapshots,
    /// The trees of a Db.
    Trees,
    /// Which trees have memtables that wait for their flush.
    Sealed,
    /// What writers are slowed for.
    Slowed,
    /// The threads of the workers.
    Threads,
    /// Signals between writers and workers.
    Generation,
    /// Why nothing may be written any more.
    Latched,
    /// The event log.
    Events,
    /// A range deletion is added to a memtable.
    Deletions,
    /// What of a Db's reads is recorded, and for whom.
    Recordings,
    /// Reads that were recorded for one of them.
    Recording,
    /// What a recorded walk has counted of one of its sources; which blocks are cached is asked
    /// under it.
    Counted,
    /// A file that is opened when it is read.
    OpenFile,
    /// Segments of the log that are not synced yet.
    Unsynced,
    /// The next segment of the log, which is made ready.
    Segment,
    /// What keeps other processes out of the directory.
    Directory,
    /// What a test lets fail.
    Faults,
    /// Everything under which no other lock is taken.
    Leaf,
}

/// Whether a thread may hold several locks of this rank.
#[cfg(all(debug_assertions, not(any(loom, interleave))))]
pub(super) fn may_be_several(order: usize) -> bool {
    order == Flushing::ORDER
}
