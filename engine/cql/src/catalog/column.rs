//! Table columns.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use firn_wide::Type;

use super::{ColumnMask, ColumnType, without_user_types};

/// Kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ColumnKind {
    Partition,
    Clustering,
    Static,
    Regular,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// Id, which names its cells; never reused for another column of the table. 0 for columns of
    /// the primary key.
    pub id: u16,
    /// Name of the column.
    pub name: String,
    /// Kind of the column.
    pub kind: ColumnKind,
    /// Position in the partition key or among the clustering columns; 0 for other columns.
    #[serde(skip)]
    pub position: usize,
    /// Type of its values.
    pub of: ColumnType,
    /// Whether rows are in descending order of it. For clustering columns only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
    /// Mask for roles that may not see its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<ColumnMask>,
}

impl TableColumn {
    /// Creates a column of the primary key. Its position is set when the table's columns are
    /// sorted.
    pub(super) fn of_key(
        kind: ColumnKind,
        name: String,
        of: ColumnType,
        descending: bool,
    ) -> TableColumn {
        TableColumn { id: 0, name, kind, position: 0, of, descending, mask: None }
    }

    /// Returns the name of its cells in the store.
    pub fn raw_name(&self) -> [u8; 2] {
        self.id.to_be_bytes()
    }

    /// Returns its type in key layouts.
    pub fn layout_type(&self) -> Type {
        match self.descending {
            true => Type::Reversed(Arc::new(without_user_types(&self.of.value_type))),
            false => without_user_types(&self.of.value_type),
        }
    }

    /// Reports whether it is part of the primary key.
    pub fn is_primary_key(&self) -> bool {
        matches!(self.kind, ColumnKind::Partition | ColumnKind::Clustering)
    }

    /// Reports whether it has one value for all rows of a partition.
    pub fn is_static(&self) -> bool {
        self.kind == ColumnKind::Static
    }

    /// Reports whether it is a counter.
    pub fn is_counter(&self) -> bool {
        self.of.value_type.is_counter()
    }
}
