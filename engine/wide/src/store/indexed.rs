//! The part of a column that an index is over, and the entries that a cell has in it.
//!
//! An entry's key is `prefix partition row tail` (format-spec, "Indexes and records"). The prefix
//! is what is looked for: `component(value) 38`, of an entry of a map
//! `component(path) component(value) 38`. The tail is empty where prefix and row tell which cell it
//! is; where a row may have several cells with one prefix, it is the cell's place behind the row
//! and the column's name.
//!
//! Invariant: an entry says of which cell it is, and every indexed cell has an entry of its own,
//! which expires with it.

use std::sync::atomic::AtomicBool;

use firn_kv::Tree;

use crate::base::error::{Error, Result, invalid};
use crate::key::{END, Layout, ROWS, STATIC};
use crate::types::Type;

/// An index over one column.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSpec {
    /// Names its tree; never used again.
    pub id: u32,
    /// Whether the column is static. Without meaning for columns of the key.
    pub is_static: bool,
    /// The raw name of the column. Without meaning for columns of the key.
    pub name: Vec<u8>,
    /// The part of the column that is indexed.
    pub part: IndexPart,
    /// The type of what is indexed: values that are equal in it are one.
    pub value: Type,
}

/// The part of a column that an index is over.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexPart {
    /// The value of its only cell.
    Value,
    /// The paths of its elements: the keys of a map, the elements of a set.
    Path,
    /// The values of its elements: of a map or list.
    Element,
    /// Path and value of its elements together: the entries of a map. What is looked for is a tuple
    /// of both, each with its length as an `i32` before it.
    Entry {
        /// The type of the paths; that of the values is the index's.
        path: Type,
    },
    /// The clustering column of this number. The index's type is that of the layout, reversed where
    /// that is.
    Clustering(usize),
    /// The column of this number of a composite partition key, whose parts are
    /// `<u16 length><bytes><0>`.
    Partition(usize),
}

/// An open index.
pub(super) struct StoredIndex {
    pub spec: IndexSpec,
    pub tree: Tree,
    /// The end of the places of its rows' cells up to their path: the column's name. Empty for
    /// columns of the key, which all cells of a row tell of.
    pub name: Vec<u8>,
    /// Whether it has been built over what was there before it.
    pub built: AtomicBool,
}

/// Where in a key the partition part ends, and where the row.
#[derive(Clone, Copy)]
pub(super) struct IndexedEnds {
    pub partition: usize,
    pub row: usize,
}

impl StoredIndex {
    /// Whether what entries a cell has depends on its value.
    #[inline]
    pub fn is_by_value(&self) -> bool {
        matches!(self.spec.part, IndexPart::Value | IndexPart::Element | IndexPart::Entry { .. })
    }

    /// Whether several cells of a row may have the same prefix, so that entries have a tail.
    #[inline]
    pub fn has_tails(&self) -> bool {
        matches!(
            self.spec.part,
            IndexPart::Element | IndexPart::Clustering(_) | IndexPart::Partition(_)
        )
    }

    /// Whether it is about the cell with this key, and where its row ends.
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

    /// Where in what follows an entry's prefix the partition part ends, and where the row.
    pub fn ends_in_entry(&self, layout: &Layout, rest: &[u8]) -> Result<IndexedEnds> {
        let partition = layout.partition_len(rest)?;
        let place = &rest[partition..];
        let row = if place.first() == Some(&STATIC) { 1 } else { layout.row_len(place)? };
        Ok(IndexedEnds { partition, row: partition + row })
    }

    /// Appends what the entry of a cell begins with.
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

    /// The key of the entry of a cell.
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

    /// What the entries begin with that are looked for, and the tail that their cells have when
    /// they don't say it.
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

    /// The key of the cell that an entry is of.
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
                "an index entry that can't be: \"…{}\"",
                rest.escape_ascii()
            )));
        }
        out.extend_from_slice(&rest[..ends.row]);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(if own.is_empty() { tail } else { own });
        Ok(())
    }
}

/// One part of a composite partition key.
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

/// The two parts of a tuple.
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
