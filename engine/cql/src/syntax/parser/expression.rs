//! Expressions: the common grammar of terms and selectors.

use super::CqlParser;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    Binary, Expression, ExpressionKind, FunctionCall, Operator, Pos, QualifiedName, TypeKind,
    TypeSyntax,
};
use crate::syntax::keyword::{Keyword, KeywordClass};
use crate::syntax::lexer::{CqlToken, Tok};

/// The specific grammar of terms or of selectors.
pub(super) trait Primary<'a>: Sized {
    /// Parses a primary, and sets its height.
    fn primary(parser: &mut CqlParser<'a>) -> Rule<ExpressionKind<'a, Self>>;

    /// Parses a kind of braces that only this kind of expression has, after `{`.
    fn in_braces(_: &mut CqlParser<'a>) -> Rule<Option<Self>> {
        Ok(None)
    }

    /// Parses the suffixes of an expression.
    fn with_suffixes(
        _: &mut CqlParser<'a>,
        of: Expression<'a, Self>,
    ) -> Rule<Expression<'a, Self>> {
        Ok(of)
    }

    /// Parses the operand of `-`.
    fn negated(parser: &mut CqlParser<'a>) -> Rule<Expression<'a, Self>>;

    /// Parses the operand of `CAST`.
    fn cast(parser: &mut CqlParser<'a>) -> Rule<Expression<'a, Self>>;

    /// Reports whether these two tokens can begin the operand of a type hint.
    fn begins(token: CqlToken, ahead: CqlToken, hint: &TypeSyntax) -> bool;
}

impl<'a> CqlParser<'a> {
    /// Parses a sum. `prepending`: a `+ column` at its end is left for the caller.
    pub(super) fn sum<P: Primary<'a>>(&mut self, prepending: bool) -> Rule<Expression<'a, P>> {
        self.enter()?;
        let mut left = self.product()?;
        loop {
            let operator = match self.token.kind {
                Tok::Plus if prepending && self.column_is_ahead() => break,
                Tok::Plus => Operator::Add,
                Tok::Minus => Operator::Subtract,
                _ if self.signed_number() => match self.number_before() {
                    Some(number) => return self.joined_numbers(number),
                    None => Operator::Subtract,
                },
                _ => break,
            };
            self.take_sign();
            let highest = self.height;
            let right = self.product()?;
            left = self.binary(operator, left, right, highest)?;
        }
        self.leave();
        Ok(left)
    }

    fn expression<P: Primary<'a>>(&mut self) -> Rule<Expression<'a, P>> {
        self.sum(false)
    }

    fn product<P: Primary<'a>>(&mut self) -> Rule<Expression<'a, P>> {
        let mut left = self.factor()?;
        while let Some(operator) = self.product_operator() {
            let highest = self.height;
            let right = self.factor()?;
            left = self.binary(operator, left, right, highest)?;
        }
        Ok(left)
    }

    fn binary<P>(
        &mut self,
        operator: Operator,
        left: Expression<'a, P>,
        right: Expression<'a, P>,
        highest: u32,
    ) -> Rule<Expression<'a, P>> {
        self.grow(highest.max(self.height))?;
        Ok(Expression {
            at: left.at,
            kind: ExpressionKind::Binary(Box::new(Binary { operator, left, right })),
        })
    }

    /// Takes `*`, `/` or `%`.
    #[inline]
    fn product_operator(&mut self) -> Option<Operator> {
        let operator = match self.token.kind {
            Tok::Star => Operator::Multiply,
            Tok::Slash => Operator::Divide,
            Tok::Percent => Operator::Modulo,
            _ => {
                for kind in [Tok::Plus, Tok::Minus, Tok::Star, Tok::Slash, Tok::Percent] {
                    self.note(Expect::Tok(kind));
                }
                return None;
            }
        };
        self.bump();
        Some(operator)
    }

    /// Reports whether the token is a number with a sign. After an operand the sign is an operator:
    /// `v -3`.
    #[inline]
    fn signed_number(&self) -> bool {
        matches!(self.token.kind, Tok::Integer | Tok::Float | Tok::Duration)
            && self.slice().starts_with('-')
    }

    /// Returns the start of the number that ends directly before the token: `2024` of `2024-01`.
    fn number_before(&self) -> Option<usize> {
        let before = &self.text[..self.token.start as usize];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | 'µ');
        let start = before.trim_end_matches(is_part).len();
        before[start..].starts_with(|c: char| c.is_ascii_digit()).then_some(start)
    }

    /// Refuses, as Cassandra does, a number directly before a signed number: it is more likely a
    /// date without quotes than a difference.
    #[cold]
    fn joined_numbers<T>(&mut self, start: usize) -> Rule<T> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-');
        let text = &self.text[start..];
        let text = &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())];
        let (left, right) = (&self.text[start..self.token.start as usize], self.slice());
        self.unexpected_with(Some(format!(
            "a date, a time or the like is written in quotes, '{text}'; a difference is written with spaces, {left} - {}",
            right.trim_start_matches('-')
        )))
    }

    /// Takes `+`, `-`, or the sign of a number.
    #[inline]
    fn take_sign(&mut self) {
        match self.token.kind {
            Tok::Plus | Tok::Minus => {
                self.bump();
            }
            _ => self.token.start += 1,
        }
    }

    /// Reports whether a column follows the current `+`: a name that is not called.
    fn column_is_ahead(&self) -> bool {
        let mut lexer = self.lexer;
        Self::is_name(self.ahead.kind)
            && match lexer.next_token().kind {
                Tok::LParen => false,
                Tok::Dot => {
                    !(Self::is_name(lexer.next_token().kind)
                        && lexer.next_token().kind == Tok::LParen)
                }
                _ => true,
            }
    }

    /// Parses an operand, or its negation.
    pub(super) fn factor<P: Primary<'a>>(&mut self) -> Rule<Expression<'a, P>> {
        if self.token.kind != Tok::Minus {
            let operand = self.operand()?;
            return P::with_suffixes(self, operand);
        }
        let at = Pos(self.bump().start);
        let of = P::negated(self)?;
        self.grow(self.height)?;
        Ok(Expression { at, kind: ExpressionKind::Negate(Box::new(of)) })
    }

    /// Parses an operand of operators.
    pub(super) fn operand<P: Primary<'a>>(&mut self) -> Rule<Expression<'a, P>> {
        let at = Pos(self.token.start);
        let kind = match self.token.kind {
            Tok::LBracket => {
                self.bump();
                ExpressionKind::List(self.items_until(Tok::RBracket)?)
            }
            Tok::LBrace => self.braces()?,
            Tok::LParen => match self.hint(P::begins) {
                Some(hint) => {
                    self.enter()?;
                    let highest = self.height;
                    let of = self.operand()?;
                    self.leave();
                    self.grow(highest.max(self.height))?;
                    ExpressionKind::Hint(Box::new((hint, of)))
                }
                None => {
                    self.bump();
                    let items = self.list(Self::expression)?;
                    self.expect(Tok::RParen)?;
                    self.grow(self.height)?;
                    ExpressionKind::Tuple(items)
                }
            },
            Tok::Kw(Keyword::Cast) if self.ahead.kind == Tok::LParen => {
                self.bump();
                self.bump();
                let of = P::cast(self)?;
                self.grow(self.height)?;
                self.expect_kw(Keyword::As)?;
                let native = self.native_type()?;
                self.expect(Tok::RParen)?;
                ExpressionKind::Cast(Box::new(of), native)
            }
            _ => P::primary(self)?,
        };
        Ok(Expression { at, kind })
    }

    /// Parses the call of a function, after its name and `(`.
    pub(super) fn call<P: Primary<'a>>(
        &mut self,
        function: QualifiedName<'a>,
    ) -> Rule<ExpressionKind<'a, P>> {
        let arguments = self.items_until(Tok::RParen)?;
        Ok(ExpressionKind::Call(Box::new(FunctionCall { function, arguments })))
    }

    /// Parses expressions up to `close`, as the children of a node.
    fn items_until<P: Primary<'a>>(&mut self, close: Tok) -> Rule<Vec<Expression<'a, P>>> {
        self.leaf()?;
        let items = self.list_until(close, Self::expression)?;
        self.grow(self.height)?;
        Ok(items)
    }

    /// Parses an expression that begins with `{`.
    fn braces<P: Primary<'a>>(&mut self) -> Rule<ExpressionKind<'a, P>> {
        self.bump();
        self.leaf()?;
        if let Some(own) = P::in_braces(self)? {
            return Ok(ExpressionKind::Primary(own));
        }
        if self.eat(Tok::RBrace) {
            return Ok(ExpressionKind::Set(Vec::new()));
        }
        let first = self.expression()?;
        let mut highest = self.height;
        if !self.eat(Tok::Colon) {
            let mut elements = vec![first];
            while self.eat(Tok::Comma) {
                elements.push(self.expression()?);
                highest = highest.max(self.height);
            }
            self.expect(Tok::RBrace)?;
            self.grow(highest)?;
            return Ok(ExpressionKind::Set(elements));
        }
        let mut pairs = Vec::new();
        let mut key = first;
        loop {
            let value = self.expression()?;
            highest = highest.max(self.height);
            pairs.push((key, value));
            if !self.eat(Tok::Comma) {
                break;
            }
            key = self.expression()?;
            highest = highest.max(self.height);
            self.expect(Tok::Colon)?;
        }
        self.expect(Tok::RBrace)?;
        self.grow(highest)?;
        Ok(ExpressionKind::Map(pairs))
    }

    /// Takes the name of a called function, up to its `(`; returns `None` if there is none.
    pub(super) fn function_name(&mut self) -> Option<QualifiedName<'a>> {
        let may_call = |kind: Tok| match kind {
            Tok::Kw(Keyword::Token | Keyword::Count) => true,
            Tok::Kw(k) => matches!(k.class(), KeywordClass::Type | KeywordClass::Free),
            kind => matches!(kind, Tok::Ident | Tok::Quoted),
        };
        if may_call(self.token.kind) && self.ahead.kind == Tok::LParen {
            return Some(QualifiedName { keyspace: None, name: self.take_name() });
        }
        if !(Self::is_name(self.token.kind) && self.ahead.kind == Tok::Dot) {
            return None;
        }
        let mut lexer = self.lexer;
        if !may_call(lexer.next_token().kind) || lexer.next_token().kind != Tok::LParen {
            return None;
        }
        let keyspace = self.take_name();
        self.bump();
        Some(QualifiedName { keyspace: Some(keyspace), name: self.take_name() })
    }

    /// Parses `(type)`, if it is followed by a possible operand of a type hint. Otherwise takes
    /// nothing.
    fn hint(
        &mut self,
        follows: fn(CqlToken, CqlToken, &TypeSyntax) -> bool,
    ) -> Option<TypeSyntax<'a>> {
        let may_be_type = match self.ahead.kind {
            Tok::Kw(Keyword::Set) => true,
            kind => Self::is_name(kind) || matches!(kind, Tok::Str | Tok::DollarStr),
        };
        if !may_be_type {
            return None;
        }
        let (place, depth) = (self.place(), self.depth);
        self.bump();
        if let Ok(hint) = self.type_()
            && self.token.kind == Tok::RParen
        {
            self.bump();
            // `(v) -3` is a difference, `(int) -3` a number.
            let difference = self.signed_number()
                && matches!(hint.kind, TypeKind::User(_) | TypeKind::Custom(_));
            if !difference && follows(self.token, self.ahead, &hint) {
                return Some(hint);
            }
        }
        self.depth = depth;
        self.go_back(place);
        None
    }
}

/// Reports whether the token begins a value of terms and of selectors alike.
pub(super) fn begins_value(kind: Tok) -> bool {
    match kind {
        Tok::Kw(keyword) => matches!(
            keyword,
            Keyword::Null
                | Keyword::True
                | Keyword::False
                | Keyword::Nan
                | Keyword::Infinity
                | Keyword::Token
        ),
        Tok::Str | Tok::DollarStr | Tok::Integer | Tok::Float | Tok::Duration | Tok::Uuid => true,
        Tok::Hex | Tok::NegNan | Tok::NegInfinity | Tok::Question => true,
        kind => matches!(kind, Tok::LBracket | Tok::LBrace | Tok::LParen),
    }
}
