//! Writes of mutations.
//!
//! Under the locks of their stripes, each operation becomes an entry with its full key and stored
//! value. If several entries have the same key, only the winner is retained. An entry that may
//! lose against existing data is compared with it (see the [module](super)). The rest is one
//! engine batch, in this order:
//! 1. physical deletions of data that a deleted container covers, if nothing in it can be newer,
//! 2. cells,
//! 3. deletions, so that they are newer than everything that they cover,
//! 4. counters, whose deletions are last,
//! 5. rows of [views](super::materialized).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_kv::{Batch, Durability, Tree};

use crate::base::error::{Result, invalid};
use crate::cell::{Cell, CellDeletion, CellState, StoredCell};
use crate::key::{BEYOND, DELETION, RANGES as RANGES_SECTION};

use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS, StoreFamily};
use super::moment::StoreMoment;
use super::mutation::{Container, MutationKind, MutationOp, StoreMutation};
use super::point::with_key;
use super::stripes::{LockedStripes, Stripes};
use super::view::StoreView;
use super::write_plan::{EntryValue, WriteEntry, WriteKind, WritePlan, container_range};
use super::{CellStore, kind_record};

/// Maximum number of entries of a deleted container that are removed one by one, or left to
/// compactions.
const FEW: usize = 64;
/// Bytes of an operation of a batch besides key and value: its kind, its tree and two lengths.
const ENTRY_OVERHEAD: usize = 12;
/// Maximum bytes of a value that is appended to its key in a buffer of the thread.
const SHORT: usize = 16 << 10;

impl CellStore {
    /// Writes mutations atomically: all of them or, after an error, none.
    ///
    /// # Errors
    /// - `InvalidRequest` for an operation that its family does not support, for a range whose
    ///   bounds are not in order, and for a family that has been dropped.
    /// - Errors of the engine.
    pub fn apply(&self, mutations: &[StoreMutation], durability: Durability) -> Result<()> {
        if let Some(mut held) = self.0.stripes.lock(mutations.iter().map(StoreMutation::key)) {
            self.commit(&mut held, mutations)?;
        }
        self.sync_if(durability)
    }

    /// Reads and writes partitions under their locks, so that no other writer interferes. `work`
    /// reads their state and returns the writes, which may only concern these partitions.
    ///
    /// # Errors
    /// Those of `work`, with which nothing is written; `InvalidRequest` for a mutation of another
    /// partition; those of [`apply`](CellStore::apply).
    pub fn update<T>(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        work: impl FnOnce(&StoreView) -> Result<(Vec<StoreMutation>, T)>,
    ) -> Result<T> {
        let Some(mut held) = self.0.stripes.lock(keys.iter().copied()) else {
            return Err(invalid("an update needs a key"));
        };
        let (mutations, result) = work(&self.view())?;
        if mutations.iter().any(|m| !keys.contains(&m.key())) {
            return Err(invalid("an update may write to the partitions only that it names"));
        }
        self.commit(&mut held, &mutations)?;
        drop(held);
        self.sync_if(durability)?;
        Ok(result)
    }

    fn commit(&self, held: &mut LockedStripes<'_>, mutations: &[StoreMutation]) -> Result<()> {
        if let [m] = mutations
            && self.commit_cells(held, m)?
        {
            return Ok(());
        }
        let mut plan = self.plan(held, mutations)?;
        self.drop_shadowed_ops(&mut plan)?;
        let values: usize = plan.entries.iter().map(|e| plan.value(e).len()).sum();
        let overhead = plan.entries.len() * ENTRY_OVERHEAD;
        let mut batch = Batch::with_capacity(plan.bytes.len() + values + overhead);
        let kinds = self.fill(&plan, &mut batch)?;
        self.write_views(&plan, &mut batch)?;
        for m in mutations {
            if let Some(t) = m.newest() {
                held.announce(Stripes::of(&m.key), t);
            }
        }
        held.raise(&self.0.schema, &mut batch)?;
        self.0.writer.write(batch)?;
        for (family, kinds) in kinds {
            family.0.state.recorded.fetch_or(kinds, Ordering::AcqRel);
        }
        held.committed();
        Ok(())
    }

