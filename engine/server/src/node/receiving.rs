//! Receive budget: bounds the bytes of partly received requests, regardless of their clients.
//!
//! Invariants: all large requests together take at most the budget plus, for each connection, the
//! bytes of one read. The oldest of them may always continue, so one always completes. A large
//! request that stops arriving is cut off, so it does not stay the oldest forever.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use parking_lot::{Condvar, Mutex};

/// Bytes of a partial request that every connection may have.
const SMALL_REQUEST: usize = 64 << 10;
/// Bytes of a large request that must arrive within the patience.
const MIN_PROGRESS: usize = 64 << 10;
/// Time limit for the next bytes of a request that was paused: they have arrived in the socket
/// meanwhile.
const RESUME_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct ReceiveState {
    next: u64,
    /// Bytes of each large request, oldest first.
    all: BTreeMap<u64, usize>,
    total: usize,
}

#[derive(Debug)]
struct ReceiveRoom {
    most: usize,
    state: Mutex<ReceiveState>,
    left: Condvar,
}

/// Bytes of all large requests that have partly arrived. Cheap to clone; all clones share one
/// budget.
#[derive(Clone, Debug)]
pub struct ReceiveBudget(Arc<ReceiveRoom>);

/// A large request being received, until dropped.
#[derive(Debug)]
struct LargeRequest {
    of: ReceiveBudget,
    number: u64,
}

impl ReceiveBudget {
    /// Creates a budget of this many bytes.
    pub fn new(most: usize) -> ReceiveBudget {
        let (state, left) = (Mutex::default(), Condvar::new());
        ReceiveBudget(Arc::new(ReceiveRoom { most, state, left }))
    }

    /// Returns the bytes received so far.
    pub fn held(&self) -> usize {
        self.0.state.lock().total
    }

    fn enter(&self) -> LargeRequest {
        let mut state = self.0.state.lock();
        let number = state.next;
        state.next += 1;
        state.all.insert(number, 0);
        LargeRequest { of: self.clone(), number }
    }
}

impl LargeRequest {
    /// Notes the bytes received so far. Returns when more may be read, and whether it had to wait.
    fn hold(&self, bytes: usize) -> bool {
        let room = &self.of.0;
        let mut state = room.state.lock();
        let before = state.all.insert(self.number, bytes).unwrap_or_default();
        state.total = state.total - before + bytes;
        let mut has_waited = false;
        while state.total > room.most
            && state.all.first_key_value().is_some_and(|(first, _)| *first != self.number)
        {
            room.left.wait(&mut state);
            has_waited = true;
        }
        has_waited
    }
}

impl Drop for LargeRequest {
    fn drop(&mut self) {
        let mut state = self.of.0.state.lock();
        state.total -= state.all.remove(&self.number).unwrap_or_default();
        self.of.0.left.notify_all();
    }
}

/// Receive state of a connection's partial request.
pub struct ReceiveProgress {
    env: Arc<dyn Env>,
    budget: ReceiveBudget,
    /// Maximum time without progress.
    patience: Duration,
    /// Time limit while no part of a request has arrived.
    idle: Option<Duration>,
    large: Option<LargeRequest>,
    /// Time at which the client last had enough progress, and the bytes at that time.
    mark: (u64, usize),
}

impl ReceiveProgress {
    /// Creates the state of a connection that has sent nothing. A large request with too little
    /// progress within `patience` is too slow; `idle` limits the wait for the next request.
    pub fn new(
        env: &Arc<dyn Env>,
        budget: &ReceiveBudget,
        patience: Duration,
        idle: Option<Duration>,
    ) -> ReceiveProgress {
        let (env, budget) = (env.clone(), budget.clone());
        ReceiveProgress { env, budget, patience, idle, large: None, mark: (0, 0) }
    }

    /// Notes the bytes of a partial request after a read. Waits while the bytes of all clients
    /// exceed the budget. Returns false if the client is too slow and must be disconnected.
    pub fn note(&mut self, held: usize, socket: &TcpStream) -> bool {
        // Setting the limit fails only for a connection that has ended.
        let limit = |time: Option<Duration>| drop(socket.set_read_timeout(time));
        if held <= SMALL_REQUEST {
            if self.large.take().is_some() {
                limit(self.idle);
            }
            return true;
        }
        let now = self.env.monotonic_nanos();
        let large = match &self.large {
            Some(large) => {
                if Duration::from_nanos(now.saturating_sub(self.mark.0)) >= self.patience {
                    if held < self.mark.1.saturating_add(MIN_PROGRESS) {
                        return false;
                    }
                    self.mark = (now, held);
                }
                large
            }
            None => {
                self.mark = (now, held);
                self.large.insert(self.budget.enter())
            }
        };
        if large.hold(held) {
            self.mark.0 = self.env.monotonic_nanos();
            limit(Some(RESUME_TIMEOUT.min(self.patience)));
        } else {
            limit(Some(self.patience));
        }
        true
    }
}
