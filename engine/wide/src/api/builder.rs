//! Idiomatic Rust interface for rows, based on the operations of [`Keyspace`].
//!
//! ```
//! use firn_wide::{CfDef, KsDef, Wide};
//! # let dir = std::env::temp_dir().join(format!("firn-doc-wide-builder-1-{}", std::process::id()));
//! let wide = Wide::open(&dir)?;
//! wide.system_add_keyspace(&KsDef::new("Bloggy"))?;
//! wide.system_add_column_family(&CfDef { comparator_type: "UTF8Type".into(), ..CfDef::new("Bloggy", "Authors") })?;
//!
//! let authors = wide.keyspace("Bloggy")?.family("Authors")?;
//! let arin = authors.row("Arin Sarkissian");
//! arin.insert("twitter", "phatduckk")?;
//! arin.insert("email", "arin@example.com")?;
//! arin.ttl(3600).insert("status", "writing")?;
//!
//! assert_eq!(arin.value::<String>("twitter")?.as_deref(), Some("phatduckk"));
//! for column in arin.slice().reversed().limit(10).columns()? {
//!     let column = column?;
//!     println!("{} = {}", column.name_as::<String>()?, column.value_as::<String>()?);
//! }
//! assert_eq!(arin.slice().count()?, 3);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use super::range::RowReader;
use super::read::ColumnReader;
use super::value::{FromBytes, ToBytes};
use super::write::refused;
use super::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, Deletion, IndexClause,
    IndexExpression, IndexOperator, KeyRange, KeySlice, Keyspace, Mutation, RowMutation,
    SlicePredicate, SliceRange, SuperColumn,
};
use crate::base::error::{Error, Result, invalid};
use crate::store::{PurgeReport, StoreView};
use crate::types::Wording;

/// A column family. Cheap to clone. Its definition is looked up at each call.
#[derive(Clone, Debug)]
pub struct ColumnFamily {
    keyspace: Keyspace,
    name: Arc<str>,
}

impl Keyspace {
    /// Returns the family with this name, for reads and writes with the idiomatic interface.
    ///
    /// # Errors
    /// `InvalidRequest` if there is none.
    pub fn family(&self, name: &str) -> Result<ColumnFamily> {
        self.table(name)?;
        Ok(ColumnFamily::new(self, name))
    }
}

impl ColumnFamily {
    pub(super) fn new(keyspace: &Keyspace, name: &str) -> ColumnFamily {
        ColumnFamily { keyspace: keyspace.clone(), name: name.into() }
    }

    /// Returns the name of the family.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the keyspace of the family.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the row with this key, whether it exists or not.
    pub fn row(&self, key: impl ToBytes) -> Row {
        Row {
            family: self.clone(),
            key: key.to_bytes().into_owned(),
            super_column: None,
            timestamp: None,
            ttl: None,
        }
    }

    /// Returns a query for all rows, in the order of the partitioner, to be narrowed.
    pub fn rows(&self) -> Rows {
        Rows {
            family: self.clone(),
            range: KeyRange { count: i32::MAX, ..KeyRange::default() },
            columns: SliceRange { count: i32::MAX, ..SliceRange::default() },
        }
    }

    /// Returns a query for rows by values of their columns, using an index.
    ///
    /// ```
    /// # use firn_wide::{CfDef, ColumnDef, KsDef, Wide};
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-builder-2-{}", std::process::id()));
    /// # let wide = Wide::open(&dir)?;
    /// # wide.system_add_keyspace(&KsDef::new("Music"))?;
    /// wide.system_add_column_family(&CfDef {
    ///     comparator_type: "UTF8Type".into(),
    ///     column_metadata: vec![ColumnDef::new("state", "UTF8Type").indexed()],
    ///     ..CfDef::new("Music", "users")
    /// })?;
    /// let users = wide.keyspace("Music")?.family("users")?;
    /// users.row("bob").insert("state", "UT")?;
    /// users.row("eve").insert("state", "TX")?;
    /// let found = users.find().eq("state", "UT").rows()?;
    /// assert_eq!(found.len(), 1);
    /// assert_eq!(found[0].key, b"bob");
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(&self) -> Find {
        Find {
            family: self.clone(),
            clause: IndexClause { count: i32::MAX, ..IndexClause::new([]) },
        }
    }

    /// Deletes all rows.
    ///
    /// # Errors
    /// Those of [`Keyspace::truncate`].
    pub fn truncate(&self) -> Result<()> {
        self.keyspace.truncate(&self.name)
    }

