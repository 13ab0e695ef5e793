//! Messages between a primary and a replica.
//!
//! A message is a frame: `length u32 ‖ CRC-32 u32 ‖ kind u8 ‖ payload`. The length is that of kind and
//! payload, and the CRC covers these. Integers are little-endian. Texts are UTF-8; a text at the end of
//! a payload has no length.
//!
//! | kind | from | payload |
//! |---:|---|---|
//! | 1 hello | primary | `FIRNREPL`, version u16, identity of the store u64, nonce of 32 bytes, whether a password is required u8 |
//! | 2 join | replica | version u16, nonce, proof of 32 bytes, whether it has a position u8, store u64, sequence number u64, name |
//! | 3 accept | primary | proof |
//! | 4 refuse | primary | reason |
//! | 5 copy | primary | number of files u64, bytes u64, reason |
//! | 6 file | primary | length u64, name |
//! | 7 data | primary | the next bytes of the file |
//! | 8 copied | primary | sequence number of the copy u64 |
//! | 9 trees | primary | definitions of all trees, as edits of a manifest |
//! | 10 change | primary | first and last sequence number u64, operations as in a record of the log |
//! | 11 alive | primary | newest sequence number u64 |
//! | 12 applied | replica | sequence number that is durable in the replica u64 |
//!
//! After `accept`, the primary sends either a copy (`copy`, files with their data, `copied`) or nothing,
//! then `trees`, then changes. It may send a copy again at any time. `trees` precedes the first change
//! of a new tree. `alive` is sent each second.
//!
//! Invariants: a decoder accepts no frame beyond its limit, and reserves memory only for bytes that
//! have arrived. Decoding never panics.

use std::io::{Read, Write};

use firn_kv::{ChangePosition, Error, ErrorKind, Result};

use crate::login::{PROOF_LEN, Proof};

/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Limit of a frame before the replica has logged in.
pub const SHORT_FRAME: usize = 4 << 10;
/// Limit of a frame: the largest batch, and its sequence numbers.
pub const LONG_FRAME: usize = firn_kv::MAX_BATCH_LEN + 64;
/// Bytes of a file in one message.
pub const DATA_LEN: usize = 256 << 10;

/// Limit of a frame of a copy.
pub const DATA_FRAME: usize = DATA_LEN + 64;

const MAGIC: &[u8; 8] = b"FIRNREPL";
const HEAD: usize = 8;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Hello {
        version: u16,
        store: u64,
        nonce: Proof,
        needs_password: bool,
    },
    Join {
        version: u16,
        nonce: Proof,
        proof: Proof,
        position: Option<ChangePosition>,
        name: String,
    },
    Accept {
        proof: Proof,
    },
    Refuse {
        reason: String,
    },
    Copy {
        files: u64,
        bytes: u64,
        reason: String,
    },
    File {
        len: u64,
        name: String,
    },
    Data {
        bytes: Vec<u8>,
    },
    Copied {
        seq: u64,
    },
    Trees {
        definitions: Vec<u8>,
    },
    Change {
        first: u64,
        last: u64,
        ops: Vec<u8>,
    },
    Alive {
        newest: u64,
    },
    Applied {
        seq: u64,
    },
}

