//! The language CQL over the data model of `firn-wide`.
//!
//! - [`syntax`]: text to a syntax tree and back: lexer, parser, printer, and the splitter of scripts. It knows of no schema; names and
//!   types are only spelled, not looked up.

pub mod syntax;
