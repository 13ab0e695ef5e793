//! A prepared `WHERE` clause (model 3.4, 3.5): restrictions of partitions, of rows, and of other
//! columns.
//!
//! Invariants:
//! - `partition` and `clustering` are in the order of the key.
//! - A column is in at most one restriction of its part.
//! - The first `prefix` restrictions of `clustering` determine the rows to read; the others are
//!   conditions of the filter.

use std::ops::Bound;
use std::sync::Arc;

use firn_wide::{Partitioner, Type};

use super::merge::{add, add_token};
use super::relation::{
    PreparedRelation, RelationKind, RelationPreparer, Restriction, TokenRestriction, Tuple,
};
use crate::catalog::{
    ColumnKind, IndexClass, IndexTarget, TableColumn, TableIndex, TableSchema, TextTest,
};
use crate::error::{Error, Result, bail, bail_if, invalid};
use crate::syntax::ast::Relation;
use crate::values::{BoundTerm, Context, heap_bytes};

const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. \
     If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// Kind of the statement with the clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `SELECT`, with or without `ALLOW FILTERING`.
    Select {
        /// Whether `ALLOW FILTERING` was given.
        filtering: bool,
        /// Index of the column of `ANN OF`.
        nearest: Option<usize>,
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

/// Lookup in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexLookup {
    /// One value.
    Equal(Vec<u8>),
    /// A range of values; for texts, those that pass the test.
    Range {
        /// Start of the range.
        from: Bound<Vec<u8>>,
        /// End of the range.
        until: Bound<Vec<u8>>,
        /// Additional test of the values.
        test: Option<TextTest>,
    },
}

/// A use of an index that finds the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexUse {
    /// Id of the index in the store.
    pub id: u32,
    /// The lookup.
    pub lookup: IndexLookup,
    /// Whether it finds whole partitions: the index is on a column of the partition key, or on a
    /// static one.
    pub finds_partitions: bool,
}

/// A prepared `WHERE` clause.
#[derive(Clone, Debug)]
pub struct Restrictions {
    pub(super) table: Arc<TableSchema>,
    purpose: Purpose,
    pub(super) partition: Vec<Restriction>,
    pub(super) token: Option<TokenRestriction>,
    pub(super) partitioner: Partitioner,
    pub(super) clustering: Vec<Restriction>,
    pub(super) prefix: usize,
    pub(super) others: Vec<Restriction>,
    /// Whether partitions are not named individually.
    pub(super) is_range: bool,
    pub(super) uses_index: bool,
    /// Number of restrictions left to the filter, as Cassandra counts them.
    filtered: usize,
    /// Whether these include restrictions of the partition key, and of clustering columns.
    filters_keys: (bool, bool),
}

heap_bytes!(Restrictions { partition, clustering, others, token });

impl Restrictions {
    /// Checks the relations of a statement on `table`. `only_statics`: it selects or changes static
    /// columns only.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn prepare(
        purpose: Purpose,
        only_statics: bool,
        table: &Arc<TableSchema>,
        relations: &[Relation<'_>],
        context: &mut Context<'_>,
    ) -> Result<Restrictions> {
        let mut all = Restrictions {
            table: table.clone(),
            purpose,
            partition: vec![],
            token: None,
            partitioner: context.partitioner,
            clustering: vec![],
            prefix: 0,
            others: vec![],
            is_range: false,
            uses_index: false,
            filtered: 0,
            filters_keys: (false, false),
        };
        let token = context.partitioner.token_type();
        let is_select = all.is_select();
        let mut lookup = RelationPreparer { table, context, token, is_select };
        for relation in relations {
            match lookup.relation(relation)? {
                PreparedRelation::Token(token) => add_token(table, &mut all.token, token)?,
                PreparedRelation::Of(restriction) => {
                    if let (RelationKind::Contains { keys, entries, .. }, false) =
                        (&restriction.what, all.is_select())
                        && entries.is_empty()
                    {
                        let word = if keys.is_empty() { "CONTAINS" } else { "CONTAINS KEY" };
                        bail!("Cannot use {} with {word}", purpose.word());
                    }
                    all.add(restriction)?;
                }
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
                let is_free = self.allows_filtering()
                    || self.is_select() && self.index_for(&restriction).is_some();
                if let Some(last) = self.clustering.last().filter(|_| !is_free) {
                    let before = &self.table.columns()[last.first()].name;
                    let text = "cannot be restricted (preceding column";
                    bail_if!(
                        last.is_slice() && restriction.first() > last.first(),
                        "Clustering column \"{}\" {text} \"{before}\" is restricted by a non-EQ relation)",
                        column.name
                    );
                    if restriction.is_slice() && restriction.first() < last.first() {
                        let next = self
                            .clustering
                            .iter()
                            .map(Restriction::first)
                            .find(|c| *c > restriction.first());
                        bail!(
                            "PRIMARY KEY column \"{}\" {text} \"{}\" is restricted by a non-EQ relation)",
                            self.table.columns()[next.unwrap_or(last.first())].name,
                            column.name
                        );
                    }
                }
                add(&self.table, &mut self.clustering, restriction)
            }
            ColumnKind::Static | ColumnKind::Regular => {
                add(&self.table, &mut self.others, restriction)
            }
        }
    }

