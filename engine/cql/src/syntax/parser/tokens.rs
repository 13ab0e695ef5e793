//! State of the parser: the current token, the next one, and counters.

use super::rule::Expect;
use crate::syntax::keyword::{Keyword, KeywordClass};
use crate::syntax::lexer::{CqlToken, Lexer, Tok};

/// State of parsing one statement.
pub(in crate::syntax) struct CqlParser<'a> {
    pub(super) text: &'a str,
    pub(super) lexer: Lexer<'a>,
    pub(super) token: CqlToken,
    pub(super) ahead: CqlToken,
    /// Nesting depth of the rules.
    pub(super) depth: u32,
    /// Height of the last parsed term, selector or type.
    pub(super) height: u32,
    pub(super) markers: u32,
    pub(super) terms: u32,
    pub(super) expected: Option<Vec<Expect>>,
}

/// Position of a parser, for backtracking.
pub(super) struct Checkpoint<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) token: CqlToken,
    pub(super) ahead: CqlToken,
    pub(super) expected: usize,
}

impl<'a> CqlParser<'a> {
    /// Creates a parser of the statement at byte `at`; `recording` enables recording of expected
    /// tokens.
    pub(in crate::syntax) fn new(text: &'a str, at: u32, recording: bool) -> CqlParser<'a> {
        let mut lexer = Lexer::new(text, at);
        let (token, ahead) = (lexer.next_token(), lexer.next_token());
        let expected = recording.then(Vec::new);
        CqlParser { text, lexer, token, ahead, depth: 0, height: 0, markers: 0, terms: 0, expected }
    }

    #[inline]
    pub(super) fn bump(&mut self) -> CqlToken {
        let token = self.token;
        self.token = self.ahead;
        self.ahead = self.lexer.next_token();
        if let Some(expected) = &mut self.expected {
            expected.clear();
        }
        token
    }

    #[inline]
    pub(super) fn note(&mut self, what: Expect) {
        if let Some(expected) = &mut self.expected
            && !expected.contains(&what)
        {
            expected.push(what);
        }
    }

    #[inline]
    pub(super) fn at(&mut self, kind: Tok) -> bool {
        self.token.kind == kind || {
            self.note(Expect::Tok(kind));
            false
        }
    }

    #[inline]
    pub(super) fn at_kw(&mut self, keyword: Keyword) -> bool {
        self.at(Tok::Kw(keyword))
    }

    #[inline]
    pub(super) fn eat(&mut self, kind: Tok) -> bool {
        self.at(kind) && {
            self.bump();
            true
        }
    }

    #[inline]
    pub(super) fn eat_kw(&mut self, keyword: Keyword) -> bool {
        self.eat(Tok::Kw(keyword))
    }

    pub(super) fn eat_table_word(&mut self) -> bool {
        self.eat_kw(Keyword::Table) || self.eat_kw(Keyword::ColumnFamily)
    }

    pub(super) fn place(&self) -> Checkpoint<'a> {
        let expected = self.expected.as_ref().map_or(0, Vec::len);
        Checkpoint { lexer: self.lexer, token: self.token, ahead: self.ahead, expected }
    }

    /// Goes back to a position, and restores the expected tokens.
    pub(super) fn go_back(&mut self, place: Checkpoint<'a>) {
        (self.lexer, self.token, self.ahead) = (place.lexer, place.token, place.ahead);
        if let Some(expected) = &mut self.expected {
            expected.truncate(place.expected);
        }
    }

    /// Returns the text of the current token.
    pub(super) fn slice(&self) -> &'a str {
        self.text_of(self.token)
    }

    pub(super) fn text_of(&self, token: CqlToken) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    #[inline]
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Reports whether a token can be a name.
    #[inline]
    pub(super) fn is_name(kind: Tok) -> bool {
        match kind {
            Tok::Ident | Tok::Quoted => true,
            Tok::Kw(k) => k.class() != KeywordClass::Reserved,
            _ => false,
        }
    }
}
