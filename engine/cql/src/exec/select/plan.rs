//! A compiled `SELECT`.

use std::sync::Arc;

use super::order::RowOrder;
use super::selection::RowSelection;
use crate::analysis::Restrictions;
use crate::catalog::TableSchema;
use crate::exec::access::RequiredPermission;
use crate::exec::row::RowShape;
use crate::values::vector::Similarity;
use crate::values::{BoundTerm, ColumnSpec};

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
}