    pub(super) fn is_select(&self) -> bool {
        matches!(self.purpose, Purpose::Select { .. })
    }

    fn allows_filtering(&self) -> bool {
        matches!(self.purpose, Purpose::Select { filtering: true, .. })
    }

    /// Returns the number of restrictions at the start of `clustering` that name a range of rows.
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

    /// Reports whether the restrictions of the partition key do not determine keys.
    fn partition_needs_filter(&self) -> bool {
        !self.partition.is_empty()
            && (self.partition.len() < self.table.partition().len()
                || self.partition.iter().any(|r| r.is_slice() || r.is_contains()))
    }

    fn clustering_needs_filter(&self) -> bool {
        self.prefix < self.clustering.len()
    }

    /// Decides how rows are found, and reports errors in Cassandra's order.
    fn decide(&mut self, only_statics: bool) -> Result<()> {
        let nearest = self.nearest();
        let has_index = nearest.is_some()
            || self.is_select() && self.all().any(|r| self.index_for(r).is_some());
        self.decide_partition(has_index)?;
        if self.uses_index || self.partition_needs_filter() {
            self.filtered += self.partition.len();
            self.filters_keys.0 = true;
        }
        if only_statics && !self.clustering.is_empty() {
            let text = "Invalid restrictions on clustering columns since the";
            return Err(invalid(match self.purpose {
                Purpose::Select { .. } => {
                    "Cannot restrict clustering columns when selecting only static columns"
                        .to_owned()
                }
                other => format!("{text} {} statement modifies only static columns", other.word()),
            }));
        }
        self.decide_clustering(has_index, only_statics)?;
        if self.is_range
            && self.clustering.iter().any(|r| self.is_select() && self.index_for(r).is_some())
        {
            self.uses_index = true;
        }
        if self.uses_index || self.clustering_needs_filter() {
            self.filtered += self.clustering.len();
            self.filters_keys.1 = true;
        }
        if !self.others.is_empty() {
            if !self.is_select() {
                let names: Vec<_> =
                    self.others.iter().map(|r| &*self.table.columns()[r.first()].name).collect();
                bail!("Non PRIMARY KEY columns found in where clause: {} ", names.join(", "));
            }
            match nearest {
                Some(_) => self.check_beside_nearest()?,
                None => self.refuse_indexed_vectors()?,
            }
            if has_index {
                self.uses_index = true;
            } else if !self.allows_filtering() {
                return Err(invalid(NEEDS_FILTERING));
            }
            self.filtered += self.others.len();
        }
        if nearest.is_some() {
            if self.others.is_empty() && !self.clustering.is_empty() {
                self.check_beside_nearest()?;
            }
            self.uses_index = true;
            self.filtered += 1;
        }
        bail_if!(
            self.uses_index && self.has_key_in(),
            "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"
        );
        Ok(())
    }

