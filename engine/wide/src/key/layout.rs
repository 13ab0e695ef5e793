//! The key layout of a family: its partitioner, and the types of its clustering components and
//! names. It converts between client values and positions.

use crate::base::error::{Error, Result, invalid};
use crate::ring::Partitioner;
use crate::types::escape::{put_escaped, unescape};
use crate::types::{EMPTY, NEXT, NULL, Type};

use super::{AFTER, BEFORE, DELETION, END, ROWS, STATIC, partition_len};

/// Form of the names of cells.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyNameList {
    /// Values of a type: columns of a Standard family, subcolumns of a Super family.
    Typed(Type),
    /// Column ids of a table, two bytes; the empty name is the row marker. Cells may have a path.
    Columns,
    /// No names: each cell of a Standard or Super family is a row. The last clustering components
    /// form the cell's name.
    Rows {
        /// Number of clustering components before the name: that of the super column.
        before: usize,
        /// Whether the name is a composite, whose components are the rest; otherwise the rest is
        /// one.
        composite: bool,
    },
}

/// Encodes and decodes the keys of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    partitioner: Partitioner,
    clustering: Vec<Type>,
    names: KeyNameList,
}

/// Parts of a cell's position, as encoded components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlace<'a> {
    /// Whether it is a static cell.
    pub is_static: bool,
    /// Components of the row; empty in a Standard family and for static cells.
    pub row: &'a [u8],
    /// Component of the name.
    pub name: &'a [u8],
    /// Component of the path, for an element of a complex column.
    pub path: Option<&'a [u8]>,
}

/// Appends the value of a component; returns `None` if it is malformed.
#[inline]
fn take(t: &Type, component: &[u8], out: &mut Vec<u8>) -> Option<()> {
    t.whole_component(component, out).ok().map(|_| ())
}

impl KeyPlace<'_> {
    /// Appends the encoded position.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(if self.is_static { STATIC } else { ROWS });
        out.extend_from_slice(self.row);
        if !self.is_static {
            out.push(END);
        }
        for part in [Some(self.name), self.path].into_iter().flatten().filter(|c| !c.is_empty()) {
            out.extend_from_slice(part);
            out.push(END);
        }
    }
}

#[cold]
fn damaged(what: &str, bytes: &[u8]) -> Error {
    let head = &bytes[..bytes.len().min(64)];
    Error::Corrupt(format!("a key whose {what} can't be read: \"{}\"", head.escape_ascii()))
}

impl Layout {
    /// Creates the layout of a Standard family.
    pub fn standard(partitioner: Partitioner, comparator: Type) -> Layout {
        Layout { partitioner, clustering: vec![], names: KeyNameList::Typed(comparator) }
    }

    /// Creates the layout of a Super family: the super column is the row.
    pub fn super_columns(
        partitioner: Partitioner,
        comparator: Type,
        subcomparator: Type,
    ) -> Layout {
        Layout {
            partitioner,
            clustering: vec![comparator],
            names: KeyNameList::Typed(subcomparator),
        }
    }

    /// Creates the layout of a table with these clustering columns.
    pub fn table(partitioner: Partitioner, clustering: Vec<Type>) -> Layout {
        Layout { partitioner, clustering, names: KeyNameList::Columns }
    }

    /// Creates the layout of a family whose cells are seen as rows. The first `before` clustering
    /// components are the super column's name. The rest are the components of the cell's name if it
    /// is a composite; otherwise the rest is one, the name.
    pub fn rows_of_cells(
        partitioner: Partitioner,
        clustering: Vec<Type>,
        before: usize,
        composite: bool,
    ) -> Layout {
        Layout { partitioner, clustering, names: KeyNameList::Rows { before, composite } }
    }

    /// Reports whether it encodes and decodes all keys of `before` identically: the types of its
    /// components [extend](Type::extends) those of `before`.
    pub fn extends(&self, before: &Layout) -> bool {
        let components = self.clustering.iter().zip(&before.clustering);
        let names = match (&self.names, &before.names) {
            (KeyNameList::Typed(of), KeyNameList::Typed(then)) => of.extends(then),
            (now, then) => now == then,
        };
        names
            && self.partitioner == before.partitioner
            && self.clustering.len() == before.clustering.len()
            && components.into_iter().all(|(of, then)| of.extends(then))
    }