/// Reader of the fields of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        let [flag] = self.take()?;
        (flag < 2).then_some(flag == 1)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()).ok()
    }

    fn bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Message::Hello { .. } => 1,
            Message::Join { .. } => 2,
            Message::Accept { .. } => 3,
            Message::Refuse { .. } => 4,
            Message::Copy { .. } => 5,
            Message::File { .. } => 6,
            Message::Data { .. } => 7,
            Message::Copied { .. } => 8,
            Message::Trees { .. } => 9,
            Message::Change { .. } => 10,
            Message::Alive { .. } => 11,
            Message::Applied { .. } => 12,
        }
    }

    /// Appends the frame of the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let payload: &[u8] = match self {
            Message::Data { bytes } => bytes,
            Message::Trees { definitions } => definitions,
            Message::Change { ops, .. } => ops,
            _ => &[],
        };
        encode_frame(out, self.kind(), payload, |out| match self {
            Message::Hello { version, store, nonce, needs_password } => {
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&store.to_le_bytes());
                out.extend_from_slice(nonce);
                out.push(u8::from(*needs_password));
            }
            Message::Join { version, nonce, proof, position, name } => {
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(nonce);
                out.extend_from_slice(proof);
                out.push(u8::from(position.is_some()));
                let at = position.unwrap_or(ChangePosition { store: 0, seq: 0 });
                out.extend_from_slice(&at.store.to_le_bytes());
                out.extend_from_slice(&at.seq.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Message::Accept { proof } => out.extend_from_slice(proof),
            Message::Refuse { reason } => out.extend_from_slice(reason.as_bytes()),
            Message::Copy { files, bytes, reason } => {
                out.extend_from_slice(&files.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(reason.as_bytes());
            }
            Message::File { len, name } => {
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Message::Change { first, last, .. } => {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&last.to_le_bytes());
            }
            Message::Copied { seq } | Message::Applied { seq } | Message::Alive { newest: seq } => {
                out.extend_from_slice(&seq.to_le_bytes());
            }
            Message::Data { .. } | Message::Trees { .. } => {}
        });
    }

    fn decode(kind: u8, payload: &[u8]) -> Option<Message> {
        let mut f = Fields(payload);
        let message = match kind {
            1 => {
                f.take::<8>().filter(|magic| magic == MAGIC)?;
                let version = u16::from_le_bytes(f.take()?);
                let (store, nonce) = (f.u64()?, f.take::<PROOF_LEN>()?);
                Message::Hello { version, store, nonce, needs_password: f.flag()? }
            }
            2 => {
                let version = u16::from_le_bytes(f.take()?);
                let (nonce, proof, has) = (f.take()?, f.take()?, f.flag()?);
                let at = ChangePosition { store: f.u64()?, seq: f.u64()? };
                Message::Join {
                    version,
                    nonce,
                    proof,
                    position: has.then_some(at),
                    name: f.text()?,
                }
            }
            3 => Message::Accept { proof: f.take()? },
            4 => Message::Refuse { reason: f.text()? },
            5 => Message::Copy { files: f.u64()?, bytes: f.u64()?, reason: f.text()? },
            6 => Message::File { len: f.u64()?, name: f.text()? },
            7 => Message::Data { bytes: f.bytes() },
            8 => Message::Copied { seq: f.u64()? },
            9 => Message::Trees { definitions: f.bytes() },
            10 => {
                let (first, last) = (f.u64()?, f.u64()?);
                Message::Change { first, last, ops: f.bytes() }
            }
            11 => Message::Alive { newest: f.u64()? },
            12 => Message::Applied { seq: f.u64()? },
            _ => return None,
        };
        f.0.is_empty().then_some(message)
    }
}

/// Appends a frame whose payload is what `head` appends, then `tail`.
fn encode_frame(out: &mut Vec<u8>, kind: u8, tail: &[u8], head: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.push(kind);
    head(out);
    out.extend_from_slice(tail);
    let len = (out.len() - at - HEAD) as u32;
    let crc = crc32fast::hash(&out[at + HEAD..]);
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    out[at + 4..at + HEAD].copy_from_slice(&crc.to_le_bytes());
}

/// Appends the frame of a change without copying its operations twice.
pub fn encode_change(out: &mut Vec<u8>, first: u64, last: u64, ops: &[u8]) {
    encode_frame(out, 10, ops, |out| {
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&last.to_le_bytes());
    });
}

/// Sends a message.
pub fn send(to: &mut impl Write, message: &Message) -> Result<()> {
    let mut frame = vec![];
    message.encode(&mut frame);
    to.write_all(&frame).map_err(network)
}

