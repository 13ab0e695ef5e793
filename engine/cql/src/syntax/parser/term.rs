//! Terms.

use super::{Expect, Parser, Rule};
use crate::syntax::MAX_MARKERS;
use crate::syntax::ast::{Binary, Call, Marker, Operator, Pos, QualifiedName, Term, TermKind, Type, TypeKind};
use crate::syntax::keyword::{Class, Keyword};
use crate::syntax::lexer::{Tok, Token};

impl<'a> Parser<'a> {
    #[inline]
    pub(super) fn term(&mut self) -> Rule<Term<'a>> {
        self.sum(false)
    }

    /// A sum. `prepending`: it may be followed by `+ column`, which is left alone.
    pub(super) fn sum(&mut self, prepending: bool) -> Rule<Term<'a>> {
        self.enter()?;
        let mut left = self.product()?;
        loop {
            let operator = match self.token.kind {
                Tok::Plus if prepending && self.column_is_ahead() => break,
                Tok::Plus => Operator::Add,
                Tok::Minus => Operator::Subtract,
                _ if self.signed_number() => Operator::Subtract,
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

    fn product(&mut self) -> Rule<Term<'a>> {
        let mut left = self.factor()?;
        while let Some(operator) = self.product_operator() {
            let highest = self.height;
            let right = self.factor()?;
            left = self.binary(operator, left, right, highest)?;
        }
        Ok(left)
    }

    fn binary(&mut self, operator: Operator, left: Term<'a>, right: Term<'a>, highest: u32) -> Rule<Term<'a>> {
        self.grow(highest.max(self.height))?;
        Ok(Term { at: left.at, kind: TermKind::Binary(Box::new(Binary { operator, left, right })) })
    }

    /// `*`, `/` or `%`, taken.
    #[inline]
    pub(super) fn product_operator(&mut self) -> Option<Operator> {
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

    /// Whether the token is a number with a sign. Behind an operand the sign is an operator: `v -3`.
    #[inline]
    pub(super) fn signed_number(&self) -> bool {
        matches!(self.token.kind, Tok::Integer | Tok::Float | Tok::Duration) && self.slice().starts_with('-')
    }

    /// Takes `+`, `-`, or the sign of a number.
    #[inline]
    pub(super) fn take_sign(&mut self) {
        match self.token.kind {
            Tok::Plus | Tok::Minus => {
                self.bump();
            }
            _ => self.token.start += 1,
        }
    }

    /// Whether a column follows the `+` at hand: a name that is not called.
    fn column_is_ahead(&self) -> bool {
        let mut lexer = self.lexer;
        Self::is_name(self.ahead.kind)
            && match lexer.next_token().kind {
                Tok::LParen => false,
                Tok::Dot => !(Self::is_name(lexer.next_token().kind) && lexer.next_token().kind == Tok::LParen),
                _ => true,
            }
    }

    fn factor(&mut self) -> Rule<Term<'a>> {
        if self.token.kind != Tok::Minus {
            return self.simple_term();
        }
        let at = Pos(self.bump().start);
        let term = self.simple_term()?;
        self.grow(self.height)?;
        Ok(Term { at, kind: TermKind::Negate(Box::new(term)) })
    }

    fn simple_term(&mut self) -> Rule<Term<'a>> {
        let at = Pos(self.token.start);
        if let Some(constant) = self.constant() {
            self.leaf()?;
            return Ok(Term { at, kind: TermKind::Constant(constant) });
        }
        let kind = match self.token.kind {
            Tok::Question | Tok::Colon => return self.marker(),
            Tok::Kw(Keyword::Null) => {
                self.bump();
                self.leaf()?;
                TermKind::Null
            }
            Tok::LBracket => {
                self.bump();
                TermKind::List(self.terms_until(Tok::RBracket)?)
            }
            Tok::LBrace => self.braces()?,
            Tok::LParen => match self.hint(Self::begins_term) {
                Some(hint) => {
                    self.enter()?;
                    let highest = self.height;
                    let term = self.simple_term()?;
                    self.leave();
                    self.grow(highest.max(self.height))?;
                    TermKind::Hint(Box::new((hint, term)))
                }
                None => {
                    self.bump();
                    let terms = self.list(Self::term)?;
                    self.expect(Tok::RParen)?;
                    self.grow(self.height)?;
                    TermKind::Tuple(terms)
                }
            },
            Tok::Kw(Keyword::Cast) if self.ahead.kind == Tok::LParen => {
                self.bump();
                self.bump();
                self.enter()?;
                let term = self.simple_term()?;
                self.leave();
                self.grow(self.height)?;
                self.expect_kw(Keyword::As)?;
                let native = self.native_type()?;
                self.expect(Tok::RParen)?;
                TermKind::Cast(Box::new(term), native)
            }
            _ => match self.function_name() {
                Some(function) => {
                    self.bump();
                    let arguments = self.terms_until(Tok::RParen)?;
                    TermKind::Call(Box::new(Call { function, arguments }))
                }
                None => return self.no_term(),
            },
        };
        Ok(Term { at, kind })
    }

    /// Terms up to `close`, as the children of a node.
    fn terms_until(&mut self, close: Tok) -> Rule<Vec<Term<'a>>> {
        self.leaf()?;
        let terms = self.list_until(close, Self::term)?;
        self.grow(self.height)?;
        Ok(terms)
    }

    #[cold]
    fn no_term<T>(&mut self) -> Rule<T> {
        self.note(Expect::What("a value"));
        let hint = match self.token.kind {
            Tok::Ident => Some(format!("a column cannot stand here; a text is written '{}'", self.slice())),
            Tok::Quoted => Some("double quotes make names; a text is written in single quotes".to_owned()),
            Tok::Eq => Some("equality is written with one '='".to_owned()),
            Tok::Gt => Some("inequality is written !=".to_owned()),
            _ => None,
        };
        self.unexpected_with(hint)
    }

    /// What `{` begins.
    fn braces(&mut self) -> Rule<TermKind<'a>> {
        self.bump();
        self.leaf()?;
        if self.token.kind != Tok::RBrace && Self::is_name(self.token.kind) && self.ahead.kind == Tok::Colon {
            let fields = self.list(|p| {
                let field = p.name("a field")?;
                p.expect(Tok::Colon)?;
                Ok((field, p.term()?))
            })?;
            self.expect(Tok::RBrace)?;
            self.grow(self.height)?;
            return Ok(TermKind::User(fields));
        }
        if self.eat(Tok::RBrace) {
            return Ok(TermKind::Set(Vec::new()));
        }
        let first = self.term()?;
        let mut highest = self.height;
        if self.token.kind != Tok::Colon {
            self.note(Expect::Tok(Tok::Colon));
            let mut elements = vec![first];
            while self.eat(Tok::Comma) {
                elements.push(self.term()?);
                highest = highest.max(self.height);
            }
            self.expect(Tok::RBrace)?;
            self.grow(highest)?;
            return Ok(TermKind::Set(elements));
        }
        self.bump();
        let value = self.term()?;
        highest = highest.max(self.height);
        let mut pairs = vec![(first, value)];
        while self.eat(Tok::Comma) {
            let key = self.term()?;
            highest = highest.max(self.height);
            self.expect(Tok::Colon)?;
            let value = self.term()?;
            highest = highest.max(self.height);
            pairs.push((key, value));
        }
        self.expect(Tok::RBrace)?;
        self.grow(highest)?;
        Ok(TermKind::Map(pairs))
    }

    /// `?` or `:name`.
    pub(super) fn marker(&mut self) -> Rule<Term<'a>> {
        let token = self.bump();
        let name = if token.kind == Tok::Colon { Some(self.name("the name of a bind marker")?.text) } else { None };
        if self.markers >= MAX_MARKERS {
            return self.fail(
                token,
                format!("Too many markers(?). {} markers exceed the allowed maximum of {MAX_MARKERS}", MAX_MARKERS + 1),
            );
        }
        let index = self.markers as u16;
        self.markers += 1;
        self.leaf()?;
        Ok(Term { at: Pos(token.start), kind: TermKind::Marker(Marker { index, name }) })
    }

    /// The name of a function that is called here, up to its `(`; nothing when there is none.
    pub(super) fn function_name(&mut self) -> Option<QualifiedName<'a>> {
        let may_call = |kind: Tok| match kind {
            Tok::Kw(Keyword::Token | Keyword::Count) => true,
            Tok::Kw(k) => matches!(k.class(), Class::Type | Class::Free),
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

    /// `(type)`, if that is what stands here and something that it can be about follows; else nothing is taken.
    pub(super) fn hint(&mut self, follows: fn(Token, Token, &Type) -> bool) -> Option<Type<'a>> {
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
            let difference = self.signed_number() && matches!(hint.kind, TypeKind::User(_) | TypeKind::Custom(_));
            if !difference && follows(self.token, self.ahead, &hint) {
                return Some(hint);
            }
        }
        self.depth = depth;
        self.go_back(place);
        None
    }

    fn begins_term(token: Token, ahead: Token, hint: &Type) -> bool {
        match token.kind {
            Tok::Kw(Keyword::Null | Keyword::True | Keyword::False | Keyword::Nan | Keyword::Infinity) => true,
            Tok::Kw(Keyword::Token) => true,
            Tok::Str | Tok::DollarStr | Tok::Integer | Tok::Float | Tok::Duration | Tok::Uuid | Tok::Hex => true,
            Tok::NegNan | Tok::NegInfinity | Tok::Question | Tok::LBracket | Tok::LBrace | Tok::LParen => true,
            // In the map `{('a'): 1}` this is no marker.
            Tok::Colon => !matches!(hint.kind, TypeKind::Custom(_)),
            kind => Self::is_name(kind) && matches!(ahead.kind, Tok::LParen | Tok::Dot),
        }
    }
}
