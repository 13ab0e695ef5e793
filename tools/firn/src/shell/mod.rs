//! Shells: line editing, paging, Ctrl-C, connections to servers, and `firn cli`. The shell of CQL is
//! in `crate::cql`.

pub mod cassandra_cli;
pub mod connect;
pub mod interrupt;
pub mod pager;
pub mod prompt;
pub mod statements;
mod thrift;