    /// Returns, for each of its tables, the tombstones and expired cells in it, and the reasons why
    /// they are not purged.
    ///
    /// # Errors
    /// `InvalidRequest` if it was dropped; errors of the engine.
    pub fn purge_report(&self) -> Result<PurgeReport> {
        let table = self.keyspace.table(&self.name)?;
        self.keyspace.store().purge_report(&table.cells, table.def.gc_grace())
    }

    /// Rebuilds the index on a column, which removes stale entries. Meanwhile queries of the index
    /// are refused, and writes continue.
    ///
    /// # Errors
    /// `InvalidRequest` if the column has no index; errors of the engine.
    pub fn rebuild_index(&self, column: impl ToBytes) -> Result<()> {
        let table = self.keyspace.table(&self.name)?;
        let name = column.to_bytes();
        let Some(index) = table.index(&name) else {
            let name = table.def.comparator().to_text(&name, Wording::Cli);
            return Err(invalid(format!(
                "there is no index on the column {name} of {}",
                self.name
            )));
        };
        self.keyspace.store().rebuild_index(&table.cells, index.id)
    }

    fn parent(&self) -> ColumnParent {
        ColumnParent::new(&*self.name)
    }
}

/// A row of a column family, or one of its super columns. Cheap to create: nothing is looked up
/// until it is read or written.
///
/// Writes have the timestamp of the store's clock, unless [`at`](Row::at) sets another.
#[derive(Clone, Debug)]
pub struct Row {
    family: ColumnFamily,
    key: Vec<u8>,
    super_column: Option<Vec<u8>>,
    timestamp: Option<i64>,
    ttl: Option<i32>,
}

impl Row {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns one of its super columns, whose reads and writes concern the columns in it.
    pub fn super_column(&self, name: impl ToBytes) -> Row {
        Row { super_column: Some(name.to_bytes().into_owned()), ..self.clone() }
    }

    /// Returns this row with a fixed timestamp for writes.
    pub fn at(&self, timestamp: i64) -> Row {
        Row { timestamp: Some(timestamp), ..self.clone() }
    }

    /// Returns this row with a TTL in seconds for inserts.
    pub fn ttl(&self, seconds: i32) -> Row {
        Row { ttl: Some(seconds), ..self.clone() }
    }

    fn parent(&self) -> ColumnParent {
        ColumnParent { super_column: self.super_column.clone(), ..self.family.parent() }
    }

    fn path(&self, column: Option<&dyn ToBytes>) -> ColumnPath {
        ColumnPath {
            column_family: self.family.name.to_string(),
            super_column: self.super_column.clone(),
            column: column.map(|c| c.to_bytes().into_owned()),
        }
    }

    fn timestamp(&self) -> i64 {
        self.timestamp.unwrap_or_else(|| self.family.keyspace.wide.timestamp())
    }

    fn column(&self, name: impl ToBytes, value: impl ToBytes) -> Column {
        let (name, value) = (name.to_bytes().into_owned(), value.to_bytes().into_owned());
        Column { name, value, timestamp: self.timestamp(), ttl: self.ttl }
    }

    /// Writes a column.
    ///
    /// # Errors
    /// Those of [`Keyspace::insert`].
    pub fn insert(&self, name: impl ToBytes, value: impl ToBytes) -> Result<()> {
        self.family.keyspace.insert(&self.key, &self.parent(), &self.column(name, value))
    }

    /// Adds to a counter.
    ///
    /// # Errors
    /// Those of [`Keyspace::add`].
    pub fn add(&self, name: impl ToBytes, delta: i64) -> Result<()> {
        self.family.keyspace.add(
            &self.key,
            &self.parent(),
            &CounterColumn::new(name.to_bytes(), delta),
        )
    }

    /// Returns a column; `None` if it does not exist.
    ///
    /// # Errors
    /// Those of [`Keyspace::get`], except `NotFound`.
    pub fn get(&self, name: impl ToBytes) -> Result<Option<Column>> {
        match self.find(&name)? {
            Some(ColumnOrSuperColumn::Column(c)) => Ok(Some(c)),
            _ => Ok(None),
        }
    }

    /// Returns the value of a column; `None` if it does not exist.
    ///
    /// # Errors
    /// Those of [`get`](Row::get); `InvalidRequest` if the value cannot be converted to the type.
    pub fn value<T: FromBytes>(&self, name: impl ToBytes) -> Result<Option<T>> {
        self.get(name)?.map(|c| c.value_as()).transpose()
    }

    /// Returns the value of a counter; 0 if nothing was added.
    ///
    /// # Errors
    /// Those of [`Keyspace::get`], except `NotFound`.
    pub fn counter(&self, name: impl ToBytes) -> Result<i64> {
        match self.find(&name)? {
            Some(ColumnOrSuperColumn::CounterColumn(c)) => Ok(c.value),
            _ => Ok(0),
        }
    }

