//! Sources of rows of system tables, and the sorting of these rows into the table's order.
//!
//! Invariant: every row has a key, and the keys are distinct.

use std::collections::BTreeMap;

use firn_wide::Partitioner;

use crate::catalog::{TableColumn, TableSchema};
use crate::error::{Result, corrupt};
use crate::values::{BoundValue, ToValue};

/// Adds rows to system tables, with information from outside the engine, such as a server's
/// clients.
pub trait SystemSource: Send + Sync {
    /// Adds the rows that it has for this table ([`SystemRows::is`]).
    fn fill(&self, rows: &mut SystemRows<'_>);
}

/// Collects the rows of a system table.
pub struct SystemRows<'a> {
    table: &'a TableSchema,
    /// The only partitions that the statement reads.
    keys: Option<&'a [Vec<u8>]>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
    /// Error of the first value that does not fit its column.
    wrong: Option<String>,
}

impl std::fmt::Debug for SystemRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemRows").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// A row of a system table.
pub struct SystemRow {
    /// Components of its position, as in [`Row::place`](crate::exec::row::Row::place).
    pub place: Vec<u8>,
    /// Values of the table's columns, in their order.
    pub values: Vec<Option<Vec<u8>>>,
}

/// Key of a partition, and its rows by position.
type PlacedRows = (Vec<u8>, BTreeMap<Vec<u8>, SystemRow>);

/// A partition of a system table, with its rows in order.
pub struct SystemPartition {
    /// Encoded partition key, by which partitions are sorted.
    pub part: Vec<u8>,
    pub key: Vec<u8>,
    pub rows: Vec<SystemRow>,
}

impl<'a> SystemRows<'a> {
    /// Creates an empty set of rows of this table. `keys`: the only partitions that the statement
    /// reads.
    pub(super) fn new(table: &'a TableSchema, keys: Option<&'a [Vec<u8>]>) -> SystemRows<'a> {
        SystemRows { table, keys, rows: vec![], wrong: None }
    }

    /// Reports whether these are the rows of this table.
    pub fn is(&self, keyspace: &str, table: &str) -> bool {
        self.table.keyspace == keyspace && self.table.name == table
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &'a str {
        &self.table.name
    }

    /// Reports whether the statement may read the partition with this text key. Rows of other
    /// partitions need not be added.
    pub fn wants(&self, key: &str) -> bool {
        self.keys.is_none_or(|keys| keys.iter().any(|k| k == key.as_bytes()))
    }

    /// Adds a row with values of the named columns. All other columns are null.
    pub fn add(&mut self, values: &[(&str, &dyn ToValue)]) {
        let columns = self.table.columns();
        let mut row = vec![None; columns.len()];
        for (name, value) in values {
            let bound = columns
                .iter()
                .position(|c| c.name == *name)
                .map(|at| value.bound(&columns[at].of.value_type).map(|bound| (at, bound)));
            match bound {
                Some(Ok((at, BoundValue::Bytes(bytes)))) => row[at] = Some(bytes),
                Some(Ok((_, BoundValue::Null | BoundValue::Unset))) => {}
                Some(Err(e)) => self.wrong = Some(format!("{name}: {e}")),
                None => self.wrong = Some(format!("{name}: no such column")),
            }
        }
        self.rows.push(row);
    }

    /// Adds a row that belongs to a table.
    pub(super) fn add_of(&mut self, table: &TableSchema, values: &[(&str, &dyn ToValue)]) {
        let names: [(&str, &dyn ToValue); 2] =
            [("keyspace_name", &table.keyspace), ("table_name", &table.name)];
        self.add(&[&names, values].concat());
    }

    /// Returns the rows in the order of the table. If two rows have the same key, it returns the
    /// first.
    pub(super) fn finish(self, partitioner: Partitioner) -> Result<Vec<SystemPartition>> {
        let table = self.table;
        let name = || format!("{}.{}", table.keyspace, table.name);
        if let Some(wrong) = self.wrong {
            return Err(corrupt!("invalid row of {}: {wrong}", name()));
        }
        let layout = table.layout(partitioner);
        let (partition, clustering) = (table.partition().len(), table.clustering());
        let mut all: BTreeMap<Vec<u8>, PlacedRows> = BTreeMap::new();
        for values in self.rows {
            let missing = || corrupt!("a row of {} has no key", name());
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
