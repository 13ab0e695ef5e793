//! A relation of a `WHERE` clause, checked against its columns.

use std::borrow::Cow;

use firn_wide::Type;

use super::constants::ConstantTuples;
use crate::catalog::{ColumnType, TableColumn, TableIndex, TableSchema, has_duration};
use crate::error::{Result, bail, bail_if, invalid};
use crate::syntax::ast::{self, AstName, Comparison, Relation, TermKind};
use crate::values::{
    BoundTerm, BoundValue, Context, EvalEnv, HeapBytes, Receiver, heap_bytes, split,
};

/// Values for the columns of a relation.
#[derive(Clone, Debug)]
pub(super) enum Tuple {
    /// One term for each column.
    Each(Vec<BoundTerm>),
    /// A tuple bound as a whole.
    Whole(BoundTerm, Type),
}

/// Values of `IN`.
#[derive(Clone, Debug)]
pub(super) enum Choices {
    List(Vec<Tuple>),
    /// Constants only.
    Constants(ConstantTuples),
    /// All values, bound as a list of this type.
    Marker(BoundTerm, Type),
}

/// A bound of a slice, and whether it is inclusive.
pub(super) type RelationEnd = (Tuple, bool);

/// Kind of a relation.
#[derive(Clone, Debug)]
pub(super) enum RelationKind {
    Eq(Tuple),
    In(Choices),
    Slice {
        start: Option<RelationEnd>,
        end: Option<RelationEnd>,
    },
    Contains {
        values: Vec<BoundTerm>,
        keys: Vec<BoundTerm>,
        entries: Vec<(BoundTerm, BoundTerm)>,
    },
    /// Pattern of `LIKE`.
    Like(BoundTerm),
}

/// A restriction of some columns.
#[derive(Clone, Debug)]
pub(super) struct Restriction {
    /// Indexes of the columns in [`TableSchema::columns`].
    pub columns: Vec<usize>,
    /// Whether it was written as a relation on several columns.
    pub is_multi: bool,
    pub what: RelationKind,
}

/// A restriction of the token.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenRestriction {
    pub equal: Option<BoundTerm>,
    pub start: Option<(BoundTerm, bool)>,
    pub end: Option<(BoundTerm, bool)>,
}

impl HeapBytes for Tuple {
    fn heap_bytes(&self) -> usize {
        match self {
            Tuple::Each(terms) => terms.heap_bytes(),
            Tuple::Whole(term, _) => term.heap_bytes(),
        }
    }
}

impl HeapBytes for RelationKind {
    fn heap_bytes(&self) -> usize {
        match self {
            RelationKind::Eq(tuple) => tuple.heap_bytes(),
            RelationKind::In(Choices::List(list)) => list.heap_bytes(),
            RelationKind::In(Choices::Constants(all)) => all.heap_bytes(),
            RelationKind::In(Choices::Marker(term, _)) | RelationKind::Like(term) => {
                term.heap_bytes()
            }
            RelationKind::Slice { start, end } => start.heap_bytes() + end.heap_bytes(),
            RelationKind::Contains { values, keys, entries } => {
                values.heap_bytes() + keys.heap_bytes() + entries.heap_bytes()
            }
        }
    }
}

heap_bytes!(Restriction { columns, what });

heap_bytes!(TokenRestriction { equal, start, end });

impl Restriction {
    pub fn is_slice(&self) -> bool {
        matches!(self.what, RelationKind::Slice { .. })
    }

    /// Reports whether it tests parts of a value, so that it names no keys and no range of rows.
    pub fn is_contains(&self) -> bool {
        matches!(self.what, RelationKind::Contains { .. } | RelationKind::Like(_))
    }

    /// Reports whether an index that finds it leaves nothing to the filter. That is false for
    /// equality of several columns, of which one is indexed.
    pub fn is_answered_alone(&self) -> bool {
        self.columns.len() == 1 || self.is_slice()
    }

    /// Returns its last column.
    pub fn last(&self) -> usize {
        self.columns.last().copied().unwrap_or(0)
    }

    pub fn first(&self) -> usize {
        self.columns.first().copied().unwrap_or(0)
    }
}

/// Returns the value of a term for a key; refuses null and unset.
pub(super) fn needed<'v>(value: BoundValue<Cow<'v, [u8]>>, column: &str) -> Result<Cow<'v, [u8]>> {
    match value {
        BoundValue::Bytes(bytes) => Ok(bytes),
        BoundValue::Null => Err(invalid!("Invalid null value in condition for column {column}")),
        BoundValue::Unset => Err(invalid!("Invalid unset value for column {column}")),
    }
}

