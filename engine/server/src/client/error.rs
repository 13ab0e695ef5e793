//! Why a client got no answer.

use std::fmt;

use firn_cql::Class;

/// Why a client got no answer, or another one than it wished.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server has refused the request. The connection stands.
    #[allow(missing_docs)]
    Refused {
        /// A code of the protocol ([`ClientError::class`] names it).
        code: i32,
        /// In the server's words.
        text: String,
    },
    /// What was asked for by its full path does not exist (Thrift's interface only). The connection
    /// stands.
    NotFound,
    /// The server wants a login, and the options have none.
    LoginWanted,
    /// Nobody could be reached at this address.
    Unreachable(String, std::io::Error),
    /// The connection has ended, or was ended because no answer came. Whether the request was
    /// carried out is not known.
    Lost(String),
    /// What came is no answer of the protocol. The connection was ended.
    Nonsense(String),
    /// No encryption was agreed on, or it was broken. The connection was ended.
    NotEncrypted(String),
    /// Somebody has stopped it. The connection was ended.
    Stopped,
}

impl ClientError {
    /// The name of the server's code, as drivers show it; of all else, what has happened to the
    /// connection.
    pub fn class(&self) -> &'static str {
        match self {
            ClientError::Refused { code, .. } => {
                Class::of_code(*code).unwrap_or(Class::Server).name()
            }
            ClientError::NotFound => "NotFound",
            ClientError::LoginWanted => Class::BadCredentials.name(),
            ClientError::Unreachable(..) => "Unreachable",
            ClientError::Lost(_) | ClientError::Nonsense(_) | ClientError::NotEncrypted(_) => {
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
            ClientError::LoginWanted => f.write_str("the server wants a name and a password"),
            ClientError::Unreachable(address, why) => {
                write!(f, "cannot connect to {address}: {why}")
            }
            ClientError::Lost(why) => write!(f, "the connection to the server is lost: {why}"),
            ClientError::Nonsense(what) => {
                write!(f, "the server's answer breaks the rules of the protocol: {what}")
            }
            ClientError::NotEncrypted(why) => {
                write!(f, "the connection to the server is not encrypted: {why}")
            }
            ClientError::Stopped => f.write_str("it was stopped"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Unreachable(_, e) => Some(e),
            _ => None,
        }
    }
}
