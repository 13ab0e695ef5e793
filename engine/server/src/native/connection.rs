//! Thread of a connection: reads requests, answers quick ones, passes the others to workers.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::client::{Client, Dialect};
use super::login;
use super::statement::{self, Exchange};
use crate::node::{Node, RequestKind};
use crate::transport::{NO_TLS_HERE, Transport, looks_encrypted};
use crate::wire::{FrameHeader, FrameStream, Opcode, Version, WireError, WireRequest};

/// The state of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    /// The protocol properties are negotiated.
    Settled,
    /// The connection is set up.
    Begun,
    /// Later bytes cannot be understood.
    Close,
}

/// Answers a client until it goes, or is refused.
pub fn serve(node: &Arc<Node>, client: &Arc<Client>, transport: &Transport) {
    let socket = transport.socket();
    let options = &node.options;
    let mut stream = FrameStream::new(options.max_first_frame);
    node.set_up(socket);
    let begun = node.env.monotonic_nanos();
    let (mut has_begun, mut is_sent_away) = (false, false);
    // Arrival time of the requests being processed.
    let mut came = begun;
    let mut receipt = node.receipt();
    'reading: loop {
        loop {
            let next = match stream.take_frame() {
                Ok(Some((header, body))) => request(node, client, came, header, body),
                Ok(None) => break,
                Err((header, error)) => {
                    if !has_begun && looks_encrypted(stream.untaken()) {
                        tracing::warn!(client = %client.peer, "{NO_TLS_HERE}");
                    }
                    refuse(client, header.map_or(0, |h| h.stream), header, &error);
                    Next::Close
                }
            };
            match next {
                // A client with many unread responses continues after it has read them.
                Next::Request if client.outbox.is_full() => {
                    client.outbox.send();
                    client.outbox.wait_for_room();
                }
                Next::Request => {}
                next @ (Next::Settled | Next::Begun) => {
                    // This response may still be unsegmented, while later ones are in segments.
                    client.outbox.send();
                    if let Some(dialect) = client.dialect.get()
                        && dialect.version == Version::V5
                    {
                        let lz4 = dialect.compression.is_some();
                        stream.begin_segments(lz4);
                        client.outbox.begin_segments(lz4);
                    }
                    if next == Next::Begun {
                        stream.set_most(options.max_frame);
                        let _ = socket.set_read_timeout(options.idle_timeout);
                        has_begun = true;
                    }
                }
                Next::Close => {
                    client.outbox.finish();
                    is_sent_away = true;
                    break 'reading;
                }
            }
        }
        client.outbox.send();
        client.outbox.wait_for_room();
        if !has_begun {
            let left = node.left_to_begin(begun);
            if left.is_none() || socket.set_read_timeout(left).is_err() {
                tracing::debug!(client = %client.peer, "no conversation has begun in time");
                break;
            }
        }
        if !receipt.note(stream.held_bytes(), socket) {
            tracing::debug!(client = %client.peer, "a request comes too slowly");
            break;
        }
        match transport.read_into(stream.incoming()) {
            Ok(None) => break,
            Ok(Some(bytes)) => {
                client.meter.received(bytes);
                came = node.env.monotonic_nanos();
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                tracing::warn!(client = %client.peer, "{e}");
                is_sent_away = true;
                break;
            }
            Err(e) => {
                let within = stream.is_within_a_frame();
                tracing::debug!(client = %client.peer, within, "the connection ended: {e}");
                break;
            }
        }
    }
    if node.is_stopping() {
        // The server stopped reading: the client still gets its pending responses.
        client.waiting.wait_until_empty();
        client.outbox.finish();
    }
    if is_sent_away {
        client.gone.store(true, Ordering::Relaxed);
        node.part(transport);
    }
    client.close();
}

/// Responds with an error to an unreadable request. The response has the version of the connection;
/// before negotiation, that of the request if supported, else the newest.
fn refuse(client: &Client, stream: i16, header: Option<FrameHeader>, error: &WireError) {
    if client.dialect.get().is_some() {
        return client.refuse(stream, error);
    }
    let version = header.and_then(|h| h.version().ok()).unwrap_or(Version::V5);
    client.refuse_in(version, None, stream, error);
}

/// Reports whether the client still has to log in.
fn is_asked(node: &Node, client: &Client) -> bool {
    node.login && client.session.role().is_none()
}

