//! What reads cost, and why: a recording of every get and every cursor, made by the read itself
//! while it is under way.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("firn-doc-explain-{}", std::process::id()));
//! use firn_kv::{Db, TreeOptions};
//! let db = Db::open(&dir)?;
//! let tree = db.tree("t", TreeOptions::default())?;
//! tree.put(b"apple", b"red")?;
//! tree.flush()?;
//! let recording = db.record_reads();
//! tree.get(b"apple")?;
//! let recorded = recording.finish();
//! assert_eq!(recorded.reads[0].total().blocks.len(), 1);
//! # drop((tree, db)); std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), firn_kv::Error>(())
//! ```
//!
//! [`Db::record_reads`](super::Db::record_reads) records the reads of all threads,
//! [`Db::with_context`](super::Db::with_context) those that one thread does within a closure. Both
//! are the same recording.
//!
//! Invariants:
//! - A recorded read gives what it would have given: a cursor is the same
//!   [`Visible`](crate::merge::visible::Visible), over sources that count; a get asks the same
//!   sources in the same order, and ends where a get ends.
//! - A read that nobody records asks one flag, once for a get or a cursor; while other threads'
//!   reads are recorded, one of its own thread more. It takes no lock.
//! - What is kept is bounded: of more than [`MOST_READS`] reads the others are only counted.

mod context;
mod get;
mod walk;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::ThreadId;

use crate::base::sync::{Mutex, rank};
use crate::env::Env;

use super::meters::Meters;

pub(super) use get::{get, get_in};
pub(super) use walk::visible;

pub use context::{ReadContext, ReadSum};

pub use crate::merge::cost::{
    BlockRead, Entries, FilterAnswer, Origin, Skipped, SourceCost, VersionPlace,
};

/// So many reads a recording keeps.
pub const MOST_READS: usize = 10_000;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOf {
    /// The value of a key.
    Key(Vec<u8>),
    /// By a cursor or an iterator, as far as it was walked: keys of a range.
    Range {
        /// The first key of the range.
        from: Vec<u8>,
        /// The first key after it; `None` for no end.
        until: Option<Vec<u8>>,
    },
}

/// What one read cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadCost {
    /// The tree that was read.
    pub tree: String,
    /// What of it.
    pub of: ReadOf,
    /// How many keys the reader was shown.
    pub found: u64,
    /// All that could have been looked at, newest first, and what was done with it.
    pub sources: Vec<SourceCost>,
    /// How long it took, in nanoseconds, counting included; of a cursor only the time that it spent
    /// in its sources.
    pub nanos: u64,
}

impl ReadCost {
    /// The sum over all sources.
    pub fn total(&self) -> SourceCost {
        let mut all = SourceCost::default();
        self.sources.iter().for_each(|s| all.add(s));
        all
    }

    /// How many memtables and runs were searched.
    pub fn searched(&self) -> usize {
        self.sources.iter().filter(|s| s.skipped.is_none()).count()
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// The reads in the order in which they began, up to [`MOST_READS`].
    pub reads: Vec<ReadCost>,
    /// How many more there were.
    pub more: u64,
}

/// A read whose cost is known, or is being found out.
#[derive(Clone)]
enum NotedRead {
    Done(ReadCost),
    Walk(walk::WalkedSteps),
}

#[derive(Default)]
struct List {
    reads: Vec<NotedRead>,
    more: u64,
}

/// A list, and the thread whose reads it is of; `None` for those of all.
type KeptRecord = (Option<ThreadId>, Arc<Mutex<List, rank::Recording>>);

thread_local! {
    /// How many recordings there are of this thread's reads, of all stores.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// A recording under way: see [`Db::record_reads`](super::Db::record_reads). It ends when it goes.
pub struct Recording {
    meters: Arc<Meters>,
    list: Arc<Mutex<List, rank::Recording>>,
    /// The only thread whose reads are recorded.
    thread: Option<ThreadId>,
}

debug_by!(Recording, "Recording", thread);

impl Recording {
    pub(super) fn begin(meters: Arc<Meters>) -> Recording {
        Recording::of(meters, None)
    }

    /// Of the reads of this thread, which ends it, too.
    fn of_this_thread(meters: Arc<Meters>) -> Recording {
        OWN.set(OWN.get() + 1);
        Recording::of(meters, Some(std::thread::current().id()))
    }

    fn of(meters: Arc<Meters>, thread: Option<ThreadId>) -> Recording {
        let list = Arc::default();
        let mut lists = meters.recorder.lists.lock();
        lists.push((thread, Arc::clone(&list)));
        meters.recorder.mark(&lists);
        drop(lists);
        Recording { meters, list, thread }
    }

    /// Ends it: what was recorded. Of a cursor that still lives what it has cost so far.
    pub fn finish(self) -> Recorded {
        self.so_far()
    }

    /// What was recorded until now.
    pub fn so_far(&self) -> Recorded {
        let (reads, more) = {
            let list = self.list.lock();
            (list.reads.clone(), list.more)
        };
        let told = |noted| match noted {
            NotedRead::Done(cost) => cost,
            NotedRead::Walk(walked) => walked.told(),
        };
        Recorded { reads: reads.into_iter().map(told).collect(), more }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let recorder = &self.meters.recorder;
        let mut lists = recorder.lists.lock();
        lists.retain(|(_, l)| !Arc::ptr_eq(l, &self.list));
        recorder.mark(&lists);
        if self.thread.is_some() {
            OWN.set(OWN.get() - 1);
        }
    }
}

/// Whose reads are recorded: nobody's, those of some threads, everybody's.
const NOBODY: u8 = 0;
const SOME: u8 = 1;
const ALL: u8 = 2;

/// Where reads tell their cost.
pub struct Recorder {
    /// Of the standard library, so that schedules and models do not grow by a choice that decides
    /// nothing.
    on: AtomicU8,
    lists: Mutex<Vec<KeptRecord>, rank::Recordings>,
    env: Arc<dyn Env>,
}

debug_by!(Recorder, "Recorder", on);

impl Recorder {
    pub(super) fn new(env: Arc<dyn Env>) -> Recorder {
        Recorder { on: AtomicU8::new(NOBODY), lists: Mutex::default(), env }
    }

    /// Whether anybody records what this thread reads.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed) != NOBODY && self.concerns_me()
    }

    #[cold]
    fn concerns_me(&self) -> bool {
        if self.on.load(Ordering::Relaxed) == ALL {
            return true;
        }
        let me = std::thread::current().id();
        // It may be one of another store.
        OWN.get() > 0 && self.lists.lock().iter().any(|(thread, _)| *thread == Some(me))
    }

    fn mark(&self, lists: &[KeptRecord]) {
        let of = |(thread, _): &KeptRecord| if thread.is_some() { SOME } else { ALL };
        self.on.store(lists.iter().map(of).max().unwrap_or(NOBODY), Ordering::Relaxed);
    }

    fn note(&self, read: impl Fn() -> NotedRead) {
        let me = std::thread::current().id();
        for (_, list) in
            self.lists.lock().iter().filter(|(thread, _)| thread.is_none_or(|t| t == me))
        {
            let mut list = list.lock();
            if list.reads.len() < MOST_READS { list.reads.push(read()) } else { list.more += 1 }
        }
    }
}
