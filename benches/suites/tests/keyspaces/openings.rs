//! Opening a store: when it can be opened, and its contents then.
#![allow(clippy::disallowed_methods, reason = "a test changes the folder of its store")]

use firn_kv::{Batch, Db, DbOptions, ErrorKind, Result, TreeOptions};

use super::{Dir, tree};

#[test]
fn a_store_is_locked_as_long_as_a_handle_is_left() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let t = tree(&db, "t");
    t.put("a", "a")?;
    drop(db);
    assert_eq!(Db::open(&dir.0).unwrap_err().kind(), ErrorKind::Locked);
    drop(t);
    drop(dir.open());
    Ok(())
}

#[test]
fn files_that_a_file_manager_leaves_do_not_matter() {
    let dir = Dir::new();
    drop(dir.open());
    for name in [".DS_Store", "._0"] {
        std::fs::write(dir.0.join(name), "").unwrap();
        drop(dir.open());
    }
}

#[test]
fn a_store_may_be_moved() -> Result<()> {
    let (dir, other) = (Dir::new(), Dir::new());
    tree(&dir.open(), "t").put("a", "a")?;
    std::fs::rename(&dir.0, &other.0).unwrap();
    assert!(tree(&other.open(), "t").contains("a")?);
    Ok(())
}

#[test]
fn sequence_numbers_go_on_where_they_were() -> Result<()> {
    let dir = Dir::new();
    let seq = {
        let db = dir.open();
        for name in ["a", "b", "c"] {
            let t = tree(&db, name);
            for i in 0..200u64 {
                t.put(i.to_be_bytes(), "v".repeat(i as usize))?;
            }
        }
        db.stats().seq
    };
    for _ in 0..5 {
        let db = dir.open();
        assert_eq!(db.stats().seq, seq);
        for name in ["a", "b", "c"] {
            let t = tree(&db, name);
            assert_eq!((t.len()?, t.iter().count(), t.iter().rev().count()), (200, 200, 200));
        }
    }
    Ok(())
}

#[test]
fn deletes_count_as_sequence_numbers_too() -> Result<()> {
    let dir = Dir::new();
    let seq = {
        let db = dir.open();
        let t = tree(&db, "t");
        let from = db.stats().seq;
        for i in 0..200u64 {
            t.delete(i.to_be_bytes())?;
            assert_eq!(db.stats().seq, from + i + 1);
        }
        db.stats().seq
    };
    for _ in 0..3 {
        assert_eq!(dir.open().stats().seq, seq);
    }
    Ok(())
}

#[test]
fn handles_may_go_in_any_order() -> Result<()> {
    let dir = Dir::new();
    drop(dir.open());
    let db = dir.open();
    let (one, two) = (tree(&db, "one"), tree(&db, "two"));
    let (snapshot, walk) = (db.snapshot(), one.iter());
    drop((one, db, walk, two, snapshot));
    let db = dir.open();
    let (walk, snapshot) = (tree(&db, "one").iter(), db.snapshot());
    drop((db, snapshot, walk));
    assert_eq!(dir.open().tree_names(), ["one", "two"]);
    Ok(())
}

#[test]
fn a_lock_file_that_nobody_holds_is_taken() {
    let dir = Dir::new();
    std::fs::create_dir(&dir.0).unwrap();
    std::fs::write(dir.0.join("LOCK"), "").unwrap();
    drop(dir.open());
    assert!(dir.0.join("LOCK").exists());
    drop(dir.open());
}

#[test]
fn long_values_come_back_from_the_log_and_from_tables() -> Result<()> {
    let dir = Dir::new();
    let (long, longest) = ("a".repeat(128_000), "oxygen".repeat(1_000_000));
    {
        let t = tree(&dir.open(), "t");
        t.put("flushed", &longest)?;
        t.put("short", "abc")?;
        t.flush()?;
        assert!(t.db().stats().trees[0].runs[0].bytes < 1_000_000, "the value was not compressed");
        t.put("logged", &long)?;
        t.put("last", "b")?;
    }
    let t = tree(&dir.open(), "t");
    assert_eq!(t.len()?, 4);
    assert_eq!(t.get("flushed")?.unwrap(), longest.as_bytes());
    assert_eq!(t.get("logged")?.unwrap(), long.as_bytes());
    assert_eq!(t.get("last")?.unwrap(), "b");
    Ok(())
}

#[test]
fn keys_of_three_trees_in_memory_and_in_tables_are_walked_after_openings() -> Result<()> {
    let dir = Dir::new();
    let names = ["one", "two", "three"];
    {
        let db = dir.open();
        for name in names {
            let t = tree(&db, name);
            (0..10_000u64).try_for_each(|i| t.put(i.to_be_bytes(), format!("{name} {i}")))?;
        }
        tree(&db, "two").flush()?;
    }
    for _ in 0..3 {
        let db = dir.open();
        for name in names {
            let t = tree(&db, name);
            assert_eq!(
                (t.len()?, t.iter().count(), t.iter().rev().count()),
                (10_000, 10_000, 10_000)
            );
            assert_eq!(t.get(77u64.to_be_bytes())?.unwrap(), format!("{name} 77").as_bytes());
        }
    }
    Ok(())
}

#[test]
fn a_flush_at_each_opening_loses_nothing() -> Result<()> {
    let dir = Dir::new();
    for i in 0..3u64 {
        let db = dir.open();
        let (a, b) = (tree(&db, "a"), tree(&db, "b"));
        assert_eq!((a.len()?, b.len()?), (i, i));
        let mut batch = Batch::new();
        batch.put(&a, i.to_be_bytes(), "a")?;
        batch.put(&b, i.to_be_bytes(), "b".repeat(16_000))?;
        db.write(batch)?;
        a.flush()?;
        assert_eq!((a.len()?, b.len()?), (i + 1, i + 1));
    }
    Ok(())
}

#[test]
fn the_newest_of_many_memtables_counts_after_an_opening() -> Result<()> {
    let dir = Dir::new();
    let small = || TreeOptions { memtable_size: 64 << 10, ..TreeOptions::default() };
    {
        let db = dir.open();
        let t = db.tree("t", small())?;
        for i in 0..500u32 {
            t.put("a", i.to_be_bytes())?;
            t.put(i.to_be_bytes(), "x".repeat(1_000))?;
        }
        assert!(db.stats().flushes > 1, "one memtable held it all");
    }
    assert_eq!(dir.open().tree("t", small())?.get("a")?.unwrap(), 499u32.to_be_bytes());
    Ok(())
}

#[test]
fn a_compaction_that_is_due_begins_after_the_opening() -> Result<()> {
    let dir = Dir::new();
    {
        let db = dir.open();
        let t = tree(&db, "t");
        let _pause = db.pause_background()?;
        for _ in 0..4 {
            t.put("a", "a")?;
            t.flush()?;
        }
        assert_eq!(db.stats().trees[0].runs.len(), 4);
        db.close()?;
    }
    let still = dir.open_with(DbOptions { background_threads: 0, ..DbOptions::default() });
    assert_eq!(still.stats().trees[0].runs.len(), 4);
    drop(still);
    let db = dir.open();
    db.wait_idle()?;
    assert_eq!(db.stats().trees[0].runs.len(), 1);
    Ok(())
}
