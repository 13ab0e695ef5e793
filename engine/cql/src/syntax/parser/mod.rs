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
mod property;
mod rule;
mod select;
mod selector;
mod term;
mod types;

use std::borrow::Cow;

use rule::{Expect, Rule};

use super::ast::{
    AstName, Constant, ConstantKind, Pos, QualifiedName, Statement, Term, TermPrimary,
};
use super::error::SyntaxError;
use super::keyword::{Keyword, KeywordClass};
use super::lexer::{CqlToken, Lexer, Tok};
use super::limits::{MAX_DEPTH, MAX_TERMS};

/// A statement, and how many bind markers it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedStatement<'a> {
    /// The syntax tree.
    pub statement: Statement<'a>,
    /// The number of bind markers; they are numbered from 0 in the order in which they stand in the
    /// text.
    pub markers: u16,
}

/// The state of parsing one statement.
pub(super) struct CqlParser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    token: CqlToken,
    ahead: CqlToken,
    /// How deep the rules are nested.
    depth: u32,
    /// The height of the term, selector or type that was parsed last.
    height: u32,
    markers: u32,
    terms: u32,
    expected: Option<Vec<Expect>>,
}

/// Where a parser stands, to come back to.
struct Checkpoint<'a> {
    lexer: Lexer<'a>,
    token: CqlToken,
    ahead: CqlToken,
    expected: usize,
}

