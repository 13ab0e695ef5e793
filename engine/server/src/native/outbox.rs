//! Outgoing responses of a client: any thread appends, and all pending ones are sent together.
//!
//! Invariants: one thread at a time sends; a thread that finds another one sending leaves its
//! response to that thread. A worker never waits for a client: if the socket's buffer is full, the
//! worker leaves the rest to a thread that waits.

use std::sync::Arc;

use firn_cql::ResultShare;
use firn_kv::Env;
use parking_lot::{Condvar, Mutex};

use crate::node::ConnectionMeter;
use crate::transport::Transport;
use crate::wire::put_segments;

/// Bytes of pending responses above which the server stops reading from the client.
const MAX_PENDING: usize = 4 << 20;
/// Events that may wait during a send: about a MiB.
const MAX_EVENTS: usize = 8 << 10;
/// Capacity that a buffer retains for later responses.
const RETAINED_CAPACITY: usize = 64 << 10;

#[derive(Debug, Default)]
struct OutboxState {
    envelopes: Vec<u8>,
    /// End offset of each envelope.
    ends: Vec<usize>,
    /// Number of events among them.
    events: usize,
    /// Shares of the results budget: of these responses, and of those being sent.
    shares: Vec<Arc<ResultShare>>,
    sending_shares: Vec<Arc<ResultShare>>,
    /// Whether frames are in segments, and whether those are compressed.
    segments: Option<bool>,
    /// Whether a thread is sending.
    sending: bool,
    /// Whether the connection has ended.
    ended: bool,
}

/// Outgoing responses of one connection.
#[derive(Debug)]
pub struct Outbox {
    transport: Arc<Transport>,
    meter: ConnectionMeter,
    waiting: Mutex<OutboxState>,
    /// Signals that a thread has sent everything.
    sent: Condvar,
}

impl Outbox {
    /// Creates the outbox of this client.
    pub fn new(transport: Arc<Transport>, meter: ConnectionMeter) -> Outbox {
        Outbox { transport, meter, waiting: Mutex::default(), sent: Condvar::new() }
    }

    /// Switches to segments for everything appended from now on.
    pub fn begin_segments(&self, lz4: bool) {
        self.waiting.lock().segments = Some(lz4);
    }

    /// Appends one envelope, which `put` writes. Its share of the results budget is released when
    /// it is sent.
    pub fn put(&self, share: Option<Arc<ResultShare>>, put: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting.lock();
        if waiting.ended {
            return;
        }
        put(&mut waiting.envelopes);
        waiting.shares.extend(share);
        let end = waiting.envelopes.len();
        waiting.ends.push(end);
    }

    /// Returns the bytes to send; `None` if there are none.
    fn take(&self, waiting: &mut OutboxState) -> Option<Vec<u8>> {
        if waiting.ends.is_empty() || waiting.ended {
            return None;
        }
        let mut bytes = std::mem::take(&mut waiting.envelopes);
        if let Some(lz4) = waiting.segments {
            let mut framed = Vec::with_capacity(bytes.len() + 16);
            put_segments(&mut framed, &bytes, &waiting.ends, lz4);
            bytes.clear();
            waiting.envelopes = bytes;
            waiting.envelopes.shrink_to(RETAINED_CAPACITY);
            bytes = framed;
        }
        waiting.ends.clear();
        waiting.sending_shares = std::mem::take(&mut waiting.shares);
        waiting.events = 0;
        self.meter.sent(bytes.len());
        Some(bytes)
    }

    /// Sends the pending bytes and waits for the client.
    pub fn send(&self) {
        self.send_by(|transport, bytes| transport.write_all(bytes).map(|()| None));
    }

    /// Sends the pending bytes and waits until all are sent, also by other threads.
    pub fn finish(&self) {
        self.send();
        let mut waiting = self.waiting.lock();
        while waiting.sending && !waiting.ended {
            self.sent.wait(&mut waiting);
        }
    }

