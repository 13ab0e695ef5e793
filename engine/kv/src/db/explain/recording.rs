//! A recording under way.

use std::sync::Arc;
use std::thread::ThreadId;

use super::super::state::meters::Meters;
use super::cost::Recorded;
use super::recorder::RecordedList;

/// A recording under way: see [`Db::record_reads`](crate::Db::record_reads). It ends when it goes.
pub struct Recording {
    meters: Arc<Meters>,
    list: RecordedList,
    /// The only thread whose reads are recorded.
    thread: Option<ThreadId>,
}

debug_by!(Recording, "Recording", thread);

impl Recording {
    /// Of the reads of all threads.
    pub(in crate::db) fn begin(meters: Arc<Meters>) -> Recording {
        Recording::of(meters, None)
    }

    /// Of the reads of this thread, which ends it, too.
    pub(super) fn of_this_thread(meters: Arc<Meters>) -> Recording {
        Recording::of(meters, Some(std::thread::current().id()))
    }

    fn of(meters: Arc<Meters>, thread: Option<ThreadId>) -> Recording {
        let list = meters.recorder.begin(thread);
        Recording { meters, list, thread }
    }

    /// Ends it: what was recorded. Of a cursor that still lives what it has cost so far.
    pub fn finish(self) -> Recorded {
        self.so_far()
    }

    /// What was recorded until now.
    pub fn so_far(&self) -> Recorded {
        self.list.told()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.meters.recorder.end(self.thread, &self.list);
    }
}
