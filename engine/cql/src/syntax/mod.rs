//! CQL as text: [`parse`] makes a syntax tree of a statement, `Display` of the tree makes text of
//! it again, [`Script`] cuts a script into statements.
//!
//! The grammar (model 3.1) is in `GRAMMAR.md` beside this crate's manifest. What the servers report
//! as a syntax error is found here, all the rest belongs to the analysis, which knows the schema.
//!
//! Invariants: no input panics; nesting, length, values and bind markers of a statement are capped
//! ([`MAX_DEPTH`], [`MAX_LENGTH`], [`MAX_TERMS`], [`MAX_CHANGES`], [`MAX_MARKERS`]); a tree is at
//! most [`MAX_DEPTH`] high, so walking it recursively is safe; a tree that was parsed, printed and
//! parsed again is the same tree.
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

pub use error::SyntaxError;
pub use limits::{MAX_CHANGES, MAX_DEPTH, MAX_LENGTH, MAX_MARKERS, MAX_TERMS};
pub use parser::ParsedStatement;
pub use printer::{quote_if_needed, quote_type_if_needed};
pub use script::{Piece, Script};

use parser::CqlParser;

/// Parses one statement; any number of `;` may follow it.
///
/// # Errors
/// The first thing that is not CQL, with its place and what was expected there.
pub fn parse(text: &str) -> Result<ParsedStatement<'_>, Box<SyntaxError>> {
    parse_from(text, 0)
}

/// Parses one statement of any bytes.
///
/// # Errors
/// As [`parse`]; bytes that are not UTF-8 are a syntax error as well.
pub fn parse_bytes(bytes: &[u8]) -> Result<ParsedStatement<'_>, Box<SyntaxError>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(e) => Err(Box::new(SyntaxError::not_utf8(bytes, e.valid_up_to()))),
    }
}

/// Parses a term by itself: a constant, a collection, a function's call.
///
/// # Errors
/// As [`parse`].
pub fn parse_term(text: &str) -> Result<ast::Term<'_>, Box<SyntaxError>> {
    if text.len() > MAX_LENGTH {
        return Err(Box::new(SyntaxError::too_long(text.len())));
    }
    CqlParser::new(text, 0, false)
        .lone_term()
        .or_else(|_| CqlParser::new(text, 0, true).lone_term())
}

/// Parses the statement of `text` that begins at byte `start`; positions count from the beginning
/// of `text`.
fn parse_from(text: &str, start: usize) -> Result<ParsedStatement<'_>, Box<SyntaxError>> {
    if text.len() > MAX_LENGTH {
        return Err(Box::new(SyntaxError::too_long(text.len())));
    }
    let at = start as u32;
    // Only after an error is it worth while to note what else could have stood where: the second
    // time finds the same error.
    CqlParser::new(text, at, false).whole().or_else(|_| CqlParser::new(text, at, true).whole())
}
