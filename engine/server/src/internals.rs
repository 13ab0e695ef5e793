//! The bytes of the protocol, for fuzzers and loaders. Floor 4.
//!
//! **Nothing here is promised.** Names, signatures and behaviour change with any release, also with
//! a patch.

/// Floor 2: the messages of Thrift.
pub mod thrift {
    pub use crate::thrift::{MessageKind, ThriftCall, ThriftReply, ThriftValue};
}
/// Floor 0: frames, segments, requests and responses, for servers and clients.
pub mod wire {
    pub use crate::wire::*;
}
