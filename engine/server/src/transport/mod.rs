//! Floor 0: the bytes between a server and a client, for either side, as they are or encrypted.
//!
//! | file | what |
//! |---|---|
//! | `send` | how bytes are sent without waiting |
//! | `tls` | the encryption of a connection, with rustls (feature `tls`) |
//! | `connection` | a connection, with or without it |
//! | `certificates` | the files that it is made with |
//!
//! Invariants: one thread reads; one thread at a time sends, which [`Transport`] leaves to those who
//! have it; no lock that reading takes is held while the client is waited for. Where nothing is
//! encrypted there is no lock at all.

mod certificates;
mod connection;
mod send;
#[cfg(feature = "tls")]
mod tls;

pub use certificates::{TlsAcceptor, TlsOptions, TlsTrust, encrypted_to};
pub use connection::{NO_TLS_HERE, Transport, looks_encrypted};
