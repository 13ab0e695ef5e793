//! Converts the cells of a partition to statements that write them with their times.
//!
//! Invariants:
//! - Cells of one row with the same timestamp and expiration are one statement; a deletion has its
//!   own statement. A statement may be executed again, since timestamps decide. Only lists
//!   ([`CellStatement::is_list`]) and counters ([`counter_row`](TableStatements::counter_row)) are
//!   exceptions.
//! - The first statement of a list has elements with their own times if these rise along it. A
//!   repeated one is newer than all of that, in runs of elements that expire together.
//! - A TTL is always explicit, 0 for none: otherwise the table's default would apply.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cassandra::{
    NodeBound, NodeCell, NodeCellState, NodeColumn, NodeEvent, NodeExpiry, NodeRow, counter_sum,
};
use firn_cql::internals::catalog::{PartitionKey, TableColumn, TableSchema};
use firn_cql::internals::values::{literal, put_parts};
use firn_cql::{BoundValue, quote_if_needed};
use firn_table_events::{ExportedTable, cql_trouble, model_trouble};
use firn_tools::output::Done;
use firn_wide::Type;
use firn_wide::internals::key::{Layout, ROWS, STATIC};

use crate::bounds::{BoundSide, SlicePiece, pieces};
use crate::definitions::full_name;
use crate::list_runs::{ListLoss, ListRun, SentTimes, TimedElement, list_runs};
use crate::report::CarriedLosses;

/// Bytes of a statement in a batch in addition to its values.
const OVERHEAD: usize = 48;

/// A statement with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellStatement {
    /// The statement.
    pub text: Arc<str>,
    /// Values of its bind markers.
    pub values: Vec<BoundValue>,
    /// Approximate bytes in a batch.
    pub bytes: usize,
    /// Cells, deletions and markers that it writes.
    pub cells: u64,
    /// Whether it writes a list. Repeated with the same timestamp (its first value), it would
    /// duplicate the elements.
    pub is_list: bool,
    /// Statements that append to that list; they follow it in the same batch, in this order.
    pub appends: Vec<(Arc<str>, Vec<BoundValue>)>,
}

/// Returns the timestamp of a list's first statement.
fn list_timestamp(values: &[BoundValue]) -> Option<i64> {
    let bytes = values.first().and_then(BoundValue::bytes)?;
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

impl CellStatement {
    fn new(text: &Arc<str>, values: Vec<BoundValue>, cells: u64) -> CellStatement {
        let value = |v: &BoundValue| v.bytes().map_or(4, |b| b.len() + 4);
        let bytes = OVERHEAD + values.iter().map(value).sum::<usize>();
        CellStatement { text: text.clone(), values, bytes, cells, is_list: false, appends: vec![] }
    }

    /// Returns the statement for a repeated execution.
    #[must_use]
    pub fn again(&self) -> CellStatement {
        let mut again = self.clone();
        if !self.is_list {
            return again;
        }
        let appends = again.appends.iter_mut().map(|a| &mut a.1);
        let mut all: Vec<&mut Vec<BoundValue>> =
            std::iter::once(&mut again.values).chain(appends).collect();
        let newest = all.iter().filter_map(|values| list_timestamp(values)).max();
        // The first one deletes everything up to the newest timestamp, which covers all that was
        // sent before.
        for (n, values) in (1..).zip(&mut all) {
            if let (Some(newest), Some(timestamp)) = (newest, values.first_mut()) {
                *timestamp = number(newest.saturating_add(n));
            }
        }
        again
    }
}

/// Key of a statement: of a row, of the static cells of a partition, or of the partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementKey {
    /// Partition key values.
    pub partition: Vec<Vec<u8>>,
    /// Clustering values; none for the partition.
    pub clustering: Vec<Vec<u8>>,
}

/// The counters at a key of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterAddress {
    /// The key of their row, or of their partition.
    pub key: StatementKey,
    /// Whether it is the static row; `None` for a whole partition.
    pub is_static: Option<bool>,
    /// Column id; `None` for the whole row.
    column: Option<u16>,
}

