//! `SELECT`: clauses, and relations of `WHERE`, which changes have too.

use super::CqlParser;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    AstName, Comparison, InsertValues, Ordering, Pos, Relation, Select, Selected, Term, TermKind,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::Tok;

impl<'a> CqlParser<'a> {
    pub(super) fn select(&mut self) -> Rule<Select<'a>> {
        self.expect_kw(Keyword::Select)?;
        let json = self.modifier(Keyword::Json);
        let distinct = self.modifier(Keyword::Distinct);
        let selection = if self.eat(Tok::Star) { Vec::new() } else { self.list(Self::selected)? };
        self.expect_kw(Keyword::From)?;
        let table = self.table_name()?;
        let relations = self.where_clause()?;
        let group_by = if self.eat_words(&[Keyword::Group, Keyword::By])? {
            self.list(Self::selector)?
        } else {
            Vec::new()
        };
        let order_by = if self.eat_words(&[Keyword::Order, Keyword::By])? {
            self.list(Self::ordering)?
        } else {
            Vec::new()
        };
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

    /// Takes `JSON` or `DISTINCT`, unless it is a column with that name.
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

    pub(super) fn selected(&mut self) -> Rule<Selected<'a>> {
        let selector = self.selector()?;
        let alias = if self.eat_kw(Keyword::As) { Some(self.name("an alias")?) } else { None };
        Ok(Selected { selector, alias })
    }

    /// Parses `column [ANN OF term] [ASC | DESC]`.
    fn ordering(&mut self) -> Rule<Ordering<'a>> {
        let column = self.column()?;
        let nearest = if self.eat_word("ann") {
            self.expect_kw(Keyword::Of)?;
            Some(self.term()?)
        } else {
            None
        };
        let descending = !self.eat_kw(Keyword::Asc) && self.eat_kw(Keyword::Desc);
        Ok(Ordering { column, nearest, descending })
    }

    // Relations

    /// Parses `[WHERE relation AND …]`.
    pub(super) fn where_clause(&mut self) -> Rule<Vec<Relation<'a>>> {
        if !self.eat_kw(Keyword::Where) {
            return Ok(Vec::new());
        }
        self.relations()
    }

    pub(super) fn relations(&mut self) -> Rule<Vec<Relation<'a>>> {
        let mut out = vec![];
        self.relation(&mut out)?;
        while self.eat_kw(Keyword::And) {
            self.relation(&mut out)?;
        }
        if self.token.kind == Tok::Kw(Keyword::Or) {
            return self.unexpected_with(Some(
                "there is no OR in CQL; for one column, use IN (…)".to_owned(),
            ));
        }
        Ok(out)
    }

    /// Parses and appends a relation; `BETWEEN` becomes two relations.
    fn relation(&mut self, out: &mut Vec<Relation<'a>>) -> Rule<()> {
        let at = Pos(self.token.start);
        match self.token.kind {
            Tok::LParen => {
                let mut lexer = self.lexer;
                let tuple = Self::is_name(self.ahead.kind)
                    && matches!(lexer.next_token().kind, Tok::Comma | Tok::RParen);
                if tuple {
                    return self.tuple_relation(at, out);
                }
                self.bump();
                self.enter()?;
                self.relation(out)?;
                self.leave();
                self.expect(Tok::RParen)?;
                Ok(())
            }
            Tok::Kw(Keyword::Token) => {
                self.bump();
                let columns = self.parenthesised(Self::column)?;
                self.bounds(out, Self::term, |comparison, value| Relation::Token {
                    at,
                    columns: columns.clone(),
                    comparison,
                    value,
                })
            }
            Tok::Ident if self.at_word("expr") && self.ahead.kind == Tok::LParen => {
                self.fail(self.token, "There are no expressions of custom indexes here")
            }
            _ => {
                let column = self.column()?;
                self.column_relation(column, out)
            }
        }
    }

    /// Parses a comparison with a value, or `BETWEEN` two values; appends the relations built by
    /// `make`.
    fn bounds(
        &mut self,
        out: &mut Vec<Relation<'a>>,
        mut value: impl FnMut(&mut Self) -> Rule<Term<'a>>,
        make: impl Fn(Comparison, Term<'a>) -> Relation<'a>,
    ) -> Rule<()> {
        if self.eat_kw(Keyword::Between) {
            out.push(make(Comparison::Ge, value(self)?));
            self.expect(Tok::Kw(Keyword::And))?;
            out.push(make(Comparison::Le, value(self)?));
        } else {
            let comparison = self.comparison()?;
            out.push(make(comparison, value(self)?));
        }
        Ok(())
    }

    fn column_relation(&mut self, column: AstName<'a>, out: &mut Vec<Relation<'a>>) -> Rule<()> {
        out.push(if let Some(comparison) = self.comparison_if_any() {
            Relation::Compare { column, comparison, value: self.term()? }
        } else if self.eat_kw(Keyword::In) {
            Relation::In { column, values: self.in_values()? }
        } else if self.eat_kw(Keyword::Contains) {
            match self.contains_key() {
                true => Relation::ContainsKey { column, key: self.term()? },
                false => Relation::Contains { column, value: self.term()? },
            }
        } else if self.eat(Tok::LBracket) {
            let key = self.term()?;
            self.expect(Tok::RBracket)?;
            let comparison = self.comparison()?;
            Relation::Element { column, key, comparison, value: self.term()? }
        } else if self.eat_kw(Keyword::Like) {
            Relation::Like { column, pattern: self.term()? }
        } else if self.eat_words(&[Keyword::Is, Keyword::Not, Keyword::Null])? {
            Relation::NotNull { column }
        } else {
            return self.bounds(out, Self::term, |comparison, value| Relation::Compare {
                column: column.clone(),
                comparison,
                value,
            });
        });
        Ok(())
    }

    /// Takes `KEY` after `CONTAINS`, unless it is the keyspace of a function.
    pub(super) fn contains_key(&mut self) -> bool {
        self.ahead.kind != Tok::Dot && self.eat_kw(Keyword::Key)
    }

    fn tuple_relation(&mut self, at: Pos, out: &mut Vec<Relation<'a>>) -> Rule<()> {
        let columns = self.parenthesised(Self::column)?;
        if !self.eat_kw(Keyword::In) {
            return self.bounds(out, Self::tuple_or_marker, |comparison, value| Relation::Tuple {
                at,
                columns: columns.clone(),
                comparison,
                value,
            });
        }
        let values = if matches!(self.token.kind, Tok::Question | Tok::Colon) {
            InsertValues::Marker(self.marker()?)
        } else {
            self.expect(Tok::LParen)?;
            InsertValues::List(self.list_until(Tok::RParen, Self::tuple_or_marker)?)
        };
        out.push(Relation::TupleIn { at, columns, values });
        Ok(())
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

    /// Parses the values of `IN` for one column.
    pub(super) fn in_values(&mut self) -> Rule<InsertValues<'a>> {
        if matches!(self.token.kind, Tok::Question | Tok::Colon) {
            return Ok(InsertValues::Marker(self.marker()?));
        }
        if !self.at(Tok::LParen) {
            self.note(Expect::What("a bind marker"));
            return self.unexpected();
        }
        self.bump();
        Ok(InsertValues::List(self.list_until(Tok::RParen, Self::term)?))
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
