//! Why a server refuses: codes and texts of the protocol.

use std::borrow::Cow;
use std::fmt;

/// The codes of errors that do not come from a statement, whose codes
/// [`firn_cql::Class`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// Bytes that break the protocol's rules.
    Protocol = 0x000a,
    /// A name or password that nobody has.
    Credentials = 0x0100,
    /// More is in flight than the server takes.
    Overloaded = 0x1001,
    /// A request that can't be right.
    Invalid = 0x2200,
}

/// A request that is refused before it is a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The code of the protocol.
    pub code: ErrorCode,
    /// The text, in Cassandra's words where it has some.
    pub text: Cow<'static, str>,
}

impl WireError {
    /// An error of the class of broken rules.
    pub fn protocol(text: impl Into<Cow<'static, str>>) -> WireError {
        WireError { code: ErrorCode::Protocol, text: text.into() }
    }

    /// An error of another code.
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
