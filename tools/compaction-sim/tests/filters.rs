//! Filters: the simulator's figures for their memory and their false positives, by level and with
//! shared memory, against the engine on the same history.

use std::path::Path;
use std::sync::Arc;

use compaction_sim::model::meter::SimOutcome;
use compaction_sim::model::size::ContentSize;
use compaction_sim::validate::engine::{
    MEMORY_DIR, simulated_in_memory, without_copies, written_in_memory,
};
use compaction_sim::workload::SimWorkload;
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::env::Env as _;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::sstable::Table;
use firn_kv::{Compression, Db, FilterAllocation, MemEnv, Policy, TreeOptions};
use firn_testkit::rng::Rng;
use firn_workload::ValueSize;

const INTERVAL: u64 = 1_000;
const OPS: u64 = 60_000;
/// Number of lookups of missing keys.
const LOOKS: u64 = 100_000;
/// Number of lookups after which the engine's counter is read.
const BATCH: u64 = 10_000;
/// Bytes after the fingerprints of a filter in memory.
const PADDING: u64 = 3;

const POLICIES: [&str; 4] = ["tiered:4", "leveled:4:2:256k", "lazy-leveled:4", "ics:4"];

/// Returns the history. With this seed both models end with equal numbers of runs; near a threshold
/// of a policy they may differ by one, as two runs of the engine do.
fn workload() -> SimWorkload {
    let content =
        ContentSize { value: ValueSize::Fixed(16), random: 0.0, ..ContentSize::default() };
    SimWorkload { seed: 12, ..SimWorkload::of(&"uniform".parse().unwrap(), OPS, OPS / 2, content) }
}

fn options(policy: &str, filter_allocation: FilterAllocation) -> TreeOptions {
    without_copies(TreeOptions {
        policy: policy.parse::<Policy>().unwrap(),
        compression: vec![Compression::None],
        memtable_size: 128 << 10,
        table_size: 64 << 10,
        filter_allocation,
        ..TreeOptions::default()
    })
}

/// Returns the average number of filters of the tree with a false positive for a missing key.
fn errors(db: &Db, options: &TreeOptions) -> f64 {
    let tree = db.tree("sim", options.clone()).unwrap();
    let (mut rng, mut wrong) = (Rng::new(11), 0);
    let (content, mut key) = (workload().content, vec![]);
    for _ in 0..LOOKS / BATCH {
        wrong += db.with_read_context(|cx| {
            for _ in 0..BATCH {
                // Directly after a key, so that all tables are asked.
                content.key(rng.next_u64(), &mut key);
                key.push(b'0');
                assert_eq!(tree.get(&key).unwrap(), None);
            }
            let sum = cx.sum();
            assert_eq!((sum.reads, sum.more), (BATCH, 0));
            sum.filter_false_positives
        });
    }
    wrong as f64 / LOOKS as f64
}

/// Returns the bytes of the fingerprints of all tables in memory.
fn memory(env: &MemEnv) -> u64 {
    let (state, _) = Manifest::load(env, Path::new(MEMORY_DIR)).unwrap().unwrap();
    let of = |id: u64| {
        let path = table_path(Path::new(MEMORY_DIR), id);
        let file = env.open_read(&path, false).unwrap();
        let mut table = Table::open(file, &path, id, Cache::new(1 << 20)).unwrap();
        let with = table.memory();
        assert!(table.has_filter());
        Arc::get_mut(&mut table).unwrap().forget_filter();
        (with - table.memory()) as u64 - PADDING
    };
    state.trees.values().flat_map(|t| &t.runs).flat_map(|r| &r.tables).map(|t| of(t.id)).sum()
}

/// Bytes of filters and false positives under a policy, in the engine and in both models.
struct Compared {
    engine: (f64, f64),
    exact: (f64, f64),
    numbers: (f64, f64),
}

fn compared(policy: &str, allocation: FilterAllocation) -> Compared {
    let (options, workload) = (options(policy, allocation), workload());
    let (db, env) = written_in_memory(&options, &workload, INTERVAL).unwrap();
    let errors = errors(&db, &options);
    db.close().unwrap();
    let costs = |o: SimOutcome| (o.filter_bytes, o.blocks_per_miss);
    let [exact, numbers] = [true, false]
        .map(|exact| costs(simulated_in_memory(&options, &workload, INTERVAL, exact).unwrap().0));
    Compared { engine: (memory(&env) as f64, errors), exact, numbers }
}

#[test]
fn memory_and_errors_are_the_engine_s() {
    for policy in POLICIES {
        for allocation in [FilterAllocation::ByLevel, FilterAllocation::Monkey] {
            let c = compared(policy, allocation);
            let what = format!("{policy} {allocation:?}");
            println!("{what}: engine {:?}, exact {:?}, numbers {:?}", c.engine, c.exact, c.numbers);
            // The same tables with the same bits have the same filters.
            assert_eq!(c.engine.0, c.exact.0, "{what}");
            // Five standard deviations of this many lookups, in each of which a few filters may
            // err.
            let chance = 5.0 * (c.exact.1 / LOOKS as f64).sqrt();
            assert!((c.engine.1 - c.exact.1).abs() < chance, "{what}");
            // The tables of the summary model are about as large.
            assert!((c.numbers.0 / c.exact.0 - 1.0).abs() < 0.04, "{what}");
            assert!((c.numbers.1 / c.exact.1 - 1.0).abs() < 0.15, "{what}");
        }
    }
}
