//! The bytes of the protocol, for fuzzers and loaders.
//!
//! **Nothing here is promised.** Names, signatures and behaviour change with any release, also with
//! a patch.

/// Floor 0: frames, segments, requests and responses.
pub mod wire {
    pub use crate::wire::*;
}
