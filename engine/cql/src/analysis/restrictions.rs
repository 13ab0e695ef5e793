//! A `WHERE` clause, prepared once (model 3.4, 3.5): which partitions, which rows in them, what else is asked.
//!
//! Invariants: `partition` and `clustering` are in the order of the key; a column is in one restriction of its part at most; the first
//! `prefix` restrictions of `clustering` say which rows to read, the others are conditions of the filter.

use std::ops::Bound as End;
use std::sync::Arc;

use firn_wide::key::{Layout, ROWS};
use firn_wide::ring::{Partitioner, Token};
use firn_wide::store::Partitions;
use firn_wide::types::Type;

use super::filter::{Condition, Filter, Test};
use super::intervals::Intervals;
use super::merge::{add, add_token};
use super::relation::{Choices, Known, Lookup, Restriction, TokenRestriction, Tuple, What, needed};
use crate::catalog::{Column, ColumnKind, Index, IndexTarget, Table};
use crate::error::{Error, Result, invalid};
use crate::syntax::ast::Relation;
use crate::values::{Bound, Context, Env, Term};

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
     If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";
/// The most keys, or rows of a partition, that the lists of a statement may name together.
const MAX_CHOICES: usize = 1 << 20;

/// What the clause is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `SELECT`, with or without `ALLOW FILTERING`.
    Select {
        /// Whether `ALLOW FILTERING` is said.
        filtering: bool,
    },
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Purpose::Select { .. } => "SELECT",
            Purpose::Update => "UPDATE",
            Purpose::Delete => "DELETE",
        }
    }
}

/// The look into an index that finds the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexUse {
    /// The index in the store.
    pub id: u32,
    /// The value that is looked for.
    pub value: Vec<u8>,
    /// Whether it finds whole partitions: it is over a column of the partition key, or a static one.
    pub finds_partitions: bool,
}

/// A prepared `WHERE` clause.
#[derive(Clone, Debug)]
pub struct Restrictions {
    table: Arc<Table>,
    purpose: Purpose,
    partition: Vec<Restriction>,
    token: Option<TokenRestriction>,
    clustering: Vec<Restriction>,
    prefix: usize,
    others: Vec<Restriction>,
    /// Whether partitions are not named one by one.
    is_range: bool,
    uses_index: bool,
    /// How many restrictions are left to the filter, as the servers count them.
    filtered: usize,
}