    fn decide_partition(&mut self, has_index: bool) -> Result<()> {
        let word = self.purpose.word();
        if !self.is_select() {
            if self.token.is_some() {
                bail!("The token function cannot be used in WHERE clauses for {word} statements");
            }
            let restricted = |c: usize| self.partition.iter().any(|r| r.first() == c);
            let columns = self.table.partition().iter().enumerate();
            let missing: Vec<_> =
                columns.filter(|(i, _)| !restricted(*i)).map(|(_, c)| &*c.name).collect();
            if !missing.is_empty() {
                bail!("Some partition key parts are missing: {}", missing.join(", "));
            }
            bail_if!(
                self.partition.iter().any(Restriction::is_slice),
                "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for {word} \
                     statements"
            );
            return Ok(());
        }
        if self.token.is_some() && self.partition.len() < self.table.partition().len() {
            self.is_range = true;
        }
        if self.partition.is_empty() {
            self.is_range = true;
            self.uses_index = has_index && self.token.is_none();
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
            bail_if!(
                self.clustering.iter().any(Restriction::is_slice),
                "Slice restrictions are not supported on the clustering columns in UPDATE statements"
            );
            let restricted = |at: usize| self.clustering.iter().any(|r| r.columns.contains(&at));
            let first = self.table.partition().len();
            let columns = self.table.clustering().iter().enumerate();
            let missing: Vec<_> =
                columns.filter(|(i, _)| !restricted(first + i)).map(|(_, c)| &*c.name).collect();
            if !only_statics && !missing.is_empty() && !self.takes_prefixes() {
                bail!("Some clustering keys are missing: {}", missing.join(", "));
            }
            return if self.clustering_needs_filter() { Err(self.gap()) } else { Ok(()) };
        }
        if self.clustering.iter().any(Restriction::is_contains)
            && !has_index
            && !self.allows_filtering()
        {
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

    /// Returns the error for a restricted column after an unrestricted one.
    fn gap(&self) -> Error {
        let first = self.table.partition().len();
        let restricted = self.clustering.iter().flat_map(|r| r.columns.iter().copied());
        let found = restricted.enumerate().find(|(i, c)| *c != first + i);
        let (wanted, column) = found.map_or((first, first), |(i, c)| (first + i, c));
        let name = |c: usize| &self.table.columns()[c].name;
        invalid!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
            name(column),
            name(wanted)
        )
    }

    /// Refuses filtering unless `ALLOW FILTERING` was given. It is separate from
    /// [`prepare`](Restrictions::prepare) because Cassandra reports errors of order and selection
    /// first.
    ///
    /// # Errors
    /// `Cannot execute this query as it might involve data filtering …`.
    pub fn check_filtering(&self) -> Result<()> {
        let contains = |r: &Restriction| match &r.what {
            RelationKind::Contains { values, keys, entries } => {
                values.len() + keys.len() + entries.len()
            }
            _ => 0,
        };
        let passes = self.filtered > 1
            || self.filtered == 0 && !self.clustering.is_empty()
            || self.filtered != 0 && self.others.iter().any(|r| contains(r) > 1);
        let passes = passes || self.filtered == 1 && self.uses_index && !self.is_answered();
        if !self.allows_filtering()
            && (self.is_range || self.uses_index)
            && passes
            && !self.is_served_together()
        {
            return Err(invalid(NEEDS_FILTERING));
        }
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Restriction> {
        self.partition.iter().chain(&self.clustering).chain(&self.others)
    }

    /// Returns the column of `ANN OF`.
    fn nearest(&self) -> Option<usize> {
        if let Purpose::Select { nearest, .. } = self.purpose { nearest } else { None }
    }

    /// Reports whether the statement has `ANN OF`.
    pub fn asks_nearest(&self) -> bool {
        self.nearest().is_some()
    }

    /// Refuses conditions that cannot be combined with `ANN OF`.
    fn check_beside_nearest(&self) -> Result<()> {
        let has_index = |r: &Restriction| {
            let mut columns = r.columns.iter().map(|c| &self.table.columns()[*c].name);
            columns.all(|name| self.table.indexes().iter().any(|i| i.column == *name))
        };
        let clustering = || self.clustering.iter().all(has_index);
        if self.others.iter().all(has_index)
            && (clustering() || !self.is_range && !self.clustering_needs_filter())
        {
            return Ok(());
        }
        Err(invalid("ANN ordering by vector requires all restricted column(s) to be indexed"))
    }

    /// Refuses conditions on indexed vectors: such an index finds only nearest vectors.
    fn refuse_indexed_vectors(&self) -> Result<()> {
        let is_indexed = |r: &Restriction| {
            let column = &self.table.columns()[r.first()];
            matches!(column.of.value_type, Type::Vector(..))
                && self.table.indexes().iter().any(|i| i.column == column.name)
        };
        match self.others.iter().any(is_indexed) {
            true => Err(invalid("Vector indexes only support ANN queries")),
            false => Ok(()),
        }
    }

    /// Reports whether restrictions of clustering columns are left to the filter.
    pub(super) fn filters_clustering(&self) -> bool {
        self.filters_keys.1
    }

    /// Iterates over the restrictions of clustering columns that are left to the filter: the one
    /// that an index answers, and all after it. Some of them name rows too.
    pub(super) fn filtered_clustering(&self) -> impl Iterator<Item = &Restriction> {
        let all = if self.filters_keys.1 { &self.clustering[..] } else { &[] };
        let mut next = self.table.partition().len();
        all.iter().filter(move |r| {
            let names_rows = !r.is_contains() && r.first() == next && self.index_for(r).is_none();
            if names_rows && !r.is_slice() {
                next = r.last() + 1;
            }
            !names_rows
        })
    }

    /// Iterates over the restrictions left to the filter, as Cassandra counts them.
    fn left_to_filter(&self) -> impl Iterator<Item = &Restriction> {
        let partition = if self.filters_keys.0 { &self.partition[..] } else { &[] };
        let clustering = if self.filters_keys.1 { &self.clustering[..] } else { &[] };
        partition.iter().chain(clustering).chain(&self.others)
    }

    /// Reports whether storage-attached indexes, which are queried together, answer all
    /// restrictions left to the filter.
    fn is_served_together(&self) -> bool {
        let is_served = |r: &Restriction| {
            r.is_answered_alone()
                && self.indexes_for(r).any(|i| i.answers_as() == IndexClass::StorageAttached)
        };
        self.uses_index && self.left_to_filter().all(is_served)
    }

    /// Reports whether an index answers the restrictions left to the filter, which are only one
    /// condition.
    fn is_answered(&self) -> bool {
        self.left_to_filter().all(|r| r.is_answered_alone() && self.index_for(r).is_some())
    }

    /// Returns the first index that answers a restriction.
    pub(super) fn index_for<'r>(&'r self, restriction: &'r Restriction) -> Option<&'r TableIndex> {
        self.indexes_for(restriction).next()
    }

    /// Iterates over the indexes that answer a restriction.
    pub(super) fn indexes_for<'r>(
        &'r self,
        restriction: &'r Restriction,
    ) -> impl Iterator<Item = &'r TableIndex> {
        let columns = self.table.columns();
        // For equality of several columns, an index of one column finds the rows. As in Cassandra,
        // slices of several columns are accepted too, although nothing filters by them.
        let is_answerable = restriction.columns.len() == 1
            || matches!(restriction.what, RelationKind::Eq(_) | RelationKind::Slice { .. });
        let named: &[usize] = if is_answerable { &restriction.columns } else { &[] };
        let answers = move |index: &&TableIndex| {
            let mut of = named.iter().map(|c| &columns[*c]);
            let Some(column) = of.find(|c| c.name == index.column) else { return false };
            let of_parts = index.answers_as() != IndexClass::Sasi;
            match (&restriction.what, index.target) {
                (RelationKind::Eq(_), _) => index.finds_equal(column),
                (RelationKind::Slice { .. }, _) => index.finds_ranges(column),
                (RelationKind::Like(_), _) => index.knows_like(column),
                (
                    RelationKind::Contains { values, .. },
                    IndexTarget::Simple | IndexTarget::Values,
                ) => of_parts && !values.is_empty(),
                (RelationKind::Contains { keys, .. }, IndexTarget::Keys) => !keys.is_empty(),
                (RelationKind::Contains { entries, .. }, IndexTarget::Entries) => {
                    !entries.is_empty()
                }
                _ => false,
            }
        };
        self.table.indexes().iter().filter(answers)
    }

