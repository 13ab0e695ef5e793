//! The language of `cassandra-cli` (model 2.10), with the output of the command of 2012.
//!
//! A text passes through [`split`] (statements end at `;`), [`lex`] (tokens) and [`parse()`] (a
//! [`CliStatement`]). None of these accesses the store, and none panics on any text. A
//! [`CliSession`] runs it against a [`CliStore`]: a database of this process, or a server.
//! `grammar.md` beside this file has the grammar.
//!
//! There are two modes: *lenient* accepts input by its intention, and *strict* answers like the
//! server 1.1.12. A [`CliSyntaxError`] and a [`SyntaxFailure`] carry the texts of both.

pub mod ast;
pub mod attributes;
mod chars;
pub mod complete;
mod define;
pub mod format;
pub mod help;
pub mod lex;
pub mod parse;
mod rows;
mod session;
pub mod split;
mod store;
mod syntax;
mod terms;

pub use ast::CliStatement;
pub use parse::parse;
pub use session::{CliAnswer, CliSession};
pub use split::{CliSource, Splitter};
pub use store::{CliResult, CliStore, CliTrouble};
pub use syntax::{
    CliSyntaxError, ExpectedKind, ExpectedToken, MAX_DEPTH, MAX_STATEMENT, SyntaxFailure,
};