impl Tuple {
    /// Evaluates the values; a null value is `None`. `names` are the names of the columns.
    pub fn eval(&self, env: &EvalEnv<'_>, names: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        match self {
            Tuple::Each(terms) => {
                let each =
                    terms.iter().enumerate().map(|(i, term)| match (term.eval(env)?, names) {
                        (BoundValue::Unset, [name]) => {
                            Err(invalid!("Invalid unset value for column {name}"))
                        }
                        (BoundValue::Unset, _) => {
                            Err(invalid!("Invalid unset value for tuple field number {i}"))
                        }
                        (other, _) => Ok(other.into_bytes()),
                    });
                each.collect()
            }
            Tuple::Whole(term, of) => match term.eval(env)? {
                BoundValue::Unset => {
                    Err(invalid!("Invalid unset value for tuple ({})", names.join(",")))
                }
                BoundValue::Null => Err(invalid!("Invalid null value for ({})", names.join(", "))),
                BoundValue::Bytes(bytes) => parts_of(of, &bytes, names.len()),
            },
        }
    }
}

/// Returns the parts of a tuple, padded with nulls to `count`.
fn parts_of(of: &Type, bytes: &[u8], count: usize) -> Result<Vec<Option<Vec<u8>>>> {
    let mut parts: Vec<_> = split(of, bytes)?.into_iter().map(|p| p.map(<[u8]>::to_vec)).collect();
    parts.resize(count, None);
    Ok(parts)
}

impl Choices {
    /// Evaluates the choices; a null value is `None`.
    pub fn eval(&self, env: &EvalEnv<'_>, names: &[&str]) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        let (term, of) = match self {
            Choices::List(list) => return list.iter().map(|t| t.eval(env, names)).collect(),
            Choices::Constants(all) => {
                let owned = |tuple: Vec<&[u8]>| {
                    tuple.into_iter().map(|value| Some(value.to_vec())).collect()
                };
                return Ok(all.iter().map(owned).collect());
            }
            Choices::Marker(term, of) => (term, of),
        };
        let bytes = match term.eval(env)? {
            BoundValue::Bytes(bytes) => bytes,
            BoundValue::Null => {
                bail!("Invalid null value for column {}", names.join(", "));
            }
            BoundValue::Unset if names.len() > 1 => {
                bail!("Invalid unset value for in({})", names.join(","));
            }
            BoundValue::Unset => {
                bail!("Invalid unset value for column {}", names.join(", "));
            }
        };
        let parts = split(of, &bytes)?;
        let Type::List(element) = of else { return Ok(vec![]) };
        let each = parts.into_iter().map(|part| match part {
            Some(bytes) if matches!(**element, Type::Tuple(_)) && names.len() > 1 => {
                parts_of(element, bytes, names.len())
            }
            other => Ok(vec![other.map(<[u8]>::to_vec); names.len()]),
        });
        each.collect()
    }
}

/// A resolved relation.
pub(super) enum PreparedRelation {
    Of(Restriction),
    Token(TokenRestriction),
}

/// Context for resolving relations.
pub(super) struct RelationPreparer<'a, 'c> {
    pub table: &'a TableSchema,
    pub context: &'a mut Context<'c>,
    /// Type of tokens.
    pub token: Type,
    /// Whether the statement is a `SELECT`.
    pub is_select: bool,
}

impl RelationPreparer<'_, '_> {
    fn number(&self, name: &AstName<'_>) -> Result<usize> {
        let column = self.table.known_column(&name.text)?;
        let at = self.table.columns().iter().position(|c| std::ptr::eq(c, column));
        at.ok_or_else(|| invalid!("Undefined column name {name}"))
    }

    fn receiver(&self, column: usize) -> Receiver {
        Receiver::column(self.table, &self.table.columns()[column])
    }

