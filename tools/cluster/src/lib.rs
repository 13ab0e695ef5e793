//! One session, two places: a database in a folder of this machine, or a cluster of Apache
//! Cassandra or ScyllaDB. A URL chooses; the program stays as it is.
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
//! [`Session`] has the calls of [`firn_cql::Session`], which a program that knows only folders takes
//! instead: nothing but the type's path differs. Values, rows, pages, walks and errors are
//! `firn-cql`'s own types. Beneath is the driver `scylla`, with a small runtime of its own; values
//! go through it as bytes, so every type that CQL has is read and written as in a folder.
//!
//! # What differs
//!
//! Each row is a test of `tests/differences.rs`.
//!
//! | what | in a folder | at a cluster |
//! |---|---|---|
//! | `kind of a definition` | [`Kind::Schema`](firn_cql::Kind::Schema) tells what was defined | [`Kind::Void`](firn_cql::Kind::Void): the driver does not pass it on |
//! | `frozen types` | columns and markers tell whether a type is frozen | they say that it is: the protocol does not tell |
//! | `place of a syntax error` | [`Error::Syntax`](firn_cql::Error::Syntax) has it | the class is the same; the place stands in the server's text |
//! | `USE prepared` | runs like any statement | is refused: execute it, or name the keyspace by [`Run::keyspace`](firn_cql::Run::keyspace) |
//! | `now_in_seconds` | is the time of the statement | is refused: it needs version 5 of the protocol, the driver speaks 4 |
//! | `limits and endpoint` | [`Run`](firn_cql::Run)'s `batch_limits`, `tombstone_limits` and `endpoint` count | are refused: the server has its own |
//! | `large batches` | are carried out, unless limits are given | over several partitions and 50 KiB, the server refuses them, unless it is told otherwise |
//! | `kind of a batch` | [`Rows::batch`](firn_cql::Rows::batch) tells it | is `None` |
//! | `a flag that stops` | stops a `SELECT`; writes go through | no answer is waited for; what was sent may be carried out |
//! | `definitions of others` | a prepared statement follows them | its markers keep their types until it is prepared again; columns follow |
//! | `logging in` | is [`firn_cql::Session::log_in`]; no URL does it | is the URL's user and password |
//! | `consistency` | there is one replica: any level is taken, and means nothing | is the URL's, or [`Session::with_consistency`]'s |
//! | `types of other classes` | are bytes | the driver can't read such a column |
//!
//! Beyond the session itself: an unlogged batch over several partitions is whole in a folder and
//! not at a cluster. A result that is read in pages is of one moment for each page only, in both. A
//! write without a timestamp gets that of the node which takes it, so the clocks of nodes decide
//! between writers at several of them. TLS needs the feature `tls`. Which statements the databases themselves answer otherwise is in `COMPATIBILITY.md` of
//! `firn-server`.

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

/// The examples of the page, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cluster.md")]
struct ClusterPage;

#[cfg(test)]
extern crate self as firn_cluster;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
