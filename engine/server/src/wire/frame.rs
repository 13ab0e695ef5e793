//! Envelopes: the header before each body (section 2), and the prefix of a response's body.

use super::compress::BodyCompression;
use super::error::WireError;
use super::write::{put_int, put_string_list};

/// Length of a header.
pub const FRAME_HEADER: usize = 9;
/// Direction bit of responses in the version byte.
const RESPONSE: u8 = 0x80;

/// Flags of a header.
const COMPRESSED: u8 = 0x01;
const TRACING: u8 = 0x02;
const CUSTOM_PAYLOAD: u8 = 0x04;
const WARNING: u8 = 0x08;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Version {
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

/// Reports whether the server supports this version.
pub fn is_known_version(version: u8) -> bool {
    (Version::V3 as u8..=Version::V5 as u8).contains(&version)
}

/// Returns the error for another version. Drivers recognize its message.
pub fn unsupported_version(version: u8) -> WireError {
    WireError::protocol(format!(
        "Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)"
    ))
}

impl Version {
    fn of(byte: u8) -> Option<Version> {
        [Version::V3, Version::V4, Version::V5].into_iter().find(|v| *v as u8 == byte)
    }
}

/// The opcode of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0a,
    Register = 0x0b,
    Event = 0x0c,
    Batch = 0x0d,
    AuthChallenge = 0x0e,
    AuthResponse = 0x0f,
    AuthSuccess = 0x10,
}

impl Opcode {
    const RESPONSES: [Opcode; 8] = [
        Opcode::Error,
        Opcode::Ready,
        Opcode::Authenticate,
        Opcode::Supported,
        Opcode::Result,
        Opcode::Event,
        Opcode::AuthChallenge,
        Opcode::AuthSuccess,
    ];
    const REQUESTS: [Opcode; 8] = [
        Opcode::Startup,
        Opcode::Options,
        Opcode::Query,
        Opcode::Prepare,
        Opcode::Execute,
        Opcode::Register,
        Opcode::Batch,
        Opcode::AuthResponse,
    ];
}

/// The header of a request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Version byte; the version may be unsupported.
    pub version: u8,
    flags: u8,
    /// Stream id, which matches the response.
    pub stream: i16,
    opcode: u8,
    /// Length of the body, as claimed by the peer.
    pub length: u32,
}

impl FrameHeader {
    /// Reads the header at the start of these bytes; `None` if there are too few.
    pub fn read(bytes: &[u8]) -> Option<FrameHeader> {
        let [version, flags, s0, s1, opcode, l0, l1, l2, l3] = *bytes.first_chunk()?;
        Some(FrameHeader {
            version,
            flags,
            stream: i16::from_be_bytes([s0, s1]),
            opcode,
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }

    /// Returns the version.
    ///
    /// # Errors
    /// An unsupported version; a response.
    pub fn version(&self) -> Result<Version, WireError> {
        if self.version & RESPONSE != 0 {
            return Err(WireError::protocol(format!(
                "Wrong protocol direction: a response of version {} came",
                self.version & !RESPONSE
            )));
        }
        Version::of(self.version).ok_or_else(|| unsupported_version(self.version))
    }

    /// Reports whether it is the header of a response.
    pub fn is_response(&self) -> bool {
        self.version & RESPONSE != 0
    }

    /// Returns version and opcode of a response.
    ///
    /// # Errors
    /// A version that the client does not support, an unknown opcode, a request.
    pub fn response(&self) -> Result<(Version, Opcode), WireError> {
        let version = self.version & !RESPONSE;
        let known = Opcode::RESPONSES.into_iter().find(|o| *o as u8 == self.opcode);
        match (self.is_response(), Version::of(version), known) {
            (true, Some(version), Some(opcode)) => Ok((version, opcode)),
            (true, None, _) => Err(unsupported_version(version)),
            _ => Err(WireError::protocol(format!("No response has the opcode {}", self.opcode))),
        }
    }

    /// Returns the opcode of a request.
    ///
    /// # Errors
    /// An opcode that no request has.
    pub fn opcode(&self) -> Result<Opcode, WireError> {
        let known = Opcode::REQUESTS.into_iter().find(|o| *o as u8 == self.opcode);
        known.ok_or_else(|| match self.opcode {
            0x00..=0x10 => WireError::protocol(format!(
                "Wrong protocol direction: opcode {} is one of responses",
                self.opcode
            )),
            _ => WireError::protocol(format!("Unknown opcode {}", self.opcode)),
        })
    }

    /// Reports whether the body is compressed.
    pub fn is_compressed(&self) -> bool {
        self.flags & COMPRESSED != 0
    }

    /// Reports whether the request is to be traced, or the response was.
    pub fn is_traced(&self) -> bool {
        self.flags & TRACING != 0
    }

    /// Reports whether warnings precede the body of a response.
    pub fn has_warnings(&self) -> bool {
        self.flags & WARNING != 0
    }

    /// Reports whether a custom payload precedes the body.
    pub fn has_payload(&self) -> bool {
        self.flags & CUSTOM_PAYLOAD != 0
    }
}

/// Appends a request; `put_body` writes its body.
pub fn put_request(
    out: &mut Vec<u8>,
    version: Version,
    stream: i16,
    (opcode, traced): (Opcode, bool),
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[version as u8, if traced { TRACING } else { 0 }]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.push(opcode as u8);
    put_int(out, 0);
    body(out);
    put_length(out, start);
}

/// Writes the length of the body that ends here into its header at `start`.
fn put_length(out: &mut [u8], start: usize) {
    let at = start + FRAME_HEADER;
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[start + 5..at].copy_from_slice(&length.to_be_bytes());
}

/// Header data of a response.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// Protocol version of the connection.
    pub version: Version,
    /// Stream of the request; −1 for an event.
    pub stream: i16,
    /// Session id of the trace, if requested.
    pub trace: Option<[u8; 16]>,
    /// Warnings for the client. Version 3 cannot send them.
    pub warnings: &'a [String],
    /// Compression of bodies, in versions 3 and 4.
    pub compression: Option<BodyCompression>,
}

impl Envelope<'_> {
    /// Appends the response with this body.
    pub fn put(&self, out: &mut Vec<u8>, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        let warns = !self.warnings.is_empty() && self.version >= Version::V4;
        let mut flags = if warns { WARNING } else { 0 };
        out.push(self.version as u8 | RESPONSE);
        out.push(0);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.push(opcode as u8);
        put_int(out, 0);
        if let Some(session) = self.trace {
            flags |= TRACING;
            out.extend_from_slice(&session);
        }
        if warns {
            put_string_list(out, self.warnings.iter().map(|w| &**w));
        }
        body(out);
        let at = start + FRAME_HEADER;
        if let Some(compression) = self.compression.filter(|_| self.version < Version::V5)
            && out.len() > at
        {
            flags |= COMPRESSED;
            let packed = compression.pack(&out[at..]);
            out.truncate(at);
            out.extend_from_slice(&packed);
        }
        out[start + 1] = flags;
        put_length(out, start);
    }
}
