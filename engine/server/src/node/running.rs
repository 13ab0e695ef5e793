//! Requests running on workers, for `system_views.queries`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Longest stored text of a request, in characters.
const MAX_TEXT: usize = 1 << 10;

/// A request running on a worker.
#[derive(Clone, Debug)]
pub struct RunningRequest {
    /// Name of the thread.
    pub thread: String,
    /// Text of the request.
    pub text: String,
    /// Arrival time of the request, by [`firn_kv::Env::monotonic_nanos`].
    pub arrived: u64,
    /// Time at which the worker began.
    pub began: u64,
}

/// Requests running on workers. Cheap to clone; all clones share one list.
#[derive(Clone, Debug, Default)]
pub struct RunningRequests {
    next: Arc<AtomicU64>,
    all: Arc<Mutex<BTreeMap<u64, RunningRequest>>>,
}

/// Removes a request from the list when dropped.
#[derive(Debug)]
pub struct RunningGuard {
    of: RunningRequests,
    number: u64,
}

impl RunningRequests {
    /// Lists a request of this thread until the guard is dropped.
    pub fn enter(&self, text: &str, arrived: u64, began: u64) -> RunningGuard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let text = text.chars().take(MAX_TEXT).collect();
        self.all.lock().insert(number, RunningRequest { thread, text, arrived, began });
        RunningGuard { of: self.clone(), number }
    }

    /// Returns all requests in the order of their start.
    pub fn all(&self) -> Vec<RunningRequest> {
        self.all.lock().values().cloned().collect()
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.of.all.lock().remove(&self.number);
    }
}