/// A column that `UPDATE` sets in one of two forms.
struct SetColumn {
    /// Index of its first marker, or of the marker in its own statement.
    slot: usize,
    form: SetForm,
    name: String,
    delete: Arc<str>,
    delete_element: Arc<str>,
    /// For a list: the statements that set it and append to it. For a user type: those that delete
    /// its fields.
    others: Vec<Arc<str>>,
}

/// How the cells of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetForm {
    /// `c = ?`
    Whole,
    /// `c = c + ?`, with a map.
    Map,
    /// `c = c + ?`, with a set.
    Set,
    /// `c = ?` in its own statement.
    List,
    /// `c.f = ?` for each field.
    Fields,
    /// `c = c + ?`, a number.
    Counter,
}

fn form(column: &TableColumn) -> SetForm {
    match &column.of.value_type {
        of if of.is_counter() => SetForm::Counter,
        _ if !column.of.multicell => SetForm::Whole,
        Type::Map(_) => SetForm::Map,
        Type::Set(_) => SetForm::Set,
        Type::List(_) => SetForm::List,
        _ => SetForm::Fields,
    }
}

/// The regular columns, or the static ones.
struct SetPart {
    /// By the column numbers of events; `None`: the table does not have the column.
    columns: Vec<Option<SetColumn>>,
    /// Markers of `set` for columns.
    slots: usize,
    /// Sets all columns except lists; for counters it adds to all.
    set: Arc<str>,
}

/// Statements that write to a table.
pub struct TableStatements {
    table: Arc<TableSchema>,
    name: String,
    of_partition: String,
    insert: Arc<str>,
    delete_row: Arc<str>,
    delete_partition: Arc<str>,
    statics: SetPart,
    regulars: SetPart,
}

impl std::fmt::Debug for TableStatements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableStatements").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns `a = ? AND b = ?`.
fn equal(columns: &[TableColumn]) -> String {
    let one = |c: &TableColumn| format!("{} = ?", quote_if_needed(&c.name));
    columns.iter().map(one).collect::<Vec<_>>().join(" AND ")
}

fn both(a: &str, b: &str) -> String {
    if b.is_empty() { a.to_owned() } else { format!("{a} AND {b}") }
}

fn set_part(name: &str, at: &str, numbered: Vec<Option<&TableColumn>>) -> SetPart {
    let delete = |what: &str| -> Arc<str> {
        format!("DELETE {what} FROM {name} USING TIMESTAMP ? WHERE {at}").into()
    };
    let update = |what: &str| -> Arc<str> {
        format!("UPDATE {name} USING TIMESTAMP ? AND TTL ? SET {what} WHERE {at}").into()
    };
    let (mut slots, mut sets) = (0, vec![]);
    let mut counts = false;
    let mut column = |column: &TableColumn| {
        let quoted = quote_if_needed(&column.name);
        let form = form(column);
        let (slot, mut others) = (slots, vec![]);
        match form {
            SetForm::Whole => sets.push(format!("{quoted} = ?")),
            SetForm::Map | SetForm::Set | SetForm::Counter => {
                counts |= form == SetForm::Counter;
                sets.push(format!("{quoted} = {quoted} + ?"));
            }
            SetForm::List => {
                others.push(update(&format!("{quoted} = ?")));
                others.push(update(&format!("{quoted} = {quoted} + ?")));
            }
            SetForm::Fields => {
                let Type::Udt(udt) = &column.of.value_type else { return None };
                for (field, _) in &udt.fields {
                    let field = format!("{quoted}.{}", quote_if_needed(field));
                    others.push(delete(&field));
                    sets.push(format!("{field} = ?"));
                }
            }
        }
        slots = sets.len();
        let delete_element = delete(&format!("{quoted}[?]"));
        let (name, delete) = (column.name.clone(), delete(&quoted));
        Some(SetColumn { slot, form, name, delete, delete_element, others })
    };
    let columns = numbered.into_iter().map(|c| column(c?)).collect();
    let sets = sets.join(", ");
    let set = match counts {
        true => format!("UPDATE {name} SET {sets} WHERE {at}").into(),
        false => update(&sets),
    };
    SetPart { columns, slots, set }
}

