//! What makes a table a column family.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_wide::internals::key::END;
use firn_wide::internals::schema::Family;

/// How the cells of a family are the rows and columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyForm {
    /// Its definition.
    pub of: Arc<Family>,
    /// Whether the names of its cells are composites, with a clustering column for each component.
    pub is_composite: bool,
    /// The names that are known, as components of keys, with the numbers of their columns. None:
    /// each cell is a row.
    names: BTreeMap<Vec<u8>, u16>,
}

impl FamilyForm {
    pub(super) fn new(
        of: Arc<Family>,
        is_composite: bool,
        names: BTreeMap<Vec<u8>, u16>,
    ) -> FamilyForm {
        FamilyForm { of, is_composite, names }
    }

    /// Whether its rows are in super columns, or are super columns.
    pub fn is_super(&self) -> bool {
        self.of.is_super()
    }

    /// Whether each cell is a row.
    pub fn rows_are_cells(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of the column of this name, a component of a key.
    pub fn column_of(&self, name: &[u8]) -> Option<u16> {
        self.names.get(name).copied()
    }

    /// The end of the places of this column's cells, behind that of their row: nothing where each
    /// cell is a row.
    pub(super) fn cell_name(&self, column: Option<u16>) -> Vec<u8> {
        let found = self.names.iter().find(|(_, id)| Some(**id) == column);
        found.map_or(vec![], |(name, _)| [&name[..], &[END]].concat())
    }
}
