//! Floor 0: byte transport between server and client, for either side, plain or with TLS.
//!
//! | file | content |
//! |---|---|
//! | `send` | non-blocking sends |
//! | `tls` | TLS of a connection, with rustls (feature `tls`) |
//! | `connection` | a connection, plain or with TLS |
//! | `certificates` | certificates and keys |
//!
//! Invariants: one thread reads; one thread at a time sends, which the users of [`Transport`]
//! ensure. No lock that reading takes is held while waiting for the client. Plain connections have
//! no lock at all.

mod certificates;
mod connection;
mod send;
#[cfg(feature = "tls")]
mod tls;

pub use certificates::{TlsAcceptor, TlsOptions, TlsTrust, encrypted_to};
pub use connection::{TLS_ON_PLAIN_PORT, Transport, is_tls_handshake};
