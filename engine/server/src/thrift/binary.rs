//! Thrift's binary protocol: reads messages, and writes their heads.
//!
//! Invariants: a claimed length allocates nothing before that many bytes have arrived. Values are
//! nested at most [`MAX_DEPTH`] levels, and a message has at most [`MAX_VALUES`]. A whole message
//! is validated before one of its values is converted. Values borrow the bytes of the message.
//!
//! Source: `thrift-binary-protocol.md` of Apache Thrift.

use std::fmt;

use smallvec::SmallVec;

/// Maximum nesting of values.
const MAX_DEPTH: usize = 16;
/// Maximum number of values in a call: each takes some tens of bytes of memory.
const MAX_VALUES: usize = 1 << 20;
/// Maximum number of values in a response, which the client has requested.
const MAX_REPLY_VALUES: usize = 1 << 23;
/// First half of the first word of strict messages.
const STRICT: u32 = 0x8001_0000;

/// Types of values. `STOP` ends a structure. A set is read as a list.
pub mod element {
    pub const STOP: u8 = 0;
    pub const BOOL: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const DOUBLE: u8 = 4;
    pub const I16: u8 = 6;
    pub const I32: u8 = 8;
    pub const I64: u8 = 10;
    /// Bytes or text.
    pub const BYTES: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const MAP: u8 = 13;
    pub const SET: u8 = 14;
    pub const LIST: u8 = 15;
}

use element::*;

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MessageKind {
    Call = 1,
    Reply = 2,
    Exception = 3,
    Oneway = 4,
}

const KINDS: [MessageKind; 4] =
    [MessageKind::Call, MessageKind::Reply, MessageKind::Exception, MessageKind::Oneway];

/// A malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedMessage(pub &'static str);

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

pub(super) type Result<T> = std::result::Result<T, MalformedMessage>;

pub(super) const TRUNCATED: MalformedMessage = MalformedMessage("the message ends within a value");
const TOO_LONG: MalformedMessage = MalformedMessage("a container claims more than there is");
const TWO_MESSAGES: MalformedMessage = MalformedMessage("something follows the message");
const NO_CALL: MalformedMessage = MalformedMessage("the message is no call");

/// The head of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageHead<'a> {
    /// The type of the message.
    pub kind: MessageKind,
    /// The name of the method.
    pub method: &'a str,
    /// Sequence number that matches the reply to its call.
    pub sequence: i32,
    /// Whether the message begins with a version; then the reply does, too.
    pub is_strict: bool,
}

impl<'a> MessageHead<'a> {
    fn read(reader: &mut ThriftReader<'a>) -> Result<MessageHead<'a>> {
        let first = reader.i32()?;
        let is_strict = first < 0;
        let (kind, name) = if is_strict {
            let word = first as u32;
            if word & 0xffff_0000 != STRICT {
                return Err(MalformedMessage("the message has a version that is not known"));
            }
            let len = reader.len()?;
            (word as u8, reader.take(len)?)
        } else {
            // Old form without a version: the name comes first.
            let name = reader.take(first as usize)?;
            (reader.array::<1>()?[0], name)
        };
        let method =
            std::str::from_utf8(name).map_err(|_| MalformedMessage("a method is no text"))?;
        let sequence = reader.i32()?;
        // The value of other message types is arbitrary.
        let kind = KINDS.into_iter().find(|known| *known as u8 == kind).ok_or(NO_CALL)?;
        Ok(MessageHead { kind, method, sequence, is_strict })
    }

    fn is_call(&self) -> bool {
        matches!(self.kind, MessageKind::Call | MessageKind::Oneway)
    }

    /// Appends the head. A structure follows it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let name = self.method.as_bytes();
        let len = (name.len() as u32).to_be_bytes();
        if self.is_strict {
            out.extend_from_slice(&(STRICT | self.kind as u32).to_be_bytes());
            out.extend_from_slice(&len);
            out.extend_from_slice(name);
        } else {
            out.extend_from_slice(&len);
            out.extend_from_slice(name);
            out.push(self.kind as u8);
        }
        out.extend_from_slice(&self.sequence.to_be_bytes());
    }
}

/// Fields of a structure with their numbers, in the order of the message.
pub type EncodedFields<'a> = SmallVec<[(i16, EncodedValue<'a>); 4]>;

/// A validated message.
#[derive(Clone, Debug)]
pub struct ThriftMessage<'a> {
    /// Type, method and sequence number.
    pub head: MessageHead<'a>,
    /// Arguments of a call. In replies of the interface field 0 is the result, any other field an
    /// exception.
    pub fields: EncodedFields<'a>,
}

impl<'a> ThriftMessage<'a> {
    /// Reads the message at the start of these bytes, with at most `most` values. Returns the
    /// remaining bytes, too.
    fn first(bytes: &'a [u8], most: usize) -> Result<(ThriftMessage<'a>, &'a [u8])> {
        // The structure itself is the first value.
        let mut reader = ThriftReader { rest: bytes, left: most - 1 };
        let head = MessageHead::read(&mut reader)?;
        let fields = reader.fields(1)?;
        Ok((ThriftMessage { head, fields }, reader.rest))
    }