impl Restrictions {
    /// Checks the relations of a statement about `table`. `only_statics`: it selects or changes static columns only.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
    pub fn prepare(
        purpose: Purpose,
        only_statics: bool,
        table: &Arc<Table>,
        partitioner: Partitioner,
        relations: &[Relation<'_>],
        context: &mut Context<'_>,
    ) -> Result<Restrictions> {
        let mut all = Restrictions {
            table: table.clone(),
            purpose,
            partition: vec![],
            token: None,
            clustering: vec![],
            prefix: 0,
            others: vec![],
            is_range: false,
            uses_index: false,
            filtered: 0,
        };
        let token = match partitioner {
            Partitioner::Murmur3 => Type::Long,
            Partitioner::Random => Type::Integer,
            _ => Type::Bytes,
        };
        let mut lookup = Lookup { table, context, token };
        for relation in relations {
            match lookup.relation(relation)? {
                Known::Token(token) => add_token(table, &mut all.token, token)?,
                Known::Of(restriction) => all.add(restriction)?,
            }
        }
        all.prefix = all.leading();
        all.decide(only_statics)?;
        Ok(all)
    }

    fn add(&mut self, restriction: Restriction) -> Result<()> {
        let column = &self.table.columns()[restriction.first()];
        match column.kind {
            ColumnKind::Partition => add(&self.table, &mut self.partition, restriction),
            ColumnKind::Clustering => {
                if let Some(last) = self.clustering.last().filter(|_| !self.allows_filtering()) {
                    let before = &self.table.columns()[last.first()].name;
                    let text = "cannot be restricted (preceding column";
                    if last.is_slice() && restriction.first() > last.first() {
                        return Err(invalid(format!(
                            "Clustering column \"{}\" {text} \"{before}\" is restricted by a non-EQ relation)",
                            column.name
                        )));
                    }
                    if restriction.is_slice() && restriction.first() < last.first() {
                        let next = self.clustering.iter().map(Restriction::first).find(|c| *c > restriction.first());
                        return Err(invalid(format!(
                            "PRIMARY KEY column \"{}\" {text} \"{}\" is restricted by a non-EQ relation)",
                            self.table.columns()[next.unwrap_or(last.first())].name,
                            column.name
                        )));
                    }
                }
                add(&self.table, &mut self.clustering, restriction)
            }
            ColumnKind::Static | ColumnKind::Regular => add(&self.table, &mut self.others, restriction),
        }
    }

    fn is_select(&self) -> bool {
        matches!(self.purpose, Purpose::Select { .. })
    }

    fn allows_filtering(&self) -> bool {
        self.purpose == Purpose::Select { filtering: true }
    }

    /// How many restrictions at the start of `clustering` name a range of rows.
    fn leading(&self) -> usize {
        let mut next = self.table.partition().len();
        let mut count = 0;
        for restriction in &self.clustering {
            if restriction.is_contains() || restriction.first() != next {
                break;
            }
            count += 1;
            if restriction.is_slice() {
                break;
            }
            next = restriction.last() + 1;
        }
        count
    }

    /// Whether keys can't be made of what is said of the partition key.
    fn partition_needs_filter(&self) -> bool {
        !self.partition.is_empty()
            && (self.partition.len() < self.table.partition().len()
                || self.partition.iter().any(|r| r.is_slice() || r.is_contains()))
    }

    fn clustering_needs_filter(&self) -> bool {
        self.prefix < self.clustering.len()
    }

    /// Decides how rows are found, in the order in which the servers complain.
    fn decide(&mut self, only_statics: bool) -> Result<()> {
        let has_index = self.is_select() && self.all().any(|r| self.index_for(r).is_some());
        self.decide_partition(has_index)?;
        if self.uses_index || self.partition_needs_filter() {
            self.filtered += self.partition.len();
        }
        if only_statics && !self.clustering.is_empty() {
            let text = "Invalid restrictions on clustering columns since the";
            return Err(invalid(match self.purpose {
                Purpose::Select { .. } => "Cannot restrict clustering columns when selecting only static columns".to_owned(),
                other => format!("{text} {} statement modifies only static columns", other.word()),
            }));
        }
        self.decide_clustering(has_index, only_statics)?;
        if self.is_range && self.clustering.iter().any(|r| self.is_select() && self.index_for(r).is_some()) {
            self.uses_index = true;
        }
        if self.uses_index || self.clustering_needs_filter() {
            self.filtered += self.clustering.len();
        }
        if !self.others.is_empty() {
            if !self.is_select() {
                let names: Vec<_> = self.others.iter().map(|r| &*self.table.columns()[r.first()].name).collect();
                return Err(invalid(format!("Non PRIMARY KEY columns found in where clause: {} ", names.join(", "))));
            }
            if has_index {
                self.uses_index = true;
            } else if !self.allows_filtering() {
                return Err(invalid(NEEDS_FILTERING));
            }
            self.filtered += self.others.len();
        }
        if self.uses_index {
            if self.partition.iter().any(|r| matches!(r.what, What::In(_))) {
                return Err(invalid("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"));
            }
            if only_statics {
                return Err(invalid("Queries using 2ndary indexes don't support selecting only static columns"));
            }
        }
        Ok(())
    }

    fn decide_partition(&mut self, has_index: bool) -> Result<()> {
        let word = self.purpose.word();
        if !self.is_select() {
            if self.token.is_some() {
                return Err(invalid(format!("The token function cannot be used in WHERE clauses for {word} statements")));
            }
            let restricted = |c: usize| self.partition.iter().any(|r| r.first() == c);
            let columns = self.table.partition().iter().enumerate();
            let missing: Vec<_> = columns.filter(|(i, _)| !restricted(*i)).map(|(_, c)| &*c.name).collect();
            if !missing.is_empty() {
                return Err(invalid(format!("Some partition key parts are missing: {}", missing.join(", "))));
            }
            if self.partition.iter().any(Restriction::is_slice) {
                return Err(invalid(format!(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for {word} \
                     statements"
                )));
            }
            if self.partition.iter().any(Restriction::is_contains) {
                return Err(invalid(format!("Cannot use {word} with CONTAINS")));
            }
            return Ok(());
        }
        if self.token.is_some() && self.partition.len() < self.table.partition().len() {
            self.is_range = true;
        }
        if self.partition.is_empty() {
            self.is_range = true;
            self.uses_index = has_index;
        }
        if self.partition_needs_filter() {
            if !self.allows_filtering() && !has_index {
                return Err(invalid(NEEDS_FILTERING));
            }
            self.is_range = true;
            self.uses_index = has_index;
        }
        Ok(())
    }

    fn decide_clustering(&mut self, has_index: bool, only_statics: bool) -> Result<()> {
        if self.purpose == Purpose::Update {
            if self.clustering.iter().any(Restriction::is_slice) {
                return Err(invalid("Slice restrictions are not supported on the clustering columns in UPDATE statements"));
            }
            let restricted = |at: usize| self.clustering.iter().any(|r| r.columns.contains(&at));
            let first = self.table.partition().len();
            let columns = self.table.clustering().iter().enumerate();
            let missing: Vec<_> = columns.filter(|(i, _)| !restricted(first + i)).map(|(_, c)| &*c.name).collect();
            if !only_statics && !missing.is_empty() {
                return Err(invalid(format!("Some clustering keys are missing: {}", missing.join(", "))));
            }
            return Ok(());
        }
        if self.clustering.iter().any(Restriction::is_contains) && !has_index && !self.allows_filtering() {
            let text = "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering";
            return Err(invalid(text));
        }
        if self.clustering_needs_filter() {
            if has_index {
                self.uses_index = true;
            } else if !self.allows_filtering() {
                return Err(self.gap());
            }
        }
        Ok(())
    }

    /// Names the column that is restricted though one before it isn't.
    fn gap(&self) -> Error {
        let first = self.table.partition().len();
        let restricted = self.clustering.iter().flat_map(|r| r.columns.iter().copied());
        let found = restricted.enumerate().find(|(i, c)| *c != first + i);
        let (wanted, column) = found.map_or((first, first), |(i, c)| (first + i, c));
        let name = |c: usize| &self.table.columns()[c].name;
        invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
            name(column),
            name(wanted)
        ))
    }

    /// Refuses to pass over rows unless `ALLOW FILTERING` is said. Apart from [`prepare`](Restrictions::prepare), since the servers
    /// complain of the order and the selection first.
    ///
    /// # Errors
    /// `Cannot execute this query as it might involve data filtering …`.
    pub fn check_filtering(&self) -> Result<()> {
        let contains = |r: &Restriction| match &r.what {
            What::Contains { values, keys, entries } => values.len() + keys.len() + entries.len(),
            _ => 0,
        };
        let passes = self.filtered > 1
            || self.filtered == 0 && !self.clustering.is_empty()
            || self.filtered != 0 && self.others.iter().any(|r| contains(r) > 1);
        if !self.allows_filtering() && (self.is_range || self.uses_index) && passes {
            return Err(invalid(NEEDS_FILTERING));
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Restriction> {
        self.partition.iter().chain(&self.clustering).chain(&self.others)
    }

    /// The index that answers a restriction.
    fn index_for(&self, restriction: &Restriction) -> Option<&Index> {
        let [column] = restriction.columns[..] else { return None };
        let column = &self.table.columns()[column];
        let answers = |index: &&Index| {
            index.column == column.name
                && match (&restriction.what, index.target) {
                    (What::Eq(_), IndexTarget::Simple) => !column.of.is_collection() || !column.of.multicell,
                    (What::Eq(_), IndexTarget::Full) => true,
                    (What::Contains { values, .. }, IndexTarget::Simple | IndexTarget::Values) => !values.is_empty(),
                    (What::Contains { keys, .. }, IndexTarget::Keys) => !keys.is_empty(),
                    (What::Contains { entries, .. }, IndexTarget::Entries) => !entries.is_empty(),
                    _ => false,
                }
        };
        self.table.indexes().iter().find(answers)
    }

    /// The look into an index that finds the rows; `None` when they are found by keys or by reading all of them. What is found must
    /// still meet the rest.
    ///
    /// # Errors
    /// As [`keys`](Restrictions::keys).
    pub fn index(&self, env: &Env<'_>) -> Result<Option<IndexUse>> {
        if !self.uses_index {
            return Ok(None);
        }
        let stored = self.all().find_map(|r| Some((r, self.index_for(r).filter(|i| i.is_stored(&self.table))?)));
        let Some((restriction, index)) = stored else { return Ok(None) };
        let name = &self.table.columns()[restriction.first()].name;
        let value = |value: Bound| match value {
            Bound::Bytes(bytes) => Ok(bytes),
            _ => Err(invalid(format!("Unsupported null value for column {name}"))),
        };
        let (key, value) = match (&restriction.what, index.target) {
            (What::Eq(tuple), _) => (None, value(tuple.eval(env, &[name])?.into_iter().next().flatten().into())?),
            (What::Contains { keys, .. }, IndexTarget::Keys) => (None, value(keys[0].eval(env)?)?),
            (What::Contains { entries, .. }, IndexTarget::Entries) => {
                (Some(value(entries[0].0.eval(env)?)?), value(entries[0].1.eval(env)?)?)
            }
            (What::Contains { values, .. }, _) => (None, value(values[0].eval(env)?)?),
            (What::In(_) | What::Slice { .. }, _) => return Ok(None),
        };
        let value = index.key_for(key.as_deref(), &value).into_owned();
        let kind = self.table.columns()[restriction.first()].kind;
        let finds_partitions = matches!(kind, ColumnKind::Partition | ColumnKind::Static);
        Ok(Some(IndexUse { id: index.id, value, finds_partitions }))
    }

    /// Whether partitions are not named one by one, but a range of them, or all.
    pub fn is_key_range(&self) -> bool {
        self.is_range
    }

    /// Whether rows are found with an index.
    pub fn uses_index(&self) -> bool {
        self.uses_index
    }

    /// Whether the partition key is in an `IN` of more than one value, or of a marker.
    pub fn has_key_in(&self) -> bool {
        self.partition.iter().any(|r| matches!(r.what, What::In(_)))
    }

    /// Whether anything is said of clustering columns.
    pub fn has_clustering(&self) -> bool {
        !self.clustering.is_empty()
    }

    /// Whether anything is said of regular columns.
    pub fn has_regulars(&self) -> bool {
        self.others.iter().any(|r| self.table.columns()[r.first()].kind == ColumnKind::Regular)
    }

    /// Whether every clustering column is restricted by `=` or `IN`, so that single rows are named.
    pub fn names_rows(&self) -> bool {
        let columns: usize = self.clustering.iter().map(|r| r.columns.len()).sum();
        columns == self.table.clustering().len() && !self.clustering.iter().any(|r| r.is_slice() || r.is_contains())
    }

    /// Whether a clustering column is in an `IN`.
    pub fn has_clustering_in(&self) -> bool {
        self.clustering.iter().any(|r| matches!(r.what, What::In(_)))
    }

    /// Whether all columns of the primary key are restricted by `=`.
    pub fn is_one_row(&self) -> bool {
        self.names_rows() && !self.is_range && !self.has_key_in() && !self.has_clustering_in()
    }

    /// Whether a column of the primary key is restricted by `=`.
    pub fn is_fixed(&self, column: &Column) -> bool {
        let part = if column.kind == ColumnKind::Partition { &self.partition } else { &self.clustering };
        let is = |r: &&Restriction| r.columns.iter().any(|c| self.table.columns()[*c].name == column.name);
        part.iter().find(is).is_some_and(|r| matches!(r.what, What::Eq(_)))
    }

    /// Whether anything is said of the partition key or its token.
    pub fn has_partition(&self) -> bool {
        !self.partition.is_empty() || self.token.is_some()
    }

    /// The numbers of the static and regular columns that conditions are about.
    pub fn filtered_columns(&self) -> impl Iterator<Item = usize> {
        self.others.iter().map(Restriction::first)
    }

    /// The keys of the partitions that are named, in the order of their values, each once.
    ///
    /// # Errors
    /// `Invalid` for null, unset and wrong values.
    pub fn keys(&self, env: &Env<'_>) -> Result<Vec<Vec<u8>>> {
        let mut parts: Vec<Vec<Vec<u8>>> = vec![vec![]];
        for (restriction, column) in self.partition.iter().zip(self.table.partition()) {
            let mut choices = self.choices(restriction, env)?;
            let of = &column.of.of;
            choices.sort_by(|a, b| of.compare(&a[0], &b[0]));
            choices.dedup_by(|a, b| of.compare(&a[0], &b[0]).is_eq());
            parts = product(parts, &choices)?;
        }
        let mut keys = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut key = vec![];
            self.table.put_partition_key(part, &mut key)?;
            keys.push(key);
        }
        if let Some(range) = self.token_range(env)? {
            let mut bytes = vec![];
            keys.retain(|key| {
                bytes.clear();
                env.partitioner.put_token(key, &mut bytes).is_ok() && {
                    bytes.push(firn_wide::types::NEXT);
                    let after = match &range.from {
                        End::Included(from) => *bytes >= **from,
                        _ => true,
                    };
                    after && !matches!(&range.until, End::Excluded(until) if *bytes >= **until)
                }
            });
        }
        Ok(keys)
    }

    /// The range of partitions that is read where none are named; `None`: an empty one.
    ///
    /// # Errors
    /// As [`keys`](Restrictions::keys).
    pub fn partitions(&self, env: &Env<'_>) -> Result<Option<Partitions>> {
        let range = self.token_range(env)?.unwrap_or_else(Partitions::all);
        let empty = match (&range.from, &range.until) {
            (End::Included(from), End::Excluded(until)) => from >= until,
            _ => false,
        };
        Ok((!empty).then_some(range))
    }

    fn token_range(&self, env: &Env<'_>) -> Result<Option<Partitions>> {
        let Some(token) = &self.token else { return Ok(None) };
        let bound = |term: &Term| {
            let value = needed(term.eval(env)?, "partition key token")?;
            token_of(env.partitioner, &value)
        };
        let (start, end) = match &token.equal {
            Some(term) => {
                let token = bound(term)?;
                (Some((token.clone(), true)), Some((token, true)))
            }
            None => {
                let side = |side: &Option<(Term, bool)>| {
                    side.as_ref().map(|(term, inclusive)| Ok::<_, Error>((bound(term)?, *inclusive))).transpose()
                };
                (side(&token.start)?, side(&token.end)?)
            }
        };
        let bytes = |token: &Token, after: bool| {
            let mut out = vec![];
            env.partitioner.put_token_bound(token, after, &mut out);
            out
        };
        Ok(Some(Partitions {
            from: start.map_or(End::Unbounded, |(token, inclusive)| End::Included(bytes(&token, !inclusive))),
            // The smallest token as an end is that of the ring.
            until: match end {
                Some((token, inclusive))
                    if token != Token::Long(i64::MIN) || self.token.as_ref().is_some_and(|t| t.equal.is_some()) =>
                {
                    End::Excluded(bytes(&token, inclusive))
                }
                _ => End::Unbounded,
            },
        }))
    }

    fn names(&self, restriction: &Restriction) -> Vec<&str> {
        restriction.columns.iter().map(|c| &*self.table.columns()[*c].name).collect()
    }

    /// The values that `=` or `IN` allows, one for each column.
    fn choices(&self, restriction: &Restriction, env: &Env<'_>) -> Result<Vec<Vec<Vec<u8>>>> {
        let names = self.names(restriction);
        let tuples = match &restriction.what {
            What::Eq(tuple) => vec![tuple.eval(env, &names)?],
            What::In(choices) => choices.eval(env, &names)?,
            What::Slice { .. } | What::Contains { .. } => vec![],
        };
        let whole = |tuple: Vec<Option<Vec<u8>>>| {
            let each = tuple.into_iter().zip(&names).map(|(value, name)| needed(value.into(), name));
            each.collect::<Result<Vec<_>>>()
        };
        tuples.into_iter().map(whole).collect()
    }

    /// The clustering values of the rows that are named, in no order, perhaps some twice. Only where [`names_rows`](Restrictions::names_rows).
    ///
    /// # Errors
    /// As [`keys`](Restrictions::keys).
    pub fn rows(&self, env: &Env<'_>) -> Result<Vec<Vec<Vec<u8>>>> {
        let mut rows = vec![vec![]];
        for restriction in &self.clustering {
            rows = product(rows, &self.choices(restriction, env)?)?;
        }
        Ok(rows)
    }

    /// Which rows of a partition are asked for, as far as the clustering says it.
    ///
    /// # Errors
    /// As [`keys`](Restrictions::keys).
    pub fn intervals(&self, env: &Env<'_>, layout: &Layout) -> Result<Intervals> {
        let mut prefixes: Vec<Vec<Vec<u8>>> = vec![vec![]];
        for restriction in &self.clustering[..self.prefix] {
            if let What::Slice { start, end } = &restriction.what {
                let names = self.names(restriction);
                let side = |side: &Option<(Tuple, bool)>| {
                    side.as_ref().map(|(tuple, inclusive)| Ok::<_, Error>((tuple.eval(env, &names)?, *inclusive))).transpose()
                };
                return self.slices(layout, &prefixes, side(start)?, side(end)?);
            }
            prefixes = product(prefixes, &self.choices(restriction, env)?)?;
        }
        if self.prefix == 0 {
            return Ok(Intervals::all());
        }
        let all = prefixes.iter().map(|prefix| Ok((bound(layout, prefix, false)?, bound(layout, prefix, true)?)));
        Ok(Intervals::union(all.collect::<Result<_>>()?))
    }

    fn slices(
        &self,
        layout: &Layout,
        prefixes: &[Vec<Vec<u8>>],
        start: Option<(Vec<Option<Vec<u8>>>, bool)>,
        end: Option<(Vec<Option<Vec<u8>>>, bool)>,
    ) -> Result<Intervals> {
        let mut all = vec![];
        for prefix in prefixes {
            let whole = (bound(layout, prefix, false)?, bound(layout, prefix, true)?);
            let mut found = Intervals::union(vec![whole]);
            for (side, upper) in [(&start, false), (&end, true)] {
                if let Some((values, inclusive)) = side {
                    found = found.intersection(&self.side(layout, prefix, values, *inclusive, upper)?);
                }
            }
            all.extend(found.slices().map(|s| (s.from, s.until)));
        }
        Ok(Intervals::union(all))
    }

    /// The rows whose columns after a prefix are larger (`upper`: smaller) than these values.
    fn side(
        &self,
        layout: &Layout,
        prefix: &[Vec<u8>],
        values: &[Option<Vec<u8>>],
        inclusive: bool,
        upper: bool,
    ) -> Result<Intervals> {
        let mut all = vec![];
        let mut stem = prefix.to_vec();
        for (i, value) in values.iter().enumerate() {
            let column = &self.table.clustering()[stem.len()];
            // Whether what is wanted lies behind the value in the order of the table.
            let behind = upper == column.descending;
            let Some(value) = value else {
                // Null is before all values.
                if behind {
                    all.push((bound(layout, &stem, false)?, bound(layout, &stem, true)?));
                }
                break;
            };
            let mut place = stem.clone();
            place.push(value.clone());
            let with_equal = inclusive && i + 1 == values.len();
            all.push(if behind {
                (bound(layout, &place, !with_equal)?, bound(layout, &stem, true)?)
            } else {
                (bound(layout, &stem, false)?, bound(layout, &place, with_equal)?)
            });
            stem = place;
        }
        Ok(Intervals::union(all))
    }

    /// What keys and intervals don't say.
    ///
    /// # Errors
    /// `Invalid` for null, unset and wrong values.
    pub fn filter(&self, env: &Env<'_>) -> Result<Filter> {
        let partition = if self.is_range { &self.partition[..] } else { &[] };
        let left = partition.iter().chain(&self.clustering[self.prefix..]).chain(&self.others);
        Ok(Filter(left.map(|r| self.condition(r, env)).collect::<Result<_>>()?))
    }

    fn condition(&self, restriction: &Restriction, env: &Env<'_>) -> Result<Condition> {
        let names = self.names(restriction);
        let value = |value: Bound, name: &str| match value {
            Bound::Bytes(bytes) => Ok(bytes),
            Bound::Null => Err(invalid(format!("Unsupported null value for column {name}"))),
            Bound::Unset => Err(invalid(format!("Unsupported unset value for column {name}"))),
        };
        let tuple = |tuple: &Tuple| {
            let values = tuple.eval(env, &names)?.into_iter().zip(&names);
            values.map(|(v, name)| value(v.into(), name)).collect::<Result<Vec<_>>>()
        };
        let test = match &restriction.what {
            What::Eq(equal) => Test::In(vec![tuple(equal)?]),
            What::In(Choices::List(list)) => Test::In(list.iter().map(tuple).collect::<Result<_>>()?),
            What::In(_) => Test::In(self.choices(restriction, env)?),
            What::Slice { start, end } => {
                let side =
                    |side: &Option<(Tuple, bool)>| side.as_ref().map(|(t, i)| Ok::<_, Error>((tuple(t)?, *i))).transpose();
                Test::Range { start: side(start)?, end: side(end)? }
            }
            What::Contains { values, keys, entries } => {
                let terms = |terms: &[Term]| terms.iter().map(|t| value(t.eval(env)?, names[0])).collect::<Result<Vec<_>>>();
                let pair = |(k, v): &(Term, Term)| Ok((value(k.eval(env)?, names[0])?, value(v.eval(env)?, names[0])?));
                Test::Contains {
                    values: terms(values)?,
                    keys: terms(keys)?,
                    entries: entries.iter().map(pair).collect::<Result<_>>()?,
                }
            }
        };
        let typed = |c: &usize| (*c, self.table.columns()[*c].of.of.clone());
        Ok(Condition { columns: restriction.columns.iter().map(typed).collect(), test })
    }
}

