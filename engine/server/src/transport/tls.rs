//! A connection that is encrypted. Its handshake is a part of reading: the thread of the connection
//! takes in what comes and answers it, under the time limits that hold before a conversation has
//! begun.
//!
//! Invariants: the lock of the connection is held while something is encrypted or decrypted, never
//! while the client is waited for; the lock of what is unsent is held by the one that sends, while it
//! does, so that bytes go in the order in which they were encrypted. Who takes both takes that of
//! what is unsent first. After the handshake the thread that reads sends nothing: what the encryption
//! itself has to say goes with the next answer.

use std::io::{BufRead, Error, ErrorKind, Result, Write};
use std::net::TcpStream;

use parking_lot::Mutex;
use rustls::{Connection, InvalidMessage};

use super::send::send_some;

/// Bytes that are encrypted at once.
const CHUNK: usize = 32 << 10;
/// What the buffer of encrypted bytes keeps.
const KEPT: usize = 8 << 10;

#[derive(Debug)]
pub struct TlsChannel {
    connection: Mutex<Connection>,
    /// What is encrypted and not sent yet.
    unsent: Mutex<Vec<u8>>,
}

/// An error of the protocol beneath.
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
    /// Over a connection whose handshake is still to come.
    pub fn new(mut connection: Connection) -> TlsChannel {
        // What is written is taken out at once.
        connection.set_buffer_limit(None);
        TlsChannel { connection: Mutex::new(connection), unsent: Mutex::default() }
    }

    /// Takes in bytes that came, and appends what was in them: how many bytes. `None`: the client
    /// has ended the connection.
    pub fn decrypt(
        &self,
        socket: &TcpStream,
        mut came: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let before = out.len();
        let mut ended = false;
        let mut connection = self.connection.lock();
        let is_new = connection.is_handshaking();
        while !came.is_empty() && !ended {
            if connection.read_tls(&mut came)? == 0 {
                return Ok(None);
            }
            if let Err(e) = connection.process_new_packets() {
                let is_client = matches!(*connection, Connection::Client(_));
                drop(connection);
                // The other side is told why, if it listens.
                self.send_lying(socket);
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

    /// Encrypts these bytes behind what is unsent, and behind what the encryption itself has to say.
    fn encrypt(&self, bytes: &[u8], unsent: &mut Vec<u8>) -> Result<()> {
        let mut connection = self.connection.lock();
        connection.writer().write_all(bytes)?;
        while connection.wants_write() {
            connection.write_tls(unsent)?;
        }
        Ok(())
    }

    /// Sends these bytes, and before them what lies here.
    pub fn write_all(&self, mut socket: &TcpStream, bytes: &[u8]) -> Result<()> {
        let mut unsent = self.unsent.lock();
        let mut chunks = bytes.chunks(CHUNK);
        loop {
            let chunk = chunks.next();
            self.encrypt(chunk.unwrap_or_default(), &mut unsent)?;
            socket.write_all(&unsent)?;
            unsent.clear();
            if chunks.len() == 0 {
                unsent.shrink_to(KEPT);
                return Ok(());
            }
        }
    }

    /// Sends what the connection takes at once. `None`: all; else how many bytes were encrypted.
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
                unsent.shrink_to(KEPT);
                return Ok(None);
            }
            let chunk = &bytes[taken..bytes.len().min(taken + CHUNK)];
            self.encrypt(chunk, &mut unsent)?;
            taken += chunk.len();
        }
    }

    /// Sends what lies here as far as that takes no waiting, for a connection that ends.
    fn send_lying(&self, socket: &TcpStream) {
        // Somebody who is sending would be interrupted within a record.
        let Some(mut unsent) = self.unsent.try_lock() else { return };
        // Whether it arrives is no matter: the connection ends either way.
        let _ = self.encrypt(&[], &mut unsent).and_then(|()| send_some(socket, &unsent));
        unsent.clear();
    }

    /// Tells the client that no more comes, if that takes no waiting: without it, it could have been
    /// cut off by somebody in between.
    pub fn say_goodbye(&self, socket: &TcpStream) {
        self.connection.lock().send_close_notify();
        self.send_lying(socket);
    }

    /// The version and the ciphers, as Java names them.
    pub fn agreed(&self) -> Option<(String, String)> {
        let connection = self.connection.lock();
        let version = format!("{:?}", connection.protocol_version()?).replacen('_', ".", 1);
        let suite = connection.negotiated_cipher_suite()?.suite();
        let suite = suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1);
        Some((version, suite))
    }
}
