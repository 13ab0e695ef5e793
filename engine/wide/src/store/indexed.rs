//! The indexed part of a column, and the index entries of a cell.
//!
//! An entry's key is `prefix partition row tail` (format-spec, "Indexes and records"). The prefix
//! is the search key: `component(value) 38`, for a map entry `component(path) component(value) 38`.
//! The tail is empty if prefix and row identify the cell. If a row may have several cells with one
//! prefix, the tail is the part of the cell's position after the row and the column's name.
//!
//! Invariant: an entry identifies its cell. Every indexed cell has its own entry, which expires
//! with it.

use std::sync::atomic::AtomicBool;

use firn_kv::Tree;

use crate::base::error::{Error, Result, invalid};
use crate::key::{END, Layout, ROWS, STATIC};
use crate::types::Type;

/// An index on one column.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSpec {
    /// Id, which names its tree; never reused.
    pub id: u32,
    /// Whether the column is static. Ignored for columns of the key.
    pub is_static: bool,
    /// Encoded name of the column. Ignored for columns of the key.
    pub name: Vec<u8>,
    /// Indexed part of the column.
    pub part: IndexPart,
    /// Type of the indexed values; equality is that of the type.
    pub value: Type,
}

/// Indexed part of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexPart {
    /// Value of its only cell.
    Value,
    /// Paths of its elements: keys of a map, elements of a set.
    Path,
    /// Values of its elements: of a map or list.
    Element,
    /// Path and value of its elements together: entries of a map. The search key is a tuple of
    /// both, each prefixed by its length as an `i32`.
    Entry {
        /// Type of the paths; the type of the values is that of the index.
        path: Type,
    },
    /// Clustering column with this index. The index's type is that of the layout, including its
    /// reversal.
    Clustering(usize),
    /// Column with this index in a composite partition key, whose parts are `<u16
    /// length><bytes><0>`.
    Partition(usize),
}

/// An open index.
pub(super) struct StoredIndex {
    pub spec: IndexSpec,
    pub tree: Tree,
    /// End of the positions of its cells up to their path: the column's name. Empty for columns of
    /// the key, which all cells of a row contain.
    pub name: Vec<u8>,
    /// Whether it has been built from the data before it.
    pub built: AtomicBool,
}

/// Ends of the partition part and of the row in a key.
#[derive(Clone, Copy)]
pub(super) struct IndexedEnds {
    pub partition: usize,
    pub row: usize,
}

impl StoredIndex {
    /// Reports whether a cell's entries depend on its value.
    #[inline]
    pub fn is_by_value(&self) -> bool {
        matches!(self.spec.part, IndexPart::Value | IndexPart::Element | IndexPart::Entry { .. })
    }

    /// Reports whether several cells of a row may have the same prefix, so that entries have a
    /// tail.
    #[inline]
    pub fn has_tails(&self) -> bool {
        matches!(
            self.spec.part,
            IndexPart::Element | IndexPart::Clustering(_) | IndexPart::Partition(_)
        )
    }

    /// Returns the end of the row of the cell with this key; `None` if the index does not contain
    /// the cell.
    #[inline]
    pub fn row_end(&self, layout: &Layout, key: &[u8], partition: usize) -> Option<IndexedEnds> {
        let place = key.get(partition..)?;
        let row = if self.spec.part == IndexPart::Value {
            let row = place.strip_suffix(&*self.name)?;
            let whole = if self.spec.is_static {
                row == [STATIC]
            } else {
                layout.find_row(row) == Some(row.len())
            };
            whole.then_some(row.len())
        } else {
            self.row_of_part(layout, place)
        };
        row.map(|row| IndexedEnds { partition, row: partition + row })
    }

    fn row_of_part(&self, layout: &Layout, place: &[u8]) -> Option<usize> {
        let row = match *place.first()? {
            STATIC => 1,
            ROWS => layout.find_row(place)?,
            _ => return None,
        };
        let is_static = place[0] == STATIC;
        let tail = place.get(row..)?.strip_prefix(&*self.name)?;
        let about = match self.spec.part {
            IndexPart::Clustering(_) => !is_static,
            IndexPart::Partition(_) => true,
            _ => is_static == self.spec.is_static && !tail.is_empty(),
        };
        about.then_some(row)
    }

    /// Returns the ends of the partition part and the row in the part after an entry's prefix.
    pub fn ends_in_entry(&self, layout: &Layout, rest: &[u8]) -> Result<IndexedEnds> {
        let partition = layout.partition_len(rest)?;
        let place = &rest[partition..];
        let row = if place.first() == Some(&STATIC) { 1 } else { layout.row_len(place)? };
        Ok(IndexedEnds { partition, row: partition + row })
    }

