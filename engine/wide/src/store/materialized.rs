//! Materialized views: families whose rows are computed from those of a base family, and written in
//! the batch that changes it.
//!
//! Invariants:
//! - A view always contains exactly the rows computed from its base. A recomputed row replaces the
//!   old one key by key, so a view contains no deletions, and nothing in it is compared by
//!   timestamp. The result depends on the stored data, not on the clock: cells are copied with
//!   their expiration. There is one exception: the remains of a row whose key contained a value
//!   that has expired and was purged. That row has expired too, and is replaced when the value is
//!   written again.
//! - The key of a view's row contains the whole key of its base row. So a writer that holds the
//!   stripe of the base's partition has exclusive access to the view's row, and the stripes of
//!   views need no timestamps.
//! - Writers read the views under a stripe's lock; [`CellStore::set_views`] takes all of those
//!   locks once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_kv::Batch;

use crate::base::error::{Error, Result, invalid};
use crate::cell::{Cell, CellState, StoredCell};
use crate::key::{BEYOND, DELETION, END, Layout};
use crate::types::EMPTY;

use super::CellStore;
use super::family::{FamilyViews, StoreFamily, StoredView};
use super::index::built_record;
use super::moment::StoreMoment;
use super::mutation::Container;
use super::ranges::{RangeFragment, fragments, range_at};
use super::view_rows::RowParts;
use super::write_plan::{WriteEntry, WriteKind, WritePlan, container_range};

/// Pending writes of a call to one family.
struct FollowedChange<'c, 'p> {
    plan: &'c WritePlan<'p>,
    /// Sorted by key; only range deletions may share one.
    entries: &'c [WriteEntry<'p>],
    /// Deleted ranges, with full keys as bounds.
    ranges: Vec<RangeFragment>,
}

/// A base row before a call, and its cells with values after the call.
struct RowStates {
    before: RowParts,
    after: RowParts,
}

/// Returns the value of a cell, even if it has expired.
fn value_of(stored: &[u8]) -> Result<Option<&[u8]>> {
    Ok(match StoredCell::decode(stored)? {
        StoredCell::Cell(Cell {
            state: CellState::Live(value) | CellState::Expiring { value, .. },
            ..
        }) => Some(value),
        _ => None,
    })
}

impl FamilyViews {
    /// Returns the layout of the base rows.
    pub(super) fn rows(&self) -> Result<&Layout> {
        let unknown = || {
            invalid(
                "this family has materialized views: only programs that open it with CQL can write to it",
            )
        };
        self.rows.as_ref().ok_or_else(unknown)
    }
}

impl<'c, 'p> FollowedChange<'c, 'p> {
    fn new(plan: &'c WritePlan<'p>, entries: &'c [WriteEntry<'p>]) -> Result<Self> {
        let deleted = entries.iter().filter(|e| e.kind == WriteKind::Deletion(Container::Range));
        let range = |e: &WriteEntry<'_>| -> Result<RangeFragment> {
            let (partition, _) = plan.key(e).split_at(e.partition);
            let (start, end, deletion) = range_at(plan.key(e), e.partition, plan.value(e))?;
            let bound = |place: &[u8]| [partition, place].concat();
            Ok(RangeFragment { start: bound(start), end: bound(end), deletion })
        };
        let ranges = fragments(deleted.map(range).collect::<Result<_>>()?);
        Ok(FollowedChange { plan, entries, ranges })
    }

    fn key(&self, entry: &WriteEntry<'_>) -> &[u8] {
        self.plan.key(entry)
    }

    /// Returns the entries of a row.
    fn of_row<'s>(&'s self, row: &'s [u8]) -> impl Iterator<Item = (&'s [u8], &'s [u8])> + 's {
        let first = self.entries.partition_point(|e| self.key(e) < row);
        let inside = self.entries[first..].iter().take_while(move |e| self.key(e).starts_with(row));
        inside.map(move |e| (&self.key(e)[row.len()..], self.plan.value(e)))
    }

    /// Returns the newest deletion of a partition or range among the entries that covers a
    /// position.
    fn covering(&self, partition: &[u8], place: &[u8]) -> Option<i64> {
        let whole = [partition, &[DELETION]].concat();
        let of_partition = self.entries.binary_search_by(|e| self.key(e).cmp(&whole)).ok();
        let key = [partition, place].concat();
        let behind = self.ranges.partition_point(|r| r.start <= key);
        let range = behind.checked_sub(1).map(|i| &self.ranges[i]).filter(|r| key < r.end);
        let of_partition = of_partition.map(|i| self.entries[i].timestamp);
        of_partition.max(range.map(|r| r.deletion.timestamp))
    }
}

