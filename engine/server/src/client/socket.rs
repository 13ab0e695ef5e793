//! Socket of a client: sends bytes, and receives them with a timeout.

use std::io::{Error, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::{Env, OsEnv};

use super::error::ClientError;
use super::options::ClientOptions;
use crate::transport::{Transport, encrypted_to};

/// Interval for checking the stop flag and the timeout.
const TICK: Duration = Duration::from_millis(20);

/// A connection to a server.
pub struct ClientSocket {
    transport: Transport,
    ended: bool,
    env: Arc<dyn Env>,
}

/// Connects to the first address of a name that accepts the connection.
fn reach(options: &ClientOptions) -> std::io::Result<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, "the name has no address");
    for address in options.address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, options.connect_timeout) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn is_tick(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl ClientSocket {
    /// Connects.
    pub fn connect(options: &ClientOptions) -> Result<ClientSocket, ClientError> {
        let unreachable = |e| ClientError::Unreachable(options.address.clone(), e);
        let socket = reach(options).map_err(unreachable)?;
        socket.set_read_timeout(Some(TICK)).map_err(unreachable)?;
        // Optional: without it, connections are only slower.
        let _ = socket.set_nodelay(true);
        let _ = socket.set_write_timeout(options.request_timeout);
        let env: Arc<dyn Env> = OsEnv::new();
        let transport = match &options.tls {
            None => Transport::plain(socket),
            Some(trust) => {
                let host = options.address.rsplit_once(':').map_or("", |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let made = encrypted_to(&*env, trust, host, socket);
                made.map_err(|why| unreachable(Error::new(ErrorKind::InvalidInput, why)))?
            }
        };
        Ok(ClientSocket { transport, ended: false, env })
    }

    /// Closes the connection for this reason.
    pub fn end(&mut self, why: ClientError) -> ClientError {
        self.ended = true;
        self.transport.end();
        why
    }

    /// Reports whether the peer has not closed the connection.
    pub fn is_open(&self) -> bool {
        let socket = self.transport.socket();
        if self.ended || socket.set_nonblocking(true).is_err() {
            return false;
        }
        // Without a request only TLS's own messages arrive: this client registers for no events.
        let waits = loop {
            match self.transport.read_into(&mut vec![]) {
                Ok(Some(0)) => {}
                Err(e) => break e.kind() == ErrorKind::WouldBlock,
                Ok(_) => break false,
            }
        };
        waits && socket.set_nonblocking(false).is_ok()
    }

    /// Sends a request. A failed send is reported only if no response arrives: a server that
    /// refuses a request and closes may have sent the reason.
    ///
    /// # Errors
    /// A connection that is already closed.
    pub fn send(&mut self, bytes: &[u8]) -> Result<std::io::Result<()>, ClientError> {
        if self.ended {
            return Err(ClientError::Lost("it was ended before".to_owned()));
        }
        Ok(self.transport.write_all(bytes))
    }

    /// Waits until bytes arrive, for at most `wait`, and appends them. `within`: a response has
    /// begun.
    ///
    /// # Errors
    /// A closed connection, a timeout, or a stop by the caller.
    pub fn receive(
        &mut self,
        out: &mut Vec<u8>,
        within: bool,
        stop: Option<&AtomicBool>,
        wait: Option<Duration>,
    ) -> Result<(), ClientError> {
        let since = self.env.monotonic_nanos();
        let lost = |what: &str| Err(ClientError::Lost(what.to_owned()));
        loop {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(ClientError::Stopped);
            }
            match self.transport.read_into(out) {
                Ok(Some(0)) => {}
                Ok(Some(_)) => return Ok(()),
                Ok(None) if within => return lost("it was closed within an answer"),
                Ok(None) => return lost("the server has closed it"),
                Err(e) if is_tick(e.kind()) => {
                    let waited = self.env.monotonic_nanos().saturating_sub(since);
                    let waited = Duration::from_nanos(waited);
                    if let Some(most) = wait.filter(|most| waited >= *most) {
                        return lost(&format!("no answer came for {} s", most.as_secs_f32()));
                    }
                }
                Err(e) if e.kind() == ErrorKind::InvalidData => {
                    return Err(ClientError::NotEncrypted(e.to_string()));
                }
                Err(e) => return lost(&e.to_string()),
            }
        }
    }
}

/// Returns the response, or the more informative of the two errors.
pub fn answer_or<T>(
    answer: Result<T, ClientError>,
    sent: std::io::Result<()>,
) -> Result<T, ClientError> {
    match (answer, sent) {
        (Err(ClientError::Lost(_)), Err(e)) => Err(ClientError::Lost(e.to_string())),
        (answer, _) => answer,
    }
}
