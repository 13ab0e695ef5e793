//! Counts the tombstones that a `SELECT` passes; warns and fails at limits, as in Cassandra.

use std::cell::Cell;

use firn_wide::Partitioner;

use super::plan::SelectPlan;
use crate::catalog::{ColumnKind, PartitionKey};
use crate::error::{Error, ErrorClass, Result};
use crate::exec::tombstones::TombstoneLimits;
use crate::values::literal;

/// Tombstones of one execution.
#[derive(Debug)]
pub(super) struct TombstoneTally {
    limits: Option<TombstoneLimits>,
    stepped: Cell<u64>,
}

impl TombstoneTally {
    pub fn new(limits: Option<TombstoneLimits>) -> TombstoneTally {
        TombstoneTally { limits, stepped: Cell::new(0) }
    }

    /// Adds tombstones that were passed.
    ///
    /// # Errors
    /// `ReadFailure` above the limit.
    pub fn step_over(&self, tombstones: u64) -> Result<()> {
        let sum = self.stepped.get().saturating_add(tombstones);
        self.stepped.set(sum);
        match self.limits {
            Some(limits) if sum > limits.fail => Err(Error::refused(
                ErrorClass::ReadFailure,
                "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES",
            )),
            _ => Ok(()),
        }
    }

    /// Finishes the read of a partition or range, and resets the count. Returns the count if it is
    /// above the warning limit.
    #[inline]
    pub fn end_of_read(&self) -> Option<u64> {
        let tombstones = self.stepped.take();
        self.limits.filter(|limits| tombstones > limits.warn).map(|_| tombstones)
    }
}

/// Returns the warning for the tombstones of a read. `rows` is the number of rows that it returned
/// and `key` the partition of the last one. `is_one`: the partition was named.
pub(super) fn warning(
    plan: &SelectPlan,
    partitioner: Partitioner,
    tombstones: u64,
    (rows, key): (u64, &PartitionKey),
    is_one: bool,
) -> String {
    let token = partitioner.token(key.bytes());
    let token = token.map(|t| partitioner.token_text(&t)).unwrap_or_default();
    let condition = if is_one { of_partition(plan, key) } else { String::new() };
    format!(
        "Read {rows} live rows and {tombstones} tombstone cells for query SELECT {} FROM {}.{}{condition} ALLOW FILTERING; token {token} (see tombstone_warn_threshold)",
        columns_read(plan),
        plan.table.keyspace,
        plan.table.name,
    )
}

/// Returns the columns that a statement reads besides the key.
fn columns_read(plan: &SelectPlan) -> String {
    let others = plan.table.columns().iter().zip(&plan.selection.places);
    let others = others.filter(|(c, _)| !c.is_primary_key());
    let (read, rest): (Vec<_>, Vec<_>) = others.partition(|(_, place)| place.is_some());
    if read.is_empty() || rest.is_empty() {
        return "*".to_owned();
    }
    read.iter().map(|(c, _)| &*c.name).collect::<Vec<_>>().join(", ")
}

/// Returns ` WHERE k = 1`.
fn of_partition(plan: &SelectPlan, key: &PartitionKey) -> String {
    let columns = plan.table.columns().iter().filter(|c| c.kind == ColumnKind::Partition);
    let each = columns
        .map(|c| format!("{} = {}", c.name, literal(&c.of.value_type, key.part(c.position))));
    format!(" WHERE {}", each.collect::<Vec<_>>().join(" AND "))
}