/// Cells of one row with the same times.
struct TimedCells {
    slots: Vec<BoundValue>,
    /// Keys and values of maps, elements of sets, by slot.
    elements: BTreeMap<usize, Vec<Vec<u8>>>,
    cells: u64,
}

fn number(n: i64) -> BoundValue {
    BoundValue::Bytes(n.to_be_bytes().to_vec())
}

/// Encodes a collection of these values; for a map, keys and values alternate.
fn collection(parts: &[Vec<u8>], count: usize) -> Done<BoundValue> {
    let mut out = vec![];
    let put = put_parts(count, parts.iter().map(|p| Some(&**p)), &mut out);
    put.map_err(|e| cql_trouble(&e))?;
    Ok(BoundValue::Bytes(out))
}

/// Returns the TTL in seconds from now for this expiration.
fn ttl(expires: Option<i64>, now: i64) -> BoundValue {
    let left = expires.map_or(0, |e| e.saturating_sub(now).clamp(1, MAX_TTL));
    BoundValue::Bytes((left as i32).to_be_bytes().to_vec())
}

/// Largest TTL of CQL, in seconds.
const MAX_TTL: i64 = 630_720_000;

/// Converts a row.
struct RowMaker<'a> {
    part: &'a SetPart,
    key: &'a [BoundValue],
    now: i64,
    attempt: i64,
    groups: BTreeMap<SentTimes, TimedCells>,
    out: Vec<CellStatement>,
    losses: &'a mut CarriedLosses,
}

