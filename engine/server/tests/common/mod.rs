//! A hand-written client of the protocol that shares no code with the server: it builds and parses
//! all bytes here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const ERROR: u8 = 0x00;
pub const STARTUP: u8 = 0x01;
pub const READY: u8 = 0x02;
pub const OPTIONS: u8 = 0x05;
pub const SUPPORTED: u8 = 0x06;
pub const QUERY: u8 = 0x07;
pub const RESULT: u8 = 0x08;
pub const PREPARE: u8 = 0x09;
pub const EXECUTE: u8 = 0x0a;
pub const REGISTER: u8 = 0x0b;
pub const EVENT: u8 = 0x0c;
pub const BATCH: u8 = 0x0d;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub version: u8,
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    pub body: Vec<u8>,
}

pub fn short(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

pub fn int(n: i32) -> [u8; 4] {
    n.to_be_bytes()
}

pub fn string(text: &str) -> Vec<u8> {
    [&short(text.len() as u16)[..], text.as_bytes()].concat()
}

pub fn long_string(text: &str) -> Vec<u8> {
    [&int(text.len() as i32)[..], text.as_bytes()].concat()
}

pub fn value(bytes: &[u8]) -> Vec<u8> {
    [&int(bytes.len() as i32)[..], bytes].concat()
}

pub fn map(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = short(pairs.len() as u16).to_vec();
    for (name, value) in pairs {
        out.extend(string(name));
        out.extend(string(value));
    }
    out
}

/// Returns a frame of versions 3 and 4, and an envelope of version 5.
pub fn frame(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![version, flags];
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend(int(body.len() as i32));
    out.extend(body);
    out
}

/// Returns the checksum of a segment's header, computed bit by bit.
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x875060;
    for b in bytes {
        crc ^= (*b as u32) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x1000000 != 0 {
                crc ^= 0x1974F0B;
            }
        }
    }
    crc
}

