//! Changes of one table of CQL: rows with their changed columns.
//!
//! The operations of a change are sorted and read like a whole table. Counters and lists have their
//! values in the store at that time, because the log has only increments and elements.

use std::fmt;
use std::sync::Arc;

use firn_cassandra::{
    NodeBound, NodeCell, NodeCellState, NodeColumn, NodeEvent, NodeExpiry, NodeRow, counter_sum,
};
use firn_cql::internals::catalog::{PartitionKey, TableColumn, TableSchema};
use firn_cql::internals::exec::Engine;
use firn_cql::internals::values::{exported_json, put_collection};
use firn_kv::{BatchOp, ChangePosition, Snapshot};
use firn_table_events::{ExportedTable, cql_trouble};
use firn_tools::output::Done;
use firn_wide::Type;
use firn_wide::internals::store::{Partitions, StoreFamily, StoreView};

use crate::event::{ChangeEvent, ChangeKind, ChangeSource, JsonFields, object};

/// A table in the store.
pub(crate) struct ChangedTable {
    schema: Arc<TableSchema>,
    live: ExportedTable,
    /// Regular and static columns by their numbers in events of nodes.
    columns: [Vec<Option<TableColumn>>; 2],
}

/// Operations of a change on one table.
#[derive(Debug, Default)]
pub(crate) struct TableOps<'c> {
    is_truncated: bool,
    /// Written keys and values, in the order of the change.
    entries: Vec<(&'c [u8], &'c [u8])>,
}

impl<'c> TableOps<'c> {
    /// Adds an operation. Data that a deletion of the data model covers has no operation, and the
    /// deletion itself is a put.
    pub fn add(&mut self, op: &BatchOp<'c>) {
        match *op {
            BatchOp::Put { key, value, .. } | BatchOp::Merge { key, operand: value, .. } => {
                self.entries.push((key, value));
            }
            // Keys of the data model are not empty, so this is the whole table.
            BatchOp::DeleteRange { start: [], .. } => self.is_truncated = true,
            _ => {}
        }
    }
}

impl fmt::Debug for ChangedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangedTable").field("name", &self.schema.name).finish_non_exhaustive()
    }
}

/// State while the events of a change are made.
struct RowEvents<'t> {
    table: &'t ChangedTable,
    position: ChangePosition,
    /// Stored partition key, and its columns in JSON.
    partition: (Vec<u8>, JsonFields),
    /// Start of the present range deletion.
    open: Option<(NodeBound, i64)>,
    /// Whether the events are those of a snapshot, which has no deletions.
    is_snapshot: bool,
}

impl ChangedTable {
    /// Prepares a table of the engine.
    ///
    /// # Errors
    /// A type without a class name in Cassandra.
    pub fn new(
        engine: &Engine,
        schema: Arc<TableSchema>,
        family: StoreFamily,
    ) -> Done<ChangedTable> {
        ChangedTable::in_view(engine, schema, family, engine.store().latest())
    }

    /// Returns the table in the state of a snapshot.
    ///
    /// # Errors
    /// Those of [`new`](ChangedTable::new).
    pub fn at(&self, engine: &Engine, snapshot: &Snapshot) -> Done<ChangedTable> {
        let (schema, family) = (self.schema.clone(), self.live.family().clone());
        ChangedTable::in_view(engine, schema, family, engine.store().view_of(snapshot.clone()))
    }

    fn in_view(
        engine: &Engine,
        schema: Arc<TableSchema>,
        family: StoreFamily,
        view: StoreView,
    ) -> Done<ChangedTable> {
        let (partitioner, owner) = (engine.partitioner(), engine.host_id().into_bytes());
        let live = ExportedTable::new(schema.clone(), family, view, partitioner, owner)?;
        let numbered = |of_static| live.numbered(of_static).into_iter().map(Option::<&_>::cloned);
        let columns = [false, true].map(|of_static| numbered(of_static).collect());
        Ok(ChangedTable { schema, live, columns })
    }

    /// Reports whether the table or its keyspace is in a list of names, or the list is empty.
    pub fn is_wanted(&self, only: &[String]) -> bool {
        let TableSchema { keyspace, name, .. } = &*self.schema;
        let is_named = |wanted: &String| {
            wanted == keyspace || wanted.split_once('.') == Some((&**keyspace, &**name))
        };
        only.is_empty() || only.iter().any(is_named)
    }

    /// Passes the event of the table's drop to `take`.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn dropped(
        &self,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        let events = RowEvents::new(self, position, false);
        take(events.event(ChangeKind::Drop, None, vec![], vec![]))
    }

    /// Returns the schema of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Passes the events of the operations of a change to `take`.
    ///
    /// # Errors
    /// Errors of `take` and of reading.
    pub fn events(
        &self,
        mut ops: TableOps<'_>,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        let mut events = RowEvents::new(self, position, false);
        if ops.is_truncated {
            take(events.event(ChangeKind::Truncate, None, vec![], vec![]))?;
        }
        // The sort is stable, so the last write of a key is the last one of its run.
        ops.entries.sort_by_key(|(key, _)| *key);
        let last = ops.entries.chunk_by(|a, b| a.0 == b.0).filter_map(|run| run.last().copied());
        self.live.each_stored(last, &mut |event| events.of(event, take))
    }

    /// Passes an event for each live row to `take`.
    ///
    /// # Errors
    /// Errors of `take` and of reading.
    pub fn snapshot(
        &self,
        position: ChangePosition,
        take: &mut dyn FnMut(ChangeEvent) -> Done,
    ) -> Done {
        let mut events = RowEvents::new(self, position, true);
        self.live.each(&Partitions::all(), &mut |event| events.of(event, take)).map(drop)
    }
}

