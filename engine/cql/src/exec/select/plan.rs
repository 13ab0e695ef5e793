//! A compiled `SELECT`.

use std::sync::Arc;

use super::order::RowOrder;
use super::selection::RowSelection;
use crate::analysis::Restrictions;
use crate::catalog::TableSchema;
use crate::exec::access::RequiredPermission;
use crate::exec::row::RowShape;
use crate::values::vector::Similarity;
use crate::values::{BoundTerm, ColumnSpec, HeapBytes, heap_bytes};

/// Grouping of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Not grouped.
    None,
    /// All rows form one group.
    Everything,
    /// By the partition and this number of clustering columns.
    By(usize),
}

/// Prepared `ORDER BY … ANN OF …`.
#[derive(Debug)]
pub struct NearestRows {
    /// Id of the vector index.
    pub index: u32,
    /// Index of the column.
    pub column: usize,
    /// Similarity function.
    pub similarity: Similarity,
    /// The vector to compare with.
    pub of: BoundTerm,
}

/// A read of few regular columns of a row.
#[derive(Debug)]
pub struct CellRead {
    /// The cells, at least one.
    pub cells: Vec<SelectedCell>,
    /// Values of the result.
    pub outputs: Vec<CellOutput>,
}

/// A cell of a [`CellRead`].
#[derive(Debug)]
pub struct SelectedCell {
    /// End of the cell's position, after the row's.
    pub name: Vec<u8>,
    /// The cell is dropped if it has this timestamp or an older one.
    pub dropped_until: Option<i64>,
}

/// A value of the result of a [`CellRead`].
#[derive(Clone, Copy, Debug)]
pub enum CellOutput {
    /// The value of the cell with this number.
    Cell(usize),
    /// The column of the partition key with this position.
    Key(usize),
    /// The clustering column with this position.
    Clustering(usize),
}

impl HeapBytes for CellOutput {
    fn heap_bytes(&self) -> usize {
        0
    }
}

heap_bytes!(CellRead { cells, outputs });
heap_bytes!(SelectedCell { name });

/// A compiled `SELECT`.
pub struct SelectPlan {
    pub table: Arc<TableSchema>,
    pub restrictions: Restrictions,
    pub selection: RowSelection,
    pub shape: RowShape,
    pub markers: Vec<ColumnSpec>,
    /// Permissions that it needs.
    pub needs: Vec<RequiredPermission>,
    /// Masked columns whose values are used in conditions.
    pub masked_conditions: Vec<String>,
    /// Markers bound to the partition key.
    pub partition_key: Vec<u16>,
    pub columns: Arc<[ColumnSpec]>,
    pub order: RowOrder,
    pub nearest: Option<NearestRows>,
    pub groups: Grouping,
    pub distinct: bool,
    /// Names in the objects of `SELECT JSON`.
    pub json: Option<Vec<String>>,
    pub limit: Option<BoundTerm>,
    pub per_partition: Option<BoundTerm>,
    /// Whether a partition without rows is shown for its static cells.
    pub shows_statics: bool,
    /// Whether partitions are read as a whole, including the part before the rows: static cells are
    /// selected, or the table has none.
    pub reads_whole: bool,
    pub warning: Option<&'static str>,
    /// The read of few cells that is tried first.
    pub cells: Option<CellRead>,
}
