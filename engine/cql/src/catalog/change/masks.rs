//! Column masks, which views inherit from their base tables.

use std::sync::Arc;

use crate::catalog::{Catalog, ColumnMask, TableSchema};
use crate::error::Result;

impl Catalog {
    /// Returns these definitions with the masks of columns of a table set or removed.
    ///
    /// # Errors
    /// `Invalid` for an unknown keyspace.
    pub fn with_masks(
        &self,
        table: &TableSchema,
        masks: &[(String, Option<ColumnMask>)],
    ) -> Result<Catalog> {
        let mut home = (**self.existing(&table.keyspace)?).clone();
        let is_of = |t: &TableSchema| {
            t.id == table.id || t.view().is_some_and(|view| view.base == table.id)
        };
        for table in home.tables.values_mut().filter(|t| is_of(t)) {
            let columns = Arc::make_mut(table).columns.iter_mut();
            for column in columns {
                if let Some((_, mask)) = masks.iter().find(|(name, _)| *name == column.name) {
                    column.mask.clone_from(mask);
                }
            }
        }
        Ok(self.with_keyspace(home))
    }
}
