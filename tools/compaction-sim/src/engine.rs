//! The real engine under the same workload: what the simulator is measured against.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::{Db, DbOptions, Result, Stats, TreeOptions};

use crate::exact::ExactTtl;
use crate::store::SimClock;
use crate::workload::{SimOps, SimWorkload};

/// Does the workload to a tree in memory without background threads, `interval` nanoseconds from
/// one operation to the next, and gives the statistics, with what the event log says.
///
/// # Errors
/// What the engine says.
pub fn run_in_memory(
    options: &TreeOptions,
    workload: &SimWorkload,
    interval: u64,
) -> Result<(Stats, String)> {
    let env = MemEnv::new(1);
    let db_options = DbOptions {
        background_threads: 0,
        wal_segment: 64 << 20,
        memory_budget: 64 << 20,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), "/db", db_options)?;
    let step = |_| env.advance(Duration::from_nanos(interval));
    let stats = write(&db, options, workload, interval as f64, step)?;
    let log = env.read_all(Path::new("/db/EVENTS.jsonl"), 1 << 30)?;
    Ok((stats, String::from_utf8_lossy(&log).into_owned()))
}

/// Does the workload to the tree `sim` of a Db; `before` is called before each operation, with its
/// number.
///
/// # Errors
/// What the engine says.
pub fn write(
    db: &Db,
    options: &TreeOptions,
    workload: &SimWorkload,
    interval: f64,
    mut before: impl FnMut(u64),
) -> Result<Stats> {
    let ttl = ExactTtl(workload.ttl_micros);
    let options = if ttl.0 > 0 { ttl.hooked(options) } else { options.clone() };
    let tree = db.tree("sim", options)?;
    let clock = SimClock { nanos: 0.0, interval };
    let (mut key, mut value) = (vec![], vec![]);
    for (i, op) in SimOps::new(workload).enumerate() {
        let id = i as u64 + 1;
        before(id);
        workload.content.key(op.place, &mut key);
        if op.delete {
            tree.delete(&key)?;
        } else {
            workload.content.value(id, workload.content.len_of(id), clock.wall(id), &mut value);
            tree.put(&key, &value)?;
        }
    }
    Ok(db.stats())
}
