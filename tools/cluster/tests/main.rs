//! Integration tests of sessions with clusters, one module a subject.

mod cluster;
mod differences;
mod floors;
mod folder;
#[cfg(feature = "tls")]
mod tls;
