//! Floor 3: statements carried out over the store.
//!
//! - [`Engine`]: an open database with its definitions.
//! - [`StatementPlan`]: a statement about rows, compiled; [`compile`] makes one.
//! - [`define`]: definitions, which are carried out at once.
//! - [`Rows`]: what a statement gives.
//!
//! Invariant: a definition is recorded durably in one batch before it is seen; what a crash leaves
//! undone (a tree that is not needed any more) is done when the database is opened again.

mod access;
mod change;
mod compile;
mod define;
mod describe;
mod engine;
mod families;
mod functions;
mod lists;
mod masks;
mod materialized;
pub mod password;
mod plan;
mod result_budget;
mod roles;
pub mod row;
mod rows;
mod select;
mod source;
mod system;
mod tombstones;
mod warnings;

pub use access::check;
pub use change::{BatchLimits, run_batch};
pub use compile::compile;
pub use define::define;
pub use describe::create_table_text;
pub use engine::{Engine, SchemaListener};
pub use plan::{ChangeKind, Request, StatementPlan, TableAccess};
pub use result_budget::{ResultBudget, ResultShare};
pub use rows::{FromRow, Kind, PagingState, Row, Rows, SchemaChange};
pub use source::{SystemRows, SystemSource};
pub use tombstones::TombstoneLimits;
