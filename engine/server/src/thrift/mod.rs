//! Floor 2: the interface before CQL: Thrift's binary protocol, framed or not, strict or not, over
//! the operations of `firn-wide`.
//!
//! | file | content |
//! |---|---|
//! | `binary` | messages, and the values within them |
//! | `fields` | fields of structures, and the types that they are read as |
//! | `writer` | types that write their values |
//! | `value` | messages as trees of values |
//! | `convert` | conversion of the interface's structures to those of the data model, and back |
//! | `fault` | exceptions |
//! | `calls`, `statements` | implementation of the calls |
//! | `session` | state of a client's session |
//! | `answer` | a message and its reply |
//! | `old_calls` | the calls of 0.4, mapped to current ones |
//! | `connection` | a connection: extracts messages and answers them in order |
//!
//! Invariants: replies have the order of the calls. A malformed message ends the connection, a
//! failed call does not.
//!
//! Source: `interface/cassandra.thrift` of Apache Cassandra, version 20.1.0.

mod answer;
mod binary;
mod calls;
mod connection;
mod convert;
mod fault;
mod fields;
mod old_calls;
mod session;
mod statements;
mod value;
mod writer;

pub use binary::{EncodedFields, EncodedValue, MessageHead, MessageKind, ThriftMessage};
pub use connection::serve_thrift;
pub use fields::ReadField;
pub use session::ThriftSession;
pub use value::{ThriftCall, ThriftReply, ThriftValue};
pub use writer::{Pairs, ThriftWriter, structure};
