//! What fjall's own tests ask of a store with named keyspaces, asked of Firn: a test here for each
//! of theirs, in our words, or the reason why there is none. Its package on the registry has no
//! tests, and nothing of its repository (read at 7870992, July 2026) is copied.
//!
//! | fjall | here |
//! |---|---|
//! | `tests/batch` (3) | `batches`: shows when it is written, last word counts; values of half a MiB |
//! | `tests/batch_recovery`, `src/db_test` `recover_sealed_pair_1` | `batches`: over two trees, survive many openings |
//! | `tests/blob_kv_simple` (2), `tests/journal_large_value` (2), `src/db_test` `recover_sealed_blob` | `openings`: long values; that these lie in files of their own is fjall's, Firn has no such files |
//! | `tests/clear_dirty_read`, `tests/fifo_dirty_read` | `snapshots`: not touched by clearing nor by a fifo |
//! | `tests/compaction_filter` (2) | `trees`: a filter of compactions counts for its tree alone |
//! | `tests/db_lock`, `src/locked_file` (2) | `openings`: locked as long as a handle is left; a lock file that nobody holds |
//! | `tests/db_open` (2), `src/db_test` `whitebox_db_drop` (2, switched off there) | `openings`: handles may go in any order |
//! | `tests/ingest_recovery` | `trees`: what was loaded is there after openings |
//! | `src/keyspace/test` (switched off there) | `trees`: each load is a table until they are merged |
//! | `tests/keyspace_clear` (2) | `trees`: what was cleared stays so |
//! | `tests/keyspace_iter_lifetime` | `trees`: a walk may be lent |
//! | `tests/keyspace_recover` (5), `src/keyspace/config` (6), `src/keyspace/options` (2), `src/meta_keyspace` smoke test | `trees`: options come back; of what they set Firn has policies, sizes of blocks, filters, compression; `openings`: keys of three trees |
//! | `tests/keyspace_snapshot` (4), `src/snapshot_tracker` (11) | `snapshots`: walks, reads, numbers, halves of batches, what a flush and a merge keep for whom. `close_raw` of what was never opened has no counterpart: a snapshot is given back by its handle alone |
//! | `tests/keyspace_v1_load_fixture` (2), `tests/keyspace_v2_load_fixture` (2), `src/version` (7) | none: their old formats and the bytes of their header. Firn's formats have golden files in `format-spec`, and unknown versions `tools/firn/tests/newer.rs` |
//! | `tests/memtable_recover` | `openings`: keys of three trees, in memory and in tables |
//! | `tests/prefix_complex` | `trees`: a prefix is walked with and without values |
//! | `tests/recover_from_different_folder` | `openings`: a store may be moved |
//! | `tests/recovery_journal_mac` (2), `tests/recovery_keyspaces_mac` (2) | `openings`: files that a file manager leaves |
//! | `tests/seqno_recovery` (3) | `openings`: sequence numbers go on where they were, of puts and deletes |
//! | `tests/tx_ryow`, `tests/tx_ryow_snapshot` (2), `tests/write_tx`, `src/tx/write_tx` | `transactions`: own writes, the walk that has begun, an update |
//! | `tests/write_buffer_size` (2), `src/write_buffer_manager` (2) | `trees`: what memtables take is told and given back |
//! | `tests/write_during_read` | `snapshots`: a walk is not touched by what is put meanwhile |
//! | `src/db_test` `test_exotic_keyspace_names` | `trees`: names may hold any character |
//! | `src/db_test` `recover_sealed_smoke_test`, `recover_sealed_order` | `openings`: a flush at each opening; the newest of many memtables counts |
//! | `src/journal/test` (8), `src/journal/entry` (3) | `log`: many segments, one that is only reserved, four kinds of bytes behind the end. The coding of one entry is `format-spec`'s |
//! | `src/meta_keyspace` `keyspace_delete`, `tx_keyspace_delete`, `keyspace_delete_and_reopening_behavior` | `trees`: a dropped tree goes with its files, and may come again |
//! | `src/tx/optimistic/write_tx` (11), `oracle` (1) | `transactions`. **Different**: of a range a transaction has read what its walk has come to, so an iterator that was made and never asked is no read, and does not conflict |
//! | `src/worker_pool` | `openings`: a compaction that is due begins after the opening |
#![allow(clippy::disallowed_methods, reason = "a test makes and removes its own folder")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_kv::{Db, DbOptions, Tree, TreeOptions};

mod batches;
mod log;
mod openings;
mod snapshots;
mod transactions;
mod trees;

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "firn-keyspaces-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Dir(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Db {
        Db::open(&self.0).unwrap()
    }

    fn open_with(&self, options: DbOptions) -> Db {
        Db::open_with(&self.0, options).unwrap()
    }

    /// The files whose names end so, in order.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let all = std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().path());
        let mut files: Vec<PathBuf> =
            all.filter(|p| p.to_string_lossy().ends_with(ending)).collect();
        files.sort();
        files
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tree(db: &Db, name: &str) -> Tree {
    db.tree(name, TreeOptions::default()).unwrap()
}
