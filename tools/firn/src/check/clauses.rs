//! Judges a statement for a target by its text: its clauses, against the schema.
//!
//! Findings that depend on bound values stay open: a [`StatementHit`] names the marker, and
//! [`statements`](super::statements) looks up its size in the log.

use firn_cql::Session;
use firn_cql::internals::catalog::{TableSchema, check_not_system};
use firn_cql::internals::syntax::ast::{
    About, Assign, BatchStatement, ChangeClause, Comparison, ConditionPart, Delete, ExpressionKind,
    InsertValues, Inserted, QualifiedName, Relation, Select, Selector, SelectorKind,
    SelectorPrimary, Statement, Term, TermKind, TermPrimary, Update, Using,
};
use firn_cql::internals::syntax::keyword::Keyword;
use firn_cql::internals::syntax::lexer::{Lexer, Tok};
use firn_cql::internals::syntax::parse;
use firn_wide::Type;

use super::batches::{conditions_span, is_conditional};
use super::data;
use super::finding::{CheckFinding, FindingSeverity};
use super::functions::{is_of_5, newer_name, older_name};
use super::judged::{InValueCount, JudgedText, StatementHit};
use super::sizes::full_name;
use super::target::{FeatureSupport, TargetTable};

const BY_PARTITION: &str =
    "name the whole partition key, or keep a table with the queried columns as its partition key";
const ONE_BY_ONE: &str = "send one statement per partition, with a limited number at once; the driver sends each to a replica";

/// Judges texts against the schema of a store.
pub struct ClauseJudge<'a> {
    session: &'a Session,
    target: &'static TargetTable,
    /// Current time, in seconds since 1970.
    now: u64,
}

/// Location of a finding without a table.
const NO_PLACE: &str = "a statement";

