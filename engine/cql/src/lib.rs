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
//!   [`RunOptions`] has the options of one execution, such as page size and timestamp.
//! - [`Rows`], [`Row`]: a result, or one page of a result. [`PagedRows`]: iterates over any number of
//!   rows, one page at a time. [`FromRow`] converts rows to structs.
//! - [`ToValue`], [`FromValue`], [`Values`], [`Named`]: convert Rust types to CQL values and back.
//!   [`Value`] is a value of a type that is not known at compile time.
//! - [`StatementLog`]: a log of executed statements, one line of JSON each ([`LoggedStatement`]).
//! - [`Script`] splits a text into statements. [`quote_if_needed`] writes a name so that the parser
//!   reads it back.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `derive` (on by default) | `#[derive(FromRow)]` |
//! | `passwords` | hashes and checks passwords of roles, as servers and shells need |
//! | `rhai` | user-defined functions, with bodies in rhai |
//! | `time-zones` | timestamps with names of time zones, such as `Europe/Berlin` |
//! | `num-bigint-04` | conversions of [`VarInt`] from and to `BigInt` of `num-bigint` 0.4 |
//!
//! The API here is stable. The hidden module `internals` is for the tools of this workspace and has
//! no stability promise.

#![warn(missing_debug_implementations)]

mod analysis;
mod catalog;
mod error;
mod exec;
#[doc(hidden)]
pub mod internals;
mod script;
mod session;
mod syntax;
mod values;

pub use catalog::ColumnType;
pub use error::{Error, ErrorClass, Result};
pub use exec::{
    BatchLimits, FromRow, PagingState, ResultBudget, ResultKind, Row, Rows, SchemaChange,
    TombstoneLimits,
};
#[doc(hidden)]
pub use exec::{ChangeKind, ResultShare, TableAccess};
#[cfg(feature = "derive")]
pub use firn_cql_derive::FromRow;
pub use script::with_scripts;
pub use session::{
    LoggedSize, LoggedStatement, OwnedRow, PagedRows, Prepared, RunOptions, Session, StatementLog,
    Typed,
};
#[doc(hidden)]
pub use session::{RanStatement, StatementStart};
pub use syntax::ast::BatchKind;
pub use syntax::{Piece, Script, SyntaxError, quote_if_needed};
pub use uuid::Uuid;
pub use values::{BoundValue, ColumnSpec, FromValue, Named, ToValue, Value, Values, VarInt};

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/cql.md")]
struct Page;

/// Runs the example of the page about moving to a cluster.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/outgrow.md")]
struct OutgrowPage;
