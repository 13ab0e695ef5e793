//! Iteration over the entries of an index, in the order of the indexed values.
//!
//! Invariant: entries are returned unchecked. The cell of an entry may have another value now, or
//! may be dead; the caller compares the row.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_kv::Cursor;

use crate::base::error::{Error, Result, invalid};
use crate::key::{END, STATIC};
use crate::types::Type;

use super::CellStore;
use super::family::StoreFamily;
use super::indexed::{IndexPart, StoredIndex};
use super::moment::StoreMoment;

/// A range of values.
pub type IndexRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range of entry keys.
type EntryBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Iterator over the entries in a range of values. See
/// [`StoreView::walk_index`](super::StoreView::walk_index).
pub struct IndexWalk {
    store: CellStore,
    family: StoreFamily,
    index: Arc<StoredIndex>,
    cursor: Cursor,
    is_started: bool,
    value: Vec<u8>,
    entry: Vec<u8>,
}

impl std::fmt::Debug for IndexWalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexWalk").field("family", &self.family).finish_non_exhaustive()
    }
}

/// Content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The value; for a map entry, its value without the key.
    pub value: &'a [u8],
    /// Partition part of the row.
    pub partition: &'a [u8],
    /// Position of the row in its partition. Empty if the entry refers to the whole partition: the
    /// index is on a static column or on one of the partition key.
    pub row: &'a [u8],
}

impl CellStore {
    pub(super) fn walk_index_at(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        index: u32,
        range: IndexRange<'_>,
    ) -> Result<IndexWalk> {
        let index = self.index_of(family, index)?;
        if !index.built.load(Ordering::Acquire) {
            return Err(invalid(format!("the index {} is being built", index.spec.id)));
        }
        let bounds = index.bounds(range)?;
        let mut cursor = at.cursor(&index.tree, bounds)?;
        cursor.first()?;
        let (store, family) = (self.clone(), family.clone());
        Ok(IndexWalk {
            store,
            family,
            index,
            cursor,
            is_started: false,
            value: vec![],
            entry: vec![],
        })
    }
}

impl StoredIndex {
    /// Returns the keys of the entries in a range of values. For map entries only the full range is
    /// supported.
    fn bounds(&self, range: IndexRange<'_>) -> Result<EntryBounds> {
        let is_all = matches!(range, (Bound::Unbounded, Bound::Unbounded));
        if !is_all && matches!(self.spec.part, IndexPart::Entry { .. }) {
            return Err(invalid("entries of maps are indexed by their keys first"));
        }
        let place = |value: &[u8], after: bool| {
            let mut key = vec![];
            self.spec.value.put_component(value, &mut key)?;
            if after {
                key.push(END + 1);
            }
            Ok::<_, Error>(key)
        };
        let (from, until) = match self.spec.value {
            Type::Reversed(_) => (range.1, range.0),
            _ => range,
        };
        Ok((
            match from {
                Bound::Included(value) => Bound::Included(place(value, false)?),
                Bound::Excluded(value) => Bound::Included(place(value, true)?),
                Bound::Unbounded => Bound::Unbounded,
            },
            match until {
                Bound::Included(value) => Bound::Excluded(place(value, true)?),
                Bound::Excluded(value) => Bound::Excluded(place(value, false)?),
                Bound::Unbounded => Bound::Unbounded,
            },
        ))
    }
}

impl IndexWalk {
    /// Returns the next entry.
    ///
    /// # Errors
    /// Errors of the engine, and `Corrupt`.
    #[allow(clippy::should_implement_trait)] // lends, which an Iterator cannot
    pub fn next(&mut self) -> Result<Option<IndexEntry<'_>>> {
        self.store.check_stop()?;
        if std::mem::replace(&mut self.is_started, true) {
            self.cursor.next()?;
        }
        if !self.cursor.is_valid() {
            return Ok(None);
        }
        self.entry.clear();
        self.entry.extend_from_slice(self.cursor.key());
        self.value.clear();
        let wrong = || {
            let shown = self.entry.escape_ascii();
            Error::Corrupt(format!("malformed index entry: \"{shown}\""))
        };
        let mut rest = &self.entry[..];
        if let IndexPart::Entry { path } = &self.index.spec.part {
            let len = path.component_len(rest).ok_or_else(wrong)?;
            rest = &rest[len..];
        }
        let of = &self.index.spec.value;
        of.take_component(&mut rest, &mut self.value).map_err(|_| wrong())?;
        let rest = rest.strip_prefix(&[END]).ok_or_else(wrong)?;
        let ends = self.index.ends_in_entry(self.family.layout(), rest)?;
        let (partition, place) = rest.split_at(ends.partition);
        let row = &place[..ends.row - ends.partition];
        let is_whole = matches!(self.index.spec.part, IndexPart::Partition(_)) || row == [STATIC];
        Ok(Some(IndexEntry {
            value: &self.value,
            partition,
            row: if is_whole { &[] } else { row },
        }))
    }
}