    /// Checks and resolves one relation.
    pub fn relation(&mut self, relation: &Relation<'_>) -> Result<PreparedRelation> {
        let of = |column: usize, what| {
            PreparedRelation::Of(Restriction { columns: vec![column], is_multi: false, what })
        };
        let contains = |values, keys, entries| RelationKind::Contains { values, keys, entries };
        Ok(match relation {
            Relation::Compare { column, comparison, value } => {
                let at = self.number(column)?;
                self.check_column(at, comparison.sign(), false)?;
                let what = self.compare(at, *comparison, value, relation)?;
                of(at, what)
            }
            Relation::In { column, values } => {
                let at = self.number(column)?;
                of(at, self.is_in(at, values)?)
            }
            Relation::Contains { column, value } => {
                let at = self.number(column)?;
                let found = &self.table.columns()[at];
                let Some(element) = element_of(&found.of, false) else {
                    bail!("Cannot use CONTAINS on non-collection column {}", found.name);
                };
                let term = self.part("value", at, element, value)?;
                of(at, contains(vec![term], vec![], vec![]))
            }
            Relation::ContainsKey { column, key } => {
                let at = self.number(column)?;
                let found = &self.table.columns()[at];
                let Some(element) = element_of(&found.of, true) else {
                    bail!("Cannot use CONTAINS KEY on non-map column {}", found.name);
                };
                let term = self.part("key", at, element, key)?;
                of(at, contains(vec![], vec![term], vec![]))
            }
            Relation::Element { column, key, comparison, value } => {
                let at = self.number(column)?;
                let (key_type, value_type) = map_of(&self.table.columns()[at], *comparison)?;
                let key = self.part("key", at, key_type, key)?;
                let value = self.part("value", at, value_type, value)?;
                of(at, contains(vec![], vec![], vec![(key, value)]))
            }
            Relation::Like { column, pattern } => {
                let at = self.number(column)?;
                let receiver = self.receiver(at);
                let term = BoundTerm::prepare(pattern, &receiver, self.context)?;
                let column = &self.table.columns()[at];
                let knows = |i: &TableIndex| i.column == column.name && i.knows_like(column);
                bail_if!(
                    !self.is_select || !self.table.indexes().iter().any(knows),
                    "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
                );
                of(at, RelationKind::Like(term))
            }
            Relation::NotNull { column } => {
                self.number(column)?;
                bail!("Unsupported restriction: {relation}");
            }
            Relation::Token { columns, comparison, value, .. } => {
                PreparedRelation::Token(self.token(columns, *comparison, value, relation)?)
            }
            Relation::Tuple { columns, comparison, value, .. } => {
                self.tuple(columns, *comparison, value, relation)?
            }
            Relation::TupleIn { columns, values, .. } => {
                self.tuple_in(columns, values, relation)?
            }
        })
    }

    /// Refuses relations that are not applicable to a whole column.
    fn check_column(&self, at: usize, sign: &str, is_in: bool) -> Result<()> {
        let column = &self.table.columns()[at];
        let word = if is_in { "IN" } else { sign };
        match (&column.of.value_type, column.of.multicell) {
            (Type::Udt(_), true) => Err(invalid!(
                "Non-frozen UDT column '{}' ({}) cannot be restricted by any relation",
                column.name,
                column.of
            )),
            (_, true) if column.of.is_collection() => Err(invalid!(
                "Collection column '{}' ({}) cannot be restricted by a '{word}' relation",
                column.name,
                column.of
            )),
            _ => Ok(()),
        }
    }

    fn part(
        &mut self,
        word: &str,
        column: usize,
        of: Type,
        term: &ast::Term<'_>,
    ) -> Result<BoundTerm> {
        let whole = self.receiver(column);
        let name = format!("{word}({})", whole.name);
        BoundTerm::prepare(term, &whole.other(name, of), self.context)
    }

    fn compare(
        &mut self,
        at: usize,
        comparison: Comparison,
        value: &ast::Term<'_>,
        relation: &Relation<'_>,
    ) -> Result<RelationKind> {
        if comparison == Comparison::Ne {
            return Err(unsupported(relation));
        }
        if comparison != Comparison::Eq {
            refuse_durations(&self.table.columns()[at])?;
        }
        let receiver = self.receiver(at);
        let term = BoundTerm::prepare(value, &receiver, self.context)?;
        Ok(what(comparison, Tuple::Each(vec![term])))
    }

    fn is_in(&mut self, at: usize, values: &ast::InsertValues<'_>) -> Result<RelationKind> {
        self.check_column(at, "IN", true)?;
        let receiver = self.receiver(at);
        Ok(match values {
            ast::InsertValues::List(list) => {
                let mut tuples = TupleList::default();
                for term in list {
                    let term = BoundTerm::prepare(term, &receiver, self.context)?;
                    tuples.push(Tuple::Each(vec![term]));
                }
                tuples.one_or_many()
            }
            ast::InsertValues::Marker(marker) => {
                let of = Type::List(std::sync::Arc::new(receiver.of.value_type.clone()));
                let wanted = receiver.other(format!("in({})", receiver.name), of.clone());
                RelationKind::In(Choices::Marker(
                    BoundTerm::prepare(marker, &wanted, self.context)?,
                    of,
                ))
            }
        })
    }

