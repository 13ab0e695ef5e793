//! Errors of the clients.

use std::fmt;

use firn_cql::ErrorClass;

/// An error of a client's request or connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused the request. The connection stays usable.
    #[allow(missing_docs)]
    Refused {
        /// Error code of the protocol ([`ClientError::class`] names it).
        code: i32,
        /// The server's message.
        text: String,
    },
    /// The requested path does not exist (Thrift only). The connection stays usable.
    NotFound,
    /// The server requires a login, and the options have none.
    LoginRequired,
    /// No server listens at this address.
    Unreachable(String, std::io::Error),
    /// The connection has ended, or timed out. The request may or may not have been executed.
    Lost(String),
    /// The response violates the protocol. The connection is closed.
    Protocol(String),
    /// TLS was not negotiated, or failed. The connection is closed.
    NotEncrypted(String),
    /// The caller stopped the request. The connection is closed.
    Stopped,
}

impl ClientError {
    /// Returns the name of the server's code, as drivers show it; for other errors, a name for the
    /// failure of the connection.
    pub fn class(&self) -> &'static str {
        match self {
            ClientError::Refused { code, .. } => {
                ErrorClass::of_code(*code).unwrap_or(ErrorClass::Server).name()
            }
            ClientError::NotFound => "NotFound",
            ClientError::LoginRequired => ErrorClass::BadCredentials.name(),
            ClientError::Unreachable(..) => "Unreachable",
            ClientError::Lost(_) | ClientError::Protocol(_) | ClientError::NotEncrypted(_) => {
                "ConnectionLost"
            }
            ClientError::Stopped => "Stopped",
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Refused { text, .. } => f.write_str(text),
            ClientError::NotFound => f.write_str("not found"),
            ClientError::LoginRequired => f.write_str("the server wants a name and a password"),
            ClientError::Unreachable(address, why) => {
                write!(f, "cannot connect to {address}: {why}")
            }
            ClientError::Lost(why) => write!(f, "the connection to the server is lost: {why}"),
            ClientError::Protocol(what) => {
                write!(f, "the server's answer breaks the rules of the protocol: {what}")
            }
            ClientError::NotEncrypted(why) => {
                write!(f, "the connection to the server is not encrypted: {why}")
            }
            ClientError::Stopped => f.write_str("it was stopped"),
        }
    }
}

/// It has no source: its text includes that of its cause, so a printed chain repeats nothing.
impl std::error::Error for ClientError {}
