//! CQL 3 over the data model of `firn-wide`: tables with partition keys and clustering columns,
//! collections, user types, counters, batches, conditions, indexes, JSON.
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
//! - [`Session`]: runs statements, prepares them ([`Prepared`]), remembers the keyspace. [`Run`]
//!   says how: page size, timestamp.
//! - [`Rows`], [`Row`]: a result, or a page of one. [`Walk`]: rows however many, a page at a time.
//!   [`FromRow`] makes rows structs.
//! - [`ToValue`], [`FromValue`], [`Values`], [`Named`]: Rust's types as values, and back; [`Value`]
//!   where no type is known.
//! - [`StatementLog`]: what sessions ran, as lines of JSON ([`LoggedStatement`]).
//! - [`Script`] cuts a text into statements; [`quote_if_needed`] writes a name so that it is read
//!   again.
//!
//! What is here stays; the rooms of the language are behind [`internals`], without promises.

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

/// The examples of the page, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cql.md")]
struct Page;

/// The example of the page on the way to a cluster.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/outgrow.md")]
struct OutgrowPage;
