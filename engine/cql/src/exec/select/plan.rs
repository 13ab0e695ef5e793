//! A compiled `SELECT`.

use std::sync::Arc;

use super::order::RowOrder;
use super::selection::RowSelection;
use crate::analysis::Restrictions;
use crate::catalog::TableSchema;
use crate::exec::access::Need;
use crate::exec::row::RowShape;
use crate::values::vector::Similarity;
use crate::values::{BoundTerm, ColumnSpec};

/// How rows are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// They aren't.
    None,
    /// All are one group.
    Everything,
    /// By the partition and so many clustering columns.
    By(usize),
}

/// What `ORDER BY … ANN OF …` asks for.
#[derive(Debug)]
pub struct NearestRows {
    /// The index of the vectors.
    pub index: u32,
    /// Its column.
    pub column: usize,
    /// By what vectors are near.
    pub similarity: Similarity,
    /// What they are near.
    pub of: BoundTerm,
}

/// A compiled `SELECT`.
pub struct SelectPlan {
    pub table: Arc<TableSchema>,
    pub restrictions: Restrictions,
    pub selection: RowSelection,
    pub shape: RowShape,
    pub markers: Vec<ColumnSpec>,
    /// What it needs to be allowed.
    pub needs: Vec<Need>,
    /// The masked columns whose values decide about rows.
    pub masked_conditions: Vec<String>,
    /// The markers of the partition key.
    pub partition_key: Vec<u16>,
    pub columns: Arc<[ColumnSpec]>,
    pub order: RowOrder,
    pub nearest: Option<NearestRows>,
    pub groups: Grouping,
    pub distinct: bool,
    /// The names in the objects of `SELECT JSON`.
    pub json: Option<Vec<String>>,
    pub limit: Option<BoundTerm>,
    pub per_partition: Option<BoundTerm>,
    /// Whether a partition without rows is shown for its static cells.
    pub shows_statics: bool,
    /// Whether all rows of a partition are read with what stands before them: static cells that are
    /// wanted, or none that the table has.
    pub reads_whole: bool,
    pub warning: Option<&'static str>,
}
