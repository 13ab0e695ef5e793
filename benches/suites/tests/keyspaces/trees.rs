//! Trees: names, options, clearing and dropping, loading, filtering, iteration.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use firn_kv::internals::base::key::Kind;
use firn_kv::policy::Movement;
use firn_kv::policy::{Fifo, LazyLeveled, Leveled, Tiered, TimeWindow, Unified};
use firn_kv::{
    Batch, CompactionFilter, CompactionFilterContext, CompactionFilterPass, Compression, Db,
    ErrorKind, FilterDecision, FilterKind, Policy, Result, TreeOptions,
};

use super::{Dir, tree};

#[test]
fn names_may_hold_any_character() -> Result<()> {
    let dir = Dir::new();
    let names =
        ["hello$world", "hello#world", "hello.world", "hello_world", "hello/world", "..", "grüße"];
    for n in [0, 1] {
        let db = dir.open();
        for name in names {
            let t = tree(&db, name);
            assert_eq!(t.len()?, n, "{name}");
            t.put("a", name)?;
            assert_eq!(t.len()?, 1, "{name}");
            assert_eq!(t.get("a")?.unwrap(), name);
        }
    }
    Ok(())
}

#[test]
fn options_come_back_for_a_tree_that_is_only_opened() -> Result<()> {
    let dir = Dir::new();
    let policies = [
        Policy::Fifo(Fifo { max_bytes: 555, max_age_secs: 6, ..Fifo::default() }),
        Policy::Leveled(Leveled {
            level0_runs: 6,
            ratio: 4,
            base: 100_000_000,
            movement: Movement::RoundRobin,
            ..Leveled::default()
        }),
        Policy::Tiered(Tiered { min_runs: 4, max_runs: 8, bucket: 2.5, ..Tiered::default() }),
        Policy::LazyLeveled(LazyLeveled { ratio: 5, ..LazyLeveled::default() }),
        Policy::Unified(Unified {
            scaling: vec![2, -4],
            target_table: 1 << 20,
            base_shards: 4,
            ..Unified::default()
        }),
        Policy::TimeWindow(TimeWindow { window_secs: 60, min_runs: 3, ..TimeWindow::default() }),
    ];
    let options = |policy: &Policy| TreeOptions {
        policy: policy.clone(),
        block_size: 6_666,
        table_size: 1_000_000,
        memtable_size: 128 << 10,
        compression: vec![Compression::None, Compression::Lz4],
        filter: vec![FilterKind::Fuse16, FilterKind::None],
        tombstone_age_secs: 77,
        ..TreeOptions::default()
    };
    let names: Vec<String> = (0..policies.len()).map(|i| format!("t{i}")).collect();
    {
        let db = dir.open();
        for (name, policy) in names.iter().zip(&policies) {
            db.tree(name, options(policy))?;
        }
    }
    drop(dir.open());
    let db = dir.open();
    assert_eq!(db.tree_names(), names);
    for (name, policy) in names.iter().zip(&policies) {
        let found = db.existing_tree(name)?.options();
        assert_eq!(format!("{found:?}"), format!("{:?}", options(policy)));
    }
    Ok(())
}

