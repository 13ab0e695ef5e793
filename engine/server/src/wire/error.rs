//! Protocol errors of the server: codes and messages.

use std::borrow::Cow;
use std::fmt;

/// Error codes of requests that are refused before a statement runs. [`firn_cql::ErrorClass`] has the
/// codes of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// A violation of the protocol.
    Protocol = 0x000a,
    /// A wrong name or password.
    Credentials = 0x0100,
    /// Too many bytes or requests are in flight.
    Overloaded = 0x1001,
    /// An invalid request.
    Invalid = 0x2200,
}

/// An error of a request before a statement runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The code of the protocol.
    pub code: ErrorCode,
    /// The message, identical to Cassandra's if it has one.
    pub text: Cow<'static, str>,
}

impl WireError {
    /// Returns a protocol error.
    pub fn protocol(text: impl Into<Cow<'static, str>>) -> WireError {
        WireError { code: ErrorCode::Protocol, text: text.into() }
    }

    /// Returns an error of another code.
    pub fn new(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> WireError {
        WireError { code, text: text.into() }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for WireError {}
