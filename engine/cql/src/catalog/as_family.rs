//! Compact tables as column families: how the Thrift interface sees a table created `WITH COMPACT
//! STORAGE` (model 2.12).
//!
//! | table | family |
//! |---|---|
//! | `PRIMARY KEY (k)` | the other columns are defined columns, with their names in UTF-8 |
//! | `PRIMARY KEY (k, c)`, `v` | a row is a cell: `c` is its name, `v` its value |
//! | `PRIMARY KEY (k, c, d)`, `v` | the same, with a composite of `c` and `d` as the name |
//! | the last two without `v` | values have the empty type |
//!
//! A partition key of several columns is a composite key. If it is one column, the column's name is
//! the key alias. A family has fewer options than a table. If families do not support the class of
//! `WITH compaction`, the family shows the size-tiered one, and the tree uses the table's.

use firn_wide::internals::key::Layout;
use firn_wide::internals::schema::TableNumbers;
use firn_wide::{CfDef, ColumnDef, IndexType, Partitioner, Type};

use super::{TableColumn, TableSchema};

/// Returns the joint type of several columns.
fn joined(columns: &[TableColumn], of: impl Fn(&TableColumn) -> Type) -> Type {
    match columns {
        [only] => of(only),
        all => Type::Composite(all.iter().map(of).collect::<Vec<_>>().into()),
    }
}

impl TableSchema {
    /// Returns the type of the names of the cells that form its rows.
    fn comparator(&self) -> Type {
        match self.clustering() {
            [] => Type::Utf8,
            columns => joined(columns, TableColumn::layout_type),
        }
    }

    /// Returns the key layout passed to the store; for a compact table, that of a family.
    pub fn stored_layout(&self, partitioner: Partitioner) -> Layout {
        match self.is_own_family() {
            true => Layout::standard(partitioner, self.comparator()),
            false => self.layout(partitioner),
        }
    }

    /// Returns the family definition of this compact table, with its ids.
    pub fn as_family(&self) -> (CfDef, TableNumbers) {
        let key = joined(self.partition(), |c| c.of.value_type.clone());
        let value = match (self.is_counter(), self.clustering, self.regulars().next()) {
            (true, ..) => Type::Counter,
            (_, 0, _) => Type::Bytes,
            (_, _, Some(value)) => value.of.value_type.clone(),
            (_, _, None) => Type::Empty,
        };
        let mut def = CfDef {
            comparator_type: self.comparator().full_name(),
            default_validation_class: value.full_name(),
            key_validation_class: key.full_name(),
            key_alias: match self.partition() {
                [only] => Some(only.name.clone().into_bytes()),
                _ => None,
            },
            id: Some(self.id),
            ..CfDef::new(&*self.keyspace, &*self.name)
        };
        self.options.put_into(&mut def);
        let mut numbers = TableNumbers { table: self.id, ..TableNumbers::default() };
        for column in self.regulars().filter(|_| self.clustering == 0) {
            let mut known =
                ColumnDef::new(column.name.as_bytes(), column.of.value_type.full_name());
            // There is at most one.
            let index = self.indexes.iter().find(|i| i.column == column.name);
            if let Some(index) = index {
                known.index_type = Some(IndexType::Keys);
                known.index_name = Some(index.name.clone());
                known.index_options = index.options.clone();
                numbers.indexes.insert(known.name.clone(), index.id);
            }
            def.column_metadata.push(known);
        }
        (def, numbers)
    }
}