impl RowMaker<'_> {
    /// Appends a statement with these values before the key.
    fn push(&mut self, text: &Arc<str>, before: Vec<BoundValue>) {
        let values = before.into_iter().chain(self.key.iter().cloned()).collect();
        self.out.push(CellStatement::new(text, values, 1));
    }

    fn group(&mut self, timestamp: i64, expires: Option<i64>) -> &mut TimedCells {
        let slots = self.part.slots;
        let new = || TimedCells {
            slots: vec![BoundValue::Unset; slots],
            elements: BTreeMap::new(),
            cells: 0,
        };
        let group = self.groups.entry((timestamp, expires)).or_insert_with(new);
        group.cells += 1;
        group
    }

    fn column(&mut self, column: &NodeColumn) -> Done {
        let Some(to) = self.part.columns.get(column.column).and_then(Option::as_ref) else {
            self.losses.unknown_columns += column.cells.len() as u64;
            return Ok(());
        };
        if to.form == SetForm::List {
            return self.list(to, column);
        }
        if let Some(d) = column.deletion {
            self.push(&to.delete, vec![number(d.timestamp)]);
        }
        column.cells.iter().for_each(|cell| self.cell(to, cell));
        Ok(())
    }

    fn cell(&mut self, to: &SetColumn, cell: &NodeCell) {
        let (value, expires) = match &cell.state {
            NodeCellState::Live(value) => (value, None),
            // As on a node: an expired cell is a deletion.
            NodeCellState::Expiring(_, e) if e.expires <= self.now => {
                self.losses.ended += 1;
                return self.deleted(to, cell);
            }
            NodeCellState::Expiring(value, e) => (value, Some(e.expires)),
            NodeCellState::Deleted(_) => return self.deleted(to, cell),
        };
        let path = cell.path.as_deref().unwrap_or_default();
        let slot = match to.form {
            SetForm::Fields => match field(path).filter(|f| *f < to.others.len()) {
                Some(field) => to.slot + field,
                None => {
                    self.losses.unknown_columns += 1;
                    return;
                }
            },
            _ => to.slot,
        };
        let group = self.group(cell.timestamp, expires);
        match to.form {
            SetForm::Map => {
                let of = group.elements.entry(slot).or_default();
                of.extend([path.to_vec(), value.clone()]);
            }
            SetForm::Set => group.elements.entry(slot).or_default().push(path.to_vec()),
            _ => group.slots[slot] = BoundValue::Bytes(value.clone()),
        }
    }

    fn deleted(&mut self, to: &SetColumn, cell: &NodeCell) {
        let timestamp = number(cell.timestamp);
        match (to.form, cell.path.as_deref()) {
            (SetForm::Map | SetForm::Set, Some(path)) => {
                // The element's marker is before that of the timestamp.
                self.push(&to.delete_element, vec![BoundValue::Bytes(path.to_vec()), timestamp]);
            }
            (SetForm::Fields, Some(path)) => match field(path).and_then(|f| to.others.get(f)) {
                Some(text) => self.push(&text.clone(), vec![timestamp]),
                None => self.losses.unknown_columns += 1,
            },
            _ => self.push(&to.delete, vec![timestamp]),
        }
    }

    /// Rewrites a list, because element names are not portable, and deleted elements have no
    /// statement. Runs of elements with the same times are appended one by one.
    fn list(&mut self, to: &SetColumn, column: &NodeColumn) -> Done {
        let of_cells = column.cells.iter().map(|c| c.timestamp).max();
        let Some(newest) = of_cells.max(column.deletion.map(|d| d.timestamp)) else {
            return Ok(());
        };
        // This entry is no element: the list may have been sent before, with lower timestamps.
        let follows = column.cells.iter().any(|c| c.path.is_none());
        let mut elements: Vec<TimedElement<'_>> = vec![];
        for cell in &column.cells {
            match &cell.state {
                NodeCellState::Live(value) => elements.push(((cell.timestamp, None), value)),
                NodeCellState::Expiring(value, e) if e.expires > self.now => {
                    elements.push(((cell.timestamp, Some(e.expires)), value));
                }
                _ => {}
            }
        }
        let (false, [set, append]) = (elements.is_empty(), &*to.others) else {
            self.push(&to.delete, vec![number(newest.saturating_add(self.attempt))]);
            return Ok(());
        };
        let (runs, loss) = list_runs(&elements, newest, self.attempt, follows);
        self.losses.mixed_lists += u64::from(loss == Some(ListLoss::WriteTimes));
        self.losses.whole_lists += u64::from(loss == Some(ListLoss::Lives));
        let now = self.now;
        let values = |run: &ListRun<'_>| {
            let values: Vec<Vec<u8>> = run.elements.iter().map(|e| e.1.clone()).collect();
            let (timestamp, expires) = run.times;
            Ok(vec![number(timestamp), ttl(expires, now), collection(&values, values.len())?])
        };
        let mut all = runs.iter().map(values).collect::<Done<Vec<_>>>()?.into_iter();
        let count = elements.len() as u64;
        self.push(set, all.next().unwrap_or_default());
        let key = self.key;
        if let Some(made) = self.out.last_mut() {
            (made.is_list, made.cells) = (true, count);
            for values in all {
                let values: Vec<BoundValue> =
                    values.into_iter().chain(key.iter().cloned()).collect();
                made.bytes += CellStatement::new(append, values.clone(), 0).bytes;
                made.appends.push((append.clone(), values));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Done<Vec<CellStatement>> {
        for ((timestamp, expires), mut group) in std::mem::take(&mut self.groups) {
            for (slot, parts) in std::mem::take(&mut group.elements) {
                let of_map = |c: &SetColumn| c.slot == slot && c.form == SetForm::Map;
                let is_map = self.part.columns.iter().flatten().any(of_map);
                let count = if is_map { parts.len() / 2 } else { parts.len() };
                group.slots[slot] = collection(&parts, count)?;
            }
            let mut values = vec![number(timestamp), ttl(expires, self.now)];
            values.append(&mut group.slots);
            values.extend(self.key.iter().cloned());
            self.out.push(CellStatement::new(&self.part.set, values, group.cells));
        }
        Ok(self.out)
    }
}

/// Returns the number of a user type's field.
fn field(path: &[u8]) -> Option<usize> {
    <[u8; 2]>::try_from(path).ok().map(|n| usize::from(u16::from_be_bytes(n)))
}

impl TableStatements {
    /// Prepares the statements of a table.
    pub fn new(exported: &ExportedTable) -> TableStatements {
        let table = exported.schema().clone();
        let name = full_name(&table.keyspace, &table.name);
        let of_partition = equal(table.partition());
        let at = both(&of_partition, &equal(table.clustering()));
        let keys: Vec<_> = table.partition().iter().chain(table.clustering()).collect();
        let names: Vec<_> = keys.iter().map(|c| quote_if_needed(&c.name)).collect();
        let markers = vec!["?"; keys.len()].join(", ");
        let insert = format!(
            "INSERT INTO {name} ({}) VALUES ({markers}) USING TIMESTAMP ? AND TTL ?",
            names.join(", ")
        );
        TableStatements {
            insert: insert.into(),
            delete_row: format!("DELETE FROM {name} USING TIMESTAMP ? WHERE {at}").into(),
            delete_partition: format!("DELETE FROM {name} USING TIMESTAMP ? WHERE {of_partition}")
                .into(),
            statics: set_part(&name, &of_partition, exported.numbered(true)),
            regulars: set_part(&name, &at, exported.numbered(false)),
            table,
            name,
            of_partition,
        }
    }

    /// Returns the table's name in CQL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<TableSchema> {
        &self.table
    }

    /// Splits a partition key into column values.
    ///
    /// # Errors
    /// A key that is invalid for the table.
    pub fn partition_values(&self, key: &[u8]) -> Done<Vec<Vec<u8>>> {
        let mut parts = PartitionKey::default();
        parts.set(&self.table, key).map_err(|e| cql_trouble(&e))?;
        let count = self.table.partition().len();
        Ok((0..count).map(|n| parts.part(n).unwrap_or_default().to_vec()).collect())
    }

    /// Formats a key as in a `WHERE`.
    pub fn key_words(&self, key: &StatementKey) -> String {
        let partition = self.table.partition().iter().zip(&key.partition);
        let clustering = self.table.clustering().iter().zip(&key.clustering);
        let one = |(c, v): (&TableColumn, &Vec<u8>)| {
            format!("{} = {}", quote_if_needed(&c.name), literal(&c.of.value_type, Some(v)))
        };
        partition.chain(clustering).map(one).collect::<Vec<_>>().join(" AND ")
    }

    /// Reports whether it has lists whose elements are cells.
    pub fn has_lists(&self) -> bool {
        let all = self.statics.columns.iter().chain(&self.regulars.columns);
        all.flatten().any(|c| c.form == SetForm::List)
    }

    /// Reports whether the column of this number is such a list.
    pub fn is_list(&self, of_static: bool, number: usize) -> bool {
        let column = self.part(of_static).columns.get(number).and_then(Option::as_ref);
        column.is_some_and(|c| c.form == SetForm::List)
    }

    fn part(&self, is_static: bool) -> &SetPart {
        if is_static { &self.statics } else { &self.regulars }
    }

    /// Returns the statement that deletes a partition.
    pub fn partition_deletion(&self, partition: &[Vec<u8>], timestamp: i64) -> CellStatement {
        let key = partition.iter().map(|v| BoundValue::Bytes(v.clone()));
        let values = std::iter::once(number(timestamp)).chain(key).collect();
        CellStatement::new(&self.delete_partition, values, 1)
    }

    /// Returns the statements that delete the rows between two bounds.
    pub fn range_deletion(
        &self,
        partition: &[Vec<u8>],
        (start, end): (&NodeBound, &NodeBound),
        timestamp: i64,
        losses: &mut CarriedLosses,
    ) -> Vec<CellStatement> {
        let side = |bound: &NodeBound| {
            let values = bound.clustering.iter().cloned().collect::<Option<Vec<_>>>()?;
            Some(BoundSide { values, inclusive: bound.inclusive })
        };
        let ends = side(start).zip(side(end));
        let Some(all) = ends.as_ref().and_then(|(start, end)| pieces(start, end)) else {
            // Without static columns, all rows are the whole partition.
            if !self.table.has_statics() {
                return vec![self.partition_deletion(partition, timestamp)];
            }
            losses.whole_ranges += 1;
            return vec![];
        };
        all.iter().map(|piece| self.piece(partition, piece, timestamp)).collect()
    }

    fn piece(
        &self,
        partition: &[Vec<u8>],
        piece: &SlicePiece<'_>,
        timestamp: i64,
    ) -> CellStatement {
        let clustering = self.table.clustering();
        let mut at = both(&self.of_partition, &equal(&clustering[..piece.prefix.len()]));
        let mut values = vec![number(timestamp)];
        values.extend(partition.iter().chain(piece.prefix).map(|v| BoundValue::Bytes(v.clone())));
        if let Some(column) = clustering.get(piece.prefix.len()) {
            let name = quote_if_needed(&column.name);
            // In descending order a later value is smaller.
            let words = if column.descending { ["<", ">"] } else { [">", "<"] };
            for (side, word) in [piece.lower, piece.upper].into_iter().zip(words) {
                let Some((value, inclusive)) = side else { continue };
                let equal = if inclusive { "=" } else { "" };
                at.push_str(&format!(" AND {name} {word}{equal} ?"));
                values.push(BoundValue::Bytes(value.clone()));
            }
        }
        let text = format!("DELETE FROM {} USING TIMESTAMP ? WHERE {at}", self.name);
        CellStatement::new(&text.into(), values, 1)
    }

    /// Returns the statements of a row at the second `now`. `attempt`: how often it may have been
    /// written before.
    ///
    /// # Errors
    /// A collection that is too large for CQL.
    /// A collection that is too large for CQL.
    pub fn row(
        &self,
        partition: &[Vec<u8>],
        row: &NodeRow,
        now: i64,
        attempt: i64,
        losses: &mut CarriedLosses,
    ) -> Done<Vec<CellStatement>> {
        let clustering = row.clustering.iter().map(|v| v.clone().unwrap_or_default());
        let key: Vec<BoundValue> =
            partition.iter().cloned().chain(clustering).map(BoundValue::Bytes).collect();
        let part = self.part(row.is_static);
        let groups = BTreeMap::new();
        let mut maker = RowMaker { part, key: &key, now, attempt, groups, out: vec![], losses };
        if let Some(d) = row.deletion {
            maker.push(&self.delete_row, vec![number(d.timestamp)]);
        }
        if let Some(l) = row.liveness {
            // An expired marker still covers an older one, so it is written with an expiration in
            // the past.
            let expires = l.expiry.map(|e: NodeExpiry| e.expires);
            let times = [number(l.timestamp), ttl(expires, now)];
            let values = key.iter().cloned().chain(times).collect();
            maker.out.push(CellStatement::new(&self.insert, values, 1));
        }
        row.columns.iter().try_for_each(|column| maker.column(column))?;
        maker.finish()
    }

    /// Returns the statement of a row of counters, with a value for each counter column. `None` if
    /// it adds nothing.
    pub fn counter_row(&self, partition: &[Vec<u8>], row: &NodeRow) -> Option<CellStatement> {
        let part = self.part(row.is_static);
        let mut slots = vec![BoundValue::Unset; part.slots];
        let mut cells = 0;
        for column in &row.columns {
            let Some(to) = part.columns.get(column.column).and_then(Option::as_ref) else {
                continue;
            };
            let sum = |cell: &NodeCell| match &cell.state {
                NodeCellState::Live(shards) => counter_sum([&**shards]),
                _ => None,
            };
            if let Some(sum) = column.cells.first().and_then(sum) {
                slots[to.slot] = number(sum);
                cells += 1;
            }
        }
        let clustering = row.clustering.iter().map(|v| v.clone().unwrap_or_default());
        let key = partition.iter().cloned().chain(clustering).map(BoundValue::Bytes);
        let values = slots.into_iter().chain(key).collect();
        (cells > 0).then(|| CellStatement::new(&part.set, values, cells))
    }

    /// Returns the counters at a key of the store; with `is_range`, from there on.
    ///
    /// # Errors
    /// A key that is invalid for the table.
    pub fn counter_place(
        &self,
        layout: &Layout,
        at: &[u8],
        is_range: bool,
    ) -> Done<CounterAddress> {
        let end = layout.partition_len(at).map_err(model_trouble)?;
        let (partition, place) = at.split_at(end);
        let mut raw = vec![];
        layout.key_of(partition, &mut raw).map_err(model_trouble)?;
        let mut key = StatementKey { partition: self.partition_values(&raw)?, clustering: vec![] };
        let (is_static, row) = match place.first() {
            Some(&STATIC) => (Some(true), 1),
            Some(&ROWS) => {
                let row = layout.row_len(place).map_err(model_trouble)?;
                let values = &mut key.clustering;
                layout.clustering_of(&place[1..row - 1], values).map_err(model_trouble)?;
                (Some(false), row)
            }
            _ => (None, 0),
        };
        let column = match is_static {
            Some(_) if !is_range => self.table.column_at(&place[row..]),
            _ => Ok(None),
        };
        let column = column.map_err(|e| cql_trouble(&e))?;
        Ok(CounterAddress { key, is_static, column })
    }

    /// Returns the statement that deletes a counter, its row, or its partition. The deletion has
    /// the time of its execution at the cluster: counters have no timestamps there.
    pub fn counter_deletion(&self, at: &CounterAddress) -> CellStatement {
        let one = at.column.and_then(|id| self.table.column_by_id(id)).map(|c| &*c.name);
        // The static row is deleted by its columns: its key is the partition key.
        let names = match (one, at.is_static) {
            (None, Some(true)) => self.counters(true),
            (one, _) => one.into_iter().collect(),
        };
        let names: Vec<_> = names.into_iter().map(|name| quote_if_needed(name)).collect();
        let what = if names.is_empty() { String::new() } else { format!(" {}", names.join(", ")) };
        let clustering = &self.table.clustering()[..at.key.clustering.len()];
        let row = both(&self.of_partition, &equal(clustering));
        let text = format!("DELETE{what} FROM {} WHERE {row}", self.name);
        let key = at.key.partition.iter().chain(&at.key.clustering);
        CellStatement::new(&text.into(), key.cloned().map(BoundValue::Bytes).collect(), 1)
    }

    /// Returns the names of the counter columns, in the order of the values of
    /// [`counter_row`](TableStatements::counter_row).
    pub fn counters(&self, of_static: bool) -> Vec<&str> {
        self.part(of_static).columns.iter().flatten().map(|c| &*c.name).collect()
    }
}

