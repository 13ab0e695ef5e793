//! Recursive descent parser with two tokens of lookahead.
//!
//! Every rule of the grammar is a method, in the file of its statement kind. A rule fails at the
//! first token that does not match. There is no backtracking, except for a type in parentheses
//! before an expression (`expression.rs`). Expected tokens are recorded only if `expected` is set,
//! which is when a statement with an error is parsed a second time.

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

/// A parsed statement, with its number of bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedStatement<'a> {
    /// Syntax tree.
    pub statement: Statement<'a>,
    /// Number of bind markers; they are numbered from 0 in text order.
    pub markers: u16,
}

impl<'a> CqlParser<'a> {
    /// Parses one statement, any number of `;`, and the end.
    pub(super) fn whole(mut self) -> Result<ParsedStatement<'a>, Box<SyntaxError>> {
        match self.closed_statement() {
            Ok(statement) => Ok(ParsedStatement { statement, markers: self.markers as u16 }),
            Err(fault) => Err(self.report(*fault)),
        }
    }

    /// Parses one term and the end.
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