    fn find(&self, name: &dyn ToBytes) -> Result<Option<ColumnOrSuperColumn>> {
        match self.family.keyspace.get(&self.key, &self.path(Some(name))) {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Deletes a column, or a counter.
    ///
    /// # Errors
    /// Those of [`Keyspace::remove`].
    pub fn delete(&self, name: impl ToBytes) -> Result<()> {
        self.remove(&self.path(Some(&name)))
    }

    /// Deletes the row, or the super column.
    ///
    /// # Errors
    /// Those of [`Keyspace::remove`].
    pub fn delete_all(&self) -> Result<()> {
        self.remove(&self.path(None))
    }

    fn remove(&self, path: &ColumnPath) -> Result<()> {
        let keyspace = &self.family.keyspace;
        if keyspace.table(&self.family.name)?.def.is_counter() {
            return keyspace.remove_counter(&self.key, path);
        }
        keyspace.remove(&self.key, path, self.timestamp())
    }

    /// Returns a slice of all columns, to be narrowed.
    pub fn slice(&self) -> Slice {
        Slice { row: self.clone(), range: SliceRange { count: i32::MAX, ..SliceRange::default() } }
    }
}

/// A slice of a row: of its columns, or of its super columns. Both bounds are inclusive.
#[derive(Clone, Debug)]
#[must_use]
pub struct Slice {
    row: Row,
    range: SliceRange,
}

impl Slice {
    /// Sets the first name, in the order of traversal.
    pub fn from(mut self, name: impl ToBytes) -> Slice {
        self.range.start = name.to_bytes().into_owned();
        self
    }

    /// Sets the last name, in the order of traversal.
    pub fn to(mut self, name: impl ToBytes) -> Slice {
        self.range.finish = name.to_bytes().into_owned();
        self
    }

    /// Reads in reverse order.
    pub fn reversed(mut self) -> Slice {
        self.range.reversed = true;
        self
    }

    /// Limits the number of columns.
    pub fn limit(mut self, count: usize) -> Slice {
        self.range.count = i32::try_from(count).unwrap_or(i32::MAX);
        self
    }

    /// Returns an iterator over the columns. It reads them lazily from one snapshot, in memory that
    /// does not grow with the row.
    ///
    /// # Errors
    /// Those of [`Keyspace::get_slice`]; `InvalidRequest` for rows of a Super family, whose columns
    /// are in super columns, and for counters.
    pub fn columns(self) -> Result<Columns> {
        let row = &self.row;
        let table = row.family.keyspace.table(&row.family.name)?;
        ColumnReader::new(row.family.keyspace.store(), table, &row.key, &row.parent(), &self.range)
            .map(Columns)
    }

    /// Returns the super columns.
    ///
    /// # Errors
    /// Those of [`Keyspace::get_slice`].
    pub fn super_columns(self) -> Result<Vec<SuperColumn>> {
        let take = |c| if let ColumnOrSuperColumn::SuperColumn(s) = c { Some(s) } else { None };
        Ok(self.read()?.into_iter().filter_map(take).collect())
    }

    /// Returns the counters.
    ///
    /// # Errors
    /// Those of [`Keyspace::get_slice`].
    pub fn counters(self) -> Result<Vec<CounterColumn>> {
        let take = |c| if let ColumnOrSuperColumn::CounterColumn(c) = c { Some(c) } else { None };
        Ok(self.read()?.into_iter().filter_map(take).collect())
    }

    /// Returns the number of columns or super columns without reading their values.
    ///
    /// # Errors
    /// Those of [`Keyspace::get_count`].
    pub fn count(self) -> Result<usize> {
        let row = &self.row;
        let n = row.family.keyspace.get_count(&row.key, &row.parent(), &self.range.into())?;
        Ok(usize::try_from(n).unwrap_or(0))
    }

    fn read(self) -> Result<Vec<ColumnOrSuperColumn>> {
        self.row.family.keyspace.get_slice(&self.row.key, &self.row.parent(), &self.range.into())
    }
}

/// Iterator over the columns of a slice. Ends after an error.
pub struct Columns(ColumnReader);

impl std::fmt::Debug for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Columns").finish_non_exhaustive()
    }
}

impl Iterator for Columns {
    type Item = Result<Column>;

    fn next(&mut self) -> Option<Result<Column>> {
        self.0.next().transpose()
    }
}

