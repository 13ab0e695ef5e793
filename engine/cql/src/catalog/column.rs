//! Columns.

use std::sync::Arc;

use firn_wide::Type;

use super::{ColumnMask, ColumnType};

/// Which part of a row a column is in.
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
    /// The name of its cells; never given twice in a table. 0 for columns of the primary key.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Which part of a row it is in.
    pub kind: ColumnKind,
    /// Its place in its part of the primary key; 0 for the others.
    pub position: usize,
    /// Its type.
    pub of: ColumnType,
    /// Whether rows are ordered by it downwards. Only of a clustering column.
    pub descending: bool,
    /// What is shown to roles that may not see its values.
    pub mask: Option<ColumnMask>,
}

impl TableColumn {
    /// One of the primary key, whose place is given to it when the table is put in order.
    pub(super) fn of_key(
        kind: ColumnKind,
        name: String,
        of: ColumnType,
        descending: bool,
    ) -> TableColumn {
        TableColumn { id: 0, name, kind, position: 0, of, descending, mask: None }
    }

    /// The name of its cells in the store.
    pub fn raw_name(&self) -> [u8; 2] {
        self.id.to_be_bytes()
    }

    /// Its type as keys are made with it.
    pub fn layout_type(&self) -> Type {
        match self.descending {
            true => Type::Reversed(Arc::new(nameless(&self.of.of))),
            false => nameless(&self.of.of),
        }
    }

    /// Whether it is part of the primary key.
    pub fn is_primary_key(&self) -> bool {
        matches!(self.kind, ColumnKind::Partition | ColumnKind::Clustering)
    }

    /// Whether there is one value for all rows of a partition.
    pub fn is_static(&self) -> bool {
        self.kind == ColumnKind::Static
    }

    /// Whether it counts.
    pub fn is_counter(&self) -> bool {
        self.of.of.is_counter()
    }
}

/// The type with tuples for user types, which are ordered and stored as they are: names of fields
/// may change while a table is open.
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