/// Follows the events of a table and converts them to statements.
#[derive(Debug)]
pub struct StatementWalk<'a> {
    of: &'a TableStatements,
    partition: Vec<Vec<u8>>,
    open: Option<(NodeBound, i64)>,
}

impl<'a> StatementWalk<'a> {
    /// Starts before the first event.
    pub fn new(of: &'a TableStatements) -> StatementWalk<'a> {
        StatementWalk { of, partition: vec![], open: None }
    }

    /// Enters a partition without an event.
    ///
    /// # Errors
    /// A key that is invalid for the table.
    pub fn enter(&mut self, key: &[u8]) -> Done {
        self.partition = self.of.partition_values(key)?;
        self.open = None;
        Ok(())
    }

    /// Returns the current partition.
    pub fn partition(&self) -> &[Vec<u8>] {
        &self.partition
    }

    /// Returns the statements of an event, at the second `now`, with their key.
    ///
    /// # Errors
    /// A key that is invalid for the table.
    pub fn event(
        &mut self,
        event: &NodeEvent,
        now: i64,
        attempt: i64,
        losses: &mut CarriedLosses,
    ) -> Done<(StatementKey, Vec<CellStatement>)> {
        let mut key = StatementKey::default();
        let made = match event {
            NodeEvent::Partition(p) => {
                self.enter(&p.key)?;
                let deletion = p.deletion.map(|d| d.timestamp);
                let make = |t| self.of.partition_deletion(&self.partition, t);
                deletion.map(make).into_iter().collect()
            }
            NodeEvent::Marker(m) => {
                let mut made = vec![];
                if let (Some((end, _)), Some((start, timestamp))) = (&m.close, self.open.take()) {
                    let ends = (&start, end);
                    made = self.of.range_deletion(&self.partition, ends, timestamp, losses);
                }
                self.open = m.open.as_ref().map(|(bound, d)| (bound.clone(), d.timestamp));
                made
            }
            NodeEvent::Row(row) => {
                key.clustering = row.clustering.iter().flatten().cloned().collect();
                self.of.row(&self.partition, row, now, attempt, losses)?
            }
        };
        key.partition.clone_from(&self.partition);
        Ok((key, made))
    }
}
