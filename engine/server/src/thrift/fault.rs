//! Errors of calls: the exceptions of the interface, and their field numbers in replies.

use std::fmt;

use super::binary::ThriftValue;
use crate::wire::ErrorCode;

/// An error of a call.
#[derive(Debug)]
pub enum ThriftFault {
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

impl fmt::Display for ThriftFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThriftFault::Invalid(text)
            | ThriftFault::Authentication(text)
            | ThriftFault::Application(_, text) => f.write_str(text),
            ThriftFault::NotFound => f.write_str("not found"),
            ThriftFault::Unavailable => f.write_str("too many bytes of results are being made"),
        }
    }
}

/// Types of Thrift's own exceptions.
const UNKNOWN_METHOD: i32 = 1;
const INTERNAL: i32 = 6;
const PROTOCOL: i32 = 7;

impl ThriftFault {
    /// Returns the error of malformed arguments.
    pub fn protocol(text: impl Into<String>) -> ThriftFault {
        ThriftFault::Application(PROTOCOL, text.into())
    }

    /// Returns the error of an unknown method.
    pub fn unknown(method: &str) -> ThriftFault {
        ThriftFault::Application(UNKNOWN_METHOD, format!("Invalid method name: '{method}'"))
    }

    /// Returns the corresponding code of the native protocol. `None`: an empty result is no error
    /// there.
    pub fn code(&self) -> Option<u16> {
        Some(match self {
            ThriftFault::NotFound => return None,
            ThriftFault::Invalid(_) => ErrorCode::Invalid as u16,
            ThriftFault::Unavailable => ErrorCode::Overloaded as u16,
            ThriftFault::Authentication(_) => ErrorCode::Credentials as u16,
            ThriftFault::Application(INTERNAL, _) => 0,
            ThriftFault::Application(..) => ErrorCode::Protocol as u16,
        })
    }

    /// Returns the structure of the exception, and its field number in the reply of this method.
    /// `None`: it is an exception of Thrift itself.
    pub fn field(&self, method: &str) -> Option<(i16, ThriftValue<'static>)> {
        let why = |text: &str| ThriftValue::Struct(vec![(1, ThriftValue::text(text))]);
        Some(match self {
            // The field number depends on the other exceptions of the method.
            ThriftFault::Invalid(text) if method == "describe_keyspace" => (2, why(text)),
            ThriftFault::Invalid(text) => (1, why(text)),
            ThriftFault::NotFound if method == "describe_keyspace" => {
                (1, ThriftValue::Struct(vec![]))
            }
            ThriftFault::NotFound => (2, ThriftValue::Struct(vec![])),
            // `NotFoundException` precedes it in `get`.
            ThriftFault::Unavailable if method == "get" => (3, ThriftValue::Struct(vec![])),
            ThriftFault::Unavailable => (2, ThriftValue::Struct(vec![])),
            ThriftFault::Authentication(text) => (1, why(text)),
            ThriftFault::Application(..) => return None,
        })
    }

    /// Returns the structure of Thrift's own exception.
    pub fn application(&self) -> ThriftValue<'static> {
        let kind = match self {
            ThriftFault::Application(kind, _) => *kind,
            _ => INTERNAL,
        };
        ThriftValue::Struct(vec![
            (1, ThriftValue::text(self.to_string())),
            (2, ThriftValue::I32(kind)),
        ])
    }
}

/// Returns an `InvalidRequestException`.
pub fn invalid(text: impl Into<String>) -> ThriftFault {
    ThriftFault::Invalid(text.into())
}

impl From<firn_wide::Error> for ThriftFault {
    fn from(e: firn_wide::Error) -> ThriftFault {
        match e {
            firn_wide::Error::NotFound => ThriftFault::NotFound,
            firn_wide::Error::InvalidRequest(text) | firn_wide::Error::Configuration(text) => {
                ThriftFault::Invalid(text)
            }
            other => ThriftFault::Application(INTERNAL, other.to_string()),
        }
    }
}

impl From<firn_cql::Error> for ThriftFault {
    fn from(e: firn_cql::Error) -> ThriftFault {
        match e.class() {
            firn_cql::Class::Server => ThriftFault::Application(INTERNAL, e.to_string()),
            firn_cql::Class::Overloaded => ThriftFault::Unavailable,
            firn_cql::Class::BadCredentials => ThriftFault::Authentication(e.to_string()),
            _ => ThriftFault::Invalid(e.to_string()),
        }
    }
}
