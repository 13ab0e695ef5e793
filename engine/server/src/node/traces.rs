//! Traced requests for `system_traces`. The newest ones are stored in memory.
//!
//! Invariants: a trace has at most [`MAX_TRACE`] bytes of text, and one text [`MAX_TEXT`]. All
//! traces together have at most [`MAX_BYTES`] and number at most [`RETAINED_CAPACITY`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use firn_kv::Env;
use parking_lot::Mutex;
use uuid::Uuid;

/// Maximum number of stored traces.
const RETAINED_CAPACITY: usize = 256;
/// Maximum bytes of the texts of all traces.
const MAX_BYTES: usize = 4 << 20;
/// Maximum bytes of the texts of one trace.
const MAX_TRACE: usize = 64 << 10;
/// Maximum bytes of one text: a statement, a value or an event.
const MAX_TEXT: usize = 4 << 10;
/// Bytes that a parameter or an event takes in addition to its texts.
const ENTRY: usize = 64;
/// Units of 100 ns between the start of the Gregorian calendar and 1970.
const GREGORIAN: u64 = 0x01b2_1dd2_1381_4000;

/// A request that is being traced.
pub struct RequestTrace {
    env: Arc<dyn Env>,
    began: u64,
    /// Bytes of text that still fit.
    room: usize,
    request: TracedRequest,
}

/// A request that was traced.
#[derive(Clone, Debug)]
pub struct TracedRequest {
    /// Session id of the trace.
    pub session: Uuid,
    /// Address of the client.
    pub client: SocketAddr,
    /// Local address that received the request.
    pub coordinator: SocketAddr,
    /// Type of the request.
    pub request: String,
    /// Parameters of the request.
    pub parameters: Vec<(String, String)>,
    /// Milliseconds since 1970.
    pub started_millis: i64,
    /// Events: microseconds since the start, activity, thread.
    pub events: Vec<(u64, String, String)>,
    /// Duration in microseconds.
    pub took: u64,
}

/// Returns a version 1 UUID with this time in microseconds since 1970.
fn time_uuid(micros: u64, random: u64) -> Uuid {
    let ticks = (micros * 10).wrapping_add(GREGORIAN) & ((1 << 60) - 1);
    let (low, mid, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 | 0x1000);
    let mut tail = random.to_be_bytes();
    tail[0] = tail[0] & 0x3f | 0x80;
    Uuid::from_fields(low, mid, high, &tail)
}

impl RequestTrace {
    /// Returns the id of a trace that begins now.
    pub fn identity(env: &Arc<dyn Env>) -> Uuid {
        time_uuid(env.wall_micros(), env.random())
    }

    /// Begins a trace, with the id that was already sent to the client, if any.
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
        RequestTrace { env: env.clone(), began: env.monotonic_nanos(), room: MAX_TRACE, request }
    }

    /// Returns the session id.
    pub fn session(&self) -> Uuid {
        self.request.session
    }

    /// Reports whether more can be noted.
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Returns the longest prefix of a text that fits; `name` takes room, too.
    fn fitted(&mut self, name: &str, text: &str) -> String {
        let most = MAX_TEXT.min(self.room.saturating_sub(name.len()));
        let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let end = end.unwrap_or_default();
        let mut out = text[..end].to_owned();
        if end < text.len() {
            out.push('…');
        }
        self.room = self.room.saturating_sub(name.len() + out.len() + ENTRY);
        out
    }

    /// Notes a parameter of the request if there is room.
    pub fn parameter(&mut self, name: &str, value: &str) {
        if self.has_room() {
            let value = self.fitted(name, value);
            self.request.parameters.push((name.to_owned(), value));
        }
    }

    fn elapsed(&self) -> u64 {
        self.env.monotonic_nanos().saturating_sub(self.began) / 1000
    }

    /// Notes an event if there is room.
    pub fn event(&mut self, activity: &str) {
        if self.has_room() {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            let activity = self.fitted(&thread, activity);
            self.request.events.push((self.elapsed(), activity, thread));
        }
    }

    /// Ends the trace and makes it visible.
    pub fn finish(mut self, log: &TraceLog) {
        self.request.took = self.elapsed();
        let bytes = MAX_TRACE - self.room;
        let mut stored = log.0.lock();
        while stored.requests.len() >= RETAINED_CAPACITY || stored.bytes + bytes > MAX_BYTES {
            let Some((_, bytes)) = stored.requests.pop_front() else { break };
            stored.bytes -= bytes;
        }
        stored.bytes += bytes;
        stored.requests.push_back((self.request, bytes));
    }
}

#[derive(Debug, Default)]
struct StoredTraces {
    /// Traces with the bytes of their texts, oldest first.
    requests: VecDeque<(TracedRequest, usize)>,
    bytes: usize,
}

/// The latest traced requests.
#[derive(Debug, Default)]
pub struct TraceLog(Mutex<StoredTraces>);

impl TraceLog {
    /// Returns all traces.
    pub fn all(&self) -> Vec<TracedRequest> {
        self.0.lock().requests.iter().map(|(request, _)| request.clone()).collect()
    }
}

impl TracedRequest {
    /// Returns the id of an event, by its time.
    pub fn event_id(&self, number: usize, elapsed: u64) -> Uuid {
        let micros = (self.started_millis as u64) * 1000 + elapsed;
        let low = self.session.as_u64_pair().1;
        time_uuid(micros, low.wrapping_add(number as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::OsEnv;

    use super::*;

    #[test]
    fn traces_are_bounded_in_bytes_and_number() {
        let (env, log) = (OsEnv::new() as Arc<dyn Env>, TraceLog::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 9042));
        let text = "ä".repeat(1 << 20);
        let bytes = |log: &TraceLog| log.0.lock().bytes;
        for n in 0..600 {
            let mut trace = RequestTrace::begin(&env, None, "Execute", address, address);
            let large = n < 300;
            for _ in 0..if large { 100 } else { 1 } {
                trace.parameter("query", if large { &text } else { "SELECT 1" });
                trace.event(&text);
            }
            trace.finish(&log);
            let all = log.all();
            assert!(all.len() <= RETAINED_CAPACITY && bytes(&log) <= MAX_BYTES);
            let last = all.last().unwrap();
            let texts = last.parameters.iter().map(|(_, value)| value.len());
            let texts: usize = texts.chain(last.events.iter().map(|(_, what, _)| what.len())).sum();
            assert!(texts <= MAX_TRACE && last.parameters[0].1.len() <= MAX_TEXT + 3);
        }
        assert!(log.all().len() > 50 && bytes(&log) > MAX_BYTES / 8);
        assert!(log.all().last().unwrap().events[0].1.ends_with("ä…"));
    }
}