impl<'t> RowEvents<'t> {
    fn new(table: &'t ChangedTable, position: ChangePosition, is_snapshot: bool) -> RowEvents<'t> {
        RowEvents { table, position, partition: (vec![], vec![]), open: None, is_snapshot }
    }

    fn event(
        &self,
        kind: ChangeKind,
        timestamp: Option<i64>,
        key: JsonFields,
        columns: JsonFields,
    ) -> ChangeEvent {
        let schema = &self.table.schema;
        let source =
            ChangeSource::Table { keyspace: schema.keyspace.clone(), name: schema.name.clone() };
        let position = self.position;
        ChangeEvent { position, source, kind, timestamp, key, columns, facts: vec![] }
    }

    fn of(&mut self, event: &NodeEvent, take: &mut dyn FnMut(ChangeEvent) -> Done) -> Done {
        match event {
            NodeEvent::Partition(p) => {
                let schema = &self.table.schema;
                let mut parts = PartitionKey::default();
                parts.set(schema, &p.key).map_err(|e| cql_trouble(&e))?;
                let columns = schema.partition().iter().enumerate();
                let key = columns
                    .map(|(n, c)| (c.name.clone(), exported_json(&c.of.value_type, parts.part(n))));
                self.partition = (p.key.clone(), key.collect());
                self.open = None;
                match p.deletion.filter(|_| !self.is_snapshot) {
                    Some(d) => take(self.event(
                        ChangeKind::Delete,
                        Some(d.timestamp),
                        self.partition.1.clone(),
                        vec![],
                    )),
                    None => Ok(()),
                }
            }
            NodeEvent::Row(row) => self.row(row, take),
            NodeEvent::Marker(_) if self.is_snapshot => Ok(()),
            NodeEvent::Marker(m) => {
                if let (Some((end, _)), Some((start, timestamp))) = (&m.close, self.open.take()) {
                    let key = self.partition.1.clone();
                    let mut made =
                        self.event(ChangeKind::DeleteRange, Some(timestamp), key, vec![]);
                    made.facts = [("from", &start), ("to", end)]
                        .into_iter()
                        .filter(|(_, bound)| !bound.clustering.is_empty())
                        .map(|(name, bound)| (name.to_owned(), self.bound(bound)))
                        .collect();
                    take(made)?;
                }
                self.open = m.open.as_ref().map(|(start, d)| (start.clone(), d.timestamp));
                Ok(())
            }
        }
    }

    /// Returns the clustering columns with these values.
    fn clustering(&self, values: &[Option<Vec<u8>>]) -> JsonFields {
        let columns = self.table.schema.clustering().iter().zip(values);
        let field = |(c, v): (&TableColumn, &Option<Vec<u8>>)| {
            (c.name.clone(), exported_json(&c.of.value_type, v.as_deref()))
        };
        columns.map(field).collect()
    }

    fn bound(&self, bound: &NodeBound) -> String {
        let inclusive = ("inclusive".to_owned(), bound.inclusive.to_string());
        let key = ("key".to_owned(), object(&self.clustering(&bound.clustering)));
        object(&[key, inclusive])
    }

    fn row(&self, row: &NodeRow, take: &mut dyn FnMut(ChangeEvent) -> Done) -> Done {
        let table = self.table;
        let mut key = self.partition.1.clone();
        key.extend(self.clustering(&row.clustering));
        let clustering: Vec<Vec<u8>> = row.clustering.iter().flatten().cloned().collect();
        let numbered = &table.columns[usize::from(row.is_static)];
        let named =
            || row.columns.iter().filter_map(|of| Some((of, numbered.get(of.column)?.as_ref()?)));
        let needs_live = named().any(|(_, c)| needs_live(c));
        let live = if needs_live {
            let at = (!row.is_static).then_some(&*clustering);
            table.live.live_row(&self.partition.0, at)?
        } else {
            None
        };
        let mut columns = vec![];
        for (changed, column) in named() {
            let there = live.iter().flat_map(|l| &l.columns).find(|c| c.column == changed.column);
            columns.push((column.name.clone(), self.column(column, changed, there)?));
        }
        let times = row.columns.iter().flat_map(|c| {
            let cells = c.cells.iter().map(|cell| cell.timestamp);
            cells.chain(c.deletion.map(|d| d.timestamp))
        });
        let own = row.liveness.map(|l| l.timestamp).into_iter();
        let timestamp = times.chain(own).chain(row.deletion.map(|d| d.timestamp)).max();
        let has_value = row.columns.iter().flat_map(|c| &c.cells).any(|cell| value(cell).is_some());
        if self.is_snapshot && row.liveness.is_none() && !has_value {
            return Ok(());
        }
        let kind = match (row.liveness, row.deletion, row.columns.is_empty()) {
            _ if self.is_snapshot => ChangeKind::Read,
            (Some(_), ..) => ChangeKind::Insert,
            (None, Some(_), true) => ChangeKind::Delete,
            _ => ChangeKind::Update,
        };
        let timestamp = timestamp.filter(|_| !table.live.family().is_counter());
        let mut made = self.event(kind, timestamp, key, columns);
        if matches!(kind, ChangeKind::Insert | ChangeKind::Update) && row.deletion.is_some() {
            made.facts.push(("replaces".to_owned(), "true".to_owned()));
        }
        let expiring = row.columns.iter().flat_map(|c| &c.cells).find_map(expiry);
        let expiry = row.liveness.and_then(|l| l.expiry).or(expiring);
        made.facts.extend(expiry.map(|e| ("ttl".to_owned(), e.ttl.to_string())));
        take(made)
    }

    /// Returns the change of a column: its value, or the changed elements of a collection or user
    /// type. In a snapshot it is the whole value.
    fn column(
        &self,
        column: &TableColumn,
        changed: &NodeColumn,
        live: Option<&NodeColumn>,
    ) -> Done<String> {
        let of = &column.of.value_type;
        if of.is_counter() {
            let shards = live.iter().flat_map(|c| &c.cells).filter_map(value);
            return Ok(counter_sum(shards).map_or_else(|| "null".to_owned(), |n| n.to_string()));
        }
        if column.of.path_type().is_none() {
            return Ok(exported_json(of, changed.cells.last().and_then(value)));
        }
        let elements = |cells: &[NodeCell], is_set: bool| -> Vec<Vec<u8>> {
            let cells = cells.iter().filter(|cell| value(cell).is_some() == is_set);
            cells.filter_map(|cell| cell.path.clone()).collect()
        };
        let (set, removed) = match of {
            Type::List(_) => {
                let there = live.map_or(&[][..], |c| &c.cells);
                let values: Vec<_> = there.iter().filter_map(value).map(<[u8]>::to_vec).collect();
                return if values.is_empty() {
                    Ok("null".to_owned())
                } else {
                    collection(of, &values)
                };
            }
            Type::Map(kv) => {
                let pairs =
                    changed.cells.iter().filter_map(|c| Some([c.path.as_deref()?, value(c)?]));
                let pairs: Vec<_> = pairs.flatten().map(<[u8]>::to_vec).collect();
                let removed = elements(&changed.cells, false);
                let keys = Type::Set(kv.0.clone().into());
                (collection(of, &pairs)?, collection(&keys, &removed)?)
            }
            Type::Set(_) => {
                let (set, removed) =
                    (elements(&changed.cells, true), elements(&changed.cells, false));
                (collection(of, &set)?, collection(of, &removed)?)
            }
            Type::Udt(user) => {
                let fields = changed.cells.iter().filter_map(|cell| {
                    let number = u16::from_be_bytes(cell.path.as_deref()?.try_into().ok()?);
                    let (name, of) = user.fields.get(usize::from(number))?;
                    Some((name.clone(), exported_json(of, value(cell))))
                });
                (object(&fields.collect::<Vec<_>>()), "[]".to_owned())
            }
            _ => return Ok("null".to_owned()),
        };
        if self.is_snapshot {
            return Ok(set);
        }
        let mut parts = vec![];
        if changed.deletion.is_some() {
            parts.push(("replaced".to_owned(), "true".to_owned()));
        }
        let texts = [("set", set), ("removed", removed)];
        let texts = texts.into_iter().filter(|(_, text)| text != "[]" && text != "{}");
        parts.extend(texts.map(|(name, text)| (name.to_owned(), text)));
        Ok(object(&parts))
    }
}

/// Returns the collection of these parts in JSON.
fn collection(of: &Type, parts: &[Vec<u8>]) -> Done<String> {
    let bytes = put_collection(of, parts).map_err(|e| cql_trouble(&e))?;
    Ok(exported_json(of, Some(&bytes)))
}

/// Reports whether the value of a column must be read from the store.
fn needs_live(column: &TableColumn) -> bool {
    let of = &column.of;
    of.value_type.is_counter() || of.multicell && matches!(of.value_type, Type::List(_))
}

/// Returns the value of a cell that is not deleted.
fn value(cell: &NodeCell) -> Option<&[u8]> {
    match &cell.state {
        NodeCellState::Live(value) | NodeCellState::Expiring(value, _) => Some(value),
        NodeCellState::Deleted(_) => None,
    }
}

fn expiry(cell: &NodeCell) -> Option<NodeExpiry> {
    match cell.state {
        NodeCellState::Expiring(_, expiry) => Some(expiry),
        _ => None,
    }
}
