//! Floor 2: analysis of WHERE clauses, checked once against the catalog (model 3.4, 3.5).
//!
//! - [`Restrictions`]: a `WHERE` clause. With bound values it returns three results: the keys of
//!   partitions ([`Restrictions::keys`]) or a range of partitions; the [`ValueIntervals`] of rows
//!   in each; the [`RowFilter`] for the remaining conditions.

mod constants;
mod evaluate;
mod filter;
mod index_lookup;
mod intervals;
mod merge;
mod relation;
mod restrictions;

pub use filter::{RowFilter, RowValues};
pub use intervals::ValueIntervals;
pub use restrictions::{IndexLookup, IndexUse, Purpose, Restrictions};