impl CellStore {
    /// Registers the views of a family, which its writers then update. New views must be
    /// [built](CellStore::build_view) after this. `rows` is the layout of the base rows: the
    /// family's layout, or that of cells as rows.
    ///
    /// # Errors
    /// `InvalidRequest` for a family of counters, or one that is not open here.
    pub fn set_views(
        &self,
        base: &StoreFamily,
        rows: Layout,
        views: Vec<StoredView>,
    ) -> Result<()> {
        if base.is_counter() && !views.is_empty() {
            return Err(invalid("a family of counters can't have views"));
        }
        views.iter().try_for_each(|view| self.check_open(&view.family))?;
        base.0.state.has_views.store(!views.is_empty(), Ordering::Release);
        *base.0.state.views.write() = Arc::new(FamilyViews { rows: Some(rows), all: views });
        // Wait for writers that have read the old views.
        self.0.stripes.pass_through();
        Ok(())
    }

    /// Rebuilds the rows of a view from its whole base. Others may write meanwhile; readers of the
    /// view may miss rows.
    ///
    /// # Errors
    /// `InvalidRequest` if the family has no such view, or contains a row that the view cannot
    /// contain; errors of the engine. `Stopped` with a [`stoppable`](CellStore::stoppable) handle:
    /// then it is not built.
    pub fn build_view(&self, base: &StoreFamily, id: u32) -> Result<()> {
        let views = base.views();
        let found = views.all.iter().find(|view| view.family.id() == id);
        let view = found.ok_or_else(|| invalid(format!("there is no view {id}")))?;
        let layout = views.rows()?;
        let tree = view.family.tree();
        if !tree.is_empty()? {
            let _all = self.0.stripes.lock_all();
            let mut batch = Batch::new();
            batch.delete(&self.0.schema, &built_record(id))?;
            batch.delete_range(tree, ..)?;
            self.0.writer.write(batch)?;
        }
        let snapshot = self.0.db.snapshot();
        let mut cursor = StoreMoment::Then(&snapshot).cursor(base.tree(), ..)?;
        cursor.first()?;
        let mut key = vec![];
        while cursor.is_valid() {
            self.check_stop()?;
            let partition = layout.partition_len(cursor.key())?;
            let Some(row) = layout.find_row(&cursor.key()[partition..]) else {
                cursor.next()?; // a deletion, or a static cell
                continue;
            };
            let mut row = cursor.key()[..partition + row].to_vec();
            key.clear();
            layout.key_of(&row[..partition], &mut key)?;
            if let Some(_held) = self.0.stripes.lock(std::iter::once(&key[..])) {
                let states = self.row_states(base, &row, partition, None)?;
                let mut batch = Batch::new();
                self.write_view(view, &key, &row[partition..], &states, &mut batch)?;
                self.0.writer.write(batch)?;
            }
            row.push(BEYOND);
            cursor.seek(&row)?;
        }
        Ok(self.0.schema.put(&built_record(id), &[])?)
    }