    /// Writes one value, like [`apply`](CellStore::apply) with a mutation of one
    /// [`put`](StoreMutation::put).
    ///
    /// # Errors
    /// Those of [`apply`](CellStore::apply).
    pub fn put(
        &self,
        family: &StoreFamily,
        key: &[u8],
        place: &[u8],
        timestamp: i64,
        value: &[u8],
        durability: Durability,
    ) -> Result<()> {
        let cell = Cell { timestamp, state: CellState::Live(value) };
        if let Some(mut held) = self.0.stripes.lock(std::iter::once(key)) {
            let short = value.len() <= SHORT
                && self.commit_cell(&mut held, family, key, place, timestamp, |out| {
                    cell.encode(out)
                })?;
            if !short {
                let mut m = StoreMutation::new(key);
                m.put(family, place, timestamp, value);
                self.commit(&mut held, &[m])?;
            }
        }
        self.sync_if(durability)
    }

    /// Writes a mutation that needs no plan: all of its operations are cells, and they are newer than
    /// everything in its stripe. Returns false, without a write, for any other mutation.
    fn commit_cells(&self, held: &mut LockedStripes<'_>, m: &StoreMutation) -> Result<bool> {
        let ([family], stripe) = (&*m.families, Stripes::of(&m.key)) else { return Ok(false) };
        self.check_open(family)?;
        if family.is_counter() || family.is_followed() || !m.is_of_cells_in_order() {
            return Ok(false);
        }
        let times = || m.ops.iter().map(|op| op.timestamp);
        let (Some(oldest), Some(newest)) = (times().min(), times().max()) else { return Ok(false) };
        if held.newest(stripe).is_none_or(|n| oldest <= n) || !held.is_within(stripe, newest) {
            return Ok(false);
        }
        with_key(|key| -> Result<()> {
            family.layout().put_partition(&m.key, key)?;
            let (partition, tree) = (key.len(), family.tree());
            if let [op] = &*m.ops {
                key.extend_from_slice(m.bytes_at(op.place));
                return Ok(tree.put(key, m.bytes_at(op.value))?);
            }
            let bytes = m.bytes.len() + m.ops.len() * (partition + ENTRY_OVERHEAD);
            let mut batch = Batch::with_capacity(bytes);
            for op in &m.ops {
                key.truncate(partition);
                key.extend_from_slice(m.bytes_at(op.place));
                batch.put(tree, &**key, m.bytes_at(op.value))?;
            }
            Ok(self.0.writer.write(batch)?)
        })?;
        held.committed_one(stripe, newest);
        Ok(true)
    }

