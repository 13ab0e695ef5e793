//! Trees of any shape that CQL can express are printed and parsed to the same tree, and texts of
//! any bytes cause no panic.

use std::borrow::Cow;

use firn_cql::Script;
use firn_cql::internals::syntax::ast::*;
use firn_cql::internals::syntax::{parse, parse_bytes};
use firn_testkit::rng::Rng;
use proptest::prelude::*;

/// Generates trees in text order, so that markers are numbered correctly.
struct Maker {
    rng: Rng,
    markers: u16,
    names: u32,
}

const AT: Pos = Pos(0);
const NAMES: [&str; 28] = [
    "a",
    "b",
    "k_1",
    "Mixed",
    "with \"quotes\"",
    "é",
    "select",
    "token",
    "key",
    "ttl",
    "count",
    "writetime",
    "cast",
    "json",
    "distinct",
    "exists",
    "per",
    "type",
    "int",
    "text",
    "map",
    "set",
    "frozen",
    "p1d",
    "P1D",
    "f0e1d2c3",
    "true",
    "values",
];
const NATIVES: [Native; 21] = [
    Native::Ascii,
    Native::BigInt,
    Native::Blob,
    Native::Boolean,
    Native::Counter,
    Native::Date,
    Native::Decimal,
    Native::Double,
    Native::Duration,
    Native::Float,
    Native::Inet,
    Native::Int,
    Native::SmallInt,
    Native::Text,
    Native::Time,
    Native::Timestamp,
    Native::TimeUuid,
    Native::TinyInt,
    Native::Uuid,
    Native::VarChar,
    Native::VarInt,
];
const COMPARISONS: [Comparison; 6] = [
    Comparison::Eq,
    Comparison::Ne,
    Comparison::Lt,
    Comparison::Le,
    Comparison::Gt,
    Comparison::Ge,
];
const CONSTANTS: [(ConstantKind, &str); 22] = [
    (ConstantKind::String, ""),
    (ConstantKind::String, "it's; -- \"x\" $$ /*"),
    (ConstantKind::String, "é\n"),
    (ConstantKind::Integer, "0"),
    (ConstantKind::Integer, "-9223372036854775808"),
    (ConstantKind::Integer, "123456789012345678901234567890"),
    (ConstantKind::Float, "1."),
    (ConstantKind::Float, "-1.5e-3"),
    (ConstantKind::Float, "NaN"),
    (ConstantKind::Float, "Infinity"),
    (ConstantKind::Float, "-Infinity"),
    (ConstantKind::Boolean, "true"),
    (ConstantKind::Boolean, "FALSE"),
    (ConstantKind::Duration, "-1h30m"),
    (ConstantKind::Duration, "2µs"),
    (ConstantKind::Duration, "P1Y2M3DT4H5M6S"),
    (ConstantKind::Duration, "-P3W"),
    (ConstantKind::Uuid, "550e8400-e29b-41d4-a716-446655440000"),
    (ConstantKind::Uuid, "f50e8400-e29b-41d4-a716-446655440000"),
    (ConstantKind::Uuid, "12345678-e29b-41d4-a716-446655440000"),
    (ConstantKind::Hex, "0x"),
    (ConstantKind::Hex, "0XaF01"),
];

impl Maker {
    fn new(seed: u64) -> Maker {
        Maker { rng: Rng::new(seed), markers: 0, names: 0 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn some<T>(&mut self, min: usize, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let n = min + self.below(3);
        (0..n).map(|_| item(self)).collect()
    }

    fn maybe<T>(&mut self, item: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| item(self))
    }

    fn name(&mut self) -> AstName<'static> {
        AstName { text: Cow::Borrowed(self.pick(&NAMES)), at: AT }
    }