/// Every one of `before` followed by every one of `choices`.
fn product(before: Vec<Vec<Vec<u8>>>, choices: &[Vec<Vec<u8>>]) -> Result<Vec<Vec<Vec<u8>>>> {
    if before.len().saturating_mul(choices.len()) > MAX_CHOICES {
        return Err(invalid(format!("the IN lists name more than {MAX_CHOICES} keys or rows together")));
    }
    if let [only] = choices {
        let mut before = before;
        before.iter_mut().for_each(|b| b.extend(only.iter().cloned()));
        return Ok(before);
    }
    Ok(before.iter().flat_map(|b| choices.iter().map(|c| [&b[..], &c[..]].concat())).collect())
}

/// A bound before or after the rows that begin with these values.
fn bound(layout: &Layout, values: &[Vec<u8>], after: bool) -> Result<Vec<u8>> {
    let mut out = vec![];
    if values.is_empty() {
        out.push(if after { ROWS + 1 } else { ROWS });
        return Ok(out);
    }
    let lent: Vec<&[u8]> = values.iter().map(|v| &**v).collect();
    layout.put_bound(&lent, after, &mut out)?;
    Ok(out)
}

fn token_of(partitioner: Partitioner, value: &[u8]) -> Result<Token> {
    let wrong = || invalid(format!("{} bytes are no token of {partitioner}", value.len()));
    Ok(match partitioner {
        Partitioner::Murmur3 => Token::Long(value.try_into().map(i64::from_be_bytes).map_err(|_| wrong())?),
        Partitioner::Random => {
            let number = num_bigint::BigInt::from_signed_bytes_be(value);
            Token::Big(number.try_into().map_err(|_| wrong())?)
        }
        _ => Token::Key(value.to_vec()),
    })
}