    /// Reports whether a view has been built from the data before it, and nothing was lost since.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn is_view_built(&self, id: u32) -> Result<bool> {
        Ok(self.0.schema.contains(&built_record(id))?)
    }

    /// Adds to a batch the changes of views for the entries of a plan.
    pub(super) fn write_views(&self, plan: &WritePlan<'_>, batch: &mut Batch) -> Result<()> {
        for entries in plan.entries.chunk_by(|a, b| Arc::ptr_eq(&a.family.0, &b.family.0)) {
            let Some(WriteEntry { family, .. }) = entries.first().filter(|e| e.family.has_views())
            else {
                continue;
            };
            let change = FollowedChange::new(plan, entries)?;
            let views = family.views();
            let mut key = vec![];
            let layout = views.rows()?;
            for (row, partition) in self.changed_rows(family, layout, &change)? {
                key.clear();
                family.layout().key_of(&row[..partition], &mut key)?;
                let states = self.row_states(family, &row, partition, Some(&change))?;
                for view in &views.all {
                    self.write_view(view, &key, &row[partition..], &states, batch)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the rows that a change may affect, by key prefix, with the lengths of the partition
    /// parts.
    fn changed_rows(
        &self,
        family: &StoreFamily,
        layout: &Layout,
        change: &FollowedChange<'_, '_>,
    ) -> Result<BTreeMap<Vec<u8>, usize>> {
        let mut rows = BTreeMap::new();
        for e in change.entries {
            let key = change.key(e);
            if let Some(row) = layout.find_row(&key[e.partition..]) {
                rows.insert(key[..e.partition + row].to_vec(), e.partition);
            }
            let WriteKind::Deletion(what @ (Container::Partition | Container::Range)) = e.kind
            else {
                continue;
            };
            let (start, end) = container_range(key, e.partition, what, change.plan.value(e))?;
            let mut cursor = family.tree().cursor(start..end)?;
            cursor.first()?;
            while cursor.is_valid() {
                let Some(row) = layout.find_row(&cursor.key()[e.partition..]) else {
                    cursor.next()?;
                    continue;
                };
                let mut row = cursor.key()[..e.partition + row].to_vec();
                rows.insert(row.clone(), e.partition);
                row.push(BEYOND);
                cursor.seek(&row)?;
            }
        }
        Ok(rows)
    }

    fn row_states(
        &self,
        family: &StoreFamily,
        row: &[u8],
        partition: usize,
        change: Option<&FollowedChange<'_, '_>>,
    ) -> Result<RowStates> {
        let mut before = RowParts::new();
        let end = [row, &[BEYOND]].concat();
        let mut cursor = family.tree().cursor(row.to_vec()..end)?;
        cursor.first()?;
        while cursor.is_valid() {
            before.insert(cursor.key()[row.len()..].to_vec(), cursor.value().to_vec());
            cursor.next()?;
        }
        // A deletion that covers the row also covers its marker.
        let marker = [row, &[EMPTY, END]].concat();
        let mut covered = self.covering(StoreMoment::Now, family, &marker, partition)?;
        let mut all = before.clone();
        if let Some(change) = change {
            covered = covered.max(change.covering(&row[..partition], &marker[partition..]));
            // Entries that lose against existing data are already removed.
            all.extend(change.of_row(row).map(|(part, value)| (part.to_vec(), value.to_vec())));
        }
        let mut after = RowParts::new();
        let mut column: Option<(Vec<u8>, i64)> = None;
        for (part, stored) in all {
            match StoredCell::decode(&stored)? {
                StoredCell::Deletion(d) if part == [DELETION] => {
                    covered = covered.max(Some(d.timestamp));
                }
                StoredCell::Deletion(d) => {
                    column = Some((part[..part.len() - 1].to_vec(), d.timestamp));
                }
                StoredCell::Cell(cell) => {
                    let of_column = column.as_ref().filter(|(name, _)| part.starts_with(name));
                    let covered = covered.max(of_column.map(|(_, timestamp)| *timestamp));
                    let has_value = !matches!(cell.state, CellState::Tombstone { .. });
                    if has_value && covered.is_none_or(|t| cell.timestamp > t) {
                        after.insert(part, stored);
                    }
                }
                StoredCell::Range(..) => {
                    return Err(Error::Corrupt("a range deletion is in a row".into()));
                }
            }
        }
        Ok(RowStates { before, after })
    }

    /// Adds to a batch the changes of a view's row for a base row.
    fn write_view(
        &self,
        view: &StoredView,
        key: &[u8],
        row: &[u8],
        states: &RowStates,
        batch: &mut Batch,
    ) -> Result<()> {
        let place = |cells: &RowParts| -> Result<Option<Vec<u8>>> {
            let value = match view.rows.key_column() {
                None => None,
                Some(column) => {
                    let stored = cells.get(column);
                    let Some(value) = stored.map_or(Ok(None), |stored| value_of(stored))? else {
                        return Ok(None);
                    };
                    Some(value)
                }
            };
            let Some(place) = view.rows.place(key, row, value)? else { return Ok(None) };
            let mut whole = vec![];
            view.family.layout().put_partition(&place.key, &mut whole)?;
            view.family.layout().put_row(&place.clustering, &mut whole)?;
            Ok(Some(whole))
        };
        let new = match states.after.is_empty() {
            true => None,
            false => place(&states.after)?,
        };
        // A row that was refused has no position.
        let old = place(&states.before).or_else(|e| match e {
            Error::InvalidRequest(_) => Ok(None),
            e => Err(e),
        })?;
        if let Some(old) = old.filter(|old| Some(old) != new.as_ref()) {
            replace(view, &old, RowParts::new(), batch)?;
        }
        match new {
            Some(new) => replace(view, &new, view.rows.cells(&states.after)?, batch),
            None => Ok(()),
        }
    }
}

/// Adds to a batch the changes that replace the cells of a view's row.
fn replace(view: &StoredView, row: &[u8], mut cells: RowParts, batch: &mut Batch) -> Result<()> {
    let tree = view.family.tree();
    let mut cursor = tree.cursor(row.to_vec()..[row, &[BEYOND]].concat())?;
    cursor.first()?;
    while cursor.is_valid() {
        let part = &cursor.key()[row.len()..];
        match cells.get(part) {
            None => batch.delete(tree, cursor.key())?,
            Some(stored) if **stored == *cursor.value() => drop(cells.remove(part)),
            Some(_) => {}
        }
        cursor.next()?;
    }
    for (part, stored) in cells {
        batch.put(tree, &[row, &part].concat(), &stored)?;
    }
    Ok(())
}
