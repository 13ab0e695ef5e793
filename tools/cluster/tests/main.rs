//! Integration tests of sessions with clusters, one module for each subject.

mod cluster;
mod differences;
mod floors;
mod folder;
#[cfg(feature = "tls")]
mod tls;
