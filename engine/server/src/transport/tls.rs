//! TLS connection. The handshake is a part of reading: the thread of the connection reads and
//! answers it, under the time limits of connection setup.
//!
//! Invariants: the lock of the TLS state is held while encrypting or decrypting, never while
//! waiting for the client. The lock of the unsent bytes is held by the sender while it sends, so
//! that bytes leave in the order of encryption. A thread that takes both locks takes that of the
//! unsent bytes first. After the handshake the reading thread sends nothing: TLS's own messages
//! leave with the next response.

use std::io::{BufRead, Error, ErrorKind, Result, Write};
use std::net::TcpStream;

use parking_lot::Mutex;
use rustls::{Connection, InvalidMessage};

use super::send::send_some;

/// Bytes encrypted at once.
const CHUNK: usize = 32 << 10;
/// Capacity that the buffer of encrypted bytes retains.
const RETAINED_CAPACITY: usize = 8 << 10;

#[derive(Debug)]
pub struct TlsChannel {
    connection: Mutex<Connection>,
    /// Encrypted bytes that are not sent yet.
    unsent: Mutex<Vec<u8>>,
}

/// Converts a TLS error.
fn broken(e: rustls::Error, is_new: bool, is_client: bool) -> Error {
    if is_new && e == rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) {
        if is_client {
            let text = "the server speaks no TLS at this port";
            return Error::new(ErrorKind::InvalidData, text);
        }
        let text = "the client speaks no TLS, and this port takes nothing else: let the client use TLS, \
                    or start the server without --tls-certificate";
        return Error::new(ErrorKind::InvalidData, text);
    }
    let what = if is_new { "no TLS connection was agreed on" } else { "TLS" };
    Error::new(ErrorKind::InvalidData, format!("{what}: {e}"))
}

impl TlsChannel {
    /// Creates the channel of a connection before its handshake.
    pub fn new(mut connection: Connection) -> TlsChannel {
        // Written bytes are taken out at once.
        connection.set_buffer_limit(None);
        TlsChannel { connection: Mutex::new(connection), unsent: Mutex::default() }
    }

    /// Decrypts received bytes and appends the plaintext. Returns its length. `None`: the peer has
    /// closed the connection.
    pub fn decrypt(
        &self,
        socket: &TcpStream,
        mut arrived: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let before = out.len();
        let mut ended = false;
        let mut connection = self.connection.lock();
        let is_new = connection.is_handshaking();
        while !arrived.is_empty() && !ended {
            if connection.read_tls(&mut arrived)? == 0 {
                return Ok(None);
            }
            if let Err(e) = connection.process_new_packets() {
                let is_client = matches!(*connection, Connection::Client(_));
                drop(connection);
                // Send the alert to the peer.
                self.send_unsent(socket);
                return Err(broken(e, is_new, is_client));
            }
            let mut reader = connection.reader();
            loop {
                match reader.fill_buf() {
                    Ok([]) => {
                        ended = true;
                        break;
                    }
                    Ok(bytes) => {
                        out.extend_from_slice(bytes);
                        let len = bytes.len();
                        reader.consume(len);
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
        }
        drop(connection);
        if is_new {
            self.write_all(socket, &[])?;
        }
        let read = out.len() - before;
        Ok((read > 0 || !ended).then_some(read))
    }

    /// Encrypts these bytes and TLS's own messages, and appends them to the unsent bytes.
    fn encrypt(&self, bytes: &[u8], unsent: &mut Vec<u8>) -> Result<()> {
        let mut connection = self.connection.lock();
        connection.writer().write_all(bytes)?;
        while connection.wants_write() {
            connection.write_tls(unsent)?;
        }
        Ok(())
    }

    /// Sends the unsent bytes, then these.
    pub fn write_all(&self, mut socket: &TcpStream, bytes: &[u8]) -> Result<()> {
        let mut unsent = self.unsent.lock();
        let mut chunks = bytes.chunks(CHUNK);
        loop {
            let chunk = chunks.next();
            self.encrypt(chunk.unwrap_or_default(), &mut unsent)?;
            socket.write_all(&unsent)?;
            unsent.clear();
            if chunks.len() == 0 {
                unsent.shrink_to(RETAINED_CAPACITY);
                return Ok(());
            }
        }
    }

    /// Sends as much as the socket accepts at once. `None`: all; otherwise the number of encrypted
    /// bytes.
    pub fn write_some(&self, socket: &TcpStream, bytes: &[u8]) -> Result<Option<usize>> {
        let mut unsent = self.unsent.lock();
        let mut taken = 0;
        loop {
            let sent = send_some(socket, &unsent)?;
            unsent.drain(..sent);
            if !unsent.is_empty() {
                return Ok(Some(taken));
            }
            if taken == bytes.len() {
                unsent.shrink_to(RETAINED_CAPACITY);
                return Ok(None);
            }
            let chunk = &bytes[taken..bytes.len().min(taken + CHUNK)];
            self.encrypt(chunk, &mut unsent)?;
            taken += chunk.len();
        }
    }

    /// Sends the unsent bytes as far as possible without waiting, for a connection that ends.
    fn send_unsent(&self, socket: &TcpStream) {
        // Do not interrupt another sender within a record.
        let Some(mut unsent) = self.unsent.try_lock() else { return };
        // Ignore errors: the connection ends either way.
        let _ = self.encrypt(&[], &mut unsent).and_then(|()| send_some(socket, &unsent));
        unsent.clear();
    }

    /// Sends close_notify, if that takes no waiting: without it, the peer cannot exclude truncation
    /// by an attacker.
    pub fn send_close_notify(&self, socket: &TcpStream) {
        self.connection.lock().send_close_notify();
        self.send_unsent(socket);
    }

    /// Returns version and cipher suite, as Java names them.
    pub fn negotiated_tls(&self) -> Option<(String, String)> {
        let connection = self.connection.lock();
        let version = format!("{:?}", connection.protocol_version()?).replacen('_', ".", 1);
        let suite = connection.negotiated_cipher_suite()?.suite();
        let suite = suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1);
        Some((version, suite))
    }
}
