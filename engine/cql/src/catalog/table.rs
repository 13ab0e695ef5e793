//! One table: columns, keys, indexes.

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

/// The longest partition key, and the most that the values of a row's clustering columns have
/// together, in bytes.
pub const MAX_KEY: usize = 65535;

/// A column that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The number that it had.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: ColumnType,
    /// Whether it was static.
    pub is_static: bool,
    /// When it was dropped, microseconds since 1970.
    pub dropped: i64,
}

/// The part of a column that an index is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs)]
pub enum IndexTarget {
    /// The value of a column that is no collection.
    Simple,
    Keys,
    Values,
    Entries,
    /// A frozen collection as a whole.
    Full,
}

impl IndexTarget {
    /// The word of `DESCRIBE` and of messages; none for `Simple`.
    pub fn word(self) -> &'static str {
        match self {
            IndexTarget::Simple => "",
            IndexTarget::Keys => "keys",
            IndexTarget::Values => "values",
            IndexTarget::Entries => "entries",
            IndexTarget::Full => "full",
        }
    }
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableIndex {
    /// Its number in the store.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The column.
    pub column: String,
    /// The part of the column.
    pub target: IndexTarget,
    /// The class of a custom index.
    pub class: Option<String>,
    /// The options of a custom index.
    pub options: std::collections::BTreeMap<String, String>,
}

impl TableIndex {
    /// What it is over, as statements write it: `v`, `keys(m)`.
    pub fn target_text(&self) -> String {
        let column = crate::syntax::quote_if_needed(&self.column);
        match self.target {
            IndexTarget::Simple => column.into_owned(),
            other => format!("{}({column})", other.word()),
        }
    }