    /// Reports whether the column with this index is restricted.
    pub fn restricts(&self, column: usize) -> bool {
        self.all().any(|r| r.columns.contains(&column))
    }

    /// Reports whether the statement reads a range of partitions, or all, instead of named ones.
    pub fn is_key_range(&self) -> bool {
        self.is_range
    }

    /// Reports whether rows are found with an index.
    pub fn uses_index(&self) -> bool {
        self.uses_index
    }

    /// Reports whether the partition key has an `IN` with more than one value, or with a marker.
    pub fn has_key_in(&self) -> bool {
        // With a token restriction, restrictions of only some key columns name no keys.
        let is_key = self.token.is_none() || self.partition.len() == self.table.partition().len();
        is_key && self.partition.iter().any(|r| matches!(r.what, RelationKind::In(_)))
    }

    /// Reports whether clustering columns are restricted.
    pub fn has_clustering(&self) -> bool {
        !self.clustering.is_empty()
    }

    /// Reports whether regular columns are restricted.
    pub fn has_regulars(&self) -> bool {
        self.others.iter().any(|r| self.table.columns()[r.first()].kind == ColumnKind::Regular)
    }

    /// Reports whether a prefix of the clustering columns names a row to be written: in a compact
    /// table, where the other columns are null.
    fn takes_prefixes(&self) -> bool {
        self.purpose == Purpose::Update
            && self.table.takes_prefixes()
            && !self.clustering.is_empty()
    }

