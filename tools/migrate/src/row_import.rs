//! Writes rows of a cluster, as CQL returns them, to a Firn store: each cell with its write time
//! and expiration.
//!
//! Invariants: the written data depends only on the rows read, so reading a range again changes
//! nothing. A list element is named by its position, a row marker has the newest write time of its
//! cells, and a counter is set to its value at the cluster. A table with counters or lists begins
//! empty, so all of their data is from the cluster.

use std::sync::Arc;

use firn_cql::Session;
use firn_cql::internals::catalog::{TableColumn, TableSchema};
use firn_kv::Durability;
use firn_tools::output::{Done, Failure, things};
use firn_wide::Type;
use firn_wide::internals::cell::{Cell, CellState};
use firn_wide::internals::store::{CellStore, StoreFamily, StoreMutation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Builder;

use crate::cells::{CqlRow, ReportedCell, row_text};
use crate::definitions::full_name;
use firn_table_events::{cql_trouble, model_trouble};

/// Cells that are written at once.
const CHUNK: usize = 1000;
/// Bytes of values at which a chunk ends early.
const CHUNK_BYTES: usize = 4 << 20;
/// 1 January 2010 in ticks of 100 ns since 15 October 1582: elements that are prepended later get
/// older names, appended ones newer names.
const LIST_TICKS: u64 = (1_262_304_000 + 12_219_292_800) * 10_000_000;
/// Node id in the names of list elements: not a hardware address, since the multicast bit is set.
const LIST_NODE: [u8; 6] = [1, 0, 0, 0, 0, 0];

/// Statistics of the copied data, including values that CQL does not return and that were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportStats {
    /// Partitions.
    pub partitions: u64,
    /// Rows.
    pub rows: u64,
    /// Cells.
    pub cells: u64,
    /// Rows whose marker got the newest write time of their cells.
    pub markers: u64,
    /// Rows without cells, whose marker got the time of the copy.
    pub bare_markers: u64,
    /// Cells for which the cluster does not return write time and TTL. They get the newest write
    /// time of their row, or the time of the copy, and no TTL.
    #[serde(rename = "untold_times")]
    pub unknown_times: u64,
    /// List elements, which get new names.
    pub elements: u64,
}

impl ImportStats {
    /// Adds the statistics of another part.
    pub fn add(&mut self, other: &ImportStats) {
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.cells += other.cells;
        self.markers += other.markers;
        self.bare_markers += other.bare_markers;
        self.unknown_times += other.unknown_times;
        self.elements += other.elements;
    }

    /// Formats the copied amounts.
    pub fn describe(&self) -> String {
        format!(
            "{}, {} and {}",
            things(self.partitions, "partition", "partitions"),
            things(self.rows, "row", "rows"),
            things(self.cells, "cell", "cells"),
        )
    }

    /// Formats the numbers of chosen values.
    pub fn made_up(&self) -> Vec<String> {
        let mut all = vec![];
        let mut say = |n: u64, one: &str, many: &str, what: &str| {
            if n > 0 {
                all.push(format!("{}: {what}", things(n, one, many)));
            }
        };
        say(
            self.markers,
            "row marker",
            "row markers",
            "each has the newest write time of its row's cells, and their longest time to live",
        );
        say(
            self.bare_markers,
            "row of a key alone",
            "rows of keys alone",
            "each has the time of the copy as its write time, and no time to live",
        );
        say(
            self.unknown_times,
            "cell of a collection or user type",
            "cells of collections or user types",
            "the cluster does not tell their times, so each has the newest write time that its row has, or else the time of the copy, and no time to live",
        );
        say(self.elements, "element of a list", "elements of lists", "each has a new name");
        all
    }

    /// Returns the statistics as JSON.
    pub fn json(&self) -> Value {
        json!({
            "partitions": self.partitions, "rows": self.rows, "cells": self.cells,
            "made_up": {
                "markers": self.markers, "markers_of_keys_alone": self.bare_markers,
                "times": self.unknown_times, "names_of_list_elements": self.elements,
            },
        })
    }
}

/// Writes rows of a cluster to the same table of a store.
pub struct RowImporter<'a> {
    store: &'a CellStore,
    family: StoreFamily,
    schema: Arc<TableSchema>,
    /// The end of a cell's store key, by column number, and that of the marker.
    ends: Vec<Vec<u8>>,
    marker: Vec<u8>,
    /// Time of the copy in microseconds since 1970.
    copied: i64,
    mutations: Vec<StoreMutation>,
    /// Numbers of pending mutations' operations, and of their bytes.
    waiting: (usize, usize),
    /// Partition key of the last row.
    key: Option<Vec<u8>>,
    /// Statistics so far.
    pub counts: ImportStats,
}

impl std::fmt::Debug for RowImporter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowTaker").field("family", &self.family).finish_non_exhaustive()
    }
}

