//! The errors of the data model: the exceptions of the article's era with their texts, and what the
//! engine beneath says.

use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call did nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// `NotFoundException`: what was asked for by its full path does not exist.
    NotFound,
    /// `InvalidRequestException`: the request can't be right, with the reason. Nothing was written.
    InvalidRequest(String),
    /// A configuration that can't be used (`storage-conf.xml`, an unknown comparator), with the
    /// reason.
    Configuration(String),
    /// The store holds bytes that this version can't understand: where, and what.
    Corrupt(String),
    /// The engine beneath failed.
    Store(firn_kv::Error),
    /// Somebody stopped it ([`Wide::stoppable`](crate::Wide::stoppable)).
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Store(e) => Some(e),
            _ => None,
        }
    }
}

impl From<firn_kv::Error> for Error {
    fn from(e: firn_kv::Error) -> Error {
        Error::Store(e)
    }
}

/// An [`Error::InvalidRequest`] with this reason.
pub fn invalid(why: impl Into<String>) -> Error {
    Error::InvalidRequest(why.into())
}
