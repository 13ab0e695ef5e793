//! A connection, as it is or encrypted.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::send::send_some;
#[cfg(feature = "tls")]
use super::tls::TlsChannel;

/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    /// Whether somebody ends it, or has: nobody cuts off another one who is saying goodbye.
    ended: AtomicBool,
    #[cfg(feature = "tls")]
    tls: Option<TlsChannel>,
}

impl Transport {
    /// One that is not encrypted.
    pub fn plain(socket: TcpStream) -> Transport {
        Transport {
            socket,
            ended: AtomicBool::new(false),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// One that will be encrypted when its client has agreed.
    #[cfg(feature = "tls")]
    pub fn encrypted(socket: TcpStream, tls: TlsChannel) -> Transport {
        Transport { socket, ended: AtomicBool::new(false), tls: Some(tls) }
    }

    /// The connection beneath, for its addresses and time limits.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Waits for bytes and appends them: how many. None (0) have come of use where they are the
    /// beginning of something, or belong to the encryption. `None`: there will be no more.
    ///
    /// # Errors
    /// Those of the connection; `InvalidData` for bytes that break the rules of the encryption.
    pub fn read_into(&self, out: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
        let mut chunk = [0; CHUNK];
        let len = (&self.socket).read(&mut chunk)?;
        if len == 0 {
            return Ok(None);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.decrypt(&self.socket, &chunk[..len], out);
        }
        out.extend_from_slice(&chunk[..len]);
        Ok(Some(len))
    }

    /// Sends these bytes, and before them what was left lying by [`write_some`](Transport::write_some).
    ///
    /// # Errors
    /// Those of the connection. Nothing more can be sent then.
    pub fn write_all(&self, bytes: &[u8]) -> std::io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.write_all(&self.socket, bytes);
        }
        (&self.socket).write_all(bytes)
    }

    /// Sends what the connection takes at once. `None`: that was all. Else how many of the bytes
    /// were taken; for what is left, which may be only within the encryption,
    /// [`write_all`](Transport::write_all) must be called with the others.
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

    /// Lets nothing more come. Who waits for it finds out.
    pub fn end_reading(&self) {
        // One that has ended already is no matter.
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Ends it, both ways. Who waits for it finds out.
    pub fn end(&self) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            tls.say_goodbye(&self.socket);
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Ends it where the client may be sending still: it is told that nothing more comes, and what it
    /// sends is read and forgotten, `most` bytes at most, until it ends the connection or `left` gives
    /// it no more time. When a connection is closed with bytes in it that nobody has read, the system
    /// resets it, and what was sent last may never be read.
    pub fn part(&self, most: usize, left: impl Fn() -> Option<Duration>) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            tls.say_goodbye(&self.socket);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
        let (mut chunk, mut forgotten) = ([0; CHUNK], 0);
        while forgotten < most
            && let Some(left) = left()
            && self.socket.set_read_timeout(Some(left)).is_ok()
        {
            match (&self.socket).read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => forgotten += len,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// The version and the ciphers of the encryption, once they are agreed on.
    pub fn encryption(&self) -> Option<(String, String)> {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().and_then(TlsChannel::agreed);
        #[cfg(not(feature = "tls"))]
        None
    }
}

/// What is logged of such a client.
pub const NO_TLS_HERE: &str = "a client speaks TLS, and this port does not: let the client speak without, or start the \
                               server with --tls-certificate";

/// Whether these are the first bytes of a client that wants to agree on encryption: a handshake of
/// version 3, as all versions of TLS say.
pub fn looks_encrypted(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 3, ..])
}