/// Receives a message of at most `limit` bytes.
///
/// # Errors
/// `Io` when the connection ends or is silent for too long, `Corruption` for bytes that are no
/// message.
pub fn receive(from: &mut impl Read, limit: usize) -> Result<Message> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head).map_err(network)?;
    let field = |at: usize| head.get(at..at + 4).and_then(|b| b.try_into().ok());
    let (Some(len), Some(crc)) = (field(0), field(4)) else { return Err(bad("its head is short")) };
    let (len, crc) = (u32::from_le_bytes(len) as usize, u32::from_le_bytes(crc));
    if len == 0 || len > limit {
        return Err(bad(&format!("its length is {len}, the limit {limit}")));
    }
    let mut frame = Vec::with_capacity(len.min(DATA_LEN + 64));
    from.take(len as u64).read_to_end(&mut frame).map_err(network)?;
    if frame.len() < len {
        return Err(network(std::io::ErrorKind::UnexpectedEof.into()));
    }
    if crc32fast::hash(&frame) != crc {
        return Err(bad("its checksum is wrong"));
    }
    let decoded = frame.split_first().and_then(|(kind, payload)| Message::decode(*kind, payload));
    decoded.ok_or_else(|| bad("its fields are wrong"))
}

fn bad(why: &str) -> Error {
    Error::corruption(format!("a message of the replication connection is damaged: {why}"))
}

/// Returns the error of a connection.
pub fn network(e: std::io::Error) -> Error {
    let words = match e.kind() {
        std::io::ErrorKind::UnexpectedEof => "the other side closed the connection".to_owned(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            "the other side is silent".to_owned()
        }
        _ => format!("the connection failed: {e}"),
    };
    Error::new(ErrorKind::Io, words)
}

/// Returns the error for a message that does not fit here.
pub fn unexpected(message: &Message) -> Error {
    bad(&format!("one of kind {} is out of place", message.kind()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> Vec<Message> {
        let (nonce, proof) = ([7; PROOF_LEN], [8; PROOF_LEN]);
        let position = Some(ChangePosition { store: 3, seq: u64::MAX });
        vec![
            Message::Hello { version: 1, store: 2, nonce, needs_password: true },
            Message::Join { version: 1, nonce, proof, position, name: "é".into() },
            Message::Join { version: 1, nonce, proof, position: None, name: String::new() },
            Message::Accept { proof },
            Message::Refuse { reason: "no".into() },
            Message::Copy { files: 1, bytes: 2, reason: "new".into() },
            Message::File { len: 1, name: "CURRENT".into() },
            Message::Data { bytes: vec![1, 2] },
            Message::Copied { seq: 9 },
            Message::Trees { definitions: vec![4] },
            Message::Change { first: 1, last: 2, ops: vec![5, 6] },
            Message::Alive { newest: 1 },
            Message::Applied { seq: 1 },
        ]
    }

    #[test]
    fn messages_round_trip() {
        let mut bytes = vec![];
        messages().iter().for_each(|m| m.encode(&mut bytes));
        let mut from = &bytes[..];
        for m in messages() {
            assert_eq!(receive(&mut from, SHORT_FRAME).unwrap(), m);
        }
        assert!(receive(&mut from, SHORT_FRAME).is_err());
        let (mut a, mut b) = (vec![], vec![]);
        encode_change(&mut a, 1, 2, &[5, 6]);
        Message::Change { first: 1, last: 2, ops: vec![5, 6] }.encode(&mut b);
        assert_eq!(a, b);
    }

    #[test]
    fn damage_and_excess_are_refused() {
        for m in messages() {
            let mut bytes = vec![];
            m.encode(&mut bytes);
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 1;
                assert!(receive(&mut &bad[..], SHORT_FRAME).is_err(), "{m:?}, byte {at}");
                assert!(receive(&mut &bytes[..at], SHORT_FRAME).is_err(), "{m:?}, cut at {at}");
            }
            assert!(receive(&mut &bytes[..], bytes.len() - HEAD - 1).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_payload_is_decoded_without_panic(kind: u8, payload: Vec<u8>) {
            if let Some(m) = Message::decode(kind, &payload) {
                prop_assert_eq!(m.kind(), kind);
            }
        }
    }
}
