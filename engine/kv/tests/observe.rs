//! Tests of a program's view of its store: read counters, the cost of one operation,
//! events, and metrics as text.

use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::policy::Tiered;
use firn_kv::{Db, DbOptions, OpenFiles, Policy, ReadMode, TreeOptions};

mod context;
mod listener;
mod metrics;
mod prometheus;
#[cfg(feature = "tracing")]
mod tracing;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Returns options of an in-memory store without background threads. Its open files are counted
/// separately from those of other tests.
fn options() -> DbOptions {
    DbOptions {
        background_threads: 0,
        read_mode: ReadMode::Pread,
        open_files: Some(OpenFiles::new(64)),
        ..DbOptions::default()
    }
}

fn open(options: DbOptions) -> (Arc<MemEnv>, Db) {
    let env = Arc::new(MemEnv::new(0));
    let db = Db::open_in(env.clone(), "db", options).unwrap();
    (env, db)
}

/// Returns options under which runs accumulate. Only manual compactions run.
fn piling() -> TreeOptions {
    let policy =
        Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0, ..Tiered::default() });
    TreeOptions { policy, block_size: 512, ..TreeOptions::default() }
}
