//! The requirements of fjall's own tests for a store with named keyspaces, applied to Firn: an
//! independently written test for each, or the reason for its absence. Its package on the registry
//! has no tests, and nothing of its repository (read at 7870992, July 2026) is copied.
//!
//! | fjall | here |
//! |---|---|
//! `tests/batch` (3) | `batches`: visible when written, the last write wins; values of half a MiB |
//! `tests/batch_recovery`, `src/db_test` `recover_sealed_pair_1` | `batches`: over two trees,
//! survive many reopenings | `tests/blob_kv_simple` (2), `tests/journal_large_value` (2),
//! `src/db_test` `recover_sealed_blob` | `openings`: long values; storing them in separate files is
//! not tested here |
//! | `tests/clear_dirty_read`, `tests/fifo_dirty_read` | `snapshots`: unaffected by clearing and by a FIFO policy |
//! | `tests/compaction_filter` (2) | `trees`: a compaction filter affects only its tree |
//! | `tests/db_lock`, `src/locked_file` (2) | `openings`: locked as long as a handle exists; a lock file without a lock |
//! | `tests/db_open` (2), `src/db_test` `whitebox_db_drop` (2, switched off there) | `openings`: handles may be dropped in any order |
//! | `tests/ingest_recovery` | `trees`: ingested data survives reopening |
//! | `src/keyspace/test` (switched off there) | `trees`: each load is a table until a compaction |
//! | `tests/keyspace_clear` (2) | `trees`: cleared data stays cleared |
//! | `tests/keyspace_iter_lifetime` | `trees`: an iterator may be borrowed |
//! | `tests/keyspace_recover` (5), `src/keyspace/config` (6), `src/keyspace/options` (2), `src/meta_keyspace` smoke test | `trees`: options survive reopening; Firn has policies, block sizes, filters and compression of them; `openings`: keys of three trees |
//! | `tests/keyspace_snapshot` (4), `src/snapshot_tracker` (11) | `snapshots`: iterators, reads, counts, halves of batches, versions that a flush and a compaction retain. `close_raw` of something never opened has no counterpart: only its handle releases a snapshot |
//! | `tests/keyspace_v1_load_fixture` (2), `tests/keyspace_v2_load_fixture` (2), `src/version` (7) | none: their old formats and the bytes of their header. Firn's formats have golden files in `format-spec`, and unknown versions `tools/firn/tests/newer.rs` |
//! | `tests/memtable_recover` | `openings`: keys of three trees, in memory and in tables |
//! | `tests/prefix_complex` | `trees`: iteration over a prefix with and without values |
//! | `tests/recover_from_different_folder` | `openings`: a store may be moved |
//! | `tests/recovery_journal_mac` (2), `tests/recovery_keyspaces_mac` (2) | `openings`: files that a file manager creates |
//! | `tests/seqno_recovery` (3) | `openings`: sequence numbers continue, for puts and deletes |
//! | `tests/tx_ryow`, `tests/tx_ryow_snapshot` (2), `tests/write_tx`, `src/tx/write_tx` | `transactions`: own writes, an existing iterator, an update |
//! | `tests/write_buffer_size` (2), `src/write_buffer_manager` (2) | `trees`: memtable memory is reported and released |
//! | `tests/write_during_read` | `snapshots`: later puts do not affect an iterator |
//! | `src/db_test` `test_exotic_keyspace_names` | `trees`: names may have any character |
//! | `src/db_test` `recover_sealed_smoke_test`, `recover_sealed_order` | `openings`: a flush at each opening; the newest of many memtables wins |
//! | `src/journal/test` (8), `src/journal/entry` (3) | `log`: many segments, one that is only reserved, four types of bytes after the end. The encoding of one entry is tested by `format-spec` |
//! | `src/meta_keyspace` `keyspace_delete`, `tx_keyspace_delete`, `keyspace_delete_and_reopening_behavior` | `trees`: a tree is dropped with its files, and may be created again |
//! | `src/tx/optimistic/write_tx` (11), `oracle` (1) | `transactions`. **Different**: a transaction has read only the part of a range that its iterator has passed, so an iterator that was created but never advanced is no read, and does not conflict |
//! | `src/worker_pool` | `openings`: a due compaction begins after the opening |
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

    /// Returns the files with this ending, in order.
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
