//! SQL analytics over Firn: tables of CQL and trees as tables of [DataFusion](datafusion), which
//! joins, groups, sorts and windows them.
//!
//! ```
//! use std::sync::Arc;
//! use datafusion::prelude::SessionContext;
//! use firn_cql::Session;
//! use firn_datafusion::FirnCatalog;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let session = Session::in_memory()?; // `Session::open` takes a directory
//! session.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
//! session.execute("CREATE TABLE shop.sales (day date, id int, price double, PRIMARY KEY (day, id))", ())?;
//! for (id, price) in [(1, 2.5), (2, 7.5)] {
//!     session.execute("INSERT INTO shop.sales (day, id, price) VALUES ('2026-11-30', ?, ?)", (id, price))?;
//! }
//!
//! let ctx = SessionContext::new();
//! ctx.register_catalog("firn", Arc::new(FirnCatalog::new(&session)));
//! let sums = ctx.sql("SELECT day, sum(price) FROM firn.shop.sales GROUP BY day").await?;
//! assert_eq!(sums.count().await?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`FirnCatalog`]: the keyspaces of a database as a catalog. [`FirnTable`]: one table.
//! - [`FirnTree`]: a tree of the engine as a table of keys and values.
//! - [`QuerySnapshots`]: all tables of a query read one snapshot.
//! - [`SqlScanOptions`]: decimals, bytes of batches, partitions.
//!
//! The page `docs/analytics.md` lists the conditions that reach the store, and the guarantees.

#![warn(missing_debug_implementations)]

mod catalog;
mod exec;
mod options;
mod predicate;
mod snapshots;
mod table;
mod tree;

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/analytics.md")]
struct Page;

pub use catalog::{FirnCatalog, FirnSchema};
pub use exec::FirnScanExec;
pub use firn_transfer::form::ByteForm;
pub use options::SqlScanOptions;
pub use snapshots::QuerySnapshots;
pub use table::FirnTable;
pub use tree::FirnTree;
