//! Thrift's binary protocol: reads and writes messages and values.
//!
//! Invariants: a claimed length allocates nothing before that many bytes have arrived. Values are
//! nested at most [`MAX_DEPTH`] levels, and a message has at most [`MAX_VALUES`].
//!
//! Source: `thrift-binary-protocol.md` of Apache Thrift.

use std::borrow::Cow;
use std::fmt;

/// Maximum nesting of values.
const MAX_DEPTH: usize = 16;
/// Maximum number of values in a call: each takes some tens of bytes of memory.
const MAX_VALUES: usize = 1 << 20;
/// Maximum number of values in a response, which the client has requested.
const MAX_REPLY_VALUES: usize = 1 << 23;
/// First half of the first word of strict messages.
const STRICT: u32 = 0x8001_0000;

const STOP: u8 = 0;
const BOOL: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 4;
const I16: u8 = 6;
const I32: u8 = 8;
const I64: u8 = 10;
const STRING: u8 = 11;
const STRUCT: u8 = 12;
const MAP: u8 = 13;
const SET: u8 = 14;
const LIST: u8 = 15;

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MessageKind {
    Call = 1,
    Reply = 2,
    Exception = 3,
    Oneway = 4,
}

/// A value. The protocol does not distinguish texts and bytes.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ThriftValue<'a> {
    Bool(bool),
    Byte(i8),
    Double(f64),
    I16(i16),
    I32(i32),
    I64(i64),
    Bytes(Cow<'a, [u8]>),
    /// Fields with their numbers.
    Struct(Vec<(i16, ThriftValue<'a>)>),
    Map(Vec<(ThriftValue<'a>, ThriftValue<'a>)>),
    /// A list or a set.
    List(Vec<ThriftValue<'a>>),
    /// An empty list with its declared element type.
    EmptyList(u8),
    /// An empty map with its declared types.
    EmptyMap(u8, u8),
}

impl ThriftValue<'_> {
    /// Estimates the heap bytes of the value.
    pub fn heap_bytes(&self) -> usize {
        match self {
            ThriftValue::Bytes(bytes) => bytes.len(),
            ThriftValue::Struct(fields) => {
                let held = fields.iter().map(|(_, value)| value.heap_bytes());
                size_of_val(&**fields) + held.sum::<usize>()
            }
            ThriftValue::Map(pairs) => {
                let held = pairs.iter().map(|(key, value)| key.heap_bytes() + value.heap_bytes());
                size_of_val(&**pairs) + held.sum::<usize>()
            }
            ThriftValue::List(values) => {
                let held = values.iter().map(ThriftValue::heap_bytes);
                size_of_val(&**values) + held.sum::<usize>()
            }
            _ => 0,
        }
    }
}

/// Element types of empty containers.
pub mod element {
    /// A flag.
    pub const BOOL: u8 = super::BOOL;
    /// A double.
    pub const DOUBLE: u8 = super::DOUBLE;
    /// Bytes or text.
    pub const BYTES: u8 = super::STRING;
    /// A structure.
    pub const STRUCT: u8 = super::STRUCT;
    /// A 32-bit integer.
    pub const I32: u8 = super::I32;
    /// A 64-bit integer.
    pub const I64: u8 = super::I64;
    /// A list.
    pub const LIST: u8 = super::LIST;
    /// A map.
    pub const MAP: u8 = super::MAP;
}

/// A malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedMessage(pub &'static str);

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

type Result<T> = std::result::Result<T, MalformedMessage>;

const TRUNCATED: MalformedMessage = MalformedMessage("the message ends within a value");
const TOO_LONG: MalformedMessage = MalformedMessage("a container claims more than there is");

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct ThriftCall<'a> {
    /// The name of the method.
    pub method: &'a str,
    /// Sequence number that matches the reply.
    pub sequence: i32,
    /// Whether the message began with a version; then the reply does, too.
    pub is_strict: bool,
    /// Whether the caller expects no reply.
    pub is_oneway: bool,
    /// The arguments, by number.
    pub arguments: ThriftValue<'a>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ThriftReply<'a> {
    /// Whether it is a reply of the interface or an exception of Thrift itself.
    pub kind: ThriftReplyKind,
    /// Sequence number of the call.
    pub sequence: i32,
    /// A structure. In replies of the interface field 0 is the result, any other field an
    /// exception.
    pub value: ThriftValue<'a>,
}

/// The type of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThriftReplyKind {
    /// A reply of the interface.
    Answer,
    /// An exception of Thrift itself.
    Exception,
}

/// A message of any type.
struct ThriftMessage<'a> {
    kind: u8,
    method: &'a str,
    is_strict: bool,
    sequence: i32,
    value: ThriftValue<'a>,
}

