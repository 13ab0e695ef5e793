//! Compactions that copy whole blocks. They produce the same keys and snapshots and sound files as
//! an entry-by-entry merge, under options that allow copies and options that forbid them.

#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::policy::{Tiered, Unified};
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Compression, Db, DbOptions,
    FilterDecision, FilterKind, Policy, Snapshot, Summary, SummaryPass, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 6000;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        Dir(std::env::temp_dir().join(format!("firn-copies-{}-{name}", std::process::id())))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compaction filter that retains everything, but inspects each entry.
struct Watch;

impl CompactionFilter for Watch {
    fn name(&self) -> &str {
        "watch"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(Watch)
    }
}

impl CompactionFilterPass for Watch {
    fn filter(
        &mut self,
        _: &[u8],
        _: firn_kv::internals::base::key::Kind,
        _: &[u8],
        _: bool,
    ) -> FilterDecision {
        FilterDecision::Keep
    }
}

impl Summary for Watch {
    fn name(&self) -> &str {
        "watch"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(Watch)
    }
}

impl SummaryPass for Watch {
    fn add(&mut self, _: &[u8], _: firn_kv::internals::base::key::Kind, _: &[u8]) {}
    fn finish(self: Box<Self>) -> Vec<u8> {
        vec![]
    }
}

fn tree_options() -> TreeOptions {
    // Nothing is compacted unless the test requests it.
    let policy =
        Policy::Tiered(Tiered { min_runs: 64, max_runs: 64, bucket: 2.0, ..Tiered::default() });
    TreeOptions {
        memtable_size: 2 << 20,
        table_size: 64 << 10,
        block_size: 512,
        policy,
        ..TreeOptions::default()
    }
}

