//! The language of `cassandra-cli` (model 2.10): statements in, the texts that the command of 2012
//! printed out.
//!
//! A text passes through [`split`] (statements end at `;`), [`lex`] (tokens) and [`parse()`] (a
//! [`CliStatement`]). None of these knows the store, and none panics on any text. A [`CliSession`] runs
//! it against a [`CliStore`]: a database of this process, or a server. The language is
//! in `grammar.md` beside this file.
//!
//! Two voices: *lenient*, which takes what people mean, and *strict*, which answers what the server
//! of 1.1.12 answered. A [`CliSyntaxError`] and a [`SyntaxFailure`] carry both texts.

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
