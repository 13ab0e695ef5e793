//! `SELECT`: compilation and execution (model 3.4).
//!
//! | file | content |
//! |---|---|
//! | `prepare`, `selection` | selectors: name resolution, then evaluation |
//! | `order` | checks of `ORDER BY`, `GROUP BY` and `DISTINCT` |
//! | `fold` | aggregates |
//! | `plan`, `compile` | a compiled statement |
//! | `indexed` | reads by index: ranges of values, the nearest vectors |
//! | `cell` | reads of few cells of a named row |
//! | `read` | reads of partitions and rows: keys, ranges, indexes |
//! | `run` | the choice between these reads |
//! | `tombstones` | warnings and limits for tombstones that a read passes |
//! | `system` | reads of system tables |
//! | `collect` | builds a page: filters, groups, limits |
//! | `page` | encoding of a paging state |
//! | `advice` | indexes and keys that would avoid filtering |
//!
//! Invariants: a page is read without reading earlier pages. A paged scan needs memory for one
//! page. A read of one row reads only that row, and takes no snapshot.

mod advice;
mod cell;
mod collect;
mod compile;
mod fold;
mod indexed;
mod infer;
mod order;
mod page;
mod plan;
mod prepare;
mod read;
mod run;
mod selection;
mod system;
mod tombstones;

use std::sync::Arc;

use super::access::RequiredPermission;
use super::engine::Engine;
use super::plan::{Request, StatementPlan, TableAccess};
use super::rows::Rows;
use crate::catalog::TableSchema;
use crate::error::Result;
use crate::values::{ColumnSpec, EvalEnv, HeapBytes};
pub use compile::Compilation;
use plan::SelectPlan;

/// Estimated bytes of a plan for each stored column of its table.
const BY_COLUMN: usize = 96;

/// Compiles a statement.
///
/// # Errors
/// `Invalid` with Cassandra's text. If the statement would need filtering, the help names an index
/// or a key that would find the rows.
pub fn plan_select(compilation: &Compilation<'_>) -> Result<SelectPlan> {
    compile::plan(compilation).map_err(|e| match advice::of(compilation) {
        Some(help) => e.with_help(help),
        None => e,
    })
}

impl StatementPlan for SelectPlan {
    fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    fn needs(&self) -> &[RequiredPermission] {
        &self.needs
    }

    fn partition_key(&self) -> &[u16] {
        &self.partition_key
    }

    fn accesses(&self) -> Vec<(TableAccess, &TableSchema)> {
        let is_scan = self.restrictions.is_key_range();
        vec![(if is_scan { TableAccess::Scan } else { TableAccess::Read }, &self.table)]
    }

    fn is_quick(&self) -> bool {
        self.restrictions.is_one_row()
    }

    fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        Some(&self.columns)
    }

    fn heap_bytes(&self) -> usize {
        let SelectPlan {
            table,
            restrictions,
            selection,
            shape: _,
            markers,
            needs,
            masked_conditions,
            partition_key,
            columns,
            order: _,
            nearest,
            groups: _,
            distinct: _,
            json,
            limit,
            per_partition,
            shows_statics: _,
            reads_whole: _,
            warning: _,
            cells,
        } = self;
        // The row shape, and the positions of columns.
        let by_column = table.columns().len() * BY_COLUMN;
        let columns: usize = columns.iter().map(|c| size_of::<ColumnSpec>() + c.heap_bytes()).sum();
        let terms = [limit.heap_bytes(), per_partition.heap_bytes()].into_iter().sum::<usize>()
            + nearest.as_ref().map_or(0, |nearest| nearest.of.heap_bytes());
        let names = masked_conditions.heap_bytes() + json.heap_bytes();
        let whole = restrictions.heap_bytes() + selection.heap_bytes() + markers.heap_bytes();
        let keys = needs.heap_bytes() + partition_key.heap_bytes() + cells.heap_bytes();
        whole + by_column + columns + terms + names + keys
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        if let Some(cells) = &self.cells
            && let Some(rows) = self.read_cells(cells, engine, request)?
        {
            return Ok(rows);
        }
        let random = || engine.random_bits();
        let now = engine.store().timestamp();
        let env = EvalEnv { bound: request.bound, now, random: &random };
        if self.table.is_system() {
            return self.read_system(engine, request, &env);
        }
        self.read(engine, request, &env)
    }
}