    /// Fast path for one cell that is newer than everything in its stripe. Returns false if the
    /// slow path is needed.
    #[inline]
    fn commit_cell(
        &self,
        held: &mut LockedStripes<'_>,
        family: &StoreFamily,
        key: &[u8],
        place: &[u8],
        timestamp: i64,
        put_value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool> {
        self.check_open(family)?;
        let stripe = Stripes::of(key);
        let newer =
            held.newest(stripe).is_some_and(|n| timestamp > n) && held.is_within(stripe, timestamp);
        if !newer || family.is_counter() || family.is_followed() {
            return Ok(false);
        }
        with_key(|entry| -> Result<()> {
            family.layout().put_partition(key, entry)?;
            entry.extend_from_slice(place);
            let value = entry.len();
            put_value(entry);
            Ok(family.tree().put(&entry[..value], &entry[value..])?)
        })?;
        held.committed_one(stripe, timestamp);
        Ok(true)
    }

    /// Returns the entries with full keys and stored values; only the winner for each key.
    fn plan<'a>(
        &self,
        held: &mut LockedStripes<'_>,
        mutations: &'a [StoreMutation],
    ) -> Result<WritePlan<'a>> {
        let count = mutations.iter().map(|m| m.ops.len()).sum();
        let bytes =
            mutations.iter().map(|m| m.bytes.len() + m.ops.len() * (m.key.len() + 48)).sum();
        let now = if mutations.iter().flat_map(|m| &m.ops).any(MutationOp::asks_for_time) {
            self.0.clock.micros()
        } else {
            0
        };
        let second = self.1.now.unwrap_or(now.div_euclid(1_000_000));
        let (entries, bytes) = (Vec::with_capacity(count), Vec::with_capacity(bytes));
        let mut plan = WritePlan { entries, bytes, now, second };
        let longest = mutations.iter().map(|m| m.key.len()).max().unwrap_or_default();
        let mut partition: Vec<u8> = Vec::with_capacity(longest + 32);
        for m in mutations {
            let newest = held.newest(Stripes::of(&m.key)).unwrap_or(i64::MAX);
            let mut of: Option<&StoreFamily> = None;
            for op in &m.ops {
                let family = &m.families[op.family];
                if of.is_none_or(|f| f.layout().partitioner() != family.layout().partitioner()) {
                    partition.clear();
                    family.layout().put_partition(&m.key, &mut partition)?;
                }
                if of.is_none_or(|f| !Arc::ptr_eq(&f.0, &family.0)) {
                    self.check_open(family)?;
                    of = Some(family);
                }
                plan.add(m, op, family, &partition, newest)?;
            }
        }
        plan.keep_winners();
        Ok(plan)
    }

    /// Removes entries that lose against existing data.
    fn drop_shadowed_ops(&self, plan: &mut WritePlan<'_>) -> Result<()> {
        let mut entries = std::mem::take(&mut plan.entries);
        let mut failed = None;
        entries.retain(|e| {
            let compares = !e.newest && matches!(e.kind, WriteKind::Cell | WriteKind::Deletion(_));
            let keep = if compares && failed.is_none() { self.wins(plan, e) } else { Ok(true) };
            keep.unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        plan.entries = entries;
        failed.map_or(Ok(()), Err)
    }

    fn wins(&self, plan: &WritePlan<'_>, e: &WriteEntry<'_>) -> Result<bool> {
        let key = plan.key(e);
        // A range is compared with others fragment by fragment.
        if e.kind != WriteKind::Deletion(Container::Range)
            && let Some(there) = e.family.tree().get(key)?
            && !StoredCell::decode(plan.value(e))?.beats(&StoredCell::decode(&there)?)
        {
            return Ok(false);
        }
        let covered = self.covering(StoreMoment::Now, e.family, key, e.partition)?;
        Ok(covered.is_none_or(|t| e.timestamp > t))
    }

    /// Adds entries to a batch. Returns the kinds of deletions that it records.
    fn fill<'a>(
        &self,
        plan: &WritePlan<'a>,
        batch: &mut Batch,
    ) -> Result<Vec<(&'a StoreFamily, u8)>> {
        let mut kinds = vec![];
        for e in &plan.entries {
            if let WriteKind::Deletion(what) = e.kind {
                self.erase_beneath(plan, e, what, batch)?;
                self.note_kind(e.family, what, batch, &mut kinds)?;
            }
        }
        let cells = || plan.entries.iter().filter(|e| e.kind == WriteKind::Cell);
        for e in cells().filter(|e| e.family.has_indexes()) {
            self.unindex(e.family, plan.key(e), e.partition, batch)?;
        }
        for e in cells() {
            batch.put(e.family.tree(), plan.key(e), plan.value(e))?;
            if e.family.has_indexes() {
                self.index_cell(e.family, plan.key(e), e.partition, plan.value(e), batch)?;
            }
        }
        for e in plan.entries.iter().filter(|e| matches!(e.kind, WriteKind::Deletion(_))) {
            if e.kind != WriteKind::Deletion(Container::Range) {
                batch.put(e.family.tree(), plan.key(e), plan.value(e))?;
            }
        }
        plan.put_ranges(batch)?;
        for e in plan.entries.iter().filter(|e| e.kind == WriteKind::Add) {
            batch.merge(e.family.tree(), plan.key(e), plan.value(e))?;
        }
        for e in &plan.entries {
            match e.kind {
                WriteKind::RemoveCounter => batch.delete(e.family.tree(), plan.key(e))?,
                WriteKind::RemoveCounters => {
                    let key = plan.key(e);
                    let end = [&key[..key.len() - 1], &[BEYOND]].concat();
                    erase(e.family.tree(), key, &end, batch)?;
                }
                _ => {}
            }
        }
        Ok(kinds)
    }

    /// Removes data that a deletion covers if nothing there can be newer, so that reads need not
    /// skip it. Removes little data one by one, and more with a range deletion. A few cells of a
    /// row are left to a compaction: each read skips them at most once. Removes the cells that it
    /// reads from the indexes.
    fn erase_beneath(
        &self,
        plan: &WritePlan<'_>,
        e: &WriteEntry<'_>,
        what: Container,
        batch: &mut Batch,
    ) -> Result<()> {
        let indexed = e.family.has_indexes();
        if !e.none_newer && !indexed {
            return Ok(());
        }
        let (key, tree) = (plan.key(e), e.family.tree());
        let (start, end) = container_range(key, e.partition, what, plan.value(e))?;
        let mut cursor = tree.cursor(start.clone()..end.clone())?;
        cursor.first()?;
        let mut met = 0;
        let mut few: Vec<Vec<u8>> = vec![];
        let takes_few = e.none_newer && matches!(what, Container::Range | Container::Complex);
        while cursor.is_valid() && met <= FEW {
            let covers = |s: StoredCell<'_>| s.timestamp() <= e.timestamp;
            if indexed && StoredCell::decode(cursor.value()).is_ok_and(covers) {
                self.unindex_stored(e.family, cursor.key(), e.partition, cursor.value(), batch)?;
            }
            if takes_few && *key != *cursor.key() {
                few.push(cursor.key().to_vec());
            }
            met += 1;
            cursor.next()?;
        }
        if met > FEW && e.none_newer {
            return Ok(batch.delete_range(tree, &start..&end)?);
        }
        few.iter().try_for_each(|key| Ok(batch.delete(tree, key)?))
    }

    /// Records that a family contains a kind of deletion.
    fn note_kind<'a>(
        &self,
        family: &'a StoreFamily,
        what: Container,
        batch: &mut Batch,
        noted: &mut Vec<(&'a StoreFamily, u8)>,
    ) -> Result<()> {
        let kind = match what {
            Container::Partition => PARTITIONS,
            Container::Row => ROWS,
            Container::Complex => COMPLEX,
            Container::Range => RANGES,
        };
        family.0.state.kinds.fetch_or(kind, Ordering::AcqRel);
        if family.0.state.recorded.load(Ordering::Acquire) & kind == 0 {
            batch.put(&self.0.schema, &kind_record(family.0.id, kind), &[])?;
            noted.push((family, kind));
        }
        Ok(())
    }
}

