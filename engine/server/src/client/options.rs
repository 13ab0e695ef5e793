//! How a client reaches a server.

use std::fmt;
use std::time::Duration;

use crate::transport::TlsTrust;

/// How to reach a server. `Debug` does not show the password.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// `HOST:PORT`; the host may be a name.
    pub address: String,
    /// A role's name and its password.
    pub login: Option<(String, String)>,
    /// What the connection is encrypted with. `None`: it is not.
    pub tls: Option<TlsTrust>,
    /// How long to wait until a conversation has begun; 5 s.
    pub connect_timeout: Duration,
    /// How long to wait for an answer while nothing of it comes. `None`: for ever. 60 s.
    pub request_timeout: Option<Duration>,
    /// The longest answer, in bytes; 256 MiB.
    pub max_answer: usize,
}

impl ClientOptions {
    /// For the server at this address, without a login.
    pub fn new(address: impl Into<String>) -> ClientOptions {
        ClientOptions {
            address: address.into(),
            login: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Some(Duration::from_secs(60)),
            max_answer: 256 << 20,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.login.as_ref().map(|(name, _)| name);
        f.debug_struct("ClientOptions")
            .field("address", &self.address)
            .field("role", &role)
            .finish_non_exhaustive()
    }
}
