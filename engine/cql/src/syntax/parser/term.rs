//! Terms: their specific grammar.

use super::CqlParser;
use super::expression::{Primary, begins_value};
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    Expression, ExpressionKind, Marker, Pos, Term, TermPrimary, TypeKind, TypeSyntax,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::{CqlToken, Tok};
use crate::syntax::limits::MAX_MARKERS;

impl<'a> Primary<'a> for TermPrimary<'a> {
    fn primary(parser: &mut CqlParser<'a>) -> Rule<ExpressionKind<'a, Self>> {
        if let Some(constant) = parser.constant() {
            parser.leaf()?;
            return Ok(TermPrimary::Constant(constant).into());
        }
        match parser.token.kind {
            Tok::Question | Tok::Colon => Ok(parser.marker()?.kind),
            Tok::Kw(Keyword::Null) => {
                parser.bump();
                parser.leaf()?;
                Ok(TermPrimary::Null.into())
            }
            _ => match parser.function_name() {
                Some(function) => {
                    parser.bump();
                    parser.call(function)
                }
                None => parser.no_term(),
            },
        }
    }

    /// Parses a value of a user-defined type.
    fn in_braces(parser: &mut CqlParser<'a>) -> Rule<Option<Self>> {
        if !(CqlParser::is_name(parser.token.kind) && parser.ahead.kind == Tok::Colon) {
            return Ok(None);
        }
        let fields = parser.list(|p| {
            let field = p.name("a field")?;
            p.expect(Tok::Colon)?;
            Ok((field, p.term()?))
        })?;
        parser.expect(Tok::RBrace)?;
        parser.grow(parser.height)?;
        Ok(Some(TermPrimary::User(fields)))
    }

    fn negated(parser: &mut CqlParser<'a>) -> Rule<Expression<'a, Self>> {
        parser.operand()
    }

    fn cast(parser: &mut CqlParser<'a>) -> Rule<Expression<'a, Self>> {
        parser.enter()?;
        let of = parser.operand()?;
        parser.leave();
        Ok(of)
    }

    fn begins(token: CqlToken, ahead: CqlToken, hint: &TypeSyntax) -> bool {
        match token.kind {
            kind if begins_value(kind) => true,
            // In the map `{('a'): 1}` the colon is not a marker.
            Tok::Colon => !matches!(hint.kind, TypeKind::Custom(_)),
            kind => CqlParser::is_name(kind) && matches!(ahead.kind, Tok::LParen | Tok::Dot),
        }
    }
}

impl<'a> CqlParser<'a> {
    /// Parses an integer or a marker.
    pub(super) fn int_value(&mut self) -> Rule<Term<'a>> {
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

    #[inline]
    pub(super) fn term(&mut self) -> Rule<Term<'a>> {
        self.sum(false)
    }

    #[cold]
    fn no_term<T>(&mut self) -> Rule<T> {
        self.note(Expect::What("a value"));
        let hint = match self.token.kind {
            Tok::Ident => {
                Some(format!("a column is not allowed here; a text is written '{}'", self.slice()))
            }
            Tok::Quoted => {
                Some("double quotes make names; a text is written in single quotes".to_owned())
            }
            Tok::Eq => Some("equality is written with one '='".to_owned()),
            Tok::Gt => Some("inequality is written !=".to_owned()),
            _ => None,
        };
        self.unexpected_with(hint)
    }

    /// Parses `?` or `:name`.
    pub(super) fn marker(&mut self) -> Rule<Term<'a>> {
        let token = self.bump();
        let name = if token.kind == Tok::Colon {
            Some(self.name("the name of a bind marker")?.text)
        } else {
            None
        };
        if self.markers >= MAX_MARKERS {
            return self.fail(
                token,
                format!(
                    "Too many markers(?). {} markers exceed the allowed maximum of {MAX_MARKERS}",
                    MAX_MARKERS + 1
                ),
            );
        }
        let index = self.markers as u16;
        self.markers += 1;
        self.leaf()?;
        Ok(Term { at: Pos(token.start), kind: TermPrimary::Marker(Marker { index, name }).into() })
    }
}
