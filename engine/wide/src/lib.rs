//! The Cassandra data model on the engine `firn-kv`: keyspaces, column families of columns and
//! super columns, client timestamps, tombstones, TTLs, counters, secondary indexes. It follows "WTF
//! is a SuperColumn?" (2009) up to Cassandra 1.1; where versions differ, the newest rule applies.
//!
//! # A tour
//! A keyspace contains column families, a family contains rows by key, and a row contains columns.
//! Columns are sorted by name, with the family's comparator:
//!
//! ```
//! use firn_wide::{CfDef, Column, KsDef, Wide};
//! # let dir = std::env::temp_dir().join(format!("firn-doc-wide-tour-1-{}", std::process::id()));
//! let wide = Wide::open(&dir)?;
//! wide.system_add_keyspace(&KsDef::new("Article"))?;
//! wide.system_add_column_family(&CfDef { comparator_type: "LongType".into(), ..CfDef::new("Article", "Numbers") })?;
//!
//! let row = wide.keyspace("Article")?.family("Numbers")?.row("row");
//! for (name, value) in [(123, "hello there"), (832416, "kjjkbcjkcbbd"), (3, "101010101010"), (976, "kjjkbcjkcbbd")] {
//!     row.insert(name as i64, value)?;
//! }
//! let last_two: Vec<Column> = row.slice().reversed().limit(2).columns()?.collect::<Result<_, _>>()?;
//! assert_eq!(last_two[0].name_as::<i64>()?, 832416);
//! assert_eq!(last_two[1].name_as::<i64>()?, 976);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In a Super family, the columns of a row are super columns, which contain columns:
//!
//! ```
//! # use firn_wide::{CfDef, KsDef, Wide};
//! # let dir = std::env::temp_dir().join(format!("firn-doc-wide-tour-2-{}", std::process::id()));
//! # let wide = Wide::open(&dir)?;
//! # wide.system_add_keyspace(&KsDef::new("Article"))?;
//! wide.system_add_column_family(&CfDef {
//!     column_type: "Super".into(),
//!     comparator_type: "UTF8Type".into(),
//!     subcomparator_type: Some("UTF8Type".into()),
//!     ..CfDef::new("Article", "AddressBook")
//! })?;
//! let friends = wide.keyspace("Article")?.family("AddressBook")?.row("phatduckk");
//! friends.super_column("friend1").insert("city", "Beverley Hills")?;
//! friends.super_column("Kim").insert("city", "Balls")?;
//! friends.super_column("Bob").insert("city", "Nowhere")?;
//! let names: Vec<_> = friends.slice().super_columns()?.into_iter().map(|s| s.name).collect();
//! assert_eq!(names, [&b"Bob"[..], b"Kim", b"friend1"]);
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Writes have timestamps, and the write with the larger timestamp wins, whatever the order of
//! arrival. A deletion is a write too:
//!
//! ```
//! # use firn_wide::{CfDef, KsDef, Wide};
//! # let dir = std::env::temp_dir().join(format!("firn-doc-wide-tour-3-{}", std::process::id()));
//! # let wide = Wide::open(&dir)?;
//! # wide.system_add_keyspace(&KsDef::new("Article"))?;
//! # wide.system_add_column_family(&CfDef::new("Article", "Users"))?;
//! let ann = wide.keyspace("Article")?.family("Users")?.row("ann");
//! ann.at(20).insert("city", "Rome")?;
//! ann.at(10).insert("city", "Oslo")?;
//! assert_eq!(ann.value::<String>("city")?.as_deref(), Some("Rome"));
//! ann.at(30).delete("city")?;
//! ann.at(25).insert("city", "Bonn")?;
//! assert_eq!(ann.value::<String>("city")?, None);
//! ann.ttl(3600).insert("session", "0x5eed")?; // gone in an hour
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Wide`] opens a database; [`Options`] has the partitioner, durability and custom comparators
//!   ([`Registry`], [`Comparator`]).
//! - [`KsDef`], [`CfDef`], [`ColumnDef`] define keyspaces, families, and columns with indexes.
//! - [`ColumnFamily`], [`Row`], [`Slice`], [`Rows`], [`Find`], [`Batch`]: the idiomatic interface.
//!   [`Keyspace::update`] reads and writes rows under a lock.
//! - [`Keyspace`] also has Thrift's operations with their names: `get_slice`, `batch_mutate`,
//!   `get_indexed_slices`, …
//! - [`ColumnFamily::purge_report`] reports why tombstones are not purged.
//! - The crate `firn-wide-text` has the text formats of the model: cassandra-cli's language,
//!   families as JSON, `storage-conf.xml`, and example applications.
//!
//! # Differences from Cassandra
//! Tests replay answers of Cassandra servers. Accepted differences are listed there with reasons
//! (`thrift_kept.jsonl` among the vectors, and the list in `tests/vectors.rs`). The major ones:
//!
//! - Equal timestamps follow Cassandra 4.0's rule, which does not depend on the order of arrival.
//! - Names that compare equal are one name, in its canonical spelling.
//! - The default partitioner is Murmur3; CollatingOrderPreservingPartitioner is refused.
//! - Deleted counters are removed at once and start again at 0.
//! - A `batch_mutate` over many rows is atomic.
//! - There is one node, and no consistency level.
//!
//! # Features
//!
//! No feature is on by default. `time-zones` adds timestamps with names of time zones, such as
//! `Europe/Berlin` and `PST`, and contains the zone data.
//!
//! The API here is stable. The hidden module `internals` is for the tools of this workspace and has
//! no stability promise.

#![warn(missing_debug_implementations)]

mod api;
mod base;
mod cell;
#[doc(hidden)]
pub mod internals;
mod key;
mod ring;
mod schema;
mod store;
mod types;

pub use api::{
    Batch, ColumnFamily, Columns, Find, FromBytes, Keyspace, Languages, Options, Row, RowIter,
    Rows, Slice,
};
pub use api::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, CounterSuperColumn,
    Deletion, IndexClause, IndexExpression, IndexOperator, KeyBound, KeyRange, KeySlice, Mutation,
    PredicateParts, RowMutation, SlicePredicate, SliceRange, SuperColumn, TokenRange,
};
pub use api::{MAX_SHORT, MAX_TTL, ToBytes, Wide};
pub use base::error::{Error, Result};
pub use cell::CellFacts;
pub use ring::Partitioner;
pub use schema::{CfDef, ColumnDef, IndexType, KsDef};
pub use store::{Blocker, Clock, Grace, ManualClock, PurgeReport, StoreOptions, TablePurge};
pub use types::{
    Comparator, ComparatorLanguage, Custom, DynamicTypes, Malformed, OrderFunction, Registry,
    TimeSource, Type, TypeError, UserType, Wording, uuids,
};

pub use uuid::Uuid;

/// Runs the examples of the pages as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/model.md")]
struct Page;
