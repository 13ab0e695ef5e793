//! Reserves disk space for operations that free space on a full disk: an opening, deletions, the
//! drop of a tree, a compaction.
//!
//! Invariants: nothing depends on the file, which holds no data. It is released only after an
//! operation failed for lack of space without writing anything. A later flush reserves it again.

use crate::base::error::{ErrorKind, Result};
use crate::db::versions::VersionSet;
use crate::env::Env;

use crate::db::inner::DbInner;
use crate::db::write::batch::{Batch, BatchOp};

/// Name of the file.
pub const RESERVE: &str = "RESERVE";
/// Length of the file in bytes: one first log segment, and as much for the manifest and small
/// tables.
const RESERVE_BYTES: u64 = 512 << 10;
/// Bytes of tables from which a store has a reserve, which is 1.6 % of them.
const RESERVE_FROM: u64 = 32 << 20;

/// Runs an operation that frees space. If the disk is full, releases the reserve and retries
/// once.
pub fn with_reserve<T>(db: &DbInner, mut frees: impl FnMut() -> Result<T>) -> Result<T> {
    match frees() {
        Err(e) if e.kind() == ErrorKind::NoSpace && release_reserve(&db.versions, &*db.env) => {
            frees()
        }
        done => done,
    }
}

/// Releases the reserve, if there is one. A file of another length belongs to another program.
#[cold]
fn release_reserve(versions: &VersionSet, env: &dyn Env) -> bool {
    let path = versions.dir().join(RESERVE);
    env.file_len(&path).is_ok_and(|len| len == RESERVE_BYTES) && env.remove(&path).is_ok()
}

/// Reserves space if the store has no reserve yet and is large enough. A lack of disk space is
/// not an error.
pub fn renew_reserve(versions: &VersionSet, env: &dyn Env) {
    let path = versions.dir().join(RESERVE);
    if env.file_len(&path).is_ok() {
        return;
    }
    let bytes: u64 = {
        let c = versions.lock_catalog();
        c.state().trees.values().flat_map(|t| t.tables()).map(|t| t.size).sum()
    };
    if bytes >= RESERVE_FROM && env.create_log(&path, RESERVE_BYTES).is_err() {
        // A reserve of less than full size is useless.
        let _ = env.remove(&path);
    }
}

impl Batch {
    /// Reports whether the batch only deletes.
    pub(in crate::db) fn frees_space(&self) -> bool {
        self.iter().all(|op| matches!(op, BatchOp::Delete { .. } | BatchOp::DeleteRange { .. }))
    }
}
