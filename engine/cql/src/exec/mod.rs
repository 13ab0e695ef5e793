//! Floor 3: execution of statements on the store.
//!
//! - [`Engine`]: an open database with its definitions.
//! - [`StatementPlan`]: a compiled statement that reads or writes rows; [`compile`] creates one.
//! - [`define`]: executes definitions.
//! - [`Rows`]: the result of a statement.
//!
//! Invariant: a definition is recorded durably in one batch before it becomes visible. After a
//! crash the next opening completes the remaining work, such as dropping unneeded trees.

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
mod run;
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
pub use rows::{FromRow, PagingState, ResultKind, Row, Rows, SchemaChange};
pub use run::RunOptions;
pub use source::{SystemRows, SystemSource};
pub use tombstones::TombstoneLimits;
