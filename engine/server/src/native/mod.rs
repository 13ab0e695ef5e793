//! Floor 2: connections of the native protocol.
//!
//! | file | content |
//! |---|---|
//! | `outbox` | outgoing responses and their sending |
//! | `client` | a connection as seen by other threads: identity, registered events |
//! | `login` | OPTIONS, STARTUP and AUTH_RESPONSE: setup of a connection |
//! | `statement` | QUERY, PREPARE, EXECUTE, BATCH |
//! | `connection` | the thread of a connection |
//! | `views` | contents of system tables about the server |
//!
//! A thread reads each connection. It executes requests itself, in order, that take no longer than
//! a read of one row. The others go to the workers ([`crate::node::WorkerPool`]), so that a
//! heartbeat is answered while a scan runs. Each thread with a response puts it into the outbox and
//! sends the outbox. The connection's own thread waits for its client, a worker never does.
//!
//! Invariants: a client that reads slowly or not at all, stops in the middle of a frame or goes
//! away delays only its own connection. A response is sent whole, or the connection ends.

mod client;
mod connection;
mod login;
mod outbox;
mod statement;
mod views;

pub use client::{Client, Clients};
pub use connection::serve;
pub use views::ServerViews;
