//! Whole stores: trees with tables on several levels, range deletions, merge operands, ingested
//! tables, blob files, and writes that are only in the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::policy::Movement;
use firn_kv::policy::{Leveled, Tiered};
use firn_kv::{
    Batch, Compression, Db, DbOptions, FilterKind, MergeOperator, MergeResult, Policy, Result,
    Tree, TreeOptions,
};
use firn_testkit::rng::Rng;
use serde_json::{Value, json};

use super::made::{Made, hex};

/// A merge operator that concatenates.
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<MergeResult> {
        Ok(MergeResult::Value([base.unwrap_or_default(), &operands.concat()].concat()))
    }
}

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the options with which the stores are opened.
pub fn db_options() -> DbOptions {
    DbOptions {
        memory_budget: 2 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

/// Returns the options of the tree `name`. They are explicit, because defaults may change.
pub fn tree_options(name: &str) -> TreeOptions {
    let small = TreeOptions {
        compression: vec![Compression::Lz4],
        filter: vec![FilterKind::Fuse8],
        memtable_size: 64 << 10,
        table_size: 64 << 10,
        block_size: 1024,
        policy: Policy::Tiered(Tiered {
            min_runs: 3,
            max_runs: 32,
            bucket: 2.0,
            ..Tiered::default()
        }),
        tombstone_age_secs: 0,
        ..TreeOptions::default()
    };
    match name {
        "raw" => TreeOptions {
            compression: vec![Compression::None],
            filter: vec![FilterKind::None],
            ..small
        },
        "blobs" => TreeOptions {
            compression: vec![Compression::None, Compression::Lz4],
            blob_threshold: 64,
            blob_gc_percent: 20,
            ..small
        },
        "levels" => TreeOptions {
            compression: vec![Compression::None, Compression::Lz4],
            filter: vec![FilterKind::Fuse8, FilterKind::Fuse16],
            policy: Policy::Leveled(Leveled {
                level0_runs: 2,
                ratio: 4,
                base: 64 << 10,
                movement: Movement::default(),
                ..Leveled::default()
            }),
            ..small
        },
        _ => TreeOptions {
            merge_operator: Some(Arc::new(Append)),
            summary: Some(Arc::new(super::tables::Facts)),
            ..small
        },
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key{:04}", rng.below(300)).into_bytes()
}

/// Applies one random change to the tree and to the map.
pub fn change(rng: &mut Rng, tree: &Tree, map: &mut Map) -> Result<()> {
    let (k, mut v) = (key(rng), format!("value {}", rng.next_u64()).into_bytes());
    if tree.name() == "blobs" && rng.one_in(2) {
        let len = v.len();
        v = v.into_iter().cycle().take(len * (1 + rng.below(12) as usize)).collect();
    }
    match rng.below(20) {
        0..10 => {
            tree.put(&k, &v)?;
            map.insert(k, v);
        }
        10..13 => {
            tree.delete(&k)?;
            map.remove(&k);
        }
        13 => {
            let end = key(rng);
            tree.delete_range(&k..&end)?;
            map.retain(|key, _| *key < k || *key >= end);
        }
        _ if tree.name() == "merge" => {
            tree.merge(&k, &v)?;
            map.entry(k).or_default().extend_from_slice(&v);
        }
        _ => {
            let mut batch = Batch::new();
            for i in 0..3u8 {
                let k = [&k[..], &[i]].concat();
                batch.put(tree, &k, &v)?;
                map.insert(k, v.clone());
            }
            tree.db().write(batch)?;
        }
    }
    Ok(())
}

/// Ingests sorted pairs.
fn ingest(rng: &mut Rng, tree: &Tree, map: &mut Map) -> Result<()> {
    let pairs: Map =
        (0..40).map(|_| (key(rng), format!("loaded {}", rng.below(1000)).into_bytes())).collect();
    tree.ingest(&pairs)?;
    map.extend(pairs);
    Ok(())
}

/// Adds a store after `steps` changes of each tree, the last ones only in the log, and an exported
/// table. The store is closed and opened again in between.
pub fn make(seed: u64, steps: u64, made: &mut Made) -> Result<()> {
    make_of(&["raw", "levels", "merge"], seed, steps, made)
}

/// Adds a store whose long values are in blob files.
pub fn blobs(seed: u64, steps: u64, made: &mut Made) -> Result<()> {
    make_of(&["blobs"], seed, steps, made)
}

fn make_of(names: &[&'static str], seed: u64, steps: u64, made: &mut Made) -> Result<()> {
    let (env, dir) = (MemEnv::new(seed), Path::new("/db"));
    let mut rng = Rng::new(seed);
    let mut maps: BTreeMap<&str, Map> = BTreeMap::new();
    let open = || Db::open_in(Arc::new(env.clone()), dir, db_options());
    let mut db = open()?;
    for &name in names {
        if name == "merge" {
            db.close()?;
            db = open()?;
        }
        let tree = db.tree(name, tree_options(name))?;
        let map = maps.entry(name).or_default();
        for i in 0..steps {
            change(&mut rng, &tree, map)?;
            match i * 12 / steps {
                _ if (i * 12) % steps >= 12 => {}
                3 | 6 | 8 => tree.flush()?,
                5 => ingest(&mut rng, &tree, map)?,
                7 => tree.compact()?,
                _ => {}
            }
        }
    }
    db.sync()?;
    if let Some(map) = maps.get("levels") {
        db.existing_tree("levels")
            .or_else(|_| db.tree("levels", tree_options("levels")))?
            .export(.., Path::new("/exported.sst"))?;
        let name = format!("stores/{seed:03}-exported/00000000.sst");
        made.file(&name, env.read_file(Path::new("/exported.sst"))?);
        let entries: Vec<_> = map.iter().map(|(k, v)| json!([hex(k), 0, 1, hex(v)])).collect();
        made.sound(name, "table", "exported", json!({"entries": entries, "tombstones": []}));
    }
    let name = format!("stores/{seed:03}{}", if names == ["blobs"] { "-blobs" } else { "" });
    // Copy the files as a crash leaves them: the log is not sealed, the memtables are not flushed.
    for path in env.files().iter().filter(|p| p.starts_with(dir)) {
        let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        made.file(format!("{name}/{file}"), env.read_file(path)?);
    }
    let pairs = |map: &Map| map.iter().map(|(k, v)| json!([hex(k), hex(v)])).collect::<Vec<_>>();
    made.sound(
        name,
        "store",
        "merge hook appends",
        maps.iter().map(|(n, m)| (n.to_string(), pairs(m))).collect(),
    );
    Ok(())
}

/// Returns the keys and values of a tree.
pub fn pairs(tree: &Tree) -> Result<Value> {
    let pairs = tree.iter().map(|i| i.map(|(k, v)| json!([hex(&k), hex(&v)])));
    Ok(pairs.collect::<Result<Vec<_>>>()?.into())
}

/// Returns the contents of a store as the engine reads it.
#[allow(dead_code)] // see `tables::read`
pub fn read(env: Arc<dyn Env>, dir: &Path) -> Result<Value> {
    let db = Db::open_in(env, dir, DbOptions { read_only: true, ..db_options() })?;
    let mut out = serde_json::Map::new();
    for name in db.tree_names() {
        let tree = db.tree(&name, tree_options(&name))?;
        out.insert(name, pairs(&tree)?);
    }
    Ok(out.into())
}
