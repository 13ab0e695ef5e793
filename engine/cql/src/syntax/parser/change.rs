//! `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use super::CqlParser;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    Assign, Assignment, AstName, BatchKind, BatchStatement, ChangeClause, ChangeGuard,
    ChangeTarget, ChangeTest, Condition, ConditionPart, Constant, ConstantKind, Delete, Insert,
    Inserted, Pos, Term, TermPrimary, Update, Using,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::{CqlToken, Tok};
use crate::syntax::limits::MAX_CHANGES;

impl<'a> CqlParser<'a> {
    pub(super) fn change(&mut self) -> Rule<ChangeClause<'a>> {
        match self.token.kind {
            Tok::Kw(Keyword::Insert) => self.insert().map(ChangeClause::Insert),
            Tok::Kw(Keyword::Update) => self.update().map(ChangeClause::Update),
            _ => self.delete().map(ChangeClause::Delete),
        }
    }

    pub(super) fn batch(&mut self) -> Rule<BatchStatement<'a>> {
        self.expect_kw(Keyword::Begin)?;
        let kind = if self.eat_kw(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.eat_kw(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_kw(Keyword::Batch)?;
        let using = self.using()?;
        let mut changes = Vec::new();
        while self.at_kw(Keyword::Insert)
            || self.at_kw(Keyword::Update)
            || self.at_kw(Keyword::Delete)
        {
            if changes.len() == MAX_CHANGES {
                let text = format!("a batch has at most {MAX_CHANGES} changes");
                return self.fail(self.token, text);
            }
            changes.push(self.change()?);
            self.eat(Tok::Semicolon);
        }
        if !self.at_kw(Keyword::Apply) {
            let hint = match self.token.kind {
                Tok::Kw(Keyword::Select) => Some("a batch holds INSERT, UPDATE and DELETE only"),
                Tok::End => Some("a batch ends with APPLY BATCH"),
                Tok::Semicolon => Some("in a batch one ';' may follow a statement"),
                _ => None,
            };
            return self.unexpected_with(hint.map(str::to_owned));
        }
        self.bump();
        self.expect_kw(Keyword::Batch)?;
        Ok(BatchStatement { kind, using, changes })
    }

    fn insert(&mut self) -> Rule<Insert<'a>> {
        self.expect_kw(Keyword::Insert)?;
        self.expect_kw(Keyword::Into)?;
        let table = self.table_name()?;
        let what = if self.eat_kw(Keyword::Json) {
            let value = self.json_value()?;
            let default_unset = self.eat_kw(Keyword::Default) && {
                let unset = self.eat_kw(Keyword::Unset);
                if !unset {
                    self.expect_kw(Keyword::Null)?;
                }
                unset
            };
            Inserted::Json { value, default_unset }
        } else {
            let columns = self.parenthesised(Self::column)?;
            self.expect_kw(Keyword::Values)?;
            Inserted::Values { columns, values: self.parenthesised(Self::term)? }
        };
        let if_not_exists = self.if_not_exists()?;
        Ok(Insert { table, what, if_not_exists, using: self.using()? })
    }

    /// Parses the text or the marker after `JSON`.
    fn json_value(&mut self) -> Rule<Term<'a>> {
        if matches!(self.token.kind, Tok::Question | Tok::Colon) {
            return self.marker();
        }
        let at = Pos(self.token.start);
        self.note(Expect::What("a bind marker"));
        let text = self.string("a JSON object in quotes")?;
        Ok(Term {
            at,
            kind: TermPrimary::Constant(Constant { kind: ConstantKind::String, text }).into(),
        })
    }

    /// Parses `[USING TIMESTAMP n AND TTL n]`.
    fn using(&mut self) -> Rule<Using<'a>> {
        let mut using = Using::default();
        if !self.eat_kw(Keyword::Using) {
            return Ok(using);
        }
        loop {
            let token = self.token;
            let slot = if self.eat_kw(Keyword::Timestamp) {
                &mut using.timestamp
            } else if self.eat_kw(Keyword::Ttl) {
                &mut using.ttl
            } else {
                return self.unexpected();
            };
            if slot.is_some() {
                return self.fail(
                    token,
                    format!("{} is given twice", self.text_of(token).to_ascii_uppercase()),
                );
            }
            *slot = Some(self.int_value()?);
            if !self.eat_kw(Keyword::And) {
                return Ok(using);
            }
        }
    }

    fn update(&mut self) -> Rule<Update<'a>> {
        self.expect_kw(Keyword::Update)?;
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_kw(Keyword::Set)?;
        let assignments = self.list(Self::assignment)?;
        self.check_assignments(&assignments)?;
        self.expect_kw(Keyword::Where)?;
        let relations = self.relations()?;
        Ok(Update { table, using, assignments, relations, guard: self.guard()? })
    }

    fn assignment(&mut self) -> Rule<Assignment<'a>> {
        let column = self.column()?;
        let operation = if self.eat(Tok::Eq) {
            self.assigned(&column)?
        } else if self.eat(Tok::PlusEq) {
            Assign::Append(self.term()?)
        } else if self.eat(Tok::MinusEq) {
            Assign::Remove(self.term()?)
        } else if self.eat(Tok::LBracket) {
            let key = self.term()?;
            self.expect(Tok::RBracket)?;
            self.expect(Tok::Eq)?;
            Assign::Element { key, value: self.term()? }
        } else if self.eat(Tok::Dot) {
            let field = self.name("a field")?;
            self.expect(Tok::Eq)?;
            Assign::Field { field, value: self.term()? }
        } else {
            return self.unexpected();
        };
        Ok(Assignment { column, operation })
    }

    /// Parses the part after `column =`.
    fn assigned(&mut self, column: &AstName<'a>) -> Rule<Assign<'a>> {
        let start = self.token;
        if Self::is_name(start.kind) && !matches!(self.ahead.kind, Tok::LParen | Tok::Dot) {
            let other = self.take_name();
            return self.assigned_from(column, &other, start);
        }
        let value = self.sum(true)?;
        let plus = self.token;
        if !self.eat(Tok::Plus) {
            return Ok(Assign::Set(value));
        }
        let other = self.column()?;
        if other != *column {
            return self.only(plus, "X = <value> + X");
        }
        Ok(Assign::Prepend(value))
    }

    /// Parses the part after `column = other`.
    fn assigned_from(
        &mut self,
        column: &AstName<'a>,
        other: &AstName<'a>,
        start: CqlToken,
    ) -> Rule<Assign<'a>> {
        let same = other == column;
        let at = Pos(self.token.start);
        match self.token.kind {
            Tok::Plus => {
                self.bump();
                let value = self.term()?;
                if same { Ok(Assign::Append(value)) } else { self.only(start, "X = X +<value>") }
            }
            Tok::Minus => {
                self.bump();
                let value = self.term()?;
                if same { Ok(Assign::Remove(value)) } else { self.only(start, "X = X -<value>") }
            }
            // `X = X -3`: the sign belongs to the number, which is added.
            Tok::Integer => {
                let negative = self.slice().starts_with('-');
                let Some(constant) = self.constant() else { return self.unexpected() };
                if !same {
                    return self
                        .only(start, if negative { "X = X - <value>" } else { "X = X + <value>" });
                }
                self.leaf()?;
                Ok(Assign::Append(Term { at, kind: TermPrimary::Constant(constant).into() }))
            }
            _ => {
                self.note(Expect::Tok(Tok::Plus));
                self.note(Expect::Tok(Tok::Minus));
                let hint = "a column is set to a value; other columns cannot be read, and its own only as X = X + <value>, X = X - \
                            <value> or X = <value> + X";
                self.unexpected_with(Some(hint.to_owned()))
            }
        }
    }

    #[cold]
    fn only<T>(&self, token: CqlToken, form: &str) -> Rule<T> {
        self.fail_hint(
            token,
            format!("Only expressions of the form {form} are supported."),
            "X is the column that is set; other columns cannot be read here",
        )
    }

    /// Checks that a column that is set as a whole has no other assignment.
    fn check_assignments(&self, assignments: &[Assignment<'a>]) -> Rule<()> {
        if assignments.len() < 2 {
            return Ok(());
        }
        let mut order: Vec<&Assignment> = assignments.iter().collect();
        // The sort is stable: assignments of a column stay in text order.
        order.sort_by(|a, b| a.column.text.cmp(&b.column.text));
        for group in order.chunk_by(|a, b| a.column.text == b.column.text) {
            if let [_, second, ..] = group
                && group.iter().any(|a| matches!(a.operation, Assign::Set(_)))
            {
                let start = second.column.at.0;
                let token = CqlToken {
                    kind: Tok::Ident,
                    start,
                    end: start + second.column.text.len() as u32,
                };
                let message =
                    format!("Multiple incompatible setting of column {}", second.column.text);
                return self.fail_hint(
                    token,
                    message,
                    "a column that is set as a whole is set only once in a statement",
                );
            }
        }
        Ok(())
    }

    fn delete(&mut self) -> Rule<Delete<'a>> {
        self.expect_kw(Keyword::Delete)?;
        let targets = if self.at_kw(Keyword::From) { Vec::new() } else { self.list(Self::target)? };
        self.expect_kw(Keyword::From)?;
        let table = self.table_name()?;
        let timestamp = if self.eat_kw(Keyword::Using) {
            if !self.at_kw(Keyword::Timestamp) {
                return self.unexpected_with(Some(
                    "a deletion has a timestamp, but no time to live".to_owned(),
                ));
            }
            self.bump();
            Some(self.int_value()?)
        } else {
            None
        };
        if !self.at_kw(Keyword::Where) {
            let hint = "DELETE needs a WHERE clause; all rows of a table are removed with TRUNCATE";
            return self.unexpected_with((self.token.kind == Tok::End).then(|| hint.to_owned()));
        }
        self.bump();
        let relations = self.relations()?;
        Ok(Delete { targets, table, timestamp, relations, guard: self.guard()? })
    }

    /// Parses `column`, `column[key]` or `column.field`.
    fn target(&mut self) -> Rule<ChangeTarget<'a>> {
        let column = self.column()?;
        let part = if self.eat(Tok::LBracket) {
            let key = self.term()?;
            self.expect(Tok::RBracket)?;
            ConditionPart::Element(key)
        } else if self.eat(Tok::Dot) {
            ConditionPart::Field(self.name("a field")?)
        } else {
            ConditionPart::Whole
        };
        Ok(ChangeTarget { column, part })
    }

    /// Parses `[IF EXISTS | IF condition AND …]`.
    fn guard(&mut self) -> Rule<ChangeGuard<'a>> {
        if !self.eat_kw(Keyword::If) {
            return Ok(ChangeGuard::None);
        }
        // EXISTS may also be the name of a column, if it is followed by a comparison.
        let column = matches!(
            self.ahead.kind,
            Tok::Eq | Tok::Ne | Tok::Lt | Tok::Le | Tok::Gt | Tok::Ge | Tok::LBracket | Tok::Dot
        ) || matches!(self.ahead.kind, Tok::Kw(Keyword::In | Keyword::Contains));
        if !column && self.eat_kw(Keyword::Exists) {
            return Ok(ChangeGuard::Exists);
        }
        let mut conditions = vec![self.condition()?];
        while self.eat_kw(Keyword::And) {
            conditions.push(self.condition()?);
        }
        Ok(ChangeGuard::Conditions(conditions))
    }

    fn condition(&mut self) -> Rule<Condition<'a>> {
        let target = self.target()?;
        let test = if let Some(comparison) = self.comparison_if_any() {
            ChangeTest::Compare(comparison, self.term()?)
        } else if self.eat_kw(Keyword::In) {
            ChangeTest::In(self.in_values()?)
        } else if target.part == ConditionPart::Whole && self.eat_kw(Keyword::Contains) {
            if self.contains_key() {
                ChangeTest::ContainsKey(self.term()?)
            } else {
                ChangeTest::Contains(self.term()?)
            }
        } else {
            return self.unexpected();
        };
        Ok(Condition { target, test })
    }
}
