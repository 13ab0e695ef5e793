//! A table: columns, keys, indexes.

use crate::syntax::text_enum;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use firn_wide::internals::key::{END, Layout};
use firn_wide::internals::schema::Family;
use firn_wide::internals::store::{IndexPart, IndexSpec};
use firn_wide::internals::types::{EMPTY, NEXT};
use firn_wide::{Partitioner, Type};
use uuid::Uuid;

use super::family::FamilyForm;
use super::view::ViewSchema;
use super::{ColumnKind, ColumnType, TableColumn, TableOptions};
use crate::error::{Error, Result, corrupt, invalid};

/// Maximum bytes of a partition key, and of all clustering values of a row together.
pub const MAX_KEY: usize = 65535;

/// A dropped column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DroppedColumn {
    /// Id of the column.
    pub id: u16,
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub of: ColumnType,
    /// Whether it was static.
    pub is_static: bool,
    /// Time of the drop, in microseconds since 1970.
    pub dropped: i64,
}

text_enum! {
    /// Indexed part of a column.
    #[derive(Serialize, Deserialize)]
    IndexTarget, word {
        /// Value of a column that is not a collection.
        Simple "",
        Keys "keys",
        Values "values",
        Entries "entries",
        /// A frozen collection as a whole.
        Full "full",
    }
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableIndex {
    /// Id of the index in the store.
    pub id: u32,
    /// Name of the index.
    pub name: String,
    /// Name of the column.
    pub column: String,
    /// Indexed part of the column.
    pub target: IndexTarget,
    /// Class of a custom index.
    pub class: Option<String>,
    /// Options of a custom index.
    pub options: std::collections::BTreeMap<String, String>,
}

impl TableIndex {
    /// Returns its target as in statements: `v`, `keys(m)`.
    pub fn target_text(&self) -> String {
        let column = crate::syntax::quote_if_needed(&self.column);
        match self.target {
            IndexTarget::Simple => column.into_owned(),
            other => format!("{}({column})", other.word()),
        }
    }

    /// Returns the part of its column that the store indexes. `None` if the table has no such
    /// column, or if the column is the whole partition key.
    pub fn part(&self, table: &TableSchema) -> Option<IndexPart> {
        let column = table.column(&self.column)?;
        Some(match (self.target, column.kind) {
            (IndexTarget::Simple | IndexTarget::Full, ColumnKind::Partition)
                if table.partition == 1 =>
            {
                return None;
            }
            (IndexTarget::Simple | IndexTarget::Full, ColumnKind::Partition) => {
                IndexPart::Partition(column.position)
            }
            (IndexTarget::Simple | IndexTarget::Full, ColumnKind::Clustering) => {
                IndexPart::Clustering(column.position)
            }
            (IndexTarget::Simple | IndexTarget::Full, _) if column.of.multicell => return None,
            (IndexTarget::Simple | IndexTarget::Full, _) => IndexPart::Value,
            (IndexTarget::Values, _) if matches!(column.of.value_type, Type::Set(_)) => {
                IndexPart::Path
            }
            (IndexTarget::Values, _) => IndexPart::Element,
            (IndexTarget::Keys, _) => IndexPart::Path,
            (IndexTarget::Entries, _) => IndexPart::Entry { path: column.of.path_type()? },
        })
    }

    /// Reports whether the store maintains it, so that it can be queried with
    /// [`View::index`](firn_wide::internals::store::StoreView::index). True for all indexes that
    /// can be created, including custom ones.
    pub fn is_stored(&self, table: &TableSchema) -> bool {
        self.part(table).is_some()
    }

    /// Returns its definition for the store.
    pub fn spec(&self, table: &TableSchema) -> Option<IndexSpec> {
        let column = table.column(&self.column)?;
        let part = self.part(table)?;
        let value = match (&part, &column.of.value_type) {
            (IndexPart::Clustering(_), _) => column.layout_type(),
            (IndexPart::Path, Type::Set(of)) | (IndexPart::Element, Type::List(of)) => {
                (**of).clone()
            }
            (IndexPart::Path, Type::Map(of)) => of.0.clone(),
            (IndexPart::Element | IndexPart::Entry { .. }, Type::Map(of)) => of.1.clone(),
            (_, of) => of.clone(),
        };
        let name = match table.form {
            Some(_) => column.name.clone().into_bytes(),
            None => column.raw_name().to_vec(),
        };
        let is_static = column.is_static();
        Some(IndexSpec { id: self.id, is_static, name, part, value })
    }

    /// Returns the key for [`View::index`](firn_wide::internals::store::StoreView::index) that
    /// finds the rows with this value. The value is serialised by its type: that of the column, of
    /// an element (`CONTAINS`) or of a key (`CONTAINS KEY`). For an index of entries, `key` is the
    /// map's key and `value` its value.
    pub fn key_for<'v>(&self, key: Option<&[u8]>, value: &'v [u8]) -> Cow<'v, [u8]> {
        let Some(key) = key.filter(|_| self.target == IndexTarget::Entries) else {
            return Cow::Borrowed(value);
        };
        let parts = [key, value].map(|p| [&(p.len() as u32).to_be_bytes()[..], p].concat());
        Cow::Owned(parts.concat())
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// Id, which names its tree in the store; never reused.
    pub id: u32,
    /// Uuid shown by `DESCRIBE … WITH INTERNALS`.
    pub uuid: Uuid,
    /// Keyspace of the table.
    pub keyspace: String,
    /// Name of the table.
    pub name: String,
    /// Options of `WITH`.
    pub options: TableOptions,
    pub(super) compact: bool,
    pub(super) columns: Vec<TableColumn>,
    pub(super) partition: usize,
    pub(super) clustering: usize,
    pub(super) next_column: u16,
    pub(super) dropped: Vec<DroppedColumn>,
    pub(super) indexes: Vec<TableIndex>,
    pub(super) view: Option<ViewSchema>,
    pub(super) family: Option<Arc<Family>>,
    pub(super) form: Option<FamilyForm>,
}