    /// What of its column the store indexes. `None` when the table has no such column, or it is all
    /// of the partition key.
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
            (IndexTarget::Values, _) if matches!(column.of.of, Type::Set(_)) => IndexPart::Path,
            (IndexTarget::Values, _) => IndexPart::Element,
            (IndexTarget::Keys, _) => IndexPart::Path,
            (IndexTarget::Entries, _) => IndexPart::Entry { path: column.of.path_type()? },
        })
    }

    /// Whether the store maintains it, so that
    /// [`View::index`](firn_wide::internals::store::StoreView::index) answers. All that can be made
    /// are, custom ones too.
    pub fn is_stored(&self, table: &TableSchema) -> bool {
        self.part(table).is_some()
    }

    /// How the store is told of it.
    pub fn spec(&self, table: &TableSchema) -> Option<IndexSpec> {
        let column = table.column(&self.column)?;
        let part = self.part(table)?;
        let value = match (&part, &column.of.of) {
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

    /// What [`View::index`](firn_wide::internals::store::StoreView::index) is asked with for the
    /// rows that have this value, serialised by its type: of a column, of an element (`CONTAINS`),
    /// of a key (`CONTAINS KEY`); of an index of entries the value, and `key` is the map's key.
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
    /// Names its tree in the store; never given twice.
    pub id: u32,
    /// The identity that `DESCRIBE … WITH INTERNALS` tells.
    pub uuid: Uuid,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The options of `WITH`.
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
    /// The columns of the partition key.
    pub fn partition(&self) -> &[TableColumn] {
        &self.columns[..self.partition]
    }

    /// The clustering columns.
    pub fn clustering(&self) -> &[TableColumn] {
        &self.columns[self.partition..self.partition + self.clustering]
    }

    /// All columns in the order of `SELECT *`: partition key, clustering, static by name, regular
    /// by name.
    pub fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// Static columns, by name.
    pub fn statics(&self) -> impl Iterator<Item = &TableColumn> {
        self.columns.iter().filter(|c| c.kind == ColumnKind::Static)
    }

    /// Regular columns, by name.
    pub fn regulars(&self) -> impl Iterator<Item = &TableColumn> {
        self.columns.iter().filter(|c| c.kind == ColumnKind::Regular)
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// The column that a statement names.
    ///
    /// # Errors
    /// `Undefined column name …`.
    pub fn known_column(&self, name: &str) -> Result<&TableColumn> {
        let shown = || crate::syntax::quote_if_needed(name);
        self.column(name).ok_or_else(|| {
            invalid(format!(
                "Undefined column name {} in table {}.{}",
                shown(),
                self.keyspace,
                self.name
            ))
        })
    }

    /// The column with this number, of those that are not of the primary key.
    pub fn column_by_id(&self, id: u16) -> Option<&TableColumn> {
        self.columns[self.partition + self.clustering..].iter().find(|c| c.id == id)
    }

    /// Cells of the column with this timestamp or an older one are no more: it was dropped and
    /// added again. `None`: all are there.
    pub fn dropped_until(&self, column: &TableColumn) -> Option<i64> {
        let before = self.dropped.iter().filter(|d| !column.is_primary_key() && d.id == column.id);
        before.map(|d| d.dropped).max()
    }

    /// Columns that were dropped, one that was added again too: what was written before its drop
    /// stays away.
    pub fn dropped(&self) -> &[DroppedColumn] {
        &self.dropped
    }

    /// Its indexes, in the order in which they were made.
    pub fn indexes(&self) -> &[TableIndex] {
        &self.indexes
    }

    /// Whether its columns are counters, those that were dropped too.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(TableColumn::is_counter)
            || self.dropped.iter().any(|column| column.of.of.is_counter())
    }

    /// Whether any of its columns has a mask.
    pub fn has_masks(&self) -> bool {
        self.columns.iter().any(|c| c.mask.is_some())
    }

    /// Whether it has static columns.
    pub fn has_statics(&self) -> bool {
        self.statics().next().is_some()
    }

    /// Whether it was defined `WITH COMPACT STORAGE`: a row is there while one of its columns is.
    pub fn is_compact(&self) -> bool {
        self.compact
    }

    /// The one column that is not of the primary key, of a compact table with clustering columns.
    pub fn compact_value(&self) -> Option<&TableColumn> {
        self.regulars().next().filter(|_| self.compact && self.clustering > 0)
    }

    /// Whether an `INSERT` marks its row, which then is there though all of its columns are null.
    pub fn marks_rows(&self) -> bool {
        !self.compact || self.regulars().next().is_none()
    }

    /// What makes it a view, if it is one.
    pub fn view(&self) -> Option<&ViewSchema> {
        self.view.as_ref()
    }

    /// Whether its rows are there only while they have their marker. Others are there while any of
    /// their columns has a value, too.
    pub fn needs_markers(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.key_column.is_some())
    }

    /// The name of the table whose permissions count for this one.
    pub fn permitted_as(&self) -> &str {
        self.view.as_ref().map_or(&self.name, |view| &view.base_name)
    }

    /// The column family that it is, if the older interface made it: it has its definition there,
    /// and no record here.
    pub fn family(&self) -> Option<&Arc<Family>> {
        self.family.as_ref()
    }

    /// How its rows are the cells of a column family, if they are: those of one that the older
    /// interface made, and of a compact table.
    pub fn form(&self) -> Option<&FamilyForm> {
        self.form.as_ref()
    }

    /// Whether it is a column family, too, that is defined here.
    pub fn is_own_family(&self) -> bool {
        self.form.is_some() && self.family.is_none()
    }

    /// Whether each of its rows is one cell, so that a row goes when its cell does.
    pub fn rows_are_cells(&self) -> bool {
        self.form.as_ref().is_some_and(FamilyForm::rows_are_cells)
    }

    /// Whether clustering columns may be left out from the end of a row that is written.
    pub fn takes_prefixes(&self) -> bool {
        self.form.as_ref().is_some_and(|form| form.is_composite)
    }

    /// Whether this clustering column needs bytes in a row that is written: it was the name of a
    /// cell or super column in the families of old, or is, and names have bytes.
    pub fn is_name(&self, column: &TableColumn) -> bool {
        let is_only = self.form.as_ref().is_some_and(|form| !form.is_composite);
        is_only && column.kind == ColumnKind::Clustering
    }

    /// How its keys are made, as far as its rows.
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

    /// The end of the places of a column's cells, behind that of their row; `None`: of the row's
    /// marker.
    pub fn cell_name(&self, column: Option<&TableColumn>) -> Vec<u8> {
        match (&self.form, column) {
            (Some(form), column) => form.cell_name(column.map(|c| c.id)),
            (None, None) => vec![EMPTY, END],
            (None, Some(column)) => [&[NEXT][..], &column.raw_name(), &[END]].concat(),
        }
    }

    /// The number of the column whose cells' places end so, behind that of their row; `None`: of the
    /// row's marker. No column has the number 0.
    ///
    /// # Errors
    /// `Server` for an end that none has.
    pub fn column_at(&self, end: &[u8]) -> Result<Option<u16>> {
        match (&self.form, end) {
            (Some(form), _) if form.rows_are_cells() => Ok(self.regulars().next().map(|c| c.id)),
            (Some(form), [name @ .., END]) => Ok(Some(form.column_of(name).unwrap_or_default())),
            (None, [EMPTY, ..]) => Ok(None),
            (None, [NEXT, high, low, ..]) => Ok(Some(u16::from_be_bytes([*high, *low]))),
            _ => Err(corrupt("the name of a cell is that of no column")),
        }
    }

    /// Appends the partition key that these values make: the value itself, or of several
    /// `<2-byte length><bytes><0>` each.
    ///
    /// # Errors
    /// `Invalid` when one of several is longer than 65535 bytes.
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

    /// Refuses what can't be the key of a partition.
    ///
    /// # Errors
    /// `Invalid` when it is empty or longer than 65535 bytes.
    pub fn check_key(key: &[u8]) -> Result<()> {
        match key.len() {
            0 => Err(invalid("Key may not be empty")),
            n if n > MAX_KEY => Err(too_long(n)),
            _ => Ok(()),
        }
    }

    /// Refuses clustering values of a row that is to be written where they are too long together.
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
    invalid(format!("Key length of {n} is longer than maximum of {MAX_KEY}"))
}

/// The key of a partition, and where the values of its columns lie in it. One is used for many
/// partitions, one after the other.
#[derive(Clone, Debug, Default)]
pub struct PartitionKey {
    bytes: Vec<u8>,
    parts: Vec<Range<usize>>,
}

impl PartitionKey {
    /// Makes it the key of another partition of a table.
    ///
    /// # Errors
    /// `Server` when it can't be one of this table.
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
        // Families take any bytes for keys: what is missing is null.
        if table.family.is_none() && (at != key.len() || self.parts.len() != table.partition) {
            let text = "has other parts than the table";
            return Err(corrupt(format!(
                "a partition key of {}.{} {text}",
                table.keyspace, table.name
            )));
        }
        Ok(())
    }

    /// The whole of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of one of its columns.
    pub fn part(&self, position: usize) -> Option<&[u8]> {
        self.parts.get(position).map(|range| &self.bytes[range.clone()])
    }
}
