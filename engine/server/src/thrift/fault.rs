//! Errors of calls: the exceptions of the interface, and their field numbers in replies.

use std::fmt;

use super::binary::{MessageHead, MessageKind};
use super::writer::{ThriftWriter, WriteField, structure};
use crate::wire::ErrorCode;

/// An error of a call.
#[derive(Debug)]
pub enum ThriftError {
    /// `InvalidRequestException`
    Invalid(String),
    /// `NotFoundException`
    NotFound,
    /// `UnavailableException`: results use all of their memory budget.
    Unavailable,
    /// `AuthenticationException`: a wrong name or password.
    Authentication(String),
    /// Malformed arguments: an exception of Thrift itself, of this type.
    Application(i32, String),
}

impl fmt::Display for ThriftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThriftError::Invalid(text)
            | ThriftError::Authentication(text)
            | ThriftError::Application(_, text) => f.write_str(text),
            ThriftError::NotFound => f.write_str("not found"),
            ThriftError::Unavailable => f.write_str("too many bytes of results are being made"),
        }
    }
}

/// Types of Thrift's own exceptions.
const UNKNOWN_METHOD: i32 = 1;
const INTERNAL: i32 = 6;
const PROTOCOL: i32 = 7;

impl ThriftError {
    /// Returns the error of malformed arguments.
    pub fn protocol(text: impl Into<String>) -> ThriftError {
        ThriftError::Application(PROTOCOL, text.into())
    }

    /// Returns the error of an unknown method.
    pub fn unknown(method: &str) -> ThriftError {
        ThriftError::Application(UNKNOWN_METHOD, format!("Invalid method name: '{method}'"))
    }

    /// Returns the corresponding code of the native protocol. `None`: an empty result is no error
    /// there.
    pub fn code(&self) -> Option<u16> {
        Some(match self {
            ThriftError::NotFound => return None,
            ThriftError::Invalid(_) => ErrorCode::Invalid as u16,
            ThriftError::Unavailable => ErrorCode::Overloaded as u16,
            ThriftError::Authentication(_) => ErrorCode::Credentials as u16,
            ThriftError::Application(INTERNAL, _) => 0,
            ThriftError::Application(..) => ErrorCode::Protocol as u16,
        })
    }

    /// Appends the reply to this call: an exception of the interface or of Thrift itself.
    pub fn put(&self, call: MessageHead<'_>, out: &mut Vec<u8>) {
        let method = call.method;
        let (number, text): (i16, Option<&str>) = match self {
            // The field number depends on the other exceptions of the method.
            ThriftError::Invalid(text) if method == "describe_keyspace" => (2, Some(text)),
            ThriftError::Invalid(text) | ThriftError::Authentication(text) => (1, Some(text)),
            ThriftError::NotFound if method == "describe_keyspace" => (1, None),
            // `NotFoundException` precedes it in `get`.
            ThriftError::Unavailable if method == "get" => (3, None),
            ThriftError::NotFound | ThriftError::Unavailable => (2, None),
            ThriftError::Application(kind, text) => {
                MessageHead { kind: MessageKind::Exception, ..call }.put(out);
                let exception = structure(|w| {
                    w.field(1, text);
                    w.field(2, kind);
                });
                return exception.put(&mut ThriftWriter::new(out));
            }
        };
        MessageHead { kind: MessageKind::Reply, ..call }.put(out);
        let exception = structure(|w| w.field(1, &text));
        let reply = structure(|w| w.field(number, &exception));
        reply.put(&mut ThriftWriter::new(out));
    }
}

/// Returns an `InvalidRequestException`.
pub fn invalid(text: impl Into<String>) -> ThriftError {
    ThriftError::Invalid(text.into())
}

impl From<firn_wide::Error> for ThriftError {
    fn from(e: firn_wide::Error) -> ThriftError {
        match e {
            firn_wide::Error::NotFound => ThriftError::NotFound,
            firn_wide::Error::InvalidRequest(text) | firn_wide::Error::Configuration(text) => {
                ThriftError::Invalid(text)
            }
            other => ThriftError::Application(INTERNAL, other.to_string()),
        }
    }
}

impl From<firn_cql::Error> for ThriftError {
    fn from(e: firn_cql::Error) -> ThriftError {
        match e.class() {
            firn_cql::ErrorClass::Server => ThriftError::Application(INTERNAL, e.to_string()),
            firn_cql::ErrorClass::Overloaded => ThriftError::Unavailable,
            firn_cql::ErrorClass::BadCredentials => ThriftError::Authentication(e.to_string()),
            _ => ThriftError::Invalid(e.to_string()),
        }
    }
}