impl<'a> RowImporter<'a> {
    /// Prepares writing to this table. `copied`: the time of the copy in microseconds since 1970,
    /// the same for a resumed copy.
    ///
    /// # Errors
    /// A dropped table.
    pub fn new(
        session: &'a Session,
        schema: Arc<TableSchema>,
        copied: i64,
    ) -> Done<RowImporter<'a>> {
        let engine = session.engine();
        let family = engine.family(&schema).map_err(|e| cql_trouble(&e))?;
        Ok(RowImporter {
            store: engine.store(),
            family,
            ends: schema.columns().iter().map(|c| schema.cell_name(Some(c))).collect(),
            marker: schema.cell_name(None),
            schema,
            copied,
            mutations: vec![],
            waiting: (0, 0),
            key: None,
            counts: ImportStats::default(),
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// A value that is invalid for its column's type; errors of the store.
    pub fn take(&mut self, row: &CqlRow) -> Done {
        if self.key.as_ref() != Some(&row.key) {
            self.key = Some(row.key.clone());
            self.counts.partitions += 1;
        }
        if self.mutations.last().is_none_or(|m| m.key() != row.key) {
            self.mutations.push(StoreMutation::new(&row.key));
            self.waiting.0 += 1;
        }
        let newest = row.cells.iter().filter_map(|c| c.written).max();
        if row.clustering.is_some() {
            self.counts.rows += 1;
            if !self.schema.is_counter() {
                self.mark(row, newest);
            }
        }
        for cell in &row.cells {
            self.cell(row, cell, newest)?;
        }
        match self.waiting.0 < CHUNK && self.waiting.1 < CHUNK_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Writes the row marker, with the longest life of its cells.
    fn mark(&mut self, row: &CqlRow, newest: Option<i64>) {
        let expires = row.cells.iter().map(|c| c.expires).reduce(|a, b| Some(a?.max(b?)));
        match row.cells.is_empty() {
            true => self.counts.bare_markers += 1,
            false => self.counts.markers += 1,
        }
        let place = [&*row.place, &self.marker].concat();
        let cell = ReportedCell {
            column: 0,
            path: None,
            value: vec![],
            written: newest,
            expires: expires.flatten(),
        };
        self.put(&place, &cell, newest);
    }

    fn cell(&mut self, row: &CqlRow, cell: &ReportedCell, newest: Option<i64>) -> Done {
        let schema = self.schema.clone();
        let column = &schema.columns()[cell.column];
        let mut place = [&*row.place, &self.ends[cell.column]].concat();
        let path = match (&column.of.value_type, &cell.path) {
            (Type::List(_), Some(at)) => Some(list_name(at).to_vec()),
            (_, path) => path.clone(),
        };
        let mut valid = || -> Result<(), String> {
            if let (Some(of), Some(path)) = (column.of.path_type(), &path) {
                let put = self.family.layout().put_path(&of, path, &mut place);
                put.map_err(|e| e.to_string())?;
            }
            column.of.cell_type(path.as_deref()).validate(&cell.value).map_err(|e| e.0)
        };
        valid().map_err(|why| self.refused(row, column, &why))?;
        self.counts.cells += 1;
        self.counts.elements +=
            u64::from(column.of.multicell && matches!(column.of.value_type, Type::List(_)));
        if column.is_counter() {
            return self.count(row, &place, cell);
        }
        self.counts.unknown_times += u64::from(cell.written.is_none());
        self.put(&place, cell, newest);
        Ok(())
    }

    fn refused(&self, row: &CqlRow, column: &TableColumn, why: &str) -> Failure {
        let table = full_name(&self.schema.keyspace, &self.schema.name);
        let what = format!("{table}, {}, {}: {why}", row_text(&self.schema, row), column.name);
        Failure::with_next(
            what,
            "the cluster has a value there that is none of the column's type: correct it there, or leave the table out (--tables)",
        )
    }

    fn put(&mut self, place: &[u8], cell: &ReportedCell, newest: Option<i64>) {
        let timestamp = cell.written.or(newest).unwrap_or(self.copied);
        let second = self.store.now() / 1_000_000;
        let state = match cell.expires {
            None => CellState::Live(&cell.value),
            Some(expires) => {
                let ttl = u32::try_from(expires.saturating_sub(second)).unwrap_or(0).max(1);
                CellState::Expiring { value: &cell.value, ttl, expires }
            }
        };
        self.change(place, Cell { timestamp, state });
    }

    /// Sets a counter to its value.
    fn count(&mut self, row: &CqlRow, place: &[u8], cell: &ReportedCell) -> Done {
        let sum = <[u8; 8]>::try_from(&*cell.value).map_or(0, i64::from_be_bytes);
        let known = self.store.get(&self.family, &row.key, place).map_err(model_trouble)?;
        let known = known.map(|k| k.cell().counter().unwrap_or(0));
        if known != Some(sum) {
            let timestamp = cell.written.unwrap_or(self.copied);
            let more = sum.wrapping_sub(known.unwrap_or(0));
            self.change(place, Cell { timestamp, state: CellState::Counter(more) });
        }
        Ok(())
    }

    fn change(&mut self, place: &[u8], cell: Cell<'_>) {
        if let Some(m) = self.mutations.last_mut() {
            m.put_cell(&self.family, place, cell);
            self.waiting.0 += 1;
            self.waiting.1 += place.len() + cell.value().len();
        }
    }

    /// Writes pending mutations.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn flush(&mut self) -> Done {
        self.mutations.retain(|m| !m.is_empty());
        self.store.apply(&self.mutations, Durability::Process).map_err(model_trouble)?;
        self.mutations.clear();
        self.waiting = (0, 0);
        Ok(())
    }
}

/// Returns the name of the list element at a position.
fn list_name(at: &[u8]) -> [u8; 16] {
    let at = <[u8; 4]>::try_from(at).map_or(0, u32::from_be_bytes);
    let name = Builder::from_gregorian_timestamp(LIST_TICKS + u64::from(at), 0, &LIST_NODE);
    name.into_uuid().into_bytes()
}
