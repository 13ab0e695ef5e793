//! Sizes of a table's data, from a full read or from arcs of the token ring.
//!
//! The check measures only live data, as the target would have it after a migration, and the
//! tombstones that a read steps over. Bytes count keys, clustering values, names of elements and
//! values, without compression and without the overhead of each database. Memory does not grow with
//! the table: only the maximum of each measure and its location are in memory.

use std::ops::Bound;

use firn_cql::Session;
use firn_cql::internals::catalog::{PartitionKey, TableColumn, TableSchema};
use firn_cql::internals::values::literal;
use firn_cql::quote_if_needed;
use firn_tools::output::{Done, Failure};
use firn_wide::internals::cell::CellState;
use firn_wide::internals::store::{Partitions, RowItem, StoreSlice};
use firn_wide::{Partitioner, Type};
use serde_json::{Value, json};

use super::finding::shortened;
use firn_table_events::{MOST_LIST_RUNS, model_trouble};

/// Number of evenly spread arcs of a sample.
const ARCS: u64 = 64;
/// Progress interval, in partitions.
const REPORTED: u64 = 64;
/// Shown characters of a key.
const MAX_SHOWN_KEY: usize = 120;

/// Maximum of a measure, and its location.
#[derive(Clone, Debug, Default)]
pub struct Greatest {
    /// The maximum.
    pub figure: u64,
    /// Key of its partition.
    pub key: Vec<u8>,
    /// Its column, if it belongs to one.
    pub column: Option<String>,
}

impl Greatest {
    /// Counts an occurrence; the first is shown.
    fn count(&mut self, key: &[u8], column: Option<&str>) {
        if self.figure == 0 {
            (self.key, self.column) = (key.to_vec(), column.map(str::to_owned));
        }
        self.figure += 1;
    }

    fn see(&mut self, figure: u64, key: &[u8], column: impl FnOnce() -> Option<String>) {
        if figure > self.figure {
            self.figure = figure;
            self.key.clear();
            self.key.extend_from_slice(key);
            self.column = column();
        }
    }
}

/// Sizes of a table.
#[derive(Clone, Debug, Default)]
pub struct TableSizes {
    pub partitions: u64,
    pub rows: u64,
    pub cells: u64,
    pub tombstones: u64,
    pub bytes: u64,
    pub partition_bytes: Greatest,
    pub partition_rows: Greatest,
    pub partition_tombstones: Greatest,
    pub row_bytes: Greatest,
    pub cell_bytes: Greatest,
    pub collection_elements: Greatest,
    pub key_bytes: Greatest,
    /// Latest expiry, in seconds since 1970.
    pub last_expiry: Greatest,
    /// Number of lists whose elements expire at different times, with the location of the first.
    pub mixed_lists: Greatest,
    /// Number of those lists with more expiry times than a migration preserves.
    pub whole_lists: Greatest,
}

