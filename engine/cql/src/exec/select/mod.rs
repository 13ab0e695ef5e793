//! `SELECT`, compiled once and run often (model 3.4).
//!
//! | file | what |
//! |---|---|
//! | `prepare`, `selection` | what is made of a row: looked up, then evaluated |
//! | `order` | what `ORDER BY`, `GROUP BY` and `DISTINCT` may ask |
//! | `fold` | what is made of many rows |
//! | `plan`, `compile` | a statement, compiled |
//! | `indexed` | rows that indexes find: ranges of values, the nearest vectors |
//! | `read` | which partitions and rows are read, and how: keys, ranges, indexes |
//! | `run` | which of these ways a run goes |
//! | `tombstones` | deleted rows and cells that a read steps over: warned of, and bounded |
//! | `system` | the same of a system table |
//! | `collect` | rows filtered, grouped, limited, made into a page |
//! | `page` | the bytes of a paging state |
//! | `advice` | what would find the rows of a statement that is refused because it would filter |
//!
//! Invariants: a page is read without looking at what comes before it; a scan in pages needs memory
//! for one page; a read of one row reads that row only, and takes no snapshot.

mod advice;
mod collect;
mod compile;
mod fold;
mod indexed;
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

use super::access::Need;
use super::engine::Engine;
use super::plan::{Request, StatementPlan, TableAccess};
use super::rows::Rows;
use crate::catalog::TableSchema;
use crate::error::Result;
use crate::values::{ColumnSpec, EvalEnv, HeapBytes};
pub use compile::Compilation;
use plan::SelectPlan;

/// Bytes that a plan has for each column of its table, where that column is stored.
const BY_COLUMN: usize = 96;

/// Compiles a statement.
///
/// # Errors
/// `Invalid` with the servers' text; of what only filtering would answer, with the index or the key
/// that would find the rows.
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

    fn needs(&self) -> &[Need] {
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
        } = self;
        // The shape, and the places of columns.
        let by_column = table.columns().len() * BY_COLUMN;
        let columns: usize = columns.iter().map(|c| size_of::<ColumnSpec>() + c.heap_bytes()).sum();
        let terms = [limit.heap_bytes(), per_partition.heap_bytes()].into_iter().sum::<usize>()
            + nearest.as_ref().map_or(0, |nearest| nearest.of.heap_bytes());
        let names = masked_conditions.heap_bytes() + json.heap_bytes();
        let whole = restrictions.heap_bytes() + selection.heap_bytes() + markers.heap_bytes();
        let keys = needs.heap_bytes() + partition_key.heap_bytes();
        whole + by_column + columns + terms + names + keys
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        let random = || engine.random_bits();
        let now = engine.store().timestamp();
        let env = EvalEnv { bound: request.bound, now, random: &random };
        if self.table.is_system() {
            return self.read_system(engine, request, &env);
        }
        self.read(engine, request, &env)
    }
}
