//! The requests that workers carry out now: what `system_views.queries` shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The longest text of a request that is kept, in characters.
const MOST_TEXT: usize = 1 << 10;

/// A request that a worker carries out.
#[derive(Clone, Debug)]
pub struct RunningRequest {
    /// The thread.
    pub thread: String,
    /// What it was asked.
    pub text: String,
    /// When the request came, by [`firn_kv::Env::monotonic_nanos`].
    pub came: u64,
    /// When the worker began.
    pub began: u64,
}

/// The requests that workers carry out now. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct RunningRequests {
    next: Arc<AtomicU64>,
    all: Arc<Mutex<BTreeMap<u64, RunningRequest>>>,
}

/// Takes a request from the list when it is dropped.
#[derive(Debug)]
pub struct RunningGuard {
    of: RunningRequests,
    number: u64,
}

impl RunningRequests {
    /// This thread carries out a request until what is given is dropped.
    pub fn enter(&self, text: &str, came: u64, began: u64) -> RunningGuard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let text = text.chars().take(MOST_TEXT).collect();
        self.all.lock().insert(number, RunningRequest { thread, text, came, began });
        RunningGuard { of: self.clone(), number }
    }

    /// All of them, those that were begun first before others.
    pub fn all(&self) -> Vec<RunningRequest> {
        self.all.lock().values().cloned().collect()
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.of.all.lock().remove(&self.number);
    }
}
