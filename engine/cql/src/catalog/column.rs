//! Table columns.

use std::sync::Arc;

use firn_wide::Type;

use super::{ColumnMask, ColumnType};

/// Kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ColumnKind {
    Partition,
    Clustering,
    Static,
    Regular,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Id, which names its cells; never reused for another column of the table. 0 for columns of
    /// the primary key.
    pub id: u16,
    /// Name of the column.
    pub name: String,
    /// Kind of the column.
    pub kind: ColumnKind,
    /// Position in the partition key or among the clustering columns; 0 for other columns.
    pub position: usize,
    /// Type of its values.
    pub of: ColumnType,
    /// Whether rows are in descending order of it. For clustering columns only.
    pub descending: bool,
    /// Mask for roles that may not see its values.
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
            true => Type::Reversed(Arc::new(nameless(&self.of.of))),
            false => nameless(&self.of.of),
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
        self.of.of.is_counter()
    }
}

/// Returns the type with tuples in place of user types, which have the same order and encoding:
/// field names may change while a table is open.
fn nameless(of: &Type) -> Type {
    let inner = |of: &Arc<Type>| Arc::new(nameless(of));
    match of {
        Type::List(e) => Type::List(inner(e)),
        Type::Set(e) => Type::Set(inner(e)),
        Type::Map(kv) => Type::Map(Arc::new((nameless(&kv.0), nameless(&kv.1)))),
        Type::Vector(e, count) => Type::Vector(inner(e), *count),
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(nameless).collect()),
        Type::Udt(u) => Type::Tuple(u.fields.iter().map(|(_, of)| nameless(of)).collect()),
        other => other.clone(),
    }
}