    /// Returns a name that is unique in this tree.
    fn fresh(&mut self) -> AstName<'static> {
        self.names += 1;
        AstName { text: Cow::Owned(format!("{}{}", self.pick(&NAMES), self.names)), at: AT }
    }

    fn qualified(&mut self) -> QualifiedName<'static> {
        QualifiedName { keyspace: self.maybe(Self::name), name: self.name() }
    }

    fn function(&mut self) -> QualifiedName<'static> {
        self.qualified()
    }

    fn constant(&mut self) -> Constant<'static> {
        let (kind, text) = self.pick(&CONSTANTS);
        Constant { kind, text: Cow::Borrowed(text) }
    }

    fn marker(&mut self) -> Term<'static> {
        let index = self.markers;
        self.markers += 1;
        let name = self.maybe(|m| Cow::Borrowed(m.pick(&NAMES)));
        Term { at: AT, kind: TermPrimary::Marker(Marker { index, name }).into() }
    }

    fn int(&mut self) -> Term<'static> {
        if self.flag() {
            return self.marker();
        }
        let text = Cow::Borrowed(self.pick(&["5", "-7", "0"]));
        Term {
            at: AT,
            kind: TermPrimary::Constant(Constant { kind: ConstantKind::Integer, text }).into(),
        }
    }

    fn type_(&mut self, depth: usize) -> TypeSyntax<'static> {
        let kind = match self.below(if depth == 0 { 3 } else { 9 }) {
            0 => TypeKind::Native(self.pick(&NATIVES)),
            1 => TypeKind::Custom(Cow::Borrowed("org.It's")),
            2 => TypeKind::User(Box::new(self.qualified())),
            3 => TypeKind::Map(Box::new((self.type_(depth - 1), self.type_(depth - 1)))),
            4 => TypeKind::Set(Box::new(self.type_(depth - 1))),
            5 => TypeKind::List(Box::new(self.type_(depth - 1))),
            6 => match self.type_(depth - 1) {
                // These are not collections.
                TypeSyntax { kind: kind @ (TypeKind::Native(_) | TypeKind::Custom(_)), .. } => kind,
                inner => TypeKind::Frozen(Box::new(inner)),
            },
            7 => TypeKind::Tuple(self.some(1, |m| m.type_(depth - 1))),
            _ => TypeKind::Vector(Box::new(self.type_(depth - 1)), 3),
        };
        TypeSyntax { at: AT, kind }
    }

    /// Returns the type of a hint that cannot be parsed as a value in parentheses.
    fn hint(&mut self) -> TypeSyntax<'static> {
        loop {
            let hint = self.type_(2);
            if !matches!(hint.kind, TypeKind::User(_) | TypeKind::Custom(_)) {
                return hint;
            }
        }
    }

    fn term(&mut self, depth: usize) -> Term<'static> {
        let product = |m: &mut Self| {
            let factor = |m: &mut Self| {
                let of = m.simple(depth);
                if m.below(8) == 0 {
                    Term { at: AT, kind: TermKind::Negate(Box::new(of)) }
                } else {
                    of
                }
            };
            m.chain(&[Operator::Multiply, Operator::Divide, Operator::Modulo], factor, term_binary)
        };
        self.chain(&[Operator::Add, Operator::Subtract], product, term_binary)
    }

    fn chain<T>(
        &mut self,
        operators: &[Operator],
        mut item: impl FnMut(&mut Self) -> T,
        binary: fn(Binary<T>) -> T,
    ) -> T {
        let mut left = item(self);
        while self.below(8) == 0 {
            let operator = self.pick(operators);
            left = binary(Binary { operator, left, right: item(self) });
        }
        left
    }

    fn simple(&mut self, depth: usize) -> Term<'static> {
        let kind = match self.below(if depth == 0 { 3 } else { 10 }) {
            0 => TermPrimary::Null.into(),
            1 => TermPrimary::Constant(self.constant()).into(),
            2 => return self.marker(),
            3 => TermKind::List(self.some(0, |m| m.term(depth - 1))),
            4 => TermKind::Set(self.some(0, |m| m.term(depth - 1))),
            5 => TermKind::Map(self.some(1, |m| (m.term(depth - 1), m.term(depth - 1)))),
            6 => TermPrimary::User(self.some(1, |m| (m.name(), m.term(depth - 1)))).into(),
            7 => TermKind::Tuple(self.some(1, |m| m.term(depth - 1))),
            8 => {
                let function = self.function();
                TermKind::Call(Box::new(FunctionCall {
                    function,
                    arguments: self.some(0, |m| m.term(depth - 1)),
                }))
            }
            _ if self.flag() => TermKind::Hint(Box::new((self.hint(), self.simple(depth - 1)))),
            _ => TermKind::Cast(Box::new(self.simple(depth - 1)), self.pick(&NATIVES)),
        };
        Term { at: AT, kind }
    }

    fn selector(&mut self, depth: usize) -> Selector<'static> {
        let product = |m: &mut Self| {
            m.chain(
                &[Operator::Multiply, Operator::Divide, Operator::Modulo],
                |m| m.factor(depth),
                selector_binary,
            )
        };
        self.chain(&[Operator::Add, Operator::Subtract], product, selector_binary)
    }

    fn factor(&mut self, depth: usize) -> Selector<'static> {
        if self.below(8) == 0 {
            return Selector { at: AT, kind: SelectorKind::Negate(Box::new(self.factor(depth))) };
        }
        let mut of = self.simple_selector(depth);
        while self.below(4) == 0 {
            // `(a)[1]` is a list with a type hint.
            let brackets = !matches!(of.kind, SelectorKind::Tuple(_));
            let kind = match self.below(if brackets { 4 } else { 1 }) {
                0 => SelectorPrimary::Field(Box::new((of, self.name()))).into(),
                1 => SelectorPrimary::Element(Box::new((of, self.term(1)))).into(),
                2 => SelectorPrimary::Slice(Box::new((of, None, Some(self.term(1))))).into(),
                _ => {
                    let from = self.term(1);
                    SelectorPrimary::Slice(Box::new((of, Some(from), self.maybe(|m| m.term(1)))))
                        .into()
                }
            };
            of = Selector { at: AT, kind };
        }
        of
    }

    /// Returns a column or a part of one.
    fn part_of_column(&mut self, depth: usize) -> Selector<'static> {
        let column = SelectorPrimary::Column(self.name());
        let column = Selector { at: AT, kind: column.into() };
        let kind = match self.below(if depth == 0 { 1 } else { 3 }) {
            0 => return column,
            1 => SelectorPrimary::Field(Box::new((column, self.name()))),
            _ => SelectorPrimary::Element(Box::new((column, self.term(depth - 1)))),
        };
        Selector { at: AT, kind: kind.into() }
    }

    fn simple_selector(&mut self, depth: usize) -> Selector<'static> {
        let kind = match self.below(if depth == 0 { 4 } else { 11 }) {
            0 => SelectorPrimary::Column(self.name()).into(),
            1 => SelectorPrimary::Term(if self.flag() {
                self.marker()
            } else {
                Term { at: AT, kind: TermPrimary::Constant(self.constant()).into() }
            })
            .into(),
            2 => SelectorPrimary::CountRows.into(),
            3 => SelectorPrimary::About(
                self.pick(&[About::WriteTime, About::MaxWriteTime, About::Ttl]),
                Box::new(self.part_of_column(depth)),
            )
            .into(),
            4 => SelectorKind::List(self.some(0, |m| m.selector(depth - 1))),
            5 => SelectorKind::Set(self.some(0, |m| m.selector(depth - 1))),
            6 => {
                SelectorKind::Map(self.some(1, |m| (m.selector(depth - 1), m.selector(depth - 1))))
            }
            7 => SelectorKind::Tuple(self.some(1, |m| m.selector(depth - 1))),
            8 => {
                let function = self.function();
                SelectorKind::Call(Box::new(FunctionCall {
                    function,
                    arguments: self.some(0, |m| m.selector(depth - 1)),
                }))
            }
            9 => {
                let hint = self.hint();
                let column = Selector { at: AT, kind: SelectorPrimary::Column(self.name()).into() };
                SelectorKind::Hint(Box::new((hint, column)))
            }
            _ => SelectorKind::Cast(Box::new(self.selector(depth - 1)), self.pick(&NATIVES)),
        };
        Selector { at: AT, kind }
    }

    fn using(&mut self) -> Using<'static> {
        Using { timestamp: self.maybe(Self::int), ttl: self.maybe(Self::int) }
    }

    fn values(&mut self) -> InsertValues<'static> {
        if self.flag() {
            InsertValues::Marker(self.marker())
        } else {
            InsertValues::List(self.some(0, |m| m.term(1)))
        }
    }

    fn tuple(&mut self) -> Term<'static> {
        if self.flag() {
            self.marker()
        } else {
            Term { at: AT, kind: TermKind::Tuple(self.some(1, |m| m.term(1))) }
        }
    }

    fn relation(&mut self) -> Relation<'static> {
        let (at, column, comparison) = (AT, self.name(), self.pick(&COMPARISONS));
        match self.below(10) {
            0 | 1 => Relation::Compare { column, comparison, value: self.term(2) },
            2 => Relation::In { column, values: self.values() },
            3 => Relation::Contains { column, value: self.term(1) },
            4 => Relation::ContainsKey { column, key: self.term(1) },
            5 => Relation::Element { column, key: self.term(1), comparison, value: self.term(1) },
            6 => Relation::Like { column, pattern: self.term(0) },
            7 => Relation::NotNull { column },
            8 => Relation::Token {
                at,
                columns: self.some(1, Self::name),
                comparison,
                value: self.term(1),
            },
            _ if self.flag() => Relation::Tuple {
                at,
                columns: self.some(1, Self::name),
                comparison,
                value: self.tuple(),
            },
            _ => {
                let columns = self.some(1, Self::name);
                let values = if self.flag() {
                    InsertValues::Marker(self.marker())
                } else {
                    InsertValues::List(self.some(0, Self::tuple))
                };
                Relation::TupleIn { at, columns, values }
            }
        }
    }

    fn target(&mut self) -> ChangeTarget<'static> {
        let column = self.name();
        let part = match self.below(3) {
            0 => ConditionPart::Whole,
            1 => ConditionPart::Element(self.term(1)),
            _ => ConditionPart::Field(self.name()),
        };
        ChangeTarget { column, part }
    }

    fn guard(&mut self) -> ChangeGuard<'static> {
        match self.below(3) {
            0 => ChangeGuard::None,
            1 => ChangeGuard::Exists,
            _ => ChangeGuard::Conditions(self.some(1, |m| {
                let target = m.target();
                let test = match m.below(if target.part == ConditionPart::Whole { 4 } else { 2 }) {
                    0 => ChangeTest::Compare(m.pick(&COMPARISONS), m.term(1)),
                    1 => ChangeTest::In(m.values()),
                    2 => ChangeTest::Contains(m.term(1)),
                    _ => ChangeTest::ContainsKey(m.term(1)),
                };
                Condition { target, test }
            })),
        }
    }

    fn change(&mut self) -> ChangeClause<'static> {
        let table = self.qualified();
        match self.below(4) {
            0 => {
                let what = Inserted::Values {
                    columns: self.some(1, Self::name),
                    values: self.some(1, |m| m.term(3)),
                };
                ChangeClause::Insert(Insert {
                    table,
                    what,
                    if_not_exists: self.flag(),
                    using: self.using(),
                })
            }
            1 => {
                let text = Cow::Borrowed("{\"a\": '1'}");
                let json = Term {
                    at: AT,
                    kind: TermPrimary::Constant(Constant { kind: ConstantKind::String, text })
                        .into(),
                };
                let value = if self.flag() { self.marker() } else { json };
                let what = Inserted::Json { value, default_unset: self.flag() };
                ChangeClause::Insert(Insert {
                    table,
                    what,
                    if_not_exists: self.flag(),
                    using: self.using(),
                })
            }
            2 => {
                let using = self.using();
                let assignments = self.some(1, |m| {
                    let column = m.fresh();
                    let operation = match m.below(6) {
                        0 => Assign::Set(m.term(3)),
                        1 => Assign::Append(m.term(2)),
                        2 => Assign::Remove(m.term(2)),
                        3 => Assign::Prepend(m.term(2)),
                        4 => Assign::Element { key: m.term(1), value: m.term(1) },
                        _ => Assign::Field { field: m.name(), value: m.term(1) },
                    };
                    Assignment { column, operation }
                });
                let relations = self.some(1, Self::relation);
                ChangeClause::Update(Update {
                    table,
                    using,
                    assignments,
                    relations,
                    guard: self.guard(),
                })
            }
            _ => {
                let targets = self.some(0, Self::target);
                let timestamp = self.maybe(Self::int);
                let relations = self.some(1, Self::relation);
                ChangeClause::Delete(Delete {
                    targets,
                    table,
                    timestamp,
                    relations,
                    guard: self.guard(),
                })
            }
        }
    }

    fn ordering(&mut self) -> Ordering<'static> {
        Ordering { column: self.name(), nearest: None, descending: self.flag() }
    }

    fn select(&mut self) -> Select<'static> {
        let (json, distinct) = (self.flag(), self.flag());
        let mut selection =
            self.some(0, |m| Selected { selector: m.selector(2), alias: m.maybe(Self::name) });
        if (json || distinct) && !selection.is_empty() {
            // After these words a list would be an element of a column with that name. No markers,
            // because they are already numbered.
            let first = Selector { at: AT, kind: SelectorPrimary::Column(self.name()).into() };
            selection.insert(0, Selected { selector: first, alias: None });
        }
        Select {
            json,
            distinct,
            selection,
            table: self.qualified(),
            relations: self.some(0, Self::relation),
            group_by: self.some(0, |m| m.selector(1)),
            order_by: self.some(0, Self::ordering),
            per_partition_limit: self.maybe(Self::int),
            limit: self.maybe(Self::int),
            allow_filtering: self.flag(),
        }
    }

    fn properties(
        &mut self,
        maps: &[&'static str],
        others: &[&'static str],
    ) -> Vec<TableProperty<'static>> {
        let mut out: Vec<TableProperty> = self.some(1, |m| {
            let map = m.flag();
            let name =
                AstName { text: Cow::Borrowed(m.pick(if map { maps } else { others })), at: AT };
            let value = match m.below(2) {
                _ if map => {
                    let mut pairs = m.some(0, |m| (m.constant(), m.constant()));
                    pairs.sort_by(|a, b| a.0.text.cmp(&b.0.text));
                    pairs.dedup_by(|a, b| a.0.text == b.0.text);
                    PropertyValue::Map(pairs)
                }
                0 => PropertyValue::Constant(m.constant()),
                _ => PropertyValue::Word(Cow::Borrowed("keys")),
            };
            TableProperty { name, value }
        });
        out.sort_by(|a, b| a.name.text.cmp(&b.name.text));
        out.dedup_by(|a, b| a.name == b.name);
        out
    }

    fn table_properties(&mut self) -> Vec<TableProperty<'static>> {
        self.properties(&["compaction", "caching"], &["comment", "gc_grace_seconds"])
    }

    fn column_definition(&mut self, primary_key: bool) -> ColumnDefinition<'static> {
        ColumnDefinition {
            name: self.name(),
            of: self.type_(3),
            is_static: self.flag(),
            mask: self.maybe(Self::mask),
            primary_key,
        }
    }

    fn mask(&mut self) -> MaskSyntax<'static> {
        MaskSyntax { function: self.qualified(), arguments: self.some(0, |m| m.term(2)) }
    }

    fn definition(&mut self) -> Statement<'static> {
        let (if_exists, flag) = (self.flag(), self.flag());
        let pairs = self.some(1, |m| (m.name(), m.name()));
        match self.below(11) {
            0 => {
                let properties = self.properties(&["replication"], &["durable_writes"]);
                Statement::CreateKeyspace(CreateKeyspace {
                    if_not_exists: flag,
                    name: self.name(),
                    properties,
                })
            }
            1 => {
                let properties = self.properties(&["replication"], &["durable_writes"]);
                Statement::AlterKeyspace(AlterKeyspace { if_exists, name: self.name(), properties })
            }
            2 => Statement::CreateTable(CreateTable {
                if_not_exists: flag,
                name: self.qualified(),
                columns: self.some(1, |m| {
                    let key = m.flag();
                    m.column_definition(key)
                }),
                primary_keys: self.some(0, |m| PrimaryKey {
                    at: AT,
                    partition: m.some(1, Self::name),
                    clustering: m.some(0, Self::name),
                }),
                properties: if if_exists { self.table_properties() } else { Vec::new() },
                compact_storage: self.flag(),
                clustering_order: self.some(0, Self::ordering),
            }),
            3 => {
                let change = match self.below(6) {
                    0 => TableChange::Add {
                        if_not_exists: flag,
                        columns: self.some(1, |m| m.column_definition(false)),
                    },
                    1 => {
                        let timestamp =
                            Constant { kind: ConstantKind::Integer, text: Cow::Borrowed("-12") };
                        let timestamp = self.maybe(|_| timestamp);
                        TableChange::Drop {
                            if_exists: flag,
                            columns: self.some(1, Self::name),
                            timestamp,
                        }
                    }
                    2 => TableChange::Rename { if_exists: flag, pairs },
                    3 => TableChange::Mask {
                        if_exists: flag,
                        column: self.name(),
                        mask: self.maybe(Self::mask),
                    },
                    4 => TableChange::Retype { column: self.name(), of: self.type_(2) },
                    _ => TableChange::With(self.table_properties()),
                };
                Statement::AlterTable(AlterTable { if_exists, name: self.qualified(), change })
            }
            4 => {
                let options = self.properties(&["options"], &["options"]);
                let parts = [
                    IndexPartText::Simple,
                    IndexPartText::Keys,
                    IndexPartText::Values,
                    IndexPartText::Entries,
                    IndexPartText::Full,
                ];
                Statement::CreateIndex(CreateIndex {
                    custom: if_exists,
                    if_not_exists: flag,
                    name: self.maybe(Self::name),
                    table: self.qualified(),
                    targets: self
                        .some(1, |m| IndexTargetText { part: m.pick(&parts), column: m.name() }),
                    class: self.maybe(|_| Cow::Borrowed("It's")),
                    properties: options
                        .into_iter()
                        .filter(|p| matches!(p.value, PropertyValue::Map(_)))
                        .collect(),
                })
            }
            5 => {
                let fields = self.some(1, |m| (m.name(), m.type_(3)));
                Statement::CreateType(CreateType {
                    if_not_exists: flag,
                    name: self.qualified(),
                    fields,
                })
            }
            6 => {
                let change = match self.below(3) {
                    0 => TypeChange::Add {
                        if_not_exists: flag,
                        field: self.name(),
                        of: self.type_(2),
                    },
                    1 => TypeChange::Rename { if_exists: flag, pairs },
                    _ => TypeChange::Retype { field: self.name(), of: self.type_(2) },
                };
                Statement::AlterType(AlterType { if_exists, name: self.qualified(), change })
            }
            7 => Statement::Describe(Describe { what: self.described(), with_internals: flag }),
            8 => Statement::Truncate(self.qualified()),
            9 => Statement::Use(self.name()),
            _ => {
                let name = self.qualified();
                match self.below(4) {
                    0 => Statement::DropKeyspace(Drop { if_exists, name: name.name }),
                    1 => Statement::DropTable(Drop { if_exists, name }),
                    2 => Statement::DropIndex(Drop { if_exists, name }),
                    _ => Statement::DropType(Drop { if_exists, name }),
                }
            }
        }
    }

    fn described(&mut self) -> DescribedObject<'static> {
        let name = self.qualified();
        match self.below(15) {
            0 => DescribedObject::Cluster,
            1 => DescribedObject::Schema { full: self.flag() },
            2 => DescribedObject::Keyspaces,
            3 => DescribedObject::Keyspace { only: self.flag(), name: self.maybe(Self::name) },
            4 => DescribedObject::All(SchemaObject::Table),
            5 => DescribedObject::One(SchemaObject::Table, name),
            6 => DescribedObject::One(SchemaObject::Index, name),
            7 => DescribedObject::One(SchemaObject::View, name),
            8 => DescribedObject::All(SchemaObject::Type),
            9 => DescribedObject::One(SchemaObject::Type, name),
            10 => DescribedObject::All(SchemaObject::Function),
            11 => DescribedObject::One(SchemaObject::Function, name),
            12 => DescribedObject::All(SchemaObject::Aggregate),
            13 => DescribedObject::One(SchemaObject::Aggregate, name),
            _ => DescribedObject::Any(name),
        }
    }

    fn statement(&mut self) -> Statement<'static> {
        match self.below(6) {
            0 | 1 => Statement::Select(self.select()),
            2 | 3 => Statement::Change(self.change()),
            4 => {
                let kind = self.pick(&[BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]);
                let using = self.using();
                Statement::Batch(BatchStatement {
                    kind,
                    using,
                    changes: self.some(0, Self::change),
                })
            }
            _ => self.definition(),
        }
    }
}