    /// Reports whether every clustering column is restricted by `=` or `IN`, so that single rows
    /// are named.
    pub fn names_rows(&self) -> bool {
        let columns: usize = self.clustering.iter().map(|r| r.columns.len()).sum();
        (columns == self.table.clustering().len() || self.takes_prefixes())
            && !self.clustering.iter().any(|r| r.is_slice() || r.is_contains())
    }

    /// Reports whether a clustering column has an `IN`.
    pub fn has_clustering_in(&self) -> bool {
        self.clustering.iter().any(|r| matches!(r.what, RelationKind::In(_)))
    }

    /// Reports whether all columns of the primary key are restricted by `=`.
    pub fn is_one_row(&self) -> bool {
        self.names_rows() && !self.is_range && !self.has_key_in() && !self.has_clustering_in()
    }

    /// Reports whether each column of the primary key has a `=` with a constant or a marker, and
    /// nothing else is restricted.
    pub fn is_plain_row(&self) -> bool {
        let is_value =
            |term: &BoundTerm| matches!(term, BoundTerm::Constant(_) | BoundTerm::Marker(..));
        let is_plain = |r: &Restriction| match &r.what {
            RelationKind::Eq(Tuple::Each(terms)) => !r.is_multi && terms.iter().all(is_value),
            _ => false,
        };
        self.is_one_row()
            && self.token.is_none()
            && !self.uses_index
            && self.others.is_empty()
            && self.all().all(is_plain)
    }

    /// Reports whether a column of the primary key is restricted by `=`.
    pub fn is_fixed(&self, column: &TableColumn) -> bool {
        let part =
            if column.kind == ColumnKind::Partition { &self.partition } else { &self.clustering };
        let is = |r: &&Restriction| {
            r.columns.iter().any(|c| self.table.columns()[*c].name == column.name)
        };
        part.iter().find(is).is_some_and(|r| matches!(r.what, RelationKind::Eq(_)))
    }

    /// Reports whether the partition key or its token is restricted.
    pub fn has_partition(&self) -> bool {
        !self.partition.is_empty() || self.token.is_some()
    }

    /// Returns the indexes of the static and regular columns with conditions.
    pub fn filtered_columns(&self) -> impl Iterator<Item = usize> {
        self.others.iter().map(Restriction::first)
    }
}