/// Removes the keys of a range: one by one if they are few.
fn erase(tree: &Tree, start: &[u8], end: &[u8], batch: &mut Batch) -> Result<()> {
    let mut cursor = tree.cursor(start..end)?;
    cursor.first()?;
    let mut keys = vec![];
    while cursor.is_valid() {
        if keys.len() == FEW {
            return Ok(batch.delete_range(tree, start..end)?);
        }
        keys.push(cursor.key().to_vec());
        cursor.next()?;
    }
    keys.iter().try_for_each(|k| Ok(batch.delete(tree, k)?))
}

impl MutationOp {
    fn is_increment(&self) -> bool {
        matches!(self.kind, MutationKind::Add { .. } | MutationKind::AddCell)
    }

    fn asks_for_time(&self) -> bool {
        !matches!(
            self.kind,
            MutationKind::Cell
                | MutationKind::AddCell
                | MutationKind::Container { local: Some(_), .. }
        )
    }
}

impl StoreMutation {
    /// Reports whether all operations are cells, at positions that ascend and so differ.
    fn is_of_cells_in_order(&self) -> bool {
        let is_cell = |op: &MutationOp| op.kind == MutationKind::Cell;
        let places = self.ops.iter().map(|op| self.bytes_at(op.place));
        self.ops.iter().all(is_cell) && places.is_sorted_by(|a, b| a < b)
    }

    /// Returns its largest timestamp.
    fn newest(&self) -> Option<i64> {
        self.ops.iter().filter(|op| !op.is_increment()).map(|op| op.timestamp).max()
    }
}

