//! `SELECT`: selectors and clauses; relations of `WHERE`, which changes have as well.

use super::{Expect, Parser, Rule};
use crate::syntax::ast::{
    About, Binary, Call, Comparison, Name, Operator, Ordering, Pos, Relation, Select, Selected, Selector, SelectorKind, Term,
    TermKind, Type, Values,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::{Tok, Token};

impl<'a> Parser<'a> {
    pub(super) fn select(&mut self) -> Rule<Select<'a>> {
        self.expect_kw(Keyword::Select)?;
        let json = self.modifier(Keyword::Json);
        let distinct = self.modifier(Keyword::Distinct);
        let selection = if self.eat(Tok::Star) { Vec::new() } else { self.list(Self::selected)? };
        self.expect_kw(Keyword::From)?;
        let table = self.table_name()?;
        let relations = self.where_clause()?;
        let group_by = if self.eat_words(&[Keyword::Group, Keyword::By])? { self.list(Self::selector)? } else { Vec::new() };
        let order_by = if self.eat_words(&[Keyword::Order, Keyword::By])? { self.list(Self::ordering)? } else { Vec::new() };
        let per_partition = self.eat_words(&[Keyword::Per, Keyword::Partition, Keyword::Limit])?;
        let per_partition_limit = if per_partition { Some(self.int_value()?) } else { None };
        let limit = if self.eat_kw(Keyword::Limit) { Some(self.int_value()?) } else { None };
        let allow_filtering = self.eat_words(&[Keyword::Allow, Keyword::Filtering])?;
        Ok(Select {
            json,
            distinct,
            selection,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
        })
    }

    /// `JSON` or `DISTINCT`, where it is not a column of that name.
    fn modifier(&mut self, keyword: Keyword) -> bool {
        let column = matches!(
            self.ahead.kind,
            Tok::Comma
                | Tok::Dot
                | Tok::LBracket
                | Tok::Plus
                | Tok::Slash
                | Tok::Percent
                | Tok::End
                | Tok::Kw(Keyword::From | Keyword::As)
        );
        !column && self.eat_kw(keyword)
    }

    fn selected(&mut self) -> Rule<Selected<'a>> {
        let selector = self.selector()?;
        let alias = if self.eat_kw(Keyword::As) { Some(self.name("an alias")?) } else { None };
        Ok(Selected { selector, alias })
    }

    /// `column [ASC | DESC]`
    fn ordering(&mut self) -> Rule<Ordering<'a>> {
        let column = self.column()?;
        let descending = !self.eat_kw(Keyword::Asc) && self.eat_kw(Keyword::Desc);
        Ok(Ordering { column, descending })
    }

    pub(super) fn selector(&mut self) -> Rule<Selector<'a>> {
        self.enter()?;
        let mut left = self.selector_product()?;
        loop {
            let operator = match self.token.kind {
                Tok::Plus => Operator::Add,
                Tok::Minus => Operator::Subtract,
                _ if self.signed_number() => Operator::Subtract,
                _ => break,
            };
            self.take_sign();
            let highest = self.height;
            let right = self.selector_product()?;
            left = self.selector_binary(operator, left, right, highest)?;
        }
        self.leave();
        Ok(left)
    }

    fn selector_product(&mut self) -> Rule<Selector<'a>> {
        let mut left = self.selector_factor()?;
        while let Some(operator) = self.product_operator() {
            let highest = self.height;
            let right = self.selector_factor()?;
            left = self.selector_binary(operator, left, right, highest)?;
        }
        Ok(left)
    }

    fn selector_binary(
        &mut self,
        operator: Operator,
        left: Selector<'a>,
        right: Selector<'a>,
        highest: u32,
    ) -> Rule<Selector<'a>> {
        self.grow(highest.max(self.height))?;
        Ok(Selector { at: left.at, kind: SelectorKind::Binary(Box::new(Binary { operator, left, right })) })
    }

    fn selector_factor(&mut self) -> Rule<Selector<'a>> {
        if self.token.kind == Tok::Minus {
            let at = Pos(self.bump().start);
            self.enter()?;
            let of = self.selector_factor()?;
            self.leave();
            self.grow(self.height)?;
            return Ok(Selector { at, kind: SelectorKind::Negate(Box::new(of)) });
        }
        let mut of = self.simple_selector()?;
        loop {
            let (at, highest) = (of.at, self.height);
            let kind = if self.eat(Tok::Dot) {
                let field = self.name("a field")?;
                self.grow(highest)?;
                SelectorKind::Field(Box::new((of, field)))
            } else if self.eat(Tok::LBracket) {
                self.subscript(of, highest)?
            } else {
                return Ok(of);
            };
            of = Selector { at, kind };
        }
    }

    /// What stands between `[` and `]` behind a selector.
    fn subscript(&mut self, of: Selector<'a>, mut highest: u32) -> Rule<SelectorKind<'a>> {
        let mut bound = |p: &mut Self| -> Rule<Term<'a>> {
            let term = p.term()?;
            highest = highest.max(p.height);
            Ok(term)
        };
        let kind = if self.eat(Tok::Range) {
            SelectorKind::Slice(Box::new((of, None, Some(bound(self)?))))
        } else {
            let first = bound(self)?;
            if !self.eat(Tok::Range) {
                SelectorKind::Element(Box::new((of, first)))
            } else if self.at(Tok::RBracket) {
                SelectorKind::Slice(Box::new((of, Some(first), None)))
            } else {
                SelectorKind::Slice(Box::new((of, Some(first), Some(bound(self)?))))
            }
        };
        self.expect(Tok::RBracket)?;
        self.grow(highest)?;
        Ok(kind)
    }

    fn simple_selector(&mut self) -> Rule<Selector<'a>> {
        let at = Pos(self.token.start);
        let called = self.ahead.kind == Tok::LParen;
        let kind = match self.token.kind {
            Tok::LParen => match self.hint(Self::begins_selector) {
                Some(hint) => {
                    self.enter()?;
                    let highest = self.height;
                    let of = self.simple_selector()?;
                    self.leave();
                    self.grow(highest.max(self.height))?;
                    SelectorKind::Hint(Box::new((hint, of)))
                }
                None => {
                    self.bump();
                    let items = self.list(Self::selector)?;
                    self.expect(Tok::RParen)?;
                    self.grow(self.height)?;
                    SelectorKind::Tuple(items)
                }
            },
            Tok::LBracket => {
                self.bump();
                SelectorKind::List(self.selectors_until(Tok::RBracket)?)
            }
            Tok::LBrace => self.selector_braces()?,
            Tok::Kw(Keyword::Cast) if called => {
                self.bump();
                self.bump();
                let of = self.selector()?;
                self.grow(self.height)?;
                self.expect_kw(Keyword::As)?;
                let native = self.native_type()?;
                self.expect(Tok::RParen)?;
                SelectorKind::Cast(Box::new(of), native)
            }
            Tok::Kw(Keyword::WriteTime) if called => self.about(About::WriteTime)?,
            Tok::Kw(Keyword::MaxWriteTime) if called => self.about(About::MaxWriteTime)?,
            Tok::Kw(Keyword::Ttl) if called => self.about(About::Ttl)?,
            _ => self.selector_word(at)?,
        };
        Ok(Selector { at, kind })
    }

    /// A call, a column or a term without structure.
    fn selector_word(&mut self, at: Pos) -> Rule<SelectorKind<'a>> {
        self.leaf()?;
        let counts = self.token.kind == Tok::Kw(Keyword::Count);
        if let Some(function) = self.function_name() {
            self.bump();
            if counts && self.eat(Tok::Star) {
                self.expect(Tok::RParen)?;
                return Ok(SelectorKind::CountRows);
            }
            let arguments = self.selectors_until(Tok::RParen)?;
            return Ok(SelectorKind::Call(Box::new(Call { function, arguments })));
        }
        if Self::is_name(self.token.kind) {
            return Ok(SelectorKind::Column(self.take_name()));
        }
        let kind = match self.token.kind {
            Tok::Question | Tok::Colon => return Ok(SelectorKind::Term(self.marker()?)),
            Tok::Kw(Keyword::Null) => {
                self.bump();
                TermKind::Null
            }
            _ => match self.constant() {
                Some(constant) => TermKind::Constant(constant),
                None => return self.no_selector(),
            },
        };
        Ok(SelectorKind::Term(Term { at, kind }))
    }

    #[cold]
    fn no_selector<T>(&mut self) -> Rule<T> {
        self.note(Expect::What("something to select"));
        let hint = match self.token.kind {
            Tok::Star => Some("'*' stands alone, without other columns".to_owned()),
            Tok::Kw(Keyword::From) => Some("all columns are selected with '*'".to_owned()),
            Tok::Kw(_) => return self.no_name("something to select"),
            _ => None,
        };
        self.unexpected_with(hint)
    }

    /// `word(column)`
    fn about(&mut self, about: About) -> Rule<SelectorKind<'a>> {
        self.bump();
        self.bump();
        let column = self.column()?;
        self.leaf()?;
        if !self.at(Tok::RParen) {
            return self.unexpected_with(Some("this is asked of a whole column, not of a part of it".to_owned()));
        }
        self.bump();
        Ok(SelectorKind::About(about, column))
    }

    fn selectors_until(&mut self, close: Tok) -> Rule<Vec<Selector<'a>>> {
        self.leaf()?;
        let items = self.list_until(close, Self::selector)?;
        self.grow(self.height)?;
        Ok(items)
    }

    fn selector_braces(&mut self) -> Rule<SelectorKind<'a>> {
        self.bump();
        self.leaf()?;
        if self.eat(Tok::RBrace) {
            return Ok(SelectorKind::Set(Vec::new()));
        }
        let first = self.selector()?;
        let mut highest = self.height;
        if !self.eat(Tok::Colon) {
            let mut elements = vec![first];
            while self.eat(Tok::Comma) {
                elements.push(self.selector()?);
                highest = highest.max(self.height);
            }
            self.expect(Tok::RBrace)?;
            self.grow(highest)?;
            return Ok(SelectorKind::Set(elements));
        }
        let mut pairs = Vec::new();
        let mut key = first;
        loop {
            let value = self.selector()?;
            highest = highest.max(self.height);
            pairs.push((key, value));
            if !self.eat(Tok::Comma) {
                break;
            }
            key = self.selector()?;
            highest = highest.max(self.height);
            self.expect(Tok::Colon)?;
        }
        self.expect(Tok::RBrace)?;
        self.grow(highest)?;
        Ok(SelectorKind::Map(pairs))
    }

    fn begins_selector(token: Token, ahead: Token, _: &Type) -> bool {
        match token.kind {
            // `(v) AS x`, `GROUP BY (v) PER PARTITION LIMIT 1`
            Tok::Kw(Keyword::As) => false,
            Tok::Kw(Keyword::Per) => ahead.kind != Tok::Kw(Keyword::Partition),
            Tok::Kw(Keyword::Null | Keyword::True | Keyword::False | Keyword::Nan | Keyword::Infinity) => true,
            Tok::Kw(Keyword::Token) => true,
            Tok::Str | Tok::DollarStr | Tok::Integer | Tok::Float | Tok::Duration | Tok::Uuid | Tok::Hex => true,
            Tok::NegNan | Tok::NegInfinity | Tok::Question | Tok::LBracket | Tok::LBrace | Tok::LParen => true,
            // In a map `{(k): v}` this is no marker.
            Tok::Colon => false,
            kind => Self::is_name(kind),
        }
    }

    // Relations

    /// `[WHERE relation AND …]`
    pub(super) fn where_clause(&mut self) -> Rule<Vec<Relation<'a>>> {
        if !self.eat_kw(Keyword::Where) {
            return Ok(Vec::new());
        }
        self.relations()
    }

    pub(super) fn relations(&mut self) -> Rule<Vec<Relation<'a>>> {
        let mut out = vec![self.relation()?];
        while self.eat_kw(Keyword::And) {
            out.push(self.relation()?);
        }
        if self.token.kind == Tok::Kw(Keyword::Or) {
            return self.unexpected_with(Some("there is no OR in CQL; of one column, IN (…) can stand for it".to_owned()));
        }
        Ok(out)
    }

    fn relation(&mut self) -> Rule<Relation<'a>> {
        let at = Pos(self.token.start);
        match self.token.kind {
            Tok::LParen => {
                let mut lexer = self.lexer;
                let tuple = Self::is_name(self.ahead.kind) && matches!(lexer.next_token().kind, Tok::Comma | Tok::RParen);
                if tuple {
                    return self.tuple_relation(at);
                }
                self.bump();
                self.enter()?;
                let relation = self.relation()?;
                self.leave();
                self.expect(Tok::RParen)?;
                Ok(relation)
            }
            Tok::Kw(Keyword::Token) => {
                self.bump();
                let columns = self.parenthesised(Self::column)?;
                let comparison = self.comparison()?;
                Ok(Relation::Token { at, columns, comparison, value: self.term()? })
            }
            _ => {
                let column = self.column()?;
                self.column_relation(column)
            }
        }
    }

    fn column_relation(&mut self, column: Name<'a>) -> Rule<Relation<'a>> {
        if let Some(comparison) = self.comparison_if_any() {
            return Ok(Relation::Compare { column, comparison, value: self.term()? });
        }
        if self.eat_kw(Keyword::In) {
            return Ok(Relation::In { column, values: self.in_values()? });
        }
        if self.eat_kw(Keyword::Contains) {
            if self.contains_key() {
                return Ok(Relation::ContainsKey { column, key: self.term()? });
            }
            return Ok(Relation::Contains { column, value: self.term()? });
        }
        if self.eat(Tok::LBracket) {
            let key = self.term()?;
            self.expect(Tok::RBracket)?;
            let comparison = self.comparison()?;
            return Ok(Relation::Element { column, key, comparison, value: self.term()? });
        }
        if self.eat_kw(Keyword::Like) {
            return Ok(Relation::Like { column, pattern: self.term()? });
        }
        if self.eat_words(&[Keyword::Is, Keyword::Not, Keyword::Null])? {
            return Ok(Relation::NotNull { column });
        }
        self.unexpected()
    }

    /// `KEY` behind `CONTAINS`, where it is not the keyspace of a function.
    pub(super) fn contains_key(&mut self) -> bool {
        self.ahead.kind != Tok::Dot && self.eat_kw(Keyword::Key)
    }

    fn tuple_relation(&mut self, at: Pos) -> Rule<Relation<'a>> {
        let columns = self.parenthesised(Self::column)?;
        if self.eat_kw(Keyword::In) {
            if matches!(self.token.kind, Tok::Question | Tok::Colon) {
                return Ok(Relation::TupleIn { at, columns, values: Values::Marker(self.marker()?) });
            }
            self.expect(Tok::LParen)?;
            let values = self.list_until(Tok::RParen, Self::tuple_or_marker)?;
            return Ok(Relation::TupleIn { at, columns, values: Values::List(values) });
        }
        let comparison = self.comparison()?;
        Ok(Relation::Tuple { at, columns, comparison, value: self.tuple_or_marker()? })
    }

    fn tuple_or_marker(&mut self) -> Rule<Term<'a>> {
        if matches!(self.token.kind, Tok::Question | Tok::Colon) {
            return self.marker();
        }
        let at = Pos(self.token.start);
        if !self.at(Tok::LParen) {
            self.note(Expect::What("a bind marker"));
            return self.unexpected();
        }
        self.bump();
        let values = self.list(Self::term)?;
        self.expect(Tok::RParen)?;
        self.grow(self.height)?;
        Ok(Term { at, kind: TermKind::Tuple(values) })
    }

    /// What follows `IN` of one column.
    pub(super) fn in_values(&mut self) -> Rule<Values<'a>> {
        if matches!(self.token.kind, Tok::Question | Tok::Colon) {
            return Ok(Values::Marker(self.marker()?));
        }
        if !self.at(Tok::LParen) {
            self.note(Expect::What("a bind marker"));
            return self.unexpected();
        }
        self.bump();
        Ok(Values::List(self.list_until(Tok::RParen, Self::term)?))
    }

    pub(super) fn comparison(&mut self) -> Rule<Comparison> {
        match self.comparison_if_any() {
            Some(comparison) => Ok(comparison),
            None => self.unexpected(),
        }
    }

    #[inline]
    pub(super) fn comparison_if_any(&mut self) -> Option<Comparison> {
        let comparison = match self.token.kind {
            Tok::Eq => Comparison::Eq,
            Tok::Ne => Comparison::Ne,
            Tok::Lt => Comparison::Lt,
            Tok::Le => Comparison::Le,
            Tok::Gt => Comparison::Gt,
            Tok::Ge => Comparison::Ge,
            _ => {
                self.note(Expect::What("a comparison"));
                return None;
            }
        };
        self.bump();
        Some(comparison)
    }
}