/// A query for rows of a family, and for a part of the columns of each. Ranges of keys are in the
/// order of the partitioner.
#[derive(Clone, Debug)]
#[must_use]
pub struct Rows {
    family: ColumnFamily,
    range: KeyRange,
    columns: SliceRange,
}

impl Rows {
    /// Sets the first key.
    pub fn from(mut self, key: impl ToBytes) -> Rows {
        self.range.start = super::KeyBound::Key(key.to_bytes().into_owned());
        self
    }

    /// Sets the last key, which is inclusive.
    pub fn to(mut self, key: impl ToBytes) -> Rows {
        self.range.end = super::KeyBound::Key(key.to_bytes().into_owned());
        self
    }

    /// Limits the columns (or super columns) of each row to the first `count`.
    pub fn columns(mut self, count: usize) -> Rows {
        self.columns.count = i32::try_from(count).unwrap_or(i32::MAX);
        self
    }

    /// Returns an iterator over the rows. It reads them lazily from one snapshot, which it holds
    /// until it is dropped, in memory for one row. Rows without columns are omitted.
    ///
    /// # Errors
    /// Those of [`Keyspace::get_range_slices`].
    pub fn iter(&self) -> Result<RowIter> {
        let keyspace = &self.family.keyspace;
        RowReader::new(keyspace, &self.family.parent(), &self.columns, &self.range).map(RowIter)
    }
}

/// Iterator over rows. Ends after an error.
pub struct RowIter(RowReader);

impl std::fmt::Debug for RowIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowIter").finish_non_exhaustive()
    }
}

impl Iterator for RowIter {
    type Item = Result<KeySlice>;

    fn next(&mut self) -> Option<Result<KeySlice>> {
        self.0.next().transpose()
    }
}

/// A query for rows by values of their columns. At least one equality must be on an indexed column.
#[derive(Clone, Debug)]
#[must_use]
pub struct Find {
    family: ColumnFamily,
    clause: IndexClause,
}

impl Find {
    fn and(mut self, name: &dyn ToBytes, op: IndexOperator, value: &dyn ToBytes) -> Find {
        self.clause.expressions.push(IndexExpression::new(name.to_bytes(), op, value.to_bytes()));
        self
    }

    /// Requires that the column has this value.
    pub fn eq(self, name: impl ToBytes, value: impl ToBytes) -> Find {
        self.and(&name, IndexOperator::Eq, &value)
    }

    /// Requires that the column's value is greater.
    pub fn gt(self, name: impl ToBytes, value: impl ToBytes) -> Find {
        self.and(&name, IndexOperator::Gt, &value)
    }

    /// Requires that the column's value is greater or equal.
    pub fn gte(self, name: impl ToBytes, value: impl ToBytes) -> Find {
        self.and(&name, IndexOperator::Gte, &value)
    }

    /// Requires that the column's value is less.
    pub fn lt(self, name: impl ToBytes, value: impl ToBytes) -> Find {
        self.and(&name, IndexOperator::Lt, &value)
    }

    /// Requires that the column's value is less or equal.
    pub fn lte(self, name: impl ToBytes, value: impl ToBytes) -> Find {
        self.and(&name, IndexOperator::Lte, &value)
    }

    /// Limits the number of rows.
    pub fn limit(mut self, count: usize) -> Find {
        self.clause.count = i32::try_from(count).unwrap_or(i32::MAX);
        self
    }

    /// Returns the rows with all of their columns.
    ///
    /// # Errors
    /// Those of [`Keyspace::get_indexed_slices`].
    pub fn rows(self) -> Result<Vec<KeySlice>> {
        self.family.keyspace.get_indexed_slices(
            &self.family.parent(),
            &self.clause,
            &SlicePredicate::all(),
        )
    }
}

/// An atomic batch of writes to rows of several families of a keyspace.
///
/// ```
/// # use firn_wide::{CfDef, KsDef, Wide};
/// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-builder-3-{}", std::process::id()));
/// # let wide = Wide::open(&dir)?;
/// # wide.system_add_keyspace(&KsDef::new("Bloggy"))?;
/// # wide.system_add_column_family(&CfDef::new("Bloggy", "BlogEntries"))?;
/// # wide.system_add_column_family(&CfDef::new("Bloggy", "TaggedPosts"))?;
/// let bloggy = wide.keyspace("Bloggy")?;
/// let post = bloggy.family("BlogEntries")?.row("i-got-a-new-guitar");
/// let mut batch = bloggy.batch();
/// batch.insert(&post, "title", "This is a blog entry about my new, awesome guitar");
/// for tag in ["life", "guitar", "music", "__notag__"] {
///     batch.insert(&bloggy.family("TaggedPosts")?.row(tag), 1_i64, "i-got-a-new-guitar");
/// }
/// batch.commit()?;
/// assert_eq!(bloggy.family("TaggedPosts")?.row("music").slice().count()?, 1);
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Batch {
    keyspace: Keyspace,
    timestamp: i64,
    rows: Vec<RowMutation>,
}