impl TableSchema {
    /// Returns the columns of the partition key.
    pub fn partition(&self) -> &[TableColumn] {
        &self.columns[..self.partition]
    }

    /// Returns the clustering columns.
    pub fn clustering(&self) -> &[TableColumn] {
        &self.columns[self.partition..self.partition + self.clustering]
    }

    /// Returns all columns in the order of `SELECT *`: partition key, clustering, static by name,
    /// regular by name.
    pub fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// Iterates over the static columns by name.
    pub fn statics(&self) -> impl Iterator<Item = &TableColumn> {
        self.columns.iter().filter(|c| c.kind == ColumnKind::Static)
    }

    /// Iterates over the regular columns by name.
    pub fn regulars(&self) -> impl Iterator<Item = &TableColumn> {
        self.columns.iter().filter(|c| c.kind == ColumnKind::Regular)
    }

    /// Returns the column with this name.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Returns the column that a statement names.
    ///
    /// # Errors
    /// `Undefined column name …`.
    pub fn known_column(&self, name: &str) -> Result<&TableColumn> {
        let shown = || crate::syntax::quote_if_needed(name);
        self.column(name).ok_or_else(|| {
            invalid!("Undefined column name {} in table {}.{}", shown(), self.keyspace, self.name)
        })
    }

    /// Returns the column with this id; never one of the primary key.
    pub fn column_by_id(&self, id: u16) -> Option<&TableColumn> {
        self.columns[self.partition + self.clustering..].iter().find(|c| c.id == id)
    }

    /// Returns the timestamp up to which cells of the column are dropped, because it was dropped
    /// and added again. `None`: none are dropped.
    pub fn dropped_until(&self, column: &TableColumn) -> Option<i64> {
        let before = self.dropped.iter().filter(|d| !column.is_primary_key() && d.id == column.id);
        before.map(|d| d.dropped).max()
    }

