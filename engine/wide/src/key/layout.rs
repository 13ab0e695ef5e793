//! One family's layout: its partitioner and the types of its clusterings and names, between what
//! clients send and places.

use crate::base::error::{Error, Result, invalid};
use crate::ring::Partitioner;
use crate::types::escape::{put_escaped, unescape};
use crate::types::{EMPTY, NEXT, NULL, Type};

use super::{AFTER, BEFORE, DELETION, END, ROWS, STATIC, partition_len};

/// The form of the names of cells.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyNameList {
    /// Values of a type: the columns of a Standard family, the subcolumns of a Super family.
    Typed(Type),
    /// Numbers of a table's columns, two bytes; the empty name is the row's marker. Cells may have
    /// a path.
    Columns,
    /// None: each cell of a Standard or Super family is a row by itself. Its clusterings from this
    /// one on, the last ones, are the cell's name.
    Rows {
        /// How many clusterings come before the name: that of the super column.
        before: usize,
        /// Whether the name is a composite, whose components the others are; else there is one.
        composite: bool,
    },
}

/// How the keys of one family are made and read.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    partitioner: Partitioner,
    clustering: Vec<Type>,
    names: KeyNameList,
}

/// The parts of a cell's place, as components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlace<'a> {
    /// Whether it is a static cell.
    pub is_static: bool,
    /// The components of the row: empty in a Standard family and for static cells.
    pub row: &'a [u8],
    /// The component of the name.
    pub name: &'a [u8],
    /// The component of the path, of an element of a complex column.
    pub path: Option<&'a [u8]>,
}

/// Appends the value of a component; `None` when it isn't one.
#[inline]
fn take(t: &Type, component: &[u8], out: &mut Vec<u8>) -> Option<()> {
    t.whole_component(component, out).ok().map(|_| ())
}