/// Answers a request or passes it to a worker. `came`: arrival time of its last bytes.
fn request(
    node: &Arc<Node>,
    client: &Arc<Client>,
    came: u64,
    header: FrameHeader,
    body: &[u8],
) -> Next {
    client.requests.fetch_add(1, Ordering::Relaxed);
    let version = match header.version() {
        Ok(version) => version,
        Err(error) => {
            // Cassandra answers this on stream 0.
            refuse(client, 0, None, &error);
            return Next::Close;
        }
    };
    let begun = client.dialect.get().copied();
    if let Some(dialect) = begun
        && dialect.version != version
    {
        let text = "Invalid message version. Got";
        let error = WireError::protocol(format!(
            "{text} {}/v{0} but previous messages on this connection had version {}/v{1}",
            version as u8, dialect.version as u8
        ));
        client.refuse(header.stream, &error);
        return Next::Close;
    }
    let opcode = match header.opcode() {
        Ok(opcode) => opcode,
        Err(error) => {
            refuse(client, header.stream, Some(header), &error);
            return if begun.is_some() { Next::Request } else { Next::Close };
        }
    };
    let unpacked;
    let mut body = body;
    if header.is_compressed() && version < Version::V5 {
        let compression = begun.and_then(|d| d.compression);
        let unpack = |c: crate::wire::BodyCompression| c.unpack(body, node.options.max_frame);
        let none = || Err(WireError::protocol("Compression was not agreed on in STARTUP"));
        match compression.map_or_else(none, unpack) {
            Ok(bytes) => unpacked = bytes,
            Err(error) => {
                refuse(client, header.stream, Some(header), &error);
                return Next::Close;
            }
        }
        body = &unpacked;
    }
    let request = match WireRequest::read(opcode, version, header.has_payload(), body) {
        Ok(request) => request,
        Err(error) => {
            refuse(client, header.stream, Some(header), &error);
            return Next::Request;
        }
    };
    if let Some(dialect) = begun
        && request.is_statement()
        && !is_asked(node, client)
    {
        let (stream, bytes) = (header.stream, body.len());
        let conversation = Exchange { node, client, dialect, stream, bytes, came };
        statement::take(&conversation, request, header.is_traced());
        return Next::Request;
    }
    let next = about_conversation(node, client, (header, version, opcode), request, begun);
    client.meter.answered(RequestKind::of(opcode), node.nanos_since(came));
    next
}

/// Answers a request about the connection itself (no statement); refuses requests in the wrong
/// state.
fn about_conversation(
    node: &Node,
    client: &Client,
    (header, version, opcode): (FrameHeader, Version, Opcode),
    request: WireRequest<'_>,
    begun: Option<Dialect>,
) -> Next {
    match (request, begun) {
        (WireRequest::Options, _) => login::options(client, version, header.stream),
        (WireRequest::Startup(options), None) => match login::startup(client, version, &options) {
            Ok(dialect) => {
                // This is the last uncompressed response.
                if node.login {
                    login::ask(client, version, header.stream);
                } else {
                    client.put(version, None, header.stream, Opcode::Ready, (&[], None), |_| {});
                }
                let _ = client.dialect.set(dialect);
                return if node.login { Next::Settled } else { Next::Begun };
            }
            Err(error) => {
                refuse(client, header.stream, Some(header), &error);
                return Next::Close;
            }
        },
        (_, None) => {
            let name = format!("{opcode:?}").to_uppercase();
            let text = format!("Unexpected message {name}, expecting STARTUP or OPTIONS");
            refuse(client, header.stream, Some(header), &WireError::protocol(text));
            return Next::Close;
        }
        (WireRequest::Startup(_), Some(_)) => {
            let text = "Unexpected message STARTUP, the conversation has begun";
            client.refuse(header.stream, &WireError::protocol(text));
        }
        (WireRequest::AuthResponse(token), Some(_)) if is_asked(node, client) => {
            return match login::log_in(node, client, token) {
                Ok(()) => {
                    let about = (&[][..], None);
                    client.answer(header.stream, Opcode::AuthSuccess, about, |body| {
                        body.auth_success();
                    });
                    Next::Begun
                }
                Err(error) => {
                    client.refuse(header.stream, &error);
                    Next::Close
                }
            };
        }
        (WireRequest::AuthResponse(_), Some(_)) => {
            let text = "Unexpected message AUTH_RESPONSE: nobody has to log in here";
            client.refuse(header.stream, &WireError::protocol(text));
        }
        (WireRequest::Register(kinds), Some(_)) if !is_asked(node, client) => {
            match client.listen(&kinds) {
                Ok(()) => client.answer(header.stream, Opcode::Ready, (&[], None), |_| {}),
                Err(error) => client.refuse(header.stream, &error),
            }
        }
        (_, Some(_)) => {
            let name = format!("{opcode:?}").to_uppercase();
            let text = format!("Unexpected message {name}, expecting AUTH_RESPONSE");
            client.refuse(header.stream, &WireError::protocol(text));
            return Next::Close;
        }
    }
    Next::Request
}
