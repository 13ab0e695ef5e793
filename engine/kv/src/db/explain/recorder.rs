//! Who records what reads cost, and where reads tell it.
//!
//! Invariant: a read that nobody records asks one flag; while other threads' reads are recorded,
//! one of its own thread more. It takes no lock.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::ThreadId;

use crate::base::sync::{Mutex, rank};
use crate::env::Env;

use super::cost::{ReadCost, Recorded};
use super::walked::ScanProfile;

/// So many reads a recording keeps.
pub const MOST_READS: usize = 10_000;

/// A read whose cost is known, or is being found out.
#[derive(Clone)]
pub enum ProfiledRead {
    Done(ReadCost),
    Walk(ScanProfile),
}

#[derive(Default)]
struct List {
    reads: Vec<ProfiledRead>,
    more: u64,
}

/// The reads that one recording has noted so far.
#[derive(Clone)]
pub struct RecordedList(Arc<Mutex<List, rank::Recording>>);

impl RecordedList {
    /// What they have cost.
    pub fn told(&self) -> Recorded {
        let (reads, more) = {
            let list = self.0.lock();
            (list.reads.clone(), list.more)
        };
        let told = |noted| match noted {
            ProfiledRead::Done(cost) => cost,
            ProfiledRead::Walk(walked) => walked.told(),
        };
        Recorded { reads: reads.into_iter().map(told).collect(), more }
    }
}

/// A list, and the thread whose reads it is of; `None` for those of all.
type KeptRecord = (Option<ThreadId>, RecordedList);

thread_local! {
    /// How many recordings there are of this thread's reads, of all stores.
    static OWN: Cell<usize> = const { Cell::new(0) };
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
    pub fn new(env: Arc<dyn Env>) -> Recorder {
        Recorder { on: AtomicU8::new(NOBODY), lists: Mutex::default(), env }
    }

    /// The clock of the store.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Begins to record reads: those of one thread, which must be the caller's, or of all.
    pub fn begin(&self, thread: Option<ThreadId>) -> RecordedList {
        if thread.is_some() {
            OWN.set(OWN.get() + 1);
        }
        let list = RecordedList(Arc::default());
        let mut lists = self.lists.lock();
        lists.push((thread, list.clone()));
        self.mark(&lists);
        list
    }

    /// Ends what [`begin`](Recorder::begin) began.
    pub fn end(&self, thread: Option<ThreadId>, list: &RecordedList) {
        let mut lists = self.lists.lock();
        lists.retain(|(_, l)| !Arc::ptr_eq(&l.0, &list.0));
        self.mark(&lists);
        if thread.is_some() {
            OWN.set(OWN.get() - 1);
        }
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

    pub fn note(&self, read: impl Fn() -> ProfiledRead) {
        let me = std::thread::current().id();
        for (_, list) in
            self.lists.lock().iter().filter(|(thread, _)| thread.is_none_or(|t| t == me))
        {
            let mut list = list.0.lock();
            if list.reads.len() < MOST_READS { list.reads.push(read()) } else { list.more += 1 }
        }
    }
}
