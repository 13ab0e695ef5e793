//! The bytes of the protocol, for fuzzers and loaders. Floor 4.
//!
//! **Nothing here is promised.** Names, signatures and behaviour change with any release, also with
//! a patch.

/// Floor 2: the messages of Thrift.
pub mod thrift {
    use std::net::{Ipv4Addr, SocketAddr};

    use firn_cql::Session;
    use firn_kv::OsEnv;

    use crate::node::Node;
    use crate::options::Options;
    use crate::thrift::ThriftSession;
    pub use crate::thrift::{MessageKind, ThriftCall, ThriftReply, ThriftValue};

    /// A Thrift client's conversation with a server in this process, without a connection.
    pub struct ThriftConversation {
        node: Node,
        session: ThriftSession,
    }

    impl std::fmt::Debug for ThriftConversation {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("ThriftConversation").finish_non_exhaustive()
        }
    }

    impl ThriftConversation {
        /// Begins a conversation on an open database.
        ///
        /// # Errors
        /// Threads that cannot be started.
        pub fn new(session: Session) -> firn_kv::Result<ThriftConversation> {
            let node = Node::new(session, OsEnv::new(), Options::ephemeral(), false, None)?;
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let session = ThriftSession::new(&node, node.meter(0), peer, None);
            Ok(ThriftConversation { node, session })
        }

        /// Executes the call in a message and appends the reply.
        ///
        /// # Errors
        /// The reason why the message is malformed.
        pub fn answer(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
            self.session.answer(&self.node, message, out)?;
            self.session.end_of_call();
            Ok(())
        }
    }
}
/// Floor 0: frames, segments, requests and responses, for servers and clients.
pub mod wire {
    pub use crate::wire::*;
}
