//! CQL as text. [`parse`] returns the syntax tree of a statement, `Display` of the tree converts it
//! back to text, and [`Script`] splits a script into statements.
//!
//! The grammar (model 3.1) is in `GRAMMAR.md` next to this crate's manifest. Errors that Cassandra
//! reports as syntax errors are found here; all others are found by the analysis, which has the
//! schema.
//!
//! Invariants:
//! - No input causes a panic.
//! - Nesting, length, values and bind markers of a statement are limited ([`MAX_DEPTH`],
//!   [`MAX_LENGTH`], [`MAX_TERMS`], [`MAX_CHANGES`], [`MAX_MARKERS`]).
//! - A tree is at most [`MAX_DEPTH`] high, so it can be traversed recursively.
//! - A tree that is parsed, printed and parsed again is the same tree.
//!
//! ```
//! use firn_cql::internals::syntax::ast::Statement;
//! use firn_cql::internals::syntax::parse;
//!
//! let parsed = parse("SELECT v FROM shop.items WHERE k = ? AND c > 3 LIMIT 10").unwrap();
//! assert!(matches!(parsed.statement, Statement::Select(_)));
//! assert_eq!(parsed.markers, 1);
//!
//! let error = parse("SELECT v FORM shop.items").unwrap_err();
//! assert_eq!(error.to_string(), "line 1:10 met FORM, expected '.', '[', AS, ',', FROM or an operator");
//! ```

pub mod ast;
mod error;
pub mod keyword;
pub mod lexer;
mod limits;
mod parser;
mod printer;
mod script;
mod text_enum;

pub use error::SyntaxError;
pub use limits::{MAX_CHANGES, MAX_DEPTH, MAX_LENGTH, MAX_MARKERS, MAX_TERMS};
pub use parser::ParsedStatement;
pub use printer::{quote_if_needed, quote_type_if_needed};
pub use script::{Piece, Script};
pub(crate) use text_enum::text_enum;

use parser::CqlParser;

/// Parses one statement, which may be followed by any number of `;`.
///
/// # Errors
/// The first syntax error, with its position and the expected tokens.
pub fn parse(text: &str) -> Result<ParsedStatement<'_>, Box<SyntaxError>> {
    parse_from(text, 0)
}

/// Parses one statement of any bytes.
///
/// # Errors
/// Those of [`parse`]; bytes that are not UTF-8 are a syntax error too.
pub fn parse_bytes(bytes: &[u8]) -> Result<ParsedStatement<'_>, Box<SyntaxError>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(e) => Err(Box::new(SyntaxError::not_utf8(bytes, e.valid_up_to()))),
    }
}

/// Parses a single term: a constant, a collection, a function call.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_term(text: &str) -> Result<ast::Term<'_>, Box<SyntaxError>> {
    if text.len() > MAX_LENGTH {
        return Err(Box::new(SyntaxError::too_long(text.len())));
    }
    CqlParser::new(text, 0, false)
        .lone_term()
        .or_else(|_| CqlParser::new(text, 0, true).lone_term())
}

/// Parses the statement of `text` that begins at byte `start`. Positions are relative to the begin
/// of `text`.
fn parse_from(text: &str, start: usize) -> Result<ParsedStatement<'_>, Box<SyntaxError>> {
    if text.len() > MAX_LENGTH {
        return Err(Box::new(SyntaxError::too_long(text.len())));
    }
    let at = start as u32;
    // Record expected tokens only after an error: the second pass finds the same error.
    CqlParser::new(text, at, false).whole().or_else(|_| CqlParser::new(text, at, true).whole())
}