impl<'a> ThriftMessage<'a> {
    /// Reads the message at the start of these bytes, with at most `most` values. Returns the
    /// remaining bytes, too.
    fn first(bytes: &'a [u8], most: usize) -> Result<(ThriftMessage<'a>, &'a [u8])> {
        let mut reader = ThriftReader { rest: bytes, left: most };
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
        if !(MessageKind::Call as u8..=MessageKind::Oneway as u8).contains(&kind) {
            return Err(MalformedMessage("the message is no call"));
        }
        let value = reader.value(STRUCT, 0)?;
        Ok((ThriftMessage { kind, method, is_strict, sequence, value }, reader.rest))
    }
}

impl<'a> ThriftReply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    /// Malformed bytes, or more than one message.
    pub fn read(bytes: &'a [u8]) -> Result<ThriftReply<'a>> {
        let (message, rest) = ThriftMessage::first(bytes, MAX_REPLY_VALUES)?;
        let kind = match message.kind {
            kind if kind == MessageKind::Reply as u8 => ThriftReplyKind::Answer,
            kind if kind == MessageKind::Exception as u8 => ThriftReplyKind::Exception,
            _ => return Err(MalformedMessage("the message is no answer")),
        };
        if !rest.is_empty() {
            return Err(MalformedMessage("something follows the message"));
        }
        Ok(ThriftReply { kind, sequence: message.sequence, value: message.value })
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

    fn value(&mut self, of: u8, depth: usize) -> Result<ThriftValue<'a>> {
        if depth > MAX_DEPTH {
            return Err(MalformedMessage("values are nested too deep"));
        }
        self.left =
            self.left.checked_sub(1).ok_or(MalformedMessage("there are too many values"))?;
        Ok(match of {
            BOOL => ThriftValue::Bool(self.array::<1>()?[0] != 0),
            BYTE => ThriftValue::Byte(i8::from_be_bytes(self.array()?)),
            DOUBLE => ThriftValue::Double(f64::from_be_bytes(self.array()?)),
            I16 => ThriftValue::I16(i16::from_be_bytes(self.array()?)),
            I32 => ThriftValue::I32(self.i32()?),
            I64 => ThriftValue::I64(i64::from_be_bytes(self.array()?)),
            STRING => {
                let len = self.len()?;
                ThriftValue::Bytes(Cow::Borrowed(self.take(len)?))
            }
            STRUCT => {
                let mut fields = vec![];
                loop {
                    let [of] = self.array()?;
                    if of == STOP {
                        return Ok(ThriftValue::Struct(fields));
                    }
                    let number = i16::from_be_bytes(self.array()?);
                    fields.push((number, self.value(of, depth + 1)?));
                }
            }
            MAP => {
                let [key, value] = self.array()?;
                let mut pairs = vec![];
                for _ in 0..self.count()? {
                    pairs.push((self.value(key, depth + 1)?, self.value(value, depth + 1)?));
                }
                ThriftValue::Map(pairs)
            }
            LIST | SET => {
                let [of] = self.array()?;
                let mut all = vec![];
                for _ in 0..self.count()? {
                    all.push(self.value(of, depth + 1)?);
                }
                ThriftValue::List(all)
            }
            _ => return Err(MalformedMessage("a value has a type that there is not")),
        })
    }
}

