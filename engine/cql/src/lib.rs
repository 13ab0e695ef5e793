//! The language CQL over the data model of `firn-wide`.
//!
//! - [`syntax`]: text to a syntax tree and back: lexer, parser, printer, and the splitter of scripts. It knows of no schema; names and
//!   types are only spelled, not looked up.
//! - [`catalog`]: what is defined. [`values`]: terms, values, functions.
//! - [`exec`]: statements carried out. [`session`]: what an application uses.
//!
//! # The rooms
//! A module imports only lower floors: [`syntax`], [`error`] (0) < [`catalog`], [`values`] (1) < `analysis` (2) < [`exec`] (3) <
//! [`session`] (4), whose names are re-exported here.

#![warn(missing_debug_implementations)]

pub mod analysis;
pub mod catalog;
pub mod error;
pub mod exec;
pub mod session;
pub mod syntax;
pub mod values;

pub use error::{Class, Error, Result};
pub use exec::{FromRow, PagingState, Row, Rows};
#[cfg(feature = "derive")]
pub use firn_cql_derive::FromRow;
pub use session::{Prepared, Session, Walk};
pub use values::{FromValue, Named, ToValue, Value, Values};
