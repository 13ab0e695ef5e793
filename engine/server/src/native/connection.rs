//! Thread of a connection: reads requests, answers quick ones, passes the others to workers.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::client::{Client, NegotiatedProtocol};
use super::login;
use super::statement::{self, Exchange};
use crate::node::{Node, RequestKind};
use crate::transport::{TLS_ON_PLAIN_PORT, Transport, is_tls_handshake};
use crate::wire::{FrameHeader, FrameStream, Opcode, Version, WireError, WireRequest};

/// The state of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    /// The protocol properties are negotiated.
    Negotiated,
    /// The connection is set up.
    Ready,
    /// Later bytes cannot be understood.
    Close,
}

/// Answers a client until it goes, or is refused.
pub fn serve(node: &Arc<Node>, client: &Arc<Client>, transport: &Transport) {
    let socket = transport.socket();
    let options = &node.options;
    let mut stream = FrameStream::new(options.max_first_frame);
    node.set_up(socket);
    let started = node.env.monotonic_nanos();
    let (mut is_ready, mut is_refused) = (false, false);
    // Arrival time of the requests being processed.
    let mut arrived = started;
    let mut receive_progress = node.receive_progress();
    'reading: loop {
        loop {
            let next = match stream.take_frame() {
                Ok(Some((header, body))) => request(node, client, arrived, header, body),
                Ok(None) => break,
                Err((header, error)) => {
                    if !is_ready && is_tls_handshake(stream.unparsed()) {
                        tracing::warn!(client = %client.peer, "{TLS_ON_PLAIN_PORT}");
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
                next @ (Next::Negotiated | Next::Ready) => {
                    // This response may still be unsegmented, while later ones are in segments.
                    client.outbox.send();
                    if let Some(negotiated) = client.negotiated.get()
                        && negotiated.version == Version::V5
                    {
                        let lz4 = negotiated.compression.is_some();
                        stream.begin_segments(lz4);
                        client.outbox.begin_segments(lz4);
                    }
                    if next == Next::Ready {
                        stream.set_most(options.max_frame);
                        let _ = socket.set_read_timeout(options.idle_timeout);
                        is_ready = true;
                    }
                }
                Next::Close => {
                    client.outbox.finish();
                    is_refused = true;
                    break 'reading;
                }
            }
        }
        client.outbox.send();
        client.outbox.wait_for_room();
        if !is_ready {
            let left = node.left_to_begin(started);
            if left.is_none() || socket.set_read_timeout(left).is_err() {
                tracing::debug!(client = %client.peer, "no conversation has begun in time");
                break;
            }
        }
        if !receive_progress.note(stream.buffered_bytes(), socket) {
            tracing::debug!(client = %client.peer, "a request comes too slowly");
            break;
        }
        match transport.read_into(stream.incoming()) {
            Ok(None) => break,
            Ok(Some(bytes)) => {
                client.meter.received(bytes);
                arrived = node.env.monotonic_nanos();
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                tracing::warn!(client = %client.peer, "{e}");
                is_refused = true;
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
    if is_refused {
        client.has_ended.store(true, Ordering::Relaxed);
        node.lingering_close(transport);
    }
    client.close();
}

/// Responds with an error to an unreadable request. The response has the version of the connection;
/// before negotiation, that of the request if supported, else the newest.
fn refuse(client: &Client, stream: i16, header: Option<FrameHeader>, error: &WireError) {
    if client.negotiated.get().is_some() {
        return client.refuse(stream, error);
    }
    let version = header.and_then(|h| h.version().ok()).unwrap_or(Version::V5);
    client.refuse_in(version, None, stream, error);
}

/// Reports whether the client still has to log in.
fn must_log_in(node: &Node, client: &Client) -> bool {
    node.login && client.session.role().is_none()
}

/// Answers a request or passes it to a worker. `arrived`: arrival time of its last bytes.
fn request(
    node: &Arc<Node>,
    client: &Arc<Client>,
    arrived: u64,
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
    let negotiated = client.negotiated.get().copied();
    if let Some(agreed) = negotiated
        && agreed.version != version
    {
        let text = "Invalid message version. Got";
        let error = WireError::protocol(format!(
            "{text} {}/v{0} but previous messages on this connection had version {}/v{1}",
            version as u8, agreed.version as u8
        ));
        client.refuse(header.stream, &error);
        return Next::Close;
    }
    let opcode = match header.opcode() {
        Ok(opcode) => opcode,
        Err(error) => {
            refuse(client, header.stream, Some(header), &error);
            return if negotiated.is_some() { Next::Request } else { Next::Close };
        }
    };
    let unpacked;
    let mut body = body;
    if header.is_compressed() && version < Version::V5 {
        let compression = negotiated.and_then(|d| d.compression);
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
    if let Some(agreed) = negotiated
        && request.is_statement()
        && !must_log_in(node, client)
    {
        let (stream, bytes) = (header.stream, body.len());
        let exchange = Exchange { node, client, negotiated: agreed, stream, bytes, arrived };
        statement::take(&exchange, request, header.is_traced());
        return Next::Request;
    }
    let next = connection_request(node, client, (header, version, opcode), request, negotiated);
    client.meter.answered(RequestKind::of(opcode), node.nanos_since(arrived));
    next
}

/// Answers a request about the connection itself (no statement); refuses requests in the wrong
/// state.
fn connection_request(
    node: &Node,
    client: &Client,
    (header, version, opcode): (FrameHeader, Version, Opcode),
    request: WireRequest<'_>,
    negotiated: Option<NegotiatedProtocol>,
) -> Next {
    match (request, negotiated) {
        (WireRequest::Options, _) => login::options(client, version, header.stream),
        (WireRequest::Startup(options), None) => match login::startup(client, version, &options) {
            Ok(negotiated) => {
                // This is the last uncompressed response.
                if node.login {
                    login::ask(client, version, header.stream);
                } else {
                    client.put(version, None, header.stream, Opcode::Ready, (&[], None), |_| {});
                }
                let _ = client.negotiated.set(negotiated);
                return if node.login { Next::Negotiated } else { Next::Ready };
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
        (WireRequest::AuthResponse(token), Some(_)) if must_log_in(node, client) => {
            return match login::log_in(node, client, token) {
                Ok(()) => {
                    let about = (&[][..], None);
                    client.answer(header.stream, Opcode::AuthSuccess, about, |body| {
                        body.auth_success();
                    });
                    Next::Ready
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
        (WireRequest::Register(kinds), Some(_)) if !must_log_in(node, client) => {
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
