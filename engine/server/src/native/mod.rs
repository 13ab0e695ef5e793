//! Floor 2: connections of the native protocol.
//!
//! | file | what |
//! |---|---|
//! | `outbox` | answers, and how they leave |
//! | `client` | a connection as others see it: who it is, what it listens to |
//! | `login` | OPTIONS, STARTUP, what a conversation begins with |
//! | `statement` | QUERY, PREPARE, EXECUTE, BATCH |
//! | `connection` | the thread of a connection |
//! | `views` | what system tables show of all this |
//!
//! A thread reads each connection. What takes no longer than one row does it carries out itself, in
//! order; the rest goes to the workers ([`crate::node::WorkerPool`]), so that a heartbeat is answered
//! while a scan runs. Whoever has an answer puts it into the outbox, and sends what is there: the
//! connection's own thread waits for its client, a worker never does.
//!
//! Invariants: a client that reads slowly or not at all, stops in the middle of a frame or goes away
//! holds up its own connection only; an answer is sent whole or the connection ends.

mod client;
mod connection;
mod login;
mod outbox;
mod statement;
mod views;

pub use client::{Client, Clients};
pub use connection::serve;
pub use views::ServerViews;
