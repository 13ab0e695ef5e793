//! How the rows of a family make those of a materialized view: whoever defines the view says it.

use std::collections::BTreeMap;

use crate::base::error::Result;

/// Cells of a row: what of their places follows the row's, and what is stored there.
pub type RowParts = BTreeMap<Vec<u8>, Vec<u8>>;

/// The row of a view, by the key of its partition and its clustering values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPlace {
    /// The partition's key.
    pub key: Vec<u8>,
    /// The values of all clustering columns.
    pub clustering: Vec<Vec<u8>>,
}

/// How the rows of a base make those of a view. Equal rows always make equal ones.
pub trait ViewRows: Send + Sync {
    /// What follows the row in the places of the base's column whose value is part of the view's
    /// key.
    fn key_column(&self) -> Option<&[u8]>;

    /// Where the row of the view lies that is made of the base's row with this partition key, this
    /// place in the partition, and this value of the [`key_column`](ViewRows::key_column). `None`:
    /// none is made of it.
    ///
    /// # Errors
    /// `InvalidRequest` for a row that the view can't have.
    fn place(&self, key: &[u8], row: &[u8], value: Option<&[u8]>) -> Result<Option<ViewPlace>>;

    /// The cells of the view's row, of the cells of the base's that have values, also those that have
    /// expired. None: there is no row.
    ///
    /// # Errors
    /// `Corrupt` for cells that can't be.
    fn cells(&self, parts: &RowParts) -> Result<RowParts>;
}