impl KeyPlace<'_> {
    /// Appends the place itself.
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
    /// A Standard family.
    pub fn standard(partitioner: Partitioner, comparator: Type) -> Layout {
        Layout { partitioner, clustering: vec![], names: KeyNameList::Typed(comparator) }
    }

    /// A Super family: the super column is the row.
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

    /// A table with these clustering columns.
    pub fn table(partitioner: Partitioner, clustering: Vec<Type>) -> Layout {
        Layout { partitioner, clustering, names: KeyNameList::Columns }
    }

    /// The cells of a family as rows, for who looks at them so. The clusterings behind the first
    /// `before` ones, which are the super column's name, are the components of the cell's name where
    /// it is a composite; else there is one, the name.
    pub fn rows_of_cells(
        partitioner: Partitioner,
        clustering: Vec<Type>,
        before: usize,
        composite: bool,
    ) -> Layout {
        Layout { partitioner, clustering, names: KeyNameList::Rows { before, composite } }
    }

    /// Whether it makes the keys that `before` makes, and reads them: the types of its components
    /// [extend](Type::extends) those.
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

    /// The partitioner.
    pub fn partitioner(&self) -> Partitioner {
        self.partitioner
    }

    /// The types of the clustering components.
    pub fn clustering(&self) -> &[Type] {
        &self.clustering
    }

    /// The form of names.
    pub fn names(&self) -> &KeyNameList {
        &self.names
    }

    /// Whether it is of a Standard or Super family, whose cells have names of a type.
    #[inline]
    pub fn has_typed_names(&self) -> bool {
        matches!(self.names, KeyNameList::Typed(_))
    }

    /// Bytes of a token.
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
    /// `Corrupt` when it is none.
    pub fn key_of(&self, partition: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let escaped = partition.get(self.token_len() + 1..).unwrap_or_default();
        if unescape(escaped, out) { Ok(()) } else { Err(damaged("partition", partition)) }
    }

    /// Length of the partition part at the start of `key`.
    ///
    /// # Errors
    /// `Corrupt` when there is none.
    #[inline]
    pub fn partition_len(&self, key: &[u8]) -> Result<usize> {
        partition_len(key, self.token_len()).ok_or_else(|| damaged("partition", key))
    }

    /// Appends the place of a row, which all places in it begin with; values that are left out at
    /// its end are null. Of a Standard family: of all its cells.
    ///
    /// # Errors
    /// `InvalidRequest` for a value that isn't one of its type, and for a row that is a cell and
    /// has no name.
    pub fn put_row(&self, clustering: &[impl AsRef<[u8]>], out: &mut Vec<u8>) -> Result<()> {
        self.put_clustering(clustering, out)?;
        match self.names {
            KeyNameList::Rows { before, .. } if clustering.len() <= before => {
                return Err(invalid("the name of a column is missing"));
            }
            // Components that are left out at the end of a composite are not in it.
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

    /// What stands before the component of this clustering, besides what belongs to it.
    #[inline]
    fn before_clustering(&self, number: usize) -> &'static [u8] {
        match self.names {
            KeyNameList::Rows { before, composite: true } if number == before => &[END, NEXT],
            KeyNameList::Rows { before, composite: false } if number == before => &[END],
            _ => &[],
        }
    }

    /// Reads the clustering values of a row from its components, all that its place has between its
    /// first and its last byte: each into its buffer, with whether it is one. Else it is null.
    ///
    /// # Errors
    /// `Corrupt` when they can't be read.
    #[inline]
    pub fn read_row(&self, components: &[u8], values: &mut [(Vec<u8>, bool)]) -> Result<()> {
        let mut rest = components;
        for (number, (t, (value, there))) in self.clustering.iter().zip(values).enumerate() {
            value.clear();
            let before = self.before_clustering(number);
            rest = rest.strip_prefix(before).ok_or_else(|| damaged("row", components))?;
            // What ends a composite stands where another component of it could.
            let is_left_out = self.is_composite() && matches!(rest, [END | BEFORE | AFTER]);
            *there = !is_left_out
                && t.take_component(&mut rest, value).map_err(|_| damaged("row", components))?;
        }
        Ok(())
    }

    /// The place of the deletion that this row goes with, of the super column that it is a cell of;
    /// `None` where it is no such cell.
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

    /// Appends the place of a cell.
    ///
    /// # Errors
    /// As [`put_row`](Layout::put_row).
    pub fn put_cell(&self, clustering: &[&[u8]], name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.put_row(clustering, out)?;
        self.put_name(name, out)
    }

    /// Appends the place of a static cell.
    ///
    /// # Errors
    /// As [`put_row`](Layout::put_row).
    pub fn put_static(&self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.push(STATIC);
        self.put_name(name, out)
    }

    /// Appends a path to the place of a cell: an element of a complex column.
    ///
    /// # Errors
    /// As [`put_row`](Layout::put_row).
    pub fn put_path(&self, path_type: &Type, path: &[u8], out: &mut Vec<u8>) -> Result<()> {
        path_type.put_component(path, out)?;
        out.push(END);
        Ok(())
    }

    /// Appends a bound between rows: before or after all rows whose clustering begins with these
    /// values.
    ///
    /// # Errors
    /// As [`put_row`](Layout::put_row).
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

    /// Appends a bound between the cells of a row: before or after the cells of this name.
    ///
    /// # Errors
    /// As [`put_row`](Layout::put_row).
    pub fn put_name_bound(
        &self,
        clustering: &[&[u8]],
        name: &[u8],
        after: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.put_cell(clustering, name, out)?;
        if after {
            // Everything of the name continues its END with less.
            out.push(AFTER);
        }
        Ok(())
    }

    /// Appends a bound of a range deletion between the cells of a row: before or after the cells of
    /// this name.
    ///
    /// # Errors
    /// As [`put_row`](Layout::put_row).
    pub fn put_deletion_bound(
        &self,
        clustering: &[&[u8]],
        name: &[u8],
        after: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.put_cell(clustering, name, out)?;
        // In the place of the byte that ends the name of a cell.
        if let Some(end) = out.last_mut() {
            *end = if after { AFTER } else { BEFORE };
        }
        Ok(())
    }

    /// Length of the row at the start of a place, of a row or a cell in one.
    ///
    /// # Errors
    /// `Corrupt` when it isn't one.
    #[inline]
    pub fn row_len(&self, place: &[u8]) -> Result<usize> {
        self.find_row(place).ok_or_else(|| damaged("row", place))
    }

    /// The same; `None` where there is none.
    pub(crate) fn find_row(&self, place: &[u8]) -> Option<usize> {
        if let KeyNameList::Rows { .. } = self.names {
            // A cell's place is the row's, unless it is that of a deletion.
            return matches!(place, [ROWS, _, .., END]).then_some(place.len());
        }
        let mut at = 1;
        for t in &self.clustering {
            at += t.component_len(place.get(at..)?)?;
        }
        (place.first() == Some(&ROWS) && place.get(at) == Some(&END)).then_some(at + 1)
    }

    /// One component of the row at the start of a place.
    ///
    /// # Errors
    /// `Corrupt` when it can't be read.
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

    /// Length of a cell's place without its path; `None` where cells have no paths, and for places
    /// that are not of a cell.
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

    /// The length of the name's component at the start of what follows a row.
    ///
    /// # Errors
    /// `Corrupt` when there is none.
    #[inline]
    pub fn name_len(&self, rest: &[u8]) -> Result<usize> {
        self.find_name(rest).ok_or_else(|| damaged("name", rest))
    }

    #[inline]
    fn find_name(&self, rest: &[u8]) -> Option<usize> {
        let len = match &self.names {
            // Nothing comes after the name.
            KeyNameList::Typed(_) => rest.len().checked_sub(1),
            KeyNameList::Columns if rest.first() == Some(&EMPTY) => Some(1),
            KeyNameList::Columns => Some(3),
            KeyNameList::Rows { .. } => None,
        };
        len.filter(|&n| n > 0 && rest.get(n) == Some(&END))
    }

    /// Appends the raw values of a row's clustering, one buffer each.
    ///
    /// # Errors
    /// As [`read_row`](Layout::read_row).
    pub fn clustering_of(&self, row: &[u8], out: &mut Vec<Vec<u8>>) -> Result<()> {
        let mut values = vec![Default::default(); self.clustering.len()];
        self.read_row(row, &mut values)?;
        out.extend(values.into_iter().map(|(value, _)| value));
        Ok(())
    }

    /// Appends the raw name of a name's component.
    ///
    /// # Errors
    /// `Corrupt` when it can't be read.
    pub fn name_of(&self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let good = match &self.names {
            KeyNameList::Typed(t) => take(t, name, out),
            KeyNameList::Columns => name.get(1..).map(|id| out.extend_from_slice(id)),
            KeyNameList::Rows { .. } => None,
        };
        good.ok_or_else(|| damaged("name", name))
    }

    /// Appends the raw value of a path's component.
    ///
    /// # Errors
    /// `Corrupt` when it can't be read.
    pub fn path_of(&self, path_type: &Type, path: &[u8], out: &mut Vec<u8>) -> Result<()> {
        take(path_type, path, out).ok_or_else(|| damaged("path", path))
    }
}
