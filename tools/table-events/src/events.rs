//! A table of the store as a stream of events in the form of a Cassandra node: partitions in token
//! order, rows, range tombstone markers, each cell with its times.
//!
//! Data that a node cannot represent is counted, and omitted or approximated. Data covered by a
//! deletion is not emitted: a node assumes that no file has a row that the same file deletes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use firn_cassandra::{
    HeaderColumn, LeastTimes, MarshalClass, NodeCell, NodeCellState, NodeColumn, NodeDeletion,
    NodeEvent, NodeExpiry, NodeHeader, NodeLiveness, NodePartition, NodeRow, counter_shard,
};
use firn_cql::internals::catalog::{ColumnType, TableColumn, TableSchema};
use firn_tools::output::{Done, Failure, things};
use firn_wide::internals::cell::{Cell, CellDeletion, CellState};
use firn_wide::internals::key::{BEYOND, END, KeyPlace, Layout, ROWS};
use firn_wide::internals::store::{
    Body, Partitions, RowItem, SliceReader, StoreFamily, StoreSlice, StoreView,
};
use firn_wide::{Partitioner, Type};
use serde_json::{Value, json};

use crate::markers::{DeletedRange, PlacedMarker, markers, whole_value};
use crate::{cql_trouble, model_trouble};

/// Formats the counts.
pub fn counts_told(partitions: u64, rows: u64, cells: u64, deletions: u64) -> String {
    format!(
        "{}, {}, {} and {}",
        things(partitions, "partition", "partitions"),
        things(rows, "row", "rows"),
        things(cells, "cell", "cells"),
        things(deletions, "deletion", "deletions")
    )
}

/// Contents of a table in numbers, and data that a node cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportTotals {
    /// Partitions.
    pub partitions: u64,
    /// Rows.
    pub rows: u64,
    /// Cells, including tombstones.
    pub cells: u64,
    /// Deletions of partitions, ranges, rows and collections.
    pub deletions: u64,
    /// Cells covered by deletions, which are omitted.
    covered: u64,
    /// Cells of dropped columns.
    dropped: u64,
    /// Times after the last second of a node, or before 1970, which are moved to the last or first
    /// second.
    moved: u64,
    /// Deletions and markers at the minimum timestamp, which a node cannot represent.
    unsayable: u64,
}

impl ExportTotals {
    /// Adds the counts of another part of the table.
    pub fn add(&mut self, other: &ExportTotals) {
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.cells += other.cells;
        self.deletions += other.deletions;
        self.covered += other.covered;
        self.dropped += other.dropped;
        self.moved += other.moved;
        self.unsayable += other.unsayable;
    }

    /// Formats the counts.
    pub fn told(&self) -> String {
        counts_told(self.partitions, self.rows, self.cells, self.deletions)
    }

    /// Formats the losses, by number.
    pub fn losses(&self) -> Vec<String> {
        let cells = |n| things(n, "cell", "cells");
        let all = [
            (
                self.dropped,
                format!("{} of columns that were dropped left out", cells(self.dropped)),
            ),
            (
                self.moved,
                format!(
                    "{} of deletions or ends of times to live moved to what Cassandra has room for, 1970 to 2038",
                    things(self.moved, "time", "times")
                ),
            ),
            (
                self.unsayable,
                format!(
                    "{} with the least timestamp that there is left out",
                    things(self.unsayable, "deletion or marker", "deletions or markers")
                ),
            ),
        ];
        all.into_iter().filter(|l| l.0 > 0).map(|l| l.1).collect()
    }

    /// Returns the counts as JSON.
    pub fn json(&self) -> Value {
        json!({
            "partitions": self.partitions, "rows": self.rows, "cells": self.cells, "deletions": self.deletions,
            "left_out": {"deleted_cells": self.covered, "cells_of_dropped_columns": self.dropped, "least_timestamps": self.unsayable}, "times_moved": self.moved,
        })
    }
}