impl Keyspace {
    /// Creates an empty batch. Its writes have one timestamp, the current time, unless their rows
    /// set another.
    pub fn batch(&self) -> Batch {
        Batch { keyspace: self.clone(), timestamp: self.wide.timestamp(), rows: vec![] }
    }

    /// Reads and writes rows under their locks, so that no other writer interferes. The writes that
    /// `work` adds to the batch are applied when it returns; after an error none are. `work` may
    /// read anything. It must not write in other ways, and the batch may only contain rows with
    /// these keys.
    ///
    /// ```
    /// # use firn_wide::{CfDef, KsDef, Wide};
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-builder-update-{}", std::process::id()));
    /// # let wide = Wide::open(&dir)?;
    /// # wide.system_add_keyspace(&KsDef::new("Music"))?;
    /// # wide.system_add_column_family(&CfDef::new("Music", "users"))?;
    /// let music = wide.keyspace("Music")?;
    /// let bob = music.family("users")?.row("bob");
    /// let visits = music.update(&["bob"], |batch| {
    ///     let visits = bob.value::<i64>("visits")?.unwrap_or(0) + 1;
    ///     batch.insert(&bob, "visits", visits);
    ///     Ok(visits)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`; `InvalidRequest` for a row with another key; those of
    /// [`batch_mutate`](Keyspace::batch_mutate).
    pub fn update<T>(
        &self,
        keys: &[impl ToBytes],
        work: impl FnOnce(&mut Batch) -> Result<T>,
    ) -> Result<T> {
        let keys: Vec<_> = keys.iter().map(ToBytes::to_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|k| &**k).collect();
        let alone = |_: &StoreView| {
            let mut batch = self.batch();
            let result = work(&mut batch)?;
            Ok((self.mutations(&batch.rows)?, result))
        };
        self.store().update(&keys, self.wide.shared.durability, alone).map_err(refused)
    }
}

impl Batch {
    fn push(&mut self, row: &Row, mutation: Mutation) {
        match self.rows.last_mut() {
            Some(last) if last.key == row.key && last.column_family == *row.family.name => {
                last.mutations.push(mutation)
            }
            _ => self.rows.push(RowMutation::new(row.key.clone(), &*row.family.name, [mutation])),
        }
    }

    /// Adds a write of a column.
    pub fn insert(&mut self, row: &Row, name: impl ToBytes, value: impl ToBytes) -> &mut Batch {
        let column = row.at(row.timestamp.unwrap_or(self.timestamp)).column(name, value);
        let write = match &row.super_column {
            Some(s) => SuperColumn::new(s.clone(), [column]).into(),
            None => ColumnOrSuperColumn::Column(column),
        };
        self.push(row, Mutation::Write(write));
        self
    }

    /// Adds an increment of a counter.
    pub fn add(&mut self, row: &Row, name: impl ToBytes, delta: i64) -> &mut Batch {
        let column = CounterColumn::new(name.to_bytes(), delta);
        let write = match &row.super_column {
            Some(s) => super::CounterSuperColumn { name: s.clone(), columns: vec![column] }.into(),
            None => ColumnOrSuperColumn::CounterColumn(column),
        };
        self.push(row, Mutation::Write(write));
        self
    }

    /// Adds a deletion of a column or a counter.
    pub fn delete(&mut self, row: &Row, name: impl ToBytes) -> &mut Batch {
        self.push_deletion(row, Some(SlicePredicate::names([name.to_bytes()])))
    }

    /// Adds a deletion of a row or a super column.
    pub fn delete_all(&mut self, row: &Row) -> &mut Batch {
        self.push_deletion(row, None)
    }

    fn push_deletion(&mut self, row: &Row, predicate: Option<SlicePredicate>) -> &mut Batch {
        let timestamp = Some(row.timestamp.unwrap_or(self.timestamp));
        self.push(
            row,
            Deletion { timestamp, super_column: row.super_column.clone(), predicate }.into(),
        );
        self
    }

    /// Reports whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Applies the batch. Deletions win over writes of the same batch, as always at equal
    /// timestamps.
    ///
    /// # Errors
    /// Those of [`Keyspace::batch_mutate`]. Then nothing is written.
    pub fn commit(self) -> Result<()> {
        self.keyspace.batch_mutate(&self.rows)
    }
}
