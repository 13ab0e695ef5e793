//! Messages as trees of values, for programs that make or inspect arbitrary ones.

use std::borrow::Cow;

use super::binary::element::*;
use super::binary::{
    EncodedFields, EncodedValue, MessageHead, MessageKind, Result, TRUNCATED, ThriftMessage,
};
use super::writer::{ThriftWriter, WriteField};

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
    /// A list or a set. An empty one is written as a list of structures.
    List(Vec<ThriftValue<'a>>),
}

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
    pub kind: MessageKind,
    /// Sequence number of the call.
    pub sequence: i32,
    /// A structure. In replies of the interface field 0 is the result, any other field an
    /// exception.
    pub value: ThriftValue<'a>,
}

impl<'a> ThriftCall<'a> {
    /// Returns the length of the call at the start of these bytes; `None` if it is incomplete.
    ///
    /// # Errors
    /// Malformed bytes, even if more may follow.
    pub fn length(bytes: &[u8]) -> Result<Option<usize>> {
        ThriftMessage::call_length(bytes)
    }

    /// Reads a call.
    ///
    /// # Errors
    /// Malformed bytes, or more than one message.
    pub fn read(bytes: &'a [u8]) -> Result<ThriftCall<'a>> {
        let ThriftMessage { head, fields } = ThriftMessage::call(bytes)?;
        let MessageHead { kind, method, sequence, is_strict } = head;
        let is_oneway = kind == MessageKind::Oneway;
        let arguments = structure(fields).ok_or(TRUNCATED)?;
        Ok(ThriftCall { method, sequence, is_strict, is_oneway, arguments })
    }

    /// Appends the call.
    pub fn put(&self, out: &mut Vec<u8>) {
        let ThriftCall { method, sequence, is_strict, .. } = *self;
        MessageHead { kind: MessageKind::Call, method, sequence, is_strict }.put(out);
        self.arguments.put(&mut ThriftWriter::new(out));
    }
}

impl<'a> ThriftReply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    /// Malformed bytes, or more than one message.
    pub fn read(bytes: &'a [u8]) -> Result<ThriftReply<'a>> {
        let ThriftMessage { head, fields } = ThriftMessage::reply(bytes)?;
        let value = structure(fields).ok_or(TRUNCATED)?;
        Ok(ThriftReply { kind: head.kind, sequence: head.sequence, value })
    }
}

/// Builds the tree of a structure.
fn structure(fields: EncodedFields<'_>) -> Option<ThriftValue<'_>> {
    let field = |(number, value)| Some((number, tree(value)?));
    fields.into_iter().map(field).collect::<Option<_>>().map(ThriftValue::Struct)
}

/// Builds the tree of a value.
fn tree(value: EncodedValue<'_>) -> Option<ThriftValue<'_>> {
    Some(match value.code() {
        BOOL => ThriftValue::Bool(value.scalar(BOOL)? != [0]),
        BYTE => ThriftValue::Byte(i8::from_be_bytes(value.scalar(BYTE)?)),
        DOUBLE => ThriftValue::Double(f64::from_be_bytes(value.scalar(DOUBLE)?)),
        I16 => ThriftValue::I16(i16::from_be_bytes(value.scalar(I16)?)),
        I32 => ThriftValue::I32(i32::from_be_bytes(value.scalar(I32)?)),
        I64 => ThriftValue::I64(i64::from_be_bytes(value.scalar(I64)?)),
        BYTES => ThriftValue::Bytes(Cow::Borrowed(value.bytes()?)),
        STRUCT => structure(value.fields()?)?,
        MAP => {
            let pair = |(key, value)| Some((tree(key)?, tree(value)?));
            ThriftValue::Map(value.pairs()?.map(pair).collect::<Option<_>>()?)
        }
        _ => ThriftValue::List(value.elements()?.map(tree).collect::<Option<_>>()?),
    })
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

    fn code(&self) -> u8 {
        match self {
            ThriftValue::Bool(_) => BOOL,
            ThriftValue::Byte(_) => BYTE,
            ThriftValue::Double(_) => DOUBLE,
            ThriftValue::I16(_) => I16,
            ThriftValue::I32(_) => I32,
            ThriftValue::I64(_) => I64,
            ThriftValue::Bytes(_) => BYTES,
            ThriftValue::Struct(_) => STRUCT,
            ThriftValue::Map(_) => MAP,
            ThriftValue::List(_) => LIST,
        }
    }

    fn put(&self, writer: &mut ThriftWriter<'_>) {
        match self {
            ThriftValue::Bool(on) => on.put(writer),
            ThriftValue::Byte(n) => writer.raw(&n.to_be_bytes()),
            ThriftValue::Double(n) => n.put(writer),
            ThriftValue::I16(n) => writer.raw(&n.to_be_bytes()),
            ThriftValue::I32(n) => n.put(writer),
            ThriftValue::I64(n) => n.put(writer),
            ThriftValue::Bytes(bytes) => bytes.put(writer),
            ThriftValue::Struct(fields) => {
                for (number, value) in fields {
                    writer.field_head(value.code(), *number);
                    value.put(writer);
                }
                writer.stop();
            }
            ThriftValue::List(all) => {
                writer.list_head(all.first().map_or(STRUCT, ThriftValue::code), all.len());
                all.iter().for_each(|value| value.put(writer));
            }
            ThriftValue::Map(pairs) => {
                let codes = pairs.first().map(|(key, value)| (key.code(), value.code()));
                let (key, value) = codes.unwrap_or((BYTES, BYTES));
                writer.map_head(key, value, pairs.len());
                for (key, value) in pairs {
                    key.put(writer);
                    value.put(writer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::binary::MalformedMessage;
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
            let kind = MessageKind::Reply;
            MessageHead { kind, method: "get", sequence: 9, is_strict }.put(&mut answer);
            arguments.put(&mut ThriftWriter::new(&mut answer));
            let reply = ThriftReply::read(&answer).unwrap();
            assert_eq!(
                (reply.kind, reply.sequence, &reply.value),
                (MessageKind::Reply, 9, &arguments)
            );
            assert!(ThriftCall::read(&answer).is_err());
            for len in 0..bytes.len() {
                assert!(ThriftCall::read(&bytes[..len]).is_err(), "{len}");
            }
            bytes.push(0);
            assert!(ThriftCall::read(&bytes).is_err());
        }
        // Nested lists; and a list that claims to be long.
        let head = [&[0x80, 1, 0, 1][..], &[0, 0, 0, 1, b'x'], &[0; 4]].concat();
        let deep = [&head[..], &[LIST, 0, 1], &[LIST, 0, 0, 0, 1].repeat(20)].concat();
        assert_eq!(ThriftCall::read(&deep), Err(MalformedMessage("values are nested too deep")));
        let long = [&head[..], &[LIST, 0, 1], &[BOOL, 0x7f, 255, 255, 255]].concat();
        let text = "a container claims more than there is";
        assert_eq!(ThriftCall::read(&long), Err(MalformedMessage(text)));
    }

    #[test]
    fn a_call_has_a_maximum_number_of_values() {
        let head = [0, 0, 0, 1, b'x', 1, 0, 0, 0, 0, LIST, 0, 1, BOOL];
        // The structure and the list are values, too.
        let most = (1 << 20) - 2;
        let with = |n: i32| [&head[..], &n.to_be_bytes(), &vec![1; n as usize], &[STOP]].concat();
        let bytes = with(most);
        assert_eq!(ThriftCall::length(&bytes), Ok(Some(bytes.len())));
        let why = Err(MalformedMessage("there are too many values"));
        assert_eq!(ThriftCall::length(&with(most + 1)), why);
    }
}
