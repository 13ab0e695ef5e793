//! What a program is told of the store that it runs: counts of its reads, the cost of one
//! operation, events, metrics as text.

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

/// A store without threads of its own, in memory. Its files are counted alone, beside other tests.
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

/// Runs pile up: nothing is merged unless the test says so.
fn piling() -> TreeOptions {
    let policy = Policy::Tiered(Tiered { min_runs: 32, max_runs: 64, bucket: 3.0 });
    TreeOptions { policy, block_size: 512, ..TreeOptions::default() }
}
