//! Recursive descent over two tokens of lookahead.
//!
//! Every rule of the grammar is a method, in the file of its kind. A rule that does not apply is an
//! error at the token that does not fit; nothing is tried twice but a type in parentheses before an
//! expression (`expression.rs`). What could have stood at a token is only noted while `expected` is
//! there, which is when a statement that is known to be wrong is parsed a second time.

mod change;
mod define;
mod expression;
mod fault;
mod function;
mod keyed;
mod names;
mod property;
mod role;
mod rule;
mod select;
mod selector;
mod term;
mod tokens;
mod types;
mod view;

pub(super) use tokens::CqlParser;

use rule::Rule;

use super::ast::{Statement, Term};
use super::error::SyntaxError;
use super::keyword::Keyword;
use super::lexer::Tok;

/// A statement, and how many bind markers it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedStatement<'a> {
    /// The syntax tree.
    pub statement: Statement<'a>,
    /// The number of bind markers; they are numbered from 0 in the order in which they stand in the
    /// text.
    pub markers: u16,
}

impl<'a> CqlParser<'a> {
    /// One statement, any number of `;`, the end.
    pub(super) fn whole(mut self) -> Result<ParsedStatement<'a>, Box<SyntaxError>> {
        match self.closed_statement() {
            Ok(statement) => Ok(ParsedStatement { statement, markers: self.markers as u16 }),
            Err(fault) => Err(self.report(*fault)),
        }
    }

    /// One term, the end.
    pub(super) fn lone_term(mut self) -> Result<Term<'a>, Box<SyntaxError>> {
        let end = |parser: &mut Self, term| {
            if parser.at(Tok::End) { Ok(term) } else { parser.unexpected() }
        };
        self.term().and_then(|term| end(&mut self, term)).map_err(|fault| self.report(*fault))
    }

    fn closed_statement(&mut self) -> Rule<Statement<'a>> {
        let first = self.token.kind;
        let statement = self.statement()?;
        let mut closed = false;
        while self.eat(Tok::Semicolon) {
            closed = true;
        }
        if self.at(Tok::End) { Ok(statement) } else { self.left_over(first, closed) }
    }

    fn statement(&mut self) -> Rule<Statement<'a>> {
        match self.token.kind {
            Tok::Kw(Keyword::Select) => self.select().map(Statement::Select),
            Tok::Kw(Keyword::Insert | Keyword::Update | Keyword::Delete) => {
                self.change().map(Statement::Change)
            }
            Tok::Kw(Keyword::Begin) => self.batch().map(Statement::Batch),
            Tok::Kw(Keyword::Use) => {
                self.bump();
                self.keyspace_name().map(Statement::Use)
            }
            Tok::Kw(Keyword::Create) => self.create(),
            Tok::Kw(Keyword::Alter) => self.alter(),
            Tok::Kw(Keyword::Drop) => self.drop_statement(),
            Tok::Kw(Keyword::Add) => self.add(),
            Tok::Kw(Keyword::Truncate) => {
                self.bump();
                let _ = self.eat_table_word();
                self.table_name().map(Statement::Truncate)
            }
            Tok::Kw(Keyword::Grant | Keyword::Revoke) => self.grant(),
            Tok::Kw(Keyword::List) => self.listing(),
            Tok::Kw(Keyword::Describe | Keyword::Desc) => self.describe().map(Statement::Describe),
            _ => self.no_statement(),
        }
    }

    // Tokens

    // Caps

    // Names

    // Constants
}
