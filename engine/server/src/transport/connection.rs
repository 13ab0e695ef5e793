//! A connection, plain or with TLS.

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::send::send_some;
#[cfg(feature = "tls")]
use super::tls::TlsChannel;

/// Bytes of one read.
const CHUNK: usize = 16 << 10;

thread_local! {
    /// Buffer of this thread's reads: clearing a new one for each would cost as much as a request's
    /// parsing.
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    /// Whether a thread ends it or has ended it: no other thread may then cut off the final
    /// exchange.
    ended: AtomicBool,
    #[cfg(feature = "tls")]
    tls: Option<TlsChannel>,
}

impl Transport {
    /// Creates an unencrypted connection.
    pub fn plain(socket: TcpStream) -> Transport {
        Transport {
            socket,
            ended: AtomicBool::new(false),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Creates a TLS connection; the handshake follows.
    #[cfg(feature = "tls")]
    pub fn encrypted(socket: TcpStream, tls: TlsChannel) -> Transport {
        Transport { socket, ended: AtomicBool::new(false), tls: Some(tls) }
    }

    /// Returns the TCP connection, for its addresses and time limits.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Waits for bytes and appends them. Returns their number, which is 0 for parts of TLS records
    /// and for TLS's own messages. `None`: the peer sends no more.
    ///
    /// # Errors
    /// Errors of the connection; `InvalidData` for violations of TLS.
    pub fn read_into(&self, out: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
        RECEIVED.with_borrow_mut(|chunk| {
            chunk.resize(CHUNK, 0);
            let len = (&self.socket).read(chunk)?;
            if len == 0 {
                return Ok(None);
            }
            #[cfg(feature = "tls")]
            if let Some(tls) = &self.tls {
                return tls.decrypt(&self.socket, &chunk[..len], out);
            }
            out.extend_from_slice(&chunk[..len]);
            Ok(Some(len))
        })
    }

    /// Sends these bytes, after those left unsent by [`write_some`](Transport::write_some).
    ///
    /// # Errors
    /// Errors of the connection, which cannot send any more.
    pub fn write_all(&self, bytes: &[u8]) -> std::io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.write_all(&self.socket, bytes);
        }
        (&self.socket).write_all(bytes)
    }

    /// Sends as much as the socket accepts at once. `None`: all of it. Otherwise it returns the
    /// number of accepted bytes; the caller must pass the rest to
    /// [`write_all`](Transport::write_all), even if the rest is only inside TLS.
    ///
    /// # Errors
    /// As [`write_all`](Transport::write_all).
    pub fn write_some(&self, bytes: &[u8]) -> std::io::Result<Option<usize>> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.write_some(&self.socket, bytes);
        }
        let sent = send_some(&self.socket, bytes)?;
        Ok((sent < bytes.len()).then_some(sent))
    }

    /// Shuts down reading; this wakes a waiting reader.
    pub fn end_reading(&self) {
        // Ignore the error: the connection may have ended already.
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Shuts down both directions; this wakes waiting threads.
    pub fn end(&self) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            tls.send_close_notify(&self.socket);
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Ends a connection whose client may still be sending. It shuts down sending, then reads and
    /// discards up to `most` bytes, until the client closes or `left` returns no more time. If a
    /// socket closes with unread bytes, the system resets the connection, and the client may never
    /// see the last response.
    pub fn lingering_close(&self, most: usize, left: impl Fn() -> Option<Duration>) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            tls.send_close_notify(&self.socket);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
        let (mut chunk, mut discarded) = ([0; CHUNK], 0);
        while discarded < most
            && let Some(left) = left()
            && self.socket.set_read_timeout(Some(left)).is_ok()
        {
            match (&self.socket).read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => discarded += len,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Returns the version and ciphers of TLS, once negotiated.
    pub fn encryption(&self) -> Option<(String, String)> {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().and_then(TlsChannel::negotiated_tls);
        #[cfg(not(feature = "tls"))]
        None
    }
}

/// Log message for a TLS client on a plain port.
pub const TLS_ON_PLAIN_PORT: &str = "a client speaks TLS, and this port does not: let the client speak without, or start the \
                               server with --tls-certificate";

/// Reports whether these are the first bytes of a TLS client: a handshake record of version 3, as
/// in all versions of TLS.
pub fn is_tls_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 3, ..])
}
