//! The rows of one system table, filled in by name, put into the table's order; and who fills them
//! in.
//!
//! Invariant: every row has a key, and no two the same.

use std::collections::BTreeMap;

use firn_wide::Partitioner;

use crate::catalog::{TableColumn, TableSchema};
use crate::error::{Result, corrupt};
use crate::values::{Bound, ToValue};

/// Adds rows to system tables: what is known outside of the engine, as a server knows its clients.
pub trait SystemSource: Send + Sync {
    /// Adds what it knows of this table ([`SystemRows::is`]).
    fn fill(&self, rows: &mut SystemRows<'_>);
}

/// The rows of a system table, as they are filled in.
pub struct SystemRows<'a> {
    table: &'a TableSchema,
    /// The only partitions that are asked for.
    keys: Option<&'a [Vec<u8>]>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The first value that could not be one of its column.
    wrong: Option<String>,
}

impl std::fmt::Debug for SystemRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemRows").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// A row of a system table.
pub struct SystemRow {
    /// Its components, as [`Row::place`](crate::exec::row::Row::place) has them.
    pub place: Vec<u8>,
    /// The values of the table's columns, in their order.
    pub values: Vec<Option<Vec<u8>>>,
}

/// The rows of a partition by their places, with its key.
type PlacedRows = (Vec<u8>, BTreeMap<Vec<u8>, SystemRow>);

/// A partition of a system table, its rows in order.
pub struct SystemPartition {
    /// What orders it among the partitions.
    pub part: Vec<u8>,
    pub key: Vec<u8>,
    pub rows: Vec<SystemRow>,
}

impl<'a> SystemRows<'a> {
    /// None yet, of this table. `keys`: the only partitions that are asked for.
    pub(super) fn new(table: &'a TableSchema, keys: Option<&'a [Vec<u8>]>) -> SystemRows<'a> {
        SystemRows { table, keys, rows: vec![], wrong: None }
    }

    /// Whether they are those of this table.
    pub fn is(&self, keyspace: &str, table: &str) -> bool {
        self.table.keyspace == keyspace && self.table.name == table
    }

    /// The table's name.
    pub fn table(&self) -> &'a str {
        &self.table.name
    }

    /// Whether rows of the partition with this text as its key may be asked for: the others need
    /// not be added.
    pub fn wants(&self, key: &str) -> bool {
        self.keys.is_none_or(|keys| keys.iter().any(|k| k == key.as_bytes()))
    }

    /// Adds a row: the values of the columns that are named. The others are null.
    pub fn add(&mut self, values: &[(&str, &dyn ToValue)]) {
        let columns = self.table.columns();
        let mut row = vec![None; columns.len()];
        for (name, value) in values {
            let bound = columns
                .iter()
                .position(|c| c.name == *name)
                .map(|at| value.bound(&columns[at].of.of).map(|bound| (at, bound)));
            match bound {
                Some(Ok((at, Bound::Bytes(bytes)))) => row[at] = Some(bytes),
                Some(Ok((_, Bound::Null | Bound::Unset))) => {}
                Some(Err(e)) => self.wrong = Some(format!("{name}: {e}")),
                None => self.wrong = Some(format!("{name}: no such column")),
            }
        }
        self.rows.push(row);
    }

    /// The rows in the order of the table. Of two with one key the first counts.
    pub(super) fn finish(self, partitioner: Partitioner) -> Result<Vec<SystemPartition>> {
        let table = self.table;
        let name = || format!("{}.{}", table.keyspace, table.name);
        if let Some(wrong) = self.wrong {
            return Err(corrupt(format!("a row of {} can't be made: {wrong}", name())));
        }
        let layout = table.layout(partitioner);
        let (partition, clustering) = (table.partition().len(), table.clustering());
        let mut all: BTreeMap<Vec<u8>, PlacedRows> = BTreeMap::new();
        for values in self.rows {
            let missing = || corrupt(format!("a row of {} has no key", name()));
            let parts: Option<Vec<&Vec<u8>>> =
                values[..partition].iter().map(Option::as_ref).collect();
            let (mut key, mut part, mut place) = (vec![], vec![], vec![]);
            table.put_partition_key(&parts.ok_or_else(missing)?, &mut key)?;
            TableSchema::check_key(&key)?;
            layout.put_partition(&key, &mut part)?;
            for (column, value) in clustering.iter().zip(&values[partition..]) {
                let value = value.as_ref().ok_or_else(missing)?;
                TableColumn::layout_type(column).put_component(value, &mut place)?;
            }
            let rows = &mut all.entry(part).or_insert_with(|| (key, BTreeMap::new())).1;
            rows.entry(place.clone()).or_insert(SystemRow { place, values });
        }
        let partition = |(part, (key, rows)): (_, PlacedRows)| SystemPartition {
            part,
            key,
            rows: rows.into_values().collect(),
        };
        Ok(all.into_iter().map(partition).collect())
    }
}
