//! Traced requests: what `system_traces` shows. They are kept in memory, the newest ones.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use firn_kv::Env;
use parking_lot::Mutex;
use uuid::Uuid;

/// How many traced requests are kept.
const KEPT: usize = 256;
/// Units of 100 ns between the beginning of the Gregorian calendar and 1970.
const GREGORIAN: u64 = 0x01b2_1dd2_1381_4000;

/// A request that is being traced.
pub struct RequestTrace {
    env: Arc<dyn Env>,
    began: u64,
    request: TracedRequest,
}

/// A request that was traced.
#[derive(Clone, Debug)]
pub struct TracedRequest {
    /// Its id.
    pub session: Uuid,
    /// Who asked.
    pub client: SocketAddr,
    /// The server's address that was asked.
    pub coordinator: SocketAddr,
    /// What kind of request it was.
    pub request: String,
    /// What went with it.
    pub parameters: Vec<(String, String)>,
    /// Milliseconds since 1970.
    pub started_millis: i64,
    /// What happened: when, in microseconds from its start, and on which thread.
    pub events: Vec<(u64, String, String)>,
    /// How long it took, in microseconds.
    pub took: u64,
}

/// A uuid of version 1 with this time in microseconds since 1970.
fn time_uuid(micros: u64, random: u64) -> Uuid {
    let ticks = (micros * 10).wrapping_add(GREGORIAN) & ((1 << 60) - 1);
    let (low, mid, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 | 0x1000);
    let mut tail = random.to_be_bytes();
    tail[0] = tail[0] & 0x3f | 0x80;
    Uuid::from_fields(low, mid, high, &tail)
}

impl RequestTrace {
    /// The identity of a trace that begins now.
    pub fn identity(env: &Arc<dyn Env>) -> Uuid {
        time_uuid(env.wall_micros(), env.random())
    }

    /// Begins now, with an identity that the client knows already where it has one.
    pub fn begin(
        env: &Arc<dyn Env>,
        known: Option<Uuid>,
        request: &str,
        client: SocketAddr,
        coordinator: SocketAddr,
    ) -> RequestTrace {
        let micros = env.wall_micros();
        let request = TracedRequest {
            session: known.unwrap_or_else(|| RequestTrace::identity(env)),
            client,
            coordinator,
            request: request.to_owned(),
            parameters: vec![],
            started_millis: (micros / 1000) as i64,
            events: vec![],
            took: 0,
        };
        RequestTrace { env: env.clone(), began: env.monotonic_nanos(), request }
    }

    /// Its id.
    pub fn session(&self) -> Uuid {
        self.request.session
    }

    /// Notes what went with the request.
    pub fn parameter(&mut self, name: &str, value: impl Into<String>) {
        self.request.parameters.push((name.to_owned(), value.into()));
    }

    fn elapsed(&self) -> u64 {
        self.env.monotonic_nanos().saturating_sub(self.began) / 1000
    }

    /// Notes what happens now.
    pub fn event(&mut self, activity: impl Into<String>) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.request.events.push((self.elapsed(), activity.into(), thread));
    }

    /// It is done: it is shown from now on.
    pub fn finish(mut self, log: &TraceLog) {
        self.request.took = self.elapsed();
        let mut kept = log.0.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(self.request);
    }
}

/// The requests that were traced last.
#[derive(Debug, Default)]
pub struct TraceLog(Mutex<VecDeque<TracedRequest>>);

impl TraceLog {
    /// All of them.
    pub fn all(&self) -> Vec<TracedRequest> {
        self.0.lock().iter().cloned().collect()
    }
}

impl TracedRequest {
    /// The ids of its events, by their time.
    pub fn event_id(&self, number: usize, elapsed: u64) -> Uuid {
        let micros = (self.started_millis as u64) * 1000 + elapsed;
        let low = self.session.as_u64_pair().1;
        time_uuid(micros, low.wrapping_add(number as u64 + 1))
    }
}
