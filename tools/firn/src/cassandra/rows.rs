//! Converts the rows of a node's files to mutations of the store.

use std::path::{Path, PathBuf};

use firn_cassandra::{
    NodeBound, NodeCell, NodeCellState, NodeDeletion, NodeEvent, NodeMarker, NodeRow,
};
use firn_cql::internals::catalog::{ColumnType, TableColumn, TableSchema};
use firn_kv::Durability;
use firn_table_events::{counts_told, model_trouble};
use firn_tools::output::{Done, Failure};
use firn_wide::Type;
use firn_wide::internals::cell::{Cell, CellDeletion, CellState};
use firn_wide::internals::key::STATIC;
use firn_wide::internals::store::{CellStore, StoreFamily, StoreMutation};
use serde_json::{Value, json};

use super::define::TablePlan;
use super::source::NodeSource;

/// Value bytes after which a chunk ends early.
const CHUNK_BYTES: usize = 4 << 20;

/// Totals of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTotals {
    partitions: u64,
    rows: u64,
    /// Cells, including tombstones.
    pub cells: u64,
    deletions: u64,
    /// Cells of columns that the table does not have.
    pub left_out: u64,
    /// Cells and rows whose expiry overflowed at the node.
    pub overflowed: u64,
}

impl NodeTotals {
    /// Returns the totals as text.
    pub fn describe(&self) -> String {
        counts_told(self.partitions, self.rows, self.cells, self.deletions)
    }

    /// Returns the totals as JSON.
    pub fn json(&self, plan: &TablePlan, files: usize) -> Value {
        json!({
            "keyspace": plan.keyspace, "table": plan.table, "files": files, "partitions": self.partitions, "rows": self.rows,
            "cells": self.cells, "deletions": self.deletions, "left_out": self.left_out,
            "overflowed": self.overflowed,
        })
    }
}

/// Target column of the cells of a file's column.
#[derive(Clone)]
pub struct NodeTarget {
    /// Last part of the cells' keys.
    pub end: Vec<u8>,
    of: ColumnType,
    path: Option<Type>,
}

/// Writes the content of files into a table.
pub struct NodeWriter<'a> {
    store: &'a CellStore,
    family: StoreFamily,
    schema: &'a TableSchema,
    chunk: usize,
    durability: Durability,
    /// Current file, for messages.
    file: PathBuf,
    statics: Vec<Option<NodeTarget>>,
    regulars: Vec<Option<NodeTarget>>,
    marker: Vec<u8>,
    mutations: Vec<StoreMutation>,
    /// Operations and bytes in the mutations.
    waiting: (usize, usize),
    flushed: bool,
    /// Start of the deleted range that is open at the current position of the file.
    open: Option<Vec<u8>>,
    /// Totals so far.
    pub totals: NodeTotals,
}

