//! Transactions: own writes, and refused commits.

use firn_kv::{Db, ErrorKind, Result, Transaction, Tree};

use super::tree;

fn store() -> Result<(Db, Tree)> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    Ok((db, t))
}

fn conflicts(tx: Transaction) -> bool {
    match tx.commit() {
        Ok(()) => false,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Conflict);
            true
        }
    }
}

/// Returns the sum of the numbers of an iterator.
fn sum(walk: firn_kv::Range) -> Result<u64> {
    walk.map(|pair| Ok(u64::from_be_bytes(pair?.1[..].try_into().unwrap()))).sum()
}

#[test]
fn a_walk_of_a_transaction_shows_what_it_held_when_the_walk_began() -> Result<()> {
    let db = Db::in_memory()?;
    let t = tree(&db, "t");
    let mut tx = db.transaction();
    let before = tx.iter(&t);
    for i in 0..100u64 {
        tx.put(&t, i.to_be_bytes(), "a")?;
    }
    assert_eq!((before.count(), tx.iter(&t).count()), (0, 100));
    // Writes of others are not visible either.
    t.put("2", "2")?;
    let walk = tx.iter(&t);
    t.put("3", "3")?;
    assert_eq!((walk.count(), tx.iter(&t).count()), (100, 100));
    Ok(())
}

#[test]
fn a_transaction_reads_what_it_wrote_last() -> Result<()> {
    let (db, t) = store()?;
    let mut tx = db.transaction();
    assert!(!tx.contains(&t, "a")?);
    tx.put(&t, "a", "a")?;
    assert!(tx.contains(&t, "a")?);
    tx.delete(&t, "a")?;
    assert!(!tx.contains(&t, "a")?);
    for value in ["a", "b", "c"] {
        tx.put(&t, "a", value)?;
    }
    assert_eq!(tx.get(&t, "a")?.unwrap(), "c");
    assert!(t.is_empty()?);
    tx.commit()?;
    assert_eq!(t.get("a")?.unwrap(), "c");
    Ok(())
}

/// Two transactions each sum up one range and write into the other's; with keys in both ranges, or
/// in one.
#[test]
fn sums_that_depend_on_each_other_are_not_both_committed() -> Result<()> {
    for first in [Some(10u64), None] {
        let (db, t) = store()?;
        if let Some(n) = first {
            t.put("a1", n.to_be_bytes())?;
        }
        t.put("b1", 100u64.to_be_bytes())?;
        t.put("b2", 200u64.to_be_bytes())?;
        let (mut one, mut other) = (db.transaction(), db.transaction());
        let a = sum(one.range(&t, "a".."b"))?;
        assert_eq!(a, first.unwrap_or(0));
        one.put(&t, "b3", a.to_be_bytes())?;
        let b = sum(other.range(&t, "b".."c"))?;
        assert_eq!(b, 300);
        other.put(&t, "a3", b.to_be_bytes())?;
        other.commit()?;
        assert!(conflicts(one));
        assert_eq!(sum(db.transaction().range(&t, "a".."b"))?, a + 300);
        assert_eq!(t.len()?, 3 + u64::from(first.is_some()));
    }
    Ok(())
}

#[test]
fn who_read_what_another_one_has_put_conflicts() -> Result<()> {
    let (db, t) = store()?;
    let (mut one, mut other) = (db.transaction(), db.transaction());
    one.put(&t, "hello", "world")?;
    one.commit()?;
    assert!(t.contains("hello")? && !other.contains(&t, "hello")?);
    other.put(&t, "hello", "world2")?;
    assert!(conflicts(other));
    // The reader commits first, and the writer has read nothing.
    let (mut one, mut other) = (db.transaction(), db.transaction());
    assert!(one.iter(&t).next().is_some());
    other.put(&t, "hello", "world2")?;
    one.put(&t, "hello2", "world1")?;
    one.commit()?;
    other.commit()?;
    assert_eq!(t.get("hello")?.unwrap(), "world2");
    Ok(())
}

#[test]
fn who_only_writes_overwrites() -> Result<()> {
    let (db, t) = store()?;
    let (mut one, mut other) = (db.transaction(), db.transaction());
    one.put(&t, "a", "one")?;
    other.put(&t, "b", "other")?;
    one.put(&t, "b", "one")?;
    one.commit()?;
    assert_eq!([t.get("a")?.unwrap(), t.get("b")?.unwrap()], ["one", "one"]);
    other.put(&t, "a", "other")?;
    other.commit()?;
    assert_eq!([t.get("a")?.unwrap(), t.get("b")?.unwrap()], ["other", "other"]);
    Ok(())
}