impl<'a> ClauseJudge<'a> {
    pub fn new(session: &'a Session, target: &'static TargetTable, now: u64) -> ClauseJudge<'a> {
        ClauseJudge { session, target, now }
    }

    /// Judges a statement in this keyspace.
    pub fn text(&self, keyspace: Option<&str>, text: &str) -> JudgedText {
        let mut found = JudgedText::default();
        let parsed = match parse(text) {
            Ok(parsed) => parsed,
            Err(e) => {
                found.unjudged(NO_PLACE, "unreadable", format!("Firn cannot parse it: {e}"));
                return found;
            }
        };
        let tables: Vec<&QualifiedName<'_>> = match &parsed.statement {
            Statement::Select(s) => vec![&s.table],
            Statement::Change(c) => vec![c.table()],
            Statement::Batch(b) => b.changes.iter().map(ChangeClause::table).collect(),
            // Definitions are judged by the resulting schema.
            _ => return found,
        };
        let catalog = self.session.engine().catalog();
        let mut schemas = vec![];
        for name in tables {
            let Some(home) = name.keyspace.as_ref().map(|k| &*k.text).or(keyspace) else {
                found.unjudged(
                    NO_PLACE,
                    "no-keyspace",
                    "it names no keyspace, and none was chosen".to_owned(),
                );
                return found;
            };
            if check_not_system(home).is_err() {
                return found;
            }
            let Some(table) = catalog.keyspace(home).and_then(|k| k.table(&name.name.text)) else {
                let place = format!("{home}.{}", name.name.text);
                found.unjudged(&place, "no-table", "the store has no such table".to_owned());
                return found;
            };
            schemas.push(table.clone());
        }
        // A batch may be empty.
        let Some(first) = schemas.first() else { return found };
        let place = full_name(first);
        let home = keyspace.map(Into::into);
        if let Err(e) = self.session.prepare_in(home.as_ref(), text) {
            found.unjudged(
                &place,
                "refused-here",
                format!("this store refuses it too: {}", e.text()),
            );
            return found;
        }
        if self.target.between != FeatureSupport::There && has_between(text) {
            let next = "write c >= a AND c <= b";
            found.feature(self.target, self.target.between, "between", &place, "BETWEEN", next);
        }
        match &parsed.statement {
            Statement::Select(s) => self.select(&mut found, s, first, home.as_ref()),
            Statement::Change(c) => {
                self.change(&mut found, c, first);
                found.writes = Some(place);
            }
            Statement::Batch(b) => self.batch(&mut found, b, &schemas),
            _ => {}
        }
        found
    }

    fn select(
        &self,
        found: &mut JudgedText,
        select: &Select<'_>,
        table: &TableSchema,
        home: Option<&std::sync::Arc<str>>,
    ) {
        let place = full_name(table);
        self.in_of_key(found, &select.relations, table);
        let is_one = names_partition(&select.relations, table);
        let by_token = select.relations.iter().any(|r| matches!(r, Relation::Token { .. }));
        let mut asks_index = select.order_by.iter().any(|order| order.nearest.is_some());
        for relation in &select.relations {
            let mut relation = relation.clone();
            let names = relation
                .columns_mut()
                .iter()
                .any(|column| table.indexes().iter().any(|index| index.column == column.text));
            asks_index |= names;
        }
        let filters = select.allow_filtering && {
            let without = Select { allow_filtering: false, ..select.clone() };
            self.session.prepare_in(home, &without.to_string()).is_err()
        };
        match (is_one, filters) {
            (true, true) => found.report(
                FindingSeverity::Differs,
                "filters-partition",
                &place,
                "ALLOW FILTERING within one partition: the whole partition is read and filtered",
                "the cost grows with the partition; a clustering column would allow a seek",
            ),
            (false, true) => found.report(
                FindingSeverity::Badly,
                "filters",
                &place,
                "ALLOW FILTERING without the partition: every node reads all of its rows of the table",
                BY_PARTITION,
            ),
            (false, false) if by_token => {}
            (false, false) if asks_index => {
                if self.target.indexes_ask_every_node {
                    let what = "it uses an index without a partition: nodes are queried one after the other until there are enough rows";
                    found.report(FindingSeverity::Badly, "asks-every-node", &place, what, BY_PARTITION);
                }
            }
            (false, false) => found.report(
                FindingSeverity::Badly,
                "reads-all",
                &place,
                "it names no partition: every node reads all of its rows of the table",
                "to read the whole table, scan ranges of token() page by page; otherwise name the partition key",
            ),
            (true, false) => {}
        }
        for selected in &select.selection {
            self.selector(found, &selected.selector, table);
        }
        select.group_by.iter().for_each(|of| self.selector(found, of, table));
        select.relations.iter().for_each(|r| self.relation(found, r, table));
    }

    fn in_of_key(&self, found: &mut JudgedText, relations: &[Relation<'_>], table: &TableSchema) {
        for relation in relations {
            let Relation::In { column, values } = relation else { continue };
            let Some(column) = table.column(&column.text).filter(|c| c.is_primary_key()) else {
                continue;
            };
            let of_partition = table.partition().iter().any(|c| c.name == column.name);
            if !of_partition && self.target.in_values.fail.is_none() {
                continue;
            }
            let amount = match values {
                InsertValues::List(terms) => InValueCount::Written(terms.len() as u64),
                InsertValues::Marker(term) => match &term.kind {
                    ExpressionKind::Primary(TermPrimary::Marker(m)) => InValueCount::Bound(m.index),
                    _ => continue,
                },
            };
            let what = match of_partition {
                true => format!(
                    "IN of {}, a part of the partition key: one coordinator queries all partitions, and holds the results",
                    column.name
                ),
                false => format!("IN of the clustering column {}", column.name),
            };
            let finding = CheckFinding::new(
                FindingSeverity::Badly,
                "in-values",
                full_name(table),
                what,
                ONE_BY_ONE,
            );
            found.hits.push(StatementHit { finding, values: Some(amount) });
        }
    }

    fn change(&self, found: &mut JudgedText, change: &ChangeClause<'_>, table: &TableSchema) {
        let place = full_name(table);
        match change {
            ChangeClause::Insert(s) => {
                if let Inserted::Values { values, .. } = &s.what {
                    values.iter().for_each(|term| self.term(found, term, table));
                }
                self.using(found, &s.using, table);
            }
            ChangeClause::Update(s) => {
                self.using(found, &s.using, table);
                self.update(found, s, table);
            }
            ChangeClause::Delete(s) => self.delete(found, s, table),
        }
        if is_conditional(change) {
            found.report(
                FindingSeverity::Differs,
                "condition",
                &place,
                "a condition: the replicas agree in several rounds, and after a timeout the outcome is unknown",
                "use conditions where they are needed, and read with SERIAL after a timeout; never mix them with plain writes of the same cells",
            );
        }
    }

    /// Judges a time to live written in a statement.
    fn using(&self, found: &mut JudgedText, using: &Using<'_>, table: &TableSchema) {
        let Some(TermKind::Primary(TermPrimary::Constant(c))) = using.ttl.as_ref().map(|t| &t.kind)
        else {
            return;
        };
        let seconds = c.text.parse().unwrap_or(0);
        let of_ttl = data::judge_ttl(self.target, self.now, seconds, &full_name(table));
        found.hits.extend(of_ttl.map(|finding| StatementHit { finding, values: None }));
    }

    fn update(&self, found: &mut JudgedText, update: &Update<'_>, table: &TableSchema) {
        let place = full_name(table);
        self.in_of_key(found, &update.relations, table);
        for assignment in &update.assignments {
            let of = table.column(&assignment.column.text).map(|c| &c.of);
            let is_list =
                of.is_some_and(|of| of.multicell && matches!(of.value_type, Type::List(_)));
            let is_counter = of.is_some_and(|of| of.value_type == Type::Counter);
            match &assignment.operation {
                Assign::Element { .. } | Assign::Remove(_) if is_list => reads_list(found, &place),
                Assign::Append(_) | Assign::Prepend(_) if is_list => found.report(
                    FindingSeverity::Differs,
                    "not-twice",
                    &place,
                    "it adds to a list: a retry after a timeout may add the element twice",
                    "use a set, or a map with a time as key: adding the same element twice has no effect",
                ),
                Assign::Append(_) | Assign::Remove(_) if is_counter => found.report(
                    FindingSeverity::Differs,
                    "not-twice",
                    &place,
                    "it adds to a counter: after a timeout the outcome is unknown",
                    "disable automatic retries, or count rows of a table with idempotent writes",
                ),
                Assign::Set(term)
                | Assign::Append(term)
                | Assign::Remove(term)
                | Assign::Prepend(term)
                | Assign::Field { value: term, .. }
                | Assign::Element { value: term, .. } => self.term(found, term, table),
            }
        }
        update.relations.iter().for_each(|r| self.relation(found, r, table));
    }

    fn delete(&self, found: &mut JudgedText, delete: &Delete<'_>, table: &TableSchema) {
        let place = full_name(table);
        self.in_of_key(found, &delete.relations, table);
        for target in &delete.targets {
            let column = table.column(&target.column.text);
            let is_list =
                column.is_some_and(|c| c.of.multicell && matches!(c.of.value_type, Type::List(_)));
            if is_list && matches!(target.part, ConditionPart::Element(_)) {
                reads_list(found, &place);
            }
        }
        delete.relations.iter().for_each(|r| self.relation(found, r, table));
    }

    fn batch(
        &self,
        found: &mut JudgedText,
        batch: &BatchStatement<'_>,
        schemas: &[std::sync::Arc<TableSchema>],
    ) {
        for (change, table) in batch.changes.iter().zip(schemas) {
            self.change(found, change, table);
        }
        let place = schemas.first().map(|table| full_name(table));
        if let Some(place) = place.as_ref().filter(|_| conditions_span(&batch.changes, schemas)) {
            found.report(
                FindingSeverity::Refused,
                "conditions-span",
                place,
                "a batch with a condition over several partitions",
                "put data under one condition into one partition, or write the rest after the condition succeeded",
            );
        }
        found.batch = Some(batch.kind);
        found.writes = place;
    }

    fn relation(&self, found: &mut JudgedText, relation: &Relation<'_>, table: &TableSchema) {
        match relation {
            Relation::Compare { value, .. }
            | Relation::Contains { value, .. }
            | Relation::ContainsKey { key: value, .. }
            | Relation::Element { value, .. }
            | Relation::Like { pattern: value, .. }
            | Relation::Token { value, .. }
            | Relation::Tuple { value, .. } => self.term(found, value, table),
            Relation::In { values, .. } | Relation::TupleIn { values, .. } => {
                if let InsertValues::List(terms) = values {
                    terms.iter().for_each(|term| self.term(found, term, table));
                }
            }
            Relation::NotNull { .. } => {}
        }
    }

    fn term(&self, found: &mut JudgedText, term: &Term<'_>, table: &TableSchema) {
        if let TermKind::Call(call) = &term.kind {
            self.function(found, &call.function, table);
        }
        term.kind.operands(&mut |of| self.term(found, of, table));
    }

    fn selector(&self, found: &mut JudgedText, selector: &Selector<'_>, table: &TableSchema) {
        let place = full_name(table);
        match &selector.kind {
            SelectorKind::Call(call) => self.function(found, &call.function, table),
            SelectorKind::Primary(SelectorPrimary::Term(term)) => self.term(found, term, table),
            SelectorKind::Primary(SelectorPrimary::About(about, of)) => {
                let is_whole = match &of.kind {
                    SelectorKind::Primary(SelectorPrimary::Column(c)) => {
                        table.column(&c.text).is_some_and(|c| c.of.multicell)
                    }
                    _ => false,
                };
                if is_whole || *about == About::MaxWriteTime {
                    let what = "writetime, ttl or maxwritetime of a whole collection or user type";
                    let next = "store the time in its own column";
                    let support = self.target.functions_of_5;
                    found.feature(self.target, support, "native-function", &place, what, next);
                }
            }
            _ => {}
        }
        selector.kind.operands(&mut |of| self.selector(found, of, table));
    }

    fn function(&self, found: &mut JudgedText, name: &QualifiedName<'_>, table: &TableSchema) {
        let (word, place) = (name.name.text.to_ascii_lowercase(), &full_name(table));
        let home = name.keyspace.as_ref().map_or(&*table.keyspace, |k| &*k.text);
        let catalog = self.session.engine().catalog();
        let of_user = catalog.keyspace(home).is_some_and(|k| {
            k.functions().any(|f| f.name == name.name.text)
                || k.aggregates().any(|a| a.name == name.name.text)
        });
        if of_user {
            let what = format!(
                "it calls {word}, a function of this store: its body is in a language that the target does not have"
            );
            let next = "compute it in the program";
            found.report(FindingSeverity::Refused, "calls-function", place, &what, next);
            return;
        }
        let (support, next) = if word.starts_with("mask_") {
            // The masking functions exist without the setting for masked columns.
            let support = match self.target.masks {
                FeatureSupport::Off(_) => FeatureSupport::There,
                other => other,
            };
            (support, "mask it in the program".to_owned())
        } else if is_of_5(&word) {
            let older =
                older_name(&word).map(|older| format!("write {older}, its name before 5.0"));
            let next = older.unwrap_or_else(|| "compute it in the program".to_owned());
            (self.target.functions_of_5, next)
        } else if let Some(newer) = newer_name(&word) {
            (self.target.functions_before_5, format!("write {newer}"))
        } else {
            return;
        };
        let what = format!("the function {word}");
        found.feature(self.target, support, "native-function", place, &what, &next);
    }
}