#[test]
fn a_dropped_tree_goes_with_its_files_and_may_come_again() -> Result<()> {
    let dir = Dir::new();
    {
        let db = dir.open();
        let t = tree(&db, "t");
        (0..200u64).try_for_each(|i| t.put(i.to_be_bytes(), i.to_string()))?;
        t.flush()?;
        assert_eq!(dir.files(".sst").len(), 1);
    }
    for _ in 0..3 {
        assert_eq!(tree(&dir.open(), "t").len()?, 200);
    }
    {
        let db = dir.open();
        let t = db.existing_tree("t")?;
        db.drop_tree("t")?;
        assert_eq!(t.get("k").unwrap_err().kind(), ErrorKind::Closed);
        drop(t);
        // The files are deleted when no thread of this process is in the middle of a read of any
        // store. Reading the statistics triggers deletions that are possible.
        let are_gone = || {
            db.stats();
            dir.files(".sst").is_empty()
        };
        let mut waited = 0..1000;
        while !are_gone() && waited.next().is_some() {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(are_gone() && db.tree_names().is_empty());
        let again = tree(&db, "t");
        assert!(again.is_empty()?);
        db.drop_tree("t")?;
    }
    let db = dir.open();
    assert_eq!(db.existing_tree("t").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(dir.files(".sst").is_empty());
    assert!(tree(&db, "t").is_empty()?);
    Ok(())
}

#[test]
fn what_was_cleared_stays_so_after_openings() -> Result<()> {
    let dir = Dir::new();
    {
        let db = dir.open();
        let (a, b) = (tree(&db, "a"), tree(&db, "b"));
        a.put("a", "a")?;
        a.clear()?;
        b.put("a", "z")?;
    }
    {
        let db = dir.open();
        assert!(tree(&db, "a").is_empty()?);
        tree(&db, "b").clear()?;
    }
    {
        let db = dir.open();
        let a = tree(&db, "a");
        assert!(a.is_empty()? && tree(&db, "b").is_empty()?);
        // A put after a clearing is not cleared.
        a.put("a", "b")?;
    }
    let db = dir.open();
    assert_eq!(tree(&db, "a").get("a")?.unwrap(), "b");
    assert!(tree(&db, "b").is_empty()?);
    Ok(())
}

#[test]
fn what_was_loaded_is_there_after_openings_for_snapshots_too() -> Result<()> {
    let dir = Dir::new();
    tree(&dir.open(), "t").ingest([("abc", "zzz")])?;
    for _ in 0..2 {
        let db = dir.open();
        let t = tree(&db, "t");
        assert_eq!(t.get("abc")?.unwrap(), "zzz");
        assert_eq!(db.snapshot().get(&t, "abc")?.unwrap(), "zzz");
    }
    Ok(())
}

#[test]
fn what_memtables_take_is_told_and_given_back_by_a_flush() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    let taken = || db.stats().trees[0].memtable_bytes;
    let empty = taken();
    t.put("asd", "def")?;
    let one = taken();
    let mut batch = Batch::new();
    batch.put(&t, "dsa", "qwe")?;
    db.write(batch)?;
    assert!(empty < one && one < taken(), "{empty} {one} {}", taken());
    t.flush()?;
    assert_eq!(taken(), empty);
    Ok(())
}

#[test]
fn a_filter_of_compactions_counts_for_its_tree_alone_also_after_an_opening() -> Result<()> {
    let dir = Dir::new();
    let filtered =
        || TreeOptions { compaction_filter: Some(Arc::new(OnlyA)), ..TreeOptions::default() };
    {
        let db = dir.open();
        for t in [db.tree("filtered", filtered())?, tree(&db, "other")] {
            t.put("a", "a")?;
            t.flush()?;
            t.put("abc", "abc")?;
            t.put("b", "b")?;
            t.flush()?;
        }
    }
    let db = dir.open();
    let (one, other) = (db.tree("filtered", filtered())?, tree(&db, "other"));
    assert_eq!((one.len()?, other.len()?), (3, 3));
    one.compact()?;
    other.compact()?;
    assert_eq!((one.len()?, other.len()?), (2, 3));
    Ok(())
}

#[test]
fn each_load_is_a_table_until_they_are_merged() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let t = tree(&db, "t");
    let tables = || db.stats().trees[0].runs.iter().map(|r| r.tables).sum::<usize>();
    {
        let _pause = db.pause_background()?;
        let loads: [(&[u8], u64); 4] = [
            (&[0, 1, 2, 3, 4, 5], 6),
            (&[1, 6, 7, 8, 9], 10),
            (&[10, 11, 12], 13),
            (&[13, 14], 15),
        ];
        for (n, (keys, len)) in loads.into_iter().enumerate() {
            assert_eq!(t.ingest(keys.iter().map(|k| ([*k], "")))?, keys.len() as u64);
            assert_eq!((t.len()?, tables()), (len, n + 1));
        }
    }
    t.compact()?;
    assert_eq!((t.len()?, tables()), (15, 1));
    Ok(())
}

#[test]
fn a_walk_may_be_lent() -> Result<()> {
    fn count<T>(walk: &mut impl DoubleEndedIterator<Item = Result<T>>) -> usize {
        walk.count()
    }
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    ["asd", "efg", "hij"].into_iter().try_for_each(|k| t.put(k, "v"))?;
    let mut walk = t.iter();
    assert_eq!(walk.next().unwrap()?.0, *b"asd");
    assert_eq!((count(&mut walk), walk.next().is_none()), (2, true));
    Ok(())
}

#[test]
fn a_prefix_is_walked_with_and_without_values() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let t = tree(&db, "t");
    for (key, value) in [("a#1", "a"), ("a#2", "b"), ("a#3", "c"), ("a", "x"), ("a$", "x")] {
        t.put(key, value.repeat(4_096))?;
    }
    t.flush()?;
    let pairs: Vec<_> = t.prefix("a#").collect::<Result<_>>()?;
    let expected = [("a#1", "a"), ("a#2", "b"), ("a#3", "c")];
    assert_eq!(pairs.len(), expected.len());
    for ((key, value), (k, v)) in pairs.iter().zip(expected) {
        assert!(**key == *k.as_bytes() && **value == *v.repeat(4_096).as_bytes(), "{k}");
    }
    let keys: Vec<_> = t.prefix("a#").keys().collect::<Result<_>>()?;
    assert_eq!(keys, ["a#1", "a#2", "a#3"].map(|k| k.as_bytes().to_vec()));
    Ok(())
}

/// Retains keys that begin with `a`.
struct OnlyA;

impl CompactionFilter for OnlyA {
    fn name(&self) -> &str {
        "only a"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(OnlyA)
    }
}

impl CompactionFilterPass for OnlyA {
    fn filter(&mut self, key: &[u8], _: Kind, _: &[u8], _: bool) -> FilterDecision {
        if key.starts_with(b"a") { FilterDecision::Keep } else { FilterDecision::Drop }
    }
}