impl<'a> NodeWriter<'a> {
    /// Creates a writer into this table.
    pub fn new(
        store: &'a CellStore,
        family: StoreFamily,
        schema: &'a TableSchema,
        chunk: usize,
        durability: Durability,
    ) -> NodeWriter<'a> {
        NodeWriter {
            store,
            family,
            schema,
            chunk,
            durability,
            file: PathBuf::new(),
            statics: vec![],
            regulars: vec![],
            marker: schema.cell_name(None),
            mutations: vec![],
            waiting: (0, 0),
            flushed: false,
            open: None,
            totals: NodeTotals::default(),
        }
    }

    /// Fails if the table has rows: imported counters cannot be merged with existing ones.
    pub fn check_empty(&self, keyspace: &str, table: &str) -> Done {
        match self.family.tree().is_empty()? {
            true => Ok(()),
            false => Err(Failure::with_next(
                format!("{keyspace}.{table} has counters already, which an import would add to"),
                "import all files of a table of counters at once, into an empty table: `TRUNCATE` empties it",
            )),
        }
    }

    /// Maps the columns of a file to columns of the table.
    pub fn targets(&self, file: &NodeSource, of_static: bool) -> Vec<Option<NodeTarget>> {
        let target = |column: &TableColumn| NodeTarget {
            end: self.schema.cell_name(Some(column)),
            of: column.of.clone(),
            path: column.of.path_type(),
        };
        let find = |name: &[u8]| self.schema.column(std::str::from_utf8(name).ok()?).map(target);
        file.table.header.columns(of_static).iter().map(|c| find(&c.name)).collect()
    }

    /// Sets the file that errors name.
    pub fn blame(&mut self, file: &Path) {
        self.file = file.to_path_buf();
    }

    /// Begins a file.
    pub fn file(&mut self, file: &NodeSource) {
        self.blame(&file.table.data);
        self.statics = self.targets(file, true);
        self.regulars = self.targets(file, false);
    }

    fn at<T>(&self, position: u64, done: firn_wide::internals::base::error::Result<T>) -> Done<T> {
        done.map_err(|e| match e {
            firn_wide::Error::Store(_) => model_trouble(e),
            other => self.refuse(position, &other.to_string()),
        })
    }

    /// Returns the failure for an invalid part of the file.
    pub fn refuse(&self, position: u64, why: &str) -> Failure {
        Failure::with_next(
            format!("{}, decompressed byte {position}: {why}", self.file.display()),
            "the table cannot have such a row; `sstable-dump cassandra FILE` shows it",
        )
    }

    /// Processes the next event of a file.
    pub fn event(&mut self, event: &NodeEvent) -> Done {
        match event {
            NodeEvent::Partition(p) => {
                self.partition(&p.key)?;
                if let Some(d) = p.deletion {
                    self.change(0, |m, family| m.delete_as(family, &[], deletion(d)));
                    self.totals.deletions += 1;
                }
            }
            NodeEvent::Row(row) => self.row(row)?,
            NodeEvent::Marker(m) => self.marker(m)?,
        }
        self.make_room()
    }

    /// Begins a partition.
    pub fn partition(&mut self, key: &[u8]) -> Done {
        self.totals.partitions += 1;
        self.mutations.push(StoreMutation::new(key));
        Ok(())
    }

    /// Writes to the current partition.
    fn change(
        &mut self,
        bytes: usize,
        write: impl for<'m> FnOnce(&'m mut StoreMutation, &StoreFamily) -> &'m mut StoreMutation,
    ) {
        if let Some(m) = self.mutations.last_mut() {
            write(m, &self.family);
            self.waiting.0 += 1;
            self.waiting.1 += bytes;
        }
    }

    /// Returns the key of a row within its partition, a prefix of the keys of its cells.
    pub fn row_place(&self, row: &NodeRow) -> Done<Vec<u8>> {
        if row.is_static {
            return Ok(vec![STATIC]);
        }
        let mut place = vec![];
        let values = self.values(&row.clustering, row.position)?;
        let done = self.family.layout().put_row(&values, &mut place);
        self.at(row.position, done)?;
        Ok(place)
    }

    fn values<'v>(&self, values: &'v [Option<Vec<u8>>], position: u64) -> Done<Vec<&'v [u8]>> {
        let all: Option<Vec<&[u8]>> = values.iter().map(Option::as_deref).collect();
        let null = || firn_wide::internals::base::error::invalid("a clustering column is null");
        self.at(position, all.ok_or_else(null))
    }

    /// Fails if the bytes are not a value of the type.
    fn check(&self, of: &Type, value: &[u8], position: u64) -> Done {
        let valid = of.validate(value);
        self.at(position, valid.map_err(|e| firn_wide::internals::base::error::invalid(e.0)))
    }

    fn row(&mut self, row: &NodeRow) -> Done {
        self.totals.rows += 1;
        let place = self.row_place(row)?;
        if let Some(d) = row.deletion {
            self.change(place.len(), |m, family| m.delete_as(family, &place, deletion(d)));
            self.totals.deletions += 1;
        }
        if let Some(l) = row.liveness {
            let marker = [&*place, &self.marker].concat();
            let state = match l.expiry {
                None => CellState::Live(&[]),
                Some(e) => {
                    self.totals.overflowed += u64::from(e.is_overflowed());
                    CellState::Expiring { value: &[], ttl: e.ttl, expires: e.expires }
                }
            };
            let cell = Cell { timestamp: l.timestamp, state };
            self.change(marker.len(), |m, family| m.put_cell(family, &marker, cell));
        }
        for column in &row.columns {
            let targets = if row.is_static { &self.statics } else { &self.regulars };
            let Some(target) = targets.get(column.column).cloned().flatten() else {
                self.totals.left_out += column.cells.len() as u64;
                continue;
            };
            let place = [&*place, &target.end].concat();
            if let Some(d) = column.deletion {
                let d = deletion(d);
                self.change(place.len(), |m, f| m.delete_complex_as(f, &place, d));
                self.totals.deletions += 1;
            }
            for cell in &column.cells {
                self.cell(&target, &place, cell, row.position)?;
            }
        }
        Ok(())
    }

    fn cell(&mut self, target: &NodeTarget, place: &[u8], cell: &NodeCell, position: u64) -> Done {
        let mut at = place.to_vec();
        if let (Some(of), Some(path)) = (&target.path, &cell.path) {
            let done = self.family.layout().put_path(of, path, &mut at);
            self.at(position, done)?;
        }
        let of = target.of.cell_type(cell.path.as_deref());
        let state = match &cell.state {
            NodeCellState::Live(v) => {
                self.check(&of, v, position)?;
                CellState::Live(v)
            }
            NodeCellState::Expiring(v, e) => {
                self.check(&of, v, position)?;
                self.totals.overflowed += u64::from(e.is_overflowed());
                CellState::Expiring { value: v, ttl: e.ttl, expires: e.expires }
            }
            NodeCellState::Deleted(second) => CellState::Tombstone { deleted: *second },
        };
        let put = Cell { timestamp: cell.timestamp, state };
        self.change(at.len() + put.value().len(), |m, f| m.put_cell(f, &at, put));
        self.totals.cells += 1;
        Ok(())
    }

    /// Writes the sum of a counter to this key of the current partition.
    pub fn counter(&mut self, place: &[u8], timestamp: i64, sum: i64) -> Done {
        let cell = Cell { timestamp, state: CellState::Counter(sum) };
        self.change(place.len(), |m, family| m.put_cell(family, place, cell));
        self.totals.cells += 1;
        self.make_room()
    }

    /// Counts a row of counters.
    pub fn count_row(&mut self) {
        self.totals.rows += 1;
    }

    /// Returns the key within the partition at which a range with this bound starts or ends.
    pub fn bound(&self, bound: &NodeBound, is_start: bool, position: u64) -> Done<Vec<u8>> {
        let values = self.values(&bound.clustering, position)?;
        let mut place = vec![];
        let after = bound.inclusive != is_start;
        let done = self.family.layout().put_bound(&values, after, &mut place);
        self.at(position, done)?;
        Ok(place)
    }

    fn marker(&mut self, m: &NodeMarker) -> Done {
        if let (Some((bound, d)), Some(start)) = (&m.close, self.open.take()) {
            let end = self.bound(bound, false, m.position)?;
            let (d, bytes) = (deletion(*d), start.len() + end.len());
            self.change(bytes, |m, family| m.delete_range_as(family, &start, &end, d));
            self.totals.deletions += 1;
        }
        if let Some((bound, _)) = &m.open {
            self.open = Some(self.bound(bound, true, m.position)?);
        }
        Ok(())
    }

    /// Returns the partition part of a key, which defines the order of partitions.
    pub fn partition_order(&self, key: &[u8]) -> Done<Vec<u8>> {
        let mut out = vec![];
        self.family.layout().put_partition(key, &mut out).map_err(model_trouble)?;
        Ok(out)
    }

    /// Reports whether a chunk was written since the last call.
    pub fn has_flushed(&mut self) -> bool {
        std::mem::take(&mut self.flushed)
    }

    /// Writes the pending mutations once they fill a chunk, also in the middle of a partition.
    fn make_room(&mut self) -> Done {
        if self.waiting.0 < self.chunk && self.waiting.1 < CHUNK_BYTES {
            return Ok(());
        }
        let going_on = self.mutations.last().map(|m| StoreMutation::new(m.key()));
        self.flush()?;
        self.mutations.extend(going_on);
        Ok(())
    }

    fn flush(&mut self) -> Done {
        self.mutations.retain(|m| !m.is_empty());
        self.store.apply(&self.mutations, self.durability).map_err(model_trouble)?;
        self.mutations.clear();
        self.waiting = (0, 0);
        self.flushed = true;
        Ok(())
    }

    /// Writes the rest of a file, and flushes it into its own tables, the unit of `purge-report`.
    pub fn end_of_file(&mut self) -> Done {
        self.flush()?;
        Ok(self.family.tree().flush()?)
    }

    /// Writes the rest.
    pub fn finish(mut self) -> Done<NodeTotals> {
        self.end_of_file()?;
        Ok(self.totals)
    }
}

fn deletion(d: NodeDeletion) -> CellDeletion {
    CellDeletion { timestamp: d.timestamp, local: d.local }
}
