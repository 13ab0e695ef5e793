//! Costs of reads and writes in a partition with many range deletions: no more than with few.

use firn_kv::{Durability, MemEnv};
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::{CellStore, StoreFamily, StoreMutation, StoreSlice};
use firn_wide::{Partitioner, Type};

use super::{open, spec};

const KEY: &[u8] = b"k";

/// Returns the layout of a table with the clustering columns `day` and `n`.
fn days() -> Layout {
    Layout::table(Partitioner::Murmur3, vec![Type::Bytes, Type::Bytes])
}

fn day(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Returns the position of the only cell of a day.
fn place(f: &StoreFamily, i: u32) -> Vec<u8> {
    let mut place = vec![];
    f.layout().put_cell(&[&day(i)[..], b"n"], &[0, 1], &mut place).unwrap();
    place
}

fn apply(store: &CellStore, write: impl FnOnce(&mut StoreMutation)) {
    let mut m = StoreMutation::new(KEY);
    write(&mut m);
    store.apply(&[m], Durability::Process).unwrap();
}

fn put(store: &CellStore, f: &StoreFamily, i: u32, timestamp: i64) {
    apply(store, |m| _ = m.put(f, &place(f, i), timestamp, b"v"));
}

/// Deletes all rows of a day.
fn delete(store: &CellStore, f: &StoreFamily, i: u32, timestamp: i64) {
    let (mut start, mut end) = (vec![], vec![]);
    f.layout().put_bound(&[&day(i)], false, &mut start).unwrap();
    f.layout().put_bound(&[&day(i)], true, &mut end).unwrap();
    apply(store, |m| _ = m.delete_range(f, &start, &end, timestamp));
}

/// Returns the number of entries that the engine reads for this work, after a first run.
fn entries(store: &CellStore, mut work: impl FnMut()) -> u64 {
    work();
    let recording = store.db().record_reads();
    work();
    let reads = recording.finish().reads;
    reads.iter().map(|r| r.found + r.total().entries.all()).sum()
}

/// Reads and writes after and between `n` deleted days, each of which had a row; every `alive`th
/// day has one after its deletion. Returns the entries read by each operation.
fn costs(n: u32, compacted: bool) -> Vec<(&'static str, u64)> {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, days())).unwrap();
    // The last row, and one before all.
    put(&store, &f, 0, 1);
    put(&store, &f, n + 1, 1);
    for i in 1..=n {
        let at = i64::from(i) * 10;
        put(&store, &f, i, at);
        delete(&store, &f, i, at + 1);
    }
    if compacted {
        f.tree().compact().unwrap();
    }
    let slice = |from: u32| {
        let mut start = vec![];
        f.layout().put_bound(&[&day(from)], false, &mut start).unwrap();
        StoreSlice { from: start, ..StoreSlice::rows() }
    };
    let first = |slice: StoreSlice, is: u32| {
        let mut reader = store.read(&f, KEY, &slice).unwrap();
        let item = reader.next().unwrap().expect("a row is left");
        let mut row = vec![];
        f.layout().put_row(&[&day(is)[..], b"n"], &mut row).unwrap();
        assert_eq!(item.place.row, &row[1..row.len() - 1], "the row of day {is}");
    };
    let all = |slice: StoreSlice| {
        let mut reader = store.read(&f, KEY, &slice).unwrap();
        assert_eq!(reader.count_rows(usize::MAX).unwrap(), 2);
    };
    let late = n / 2;
    type RangeOp<'a> = (&'static str, Box<dyn FnMut() + 'a>);
    let mut ops: Vec<RangeOp<'_>> = vec![
        ("the first row", Box::new(|| first(StoreSlice::rows(), 0))),
        ("the first row after", Box::new(|| first(slice(1), n + 1))),
        ("the last row", Box::new(|| first(StoreSlice::rows().reversed(), n + 1))),
        ("all rows", Box::new(|| all(StoreSlice::all()))),
        (
            "a row by its key",
            Box::new(|| assert!(store.get(&f, KEY, &place(&f, n + 1)).unwrap().is_some())),
        ),
        (
            "a deleted row by its key",
            Box::new(|| assert!(store.get(&f, KEY, &place(&f, late)).unwrap().is_none())),
        ),
        ("a write that a range covers", Box::new(|| put(&store, &f, late, 5))),
        ("a deletion that another covers", Box::new(|| delete(&store, &f, late, 6))),
        ("a deletion of new rows", Box::new(|| delete(&store, &f, n + 2, 1 << 40))),
    ];
    ops.iter_mut().map(|(name, op)| (*name, entries(&store, op))).collect()
}

#[test]
fn many_deleted_ranges_cost_no_more_than_few() {
    for compacted in [false, true] {
        for ((name, few), (_, many)) in costs(20, compacted).iter().zip(costs(2000, compacted)) {
            assert!(
                many <= few + 40,
                "{name} looks at {few} entries beside 20 ranges and at {many} beside 2,000 (compacted: {compacted})"
            );
        }
    }
}
