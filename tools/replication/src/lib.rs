//! Asynchronous replication of a store over TCP.
//!
//! A [`Primary`] beside an open store sends its changes to *replicas*. A [`Replica`] first copies a
//! checkpoint of the store, then applies the changes in commit order. Its store can be read, and
//! nothing else can be written to it. [`Replica::promote`] makes it an independent store.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("firn-doc-replica-{}", std::process::id()));
//! use std::time::Duration;
//! use firn_kv::{Db, TreeOptions};
//! use firn_replication::{Primary, PrimaryOptions, Replica, ReplicaOptions};
//!
//! let db = Db::open(dir.join("primary"))?;
//! let fruit = db.tree("fruit", TreeOptions::default())?;
//! fruit.put("apple", "red")?;
//! let primary = Primary::start(&db, PrimaryOptions::at(([127, 0, 0, 1], 0).into()))?;
//!
//! // In another process or on another machine:
//! let options = ReplicaOptions::of(primary.address().to_string(), "standby");
//! let replica = Replica::start(dir.join("standby"), options)?;
//! let copy = replica.wait_for_copy(Duration::from_secs(60))?;
//! assert_eq!(copy.existing_tree("fruit")?.get("apple")?.unwrap(), "red");
//! # replica.stop(); primary.stop(); drop((replica, copy, primary, fruit, db)); std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), firn_kv::Error>(())
//! ```
//!
//! Properties:
//! - A replica is a state that the primary's store had: each batch is applied whole, in order. Only
//!   durable changes are sent. A kill or power cut of either side loses and repeats nothing.
//! - Replication is asynchronous: a write is acknowledged by the primary alone. A primary that is lost
//!   loses the writes that no replica has received. There are no elections; promotion is by hand.
//! - While a replica is away, the primary retains the log for it, up to
//!   [`max_log_bytes`](PrimaryOptions::max_log_bytes). A replica that is away for longer copies again.
//!   So does each replica after data was loaded past the log ([`firn_kv::Tree::ingest`]).
//! - With a password, both sides prove that they know it. The connection is not encrypted.
//!
//! The protocol is in the module documentation of `message`.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/replicate.md")]
struct Page;

mod apply;
mod incoming;
mod login;
mod message;
mod primary;
mod replica;
mod sender;
mod state;

pub use incoming::CopyProgress;
pub use primary::{Primary, PrimaryOptions, ReplicaInfo};
pub use replica::{Replica, ReplicaListener, ReplicaOptions, ReplicaStatus};
pub use state::{ReplicaState, STATE_TREE, promote, replica_state};