/// Target of the cells of a column.
struct ExportedColumn {
    is_static: bool,
    /// Its number in the header.
    number: usize,
    of: ColumnType,
    path: Option<Type>,
    /// Cells with this timestamp or an older one belong to a dropped column.
    dropped_until: Option<i64>,
}

/// Reader of a table.
pub struct ExportedTable {
    schema: Arc<TableSchema>,
    family: StoreFamily,
    view: StoreView,
    /// Node id of the counter shards.
    owner: [u8; 16],
    header: NodeHeader,
    places: HashMap<u16, ExportedColumn>,
}

impl fmt::Debug for ExportedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportedTable").field("name", &self.schema.name).finish_non_exhaustive()
    }
}

/// Returns the class of a type.
fn class_of(of: &Type) -> Done<MarshalClass> {
    MarshalClass::parse(&of.name())
        .map_err(|why| Failure::new(format!("the type {} has no name there: {why}", of.name())))
}

fn class_of_column(column: &TableColumn) -> Done<MarshalClass> {
    let class = class_of(&column.of.value_type)?;
    Ok(match column.of.multicell {
        true => class.with_frozen_elements(),
        false => class.frozen(),
    })
}

fn class_of_clustering(column: &TableColumn) -> Done<MarshalClass> {
    Ok(match column.descending {
        true => class_of(&Type::Reversed(column.of.value_type.clone().into()))?.frozen(),
        false => class_of_column(column)?,
    })
}

fn class_of_key(columns: &[TableColumn]) -> Done<MarshalClass> {
    if let [only] = columns {
        return class_of_column(only);
    }
    let parts = columns.iter().map(|c| Ok(class_of_column(c)?.to_string()));
    let parts = parts.collect::<Done<Vec<String>>>()?.join(",");
    MarshalClass::parse(&format!("CompositeType({parts})")).map_err(Failure::new)
}

impl ExportedTable {
    /// Prepares a table in the state of `view`.
    ///
    /// # Errors
    /// A type without a class name in Cassandra.
    pub fn new(
        schema: Arc<TableSchema>,
        family: StoreFamily,
        view: StoreView,
        partitioner: Partitioner,
        owner: [u8; 16],
    ) -> Done<ExportedTable> {
        let columns = |all: Vec<&TableColumn>| {
            let one = |c: &&TableColumn| {
                Ok(HeaderColumn { name: c.name.clone().into_bytes(), class: class_of_column(c)? })
            };
            all.iter().map(one).collect::<Done<Vec<_>>>()
        };
        let header = NodeHeader::new(
            partitioner.full_name(),
            class_of_key(schema.partition())?,
            schema.clustering().iter().map(class_of_clustering).collect::<Done<_>>()?,
            columns(schema.statics().collect())?,
            columns(schema.regulars().collect())?,
            LeastTimes::default(),
        );
        let mut places = HashMap::new();
        for column in schema.statics().chain(schema.regulars()) {
            let is_static = column.is_static();
            let all = header.columns(is_static);
            let number = all.iter().position(|c| c.name == column.name.as_bytes());
            let place = ExportedColumn {
                is_static,
                number: number.unwrap_or_default(),
                of: column.of.clone(),
                path: column.of.path_type(),
                dropped_until: schema.dropped_until(column),
            };
            places.insert(column.id, place);
        }
        Ok(ExportedTable { schema, family, view, owner, header, places })
    }