impl TableSizes {
    /// Returns the measures with their names, for programs.
    pub fn measures(&self) -> [(&'static str, &Greatest); 8] {
        [
            ("partition_bytes", &self.partition_bytes),
            ("partition_rows", &self.partition_rows),
            ("partition_tombstones", &self.partition_tombstones),
            ("row_bytes", &self.row_bytes),
            ("cell_bytes", &self.cell_bytes),
            ("collection_elements", &self.collection_elements),
            ("key_bytes", &self.key_bytes),
            ("last_expiry", &self.last_expiry),
        ]
    }

    /// Returns the sizes as JSON.
    pub fn json(&self, table: &TableSchema) -> Value {
        let greatest = |g: &Greatest| json!({"figure": g.figure, "key": shown_key(table, &g.key), "column": g.column});
        let found = self.measures().into_iter().filter(|(_, g)| g.figure > 0);
        json!({
            "keyspace": table.keyspace, "table": table.name, "partitions": self.partitions, "rows": self.rows,
            "cells": self.cells, "tombstones": self.tombstones, "bytes": self.bytes,
            "lists_of_mixed_lives": self.mixed_lists.figure,
            "greatest": found.map(|(name, g)| (name.to_owned(), greatest(g))).collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Returns `keyspace.table`, as statements write it.
pub fn full_name(table: &TableSchema) -> String {
    format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name))
}

/// Returns the key of a partition as a condition of CQL: `k = 1 AND l = 'a'`.
pub fn shown_key(table: &TableSchema, key: &[u8]) -> String {
    let mut parts = PartitionKey::default();
    if parts.set(table, key).is_err() {
        return shortened(&format!("0x{}", firn_wide::internals::types::hex(key)), MAX_SHOWN_KEY);
    }
    let part = |(at, column): (usize, &TableColumn)| {
        let name = quote_if_needed(&column.name).into_owned();
        format!("{name} = {}", literal(&column.of.value_type, parts.part(at)))
    };
    let all: Vec<String> = table.partition().iter().enumerate().map(part).collect();
    shortened(&all.join(" AND "), MAX_SHOWN_KEY)
}

/// Returns the ranges of the ring to read: all of it, or this percentage in arcs.
///
/// # Errors
/// A sample with an order-preserving partitioner: no part would be representative.
pub fn token_ranges(partitioner: Partitioner, percent: Option<f64>) -> Done<Vec<Partitions>> {
    let Some(percent) = percent else { return Ok(vec![Partitions::all()]) };
    if !matches!(partitioner, Partitioner::Murmur3 | Partitioner::Random) {
        return Err(Failure::with_next(
            format!(
                "a sample of {partitioner} is not representative: it keeps keys in their own order"
            ),
            "leave out --sample",
        ));
    }
    // Tokens of Random begin with a 0 bit: they are in the lower half of 64-bit values.
    let ring = if partitioner == Partitioner::Random { u64::MAX / 2 } else { u64::MAX };
    let (step, width) = (ring / ARCS, (ring as f64 / ARCS as f64 * percent / 100.0) as u64);
    let arc = |n: u64| {
        let (from, until) = (n * step, (n * step).saturating_add(width.max(1)));
        let end = |token: u64| token.to_be_bytes().to_vec();
        Partitions { from: Bound::Included(end(from)), until: Bound::Excluded(end(until)) }
    };
    Ok((0..ARCS).map(arc).collect())
}

/// Returns the position of a partition on the ring, from 0 to 1.
fn progress_of(partition: &[u8], partitioner: Partitioner) -> f64 {
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(partition) {
        *to = *from;
    }
    let ring = if partitioner == Partitioner::Random { u64::MAX / 2 } else { u64::MAX };
    (u64::from_be_bytes(first) as f64 / ring as f64).min(1.0)
}

/// Measures these ranges of a table. Calls `on_progress` with the position on the ring, as progress.
pub fn measure(
    session: &Session,
    table: &TableSchema,
    token_ranges: &[Partitions],
    on_progress: &mut dyn FnMut(f64),
) -> Done<TableSizes> {
    let engine = session.engine();
    let family = engine.family(table).map_err(|e| Failure::new(e.to_string()))?;
    let mut walk = SizeScan::new(table);
    // A snapshot is not needed; writes may happen during the read.
    let view = engine.store().latest();
    for stretch in token_ranges {
        let mut scan = view.scan(&family, stretch, &StoreSlice::all()).map_err(model_trouble)?;
        let mut stepped_over = 0;
        while scan.next_partition().map_err(model_trouble)? {
            walk.key.clear();
            walk.key.extend_from_slice(scan.key());
            while let Some(item) = scan.next().map_err(model_trouble)? {
                walk.item(&item);
            }
            let tombstones = scan.tombstones() - stepped_over;
            stepped_over = scan.tombstones();
            walk.end_of_partition(tombstones);
            if walk.sizes.partitions.is_multiple_of(REPORTED) {
                on_progress(progress_of(scan.partition(), engine.partitioner()));
            }
        }
    }
    Ok(walk.sizes)
}

/// State of the measurement of a partition.
struct SizeScan<'t> {
    table: &'t TableSchema,
    /// Whether a value may be a frozen collection.
    has_frozen: bool,
    sizes: TableSizes,
    key: Vec<u8>,
    bytes: u64,
    rows: u64,
    row_bytes: u64,
    /// Name of the column whose elements are being read, their number and bytes.
    name: Vec<u8>,
    elements: u64,
    element_bytes: u64,
    /// Expiry of the last element in seconds, and the number of changes of it along the column.
    expires: Option<i64>,
    changes: usize,
    any: bool,
}

impl<'t> SizeScan<'t> {
    fn new(table: &'t TableSchema) -> SizeScan<'t> {
        SizeScan {
            table,
            has_frozen: table.columns().iter().any(|c| c.of.is_collection() && !c.of.multicell),
            sizes: TableSizes::default(),
            key: vec![],
            bytes: 0,
            rows: 0,
            row_bytes: 0,
            name: vec![],
            elements: 0,
            element_bytes: 0,
            expires: None,
            changes: 0,
            any: false,
        }
    }

    /// Returns the column of a cell.
    fn column(&self, name: &[u8]) -> Option<&'t TableColumn> {
        self.table.column_by_id(self.table.column_at(name).ok()??)
    }

    fn item(&mut self, item: &RowItem<'_>) {
        let Some(cell) = item.cell() else { return };
        if item.new_row {
            self.end_of_row();
            self.row_bytes += item.place.row.len() as u64;
            self.rows += u64::from(!item.place.is_static);
        }
        self.any = true;
        self.sizes.cells += 1;
        let value = cell.value();
        let path = item.place.path.map_or(0, <[u8]>::len);
        let bytes = (value.len() + path) as u64;
        self.row_bytes += bytes;
        if let CellState::Expiring { expires, .. } = cell.state
            && let Ok(expires) = u64::try_from(expires)
        {
            self.sizes.last_expiry.see(expires, &self.key, || None);
        }
        let name = item.place.name;
        if item.place.path.is_some() {
            if self.name != name {
                self.end_of_collection();
                self.name.extend_from_slice(name);
            }
            let expires = match cell.state {
                CellState::Expiring { expires, .. } => Some(expires),
                _ => None,
            };
            self.changes += usize::from(self.elements > 0 && expires != self.expires);
            self.expires = expires;
            self.elements += 1;
            self.element_bytes += bytes;
            return;
        }
        self.end_of_collection();
        let (table, key) = (self.table, &self.key);
        let column = || table.column_by_id(table.column_at(name).ok()??);
        let called = || column().map(|c| c.name.clone());
        self.sizes.cell_bytes.see(bytes, key, called);
        if self.has_frozen
            && let Some(count) = value.first_chunk::<4>()
            && column().is_some_and(|c| c.of.is_collection())
        {
            let count = u64::from(u32::from_be_bytes(*count));
            self.sizes.collection_elements.see(count, key, called);
        }
    }

    fn end_of_collection(&mut self) {
        if self.elements > 0 {
            let called = self.column(&self.name).map(|c| c.name.clone());
            let is_collection = self.column(&self.name).is_none_or(|c| c.of.is_collection());
            if is_collection {
                self.sizes.collection_elements.see(self.elements, &self.key, || called.clone());
            }
            let is_list = |c: &TableColumn| matches!(c.of.value_type, Type::List(_));
            if self.changes > 0 && self.column(&self.name).is_some_and(is_list) {
                self.sizes.mixed_lists.count(&self.key, called.as_deref());
                if self.changes >= MOST_LIST_RUNS {
                    self.sizes.whole_lists.count(&self.key, called.as_deref());
                }
            }
            self.sizes.cell_bytes.see(self.element_bytes, &self.key, || called);
        }
        self.changes = 0;
        self.name.clear();
        (self.elements, self.element_bytes) = (0, 0);
    }

    fn end_of_row(&mut self) {
        self.end_of_collection();
        self.sizes.row_bytes.see(self.row_bytes, &self.key, || None);
        self.bytes += std::mem::take(&mut self.row_bytes);
    }

    fn end_of_partition(&mut self, tombstones: u64) {
        self.end_of_row();
        let (bytes, rows) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.rows));
        self.sizes.tombstones += tombstones;
        self.sizes.partition_tombstones.see(tombstones, &self.key, || None);
        if !std::mem::take(&mut self.any) {
            return;
        }
        let bytes = bytes + self.key.len() as u64;
        self.sizes.partitions += 1;
        self.sizes.rows += rows;
        self.sizes.bytes += bytes;
        self.sizes.partition_bytes.see(bytes, &self.key, || None);
        self.sizes.partition_rows.see(rows, &self.key, || None);
        self.sizes.key_bytes.see(self.key.len() as u64, &self.key, || None);
    }
}
