//! Request and response exchange of the native protocol.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::error::ClientError;
use super::options::ClientOptions;
use super::socket::{ClientSocket, answer_or};
use crate::wire::{
    FrameStream, Version, WireError, WireReply, WireRequest, WireResponse, put_request,
    put_segments,
};

/// A connection with one request at a time.
pub struct NativeConnection {
    pub version: Version,
    pub request_timeout: Option<Duration>,
    socket: ClientSocket,
    incoming: FrameStream,
    /// Whether frames are in segments, as in version 5 after STARTUP.
    segments: bool,
    /// The stream number of the last request.
    stream: i16,
}

impl std::fmt::Debug for NativeConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeConnection").field("version", &self.version).finish_non_exhaustive()
    }
}

fn violation(error: WireError) -> ClientError {
    ClientError::Protocol(error.text.into_owned())
}

impl NativeConnection {
    /// Connects with this version of the protocol.
    pub fn connect(
        options: &ClientOptions,
        version: Version,
    ) -> Result<NativeConnection, ClientError> {
        Ok(NativeConnection {
            version,
            request_timeout: options.request_timeout,
            socket: ClientSocket::connect(options)?,
            incoming: FrameStream::new(options.max_response),
            segments: false,
            stream: 0,
        })
    }

    /// Switches to segments, if the version has them.
    pub fn begin_segments(&mut self) {
        if self.version == Version::V5 {
            self.segments = true;
            self.incoming.begin_segments(false);
        }
    }

    /// Closes the connection for this reason.
    pub fn end(&mut self, why: ClientError) -> ClientError {
        self.socket.end(why)
    }

    /// Reports whether the peer has not closed the connection.
    pub fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Sends a request and waits for the response, for at most `wait` after the last received
    /// bytes.
    pub fn request(
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

    /// Returns the response to the last request.
    fn answer(
        &mut self,
        stop: Option<&AtomicBool>,
        wait: Option<Duration>,
    ) -> Result<WireReply, ClientError> {
        loop {
            while let Some((header, body)) =
                self.incoming.take_frame().map_err(|(_, e)| violation(e))?
            {
                let reply = WireReply::read(&header, body).map_err(violation)?;
                match reply.answer {
                    // The server answers an unreadable frame on stream 0.
                    WireResponse::Error(code, text)
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