    /// Returns the table's column family in the store.
    pub fn family(&self) -> &StoreFamily {
        &self.family
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns the columns by their numbers in events.
    pub fn numbered(&self, of_static: bool) -> Vec<Option<&TableColumn>> {
        let named = |name: &[u8]| self.schema.column(std::str::from_utf8(name).ok()?);
        self.header.columns(of_static).iter().map(|c| named(&c.name)).collect()
    }

    /// Returns the header of its files, with these minimum times.
    pub fn header(&self, least: LeastTimes) -> NodeHeader {
        let NodeHeader { partitioner, key, clustering, statics, regulars, .. } =
            self.header.clone();
        NodeHeader::new(partitioner, key, clustering, statics, regulars, least)
    }

    /// Emits the contents of these partitions to `take`, in order; returns the counts.
    ///
    /// # Errors
    /// Errors of reading, and of `take`.
    pub fn each(
        &self,
        range: &Partitions,
        take: &mut dyn FnMut(&NodeEvent) -> Done,
    ) -> Done<ExportTotals> {
        let slice = StoreSlice::all().raw();
        let scan = self.view.scan(&self.family, range, &slice).map_err(model_trouble)?;
        let mut walk = EventWalk::new(self, scan.now(), take);
        walk.run(scan)?;
        Ok(walk.totals)
    }

    /// Emits stored entries of the table, whose keys ascend, as if the table had nothing else.
    ///
    /// # Errors
    /// Malformed entries, and errors of `take`.
    pub fn each_stored<'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        take: &mut dyn FnMut(&NodeEvent) -> Done,
    ) -> Done {
        // Only a compaction cuts the values of expired cells, so the time has no effect.
        let mut walk = EventWalk::new(self, i64::MIN, take);
        let mut partition: &[u8] = &[];
        for (key, value) in entries {
            let layout = self.family.layout();
            let (len, item) = RowItem::of_entry(layout, key, value).map_err(model_trouble)?;
            if key[..len] != *partition {
                walk.leave_partition()?;
                partition = &key[..len];
                let mut raw = vec![];
                layout.key_of(partition, &mut raw).map_err(model_trouble)?;
                walk.enter_partition(raw);
            }
            walk.item(&item)?;
        }
        walk.leave_partition()
    }

    /// Returns the live cells of a row, or of the static row if `clustering` is `None`, without
    /// deletions. `None` if nothing is live.
    ///
    /// # Errors
    /// Errors of reading, and invalid key values.
    pub fn live_row(&self, key: &[u8], clustering: Option<&[Vec<u8>]>) -> Done<Option<NodeRow>> {
        let slice = match clustering {
            None => StoreSlice::statics(),
            Some(values) => {
                let mut from = vec![];
                self.family.layout().put_row(values, &mut from).map_err(model_trouble)?;
                let until = [&*from, &[BEYOND]].concat();
                StoreSlice::between(from, until)
            }
        };
        let mut scan = self.view.read(&self.family, key, &slice).map_err(model_trouble)?;
        let mut found = None;
        let mut take = |event: &NodeEvent| {
            if let NodeEvent::Row(row) = event {
                found = Some(row.clone());
            }
            Ok(())
        };
        let mut walk = EventWalk::new(self, scan.now(), &mut take);
        while let Some(item) = scan.next().map_err(model_trouble)? {
            walk.item(&item)?;
        }
        walk.end_of_row()?;
        Ok(found)
    }
}

/// Minimum times of the events of [`ExportedTable::each`].
#[derive(Debug, Default)]
pub struct LeastFound {
    timestamp: Option<i64>,
    second: Option<i64>,
    ttl: Option<u32>,
}

fn take_less<T: Ord + Copy>(known: &mut Option<T>, n: T) {
    *known = Some(known.map_or(n, |k| k.min(n)));
}

