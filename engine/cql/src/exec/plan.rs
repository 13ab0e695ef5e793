//! The plan of a compiled statement, and the options of its execution.

use super::run::RunOptions;
use std::any::Any;
use std::sync::Arc;

use firn_wide::internals::store::CellStore;

use super::access::RequiredPermission;
use super::engine::Engine;
use super::rows::Rows;
use crate::catalog::TableSchema;
use crate::error::Result;
use crate::values::{BoundValue, ColumnSpec};

/// A statement's execution.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Values bound to the markers, by marker number.
    pub bound: &'a [BoundValue],
    /// Role that has logged in. `None` may do everything.
    pub role: Option<&'a str>,
    /// Options of the execution.
    pub run: &'a RunOptions,
}

/// Kind of access to the rows of a table; Cassandra's request metrics have the same distinction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[doc(hidden)]
pub enum TableAccess {
    /// Reads partitions that it names.
    Read,
    /// Reads a range of partitions, or all.
    Scan,
    /// Writes, whether or not it reads rows first.
    Write,
}

/// Kind of change; Cassandra allows different consistency levels for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)]
pub enum ChangeKind<'p> {
    /// One change without a condition.
    Plain,
    /// One change of a counter in the table of this name.
    Counter(&'p str),
    /// One or several changes with conditions.
    Conditional,
    /// A batch without conditions.
    Batch,
}

impl Request<'_> {
    /// Returns the store for a statement that began at this microsecond. The whole statement uses
    /// one second for expiration.
    pub fn store(&self, engine: &Engine, began: i64) -> CellStore {
        let second = self.run.now_in_seconds.map_or(began.div_euclid(1_000_000), i64::from);
        engine.store().as_of(second)
    }
}

/// A compiled statement. It is valid as long as the catalog it was compiled with is the current
/// one.
pub trait StatementPlan: Any + Send + Sync {
    /// Returns the types of its bind markers.
    fn markers(&self) -> &[ColumnSpec];

    /// Returns the markers that are bound to the columns of the partition key, in the order of the
    /// key. Empty if a column has no marker.
    fn partition_key(&self) -> &[u16] {
        &[]
    }

    /// Returns the permissions that it needs. A definition checks them itself.
    fn needs(&self) -> &[RequiredPermission] {
        &[]
    }

    /// Returns the tables whose rows it reads or writes, once for each part of the statement. A
    /// definition has none.
    fn accesses(&self) -> Vec<(TableAccess, &TableSchema)> {
        vec![]
    }

    /// Reports whether it reads or writes only rows of one partition that it names.
    fn is_quick(&self) -> bool {
        false
    }

    /// Returns how it changes rows; `None` if it changes none.
    fn change_kind(&self) -> Option<ChangeKind<'_>> {
        None
    }

    /// Returns the columns of its result, if they are known before it runs.
    fn columns(&self) -> Option<&Arc<[ColumnSpec]>>;

    /// Estimates its heap bytes, which caches charge for it.
    fn heap_bytes(&self) -> usize;

    /// Executes the statement.
    ///
    /// # Errors
    /// `Invalid` for invalid bound values; errors of the engine.
    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows>;
}
