//! Histories that could make an operation slow, and its cost after them as a ratio to its normal
//! cost.
//!
//! Invariant: both times of a ratio are from the same run and operation, on separate stores; read
//! results are checked.

use std::time::Instant;

use crate::Result;

/// A store for the histories, with one tree (column family) at the start.
pub trait Subject {
    /// A snapshot of the store.
    type Snapshot<'a>
    where
        Self: 'a;

    /// Puts a small value.
    fn put(&self, key: &[u8]) -> Result<()>;
    /// Deletes a key.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Deletes all keys in `[from, until)`.
    fn delete_range(&self, from: &[u8], until: &[u8]) -> Result<()>;
    /// Reports whether the key exists.
    fn has(&self, key: &[u8]) -> Result<bool>;
    /// Returns the first key, or the last, through a new iterator.
    fn end(&self, first: bool) -> Result<Option<Vec<u8>>>;
    /// Flushes the memtables.
    fn flush(&self) -> Result<()>;
    /// Takes a snapshot.
    fn snapshot(&self) -> Self::Snapshot<'_>;
    /// Creates a tree.
    fn make_tree(&self, name: &str) -> Result<()>;
    /// Puts a key into each of these trees, in one batch.
    fn put_in_trees(&self, names: &[String]) -> Result<()>;
    /// Flushes a tree's memtable.
    fn flush_tree(&self, name: &str) -> Result<()>;
}

/// A history, and an operation before and after it.
pub struct CliffCase {
    /// Name.
    pub name: &'static str,
    /// Nanoseconds of the operation without the history.
    pub normal: u64,
    /// Nanoseconds of the operation after it.
    pub after: u64,
    /// Whether the operation skips each entry that the history left, by design. Bounds do not apply
    /// to such a case.
    pub is_linear: bool,
}

impl CliffCase {
    /// Returns the cost after the history divided by the normal cost.
    pub fn ratio(&self) -> f64 {
        self.after as f64 / self.normal.max(1) as f64
    }
}

/// Runs histories of `n` operations on fresh stores, and passes each case to `note`.
///
/// # Errors
/// Errors of the store, and wrong results.
pub fn run<S: Subject>(
    n: u64,
    mut fresh: impl FnMut() -> Result<S>,
    mut note: impl FnMut(CliffCase),
) -> Result<()> {
    let mut note = |name, normal, after| note(CliffCase { name, normal, after, is_linear: false });
    range_deletions(n, &fresh()?, &mut note)?;
    nested(n, &fresh()?, &mut note)?;
    for first in [true, false] {
        deleted_end(n, first, &fresh()?, &mut note)?;
    }
    popped(n, &fresh()?, &mut note)?;
    covered(n, &fresh()?, &mut note)?;
    for first in [true, false] {
        emptied(n, first, &fresh()?, &mut note)?;
    }
    versions(n, &fresh()?, &mut note)?;
    trees(n, &fresh()?, &mut note)?;
    snapshots(n, &fresh()?, &mut note)
}

type CliffNote<'a> = dyn FnMut(&'static str, u64, u64) + 'a;

fn key(i: u64) -> Vec<u8> {
    format!("{i:016}").into_bytes()
}

fn expect(right: bool, what: &str) -> Result<()> {
    if right { Ok(()) } else { Err(format!("a wrong answer: {what}").into()) }
}

/// Returns the nanoseconds of one operation: the median of nine rounds of `each` calls, which
/// reduces the effect of other load.
///
/// # Errors
/// Errors of the operation.
pub fn time(each: u64, mut op: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let mut rounds = vec![];
    for round in 0..9 {
        let from = Instant::now();
        (round * each..(round + 1) * each).try_for_each(&mut op)?;
        rounds.push(u64::try_from(from.elapsed().as_nanos())? / each);
    }
    rounds.sort_unstable();
    Ok(rounds[4])
}

fn range_deletions(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    s.put(&key(n))?;
    let get = |_| expect(s.has(&key(n))?, "a key that no deletion covers");
    let normal = time(200, get)?;
    let add = |i: u64| s.delete_range(&key(i % n), &key(i % n + 1));
    let first = time(20, add)?;
    (0..n).try_for_each(add)?;
    let after = time(200, |i| add(i).and_then(|()| get(i)))?;
    let last = time(20, add)?;
    note("a get and a range deletion by turns, after many of them", normal + first, after);
    note("a range deletion after many", first, last);
    Ok(())
}

fn nested(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    s.put(&key(2 * n + 1))?;
    let normal = time(200, |_| expect(s.has(&key(2 * n + 1))?, "a key that no deletion covers"))?;
    (0..n).try_for_each(|i| s.delete_range(&key(i), &key(2 * n - i)))?;
    let get = |_| expect(!s.has(&key(n))?, "a key that all deletions cover");
    note("a get under nested range deletions", normal, time(20, get)?);
    s.flush()?;
    note("the same in a table", normal, time(20, get)?);
    Ok(())
}

