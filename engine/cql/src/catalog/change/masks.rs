//! Masks of columns, which views take over from their bases.

use std::sync::Arc;

use crate::catalog::{Catalog, ColumnMask, TableSchema};
use crate::error::Result;

impl Catalog {
    /// These definitions, in which columns of a table have these masks, or none.
    ///
    /// # Errors
    /// `Invalid` for a keyspace that there isn't.
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