pub fn crc32(payload: &[u8]) -> u32 {
    let mut crc = !0u32;
    for b in [0xfa, 0x2d, 0x55, 0xca].iter().chain(payload) {
        crc ^= *b as u32;
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Returns an uncompressed segment.
pub fn segment(payload: &[u8], self_contained: bool) -> Vec<u8> {
    let header = payload.len() as u32 | (self_contained as u32) << 17;
    let mut out = header.to_le_bytes()[..3].to_vec();
    out.extend(&crc24(&out.clone()).to_le_bytes()[..3]);
    out.extend(payload);
    out.extend(crc32(payload).to_le_bytes());
    out
}

/// Returns the parameters of a query without bound values, at consistency ONE.
pub fn plain(version: u8) -> Vec<u8> {
    match version {
        5 => [&short(1)[..], &int(0)].concat(),
        _ => [&short(1)[..], &[0]].concat(),
    }
}

/// A connection.
pub struct Peer<S = TcpStream> {
    pub socket: S,
    pub version: u8,
    segments: bool,
    inner: Vec<u8>,
}

impl Peer {
    pub fn connect(address: SocketAddr, version: u8) -> Peer {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Peer::over(socket, version)
    }

    /// Connects and sends STARTUP.
    pub fn ready(address: SocketAddr, version: u8) -> Peer {
        let mut peer = Peer::connect(address, version);
        peer.startup(&[("CQL_VERSION", "3.0.0")]);
        peer
    }
}

impl<S: Read + Write> Peer<S> {
    /// Uses an existing connection.
    pub fn over(socket: S, version: u8) -> Peer<S> {
        Peer { socket, version, segments: false, inner: vec![] }
    }

    pub fn startup(&mut self, options: &[(&str, &str)]) {
        self.send(1, STARTUP, &map(options));
        let answer = self.receive().unwrap();
        assert_eq!((answer.opcode, answer.stream), (READY, 1), "{answer:?}");
        self.settle();
    }

    /// STARTUP is done: in version 5 segments follow.
    pub fn settle(&mut self) {
        self.segments = self.version == 5;
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn send(&mut self, stream: i16, opcode: u8, body: &[u8]) {
        let frame = frame(self.version, 0, stream, opcode, body);
        self.send_framed(&frame);
    }

    /// Sends envelopes, in segments if the connection has them.
    pub fn send_framed(&mut self, envelopes: &[u8]) {
        if !self.segments {
            return self.send_bytes(envelopes);
        }
        if envelopes.len() <= 131_071 {
            return self.send_bytes(&segment(envelopes, true));
        }
        for part in envelopes.chunks(131_071) {
            self.send_bytes(&segment(part, false));
        }
    }

    fn exactly(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn more(&mut self) -> Option<()> {
        let header = self.exactly(6)?;
        let fields = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let said = u32::from_le_bytes([header[3], header[4], header[5], 0]);
        assert_eq!(said, crc24(&header[..3]) & 0xffffff);
        let payload = self.exactly((fields & 0x1ffff) as usize)?;
        let said = self.exactly(4)?;
        assert_eq!(said, crc32(&payload).to_le_bytes());
        self.inner.extend(payload);
        Some(())
    }

    /// Returns the next response; `None` if the server has closed the connection.
    pub fn receive(&mut self) -> Option<Answer> {
        let (header, body);
        if self.segments {
            while self.inner.len() < 9 {
                self.more()?;
            }
            header = self.inner[..9].to_vec();
            let len = u32::from_be_bytes(header[5..9].try_into().unwrap()) as usize;
            while self.inner.len() < 9 + len {
                self.more()?;
            }
            body = self.inner[9..9 + len].to_vec();
            self.inner.drain(..9 + len);
        } else {
            header = self.exactly(9)?;
            let len = u32::from_be_bytes(header[5..9].try_into().unwrap()) as usize;
            body = self.exactly(len)?;
        }
        Some(Answer {
            version: header[0],
            flags: header[1],
            stream: i16::from_be_bytes([header[2], header[3]]),
            opcode: header[4],
            body,
        })
    }

    /// Runs a statement without bound values and returns its response.
    pub fn query(&mut self, text: &str) -> Answer {
        let body = [long_string(text), plain(self.version)].concat();
        self.send(7, QUERY, &body);
        let answer = self.receive().unwrap();
        assert_eq!(answer.stream, 7);
        answer
    }

    /// As `query`, for a statement that must succeed.
    pub fn good(&mut self, text: &str) -> Answer {
        let answer = self.query(text);
        assert_eq!(answer.opcode, RESULT, "{text}: {}", answer.error().1);
        answer
    }

    /// Prepares a statement; returns its id, and in version 5 the id of its columns.
    pub fn prepare(&mut self, text: &str) -> (Vec<u8>, Vec<u8>) {
        let mut body = long_string(text);
        if self.version == 5 {
            body.extend(int(0));
        }
        self.send(8, PREPARE, &body);
        let answer = self.receive().unwrap();
        assert_eq!(answer.opcode, RESULT, "{text}: {:?}", answer.error());
        assert_eq!(answer.body[..4], int(4));
        let id = answer.body[6..22].to_vec();
        let metadata = if self.version == 5 { answer.body[24..40].to_vec() } else { vec![] };
        (id, metadata)
    }

    /// Prepares a statement that may be refused.
    pub fn prepare_or_refuse(&mut self, text: &str) -> Answer {
        let mut body = long_string(text);
        if self.version == 5 {
            body.extend(int(0));
        }
        self.send(8, PREPARE, &body);
        self.receive().unwrap()
    }

    /// Returns the body of EXECUTE with these values and flags.
    pub fn execute_body(&self, ids: &(Vec<u8>, Vec<u8>), values: &[Vec<u8>], flags: u8) -> Vec<u8> {
        let mut body = [&short(16)[..], &ids.0].concat();
        if self.version == 5 {
            body.extend(short(16));
            body.extend(&ids.1);
        }
        body.extend(short(1));
        let flags = flags | u8::from(!values.is_empty());
        match self.version {
            5 => body.extend(int(flags.into())),
            _ => body.push(flags),
        }
        if !values.is_empty() {
            body.extend(short(values.len() as u16));
            values.iter().for_each(|v| body.extend(v));
        }
        body
    }
}

impl Answer {
    /// Returns code and text of an error.
    pub fn error(&self) -> (i32, String) {
        if self.opcode != ERROR {
            return (-1, String::new());
        }
        let code = i32::from_be_bytes(self.body[..4].try_into().unwrap());
        let len = u16::from_be_bytes(self.body[4..6].try_into().unwrap()) as usize;
        (code, String::from_utf8(self.body[6..6 + len].to_vec()).unwrap())
    }

    /// Returns the warnings of the response.
    pub fn warnings(&self) -> Vec<String> {
        self.parts().0
    }

    /// Returns the warnings, and the body after them; skips the trace id.
    fn parts(&self) -> (Vec<String>, &[u8]) {
        let (mut body, mut all) = (&self.body[..], vec![]);
        if self.flags & 0x08 != 0 {
            let short = |body: &mut &[u8]| {
                let (head, rest) = body.split_first_chunk::<2>().unwrap();
                *body = rest;
                u16::from_be_bytes(*head) as usize
            };
            for _ in 0..short(&mut body) {
                let len = short(&mut body);
                let (text, rest) = body.split_at(len);
                all.push(String::from_utf8(text.to_vec()).unwrap());
                body = rest;
            }
        }
        (all, body)
    }

    /// Returns the type of a result.
    pub fn kind(&self) -> i32 {
        assert_eq!(self.opcode, RESULT, "{:?}", self.error());
        i32::from_be_bytes(self.parts().1[..4].try_into().unwrap())
    }

    /// Returns the metadata flags of rows.
    pub fn rows_flags(&self) -> i32 {
        assert_eq!(self.kind(), 2);
        i32::from_be_bytes(self.body[4..8].try_into().unwrap())
    }

    /// Reports whether the body contains these bytes.
    pub fn has(&self, bytes: &[u8]) -> bool {
        self.body.windows(bytes.len()).any(|w| w == bytes)
    }
}