impl LeastFound {
    /// Returns the times, with defaults for missing ones.
    pub fn times(&self) -> LeastTimes {
        let usual = LeastTimes::default();
        LeastTimes {
            timestamp: self.timestamp.unwrap_or(usual.timestamp),
            second: self.second.unwrap_or(usual.second),
            ttl: self.ttl.unwrap_or(usual.ttl),
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &NodeEvent) {
        match event {
            NodeEvent::Partition(_) => {}
            NodeEvent::Marker(m) => {
                [&m.close, &m.open].into_iter().flatten().for_each(|(_, d)| self.deletion(*d));
            }
            NodeEvent::Row(row) => {
                if let Some(l) = row.liveness {
                    take_less(&mut self.timestamp, l.timestamp);
                    l.expiry.into_iter().for_each(|e| self.expiry(e));
                }
                row.deletion.into_iter().for_each(|d| self.deletion(d));
                for column in &row.columns {
                    column.deletion.into_iter().for_each(|d| self.deletion(d));
                    for cell in &column.cells {
                        take_less(&mut self.timestamp, cell.timestamp);
                        match &cell.state {
                            NodeCellState::Live(_) => {}
                            NodeCellState::Expiring(_, e) => self.expiry(*e),
                            NodeCellState::Deleted(second) => take_less(&mut self.second, *second),
                        }
                    }
                }
            }
        }
    }

    fn deletion(&mut self, d: NodeDeletion) {
        take_less(&mut self.timestamp, d.timestamp);
        take_less(&mut self.second, d.local);
    }

    fn expiry(&mut self, e: NodeExpiry) {
        take_less(&mut self.second, e.expires);
        take_less(&mut self.ttl, e.ttl);
    }
}

/// Reports whether data with this timestamp is live.
fn lives(timestamp: i64, deleted: Option<NodeDeletion>) -> bool {
    deleted.is_none_or(|d| timestamp > d.timestamp)
}

/// The role of a cell.
enum CellOf<'t> {
    /// The row marker.
    Marker,
    Column(&'t ExportedColumn),
    /// A cell of a dropped column.
    Dropped,
}

/// A row being assembled.
struct OpenRow {
    /// Its store key, up to the column name.
    place: Vec<u8>,
    /// The newest deletion that covers it, including its own.
    deleted: Option<NodeDeletion>,
    row: NodeRow,
}

/// Traversal of a table.
struct EventWalk<'t> {
    table: &'t ExportedTable,
    now: i64,
    totals: ExportTotals,
    take: &'t mut dyn FnMut(&NodeEvent) -> Done,
    /// The partition, until it is emitted.
    partition: Option<NodePartition>,
    /// The deletion of the partition.
    deleted: Option<NodeDeletion>,
    /// The range deletion at the current position.
    open: Option<NodeDeletion>,
    ranges: Vec<DeletedRange>,
    markers: std::iter::Peekable<std::vec::IntoIter<PlacedMarker>>,
    row: Option<OpenRow>,
}

