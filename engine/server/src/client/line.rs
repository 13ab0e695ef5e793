//! A conversation of the native protocol: a request goes out, its answer comes in.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::error::ClientError;
use super::options::ClientOptions;
use super::socket::{ClientSocket, answer_or};
use crate::wire::{
    FrameStream, Version, WireAnswer, WireError, WireReply, WireRequest, put_request, put_segments,
};

/// A connection on which one request at a time is asked.
pub struct Line {
    pub version: Version,
    pub request_timeout: Option<Duration>,
    socket: ClientSocket,
    incoming: FrameStream,
    /// In segments, which version 5 has once the conversation has begun.
    segments: bool,
    /// The number of the request that was asked last.
    stream: i16,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("version", &self.version).finish_non_exhaustive()
    }
}

fn nonsense(error: WireError) -> ClientError {
    ClientError::Nonsense(error.text.into_owned())
}

impl Line {
    /// Connects, to speak this version.
    pub fn connect(options: &ClientOptions, version: Version) -> Result<Line, ClientError> {
        Ok(Line {
            version,
            request_timeout: options.request_timeout,
            socket: ClientSocket::connect(options)?,
            incoming: FrameStream::new(options.max_answer),
            segments: false,
            stream: 0,
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
        self.socket.end(why)
    }

    /// Whether the other side has not closed it.
    pub fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Asks, and waits for the answer: for `wait` since something came last.
    pub fn ask(
        &mut self,
        request: &WireRequest<'_>,
        traced: bool,
        stop: Option<&AtomicBool>,
        wait: Option<Duration>,
    ) -> Result<WireReply, ClientError> {
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
        let sent = self.socket.send(&bytes)?;
        answer_or(self.answer(stop, wait), sent).map_err(|e| match e {
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
            let within = self.incoming.is_within_a_frame();
            self.socket.receive(self.incoming.incoming(), within, stop, wait)?;
        }
    }
}