/// A queue of which most was consumed, or a stack: the remaining keys are after deletions.
fn deleted_end(n: u64, first: bool, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    (0..2 * n).try_for_each(|i| s.put(&key(i)))?;
    let at = |i: u64| if first { i } else { 2 * n - 1 - i };
    let look = |i: u64| expect(s.end(first)? == Some(key(at(i))), "the end of many keys");
    let normal = time(50, |_| look(0))?;
    (0..n).try_for_each(|i| s.delete(&key(at(i))))?;
    look(n)?;
    let [memtable, table] = match first {
        true => ["the head of a queue after many deletes", "the same in a table"],
        false => ["the top of a stack after many deletes", "the same in a table"],
    };
    note(memtable, normal, time(50, |_| look(n))?);
    s.flush()?;
    look(n)?;
    note(table, normal, time(50, |_| look(n))?);
    Ok(())
}

/// A queue in use: its head is searched and deleted, and a key is appended.
fn popped(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    (0..n).try_for_each(|i| s.put(&key(i)))?;
    s.flush()?;
    let pop = |i: u64| {
        expect(s.end(true)? == Some(key(i)), "the head of a queue")?;
        s.delete(&key(i))?;
        s.put(&key(n + i))
    };
    let normal = time(10, pop)?;
    (90..n).try_for_each(pop)?;
    note(
        "a queue's head is taken, its tail put, after many of both",
        normal,
        time(50, |i| pop(n + i))?,
    );
    Ok(())
}

fn covered(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    (0..2 * n).try_for_each(|i| s.put(&key(i)))?;
    let look = |i: u64| expect(s.end(true)? == Some(key(i)), "the first of many keys");
    let normal = time(50, |_| look(0))?;
    s.delete_range(&key(0), &key(n))?;
    look(n)?;
    note("the first key after many that a range deletion covers", normal, time(50, |_| look(n))?);
    Ok(())
}

/// Searches that end in covered keys, with no key after them.
fn emptied(n: u64, first: bool, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    (0..n).try_for_each(|i| s.put(&key(i)))?;
    let normal = time(50, |_| expect(s.end(first)?.is_some(), "an end of many keys"))?;
    s.delete_range(&key(0), &key(n))?;
    let look = |_| expect(s.end(first)?.is_none(), "no key is left");
    look(n)?;
    let name = match first {
        true => "the first key, where a range deletion covers all of many",
        false => "the last key, where a range deletion covers all of many",
    };
    note(name, normal, time(50, look)?);
    Ok(())
}

fn versions(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    s.put(b"a")?;
    s.put(b"b")?;
    let get = |_| expect(s.has(b"b")?, "a key of many versions");
    let last = |_| expect(s.end(false)?.as_deref() == Some(b"b"), "the last key");
    let (get_normal, last_normal) = (time(200, get)?, time(50, last)?);
    (0..n).try_for_each(|_| s.put(b"b"))?;
    note("a get of a key of many versions", get_normal, time(200, get)?);
    note("the last key, of many versions", last_normal, time(50, last)?);
    Ok(())
}

fn trees(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    let n = (n / 20).max(20);
    let name = |i: u64| format!("{i:06}");
    let three = |from: u64| -> Result<[u64; 3]> {
        let make = time(2, |i| s.make_tree(&name(from + i)))?;
        let put = time(2, |i| s.put_in_trees(&[name(from + i)]))?;
        Ok([make, put, time(2, |i| s.flush_tree(&name(from + i)))?])
    };
    let before = three(0)?;
    (18..n).try_for_each(|i| s.make_tree(&name(i)))?;
    let after = three(n)?;
    note("a tree is made after many", before[0], after[0]);
    note("the first put into it", before[1], after[1]);
    note("its flush", before[2], after[2]);
    let names: Vec<String> = (0..n).map(name).collect();
    // A twentieth at a time, so that it does not fill the one tree's memtable.
    let same = vec![name(0); names.len() / 20];
    let one = 20 * time(1, |_| s.put_in_trees(&same))?;
    note(
        "a batch over many trees, against one over one",
        one,
        time(1, |_| s.put_in_trees(&names))?,
    );
    Ok(())
}

fn snapshots(n: u64, s: &impl Subject, note: &mut CliffNote<'_>) -> Result<()> {
    s.put(b"k")?;
    let take = |_| {
        drop(s.snapshot());
        Ok(())
    };
    let normal = time(50, take)?;
    let mut held = vec![];
    for i in 0..n {
        s.put(&key(i))?;
        held.push(s.snapshot());
    }
    note("a snapshot taken and dropped beside many", normal, time(50, take)?);
    Ok(())
}
