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
//! The command `firn serve` runs this server. `COMPATIBILITY.md` beside this crate lists the
//! differences from Cassandra that clients can see.
//!
//! [`client`] is the client side: a connection to a server, Firn's or Cassandra's.
//!
//! Floors: [`options`](Options), `descriptors`, `transport`, `http`, `wire` (0) < `node` (1) <
//! `native`, `thrift` (2) < `server`, [`client`] (3).

#![warn(missing_debug_implementations)]

pub mod client;
mod descriptors;
mod http;
pub mod internals;
mod native;
mod node;
mod options;
mod server;
mod thrift;
mod transport;
mod wire;

pub use descriptors::DescriptorPlan;
pub use options::{Options, ServerError, StorePlace};
pub use server::Server;
pub use transport::{TlsOptions, TlsTrust};

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/serve.md")]
struct ServePage;