#[test]
fn two_that_copy_crosswise_are_not_both_committed() -> Result<()> {
    let (db, t) = store()?;
    t.put("x", "x")?;
    t.put("y", "y")?;
    let (mut one, mut other) = (db.transaction(), db.transaction());
    let (x, y) = (one.get(&t, "x")?.unwrap(), other.get(&t, "y")?.unwrap());
    one.put(&t, "y", x)?;
    other.put(&t, "x", y)?;
    one.commit()?;
    assert!(conflicts(other));
    assert_eq!([t.get("x")?.unwrap(), t.get("y")?.unwrap()], ["x", "x"]);
    Ok(())
}

#[test]
fn what_is_given_up_was_never_there() -> Result<()> {
    let (db, t) = store()?;
    t.put("a", "10")?;
    let (mut one, mut other) = (db.transaction(), db.transaction());
    one.put(&t, "a", "101")?;
    assert_eq!(other.get(&t, "a")?.unwrap(), "10");
    drop(one);
    assert_eq!(other.get(&t, "a")?.unwrap(), "10");
    other.put(&t, "b", "1")?;
    other.commit()
}

#[test]
fn a_walk_of_all_conflicts_with_an_update_of_one() -> Result<()> {
    let (db, t) = store()?;
    t.put([1], [10])?;
    t.put([2], [20])?;
    let mut first = db.transaction();
    assert_eq!(first.iter(&t).count(), 2);
    let new = db.transact(|tx| {
        let new = tx.get(&t, [2])?.map_or(0, |v| v[0]) + 5;
        tx.put(&t, [2], [new])?;
        Ok(new)
    })?;
    assert_eq!(new, 25);
    let third = db.transaction();
    assert_eq!(third.iter(&t).map(|pair| Ok(pair?.1[0])).collect::<Result<Vec<_>>>()?, [10, 25]);
    third.commit()?;
    first.put(&t, [1], [0])?;
    assert!(conflicts(first));
    Ok(())
}

#[test]
fn updates_of_one_key_conflict_and_of_two_do_not() -> Result<()> {
    let (db, t) = store()?;
    for (keys, refused) in [(["a", "a"], true), (["b", "c"], false)] {
        let (mut one, mut other) = (db.transaction(), db.transaction());
        for (tx, key) in [(&mut one, keys[0]), (&mut other, keys[1])] {
            assert!(tx.get(&t, key)?.is_none());
            tx.put(&t, key, key)?;
        }
        one.commit()?;
        assert_eq!(conflicts(other), refused);
    }
    // The tree's own update retries after a concurrent write.
    let updated = t.update("a", |old| old.map(|old| [old, b"!"].concat()))?;
    assert_eq!([updated.old.unwrap(), t.get("a")?.unwrap()], ["a", "a!"]);
    Ok(())
}

#[test]
fn a_walk_conflicts_with_what_is_put_into_its_range_and_no_other() -> Result<()> {
    for (inside, outside) in [("hello", "hello2"), ("h", "foobar")] {
        for (key, refused) in [(inside, true), (outside, false)] {
            let (db, t) = store()?;
            let mut one = db.transaction();
            assert_eq!(one.range(&t, "h"..="hello").count(), 0);
            one.put(&t, "foo", "bar")?;
            t.put(key, "world")?;
            assert_eq!(conflicts(one), refused, "{key}");
        }
    }
    for (key, refused) in [("hello", true), ("hello, world", true), ("foobar", false)] {
        let (db, t) = store()?;
        let mut one = db.transaction();
        assert_eq!(one.prefix(&t, "hello").count(), 0);
        one.put(&t, "foo", "bar")?;
        t.put(key, "world")?;
        assert_eq!(conflicts(one), refused, "{key}");
    }
    Ok(())
}

/// The stores differ here: fjall counts a range as read when its iterator is created.
#[test]
fn a_walk_that_was_never_asked_has_read_nothing() -> Result<()> {
    let (db, t) = store()?;
    let mut one = db.transaction();
    drop(one.range(&t, "h"..="hello"));
    one.put(&t, "foo", "bar")?;
    t.put("hello", "world")?;
    assert!(!conflicts(one));
    Ok(())
}

#[test]
fn transactions_that_are_over_leave_nothing_behind() -> Result<()> {
    let (db, t) = store()?;
    for _ in 0..5_000 {
        let (mut one, mut other) = (db.transaction(), db.transaction());
        one.put(&t, "hello", "world")?;
        one.commit()?;
        other.get(&t, "hello")?;
        other.put(&t, "hello", "world2")?;
        assert!(conflicts(other));
    }
    assert!(db.stats().snapshots.is_empty());
    t.compact()?;
    assert_eq!(db.stats().trees[0].runs.iter().map(|r| r.entries).sum::<u64>(), 1);
    Ok(())
}