    /// Returns the partitioner.
    pub fn partitioner(&self) -> Partitioner {
        self.partitioner
    }

    /// Returns the types of the clustering components.
    pub fn clustering(&self) -> &[Type] {
        &self.clustering
    }

    /// Returns the form of names.
    pub fn names(&self) -> &KeyNameList {
        &self.names
    }

    /// Reports whether it is the layout of a Standard or Super family, whose cell names have a
    /// type.
    #[inline]
    pub fn has_typed_names(&self) -> bool {
        matches!(self.names, KeyNameList::Typed(_))
    }

    /// Returns the bytes of a token.
    #[inline]
    pub fn token_len(&self) -> usize {
        self.partitioner.token_len()
    }

    /// Appends the partition part of `key`.
    ///
    /// # Errors
    /// `InvalidRequest` for an empty key, or one that the partitioner refuses.
    #[inline]
    pub fn put_partition(&self, key: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if key.is_empty() {
            return Err(invalid("Key may not be empty"));
        }
        self.partitioner.put_token(key, out)?;
        out.push(NEXT);
        put_escaped(key, out);
        Ok(())
    }

    /// Appends the key of a partition part.
    ///
    /// # Errors
    /// `Corrupt` if it is malformed.
    pub fn key_of(&self, partition: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let escaped = partition.get(self.token_len() + 1..).unwrap_or_default();
        if unescape(escaped, out) { Ok(()) } else { Err(damaged("partition", partition)) }
    }

    /// Returns the length of the partition part at the start of `key`.
    ///
    /// # Errors
    /// `Corrupt` if there is none.
    #[inline]
    pub fn partition_len(&self, key: &[u8]) -> Result<usize> {
        partition_len(key, self.token_len()).ok_or_else(|| damaged("partition", key))
    }

    /// Appends the position of a row, which is a prefix of all positions in it. Values omitted at
    /// its end are null. In a Standard family it is the prefix of all cells.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid value, and for a row that is a cell without a name.
    pub fn put_row(&self, clustering: &[impl AsRef<[u8]>], out: &mut Vec<u8>) -> Result<()> {
        self.put_clustering(clustering, out)?;
        match self.names {
            KeyNameList::Rows { before, .. } if clustering.len() <= before => {
                return Err(invalid("the name of a column is missing"));
            }
            // Components omitted at the end of a composite are not encoded.
            KeyNameList::Rows { composite, .. } => out.extend(composite.then_some(END)),
            _ => {
                let missing = self.clustering.len().saturating_sub(clustering.len());
                out.resize(out.len() + missing, NULL);
            }
        }
        out.push(END);
        Ok(())
    }

    fn put_clustering(&self, clustering: &[impl AsRef<[u8]>], out: &mut Vec<u8>) -> Result<()> {
        out.push(ROWS);
        for (number, (t, raw)) in self.clustering.iter().zip(clustering).enumerate() {
            out.extend_from_slice(self.before_clustering(number));
            t.put_component(raw.as_ref(), out)?;
        }
        Ok(())
    }

