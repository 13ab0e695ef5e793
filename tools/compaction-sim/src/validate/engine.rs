//! Runs the real engine under the same workload, to measure the simulator against it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::compaction::LsmShape;
use firn_kv::stats::Stats;
use firn_kv::{Db, DbOptions, Result, Summary, SummaryPass, TreeOptions};

use crate::model::exact::ExactTtl;
use crate::model::machine::Machine;
use crate::model::meter::SimOutcome;
use crate::model::sim::{Setup, run_to_shape};
use crate::model::store::SimClock;
use crate::workload::{SimOps, SimWorkload};

/// Directory of the stores in memory.
pub const MEMORY_DIR: &str = "/db";

/// Applies the workload to a tree in memory without background threads, with `interval` nanoseconds
/// between operations. Returns the statistics and the event log.
///
/// # Errors
/// Errors of the engine.
pub fn run_in_memory(
    options: &TreeOptions,
    workload: &SimWorkload,
    interval: u64,
) -> Result<(Stats, String)> {
    let (db, env) = written_in_memory(options, workload, interval)?;
    let log = env.read_all(&Path::new(MEMORY_DIR).join("EVENTS.jsonl"), 1 << 30)?;
    Ok((db.stats(), String::from_utf8_lossy(&log).into_owned()))
}

/// Does the same as [`run_in_memory`], and returns the store for reading, with the environment of
/// its files ([`MEMORY_DIR`]).
///
/// # Errors
/// Errors of the engine.
pub fn written_in_memory(
    options: &TreeOptions,
    workload: &SimWorkload,
    interval: u64,
) -> Result<(Db, MemEnv)> {
    let env = MemEnv::new(1);
    let db_options = DbOptions {
        background_threads: 0,
        wal_segment: 64 << 20,
        memory_budget: 64 << 20,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), MEMORY_DIR, db_options)?;
    let step = |_| env.advance(Duration::from_nanos(interval));
    write(&db, options, workload, interval as f64, step)?;
    Ok((db, env))
}

/// Simulates the same: work takes no time. `exact` simulates every key.
///
/// # Errors
/// Errors of the engine's parts.
pub fn simulated_in_memory(
    options: &TreeOptions,
    workload: &SimWorkload,
    interval: u64,
    exact: bool,
) -> Result<(SimOutcome, LsmShape)> {
    let machine = Machine {
        threads: 0,
        instant: true,
        ingest: 0.0,
        write_op: interval as f64,
        cores: 64.0,
        ..Machine::default()
    };
    let setup = Setup { exact, ..Setup::new(options.clone(), workload.clone(), machine) };
    run_to_shape(&setup, &mut |_| ())
}

/// Returns options under which the engine copies no blocks, since the simulator does not model
/// that: a summary hook must see every entry. This hook returns nothing.
pub fn without_copies(options: TreeOptions) -> TreeOptions {
    TreeOptions { summary: Some(Arc::new(SilentSummary)), ..options }
}

struct SilentSummary;

impl Summary for SilentSummary {
    fn name(&self) -> &str {
        "silent"
    }

    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(SilentSummary)
    }
}

impl SummaryPass for SilentSummary {
    fn add(&mut self, _key: &[u8], _kind: Kind, _value: &[u8]) {}

    fn finish(self: Box<Self>) -> Vec<u8> {
        vec![]
    }
}

/// Applies the workload to the tree `sim` of a Db. Calls `before` before each operation, with its
/// number.
///
/// # Errors
/// Errors of the engine.
pub fn write(
    db: &Db,
    options: &TreeOptions,
    workload: &SimWorkload,
    interval: f64,
    mut before: impl FnMut(u64),
) -> Result<Stats> {
    let ttl = ExactTtl(workload.ttl_micros);
    let options = if ttl.0 > 0 { ttl.hooked(options) } else { options.clone() };
    let tree = db.tree(crate::model::size::TREE, options)?;
    let clock = SimClock { nanos: 0.0, interval };
    let (content, pool) = (&workload.content, workload.content.pool());
    let (mut key, mut value) = (vec![], vec![]);
    for (i, op) in SimOps::new(workload).enumerate() {
        let id = i as u64 + 1;
        before(id);
        content.key(op.place, &mut key);
        if op.delete {
            tree.delete(&key)?;
        } else {
            content.value(&pool, op.number, op.len as usize, clock.wall(id), &mut value);
            tree.put(&key, &value)?;
        }
    }
    Ok(db.stats())
}
