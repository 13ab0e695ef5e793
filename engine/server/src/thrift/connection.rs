//! Connection of a Thrift client. Its first bytes determine the framing: a frame begins with its
//! length, followed by a message. An unframed message begins with its version, or, in the old form,
//! with the length of the method's name and the name.

use std::io::ErrorKind;
use std::net::SocketAddr;

use super::binary::ThriftMessage;
use super::session::ThriftSession;
use crate::node::{Node, RequestKind};
use crate::transport::{TLS_ON_PLAIN_PORT, Transport, is_tls_handshake};

/// First byte of an unframed message with a version.
const VERSIONED: u8 = 0x80;
/// Largest unframed message: it is parsed again whenever more of it arrives.
const MAX_UNFRAMED: usize = 1 << 20;

/// Capacity that a buffer retains for the next message.
const RETAINED_CAPACITY: usize = 64 << 10;

/// Framing of a connection's messages.
#[derive(Clone, Copy, PartialEq)]
enum Framing {
    /// Length-prefixed.
    Framed,
    /// Unframed.
    Plain,
}

/// Answers a client until it disconnects or sends malformed bytes.
pub fn serve_thrift(node: &Node, transport: &Transport, peer: SocketAddr, number: u64) {
    if read_calls(node, transport, peer, number) {
        node.lingering_close(transport);
    }
    transport.end();
}

/// As [`serve_thrift`], without closing the connection. Returns whether the client is refused
/// because of its bytes.
fn read_calls(node: &Node, transport: &Transport, peer: SocketAddr, number: u64) -> bool {
    let socket = transport.socket();
    node.set_up(socket);
    let meter = node.meter(number);
    let arrived = node.env.monotonic_nanos();
    let mut has_begun = false;
    let mut session = ThriftSession::new(node, meter.clone(), peer, socket.local_addr().ok());
    let (mut bytes, mut out) = (vec![], vec![]);
    let mut framing = None;
    let mut receive_progress = node.receive_progress();
    loop {
        if !has_begun {
            let left = node.left_to_begin(arrived);
            if left.is_none() || socket.set_read_timeout(left).is_err() {
                return false;
            }
        }
        match transport.read_into(&mut bytes) {
            Ok(Some(len)) => meter.received(len),
            Ok(None) => return false,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                tracing::warn!(client = %peer, "{e}");
                return true;
            }
            Err(_) => return false,
        }
        if !has_begun && is_tls_handshake(&bytes) {
            tracing::warn!(client = %peer, "{TLS_ON_PLAIN_PORT}");
            return true;
        }
        let read = node.env.monotonic_nanos();
        let mut at = 0;
        while let Some(known) = framing.or_else(|| framing_of(&bytes[at..])) {
            framing = Some(known);
            match answer(node, &mut session, &bytes[at..], known, &mut out) {
                Ok(Some(len)) => at += len,
                Ok(None) => break,
                Err(why) => {
                    tracing::debug!("a Thrift connection ends: {why}");
                    return true;
                }
            }
            meter.answered(RequestKind::Thrift, node.nanos_since(read));
            meter.sent(out.len());
            if transport.write_all(&out).is_err() {
                return false;
            }
            out.clear();
            out.shrink_to(RETAINED_CAPACITY);
            session.end_of_call();
            if session.is_over() {
                return true;
            }
            if !has_begun {
                has_begun = true;
                let _ = socket.set_read_timeout(node.options.idle_timeout);
            }
        }
        bytes.drain(..at);
        if bytes.is_empty() {
            bytes.shrink_to(RETAINED_CAPACITY);
        }
        if !receive_progress.note(bytes.len(), socket) {
            return false;
        }
    }
}

/// Returns the framing of a connection with these first bytes; `None` if there are too few.
fn framing_of(bytes: &[u8]) -> Option<Framing> {
    match bytes {
        [VERSIONED, ..] => Some(Framing::Plain),
        // The name of a method; a frame has a version or a length there.
        [_, _, _, _, letter, ..] if letter.is_ascii_alphabetic() => Some(Framing::Plain),
        [_, _, _, _, _, ..] => Some(Framing::Framed),
        _ => None,
    }
}

/// Answers the message at the start of these bytes, and returns its length; `None` if it is
/// incomplete.
fn answer(
    node: &Node,
    session: &mut ThriftSession,
    bytes: &[u8],
    framing: Framing,
    out: &mut Vec<u8>,
) -> Result<Option<usize>, &'static str> {
    let (message, len) = match framing {
        Framing::Framed => {
            let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
            let len = u32::from_be_bytes(*len) as usize;
            let options = &node.options;
            if len > if session.must_log_in() { options.max_first_frame } else { options.max_frame }
            {
                return Err("a frame is too large");
            }
            let Some(message) = rest.get(..len) else { return Ok(None) };
            (message, len + 4)
        }
        Framing::Plain => match ThriftMessage::call_length(bytes) {
            Ok(Some(len)) => (&bytes[..len], len),
            Ok(None) if bytes.len() > MAX_UNFRAMED => {
                return Err("a message without a frame is too large");
            }
            Ok(None) => return Ok(None),
            Err(e) => return Err(e.0),
        },
    };
    let start = out.len();
    if framing == Framing::Framed {
        out.extend_from_slice(&[0; 4]);
    }
    if !session.answer(node, message, out)? {
        out.truncate(start);
        return Ok(Some(len));
    }
    if framing == Framing::Framed {
        let len = u32::try_from(out.len() - start - 4).map_err(|_| "an answer is too large")?;
        out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }
    Ok(Some(len))
}
