//! Basic rules: expected tokens, lists, names and constants.

use std::borrow::Cow;

use super::rule::{Expect, Rule};
use super::tokens::CqlParser;
use crate::syntax::ast::{AstName, Constant, ConstantKind, Pos, QualifiedName};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::{CqlToken, Tok};
use crate::syntax::limits::{MAX_DEPTH, MAX_TERMS};

impl<'a> CqlParser<'a> {
    #[inline]
    pub(super) fn expect(&mut self, kind: Tok) -> Rule<CqlToken> {
        if self.at(kind) { Ok(self.bump()) } else { self.unexpected() }
    }

    #[inline]
    pub(super) fn expect_kw(&mut self, keyword: Keyword) -> Rule<CqlToken> {
        self.expect(Tok::Kw(keyword))
    }

    /// Takes `words` in sequence, if the first one is next.
    pub(super) fn eat_words(&mut self, words: &[Keyword]) -> Rule<bool> {
        if !self.eat_kw(words[0]) {
            return Ok(false);
        }
        for &word in &words[1..] {
            self.expect_kw(word)?;
        }
        Ok(true)
    }

    pub(super) fn if_exists(&mut self) -> Rule<bool> {
        self.eat_words(&[Keyword::If, Keyword::Exists])
    }

    pub(super) fn if_not_exists(&mut self) -> Rule<bool> {
        self.eat_words(&[Keyword::If, Keyword::Not, Keyword::Exists])
    }

    #[inline]
    pub(super) fn enter(&mut self) -> Rule<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.too_deep() } else { Ok(()) }
    }

    #[cold]
    pub(super) fn too_deep<T>(&self) -> Rule<T> {
        self.fail(self.token, format!("this is nested more than {MAX_DEPTH} deep"))
    }

    /// Sets the height of a node whose highest child has this height.
    #[inline]
    pub(super) fn grow(&mut self, highest: u32) -> Rule<()> {
        self.height = highest + 1;
        if self.height > MAX_DEPTH { self.too_deep() } else { Ok(()) }
    }

    #[inline]
    pub(super) fn leaf(&mut self) -> Rule<()> {
        self.height = 1;
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return self.fail(self.token, format!("a statement has at most {MAX_TERMS} terms"));
        }
        Ok(())
    }

    /// Parses one or more items, separated by commas. The height becomes that of the highest item.
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Rule<T>) -> Rule<Vec<T>> {
        let mut out = vec![item(self)?];
        let mut highest = self.height;
        while self.eat(Tok::Comma) {
            out.push(item(self)?);
            highest = highest.max(self.height);
        }
        self.height = highest;
        Ok(out)
    }

    /// Like [`list`](CqlParser::list), up to and including `close`; the list may be empty.
    pub(super) fn list_until<T>(
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

    /// Parses `(item, …)`, at least one.
    pub(super) fn parenthesised<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Rule<T>,
    ) -> Rule<Vec<T>> {
        self.expect(Tok::LParen)?;
        let out = self.list(item)?;
        self.expect(Tok::RParen)?;
        Ok(out)
    }

    /// Reports whether this word, which is not a keyword, is next.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.token.kind == Tok::Ident && self.slice().eq_ignore_ascii_case(word)
    }

    pub(super) fn eat_word(&mut self, word: &'static str) -> bool {
        if self.at_word(word) {
            self.bump();
            return true;
        }
        self.note(Expect::What(word));
        false
    }

    pub(super) fn expect_word(&mut self, word: &'static str) -> Rule<()> {
        if self.eat_word(word) { Ok(()) } else { self.unexpected() }
    }

    #[inline]
    pub(super) fn take_name(&mut self) -> AstName<'a> {
        let token = self.bump();
        let raw = self.text_of(token);
        let text = match token.kind {
            Tok::Quoted => unquote(&raw[1..raw.len() - 1], "\"\"", "\""),
            _ => lower(raw),
        };
        AstName { text, at: Pos(token.start) }
    }

    /// Parses a name that must not be empty.
    pub(super) fn name(&mut self, what: &'static str) -> Rule<AstName<'a>> {
        if !Self::is_name(self.token.kind) {
            return self.no_name(what);
        }
        if self.token.kind == Tok::Quoted && self.slice() == "\"\"" {
            return self.fail(self.token, "a name must have at least one character");
        }
        Ok(self.take_name())
    }

    /// Parses the name of a referenced column.
    #[inline]
    pub(super) fn column(&mut self) -> Rule<AstName<'a>> {
        if Self::is_name(self.token.kind) { Ok(self.take_name()) } else { self.no_name("a column") }
    }

    #[cold]
    pub(super) fn no_name<T>(&mut self, what: &'static str) -> Rule<T> {
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
    pub(super) fn qualified(&mut self, what: &'static str) -> Rule<QualifiedName<'a>> {
        let first = self.name(what)?;
        if !self.eat(Tok::Dot) {
            return Ok(QualifiedName { keyspace: None, name: first });
        }
        Ok(QualifiedName { keyspace: Some(first), name: self.name(what)? })
    }

    pub(super) fn keyspace_name(&mut self) -> Rule<AstName<'a>> {
        if self.token.kind == Tok::Question {
            return self.fail(self.token, "Bind variables cannot be used for keyspace names");
        }
        self.name("a keyspace")
    }

    pub(super) fn table_name(&mut self) -> Rule<QualifiedName<'a>> {
        if self.token.kind == Tok::Question {
            return self.fail(self.token, "Bind variables cannot be used for table names");
        }
        self.qualified("a table")
    }

    pub(super) fn index_name(&mut self) -> Rule<QualifiedName<'a>> {
        if self.token.kind == Tok::Question {
            return self.fail(self.token, "Bind variables cannot be used for index names");
        }
        self.qualified("an index")
    }

    /// Parses a constant, if one is next.
    #[inline]
    pub(super) fn constant(&mut self) -> Option<Constant<'a>> {
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

    pub(super) fn string(&mut self, what: &'static str) -> Rule<Cow<'a, str>> {
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
