//! Compact tables as column families: what the older interface sees of a table that a statement
//! made `WITH COMPACT STORAGE` (model 2.12).
//!
//! | table | family |
//! |---|---|
//! | `PRIMARY KEY (k)` | the other columns are its known ones, by their names in UTF-8 |
//! | `PRIMARY KEY (k, c)`, `v` | a row is a cell: `c` its name, `v` its value |
//! | `PRIMARY KEY (k, c, d)`, `v` | the same, the name a composite of `c` and `d` |
//! | these without `v` | the values are of the empty type |
//!
//! A partition key of several columns is a composite key. Of one column its name is the key's alias.
//! A family has fewer options than a table: `WITH compaction` of a class that families don't know
//! is told as the size-tiered one, and the tree keeps the table's.

use firn_wide::internals::key::Layout;
use firn_wide::internals::schema::TableNumbers;
use firn_wide::{CfDef, ColumnDef, IndexType, Partitioner, Type};

use super::{TableColumn, TableSchema};

/// The type of several columns together.
fn joined(columns: &[TableColumn], of: impl Fn(&TableColumn) -> Type) -> Type {
    match columns {
        [only] => of(only),
        all => Type::Composite(all.iter().map(of).collect::<Vec<_>>().into()),
    }
}

impl TableSchema {
    /// The type of the names of the cells that its rows are, or are made of.
    fn comparator(&self) -> Type {
        match self.clustering() {
            [] => Type::Utf8,
            columns => joined(columns, TableColumn::layout_type),
        }
    }

    /// How its keys are made, as the store is told: those of a compact table are a family's.
    pub fn stored_layout(&self, partitioner: Partitioner) -> Layout {
        match self.is_own_family() {
            true => Layout::standard(partitioner, self.comparator()),
            false => self.layout(partitioner),
        }
    }

    /// What the older interface sees of this compact table, with the numbers that it has.
    pub fn as_family(&self) -> (CfDef, TableNumbers) {
        let key = joined(self.partition(), |c| c.of.of.clone());
        let value = match (self.is_counter(), self.clustering, self.regulars().next()) {
            (true, ..) => Type::Counter,
            (_, 0, _) => Type::Bytes,
            (_, _, Some(value)) => value.of.of.clone(),
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
            let mut known = ColumnDef::new(column.name.as_bytes(), column.of.of.full_name());
            // There is one at most.
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
