//! Computation of a materialized view's rows from those of its base, implemented by the layer that
//! defines the view.

use std::collections::BTreeMap;

use crate::base::error::Result;

/// Cells of a row: the part of their positions after the row, and the stored values.
pub type RowParts = BTreeMap<Vec<u8>, Vec<u8>>;

/// Row of a view: the key of its partition, and its clustering values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPlace {
    /// Key of the partition.
    pub key: Vec<u8>,
    /// Values of all clustering columns.
    pub clustering: Vec<Vec<u8>>,
}

/// Computes rows of a view from those of its base. The result depends only on the row.
pub trait ViewRows: Send + Sync {
    /// Returns the part after the row in the positions of the base column whose value is part of
    /// the view's key.
    fn key_column(&self) -> Option<&[u8]>;

    /// Returns the position of the view row for the base row with this partition key, this position
    /// in the partition, and this value of the [`key_column`](ViewRows::key_column). `None`: there
    /// is no view row.
    ///
    /// # Errors
    /// `InvalidRequest` for a row that the view cannot contain.
    fn place(&self, key: &[u8], row: &[u8], value: Option<&[u8]>) -> Result<Option<ViewPlace>>;

    /// Returns the cells of the view row for the base cells with values, including expired ones.
    /// Empty: there is no row.
    ///
    /// # Errors
    /// `Corrupt` for invalid cells.
    fn cells(&self, parts: &RowParts) -> Result<RowParts>;
}
