//! Distribution of filter memory over runs. With Monkey's allocation fewer filters err for the same
//! memory, under policies with runs of different sizes. All written keys are found.

use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::env::Env as _;
use firn_kv::internals::env::mem::MemEnv;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::sstable::Table;
use firn_kv::internals::util::hash::key_hash;
use firn_kv::{Db, DbOptions, FilterAllocation, FilterKind, TreeOptions};
use firn_testkit::effort::times_effort;
use firn_testkit::rng::Rng;

const DIR: &str = "/db";
/// Number of keys written; lookups draw other keys as well.
const KEYS: u64 = 120_000;

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Summary of the filters of a tree.
#[derive(Debug, Default)]
struct Filters {
    /// Fingerprint bits of all keys.
    bits: f64,
    keys: f64,
    /// Expected false positives of a lookup of a missing key.
    errors: f64,
    /// The same, measured with missing keys.
    found: f64,
    /// Average bits per key in each run, newest first.
    runs: Vec<f64>,
    /// Largest difference in bits per key between two tables of a run.
    widest: f64,
}

fn filters(env: &MemEnv) -> Filters {
    let (state, _) = Manifest::load(env, Path::new(DIR)).unwrap().unwrap();
    let mut all = Filters::default();
    let cache = Cache::new(1 << 20);
    for run in state.trees.values().flat_map(|t| &t.runs) {
        let (mut bits, mut keys, mut errors, mut found) = (0.0, 0.0, 0.0, 0.0);
        let (mut fewest, mut most) = (f64::MAX, 0.0f64);
        for t in &run.tables {
            let path = table_path(Path::new(DIR), t.id);
            let file = env.open_read(&path, false).unwrap();
            let table = Table::open(file, &path, t.id, cache.clone()).unwrap();
            table.verify(None, |_| ()).unwrap();
            let p = table.properties();
            let own = f64::from(p.filter_bits());
            bits += own * p.filter_keys as f64;
            (fewest, most) = (fewest.min(own), most.max(own));
            keys += p.filter_keys as f64;
            errors += 0.5f64.powf(own) * p.entries as f64;
            let probes = 10_000;
            let wrong = (0..probes).filter(|i| table.may_contain(key_hash(&key(KEYS + i))));
            found += wrong.count() as f64 / probes as f64 * p.entries as f64;
        }
        all.bits += bits;
        all.keys += keys;
        all.errors += errors / keys;
        all.found += found / keys;
        all.runs.push(bits / keys);
        all.widest = all.widest.max(most - fewest);
    }
    all
}

fn written(policy: &str, allocation: FilterAllocation) -> Filters {
    let env = MemEnv::new(1);
    let db_options = DbOptions {
        memory_budget: 16 << 20,
        wal_segment: 256 << 10,
        background_threads: 0,
        ..DbOptions::default()
    };
    let options = TreeOptions {
        policy: policy.parse().unwrap(),
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        filter: vec![FilterKind::Fuse8],
        filter_allocation: allocation,
        ..TreeOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), DIR, db_options).unwrap();
    let tree = db.tree("t", options).unwrap();
    let mut keys: Vec<u64> = (0..KEYS).collect();
    Rng::new(7).shuffle(&mut keys);
    for i in &keys {
        tree.put(&key(*i), &i.to_le_bytes()).unwrap();
    }
    tree.flush().unwrap();
    for i in keys.iter().step_by(97) {
        assert_eq!(tree.get(&key(*i)).unwrap().unwrap().as_ref(), i.to_le_bytes());
    }
    assert!((KEYS..KEYS + 1000).all(|i| tree.get(&key(i)).unwrap().is_none()));
    db.close().unwrap();
    filters(&env)
}

#[test]
fn shared_memory_makes_fewer_filters_err() {
    // Each policy, and whether one merge (possibly in steps) makes a run.
    let policies = [
        ("tiered:4", true),
        ("leveled:4:2:256k", false),
        ("lazy-leveled:4", false),
        ("ics:4", true),
    ];
    for (policy, is_whole) in policies.into_iter().take(times_effort(2) as usize) {
        let usual = written(policy, FilterAllocation::ByLevel);
        let shared = written(policy, FilterAllocation::Monkey);
        let told = format!("{policy}\n{usual:?}\n{shared:?}");
        assert_eq!(usual.keys, shared.keys, "{told}");
        assert!(usual.runs.len() > 2 && usual.runs.iter().all(|b| *b == 8.0), "{told}");
        assert!((shared.bits / usual.bits - 1.0).abs() < 0.06, "{told}");
        assert!(shared.errors < 0.8 * usual.errors, "{told}");
        assert!(!is_whole || shared.widest <= 1.0, "{told}");
        for f in [&usual, &shared] {
            assert!((f.found - f.errors).abs() < 0.25 * f.errors + 0.002, "{told}");
        }
    }
}

#[test]
fn one_run_has_the_usual_filter() {
    let env = MemEnv::new(2);
    let db_options = DbOptions { background_threads: 0, ..DbOptions::default() };
    let options =
        TreeOptions { filter_allocation: FilterAllocation::Monkey, ..TreeOptions::default() };
    let db = Db::open_in(Arc::new(env.clone()), DIR, db_options).unwrap();
    let tree = db.tree("t", options).unwrap();
    for round in 0..3u64 {
        (0..1000).for_each(|i| tree.put(&key(i * 3 + round), b"v").unwrap());
        tree.flush().unwrap();
    }
    tree.compact().unwrap();
    // A second compaction finds no work.
    tree.compact().unwrap();
    db.close().unwrap();
    assert_eq!(filters(&env).runs, [8.0]);
}
