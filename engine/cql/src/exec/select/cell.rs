//! Reads one cell of a row that the whole primary key names, without a cursor: the most frequent
//! `SELECT`.
//!
//! Invariant: a live cell shows that its row exists. Without one, the row is read as a whole.

use super::plan::{CellOutput, CellRead, Grouping, SelectPlan};
use super::selection::{ColumnSlot, OutputColumn, SelectionNode};
use crate::catalog::{ColumnKind, TableSchema};
use crate::error::Result;
use crate::exec::engine::Engine;
use crate::exec::plan::Request;
use crate::exec::rows::{RowCells, Rows};
use crate::values::EvalEnv;

/// Initial capacity of a position.
const USUAL_PLACE: usize = 64;
/// Maximum bytes of a value. Larger results are charged to budgets.
const MOST_BYTES: usize = 16 << 10;

impl SelectPlan {
    /// Returns the read of a cell that is sufficient for the statement, if there is one. `wanted`:
    /// the indexes of the columns with slots.
    pub(super) fn sufficient_cell(&self, wanted: &[usize]) -> Option<CellRead> {
        let [column] = wanted else { return None };
        let (table, column) = (&self.table, &self.table.columns()[*column]);
        let is_cell = column.kind == ColumnKind::Regular && !column.of.multicell;
        let has_markers = table.form().is_none() && !table.needs_markers();
        let is_plain = self.groups == Grouping::None
            && self.order.sort.is_empty()
            && self.nearest.is_none()
            && self.json.is_none()
            && self.limit.is_none()
            && self.per_partition.is_none()
            && !self.distinct
            && !self.shape.has_times();
        // A masked column may be used in conditions only with a permission.
        let is_open = !table.is_system() && !table.has_masks();
        let names_row = self.restrictions.is_plain_row();
        if !is_cell || table.is_counter() || !has_markers || !is_plain || !is_open || !names_row {
            return None;
        }
        let output = |output: &OutputColumn| match output.node {
            SelectionNode::Column(ColumnSlot::Regular(_)) => Some(CellOutput::Cell),
            SelectionNode::Column(ColumnSlot::Key(i)) => Some(CellOutput::Key(i)),
            SelectionNode::Column(ColumnSlot::Clustering(i)) => Some(CellOutput::Clustering(i)),
            _ => None,
        };
        Some(CellRead {
            name: table.cell_name(Some(column)),
            dropped_until: table.dropped_until(column),
            outputs: self.selection.outputs.iter().map(output).collect::<Option<_>>()?,
        })
    }

    /// Returns the result if the selected cell is live. `None`: the row must be read as a whole.
    ///
    /// # Errors
    /// `Invalid` for invalid bound values; errors of the engine.
    pub(super) fn read_cell(
        &self,
        read: &CellRead,
        engine: &Engine,
        request: &Request<'_>,
    ) -> Result<Option<Rows>> {
        // After a page of one row, the result has a paging state.
        let is_paged = request.run.paging.is_some() || request.run.page_size.is_some_and(|n| n < 2);
        if is_paged || request.run.is_stopped() {
            return Ok(None);
        }
        // The terms of the key need no time.
        let env = EvalEnv { bound: request.bound, now: 0, random: &|| 0 };
        let (Some(parts), Some(row)) =
            (self.restrictions.key_parts(&env)?, self.restrictions.one_row(&env)?)
        else {
            return Ok(None);
        };
        let mut key = vec![];
        let key = match &*parts {
            [only] => &**only,
            parts => {
                self.table.put_partition_key(parts, &mut key)?;
                &key
            }
        };
        TableSchema::check_key(key)?;
        let layout = self.shape.layout();
        let mut place = Vec::with_capacity(USUAL_PLACE);
        layout.put_row(&row, &mut place)?;
        let row_len = place.len();
        place.extend_from_slice(&read.name);
        let family = engine.family(&self.table)?;
        let found = match request.run.now_in_seconds {
            None => engine.store().get(&family, key, &place)?,
            Some(now) => engine.store().as_of(i64::from(now)).get(&family, key, &place)?,
        };
        let Some(found) = found else { return Ok(None) };
        let cell = found.cell();
        if Some(cell.timestamp) <= read.dropped_until || cell.value().len() > MOST_BYTES {
            return Ok(None);
        }
        let mut clustering = vec![];
        if read.outputs.iter().any(|output| matches!(output, CellOutput::Clustering(_))) {
            layout.clustering_of(&place[1..row_len - 1], &mut clustering)?;
        }
        let mut cells = RowCells::with_capacity(read.outputs.len());
        for output in &read.outputs {
            cells.push(match output {
                CellOutput::Cell => Some(cell.value()),
                CellOutput::Key(i) => parts.get(*i).map(|part| &**part),
                CellOutput::Clustering(i) => clustering.get(*i).map(Vec::as_slice),
            });
        }
        if request.run.max_result_bytes.is_some_and(|most| cells.memory() > most) {
            return Ok(None);
        }
        Ok(Some(Rows::new(self.columns.clone(), cells)))
    }
}
