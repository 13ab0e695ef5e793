//! The language CQL over the data model of `firn-wide`.
//!
//! - [`syntax`]: text to a syntax tree and back: lexer, parser, printer, and the splitter of scripts. It knows of no schema; names and
//!   types are only spelled, not looked up.
//! - [`catalog`]: what is defined.
//!
//! # The rooms
//! A module imports only lower floors: [`syntax`], [`error`] (0) < [`catalog`], [`values`] (1) < `analysis` (2) < [`exec`] (3) <
//! [`session`] (4), whose names are re-exported here.

pub mod catalog;
pub mod error;
pub mod values;
pub mod syntax;

pub use error::{Class, Error, Result};
