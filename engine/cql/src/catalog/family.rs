//! How the rows and columns of a table are the cells of a column family: of one that the older
//! interface made, and of a compact table.

use std::collections::BTreeMap;

use firn_wide::Type;
use firn_wide::internals::key::END;

use super::TableColumn;

/// How the cells of a family are the rows and columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyForm {
    /// Whether rows are in super columns, or are super columns.
    pub is_super: bool,
    /// Whether the names of its cells are composites, with a clustering column for each component.
    pub is_composite: bool,
    /// The names that are known, as components of keys, with the numbers of their columns. None:
    /// each cell is a row.
    names: BTreeMap<Vec<u8>, u16>,
}

impl FamilyForm {
    pub(super) fn new(
        is_super: bool,
        is_composite: bool,
        names: BTreeMap<Vec<u8>, u16>,
    ) -> FamilyForm {
        FamilyForm { is_super, is_composite, names }
    }

    /// That of a compact table with so many clustering columns and these other columns.
    pub(super) fn of_compact<'c>(
        clustering: usize,
        columns: impl Iterator<Item = &'c TableColumn>,
    ) -> FamilyForm {
        let mut names = BTreeMap::new();
        for column in columns.filter(|_| clustering == 0) {
            let mut name = vec![];
            // Whatever is text has a component.
            if Type::Utf8.put_component(column.name.as_bytes(), &mut name).is_ok() {
                names.insert(name, column.id);
            }
        }
        FamilyForm { is_super: false, is_composite: clustering > 1, names }
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
