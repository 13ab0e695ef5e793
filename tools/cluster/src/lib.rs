//! One session type for two databases: a database in a directory of this machine, or a cluster of
//! Apache Cassandra or ScyllaDB. A URL selects it; the program stays the same.
//!
//! ```no_run
//! use firn_cluster::Session;
//! // "firn:shop" today, "cassandra://ann:secret@10.0.0.1,10.0.0.2/shop?consistency=QUORUM" tomorrow
//! let session = Session::connect(&std::env::var("DATABASE").unwrap_or_default())?;
//! let insert = session.prepare("INSERT INTO shop.items (id, name) VALUES (?, ?)")?;
//! session.run(&insert, (1, "snow"), &Default::default())?;
//! let items: Vec<(i32, String)> = session.execute("SELECT id, name FROM shop.items", ())?.typed()?;
//! # Ok::<(), firn_cql::Error>(())
//! ```
//!
//! [`Session`] has the calls of [`firn_cql::Session`], which programs for directories only can use
//! instead: only the type's path differs. Values, rows, pages, walks and errors are `firn-cql`'s
//! own types. The cluster backend is the driver `scylla`, with its own small runtime. Values pass
//! through it as bytes, so every CQL type works as in a directory.
//!
//! # Differences
//!
//! Each row has a test in `tests/differences.rs`.
//!
//! | what | in a directory | at a cluster |
//! |---|---|---|
//! | `kind of a definition` | [`ResultKind::Schema`](firn_cql::ResultKind::Schema) with the change | [`ResultKind::Void`](firn_cql::ResultKind::Void): the driver does not pass it on |
//! | `frozen types` | columns and markers say whether a type is frozen | always frozen: the protocol does not say |
//! | `place of a syntax error` | in [`Error::Syntax`](firn_cql::Error::Syntax) | the class is the same; the position is in the server's text |
//! | `USE prepared` | runs like any statement | is refused: execute it, or name the keyspace by [`RunOptions::keyspace`](firn_cql::RunOptions::keyspace) |
//! | `now_in_seconds` | is the time of the statement | is refused: it needs version 5 of the protocol, the driver speaks 4 |
//! | `limits and endpoint` | [`RunOptions`](firn_cql::RunOptions)'s `batch_limits`, `tombstone_limits` and `endpoint` apply | are refused: the server has its own |
//! | `large batches` | are executed, unless limits are given | are refused over several partitions and 50 KiB, unless the server is configured otherwise |
//! | `kind of a batch` | in [`Rows::batch`](firn_cql::Rows::batch) | is `None` |
//! | `a flag that stops` | stops a `SELECT`; writes complete | stops waiting for the response; a sent statement may be executed |
//! | `definitions of others` | a prepared statement follows them | its markers keep their types until it is prepared again; columns follow |
//! | `logging in` | is [`firn_cql::Session::log_in`]; URLs have no login | is the URL's user and password |
//! | `consistency` | there is one replica: any level is accepted, without effect | is the URL's, or [`Session::with_consistency`]'s |
//! | `types of other classes` | are bytes | the driver cannot read such a column |
//!
//! Differences of the databases: an unlogged batch over several partitions is atomic in a
//! directory, not at a cluster. In both, each page of a result is a snapshot, but the whole result
//! is not. A write without a timestamp gets that of its coordinator, so the clocks of nodes decide
//! between writers at several of them. TLS needs the feature `tls`. `COMPATIBILITY.md` of
//! `firn-server` lists the differences of the databases in statements.

#![warn(missing_debug_implementations)]

mod address;
mod cluster;
mod cluster_session;
mod convert;
mod failure;
mod prepared;
mod session;
#[cfg(feature = "tls")]
mod tls;

pub use address::ClusterUrl;
pub use prepared::Prepared;
pub use session::Session;

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/cluster.md")]
struct ClusterPage;

#[cfg(test)]
extern crate self as firn_cluster;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