    /// Sends the pending bytes with `write`, which returns the number of accepted bytes if it did
    /// not accept all. Then returns the bytes and that number, and remains the sending thread.
    fn send_by(
        &self,
        write: impl Fn(&Transport, &[u8]) -> std::io::Result<Option<usize>>,
    ) -> Option<(Vec<u8>, usize)> {
        let mut waiting = self.waiting.lock();
        if waiting.sending {
            return None;
        }
        waiting.sending = true;
        while let Some(bytes) = self.take(&mut waiting) {
            drop(waiting);
            let left = write(&self.transport, &bytes);
            if let Ok(Some(taken)) = left {
                return Some((bytes, taken));
            }
            waiting = self.waiting.lock();
            self.after(&mut waiting, bytes, left.is_ok());
        }
        waiting.sending = false;
        self.sent.notify_all();
        None
    }

    fn after(&self, waiting: &mut OutboxState, mut bytes: Vec<u8>, good: bool) {
        waiting.sending_shares.clear();
        if !good {
            self.end(waiting);
        }
        if waiting.envelopes.capacity() == 0 && bytes.capacity() <= RETAINED_CAPACITY {
            bytes.clear();
            waiting.envelopes = bytes;
        }
    }

    fn end(&self, waiting: &mut OutboxState) {
        waiting.ended = true;
        waiting.envelopes = vec![];
        waiting.shares = vec![];
        waiting.ends.clear();
        // The reading thread notices.
        self.transport.end();
    }

    /// Sends as much as the socket accepts at once. Starts a thread that waits and sends the rest.
    pub fn send_at_once(self: &Arc<Self>, env: &Arc<dyn Env>) {
        if let Some((bytes, from)) = self.send_by(Transport::write_some) {
            self.send_in_background(env, bytes, from);
        }
    }

    /// Leaves the rest of these bytes, and later ones, to a new thread.
    fn send_in_background(self: &Arc<Self>, env: &Arc<dyn Env>, bytes: Vec<u8>, from: usize) {
        let outbox = self.clone();
        let work = move || {
            let sent = outbox.transport.write_all(&bytes[from..]);
            let mut waiting = outbox.waiting.lock();
            outbox.after(&mut waiting, bytes, sent.is_ok());
            waiting.sending = false;
            drop(waiting);
            outbox.send();
        };
        if env.spawn("firn-send", Box::new(work)).is_err() {
            let mut waiting = self.waiting.lock();
            waiting.sending = false;
            waiting.sending_shares = vec![];
            self.end(&mut waiting);
            self.sent.notify_all();
        }
    }

    /// Counts an event to be appended. Returns false if too many events wait: the client
    /// does not read.
    pub fn count_event(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.events += 1;
        waiting.events <= MAX_EVENTS
    }

    /// Reports whether the pending bytes exceed the limit.
    pub fn is_full(&self) -> bool {
        self.waiting.lock().envelopes.len() > MAX_PENDING
    }

    /// Waits until the pending bytes are below the limit.
    pub fn wait_for_room(&self) {
        let mut waiting = self.waiting.lock();
        while waiting.sending && !waiting.ended && waiting.envelopes.len() > MAX_PENDING {
            self.sent.wait(&mut waiting);
        }
    }

    /// Returns the version and ciphers of TLS, if encrypted.
    pub fn encryption(&self) -> Option<(String, String)> {
        self.transport.encryption()
    }

    /// Ends the connection: nothing is sent any more.
    pub fn close(&self) {
        let mut waiting = self.waiting.lock();
        self.end(&mut waiting);
        self.sent.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn waiting_events_are_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let transport = Arc::new(Transport::plain(listener.accept().unwrap().0));
        let outbox = Outbox::new(transport, ConnectionMeter::new(Arc::default(), 1));
        for _ in 0..2 {
            assert!((0..MAX_EVENTS).all(|_| outbox.count_event()));
            assert!(!outbox.count_event());
            outbox.put(None, |out| out.push(7));
            outbox.send();
        }
        drop(client);
    }
}