    /// Returns the separator bytes before this clustering component.
    #[inline]
    fn before_clustering(&self, number: usize) -> &'static [u8] {
        match self.names {
            KeyNameList::Rows { before, composite: true } if number == before => &[END, NEXT],
            KeyNameList::Rows { before, composite: false } if number == before => &[END],
            _ => &[],
        }
    }

    /// Decodes the clustering values of a row from its components, which are the bytes of its
    /// position between the first and the last one. Each value goes to its buffer, with whether it
    /// is set; otherwise it is null.
    ///
    /// # Errors
    /// `Corrupt` if they are malformed.
    #[inline]
    pub fn read_row(&self, components: &[u8], values: &mut [(Vec<u8>, bool)]) -> Result<()> {
        let mut rest = components;
        for (number, (t, (value, there))) in self.clustering.iter().zip(values).enumerate() {
            value.clear();
            let before = self.before_clustering(number);
            rest = rest.strip_prefix(before).ok_or_else(|| damaged("row", components))?;
            // The end of a composite is in the position of a next component.
            let is_left_out = self.is_composite() && matches!(rest, [END | BEFORE | AFTER]);
            *there = !is_left_out
                && t.take_component(&mut rest, value).map_err(|_| damaged("row", components))?;
        }
        Ok(())
    }

    /// Returns the position of the deletion of the super column that contains this row; `None` if
    /// the row is not a cell of a super column.
    pub fn super_deletion(&self, row: &[u8]) -> Option<Vec<u8>> {
        let KeyNameList::Rows { before: 1, .. } = self.names else { return None };
        let len = self.clustering.first()?.component_len(row.get(1..)?)?;
        Some([row.get(..1 + len)?, &[END, DELETION]].concat())
    }

    #[inline]
    fn is_composite(&self) -> bool {
        matches!(self.names, KeyNameList::Rows { composite: true, .. })
    }

    pub(crate) fn put_name(&self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match &self.names {
            KeyNameList::Typed(t) => t.put_component(name, out)?,
            KeyNameList::Columns if name.is_empty() => out.push(EMPTY),
            KeyNameList::Columns => {
                out.push(NEXT);
                out.extend_from_slice(name);
            }
            KeyNameList::Rows { .. } => return Ok(()),
        }
        out.push(END);
        Ok(())
    }

    /// Appends the position of a cell.
    ///
    /// # Errors
    /// Those of [`put_row`](Layout::put_row).
    pub fn put_cell(&self, clustering: &[&[u8]], name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.put_row(clustering, out)?;
        self.put_name(name, out)
    }

    /// Appends the position of a static cell.
    ///
    /// # Errors
    /// Those of [`put_row`](Layout::put_row).
    pub fn put_static(&self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.push(STATIC);
        self.put_name(name, out)
    }

    /// Appends a path to the position of a cell, for an element of a complex column.
    ///
    /// # Errors
    /// Those of [`put_row`](Layout::put_row).
    pub fn put_path(&self, path_type: &Type, path: &[u8], out: &mut Vec<u8>) -> Result<()> {
        path_type.put_component(path, out)?;
        out.push(END);
        Ok(())
    }

    /// Appends a bound between rows: before or after all rows whose clustering begins with these
    /// values.
    ///
    /// # Errors
    /// Those of [`put_row`](Layout::put_row).
    pub fn put_bound(
        &self,
        clustering: &[impl AsRef<[u8]>],
        after: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.put_clustering(clustering, out)?;
        out.push(if after { AFTER } else { BEFORE });
        Ok(())
    }

    /// Appends a bound between the cells of a row: before or after the cells with this name.
    ///
    /// # Errors
    /// Those of [`put_row`](Layout::put_row).
    pub fn put_name_bound(
        &self,
        clustering: &[&[u8]],
        name: &[u8],
        after: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.put_cell(clustering, name, out)?;
        if after {
            // All positions of the name have a smaller byte after its END.
            out.push(AFTER);
        }
        Ok(())
    }

    /// Appends a bound of a range deletion between the cells of a row: before or after the cells
    /// with this name.
    ///
    /// # Errors
    /// Those of [`put_row`](Layout::put_row).
    pub fn put_deletion_bound(
        &self,
        clustering: &[&[u8]],
        name: &[u8],
        after: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.put_cell(clustering, name, out)?;
        // It replaces the byte that ends the name of a cell.
        if let Some(end) = out.last_mut() {
            *end = if after { AFTER } else { BEFORE };
        }
        Ok(())
    }

    /// Returns the length of the row at the start of a position, which is that of a row or of a
    /// cell in one.
    ///
    /// # Errors
    /// `Corrupt` if it is malformed.
    #[inline]
    pub fn row_len(&self, place: &[u8]) -> Result<usize> {
        self.find_row(place).ok_or_else(|| damaged("row", place))
    }

    /// Like [`row_len`](Layout::row_len); returns `None` if there is no row.
    pub(crate) fn find_row(&self, place: &[u8]) -> Option<usize> {
        if let KeyNameList::Rows { .. } = self.names {
            // A cell's position is that of the row, unless it is a deletion.
            return matches!(place, [ROWS, _, .., END]).then_some(place.len());
        }
        let mut at = 1;
        for t in &self.clustering {
            at += t.component_len(place.get(at..)?)?;
        }
        (place.first() == Some(&ROWS) && place.get(at) == Some(&END)).then_some(at + 1)
    }

    /// Returns a clustering component of the row at the start of a position.
    ///
    /// # Errors
    /// `Corrupt` if it is malformed.
    pub(crate) fn clustering_component<'p>(
        &self,
        place: &'p [u8],
        number: usize,
    ) -> Result<&'p [u8]> {
        let mut rest = place.get(1..).unwrap_or_default();
        for (n, t) in self.clustering.iter().enumerate() {
            let len = t.component_len(rest).ok_or_else(|| damaged("row", place))?;
            let (component, after) =
                rest.split_at_checked(len).ok_or_else(|| damaged("row", place))?;
            if n == number {
                return Ok(component);
            }
            rest = after;
        }
        Err(damaged("row", place))
    }

    /// Returns the length of a cell's position without its path; `None` if cells have no paths, or
    /// if the position is not that of a cell.
    pub(crate) fn find_column(&self, place: &[u8]) -> Option<usize> {
        let row = match place.first() {
            Some(&STATIC) => 1,
            Some(&ROWS) => self.find_row(place)?,
            _ => return None,
        };
        let rest = &place[row..];
        if self.names != KeyNameList::Columns || rest.first().is_none_or(|&b| b == DELETION) {
            return None;
        }
        Some(row + self.find_name(rest)? + 1)
    }

    /// Returns the length of the name's component at the start of the bytes after a row.
    ///
    /// # Errors
    /// `Corrupt` if there is none.
    #[inline]
    pub fn name_len(&self, rest: &[u8]) -> Result<usize> {
        self.find_name(rest).ok_or_else(|| damaged("name", rest))
    }

    #[inline]
    fn find_name(&self, rest: &[u8]) -> Option<usize> {
        let len = match &self.names {
            // The name is last.
            KeyNameList::Typed(_) => rest.len().checked_sub(1),
            KeyNameList::Columns if rest.first() == Some(&EMPTY) => Some(1),
            KeyNameList::Columns => Some(3),
            KeyNameList::Rows { .. } => None,
        };
        len.filter(|&n| n > 0 && rest.get(n) == Some(&END))
    }

    /// Appends the decoded clustering values of a row, one buffer each.
    ///
    /// # Errors
    /// Those of [`read_row`](Layout::read_row).
    pub fn clustering_of(&self, row: &[u8], out: &mut Vec<Vec<u8>>) -> Result<()> {
        let mut values = vec![Default::default(); self.clustering.len()];
        self.read_row(row, &mut values)?;
        out.extend(values.into_iter().map(|(value, _)| value));
        Ok(())
    }

    /// Appends the decoded name of a name's component.
    ///
    /// # Errors
    /// `Corrupt` if it is malformed.
    pub fn name_of(&self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let good = match &self.names {
            KeyNameList::Typed(t) => take(t, name, out),
            KeyNameList::Columns => name.get(1..).map(|id| out.extend_from_slice(id)),
            KeyNameList::Rows { .. } => None,
        };
        good.ok_or_else(|| damaged("name", name))
    }

    /// Appends the decoded value of a path's component.
    ///
    /// # Errors
    /// `Corrupt` if it is malformed.
    pub fn path_of(&self, path_type: &Type, path: &[u8], out: &mut Vec<u8>) -> Result<()> {
        take(path_type, path, out).ok_or_else(|| damaged("path", path))
    }
}
