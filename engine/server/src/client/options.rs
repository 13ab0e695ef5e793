//! Options of a client connection.

use std::fmt;
use std::time::Duration;

use crate::transport::TlsTrust;

/// Options of a client connection. `Debug` hides the password.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Server address, `HOST:PORT`; the host may be a name.
    pub address: String,
    /// Role and password.
    pub login: Option<(String, String)>,
    /// TLS settings. `None`: not encrypted.
    pub tls: Option<TlsTrust>,
    /// Maximum time to connect and log in; 5 s.
    pub connect_timeout: Duration,
    /// Maximum time without received bytes while a response is due. `None`: unlimited. 60 s.
    pub request_timeout: Option<Duration>,
    /// Longest response, in bytes; 256 MiB.
    pub max_response: usize,
}

impl ClientOptions {
    /// Returns options for the server at this address, without a login.
    pub fn new(address: impl Into<String>) -> ClientOptions {
        ClientOptions {
            address: address.into(),
            login: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Some(Duration::from_secs(60)),
            max_response: 256 << 20,
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
