//! Manages recordings of read costs; reads report their cost here.
//!
//! Invariant: an unrecorded read loads one flag. While reads of other threads are recorded, it also
//! loads a flag of its own thread. It takes no lock.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::ThreadId;

use crate::env::Env;
use crate::util::sync::{Mutex, rank};

use crate::db::explain::cost::{ReadCost, RecordedReads};
use crate::db::explain::scan::ScanProfile;

/// Maximum number of reads that a recording stores.
pub const MAX_READS: usize = 10_000;

/// Read that is done, or scan in progress.
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

/// Reads that one recording has stored so far.
#[derive(Clone)]
pub struct RecordedList(Arc<Mutex<List, rank::Recording>>);

impl RecordedList {
    /// Returns the costs of the reads so far.
    pub fn report(&self) -> RecordedReads {
        let (reads, more) = {
            let list = self.0.lock();
            (list.reads.clone(), list.more)
        };
        let report = |noted| match noted {
            ProfiledRead::Done(cost) => cost,
            ProfiledRead::Walk(walked) => walked.report(),
        };
        RecordedReads { reads: reads.into_iter().map(report).collect(), more }
    }
}

/// List of reads, and the only thread whose reads it records; `None` for all threads.
type ActiveRecording = (Option<ThreadId>, RecordedList);

thread_local! {
    /// Number of recordings of this thread's reads, over all stores.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Scope of recording: no thread, some threads, or all threads.
const NOBODY: u8 = 0;

const SOME: u8 = 1;

const ALL: u8 = 2;

/// Registry of recordings, to which reads report their cost.
pub struct Recorder {
    /// An atomic of the standard library: a model checker need not explore its interleavings, which
    /// decide nothing.
    on: AtomicU8,
    lists: Mutex<Vec<ActiveRecording>, rank::Recordings>,
    env: Arc<dyn Env>,
}

debug_by!(Recorder, "Recorder", on);

impl Recorder {
    pub fn new(env: Arc<dyn Env>) -> Recorder {
        Recorder { on: AtomicU8::new(NOBODY), lists: Mutex::default(), env }
    }

    /// Returns the environment of the store, used as clock.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Begins to record the reads of all threads, or of one thread, which must be the caller's.
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

    /// Ends a recording that [`begin`](Recorder::begin) began.
    pub fn end(&self, thread: Option<ThreadId>, list: &RecordedList) {
        let mut lists = self.lists.lock();
        lists.retain(|(_, l)| !Arc::ptr_eq(&l.0, &list.0));
        self.mark(&lists);
        if thread.is_some() {
            OWN.set(OWN.get() - 1);
        }
    }

    /// Reports whether any recording includes this thread's reads.
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
        // The recording may belong to another store.
        OWN.get() > 0 && self.lists.lock().iter().any(|(thread, _)| *thread == Some(me))
    }

    fn mark(&self, lists: &[ActiveRecording]) {
        let of = |(thread, _): &ActiveRecording| if thread.is_some() { SOME } else { ALL };
        self.on.store(lists.iter().map(of).max().unwrap_or(NOBODY), Ordering::Relaxed);
    }

    pub fn note(&self, read: impl Fn() -> ProfiledRead) {
        let me = std::thread::current().id();
        for (_, list) in
            self.lists.lock().iter().filter(|(thread, _)| thread.is_none_or(|t| t == me))
        {
            let mut list = list.0.lock();
            if list.reads.len() < MAX_READS { list.reads.push(read()) } else { list.more += 1 }
        }
    }
}
