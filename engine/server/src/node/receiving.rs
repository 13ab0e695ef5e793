//! Requests of which a part is here: their bytes are bounded, whatever their clients do.
//!
//! Invariants: all large requests together take the budget and, of each connection, the bytes of
//! one read; the oldest of them may always go on, so that one comes to its end; a large request
//! whose bytes do not come is cut off, so that it is not the oldest for ever.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use parking_lot::{Condvar, Mutex};

/// The part of a request that every connection may have here.
const SMALL: usize = 64 << 10;
/// The bytes that must come of a large request while a client may stand still.
const LEAST: usize = 64 << 10;
/// How long the next bytes may take of a request that was not read for a while: they have come to
/// the connection meanwhile.
const AT_ONCE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct ReceiveState {
    next: u64,
    /// The bytes of each large request, the oldest first.
    all: BTreeMap<u64, usize>,
    total: usize,
}

#[derive(Debug)]
struct ReceiveRoom {
    most: usize,
    state: Mutex<ReceiveState>,
    left: Condvar,
}

/// The bytes of all large requests that are not here whole. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct ReceiveBudget(Arc<ReceiveRoom>);

/// A large request that comes, until it is dropped.
#[derive(Debug)]
struct LargeRequest {
    of: ReceiveBudget,
    number: u64,
}

impl ReceiveBudget {
    /// Of this many bytes.
    pub fn new(most: usize) -> ReceiveBudget {
        let (state, left) = (Mutex::default(), Condvar::new());
        ReceiveBudget(Arc::new(ReceiveRoom { most, state, left }))
    }

    /// The bytes that are here now.
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
    /// So many bytes are here. Returns when more may be read, and whether that took a while.
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

/// What a connection has received of a request that is not here whole.
pub struct RequestReceipt {
    env: Arc<dyn Env>,
    budget: ReceiveBudget,
    /// How long a client may stand still.
    patience: Duration,
    /// The limit of a connection that has sent no part of a request.
    idle: Option<Duration>,
    large: Option<LargeRequest>,
    /// When the client was last found to send enough, and how much was here then.
    mark: (u64, usize),
}

impl RequestReceipt {
    /// Of a connection that has sent nothing. A large request of which too little comes for
    /// `patience` is too slow; `idle` limits the wait for the next request.
    pub fn new(
        env: &Arc<dyn Env>,
        budget: &ReceiveBudget,
        patience: Duration,
        idle: Option<Duration>,
    ) -> RequestReceipt {
        let (env, budget) = (env.clone(), budget.clone());
        RequestReceipt { env, budget, patience, idle, large: None, mark: (0, 0) }
    }

    /// After a read: so many bytes are here of a request that is not whole. Waits while those of all
    /// clients are too many. False: the client sends too slowly, and is to be cut off.
    pub fn note(&mut self, held: usize, socket: &TcpStream) -> bool {
        // A limit that can't be set is that of a connection that has ended.
        let limit = |time: Option<Duration>| drop(socket.set_read_timeout(time));
        if held <= SMALL {
            if self.large.take().is_some() {
                limit(self.idle);
            }
            return true;
        }
        let now = self.env.monotonic_nanos();
        let large = match &self.large {
            Some(large) => {
                if Duration::from_nanos(now.saturating_sub(self.mark.0)) >= self.patience {
                    if held < self.mark.1.saturating_add(LEAST) {
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
            limit(Some(AT_ONCE.min(self.patience)));
        } else {
            limit(Some(self.patience));
        }
        true
    }
}
