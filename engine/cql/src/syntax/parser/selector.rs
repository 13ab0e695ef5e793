//! Selectors: their specific grammar.

use super::CqlParser;
use super::expression::{Primary, begins_value};
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    About, Expression, ExpressionKind, Pos, Selector, SelectorPrimary, Term, TermPrimary,
    TypeSyntax,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::{CqlToken, Tok};

impl<'a> Primary<'a> for SelectorPrimary<'a> {
    fn primary(parser: &mut CqlParser<'a>) -> Rule<ExpressionKind<'a, Self>> {
        let called = parser.ahead.kind == Tok::LParen;
        match parser.token.kind {
            Tok::Kw(Keyword::WriteTime) if called => parser.about(About::WriteTime),
            Tok::Kw(Keyword::MaxWriteTime) if called => parser.about(About::MaxWriteTime),
            Tok::Kw(Keyword::Ttl) if called => parser.about(About::Ttl),
            _ => parser.selector_word(),
        }
    }

    /// Parses fields, elements and slices.
    fn with_suffixes(
        parser: &mut CqlParser<'a>,
        mut of: Expression<'a, Self>,
    ) -> Rule<Expression<'a, Self>> {
        loop {
            let (at, highest) = (of.at, parser.height);
            let suffixed = if parser.eat(Tok::Dot) {
                let field = parser.name("a field")?;
                parser.grow(highest)?;
                SelectorPrimary::Field(Box::new((of, field)))
            } else if parser.eat(Tok::LBracket) {
                parser.subscript(of, highest)?
            } else {
                return Ok(of);
            };
            of = Selector { at, kind: suffixed.into() };
        }
    }

    fn negated(parser: &mut CqlParser<'a>) -> Rule<Expression<'a, Self>> {
        parser.enter()?;
        let of = parser.factor()?;
        parser.leave();
        Ok(of)
    }

    fn cast(parser: &mut CqlParser<'a>) -> Rule<Expression<'a, Self>> {
        parser.selector()
    }

    fn begins(token: CqlToken, ahead: CqlToken, _: &TypeSyntax) -> bool {
        match token.kind {
            // `(v) AS x`, `GROUP BY (v) PER PARTITION LIMIT 1`
            Tok::Kw(Keyword::As) => false,
            Tok::Kw(Keyword::Per) => ahead.kind != Tok::Kw(Keyword::Partition),
            kind if begins_value(kind) => true,
            // In a map `{(k): v}` the colon is not a marker.
            Tok::Colon => false,
            kind => CqlParser::is_name(kind),
        }
    }
}

impl<'a> CqlParser<'a> {
    pub(super) fn selector(&mut self) -> Rule<Selector<'a>> {
        self.sum(false)
    }

    /// Parses the part between `[` and `]` after a selector.
    fn subscript(&mut self, of: Selector<'a>, mut highest: u32) -> Rule<SelectorPrimary<'a>> {
        let mut bound = |p: &mut Self| -> Rule<Term<'a>> {
            let term = p.term()?;
            highest = highest.max(p.height);
            Ok(term)
        };
        let kind = if self.eat(Tok::Range) {
            SelectorPrimary::Slice(Box::new((of, None, Some(bound(self)?))))
        } else {
            let first = bound(self)?;
            if !self.eat(Tok::Range) {
                SelectorPrimary::Element(Box::new((of, first)))
            } else if self.at(Tok::RBracket) {
                SelectorPrimary::Slice(Box::new((of, Some(first), None)))
            } else {
                SelectorPrimary::Slice(Box::new((of, Some(first), Some(bound(self)?))))
            }
        };
        self.expect(Tok::RBracket)?;
        self.grow(highest)?;
        Ok(kind)
    }

    /// Parses a call, a column or a simple term.
    fn selector_word(&mut self) -> Rule<ExpressionKind<'a, SelectorPrimary<'a>>> {
        let at = Pos(self.token.start);
        let counts = self.token.kind == Tok::Kw(Keyword::Count);
        if let Some(function) = self.function_name() {
            self.bump();
            if counts && self.eat(Tok::Star) {
                self.expect(Tok::RParen)?;
                self.leaf()?;
                return Ok(SelectorPrimary::CountRows.into());
            }
            return self.call(function);
        }
        if Self::is_name(self.token.kind) {
            let column = self.take_name();
            self.leaf()?;
            return Ok(SelectorPrimary::Column(column).into());
        }
        let term = match self.token.kind {
            Tok::Question | Tok::Colon => return Ok(SelectorPrimary::Term(self.marker()?).into()),
            Tok::Kw(Keyword::Null) => {
                self.bump();
                TermPrimary::Null
            }
            _ => match self.constant() {
                Some(constant) => TermPrimary::Constant(constant),
                None => return self.no_selector(),
            },
        };
        self.leaf()?;
        Ok(SelectorPrimary::Term(Term { at, kind: term.into() }).into())
    }

    #[cold]
    fn no_selector<T>(&mut self) -> Rule<T> {
        self.note(Expect::What("something to select"));
        let hint = match self.token.kind {
            Tok::Star => Some("'*' cannot be combined with other columns".to_owned()),
            Tok::Kw(Keyword::From) => Some("all columns are selected with '*'".to_owned()),
            Tok::Kw(_) => return self.no_name("something to select"),
            _ => None,
        };
        self.unexpected_with(hint)
    }

    /// Parses `word(column)`, or `word` of a part of a column.
    fn about(&mut self, about: About) -> Rule<ExpressionKind<'a, SelectorPrimary<'a>>> {
        self.bump();
        self.bump();
        let at = Pos(self.token.start);
        let column = SelectorPrimary::Column(self.column()?);
        self.leaf()?;
        let of = SelectorPrimary::with_suffixes(self, Selector { at, kind: column.into() })?;
        self.expect(Tok::RParen)?;
        self.grow(self.height)?;
        Ok(SelectorPrimary::About(about, Box::new(of)).into())
    }
}
