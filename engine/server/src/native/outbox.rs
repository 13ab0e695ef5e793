//! Answers on their way to a client: put behind each other by whoever has one, sent as many at once
//! as there are.
//!
//! Invariants: one thread at a time sends; who finds another one sending leaves its answer to that
//! one; a worker never waits for a client, but leaves what does not fit into the connection's buffer
//! to a thread that does.

use std::sync::Arc;

use firn_cql::ResultShare;
use firn_kv::Env;
use parking_lot::{Condvar, Mutex};

use crate::node::ConnectionMeter;
use crate::transport::Transport;
use crate::wire::put_segments;

/// Answers that may lie here before the client is read from no more.
const MOST: usize = 4 << 20;
/// Events that may wait behind what is being sent: about a MiB.
const MOST_EVENTS: usize = 8 << 10;
/// What a buffer keeps for the next answers.
const KEPT: usize = 64 << 10;

#[derive(Debug, Default)]
struct OutboxState {
    envelopes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Events among them.
    events: usize,
    /// The room of these answers in the budget of results, and that of those being sent.
    shares: Vec<Arc<ResultShare>>,
    leaving: Vec<Arc<ResultShare>>,
    /// In segments, compressed or not.
    segments: Option<bool>,
    /// Whether somebody sends.
    sending: bool,
    /// Whether nothing can be sent any more.
    ended: bool,
}

/// The answers of one connection.
#[derive(Debug)]
pub struct Outbox {
    transport: Arc<Transport>,
    meter: ConnectionMeter,
    waiting: Mutex<OutboxState>,
    /// Somebody has sent all there was.
    sent: Condvar,
}

impl Outbox {
    /// To this client.
    pub fn new(transport: Arc<Transport>, meter: ConnectionMeter) -> Outbox {
        Outbox { transport, meter, waiting: Mutex::default(), sent: Condvar::new() }
    }

    /// Everything that is put in from now on is sent in segments.
    pub fn begin_segments(&self, lz4: bool) {
        self.waiting.lock().segments = Some(lz4);
    }

    /// Puts in one envelope, which `put` appends. Its room in the budget of results stays taken until
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

    /// The bytes to send, or that there are none.
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
            waiting.envelopes.shrink_to(KEPT);
            bytes = framed;
        }
        waiting.ends.clear();
        waiting.leaving = std::mem::take(&mut waiting.shares);
        waiting.events = 0;
        self.meter.sent(bytes.len());
        Some(bytes)
    }

    /// Sends what is here, and waits for the client.
    pub fn send(&self) {
        self.send_by(|transport, bytes| transport.write_all(bytes).map(|()| None));
    }

    /// Sends what is here, and waits until it has left, whoever sends it.
    pub fn finish(&self) {
        self.send();
        let mut waiting = self.waiting.lock();
        while waiting.sending && !waiting.ended {
            self.sent.wait(&mut waiting);
        }
    }

    /// Sends what is here as `write` does, which says how many bytes it took where that was not all.
    /// Then gives the bytes and their number, and is still the one that sends.
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
        waiting.leaving.clear();
        if !good {
            self.end(waiting);
        }
        if waiting.envelopes.capacity() == 0 && bytes.capacity() <= KEPT {
            bytes.clear();
            waiting.envelopes = bytes;
        }
    }

    fn end(&self, waiting: &mut OutboxState) {
        waiting.ended = true;
        waiting.envelopes = vec![];
        waiting.shares = vec![];
        waiting.ends.clear();
        // The thread that reads finds out.
        self.transport.end();
    }

    /// Sends what the connection takes at once. For the rest a thread is started that waits.
    pub fn send_at_once(self: &Arc<Self>, env: &Arc<dyn Env>) {
        if let Some((bytes, from)) = self.send_by(Transport::write_some) {
            self.leave(env, bytes, from);
        }
    }

    /// Leaves the rest of these bytes, and what comes then, to a thread.
    fn leave(self: &Arc<Self>, env: &Arc<dyn Env>, bytes: Vec<u8>, from: usize) {
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
            waiting.leaving = vec![];
            self.end(&mut waiting);
            self.sent.notify_all();
        }
    }

    /// Counts an event that is to be put in. False: so many wait that the client reads none.
    pub fn takes_event(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.events += 1;
        waiting.events <= MOST_EVENTS
    }

    /// Whether more lies here than a client may leave lying.
    pub fn is_full(&self) -> bool {
        self.waiting.lock().envelopes.len() > MOST
    }

    /// Waits until the client has taken so much that it may be read from again.
    pub fn wait_for_room(&self) {
        let mut waiting = self.waiting.lock();
        while waiting.sending && !waiting.ended && waiting.envelopes.len() > MOST {
            self.sent.wait(&mut waiting);
        }
    }

    /// The version and the ciphers of the encryption, where there is one.
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
    fn events_that_wait_are_bounded_and_those_that_were_sent_are_not_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let transport = Arc::new(Transport::plain(listener.accept().unwrap().0));
        let outbox = Outbox::new(transport, ConnectionMeter::new(Arc::default(), 1));
        for _ in 0..2 {
            assert!((0..MOST_EVENTS).all(|_| outbox.takes_event()));
            assert!(!outbox.takes_event());
            outbox.put(None, |out| out.push(7));
            outbox.send();
        }
        drop(client);
    }
}