    fn token(
        &mut self,
        columns: &[AstName<'_>],
        comparison: Comparison,
        value: &ast::Term<'_>,
        relation: &Relation<'_>,
    ) -> Result<TokenRestriction> {
        let numbers: Result<Vec<usize>> = columns.iter().map(|c| self.number(c)).collect();
        let numbers = numbers?;
        let key: Vec<usize> = (0..self.table.partition().len()).collect();
        if numbers != key {
            return Err(invalid(if !key.iter().all(|c| numbers.contains(c)) {
                "The token() function must be applied to all partition key components or none of them".to_owned()
            } else if numbers.iter().any(|c| !key.contains(c)) {
                "The token() function must contains only partition key components".to_owned()
            } else if numbers.len() > key.len() {
                "The token() function contains duplicate partition key components".to_owned()
            } else {
                let names: Vec<_> = self.table.partition().iter().map(|c| &*c.name).collect();
                format!(
                    "The token function arguments must be in the partition key order: {}",
                    names.join(", ")
                )
            }));
        }
        let wanted = self.receiver(0).other("partition key token", self.token.clone());
        let term = BoundTerm::prepare(value, &wanted, self.context)?;
        let mut found = TokenRestriction::default();
        match comparison {
            Comparison::Eq => found.equal = Some(term),
            Comparison::Gt | Comparison::Ge => {
                found.start = Some((term, comparison == Comparison::Ge))
            }
            Comparison::Lt | Comparison::Le => {
                found.end = Some((term, comparison == Comparison::Le))
            }
            Comparison::Ne => return Err(unsupported(relation)),
        }
        Ok(found)
    }

    /// Returns the columns of a relation on several columns, after checks.
    fn clustering(&self, columns: &[AstName<'_>], relation: &Relation<'_>) -> Result<Vec<usize>> {
        let mut numbers: Vec<usize> = vec![];
        let first = self.table.partition().len();
        for name in columns {
            let at = self.number(name)?;
            if !(first..first + self.table.clustering().len()).contains(&at) {
                let text = "Multi-column relations can only be applied to clustering columns but was applied to";
                bail!("{text}: {}", self.table.columns()[at].name);
            }
            if numbers.contains(&at) {
                let name = &self.table.columns()[at].name;
                bail!("Column \"{name}\" appeared twice in a relation: {relation}");
            }
            if numbers.last().is_some_and(|last| at != last + 1) {
                let text = "Clustering columns must appear in the PRIMARY KEY order in multi-column relations";
                bail!("{text}: {relation}");
            }
            numbers.push(at);
        }
        Ok(numbers)
    }

    fn tuple(
        &mut self,
        columns: &[AstName<'_>],
        comparison: Comparison,
        value: &ast::Term<'_>,
        relation: &Relation<'_>,
    ) -> Result<PreparedRelation> {
        let columns = self.clustering(columns, relation)?;
        if comparison == Comparison::Ne {
            return Err(unsupported(relation));
        }
        if comparison != Comparison::Eq {
            columns.iter().try_for_each(|c| refuse_durations(&self.table.columns()[*c]))?;
        }
        let tuple = self.values_of(&columns, value)?;
        Ok(PreparedRelation::Of(Restriction {
            columns,
            is_multi: true,
            what: what(comparison, tuple),
        }))
    }

    fn tuple_in(
        &mut self,
        columns: &[AstName<'_>],
        values: &ast::InsertValues<'_>,
        relation: &Relation<'_>,
    ) -> Result<PreparedRelation> {
        let columns = self.clustering(columns, relation)?;
        let what = match values {
            ast::InsertValues::List(list) => {
                let mut tuples = TupleList::default();
                for term in list {
                    tuples.push(self.values_of(&columns, term)?);
                }
                tuples.one_or_many()
            }
            ast::InsertValues::Marker(marker) => {
                let of = Type::List(std::sync::Arc::new(self.tuple_type(&columns)));
                let wanted = self
                    .receiver(columns[0])
                    .other(format!("in({})", self.names(&columns)), of.clone());
                RelationKind::In(Choices::Marker(
                    BoundTerm::prepare(marker, &wanted, self.context)?,
                    of,
                ))
            }
        };
        Ok(PreparedRelation::Of(Restriction { columns, is_multi: true, what }))
    }

    fn names(&self, columns: &[usize]) -> String {
        columns.iter().map(|c| &*self.table.columns()[*c].name).collect::<Vec<_>>().join(",")
    }

    fn tuple_type(&self, columns: &[usize]) -> Type {
        Type::Tuple(
            columns.iter().map(|c| self.table.columns()[*c].of.value_type.clone()).collect(),
        )
    }

    fn values_of(&mut self, columns: &[usize], value: &ast::Term<'_>) -> Result<Tuple> {
        let TermKind::Tuple(parts) = &value.kind else {
            let of = self.tuple_type(columns);
            let wanted =
                self.receiver(columns[0]).other(format!("({})", self.names(columns)), of.clone());
            return Ok(Tuple::Whole(BoundTerm::prepare(value, &wanted, self.context)?, of));
        };
        bail_if!(
            parts.len() != columns.len(),
            "Expected {} elements in value tuple, but got {}: {value}",
            columns.len(),
            parts.len()
        );
        let terms = columns.iter().zip(parts).map(|(c, part)| {
            let receiver = self.receiver(*c);
            BoundTerm::prepare(part, &receiver, self.context)
        });
        Ok(Tuple::Each(terms.collect::<Result<_>>()?))
    }
}

/// Tuples of an `IN` list. Constants are packed as they are added, which takes an eighth of the
/// memory.
#[derive(Default)]
struct TupleList {
    constants: ConstantTuples,
    /// All tuples, after one that is not constant.
    others: Vec<Tuple>,
}

fn unpacked(tuple: Vec<&[u8]>) -> Tuple {
    let owned = |value: &[u8]| BoundTerm::Constant(Some(value.to_vec()));
    Tuple::Each(tuple.into_iter().map(owned).collect())
}

impl TupleList {
    fn push(&mut self, tuple: Tuple) {
        if self.others.is_empty() {
            match &tuple {
                Tuple::Each(terms) if self.constants.push(terms) => return,
                _ => {
                    self.others = self.constants.iter().map(unpacked).collect();
                    self.constants = ConstantTuples::default();
                }
            }
        }
        self.others.push(tuple);
    }

    /// Returns the relation; `IN` with one value is the same as `=`.
    fn one_or_many(mut self) -> RelationKind {
        if let (1, [_]) = (self.others.len(), &self.others[..]) {
            return RelationKind::Eq(self.others.remove(0));
        }
        if !self.others.is_empty() {
            return RelationKind::In(Choices::List(self.others));
        }
        let only = {
            let mut all = self.constants.iter();
            all.next().map(unpacked).filter(|_| all.next().is_none())
        };
        match only {
            Some(only) => RelationKind::Eq(only),
            None => RelationKind::In(Choices::Constants(self.constants)),
        }
    }
}

fn what(comparison: Comparison, tuple: Tuple) -> RelationKind {
    match comparison {
        Comparison::Gt | Comparison::Ge => {
            RelationKind::Slice { start: Some((tuple, comparison == Comparison::Ge)), end: None }
        }
        Comparison::Lt | Comparison::Le => {
            RelationKind::Slice { start: None, end: Some((tuple, comparison == Comparison::Le)) }
        }
        Comparison::Eq | Comparison::Ne => RelationKind::Eq(tuple),
    }
}

fn unsupported(relation: &Relation<'_>) -> crate::error::Error {
    invalid!("Unsupported \"!=\" relation: {relation}")
}

fn refuse_durations(column: &TableColumn) -> Result<()> {
    let text = match &column.of.value_type {
        of if !has_duration(of) => return Ok(()),
        Type::Duration => "duration columns",
        Type::Tuple(_) => "tuples containing durations",
        Type::Udt(_) => "UDTs containing durations",
        _ => "collections containing durations",
    };
    bail!("Slice restrictions are not supported on {text}")
}

/// Returns the type of a collection's values, or of a map's keys.
fn element_of(of: &ColumnType, key: bool) -> Option<Type> {
    match &of.value_type {
        Type::Map(kv) => Some(if key { kv.0.clone() } else { kv.1.clone() }),
        Type::List(e) | Type::Set(e) if !key => Some((**e).clone()),
        _ => None,
    }
}

fn map_of(column: &TableColumn, comparison: Comparison) -> Result<(Type, Type)> {
    let name = &column.name;
    match &column.of.value_type {
        Type::List(_) => Err(invalid!(
            "Indexes on list entries ({name}[index] = value) are not currently supported."
        )),
        Type::Map(_) if !column.of.multicell => Err(invalid!(
            "Map-entry equality predicates on frozen map column {name} are not supported"
        )),
        Type::Map(_) if comparison != Comparison::Eq => {
            Err(invalid("Only EQ relations are supported on map entries"))
        }
        Type::Map(kv) => Ok((kv.0.clone(), kv.1.clone())),
        _ => Err(invalid!("Column {name} cannot be used as a map")),
    }
}