impl<'a> ThriftCall<'a> {
    /// Returns the length of the call at the start of these bytes; `None` if it is incomplete.
    ///
    /// # Errors
    /// Malformed bytes, even if more may follow.
    pub fn length(bytes: &'a [u8]) -> Result<Option<usize>> {
        match ThriftCall::first(bytes) {
            Ok((_, rest)) => Ok(Some(bytes.len() - rest.len())),
            Err(TRUNCATED | TOO_LONG) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads a call.
    ///
    /// # Errors
    /// Malformed bytes, or more than one message.
    pub fn read(bytes: &'a [u8]) -> Result<ThriftCall<'a>> {
        let (call, rest) = ThriftCall::first(bytes)?;
        if !rest.is_empty() {
            return Err(MalformedMessage("something follows the message"));
        }
        Ok(call)
    }

    /// Reads the call at the start of these bytes. Returns the remaining bytes, too.
    fn first(bytes: &'a [u8]) -> Result<(ThriftCall<'a>, &'a [u8])> {
        let (message, rest) = ThriftMessage::first(bytes, MAX_VALUES)?;
        let ThriftMessage { kind, method, is_strict, sequence, value: arguments } = message;
        let is_oneway = kind == MessageKind::Oneway as u8;
        if kind != MessageKind::Call as u8 && !is_oneway {
            return Err(MalformedMessage("the message is no call"));
        }
        Ok((ThriftCall { method, sequence, is_strict, is_oneway, arguments }, rest))
    }

    /// Appends the call itself.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.put_answer(out, MessageKind::Call, &self.arguments);
    }

    /// Appends the reply to the call.
    pub fn put_answer(&self, out: &mut Vec<u8>, kind: MessageKind, value: &ThriftValue<'_>) {
        let name = self.method.as_bytes();
        let len = (name.len() as u32).to_be_bytes();
        if self.is_strict {
            out.extend_from_slice(&(STRICT | kind as u32).to_be_bytes());
            out.extend_from_slice(&len);
            out.extend_from_slice(name);
        } else {
            out.extend_from_slice(&len);
            out.extend_from_slice(name);
            out.push(kind as u8);
        }
        out.extend_from_slice(&self.sequence.to_be_bytes());
        value.put(out);
    }
}

impl<'a> ThriftValue<'a> {
    /// Returns a text.
    pub fn text(text: impl Into<String>) -> ThriftValue<'a> {
        ThriftValue::Bytes(Cow::Owned(text.into().into_bytes()))
    }

    /// Returns bytes.
    pub fn bytes(bytes: Vec<u8>) -> ThriftValue<'a> {
        ThriftValue::Bytes(Cow::Owned(bytes))
    }

    /// Returns a list with elements of this type.
    pub fn list(of: u8, all: impl IntoIterator<Item = ThriftValue<'a>>) -> ThriftValue<'a> {
        let all: Vec<_> = all.into_iter().collect();
        if all.is_empty() { ThriftValue::EmptyList(of) } else { ThriftValue::List(all) }
    }

    /// Returns a map with keys and values of these types.
    pub fn map(
        key: u8,
        value: u8,
        all: impl IntoIterator<Item = (ThriftValue<'a>, ThriftValue<'a>)>,
    ) -> ThriftValue<'a> {
        let all: Vec<_> = all.into_iter().collect();
        if all.is_empty() { ThriftValue::EmptyMap(key, value) } else { ThriftValue::Map(all) }
    }

