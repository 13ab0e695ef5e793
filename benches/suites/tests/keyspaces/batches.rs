//! Batches: atomic over several trees, across reopening and for concurrent readers.

use firn_kv::{Batch, Db, Result};

use super::{Dir, tree};

#[test]
fn a_batch_shows_when_it_is_written_and_its_last_word_counts() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open();
    let (one, large) = (tree(&db, "one"), "oxygen".repeat(128_000));
    let mut batch = Batch::new();
    for (key, value) in [("1", "abc"), ("3", &large), ("5", "abc"), ("1", "def")] {
        batch.put(&one, key, value)?;
    }
    assert_eq!(one.len()?, 0);
    db.write(batch)?;
    assert_eq!(one.len()?, 3);
    assert_eq!(one.get("1")?.unwrap(), "def");
    assert_eq!(one.get("3")?.unwrap(), large.as_bytes());
    Ok(())
}

#[test]
fn batches_over_two_trees_survive_many_openings() -> Result<()> {
    let dir = Dir::new();
    for i in 0..25u64 {
        let db = dir.open();
        let (a, b) = (tree(&db, "a"), tree(&db, "b"));
        assert_eq!((a.len()?, b.len()?), (i, i));
        let mut batch = Batch::new();
        batch.put(&a, i.to_be_bytes(), "a")?;
        batch.put(&b, i.to_be_bytes(), "b")?;
        db.write(batch)?;
    }
    Ok(())
}

#[test]
fn a_snapshot_sees_a_batch_whole_or_not_at_all() -> Result<()> {
    let db = Db::in_memory()?;
    let (a, b) = (tree(&db, "a"), tree(&db, "b"));
    let number =
        |v: Option<firn_kv::Value>| v.map_or(0, |v| u32::from_be_bytes(v[..].try_into().unwrap()));
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            (1..=2_000u32).try_for_each(|i| {
                let mut batch = Batch::new();
                batch.put(&a, "n", i.to_be_bytes())?;
                batch.put(&b, "n", i.to_be_bytes())?;
                db.write(batch)
            })
        });
        while !writer.is_finished() {
            let snapshot = db.snapshot();
            let (one, other) = (number(snapshot.get(&a, "n")?), number(snapshot.get(&b, "n")?));
            assert_eq!(one, other);
        }
        writer.join().unwrap()
    })?;
    assert_eq!(number(b.get("n")?), 2_000);
    Ok(())
}
