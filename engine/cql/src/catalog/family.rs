//! Maps the cells of a column family to rows and columns of a table. The family was defined through
//! the Thrift interface, or belongs to a compact table.

use std::collections::BTreeMap;

use firn_wide::Type;
use firn_wide::internals::key::END;

use super::TableColumn;

/// Mapping of the cells of a family to rows and columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyForm {
    /// Whether rows are in super columns, or are super columns.
    pub is_super: bool,
    /// Whether the names of its cells are composites, with a clustering column for each component.
    pub is_composite: bool,
    /// Column ids of the defined cell names, encoded as key components. Empty: each cell is a row.
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

    /// Creates the form of a compact table with these other columns and this number of clustering
    /// columns.
    pub(super) fn of_compact<'c>(
        clustering: usize,
        columns: impl Iterator<Item = &'c TableColumn>,
    ) -> FamilyForm {
        let mut names = BTreeMap::new();
        for column in columns.filter(|_| clustering == 0) {
            let mut name = vec![];
            // Any text can be encoded as a component.
            if Type::Utf8.put_component(column.name.as_bytes(), &mut name).is_ok() {
                names.insert(name, column.id);
            }
        }
        FamilyForm { is_super: false, is_composite: clustering > 1, names }
    }

    /// Reports whether each cell is a row.
    pub fn rows_are_cells(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the id of the column with this name, a key component.
    pub fn column_of(&self, name: &[u8]) -> Option<u16> {
        self.names.get(name).copied()
    }

    /// Returns the part of the positions of this column's cells after the row's part. Empty if each
    /// cell is a row.
    pub(super) fn cell_name(&self, column: Option<u16>) -> Vec<u8> {
        let found = self.names.iter().find(|(_, id)| Some(**id) == column);
        found.map_or(vec![], |(name, _)| [&name[..], &[END]].concat())
    }
}