fn term_binary(binary: Binary<Term<'static>>) -> Term<'static> {
    Term { at: AT, kind: TermKind::Binary(Box::new(binary)) }
}

fn selector_binary(binary: Binary<Selector<'static>>) -> Selector<'static> {
    Selector { at: AT, kind: SelectorKind::Binary(Box::new(binary)) }
}

/// Fragments of statements, so that random texts reach deep into the parser.
const PIECES: [&str; 46] = [
    "SELECT",
    "FROM",
    "t",
    "WHERE",
    "k",
    "=",
    "1",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    "?",
    "'x'",
    "\"Y\"",
    "-",
    "-3",
    "+",
    "*",
    "..",
    ".",
    "IN",
    "AND",
    "CREATE TABLE",
    "PRIMARY KEY",
    "int",
    "map",
    "<",
    ">",
    "INSERT INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "token",
    "DELETE",
    "BEGIN BATCH",
    "APPLY BATCH",
    ";",
    "1h",
    "0x",
    "cast",
    "AS",
    "NULL",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_printed_and_parsed_to_itself(seed: u64) {
        let mut maker = Maker::new(seed);
        let tree = maker.statement();
        let text = tree.to_string();
        let parsed = parse(&text).map_err(|e| TestCaseError::fail(format!("{text}\n{}", e.pretty())))?;
        prop_assert_eq!(&parsed.statement, &tree, "{}", text);
        prop_assert_eq!(parsed.markers, maker.markers);
        let script = format!("{text};\n{text}");
        prop_assert_eq!(Script::new(&script).map(|p| p.text()).collect::<Vec<_>>(), [&text, &text]);
    }

    #[test]
    fn bytes_do_not_panic(bytes: Vec<u8>) {
        if let Ok(parsed) = parse_bytes(&bytes) {
            let text = parsed.statement.to_string();
            prop_assert_eq!(parse(&text), Ok(parsed));
        }
    }

    #[test]
    fn pieces_do_not_panic(indexes in prop::collection::vec(0..PIECES.len(), 0..40), spaces: bool) {
        let pieces: Vec<&str> = indexes.iter().map(|&i| PIECES[i]).collect();
        let text = pieces.join(if spaces { " " } else { "" });
        match parse(&text) {
            Ok(parsed) => {
                let printed = parsed.statement.to_string();
                prop_assert_eq!(parse(&printed), Ok(parsed));
            }
            Err(error) => prop_assert!(error.offset <= text.len() && !error.pretty().is_empty()),
        }
        for piece in Script::new(&text) {
            let _ = piece.parse();
        }
    }
}
