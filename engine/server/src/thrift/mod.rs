//! Floor 2: the interface of the era before CQL: Thrift's binary protocol, framed or not, in both of
//! its forms, over the operations of `firn-wide`.
//!
//! | file | what |
//! |---|---|
//! | `binary` | messages and values |
//! | `convert` | structures of the interface made into those of the data model, and back |
//! | `fault` | exceptions |
//! | `calls`, `statements` | what each call does |
//! | `session` | what a conversation holds |
//! | `old_calls` | the calls of 0.4, as calls of today |
//! | `connection` | a connection: messages cut out of bytes, answered one after the other |
//!
//! Invariants: a connection is answered in its order; a message that can't be read ends it, a call
//! that fails does not.
//!
//! Source: `interface/cassandra.thrift` of Apache Cassandra, version 20.1.0.

mod binary;
mod calls;
mod connection;
mod convert;
mod fault;
mod old_calls;
mod session;
mod statements;

pub use binary::{MessageKind, ThriftCall, ThriftReply, ThriftReplyKind, ThriftValue};
pub use connection::serve_thrift;
pub use convert::{FromThrift, ToThrift};
pub use fault::ThriftFault;
