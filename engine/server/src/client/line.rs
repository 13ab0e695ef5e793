//! The connection of a client: a request goes out, its answer comes in.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::{Env, OsEnv};

use super::error::ClientError;
use super::options::ClientOptions;
use crate::wire::{
    FrameStream, Version, WireAnswer, WireError, WireReply, WireRequest, put_request, put_segments,
};

/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;
/// How often it is looked whether somebody has stopped a request, or it takes too long.
const TICK: Duration = Duration::from_millis(20);

/// A connection on which one request at a time is asked.
pub struct Line {
    pub version: Version,
    pub request_timeout: Option<Duration>,
    socket: TcpStream,
    incoming: FrameStream,
    /// In segments, which version 5 has once the conversation has begun.
    segments: bool,
    /// The number of the request that was asked last.
    stream: i16,
    ended: bool,
    env: Arc<dyn Env>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("version", &self.version).finish_non_exhaustive()
    }
}

/// A connection to the first address of a name that takes one.
fn reach(options: &ClientOptions) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in options.address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, options.connect_timeout) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn nonsense(error: WireError) -> ClientError {
    ClientError::Nonsense(error.text.into_owned())
}

impl Line {
    /// Connects, to speak this version.
    pub fn connect(options: &ClientOptions, version: Version) -> Result<Line, ClientError> {
        let unreachable = |e| ClientError::Unreachable(options.address.clone(), e);
        let socket = reach(options).map_err(unreachable)?;
        socket.set_read_timeout(Some(TICK)).map_err(unreachable)?;
        // Without it, it works too, only slower.
        let _ = socket.set_nodelay(true);
        let _ = socket.set_write_timeout(options.request_timeout);
        Ok(Line {
            version,
            request_timeout: options.request_timeout,
            socket,
            incoming: FrameStream::new(options.max_answer),
            segments: false,
            stream: 0,
            ended: false,
            env: OsEnv::new(),
        })
    }

    /// What follows is in segments, where the version has such.
    pub fn begin_segments(&mut self) {
        if self.version == Version::V5 {
            self.segments = true;
            self.incoming.begin_segments(false);
        }
    }

    /// Ends the connection for this reason.
    pub fn end(&mut self, why: ClientError) -> ClientError {
        self.ended = true;
        // One that has ended already is no matter.
        let _ = self.socket.shutdown(Shutdown::Both);
        why
    }

    /// Whether the other side has not closed it.
    pub fn is_open(&self) -> bool {
        if self.ended || self.socket.set_nonblocking(true).is_err() {
            return false;
        }
        let there = self.socket.peek(&mut [0]);
        let waits = there.is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
        // Without a request nothing comes: nobody listens to events here.
        waits && self.socket.set_nonblocking(false).is_ok()
    }

    /// Asks, and waits for the answer: for `wait` since something came last.
    pub fn ask(
        &mut self,
        request: &WireRequest<'_>,
        traced: bool,
        stop: Option<&AtomicBool>,
        wait: Option<Duration>,
    ) -> Result<WireReply, ClientError> {
        if self.ended {
            return Err(ClientError::Lost("it was ended before".to_owned()));
        }
        self.stream = self.stream.checked_add(1).unwrap_or(1);
        let mut bytes = vec![];
        put_request(&mut bytes, self.version, self.stream, (request.opcode(), traced), |body| {
            request.put(body, self.version);
        });
        if self.segments {
            let mut framed = vec![];
            put_segments(&mut framed, &bytes, &[bytes.len()], false);
            bytes = framed;
        }
        let sent = (&self.socket).write_all(&bytes);
        // A server that refuses a request and closes may have said why.
        match (self.answer(stop, wait), sent) {
            (Err(ClientError::Lost(_)), Err(e)) => Err(ClientError::Lost(e.to_string())),
            (answer, _) => answer,
        }
        .map_err(|e| match e {
            refused @ ClientError::Refused { .. } => refused,
            other => self.end(other),
        })
    }

    /// The answer to the request that was asked last.
    fn answer(
        &mut self,
        stop: Option<&AtomicBool>,
        wait: Option<Duration>,
    ) -> Result<WireReply, ClientError> {
        let mut since = self.env.monotonic_nanos();
        loop {
            while let Some((header, body)) =
                self.incoming.take_frame().map_err(|(_, e)| nonsense(e))?
            {
                let reply = WireReply::read(&header, body).map_err(nonsense)?;
                match reply.answer {
                    // Of a frame that a server could not read, it does not know the stream.
                    WireAnswer::Error(code, text)
                        if header.stream == self.stream || header.stream == 0 =>
                    {
                        return Err(ClientError::Refused { code, text });
                    }
                    _ if header.stream == self.stream => return Ok(reply),
                    _ => {}
                }
            }
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(ClientError::Stopped);
            }
            let lost = |what: &str| Err(ClientError::Lost(what.to_owned()));
            let mut chunk = [0; CHUNK];
            match (&self.socket).read(&mut chunk) {
                Ok(len @ 1..) => {
                    self.incoming.incoming().extend_from_slice(&chunk[..len]);
                    since = self.env.monotonic_nanos();
                }
                Ok(0) if self.incoming.is_within_a_frame() => {
                    return lost("it was closed within an answer");
                }
                Ok(0) => return lost("the server has closed it"),
                Err(e) if is_tick(e.kind()) => {
                    let waited =
                        Duration::from_nanos(self.env.monotonic_nanos().saturating_sub(since));
                    if let Some(most) = wait.filter(|most| waited >= *most) {
                        return lost(&format!("no answer came for {} s", most.as_secs_f32()));
                    }
                }
                Err(e) => return lost(&e.to_string()),
            }
        }
    }
}

fn is_tick(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