    /// Returns the length of the call at the start of these bytes; `None` if it is incomplete.
    ///
    /// # Errors
    /// Malformed bytes, even if more may follow.
    pub fn call_length(bytes: &[u8]) -> Result<Option<usize>> {
        match ThriftMessage::first(bytes, MAX_VALUES) {
            Ok((message, _)) if !message.head.is_call() => Err(NO_CALL),
            Ok((_, rest)) => Ok(Some(bytes.len() - rest.len())),
            Err(TRUNCATED | TOO_LONG) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads a call.
    ///
    /// # Errors
    /// Malformed bytes, or more than one message.
    pub fn call(bytes: &'a [u8]) -> Result<ThriftMessage<'a>> {
        match ThriftMessage::first(bytes, MAX_VALUES)? {
            (message, _) if !message.head.is_call() => Err(NO_CALL),
            (message, []) => Ok(message),
            _ => Err(TWO_MESSAGES),
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// Malformed bytes, or more than one message.
    pub fn reply(bytes: &'a [u8]) -> Result<ThriftMessage<'a>> {
        match ThriftMessage::first(bytes, MAX_REPLY_VALUES)? {
            (message, _) if message.head.is_call() => {
                Err(MalformedMessage("the message is no answer"))
            }
            (message, []) => Ok(message),
            _ => Err(TWO_MESSAGES),
        }
    }
}

/// A value within a message, as encoded there. The protocol does not distinguish texts and bytes.
#[derive(Clone, Copy, Debug)]
pub struct EncodedValue<'a> {
    of: u8,
    /// The encoding, which was validated.
    bytes: &'a [u8],
}

impl<'a> EncodedValue<'a> {
    fn reader(self) -> ThriftReader<'a> {
        ThriftReader { rest: self.bytes, left: usize::MAX }
    }

    /// Returns the type of the value.
    pub fn code(self) -> u8 {
        self.of
    }

    /// Returns the bytes of a flag or number of this type.
    pub fn scalar<const N: usize>(self, of: u8) -> Option<[u8; N]> {
        self.bytes.try_into().ok().filter(|_| self.of == of)
    }

    /// Returns the bytes of a text or of bytes.
    pub fn bytes(self) -> Option<&'a [u8]> {
        self.bytes.get(4..).filter(|_| self.of == BYTES)
    }

    /// Returns the fields of a structure.
    pub fn fields(self) -> Option<EncodedFields<'a>> {
        if self.of == STRUCT { self.reader().fields(0).ok() } else { None }
    }

    /// Returns the elements of a list or set.
    pub fn elements(self) -> Option<impl Iterator<Item = EncodedValue<'a>>> {
        if !matches!(self.of, LIST | SET) {
            return None;
        }
        let mut reader = self.reader();
        let [of] = reader.array().ok()?;
        Some((0..reader.count().ok()?).map_while(move |_| reader.value(of, 0).ok()))
    }

    /// Returns the pairs of a map.
    pub fn pairs(self) -> Option<impl Iterator<Item = (EncodedValue<'a>, EncodedValue<'a>)>> {
        if self.of != MAP {
            return None;
        }
        let mut reader = self.reader();
        let [key, value] = reader.array().ok()?;
        let count = reader.count().ok()?;
        let mut pair = move || Some((reader.value(key, 0).ok()?, reader.value(value, 0).ok()?));
        Some((0..count).map_while(move |_| pair()))
    }
}

struct ThriftReader<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> ThriftReader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let parts = self.rest.split_at_checked(len);
        let (taken, rest) = parts.ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let parts = self.rest.split_first_chunk();
        let (taken, rest) = parts.ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn len(&mut self) -> Result<usize> {
        usize::try_from(self.i32()?).map_err(|_| MalformedMessage("a length is negative"))
    }

    /// Reads a number of elements, each of at least one byte.
    fn count(&mut self) -> Result<usize> {
        match self.len()? {
            n if n > self.rest.len() => Err(TOO_LONG),
            n => Ok(n),
        }
    }

    /// Reads a value.
    #[inline]
    fn value(&mut self, of: u8, depth: usize) -> Result<EncodedValue<'a>> {
        let start = self.rest;
        self.skip(of, depth)?;
        Ok(EncodedValue { of, bytes: &start[..start.len() - self.rest.len()] })
    }

    /// Reads the next field of a structure; `None` at its end.
    #[inline]
    fn field(&mut self, depth: usize) -> Result<Option<(i16, EncodedValue<'a>)>> {
        let [of] = self.array()?;
        if of == STOP {
            return Ok(None);
        }
        let number = i16::from_be_bytes(self.array()?);
        Ok(Some((number, self.value(of, depth)?)))
    }

    /// Reads the fields of a structure.
    fn fields(&mut self, depth: usize) -> Result<EncodedFields<'a>> {
        let mut fields = EncodedFields::new();
        while let Some(field) = self.field(depth)? {
            fields.push(field);
        }
        Ok(fields)
    }

    /// Validates a value.
    fn skip(&mut self, of: u8, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(MalformedMessage("values are nested too deep"));
        }
        self.left =
            self.left.checked_sub(1).ok_or(MalformedMessage("there are too many values"))?;
        let len = match of {
            BOOL | BYTE => 1,
            I16 => 2,
            I32 => 4,
            I64 | DOUBLE => 8,
            BYTES => self.len()?,
            STRUCT => {
                while self.field(depth + 1)?.is_some() {}
                0
            }
            MAP => {
                let [key, value] = self.array()?;
                for _ in 0..self.count()? {
                    self.skip(key, depth + 1)?;
                    self.skip(value, depth + 1)?;
                }
                0
            }
            LIST | SET => {
                let [of] = self.array()?;
                for _ in 0..self.count()? {
                    self.skip(of, depth + 1)?;
                }
                0
            }
            _ => return Err(MalformedMessage("a value has a type that there is not")),
        };
        self.take(len).map(|_| ())
    }
}
