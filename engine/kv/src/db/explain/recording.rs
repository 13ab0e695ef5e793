//! A recording in progress.

use std::sync::Arc;
use std::thread::ThreadId;

use crate::db::explain::cost::RecordedReads;
use crate::db::explain::recorder::RecordedList;
use crate::db::observe::meters::Meters;

/// Recording in progress; see [`Db::record_reads`](crate::Db::record_reads). It ends when it is
/// dropped.
pub struct Recording {
    meters: Arc<Meters>,
    list: RecordedList,
    /// The only thread whose reads are recorded; `None` for all threads.
    thread: Option<ThreadId>,
}

debug_by!(Recording, "Recording", thread);

impl Recording {
    /// Begins to record the reads of all threads.
    pub(in crate::db) fn begin(meters: Arc<Meters>) -> Recording {
        Recording::of(meters, None)
    }

    /// Begins to record the reads of this thread, which must also end the recording.
    pub(super) fn of_this_thread(meters: Arc<Meters>) -> Recording {
        Recording::of(meters, Some(std::thread::current().id()))
    }

    fn of(meters: Arc<Meters>, thread: Option<ThreadId>) -> Recording {
        let list = meters.recorder.begin(thread);
        Recording { meters, list, thread }
    }

    /// Ends the recording and returns its result. A cursor that is still open has its cost so far.
    pub fn finish(self) -> RecordedReads {
        self.so_far()
    }

    /// Returns the reads recorded so far.
    pub fn so_far(&self) -> RecordedReads {
        self.list.report()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.meters.recorder.end(self.thread, &self.list);
    }
}