fn open(dir: &Path, options: TreeOptions) -> (Db, Tree) {
    let db = DbOptions {
        memory_budget: 16 << 20,
        wal_segment: 256 << 10,
        background_threads: 0,
        ..DbOptions::default()
    };
    let db = Db::open_with(dir, db).unwrap();
    let tree = db.tree("t", options).unwrap();
    (db, tree)
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn put(tree: &Tree, map: &mut Map, i: u64, value: Vec<u8>) {
    tree.put(&key(i), &value).unwrap();
    map.insert(key(i), value);
}

/// Returns the number of blocks that compactions have copied so far, from the event log.
fn copied(dir: &Path) -> u64 {
    let log = std::fs::read_to_string(dir.join("EVENTS.jsonl")).unwrap();
    let number = |line: &str| {
        let (_, rest) = line.split_once("\"blocks_copied\":")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    log.lines().filter_map(number).sum()
}

fn check(db: &Db, tree: &Tree, map: &Map, snapshots: &[(Snapshot, Map)]) {
    let own = |item: firn_kv::Result<(firn_kv::Value, firn_kv::Value)>| {
        item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()
    };
    assert!(tree.iter().map(own).eq(map.clone()));
    assert!(tree.iter().rev().map(own).eq(map.clone().into_iter().rev()));
    for i in (0..KEYS).step_by(7) {
        assert_eq!(tree.get(&key(i)).unwrap().as_deref(), map.get(&key(i)).map(Vec::as_slice));
    }
    for (s, then) in snapshots {
        assert!(s.range(tree, ..).map(own).eq(then.clone()));
    }
    let errors = db.verify(|_, _| {}).unwrap().errors;
    assert!(errors.is_empty(), "{errors:?}");
}

/// Compacts two runs with interleaved blocks, and returns the number of copied blocks.
fn interleaved(name: &str, options: TreeOptions) -> u64 {
    let dir = Dir::new(name);
    let (db, tree) = open(&dir.0, options);
    let mut map = Map::new();
    for half in 0..2 {
        for i in (0..KEYS).filter(|i| i / 100 % 2 == half) {
            put(&tree, &mut map, i, vec![i as u8; 20]);
        }
        tree.flush().unwrap();
    }
    tree.compact().unwrap();
    check(&db, &tree, &map, &[]);
    copied(&dir.0)
}

#[test]
fn blocks_are_copied_where_nothing_speaks_against_it() {
    assert!(interleaved("plain", tree_options()) > 100);
    let unified = Policy::Unified(Unified {
        scaling: vec![62],
        target_table: 64 << 10,
        base_shards: 8,
        ..Unified::default()
    });
    assert!(interleaved("cuts", TreeOptions { policy: unified, ..tree_options() }) > 100);
    assert!(
        interleaved("raw", TreeOptions { compression: vec![Compression::None], ..tree_options() })
            > 100
    );
    assert!(
        interleaved("no-filter", TreeOptions { filter: vec![FilterKind::None], ..tree_options() })
            > 100
    );
    let other =
        TreeOptions { compression: vec![Compression::None, Compression::Lz4], ..tree_options() };
    assert_eq!(interleaved("other-codec", other), 0);
    assert_eq!(
        interleaved(
            "purge",
            TreeOptions { compaction_filter: Some(Arc::new(Watch)), ..tree_options() }
        ),
        0
    );
    assert_eq!(
        interleaved("summary", TreeOptions { summary: Some(Arc::new(Watch)), ..tree_options() }),
        0
    );
}

#[test]
fn a_range_deletion_lets_no_covered_block_through() {
    let dir = Dir::new("range");
    let (db, tree) = open(&dir.0, tree_options());
    let mut map = Map::new();
    (0..KEYS).for_each(|i| put(&tree, &mut map, i, vec![1; 20]));
    tree.flush().unwrap();
    tree.delete_range(&key(1000)..&key(3005)).unwrap();
    tree.flush().unwrap();
    tree.compact().unwrap();
    map.retain(|k, _| *k < key(1000) || *k >= key(3005));
    check(&db, &tree, &map, &[]);
    assert!(copied(&dir.0) > 50);
    assert_eq!(db.stats().trees[0].runs.iter().map(|r| r.entries).sum::<u64>(), map.len() as u64);
}

#[test]
fn any_layers_compact_to_the_same_with_copies_among_them() {
    let mut all = 0;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let dir = Dir::new(&format!("layers-{seed}"));
        let policies = [
            tree_options().policy,
            Policy::Unified(Unified {
                scaling: vec![62],
                target_table: 64 << 10,
                base_shards: 8,
                ..Unified::default()
            }),
        ];
        let options = TreeOptions { policy: policies[seed as usize % 2].clone(), ..tree_options() };
        let (db, tree) = open(&dir.0, options);
        let (mut map, mut snapshots): (Map, Vec<(Snapshot, Map)>) = Default::default();
        for _ in 0..3 + rng.below(8) {
            let from = rng.below(KEYS);
            let until = from + 1 + rng.below(KEYS - from);
            let step = [1, 1, 40, 300][rng.below(4) as usize];
            let what = rng.below(10);
            for i in (from..until).step_by(step) {
                if what < 7 {
                    // Occasionally draw a value larger than a block, and an incompressible one.
                    let mut value = vec![0; [10, 30, 30, 700][rng.below(4) as usize]];
                    if rng.one_in(3) {
                        rng.fill(&mut value);
                    }
                    put(&tree, &mut map, i, value);
                } else if what < 9 {
                    tree.delete(&key(i)).unwrap();
                    map.remove(&key(i));
                }
            }
            if what == 9 {
                tree.delete_range(&key(from)..&key(until)).unwrap();
                map.retain(|k, _| *k < key(from) || *k >= key(until));
            }
            match rng.below(6) {
                0 => snapshots.push((db.snapshot(), map.clone())),
                1 => tree.compact_range(&key(from)..=&key(until)).unwrap(),
                2 => tree.compact().unwrap(),
                3 => snapshots.clear(),
                _ => {}
            }
            tree.flush().unwrap();
        }
        check(&db, &tree, &map, &snapshots);
        tree.compact().unwrap();
        check(&db, &tree, &map, &snapshots);
        snapshots.clear();
        tree.compact().unwrap();
        check(&db, &tree, &map, &[]);
        all += copied(&dir.0);
    }
    // Compactions do not copy untouched tables block by block.
    assert!(all > 4_000, "{all}");
}
