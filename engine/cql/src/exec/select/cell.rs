//! Reads few cells of a row that the whole primary key names, without a cursor: the most frequent
//! `SELECT`.
//!
//! Invariant: a live cell shows that its row exists. Without one, the row is read as a whole.

use firn_wide::internals::store::CellValue;
use smallvec::{SmallVec, smallvec};

use super::plan::{CellOutput, CellRead, Grouping, SelectPlan, SelectedCell};
use super::selection::{ColumnSlot, OutputColumn, SelectionNode};
use crate::catalog::{ColumnKind, TableSchema};
use crate::error::Result;
use crate::exec::engine::Engine;
use crate::exec::plan::Request;
use crate::exec::rows::{RowCells, Rows};
use crate::values::EvalEnv;

/// Initial capacity of a position.
const USUAL_PLACE: usize = 64;
/// Maximum bytes of all values. Larger results are charged to budgets.
const MOST_BYTES: usize = 16 << 10;
/// Maximum number of cells. More are found faster by a cursor.
const MOST_CELLS: usize = 4;

impl SelectPlan {
    /// Returns the read of cells that is sufficient for the statement, if there is one. `wanted`:
    /// the indexes of the columns with slots.
    pub(super) fn sufficient_cells(&self, wanted: &[usize]) -> Option<CellRead> {
        if !(1..=MOST_CELLS).contains(&wanted.len()) {
            return None;
        }
        let table = &self.table;
        let columns = wanted.iter().map(|column| &table.columns()[*column]);
        let are_cells = columns.clone().all(|c| c.kind == ColumnKind::Regular && !c.of.multicell);
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
        if !are_cells || table.is_counter() || !has_markers || !is_plain || !is_open || !names_row {
            return None;
        }
        let output = |output: &OutputColumn| match output.node {
            SelectionNode::Column(ColumnSlot::Regular(slot)) => Some(CellOutput::Cell(slot)),
            SelectionNode::Column(ColumnSlot::Key(i)) => Some(CellOutput::Key(i)),
            SelectionNode::Column(ColumnSlot::Clustering(i)) => Some(CellOutput::Clustering(i)),
            _ => None,
        };
        let cell = |column| SelectedCell {
            name: table.cell_name(Some(column)),
            dropped_until: table.dropped_until(column),
        };
        Some(CellRead {
            cells: columns.map(cell).collect(),
            outputs: self.selection.outputs.iter().map(output).collect::<Option<_>>()?,
        })
    }

    /// Returns the result if a selected cell is live. `None`: the row must be read as a whole.
    ///
    /// # Errors
    /// `Invalid` for invalid bound values; errors of the engine.
    pub(super) fn read_cells(
        &self,
        read: &CellRead,
        engine: &Engine,
        request: &Request<'_>,
    ) -> Result<Option<Rows>> {
        // After a page of one row, the result has a paging state.
        let is_paged = request.run.paging.is_some() || request.run.page_size.is_some_and(|n| n < 2);
        if is_paged || request.run.view.is_some() || request.run.is_stopped() {
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
        let family = engine.family(&self.table)?;
        let (store, now) = (engine.store(), request.run.now_in_seconds.map(i64::from));
        let found: SmallVec<[Option<CellValue>; 1]> = match &read.cells[..] {
            [only] => {
                place.extend_from_slice(&only.name);
                smallvec![match now {
                    None => store.get(&family, key, &place)?,
                    Some(now) => store.as_of(now).get(&family, key, &place)?,
                }]
            }
            cells => {
                let places: SmallVec<[_; MOST_CELLS]> =
                    cells.iter().map(|cell| [&place[..], &cell.name].concat()).collect();
                SmallVec::from_vec(match now {
                    None => store.get_many(&family, key, &places)?,
                    Some(now) => store.as_of(now).get_many(&family, key, &places)?,
                })
            }
        };
        let live =
            || found.iter().zip(&read.cells).filter_map(|(found, of)| Some((found.as_ref()?, of)));
        let is_dropped = live().any(|(found, of)| Some(found.cell().timestamp) <= of.dropped_until);
        let bytes: usize = live().map(|(found, _)| found.value().len()).sum();
        if live().next().is_none() || is_dropped || bytes > MOST_BYTES {
            return Ok(None);
        }
        let mut clustering = vec![];
        if read.outputs.iter().any(|output| matches!(output, CellOutput::Clustering(_))) {
            layout.clustering_of(&place[1..row_len - 1], &mut clustering)?;
        }
        let mut cells = RowCells::with_capacity(read.outputs.len());
        for output in &read.outputs {
            cells.push(match output {
                CellOutput::Cell(i) => found.get(*i).and_then(|cell| Some(cell.as_ref()?.value())),
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