impl<'a> CqlParser<'a> {
    /// A parser of the statement at byte `at`; `recording` notes what is expected.
    pub(super) fn new(text: &'a str, at: u32, recording: bool) -> CqlParser<'a> {
        let mut lexer = Lexer::new(text, at);
        let (token, ahead) = (lexer.next_token(), lexer.next_token());
        let expected = recording.then(Vec::new);
        CqlParser { text, lexer, token, ahead, depth: 0, height: 0, markers: 0, terms: 0, expected }
    }

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
            Tok::Kw(Keyword::Truncate) => {
                self.bump();
                let _ = self.eat_table_word();
                self.table_name().map(Statement::Truncate)
            }
            Tok::Kw(Keyword::Describe | Keyword::Desc) => self.describe().map(Statement::Describe),
            _ => self.no_statement(),
        }
    }

    // Tokens

    #[inline]
    fn bump(&mut self) -> CqlToken {
        let token = self.token;
        self.token = self.ahead;
        self.ahead = self.lexer.next_token();
        if let Some(expected) = &mut self.expected {
            expected.clear();
        }
        token
    }

    #[inline]
    fn note(&mut self, what: Expect) {
        if let Some(expected) = &mut self.expected
            && !expected.contains(&what)
        {
            expected.push(what);
        }
    }

    #[inline]
    fn at(&mut self, kind: Tok) -> bool {
        self.token.kind == kind || {
            self.note(Expect::Tok(kind));
            false
        }
    }

    #[inline]
    fn at_kw(&mut self, keyword: Keyword) -> bool {
        self.at(Tok::Kw(keyword))
    }

    #[inline]
    fn eat(&mut self, kind: Tok) -> bool {
        self.at(kind) && {
            self.bump();
            true
        }
    }

    #[inline]
    fn eat_kw(&mut self, keyword: Keyword) -> bool {
        self.eat(Tok::Kw(keyword))
    }

    #[inline]
    fn expect(&mut self, kind: Tok) -> Rule<CqlToken> {
        if self.at(kind) { Ok(self.bump()) } else { self.unexpected() }
    }

    #[inline]
    fn expect_kw(&mut self, keyword: Keyword) -> Rule<CqlToken> {
        self.expect(Tok::Kw(keyword))
    }

    /// `words` one after the other, if the first is there.
    fn eat_words(&mut self, words: &[Keyword]) -> Rule<bool> {
        if !self.eat_kw(words[0]) {
            return Ok(false);
        }
        for &word in &words[1..] {
            self.expect_kw(word)?;
        }
        Ok(true)
    }

    fn if_exists(&mut self) -> Rule<bool> {
        self.eat_words(&[Keyword::If, Keyword::Exists])
    }

    fn if_not_exists(&mut self) -> Rule<bool> {
        self.eat_words(&[Keyword::If, Keyword::Not, Keyword::Exists])
    }

    fn eat_table_word(&mut self) -> bool {
        self.eat_kw(Keyword::Table) || self.eat_kw(Keyword::ColumnFamily)
    }

    fn place(&self) -> Checkpoint<'a> {
        let expected = self.expected.as_ref().map_or(0, Vec::len);
        Checkpoint { lexer: self.lexer, token: self.token, ahead: self.ahead, expected }
    }

    /// Goes back; what was expected where it goes back to is no longer known beyond what it was.
    fn go_back(&mut self, place: Checkpoint<'a>) {
        (self.lexer, self.token, self.ahead) = (place.lexer, place.token, place.ahead);
        if let Some(expected) = &mut self.expected {
            expected.truncate(place.expected);
        }
    }

    /// The text of the token at hand.
    fn slice(&self) -> &'a str {
        self.text_of(self.token)
    }

    fn text_of(&self, token: CqlToken) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    // Caps

    #[inline]
    fn enter(&mut self) -> Rule<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.too_deep() } else { Ok(()) }
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
    }

    #[cold]
    fn too_deep<T>(&self) -> Rule<T> {
        self.fail(self.token, format!("this is nested more than {MAX_DEPTH} deep"))
    }

    /// A node over children the highest of which has this height.
    #[inline]
    fn grow(&mut self, highest: u32) -> Rule<()> {
        self.height = highest + 1;
        if self.height > MAX_DEPTH { self.too_deep() } else { Ok(()) }
    }

    #[inline]
    fn leaf(&mut self) -> Rule<()> {
        self.height = 1;
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return self.fail(self.token, format!("a statement has at most {MAX_TERMS} terms"));
        }
        Ok(())
    }

    /// One or more of `item`, separated by commas; of trees the height becomes that of the highest.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Rule<T>) -> Rule<Vec<T>> {
        let mut out = vec![item(self)?];
        let mut highest = self.height;
        while self.eat(Tok::Comma) {
            out.push(item(self)?);
            highest = highest.max(self.height);
        }
        self.height = highest;
        Ok(out)
    }

    /// As [`list`](CqlParser::list), up to and with `close`; none is a list as well.
    fn list_until<T>(
        &mut self,
        close: Tok,
        item: impl FnMut(&mut Self) -> Rule<T>,
    ) -> Rule<Vec<T>> {
        self.height = 0;
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let out = self.list(item)?;
        self.expect(close)?;
        Ok(out)
    }

    /// `(item, …)`, at least one.
    fn parenthesised<T>(&mut self, item: impl FnMut(&mut Self) -> Rule<T>) -> Rule<Vec<T>> {
        self.expect(Tok::LParen)?;
        let out = self.list(item)?;
        self.expect(Tok::RParen)?;
        Ok(out)
    }

    // Names

    /// Whether a token can be a name.
    #[inline]
    fn is_name(kind: Tok) -> bool {
        match kind {
            Tok::Ident | Tok::Quoted => true,
            Tok::Kw(k) => k.class() != KeywordClass::Reserved,
            _ => false,
        }
    }

    #[inline]
    fn take_name(&mut self) -> AstName<'a> {
        let token = self.bump();
        let raw = self.text_of(token);
        let text = match token.kind {
            Tok::Quoted => unquote(&raw[1..raw.len() - 1], "\"\"", "\""),
            _ => lower(raw),
        };
        AstName { text, at: Pos(token.start) }
    }

    /// A name that something is given, or that is no column's.
    fn name(&mut self, what: &'static str) -> Rule<AstName<'a>> {
        if !Self::is_name(self.token.kind) {
            return self.no_name(what);
        }
        if self.token.kind == Tok::Quoted && self.slice() == "\"\"" {
            return self.fail(self.token, "a name has at least one character");
        }
        Ok(self.take_name())
    }

    /// The name of a column that is referred to.
    #[inline]
    fn column(&mut self) -> Rule<AstName<'a>> {
        if Self::is_name(self.token.kind) { Ok(self.take_name()) } else { self.no_name("a column") }
    }

    #[cold]
    fn no_name<T>(&mut self, what: &'static str) -> Rule<T> {
        self.note(Expect::What(what));
        let hint = match self.token.kind {
            Tok::Kw(k) => Some(format!(
                "{0} is a reserved word; as a name it is written \"{1}\"",
                k.text(),
                k.text().to_lowercase()
            )),
            Tok::Str => Some(
                "single quotes make strings; names are written in double quotes or without any"
                    .to_owned(),
            ),
            Tok::Question => Some("a bind marker stands for a value, not for a name".to_owned()),
            _ => None,
        };
        self.unexpected_with(hint)
    }

    #[inline]
    fn qualified(&mut self, what: &'static str) -> Rule<QualifiedName<'a>> {
        let first = self.name(what)?;
        if !self.eat(Tok::Dot) {
            return Ok(QualifiedName { keyspace: None, name: first });
        }
        Ok(QualifiedName { keyspace: Some(first), name: self.name(what)? })
    }

    fn keyspace_name(&mut self) -> Rule<AstName<'a>> {
        if self.token.kind == Tok::Question {
            return self.fail(self.token, "Bind variables cannot be used for keyspace names");
        }
        self.name("a keyspace")
    }

    fn table_name(&mut self) -> Rule<QualifiedName<'a>> {
        if self.token.kind == Tok::Question {
            return self.fail(self.token, "Bind variables cannot be used for table names");
        }
        self.qualified("a table")
    }

    fn index_name(&mut self) -> Rule<QualifiedName<'a>> {
        if self.token.kind == Tok::Question {
            return self.fail(self.token, "Bind variables cannot be used for index names");
        }
        self.qualified("an index")
    }

    // Constants

    /// A constant, if one is there.
    #[inline]
    fn constant(&mut self) -> Option<Constant<'a>> {
        let kind = match self.token.kind {
            Tok::Str | Tok::DollarStr => ConstantKind::String,
            Tok::Integer => ConstantKind::Integer,
            Tok::Float => ConstantKind::Float,
            Tok::Duration => ConstantKind::Duration,
            Tok::Uuid => ConstantKind::Uuid,
            Tok::Hex => ConstantKind::Hex,
            Tok::Kw(Keyword::True | Keyword::False) => ConstantKind::Boolean,
            Tok::Kw(Keyword::Nan | Keyword::Infinity) | Tok::NegNan | Tok::NegInfinity => {
                ConstantKind::Float
            }
            _ => return None,
        };
        let raw = self.slice();
        let text = match self.token.kind {
            Tok::Str => unquote(&raw[1..raw.len() - 1], "''", "'"),
            Tok::DollarStr => Cow::Borrowed(&raw[2..raw.len() - 2]),
            Tok::Kw(Keyword::Nan) | Tok::NegNan => Cow::Borrowed("NaN"),
            Tok::Kw(Keyword::Infinity) => Cow::Borrowed("Infinity"),
            Tok::NegInfinity => Cow::Borrowed("-Infinity"),
            _ => Cow::Borrowed(raw),
        };
        self.bump();
        Some(Constant { kind, text })
    }

    fn string(&mut self, what: &'static str) -> Rule<Cow<'a, str>> {
        match self.token.kind {
            Tok::Str | Tok::DollarStr => match self.constant() {
                Some(constant) => Ok(constant.text),
                None => self.unexpected(),
            },
            _ => {
                self.note(Expect::What(what));
                self.unexpected()
            }
        }
    }

    /// An integer or a marker.
    fn int_value(&mut self) -> Rule<Term<'a>> {
        let at = Pos(self.token.start);
        match self.token.kind {
            Tok::Integer => match self.constant() {
                Some(constant) => Ok(Term { at, kind: TermPrimary::Constant(constant).into() }),
                None => self.unexpected(),
            },
            Tok::Question | Tok::Colon => self.marker(),
            _ => {
                self.note(Expect::What("an integer"));
                self.note(Expect::What("a bind marker"));
                self.unexpected()
            }
        }
    }
}

#[inline]
fn unquote<'a>(inner: &'a str, doubled: &str, single: &str) -> Cow<'a, str> {
    if inner.as_bytes().contains(&single.as_bytes()[0]) {
        Cow::Owned(inner.replace(doubled, single))
    } else {
        Cow::Borrowed(inner)
    }
}

#[inline]
fn lower(word: &str) -> Cow<'_, str> {
    if word.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(word.to_ascii_lowercase())
    } else {
        Cow::Borrowed(word)
    }
}
