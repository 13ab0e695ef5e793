//! Server for Cassandra clients on top of Firn: CQL's native protocol, versions 3, 4 and 5, in one
//! process that starts in milliseconds.
//!
//! ```
//! use firn_server::{Options, Server};
//! let server = Server::start(Options::ephemeral())?; // in memory, at a free port
//! println!("any driver may connect to {}", server.address());
//! server.stop()?;
//! # Ok::<(), firn_server::ServerError>(())
//! ```
//!
//! # Features
//!
//! No feature is on by default. `tls` adds encrypted connections, with rustls and ring
//! ([`Options::tls`]).
//!
//! The command `firn serve` runs this server. `COMPATIBILITY.md` beside this crate lists the
//! differences from Cassandra that clients can see.
//!
//! Floors: [`options`](Options), `descriptors`, `transport`, `http`, `wire` (0) < `node` (1) <
//! `native`, `thrift` (2) < `server`, `client` (3).

#![warn(missing_debug_implementations)]

#[doc(hidden)]
pub mod client;
mod descriptors;
#[doc(hidden)]
pub mod http;
#[doc(hidden)]
pub mod internals;
mod native;
mod node;
mod options;
mod server;
mod thrift;
mod transport;
mod wire;

pub use descriptors::DescriptorPlan;
pub use options::{MetricsSource, Options, ServerError, StoreLocation};
pub use server::Server;
pub use transport::TlsOptions;
#[doc(hidden)]
pub use transport::TlsTrust;

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/serve.md")]
struct ServePage;