impl<'a> WritePlan<'a> {
    fn add(
        &mut self,
        m: &'a StoreMutation,
        op: &MutationOp,
        family: &'a StoreFamily,
        partition: &[u8],
        newest: i64,
    ) -> Result<()> {
        let place = m.bytes_at(op.place);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(partition);
        let kind = match op.kind {
            MutationKind::Cell | MutationKind::Expiring { .. } if family.is_counter() => {
                return Err(invalid("invalid operation for a family of counters: a plain value"));
            }
            MutationKind::Add { .. } | MutationKind::AddCell if !family.is_counter() => {
                return Err(invalid(
                    "invalid operation for a family of plain values: an increment",
                ));
            }
            MutationKind::Delete if family.is_counter() => WriteKind::RemoveCounter,
            MutationKind::Add { .. } | MutationKind::AddCell => WriteKind::Add,
            MutationKind::Cell | MutationKind::Expiring { .. } | MutationKind::Delete => {
                WriteKind::Cell
            }
            MutationKind::Container { what: Container::Range, .. } if family.is_counter() => {
                return Err(invalid("invalid operation for a family of counters: a range of rows"));
            }
            MutationKind::Container { .. } if family.is_counter() => WriteKind::RemoveCounters,
            MutationKind::Container { what, .. } => WriteKind::Deletion(what),
        };
        if let MutationKind::Container { what: Container::Range, .. } = op.kind {
            if place >= m.bytes_at(op.value) {
                self.bytes.truncate(key);
                return Ok(()); // there is nothing between
            }
            self.bytes.push(RANGES_SECTION);
        }
        self.bytes.extend_from_slice(place);
        match op.kind {
            MutationKind::Container { what: Container::Range, .. } => {}
            MutationKind::Container { .. } => self.bytes.push(DELETION),
            _ => {}
        }
        let end = self.bytes.len();
        let value = self.value_of(m, op);
        let key = (key, end);
        let timestamp = op.timestamp;
        let (newest, none_newer) = (timestamp > newest, timestamp >= newest);
        self.entries.push(WriteEntry {
            family,
            kind,
            timestamp,
            newest,
            none_newer,
            partition: partition.len(),
            key,
            value,
        });
        Ok(())
    }

    fn value_of(&mut self, m: &'a StoreMutation, op: &MutationOp) -> EntryValue<'a> {
        let (timestamp, start) = (op.timestamp, self.bytes.len());
        match op.kind {
            MutationKind::Cell | MutationKind::AddCell => {
                return EntryValue::Mutation(m.bytes_at(op.value));
            }
            MutationKind::Expiring { ttl } => {
                let state = CellState::Expiring {
                    value: m.bytes_at(op.value),
                    ttl,
                    expires: self.second.saturating_add(ttl as i64),
                };
                Cell { timestamp, state }.encode(&mut self.bytes);
            }
            MutationKind::Delete => {
                Cell { timestamp, state: CellState::Tombstone { deleted: self.second } }
                    .encode(&mut self.bytes)
            }
            MutationKind::Add { delta } => {
                Cell { timestamp: self.now, state: CellState::Counter(delta) }
                    .encode(&mut self.bytes)
            }
            MutationKind::Container { what, local } => {
                let deletion = CellDeletion { timestamp, local: local.unwrap_or(self.second) };
                match what {
                    Container::Range => {
                        deletion.encode_range(m.bytes_at(op.value), &mut self.bytes)
                    }
                    _ => deletion.encode(&mut self.bytes),
                }
            }
        }
        EntryValue::Plan(start, self.bytes.len())
    }

    /// Retains only the winner of several cells or deletions for one key.
    fn keep_winners(&mut self) {
        let id = |e: &WriteEntry<'_>| Arc::as_ptr(&e.family.0) as usize;
        let WritePlan { entries, bytes, .. } = self;
        let key = |e: &WriteEntry<'_>| &bytes[e.key.0..e.key.1];
        let order = |a: &WriteEntry<'_>, b: &WriteEntry<'_>| {
            id(a).cmp(&id(b)).then_with(|| key(a).cmp(key(b)))
        };
        if entries.is_sorted_by(|a, b| order(a, b).is_lt()) {
            return;
        }
        entries.sort_by(order);
        entries.dedup_by(|later, kept| {
            let same = order(later, kept).is_eq()
                && kept.kind == later.kind
                && !matches!(kept.kind, WriteKind::Add | WriteKind::Deletion(Container::Range));
            let values = (later.value.bytes(bytes), kept.value.bytes(bytes));
            let wins = match (StoredCell::decode(values.0), StoredCell::decode(values.1)) {
                (Ok(later), Ok(kept)) => later.beats(&kept),
                _ => false,
            };
            if same && wins {
                std::mem::swap(later, kept);
            }
            same
        });
    }
}