    fn code(&self) -> u8 {
        match self {
            ThriftValue::Bool(_) => BOOL,
            ThriftValue::Byte(_) => BYTE,
            ThriftValue::Double(_) => DOUBLE,
            ThriftValue::I16(_) => I16,
            ThriftValue::I32(_) => I32,
            ThriftValue::I64(_) => I64,
            ThriftValue::Bytes(_) => STRING,
            ThriftValue::Struct(_) => STRUCT,
            ThriftValue::Map(_) | ThriftValue::EmptyMap(..) => MAP,
            ThriftValue::List(_) | ThriftValue::EmptyList(_) => LIST,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let put_count = |out: &mut Vec<u8>, n: usize| {
            out.extend_from_slice(&i32::try_from(n).unwrap_or(i32::MAX).to_be_bytes());
        };
        match self {
            ThriftValue::Bool(on) => out.push(u8::from(*on)),
            ThriftValue::Byte(n) => out.extend_from_slice(&n.to_be_bytes()),
            ThriftValue::Double(n) => out.extend_from_slice(&n.to_be_bytes()),
            ThriftValue::I16(n) => out.extend_from_slice(&n.to_be_bytes()),
            ThriftValue::I32(n) => out.extend_from_slice(&n.to_be_bytes()),
            ThriftValue::I64(n) => out.extend_from_slice(&n.to_be_bytes()),
            ThriftValue::Bytes(bytes) => {
                put_count(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            ThriftValue::Struct(fields) => {
                for (number, value) in fields {
                    out.push(value.code());
                    out.extend_from_slice(&number.to_be_bytes());
                    value.put(out);
                }
                out.push(STOP);
            }
            ThriftValue::List(all) => {
                out.push(all.first().map_or(STRUCT, ThriftValue::code));
                put_count(out, all.len());
                all.iter().for_each(|value| value.put(out));
            }
            ThriftValue::EmptyList(of) => {
                out.push(*of);
                put_count(out, 0);
            }
            ThriftValue::Map(pairs) => {
                let (key, value) = pairs
                    .first()
                    .map_or((STRING, STRING), |(key, value)| (key.code(), value.code()));
                out.extend_from_slice(&[key, value]);
                put_count(out, pairs.len());
                for (key, value) in pairs {
                    key.put(out);
                    value.put(out);
                }
            }
            ThriftValue::EmptyMap(key, value) => {
                out.extend_from_slice(&[*key, *value]);
                put_count(out, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_in_both_forms_and_other_bytes_are_refused() {
        let arguments = ThriftValue::Struct(vec![
            (1, ThriftValue::Bytes(Cow::Borrowed(b"key"))),
            (2, ThriftValue::List(vec![ThriftValue::I32(7), ThriftValue::I32(8)])),
            (3, ThriftValue::Map(vec![(ThriftValue::I64(1), ThriftValue::Bool(true))])),
            (4, ThriftValue::Struct(vec![(1, ThriftValue::Double(0.5))])),
        ]);
        for is_strict in [true, false] {
            let call = ThriftCall {
                method: "get",
                sequence: 9,
                is_strict,
                is_oneway: false,
                arguments: arguments.clone(),
            };
            let mut bytes = vec![];
            call.put(&mut bytes);
            assert_eq!(ThriftCall::read(&bytes), Ok(call.clone()));
            assert!(ThriftReply::read(&bytes).is_err());
            let mut answer = vec![];
            call.put_answer(&mut answer, MessageKind::Reply, &arguments);
            let reply = ThriftReply::read(&answer).unwrap();
            assert_eq!(
                (reply.kind, reply.sequence, &reply.value),
                (ThriftReplyKind::Answer, 9, &arguments)
            );
            assert!(ThriftCall::read(&answer).is_err());
            for len in 0..bytes.len() {
                assert!(ThriftCall::read(&bytes[..len]).is_err(), "{len}");
            }
            bytes.push(0);
            assert!(ThriftCall::read(&bytes).is_err());
        }
        // Nested lists; and a list that claims to be long.
        let head = [&STRICT.to_be_bytes()[..3], &[1], &[0, 0, 0, 1, b'x'], &[0; 4]].concat();
        let deep = [&head[..], &[LIST, 0, 1], &[LIST, 0, 0, 0, 1].repeat(20)].concat();
        assert_eq!(ThriftCall::read(&deep), Err(MalformedMessage("values are nested too deep")));
        let long = [&head[..], &[LIST, 0, 1], &[BOOL, 0x7f, 255, 255, 255]].concat();
        let text = "a container claims more than there is";
        assert_eq!(ThriftCall::read(&long), Err(MalformedMessage(text)));
    }
}
