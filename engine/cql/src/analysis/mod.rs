//! Floor 2: what a statement about rows asks for, looked up in the catalog and checked once (model
//! 3.4, 3.5).
//!
//! - [`Restrictions`]: a `WHERE` clause. With bound values it gives the keys of partitions
//!   ([`Restrictions::keys`]), a range of them, the [`ValueIntervals`] of rows within each, and the
//!   [`RowFilter`] for what neither of those says.

mod constants;
mod evaluate;
mod filter;
mod intervals;
mod looks;
mod merge;
mod relation;
mod restrictions;

pub use filter::{RowFilter, RowValues};
pub use intervals::ValueIntervals;
pub use restrictions::{IndexLook, IndexUse, Purpose, Restrictions};
