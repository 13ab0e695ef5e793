//! Errors of the data model: Thrift's exceptions with their texts, and errors of the engine.

use std::fmt;

/// Result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a call, which had no effect.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// `NotFoundException`: the full path of the request does not exist.
    NotFound,
    /// `InvalidRequestException`: the request is invalid, with the reason. Nothing was written.
    InvalidRequest(String),
    /// A configuration that cannot be used (`storage-conf.xml`, an unknown comparator), with the
    /// reason.
    Configuration(String),
    /// The store contains bytes that this version cannot decode, with their location.
    Corrupt(String),
    /// Error of the engine.
    Store(firn_kv::Error),
    /// Another thread stopped the call ([`Wide::stoppable`](crate::Wide::stoppable)).
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound => f.write_str("not found"),
            Error::InvalidRequest(why) => f.write_str(why),
            Error::Configuration(why) => write!(f, "configuration: {why}"),
            Error::Corrupt(what) => write!(f, "corrupt: {what}"),
            Error::Store(e) => e.fmt(f),
            Error::Stopped => f.write_str("the statement was stopped"),
        }
    }
}

/// It has no source: its text includes that of its cause, so a printed chain repeats nothing.
impl std::error::Error for Error {}

impl From<firn_kv::Error> for Error {
    fn from(e: firn_kv::Error) -> Error {
        Error::Store(e)
    }
}

/// Creates an [`Error::InvalidRequest`] with this reason.
pub fn invalid(why: impl Into<String>) -> Error {
    Error::InvalidRequest(why.into())
}
