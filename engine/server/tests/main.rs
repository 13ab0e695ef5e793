//! Integration tests of the server, one module a subject.

mod access;
mod bounds;
mod client;
mod common;
mod conversation;
mod differential;
mod floors;
mod functions;
mod grafana;
mod thrift;
mod thrift_calls;
mod thrift_replies;
#[cfg(feature = "tls")]
mod tls;
mod watch;