    /// Returns the dropped columns, including those that were added again: values written before
    /// the drop remain dropped.
    pub fn dropped(&self) -> &[DroppedColumn] {
        &self.dropped
    }

    /// Returns its indexes in the order of their creation.
    pub fn indexes(&self) -> &[TableIndex] {
        &self.indexes
    }

    /// Reports whether its columns, dropped ones included, are counters.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(TableColumn::is_counter)
            || self.dropped.iter().any(|column| column.of.value_type.is_counter())
    }

    /// Reports whether any of its columns has a mask.
    pub fn has_masks(&self) -> bool {
        self.columns.iter().any(|c| c.mask.is_some())
    }

    /// Reports whether it has static columns.
    pub fn has_statics(&self) -> bool {
        self.statics().next().is_some()
    }

    /// Reports whether it was defined `WITH COMPACT STORAGE`: a row exists while one of its columns
    /// has a value.
    pub fn is_compact(&self) -> bool {
        self.compact
    }

    /// Returns the only column outside the primary key of a compact table with clustering columns.
    pub fn compact_value(&self) -> Option<&TableColumn> {
        self.regulars().next().filter(|_| self.compact && self.clustering > 0)
    }

    /// Reports whether an `INSERT` writes a row marker, so that the row exists even if all its
    /// columns are null.
    pub fn marks_rows(&self) -> bool {
        !self.compact || self.regulars().next().is_none()
    }

    /// Returns its view definition, if it is a view.
    pub fn view(&self) -> Option<&ViewSchema> {
        self.view.as_ref()
    }

    /// Reports whether its rows exist only while they have their marker. Rows of other tables also
    /// exist while any of their columns has a value.
    pub fn needs_markers(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.key_column.is_some())
    }

    /// Returns the name of the table whose permissions apply to this one.
    pub fn permitted_as(&self) -> &str {
        self.view.as_ref().map_or(&self.name, |view| &view.base_name)
    }

    /// Returns its column family if it was created through the Thrift interface. Then its
    /// definition is there, and it has no record here.
    pub fn family(&self) -> Option<&Arc<Family>> {
        self.family.as_ref()
    }

    /// Returns the mapping of its rows to the cells of a column family: for families of the Thrift
    /// interface, and for compact tables.
    pub fn form(&self) -> Option<&FamilyForm> {
        self.form.as_ref()
    }

    /// Reports whether it is a column family that is defined by this table.
    pub fn is_own_family(&self) -> bool {
        self.form.is_some() && self.family.is_none()
    }

    /// Reports whether each of its rows is one cell, so that deleting the cell deletes the row.
    pub fn rows_are_cells(&self) -> bool {
        self.form.as_ref().is_some_and(FamilyForm::rows_are_cells)
    }

    /// Reports whether writes may omit clustering columns at the end.
    pub fn takes_prefixes(&self) -> bool {
        self.form.as_ref().is_some_and(|form| form.is_composite)
    }

    /// Reports whether this clustering column must not be empty in written rows. That holds if it
    /// is the name of a cell or super column in a column family, because such names are not empty.
    pub fn is_name(&self, column: &TableColumn) -> bool {
        let is_only = self.form.as_ref().is_some_and(|form| !form.is_composite);
        is_only && column.kind == ColumnKind::Clustering
    }

    /// Returns the key layout of its rows.
    pub fn layout(&self, partitioner: Partitioner) -> Layout {
        let clustering = self.clustering().iter().map(TableColumn::layout_type).collect();
        match &self.form {
            Some(form) if form.rows_are_cells() => {
                let before = usize::from(form.is_super);
                Layout::rows_of_cells(partitioner, clustering, before, form.is_composite)
            }
            _ => Layout::table(partitioner, clustering),
        }
    }

    /// Returns the part of the positions of a column's cells after the row's part; `None` for the
    /// row marker.
    pub fn cell_name(&self, column: Option<&TableColumn>) -> Vec<u8> {
        match (&self.form, column) {
            (Some(form), column) => form.cell_name(column.map(|c| c.id)),
            (None, None) => vec![EMPTY, END],
            (None, Some(column)) => [&[NEXT][..], &column.raw_name(), &[END]].concat(),
        }
    }

    /// Returns the id of the column whose cells have this position part after the row's part;
    /// `None` for the row marker. No column has the id 0.
    ///
    /// # Errors
    /// `Server` for an unknown part.
    pub fn column_at(&self, end: &[u8]) -> Result<Option<u16>> {
        match (&self.form, end) {
            (Some(form), _) if form.rows_are_cells() => Ok(self.regulars().next().map(|c| c.id)),
            (Some(form), [name @ .., END]) => Ok(Some(form.column_of(name).unwrap_or_default())),
            (None, [EMPTY, ..]) => Ok(None),
            (None, [NEXT, high, low, ..]) => Ok(Some(u16::from_be_bytes([*high, *low]))),
            _ => Err(corrupt("the name of a cell is that of no column")),
        }
    }

    /// Appends the partition key of these values: a single value unchanged, several as `<2-byte
    /// length><bytes><0>` each.
    ///
    /// # Errors
    /// `Invalid` if one of several is longer than 65535 bytes.
    pub fn put_partition_key(&self, parts: &[impl AsRef<[u8]>], out: &mut Vec<u8>) -> Result<()> {
        match parts {
            [only] => out.extend_from_slice(only.as_ref()),
            _ => {
                for part in parts {
                    let part = part.as_ref();
                    let len = u16::try_from(part.len()).map_err(|_| too_long(part.len()))?;
                    out.extend_from_slice(&len.to_be_bytes());
                    out.extend_from_slice(part);
                    out.push(0);
                }
            }
        }
        Ok(())
    }

    /// Checks the length of a partition key.
    ///
    /// # Errors
    /// `Invalid` if it is empty or longer than 65535 bytes.
    pub fn check_key(key: &[u8]) -> Result<()> {
        match key.len() {
            0 => Err(invalid("Key may not be empty")),
            n if n > MAX_KEY => Err(too_long(n)),
            _ => Ok(()),
        }
    }

    /// Checks the total length of the clustering values of a row to be written.
    ///
    /// # Errors
    /// `Invalid` for more than 65535 bytes.
    pub fn check_clustering(values: &[impl AsRef<[u8]>]) -> Result<()> {
        match values.iter().map(|v| v.as_ref().len()).sum() {
            n if n > MAX_KEY => Err(too_long(n)),
            _ => Ok(()),
        }
    }
}

