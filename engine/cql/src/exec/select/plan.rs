//! A compiled `SELECT`.

use std::sync::Arc;

use super::order::Order;
use super::selection::Selection;
use crate::analysis::Restrictions;
use crate::catalog::Table;
use crate::exec::row::Shape;
use crate::values::{ColumnSpec, Term};

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

/// A compiled `SELECT`.
pub struct SelectPlan {
    pub table: Arc<Table>,
    pub restrictions: Restrictions,
    pub selection: Selection,
    pub shape: Shape,
    pub markers: Vec<ColumnSpec>,
    pub columns: Arc<[ColumnSpec]>,
    pub order: Order,
    pub groups: Grouping,
    pub distinct: bool,
    /// The names in the objects of `SELECT JSON`.
    pub json: Option<Vec<String>>,
    pub limit: Option<Term>,
    pub per_partition: Option<Term>,
    /// Whether a partition without rows is shown for its static cells.
    pub shows_statics: bool,
    /// Whether all rows of a partition are read with what stands before them: static cells that are
    /// wanted, or none that the table has.
    pub reads_whole: bool,
    pub warning: Option<&'static str>,
}
