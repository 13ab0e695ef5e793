//! The shared tests of `kvdb`, in memory and on disk.
#![allow(clippy::disallowed_methods, reason = "a test makes and removes its own folder")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use ::kvdb::KeyValueDB;
use kvdb_shared_tests as shared;
use suites::kvdb::Columns;

/// A directory that is removed with its owner.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("firn-kvdb-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Dir(std::env::temp_dir().join(name))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn both(columns: u32, test: impl Fn(&dyn KeyValueDB) -> std::io::Result<()>) {
    test(&Columns::in_memory(columns).unwrap()).unwrap();
    let dir = Dir::new();
    test(&Columns::open(&dir.0, columns).unwrap()).unwrap();
}

#[test]
fn put_and_get() {
    both(1, shared::test_put_and_get);
}

#[test]
fn delete_and_get() {
    both(1, shared::test_delete_and_get);
}

#[test]
fn get_fails_with_non_existing_column() {
    both(1, shared::test_get_fails_with_non_existing_column);
}

#[test]
fn write_clears_buffered_ops() {
    both(1, shared::test_write_clears_buffered_ops);
}

#[test]
fn iter() {
    both(1, shared::test_iter);
}

#[test]
fn iter_with_prefix() {
    both(1, shared::test_iter_with_prefix);
}

#[test]
fn io_stats() {
    both(shared::IO_STATS_NUM_COLUMNS, shared::test_io_stats);
}

#[test]
fn delete_prefix() {
    both(shared::DELETE_PREFIX_NUM_COLUMNS, shared::test_delete_prefix);
}

#[test]
fn complex() {
    both(1, shared::test_complex);
}