impl<'t> EventWalk<'t> {
    fn new(
        table: &'t ExportedTable,
        now: i64,
        take: &'t mut dyn FnMut(&NodeEvent) -> Done,
    ) -> EventWalk<'t> {
        EventWalk {
            table,
            now,
            totals: ExportTotals::default(),
            take,
            partition: None,
            deleted: None,
            open: None,
            ranges: vec![],
            markers: vec![].into_iter().peekable(),
            row: None,
        }
    }

    fn layout(&self) -> &Layout {
        self.table.family.layout()
    }

    fn run(&mut self, mut scan: SliceReader) -> Done {
        while scan.next_partition().map_err(model_trouble)? {
            self.enter_partition(scan.key().to_vec());
            while let Some(item) = scan.next().map_err(model_trouble)? {
                self.item(&item)?;
            }
            self.leave_partition()?;
        }
        Ok(())
    }

    fn enter_partition(&mut self, key: Vec<u8>) {
        self.partition = Some(NodePartition { key, deletion: None, position: 0 });
        (self.deleted, self.open) = (None, None);
    }

    fn leave_partition(&mut self) -> Done {
        self.end_of_row()?;
        self.markers_before(None)?;
        // A deletion alone is a partition, too; an empty one is omitted.
        if self.partition.take_if(|p| p.deletion.is_none()).is_none() {
            self.begin_partition()?;
        }
        Ok(())
    }

    fn item(&mut self, item: &RowItem<'_>) -> Done {
        match item.body {
            Body::PartitionDeletion(d) => {
                self.deleted = self.deletion(d, None);
                if let Some(p) = &mut self.partition {
                    p.deletion = self.deleted;
                }
            }
            Body::RangeDeletion { start, end, deletion } => {
                let deletion = self.deletion(deletion, self.deleted);
                self.ranges.extend(deletion.map(|deletion| DeletedRange {
                    start: start.to_vec(),
                    end: end.to_vec(),
                    deletion,
                }));
            }
            Body::RowDeletion(d) => {
                self.enter_row(&item.place)?;
                let d = self.deletion(d, self.row.as_ref().and_then(|r| r.deleted));
                if let Some(open) = self.row.as_mut().filter(|_| d.is_some()) {
                    (open.row.deletion, open.deleted) = (d, d);
                }
            }
            Body::ComplexDeletion(d) => {
                self.enter_row(&item.place)?;
                if let CellOf::Column(place) = self.whose(&item.place, d.timestamp)? {
                    let d = self.deletion(d, self.row.as_ref().and_then(|r| r.deleted));
                    if let Some(column) = self.column(place) {
                        column.deletion = d;
                    }
                }
            }
            Body::Cell(cell) => {
                self.enter_row(&item.place)?;
                match self.whose(&item.place, cell.timestamp)? {
                    CellOf::Marker => self.marker(cell),
                    CellOf::Dropped => self.totals.dropped += 1,
                    CellOf::Column(place) => self.cell(place, item.place.path, cell)?,
                }
            }
        }
        Ok(())
    }

    /// Returns the role of the cell at this position with this timestamp.
    fn whose(&self, at: &KeyPlace<'_>, timestamp: i64) -> Done<CellOf<'t>> {
        let id = self.table.schema.column_at(at.name).map_err(|e| cql_trouble(&e))?;
        let Some(id) = id else { return Ok(CellOf::Marker) };
        let place = self.table.places.get(&id).filter(|p| p.is_static == at.is_static);
        let is_there = |p: &&ExportedColumn| p.dropped_until.is_none_or(|u| timestamp > u);
        Ok(place.filter(is_there).map_or(CellOf::Dropped, CellOf::Column))
    }

    /// Returns the column of the assembled row.
    fn column(&mut self, place: &ExportedColumn) -> Option<&mut NodeColumn> {
        let columns = &mut self.row.as_mut()?.row.columns;
        if columns.last().is_none_or(|c| c.column != place.number) {
            columns.push(NodeColumn { column: place.number, deletion: None, cells: vec![] });
        }
        columns.last_mut()
    }

    fn enter_row(&mut self, place: &KeyPlace<'_>) -> Done {
        let at = match place.is_static {
            true => vec![],
            false => [&[ROWS][..], place.row, &[END]].concat(),
        };
        if self.row.as_ref().is_some_and(|r| r.place == at && r.row.is_static == place.is_static) {
            return Ok(());
        }
        self.end_of_row()?;
        let mut deleted = self.deleted;
        let mut clustering = vec![];
        if !place.is_static {
            self.markers_before(Some(&at))?;
            deleted = self.open.or(deleted);
            let mut values = vec![Default::default(); self.layout().clustering().len()];
            self.layout().read_row(place.row, &mut values).map_err(model_trouble)?;
            let types = self.layout().clustering().iter();
            let whole = types.zip(values).map(|(of, (v, there))| whole_value(of, there, v));
            clustering = whole.collect::<Done<_>>()?;
        }
        let row = NodeRow {
            is_static: place.is_static,
            clustering,
            liveness: None,
            deletion: None,
            columns: vec![],
            position: 0,
        };
        self.row = Some(OpenRow { place: at, deleted, row });
        Ok(())
    }

    /// Emits the row, if it has live data.
    fn end_of_row(&mut self) -> Done {
        let Some(OpenRow { mut row, .. }) = self.row.take() else { return Ok(()) };
        row.columns.retain(|c| c.deletion.is_some() || !c.cells.is_empty());
        if row.liveness.is_none() && row.deletion.is_none() && row.columns.is_empty() {
            return Ok(());
        }
        row.columns.sort_by_key(|c| c.column);
        self.totals.rows += 1;
        self.totals.deletions += u64::from(row.deletion.is_some());
        for column in &row.columns {
            self.totals.deletions += u64::from(column.deletion.is_some());
            self.totals.cells += column.cells.len() as u64;
        }
        self.begin_partition()?;
        (self.take)(&NodeEvent::Row(row))
    }

    /// Emits the markers before a position, or all. Range deletions precede all rows in the store,
    /// so all are known.
    fn markers_before(&mut self, place: Option<&[u8]>) -> Done {
        if !self.ranges.is_empty() {
            let ranges = std::mem::take(&mut self.ranges);
            self.markers = markers(self.layout(), ranges)?.into_iter().peekable();
        }
        while let Some(m) = self.markers.next_if(|m| place.is_none_or(|p| *m.place < *p)) {
            self.open = m.marker.open.as_ref().map(|o| o.1);
            self.totals.deletions += u64::from(self.open.is_some());
            self.begin_partition()?;
            (self.take)(&NodeEvent::Marker(m.marker))?;
        }
        Ok(())
    }

    fn begin_partition(&mut self) -> Done {
        let Some(partition) = self.partition.take() else { return Ok(()) };
        self.totals.partitions += 1;
        self.totals.deletions += u64::from(partition.deletion.is_some());
        (self.take)(&NodeEvent::Partition(partition))
    }

    fn second(&mut self, second: i64) -> i64 {
        let within = second.clamp(0, NodeDeletion::LAST_SECOND);
        self.totals.moved += u64::from(within != second);
        within
    }

    /// Returns a deletion within another one; `None` if it adds nothing to that.
    fn deletion(&mut self, d: CellDeletion, within: Option<NodeDeletion>) -> Option<NodeDeletion> {
        if d.timestamp == i64::MIN {
            self.totals.unsayable += 1;
            return None;
        }
        if within.is_some_and(|of| (d.timestamp, d.local) <= (of.timestamp, of.local)) {
            return None;
        }
        Some(NodeDeletion { timestamp: d.timestamp, local: self.second(d.local) })
    }

    fn expiry(&mut self, ttl: u32, expires: i64) -> NodeExpiry {
        let most = i32::MAX as u32;
        self.totals.moved += u64::from(ttl > most);
        NodeExpiry { ttl: ttl.min(most), expires: self.second(expires) }
    }

    /// Adds the row marker.
    fn marker(&mut self, cell: Cell<'_>) {
        if !self.row.as_ref().is_some_and(|r| lives(cell.timestamp, r.deleted)) {
            return;
        }
        let expiry = match cell.state {
            CellState::Live(_) => None,
            CellState::Expiring { ttl, expires, .. } => Some(self.expiry(ttl, expires)),
            CellState::Tombstone { .. } | CellState::Counter(_) => {
                self.totals.unsayable += 1;
                return;
            }
        };
        if cell.timestamp == i64::MIN {
            self.totals.unsayable += 1;
        } else if let Some(open) = &mut self.row {
            open.row.liveness = Some(NodeLiveness { timestamp: cell.timestamp, expiry });
        }
    }

    /// Adds a cell of a column.
    fn cell(&mut self, of: &ExportedColumn, path: Option<&[u8]>, cell: Cell<'_>) -> Done {
        let of_row = self.row.as_ref().and_then(|r| r.deleted);
        let deleted = self.column(of).and_then(|c| c.deletion).or(of_row);
        if !lives(cell.timestamp, deleted) {
            self.totals.covered += 1;
            return Ok(());
        }
        let mut element = None;
        if let (Some(path_type), Some(path)) = (&of.path, path) {
            let mut raw = vec![];
            self.layout().path_of(path_type, path, &mut raw).map_err(model_trouble)?;
            element = whole_value(path_type, true, raw)?;
        }
        let state = match cell.state {
            CellState::Live(v) => NodeCellState::Live(v.to_vec()),
            CellState::Expiring { value, ttl, expires } => {
                let expiry = self.expiry(ttl, expires);
                // A compaction has removed the value of an expired cell. A node converts such a
                // cell to a tombstone of the second in which it was written.
                let is_cut = value.is_empty()
                    && expires <= self.now
                    && of.of.cell_type(element.as_deref()).validate(value).is_err();
                match is_cut {
                    true => NodeCellState::Deleted(self.second(expires - i64::from(ttl))),
                    false => NodeCellState::Expiring(value.to_vec(), expiry),
                }
            }
            CellState::Tombstone { deleted } => NodeCellState::Deleted(self.second(deleted)),
            // The clock rises with each change, so of two exported shards the later counts.
            CellState::Counter(sum) => {
                NodeCellState::Live(counter_shard(self.table.owner, cell.timestamp, sum))
            }
        };
        if let Some(column) = self.column(of) {
            column.cells.push(NodeCell { path: element, timestamp: cell.timestamp, state });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use firn_cql::Session;

    use super::*;

    /// Entries that are decoded one by one have the events of a scan.
    #[test]
    fn stored_entries_have_the_events_of_a_scan() {
        let session = Session::in_memory().unwrap();
        for text in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (p text, a int, b text, s int static, v text, tags set<text>, parts map<text, int>, log list<int>, \
             PRIMARY KEY (p, a, b))",
            "INSERT INTO k.t (p, a, b, s, v, tags, parts, log) VALUES ('x', 1, '', 7, 'v', {'c', 'd'}, {'e': 1}, [1, 2])",
            "UPDATE k.t USING TTL 1000 SET v = 'w', tags = {'f'} WHERE p = 'x' AND a = 2 AND b = 'b'",
            "DELETE tags, parts['e'] FROM k.t WHERE p = 'x' AND a = 1 AND b = ''",
            "DELETE FROM k.t WHERE p = 'x' AND a > 5 AND a <= 7",
            "DELETE FROM k.t WHERE p = 'x' AND a = 3",
            "DELETE FROM k.t WHERE p = 'y'",
            "INSERT INTO k.t (p, a, b) VALUES ('y', 1, 'z')",
            "INSERT INTO k.t (p, s) VALUES ('z', 1)",
        ] {
            session.execute(text, ()).unwrap();
        }
        let engine = session.engine();
        let catalog = engine.catalog();
        let schema = catalog.tables().find(|table| table.name == "t").unwrap();
        let family = engine.family(schema).unwrap();
        let tree = family.tree().clone();
        let view = engine.store().latest();
        let owner = engine.host_id().into_bytes();
        let table =
            ExportedTable::new(schema.clone(), family, view, engine.partitioner(), owner).unwrap();
        let mut scanned = vec![];
        let mut take = |event: &NodeEvent| {
            scanned.push(event.clone());
            Ok(())
        };
        table.each(&Partitions::all(), &mut take).unwrap();
        let entries: Vec<_> = tree.iter().map(Result::unwrap).collect();
        let mut decoded = vec![];
        let mut take = |event: &NodeEvent| {
            decoded.push(event.clone());
            Ok(())
        };
        let pairs = entries.iter().map(|(key, value)| (&key[..], &value[..]));
        table.each_stored(pairs, &mut take).unwrap();
        assert!(scanned.len() > 9, "{}", scanned.len());
        assert_eq!(decoded, scanned);
        let no_cell = table.each_stored([(&entries[0].0[..5], &b"x"[..])], &mut |_| Ok(()));
        assert!(no_cell.is_err());
    }
}