fn reads_list(found: &mut JudgedText, place: &str) {
    found.report(
        FindingSeverity::Badly,
        "reads-list",
        place,
        "it changes elements of a list by index or value: this reads the list first, and concurrent writers may change the wrong element",
        "use a map or a set, whose elements have keys",
    );
}

/// Reports whether the relations name one partition, or several by `IN`.
fn names_partition(relations: &[Relation<'_>], table: &TableSchema) -> bool {
    let is_named = |name: &str| {
        relations.iter().any(|relation| match relation {
            Relation::Compare { column, comparison, .. } => {
                *comparison == Comparison::Eq && column.text == name
            }
            Relation::In { column, .. } => column.text == name,
            _ => false,
        })
    };
    let by_token = |relation: &Relation<'_>| {
        matches!(relation, Relation::Token { comparison: Comparison::Eq, .. })
    };
    table.partition().iter().all(|c| is_named(&c.name)) || relations.iter().any(by_token)
}

/// Reports whether a text has the keyword outside strings and quoted names.
fn has_between(text: &str) -> bool {
    let mut lexer = Lexer::new(text, 0);
    loop {
        match lexer.next_token().kind {
            Tok::Kw(Keyword::Between) => return true,
            Tok::End | Tok::Bad(_) => return false,
            _ => {}
        }
    }
}
