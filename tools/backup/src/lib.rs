//! Incremental backups of a store: to a folder, or to S3-compatible storage (feature `s3`).
//!
//! A *repository* is a directory or a prefix of a bucket with any number of backups, of one store
//! or of several. Tables never change, so each is copied once and shared by all backups that need
//! it; its name has the identity of the table and the hash of its bytes. A backup is a checkpoint:
//! it has exactly the writes before one moment, in all trees.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("firn-doc-backup-{}", std::process::id()));
//! use firn_backup::{BackupRepository, KeepRule, Pacing, open_storage};
//! use firn_kv::{Db, OsEnv, TreeOptions};
//! let (env, store) = (OsEnv::new(), dir.join("store"));
//! let db = Db::open(&store)?;
//! db.tree("t", TreeOptions::default())?.put("k", "v")?;
//! let place = open_storage(&env, &dir.join("backups").display().to_string())?;
//! let backups = BackupRepository::new(env, place);
//! let made = backups.create(&db, &mut Pacing::default())?;
//! assert!(backups.verify(None, &mut Pacing::default())?.is_sound());
//! backups.restore(&made.id, &dir.join("again"), &mut Pacing::default())?;
//! let again = Db::open(dir.join("again"))?;
//! assert_eq!(again.existing_tree("t")?.get("k")?.unwrap(), "v");
//! backups.prune(KeepRule::newest(7), false)?;
//! # drop((db, again)); std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), firn_kv::Error>(())
//! ```
//!
//! No feature is on by default. `s3` adds S3-compatible storage (`s3://bucket/prefix`).
//!
//! `format-spec/README.md`, "Backups", specifies the contents of a repository:
//!
//! | name | contents |
//! |---|---|
//! | `FIRN-BACKUPS` | marks a repository, with its version |
//! | `backups/ID` | a backup's record: the files that it needs; written last, removed first |
//! | `manifests/ID-HASH` | the manifest of its store |
//! | `tables/STORE-UNIQUE-NUMBER-HASH` | a table |
//! | `running/…` | the lease of a run while it writes or removes |
//! | `unfinished/…` | in a directory: a file being written |
//!
//! Invariants:
//! - A record is written when all files that it names are durable. Files without a record are
//!   leftovers.
//! - A run that writes or removes holds a lease (`leases`), so a prune and a backup never overlap.
//! - A prune makes the removal of records durable before it removes their files.
//! - All data is verified when read: records have a checksum, manifests and tables a hash.

#![warn(missing_debug_implementations)]

mod address;
mod create;
mod folder;
mod leases;
mod names;
#[cfg(feature = "s3")]
mod object;
mod pacing;
mod prune;
mod record;
mod repository;
mod restore;
mod staging;
mod storage;
mod verify;

pub use address::open_storage;
pub use create::{BackupPlan, BackupSummary};
pub use folder::FolderStorage;
pub use names::shown_time;
#[cfg(feature = "s3")]
pub use object::ObjectStorage;
pub use pacing::Pacing;
pub use prune::{KeepRule, PruneReport};
pub use record::{BackupHead, BackupRecord, TableCopy};
pub use repository::{BackupRepository, ListedBackup};
pub use restore::RestoreReport;
pub use staging::Staging;
pub use storage::{BackupStorage, StorageFile, StoredFile};
pub use verify::{BackupFinding, BackupVerdict};

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct BackupReadme;

#[cfg(test)]
extern crate self as firn_backup;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod integration;
