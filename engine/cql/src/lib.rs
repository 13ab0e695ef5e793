//! CQL 3 over the data model of `firn-wide`: tables with partition keys and clustering columns,
//! collections, user types, counters, batches, conditional updates, indexes and JSON.
//!
//! ```
//! use firn_cql::Session;
//! let session = Session::in_memory()?; // `Session::open` takes a directory
//! session.execute("CREATE KEYSPACE music WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
//! session.execute("CREATE TABLE music.songs (album text, track int, title text, PRIMARY KEY (album, track))", ())?;
//!
//! let insert = session.prepare("INSERT INTO music.songs (album, track, title) VALUES (?, ?, ?)")?;
//! for (track, title) in [(2, "Dear Prudence"), (1, "Back in the U.S.S.R.")] {
//!     session.run(&insert, ("The Beatles", track, title), &Default::default())?;
//! }
//! let songs = session.execute("SELECT track, title FROM music.songs WHERE album = ?", ("The Beatles",))?;
//! let songs: Vec<(i32, String)> = songs.typed()?;
//! assert_eq!(songs, [(1, "Back in the U.S.S.R.".into()), (2, "Dear Prudence".into())]);
//! # Ok::<(), firn_cql::Error>(())
//! ```
//!
//! - [`Session`]: runs statements, prepares them ([`Prepared`]) and holds the current keyspace.
//!   [`Run`] has the options of one execution, such as page size and timestamp.
//! - [`Rows`], [`Row`]: a result, or one page of a result. [`Walk`]: iterates over any number of
//!   rows, one page at a time. [`FromRow`] converts rows to structs.
//! - [`ToValue`], [`FromValue`], [`Values`], [`Named`]: convert Rust types to CQL values and back.
//!   [`Value`] is a value of a type that is not known at compile time.
//! - [`StatementLog`]: a log of executed statements, one line of JSON each ([`LoggedStatement`]).
//! - [`Script`] splits a text into statements. [`quote_if_needed`] writes a name so that the parser
//!   reads it back.
//!
//! The API here is stable. The modules in [`internals`] have no stability promise.

#![warn(missing_debug_implementations)]

mod analysis;
mod catalog;
mod error;
mod exec;
pub mod internals;
mod script;
mod session;
mod syntax;
mod values;

pub use catalog::ColumnType;
pub use error::{Class, Error, Result};
pub use exec::{
    BatchLimits, ChangeKind, FromRow, Kind, PagingState, ResultBudget, ResultShare, Row, Rows,
    SchemaChange, TableAccess, TombstoneLimits,
};
#[cfg(feature = "derive")]
pub use firn_cql_derive::FromRow;
pub use script::with_scripts;
pub use session::{
    LoggedSize, LoggedStatement, OwnedRow, Prepared, RanStatement, Run, Session, StatementLog,
    StatementStart, Typed, Walk,
};
pub use syntax::ast::BatchKind;
pub use syntax::{Piece, Script, SyntaxError, quote_if_needed};
pub use values::{Bound, ColumnSpec, FromValue, Named, ToValue, Value, Values};

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/cql.md")]
struct Page;

/// Runs the example of the page about moving to a cluster.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/outgrow.md")]
struct OutgrowPage;
