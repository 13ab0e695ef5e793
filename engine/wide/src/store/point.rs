//! Reads of single cells, and lookups of deletions that cover a position.

use std::cell::{Cell as Slot, OnceCell};

use firn_kv::Value;

use crate::base::error::{Error, Result};
use crate::cell::{Cell, CellDeletion, StoredCell};
use crate::key::{DELETION, ROWS as ROWS_SECTION};

use super::CellStore;
use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS, StoreFamily};
use super::moment::StoreMoment;

thread_local! {
    /// Key of this thread's last read, reused for its memory.
    static KEY: Slot<Vec<u8>> = const { Slot::new(Vec::new()) };
}

/// Calls `work` with a buffer whose memory is reused between calls.
#[inline]
pub(super) fn with_key<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut key = KEY.take();
    key.clear();
    let done = work(&mut key);
    KEY.set(key);
    done
}

/// A live cell that has been read. It holds the block or memtable with its bytes, so do not hold
/// many of them longer than necessary.
#[derive(Clone, Debug)]
pub struct CellValue {
    stored: Value,
    /// The cell without its value, which begins at `value` in the stored bytes.
    cell: Cell<'static>,
    value: usize,
}

impl CellValue {
    /// Creates the value from stored bytes.
    fn new(stored: Value) -> Result<CellValue> {
        let cell = cell_of(&stored)?;
        let value = stored.len() - cell.value().len();
        let cell = cell.with_value(&[]);
        Ok(CellValue { stored, cell, value })
    }

    /// Returns the cell.
    #[inline]
    pub fn cell(&self) -> Cell<'_> {
        self.cell.with_value(&self.stored[self.value..])
    }

    /// Returns its value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.cell().value()
    }
}

fn cell_of(stored: &[u8]) -> Result<Cell<'_>> {
    match StoredCell::decode(stored)? {
        StoredCell::Cell(cell) => Ok(cell),
        _ => Err(Error::Corrupt("a deletion is in the position of a cell".into())),
    }
}

fn deletion_of(stored: &[u8]) -> Result<CellDeletion> {
    match StoredCell::decode(stored)? {
        StoredCell::Deletion(d) | StoredCell::Range(d, _) => Ok(d),
        StoredCell::Cell(_) => Err(Error::Corrupt("a cell is in a deletion's position".into())),
    }
}

/// Returns the newer of two timestamps.
fn newer(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.max(b)
}

impl CellStore {
    /// Returns the newest deletion of a container that covers the position `key[partition..]`,
    /// except one at the position itself.
    pub(super) fn covering(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        key: &[u8],
        partition: usize,
    ) -> Result<Option<i64>> {
        let kinds = family.kinds();
        if kinds == 0 {
            return Ok(None);
        }
        let mut newest = None;
        let mut marker = vec![];
        let tree = family.tree();
        let mut look = |container: usize| -> Result<()> {
            marker.clear();
            marker.extend_from_slice(&key[..container]);
            marker.push(DELETION);
            if marker != key
                && let Some(v) = at.get(tree, &marker)?
            {
                newest = newer(newest, Some(deletion_of(&v)?.timestamp));
            }
            Ok(())
        };
        let place = &key[partition..];
        if kinds & PARTITIONS != 0 {
            look(partition)?;
        }
        let in_row = place.first() == Some(&ROWS_SECTION);
        if in_row && kinds & ROWS != 0 {
            look(partition + family.layout().row_len(place)?)?;
        }
        if kinds & COMPLEX != 0
            && let Some(column) = family.layout().find_column(place)
            && place.len() > column
        {
            look(partition + column)?;
        }
        if in_row && kinds & RANGES != 0 {
            let range = self.covering_range(at, family, key, partition)?;
            newest = newer(newest, range.map(|d| d.timestamp));
        }
        Ok(newest)
    }

    pub(super) fn get_at(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        key: &[u8],
        place: &[u8],
    ) -> Result<Option<CellValue>> {
        with_key(|full| {
            family.layout().put_partition(key, full)?;
            let partition = full.len();
            full.extend_from_slice(place);
            self.get_full(at, family, full, partition, &OnceCell::new())
        })
    }

    /// Returns the live cell with this key. Deletions are read first: a cell found after that was
    /// alive at some time in between. Reads with the same `now` expire cells at the same time.
    pub(super) fn get_full(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        key: &[u8],
        partition: usize,
        now: &OnceCell<i64>,
    ) -> Result<Option<CellValue>> {
        let covered = self.covering(at, family, key, partition)?;
        let Some(stored) = at.get(family.tree(), key)? else { return Ok(None) };
        self.live(stored, covered, now)
    }

    /// Returns a cell if it is live. Reads the clock once, and only for cells that expire.
    #[inline]
    fn live(
        &self,
        stored: Value,
        covered: Option<i64>,
        now: &OnceCell<i64>,
    ) -> Result<Option<CellValue>> {
        let found = CellValue::new(stored)?;
        let cell = &found.cell;
        let expires = cell.ttl().is_some();
        let now = if expires { *now.get_or_init(|| self.now()) } else { i64::MIN };
        let live = covered.is_none_or(|t| cell.timestamp > t) && cell.is_live(now);
        Ok(live.then_some(found))
    }

    pub(super) fn get_many_at<P: AsRef<[u8]>>(
        &self,
        at: StoreMoment<'_>,
        family: &StoreFamily,
        key: &[u8],
        places: &[P],
    ) -> Result<Vec<Option<CellValue>>> {
        // The cells of one write expire together.
        let now = OnceCell::new();
        let mut full = vec![];
        family.layout().put_partition(key, &mut full)?;
        let partition = full.len();
        if let StoreMoment::Now = at {
            // The keys, one after the other.
            let mut ends = Vec::with_capacity(places.len());
            full.reserve(places.iter().map(|p| partition + p.as_ref().len()).sum());
            for place in places {
                full.extend_from_within(..partition);
                full.extend_from_slice(place.as_ref());
                ends.push(full.len());
            }
            let starts = std::iter::once(partition).chain(ends.iter().copied());
            let keys: Vec<&[u8]> =
                starts.zip(&ends).map(|(start, end)| &full[start..*end]).collect();
            let found = family.tree().multi_get(&keys)?;
            if family.kinds() != 0 {
                let snapshot = self.0.db.snapshot();
                return self.get_many_at(StoreMoment::Then(&snapshot), family, key, places);
            }
            let live = |stored: Option<Value>| {
                stored.map_or(Ok(None), |stored| self.live(stored, None, &now))
            };
            return found.into_iter().map(live).collect();
        }
        let get = |place: &P| {
            full.truncate(partition);
            full.extend_from_slice(place.as_ref());
            self.get_full(at, family, &full, partition, &now)
        };
        places.iter().map(get).collect()
    }
}