    /// Appends the prefix of a cell's entry.
    pub fn put_prefix(
        &self,
        layout: &Layout,
        key: &[u8],
        ends: IndexedEnds,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let path =
            || key[ends.row + self.name.len()..].split_last().map_or(&[][..], |(_, path)| path);
        match self.spec.part {
            IndexPart::Value | IndexPart::Element => self.spec.value.put_component(value, out)?,
            IndexPart::Path => out.extend_from_slice(path()),
            IndexPart::Entry { .. } => {
                out.extend_from_slice(path());
                self.spec.value.put_component(value, out)?;
            }
            IndexPart::Clustering(n) => {
                out.extend_from_slice(layout.clustering_component(&key[ends.partition..], n)?)
            }
            IndexPart::Partition(n) => {
                let mut whole = vec![];
                layout.key_of(&key[..ends.partition], &mut whole)?;
                let part = part_of_key(&whole, n)
                    .ok_or_else(|| invalid(format!("the key has no part {n}, which is indexed")))?;
                self.spec.value.put_component(part, out)?;
            }
        }
        out.push(END);
        Ok(())
    }

    /// Returns the key of a cell's entry.
    pub fn entry(
        &self,
        layout: &Layout,
        key: &[u8],
        ends: IndexedEnds,
        value: &[u8],
    ) -> Result<Vec<u8>> {
        let mut entry = Vec::with_capacity(key.len() + value.len() + 4);
        self.put_prefix(layout, key, ends, value, &mut entry)?;
        entry.extend_from_slice(&key[..ends.row]);
        if self.has_tails() {
            entry.extend_from_slice(&key[ends.row + self.name.len()..]);
        }
        Ok(entry)
    }

    /// Returns the prefix of the entries for a search key, and the tail of their cells' positions
    /// if entries do not contain it.
    pub fn sought(&self, value: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut prefix = vec![];
        let mut tail = vec![];
        match &self.spec.part {
            IndexPart::Entry { path } => {
                let (key, value) = pair(value).ok_or_else(|| {
                    invalid("a key and a value are looked for by an index of entries")
                })?;
                path.put_component(key, &mut prefix)?;
                tail = [&prefix, &[END][..]].concat();
                self.spec.value.put_component(value, &mut prefix)?;
            }
            _ => self.spec.value.put_component(value, &mut prefix)?,
        }
        prefix.push(END);
        if self.spec.part == IndexPart::Path {
            tail.clone_from(&prefix);
        }
        Ok((prefix, tail))
    }

    /// Appends the key of an entry's cell.
    pub fn cell_of(
        &self,
        rest: &[u8],
        ends: IndexedEnds,
        tail: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let own = &rest[ends.row..];
        if self.has_tails() == own.is_empty() {
            return Err(Error::Corrupt(format!(
                "malformed index entry: \"…{}\"",
                rest.escape_ascii()
            )));
        }
        out.extend_from_slice(&rest[..ends.row]);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(if own.is_empty() { tail } else { own });
        Ok(())
    }
}

/// Returns a part of a composite partition key.
fn part_of_key(mut key: &[u8], number: usize) -> Option<&[u8]> {
    for n in 0.. {
        let (len, rest) = key.split_first_chunk::<2>()?;
        let (part, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        if n == number {
            return Some(part);
        }
        key = rest.strip_prefix(&[0])?;
    }
    None
}

/// Returns the two parts of a tuple.
fn pair(tuple: &[u8]) -> Option<(&[u8], &[u8])> {
    fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        rest.split_at_checked(usize::try_from(i32::from_be_bytes(*len)).ok()?)
    }
    let (first, rest) = part(tuple)?;
    let (second, rest) = part(rest)?;
    rest.is_empty().then_some((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys_and_tuples_are_found_or_refused() {
        let key = b"\0\x02ab\0\0\0\0\0\x01c\0";
        assert_eq!(
            [0, 1, 2, 3].map(|n| part_of_key(key, n)),
            [Some(&b"ab"[..]), Some(b""), Some(b"c"), None]
        );
        assert_eq!(part_of_key(b"\0\x05ab", 0), None);
        assert_eq!(part_of_key(b"\0\x01a\x01\0\x01b\0", 1), None);
        assert_eq!(pair(b"\0\0\0\x01k\0\0\0\0"), Some((&b"k"[..], &b""[..])));
        for bad in [&b""[..], b"\0\0\0\x01k", b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\x01k\0\0\0\0x"]
        {
            assert_eq!(pair(bad), None);
        }
    }
}