fn too_long(n: usize) -> Error {
    invalid!("Key length of {n} is longer than maximum of {MAX_KEY}")
}

/// A partition key, with the ranges of its column values. It is reused for many partitions in turn.
#[derive(Clone, Debug, Default)]
pub struct PartitionKey {
    bytes: Vec<u8>,
    parts: Vec<Range<usize>>,
}

impl PartitionKey {
    /// Sets the key to that of another partition of a table.
    ///
    /// # Errors
    /// `Server` if it is not a valid key of this table.
    pub fn set(&mut self, table: &TableSchema, key: &[u8]) -> Result<()> {
        self.bytes.clear();
        self.bytes.extend_from_slice(key);
        self.parts.clear();
        if table.partition == 1 {
            self.parts.push(0..key.len());
            return Ok(());
        }
        let mut at = 0;
        while let Some((len, after)) = key[at..].split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len));
            if after.get(len) != Some(&0) {
                break;
            }
            self.parts.push(at + 2..at + 2 + len);
            at += len + 3;
        }
        // Families accept any bytes as keys: missing components are null.
        if table.family.is_none() && (at != key.len() || self.parts.len() != table.partition) {
            let text = "does not match the table's key columns";
            return Err(corrupt!("a partition key of {}.{} {text}", table.keyspace, table.name));
        }
        Ok(())
    }

    /// Returns the whole key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the value of one of its columns.
    pub fn part(&self, position: usize) -> Option<&[u8]> {
        self.parts.get(position).map(|range| &self.bytes[range.clone()])
    }
}
