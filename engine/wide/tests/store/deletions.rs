//! Deletions of containers: their extent, their cost, and their purge; expiration; truncation.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use firn_kv::Durability;
use firn_kv::MemEnv;
use firn_wide::internals::cell::CellDeletion;
use firn_wide::internals::store::{
    Body, CellStore, Partitions, StoreFamily, StoreMutation, StoreSlice,
};
use firn_wide::{Clock, StoreOptions};

use super::{cell, column, open, options, row, spec, standard, super_columns};

fn put(store: &CellStore, f: &StoreFamily, key: &[u8], place: &[u8], timestamp: i64) {
    let mut m = StoreMutation::new(key);
    m.put(f, place, timestamp, b"v");
    store.apply(&[m], Durability::Process).unwrap();
}

fn write(store: &CellStore, key: &[u8], with: impl FnOnce(&mut StoreMutation)) {
    let mut m = StoreMutation::new(key);
    with(&mut m);
    store.apply(&[m], Durability::Process).unwrap();
}

fn partition(f: &StoreFamily, key: &[u8], place: &[u8]) -> Vec<u8> {
    let mut full = vec![];
    f.layout().put_partition(key, &mut full).unwrap();
    full.extend_from_slice(place);
    full
}

#[test]
fn a_deletion_stays_while_another_table_has_covered_data() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, super_columns())).unwrap();
    let (a, b) = (cell(&f, b"sc", b"a"), cell(&f, b"td", b"b"));
    put(&store, &f, b"k", &a, 1);
    put(&store, &f, b"k", &b, 1);
    f.tree().flush().unwrap();
    write(&store, b"k", |m| {
        m.delete_partition(&f, 5);
    });
    f.tree().flush().unwrap();
    env.advance(Duration::from_secs(900_000));
    // Only the table with the deletion: the other one begins after it.
    let marker = partition(&f, b"k", &[0x20]);
    f.tree().compact_range(&marker..=&marker).unwrap();
    assert!(store.get(&f, b"k", &a).unwrap().is_none());
    assert!(f.tree().contains(&marker).unwrap());
    f.tree().compact().unwrap();
    assert!(f.tree().iter().next().is_none(), "with all that it covers it goes");
}

#[test]
fn a_deletion_is_forgotten_when_newer_tables_hold_newer_cells_only() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    write(&store, b"k", |m| {
        m.delete_partition(&f, 5);
    });
    f.tree().flush().unwrap();
    let marker = partition(&f, b"k", &[0x20]);
    put(&store, &f, b"k", &column(&f, b"a"), 6);
    put(&store, &f, b"k", &column(&f, b"b"), 5);
    f.tree().flush().unwrap();
    env.advance(Duration::from_secs(900_000));
    f.tree().compact_range(&marker..=&marker).unwrap();
    assert!(!f.tree().contains(&marker).unwrap());
    let mut reader = store.read(&f, b"k", &StoreSlice::all()).unwrap();
    assert_eq!(
        reader.count_cells(10).unwrap(),
        1,
        "what lost against the deletion was not written"
    );
}

#[test]
fn deleting_a_large_row_is_one_range_deletion_and_reading_it_is_reading_nothing() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    for i in 0..5000u32 {
        put(&store, &f, b"k", &column(&f, &i.to_be_bytes()), 10);
    }
    let before = store.db().stats().user_bytes;
    write(&store, b"k", |m| {
        m.delete_partition(&f, 10);
    });
    assert!(store.db().stats().user_bytes - before < 400);
    let mut entries = f.tree().iter();
    assert!(entries.next().is_some(), "the deletion itself");
    assert!(entries.next().is_none());
    put(&store, &f, b"k", &column(&f, b"late"), 10);
    put(&store, &f, b"k", &column(&f, b"new"), 11);
    let mut reader = store.read(&f, b"k", &StoreSlice::all()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().place.name, b"\x40new\0");
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn newer_cells_outlive_the_deletion_of_their_container() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, super_columns())).unwrap();
    for i in 0..100u8 {
        put(&store, &f, b"k", &cell(&f, b"sc", &[i + 1]), i as i64);
    }
    write(&store, b"k", |m| {
        m.delete_row(&f, &row(&f, b"sc"), 97);
    });
    for reverse in [false, true] {
        let slice = StoreSlice { reverse, ..StoreSlice::all() };
        let mut reader = store.read(&f, b"k", &slice).unwrap();
        assert_eq!(reader.count_cells(1000).unwrap(), 2);
        let mut reader = store.read(&f, b"k", &slice).unwrap();
        assert_eq!(reader.count_rows(1000).unwrap(), 1);
    }
    assert!(store.get(&f, b"k", &cell(&f, b"sc", &[98])).unwrap().is_none());
    assert!(store.get(&f, b"k", &cell(&f, b"sc", &[99])).unwrap().is_some());
}

#[test]
fn within_one_call_the_deletion_wins_at_equal_timestamps() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, super_columns())).unwrap();
    let (a, b, c) = (cell(&f, b"x", b"a"), cell(&f, b"y", b"b"), cell(&f, b"z", b"c"));
    write(&store, b"k", |m| {
        m.delete(&f, &a, 5).put(&f, &a, 5, b"1").put(&f, &b, 5, b"2").delete_row(
            &f,
            &row(&f, b"y"),
            5,
        );
        m.put(&f, &c, 5, b"3").put(&f, &c, 6, b"4").put(&f, &c, 4, b"5");
    });
    let found: Vec<_> = store.get_many(&f, b"k", &[&a, &b, &c]).unwrap();
    assert!(found[0].is_none() && found[1].is_none());
    assert_eq!(found[2].as_ref().unwrap().value(), b"4");
}

/// A clock that is a second later at each reading.
struct SteppingClock(AtomicI64);

impl Clock for SteppingClock {
    fn micros(&self) -> i64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

#[test]
fn cells_of_one_write_expire_together() {
    // One of these ends between two readings, however many there were before.
    for ttl in [20, 21] {
        let clock = Arc::new(SteppingClock(AtomicI64::new(1_700_000_000_000_000)));
        let options = StoreOptions { clock: Some(clock), ..options() };
        let store = CellStore::open_in(Arc::new(MemEnv::new(1)), "/store", options).unwrap();
        let f = store.open_family(spec(1, standard())).unwrap();
        let places = [column(&f, b"a"), column(&f, b"b")];
        write(&store, b"k", |m| {
            m.put_ttl(&f, &places[0], 1, b"v", ttl).put_ttl(&f, &places[1], 1, b"v", ttl);
        });
        let view = store.view();
        for _ in 0..=ttl {
            for found in [
                store.get_many(&f, b"k", &places).unwrap(),
                view.get_many(&f, b"k", &places).unwrap(),
            ] {
                assert_eq!(found[0].is_some(), found[1].is_some());
            }
        }
        assert!(store.get_many(&f, b"k", &places).unwrap()[0].is_none());
    }
}

#[test]
fn a_deleted_partition_is_met_by_scans_until_it_is_forgotten() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    put(&store, &f, b"k", &column(&f, b"a"), 1);
    write(&store, b"k", |m| {
        m.delete_partition(&f, 2);
    });
    let ghosts = || {
        let mut reader = store.scan(&f, &Partitions::all(), &StoreSlice::all()).unwrap();
        let mut n = 0;
        while reader.next_partition().unwrap() {
            assert_eq!(reader.key(), b"k");
            assert!(reader.next().unwrap().is_none());
            n += 1;
        }
        n
    };
    assert_eq!(ghosts(), 1);
    env.advance(Duration::from_secs(864_002));
    f.tree().compact().unwrap();
    assert_eq!(ghosts(), 0);
}

#[test]
fn raw_readers_show_deletions_and_dead_cells() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, super_columns())).unwrap();
    let mut bounds = (vec![], vec![]);
    f.layout().put_bound(&[b"a"], false, &mut bounds.0).unwrap();
    f.layout().put_bound(&[b"c"], true, &mut bounds.1).unwrap();
    put(&store, &f, b"k", &cell(&f, b"b", b"n"), 1);
    // Data that may be newer than a deletion is not removed with it.
    put(&store, &f, b"k", &cell(&f, b"d", b"n"), 10);
    write(&store, b"k", |m| {
        m.delete_as(&f, &[], CellDeletion { timestamp: 3, local: 77 })
            .delete_range(&f, &bounds.0, &bounds.1, 4);
        m.delete_row(&f, &row(&f, b"b"), 5).delete(&f, &cell(&f, b"b", b"o"), 9);
    });
    let mut seen = vec![];
    let mut reader = store.read(&f, b"k", &StoreSlice::all().raw()).unwrap();
    while let Some(item) = reader.next().unwrap() {
        seen.push(match item.body {
            Body::PartitionDeletion(d) => format!("partition {} {}", d.timestamp, d.local),
            Body::RangeDeletion { start, end, deletion } => {
                assert_eq!((start, end), (&*bounds.0, &*bounds.1));
                format!("range {}", deletion.timestamp)
            }
            Body::RowDeletion(d) => {
                format!("row {} {}", item.place.row.escape_ascii(), d.timestamp)
            }
            Body::ComplexDeletion(_) => "complex".to_string(),
            Body::Cell(c) => {
                format!("{} {} {}", item.place.name.escape_ascii(), c.timestamp, c.is_live(0))
            }
        });
    }
    assert_eq!(
        seen,
        [
            "partition 3 77",
            "range 4",
            "row @b\\x00 5",
            "@n\\x00 1 true",
            "@o\\x00 9 false",
            "@n\\x00 10 true"
        ]
    );
}

#[test]
fn a_time_to_live_ends_only_its_own_cells() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let (a, b) = (column(&f, b"a"), column(&f, b"b"));
    write(&store, b"k", |m| {
        m.put_ttl(&f, &a, 1, b"x", 10).put_ttl(&f, &b, 1, b"y", 10);
    });
    write(&store, b"k", |m| {
        m.put(&f, &b, 2, b"z");
    });
    env.advance(Duration::from_secs(9));
    let found = store.get(&f, b"k", &a).unwrap().unwrap();
    assert_eq!((found.cell().ttl(), found.cell().remaining(store.now())), (Some(10), Some(1)));
    env.advance(Duration::from_secs(1));
    assert!(store.get(&f, b"k", &a).unwrap().is_none());
    assert_eq!(store.get(&f, b"k", &b).unwrap().unwrap().value(), b"z");
    f.tree().compact().unwrap();
    assert_eq!(f.tree().iter().count(), 2, "within grace it hides what may come late");
    put(&store, &f, b"k", &a, 1);
    assert!(store.get(&f, b"k", &a).unwrap().is_none());
    env.advance(Duration::from_secs(864_001));
    f.tree().compact().unwrap();
    assert_eq!(f.tree().iter().count(), 1);
    put(&store, &f, b"k", &a, 1);
    assert!(store.get(&f, b"k", &a).unwrap().is_some());
}

#[test]
fn truncation_forgets_timestamps_too() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let a = column(&f, b"a");
    put(&store, &f, b"k", &a, 100);
    write(&store, b"k", |m| {
        m.delete_partition(&f, 200);
    });
    store.truncate(&f).unwrap();
    assert!(f.tree().iter().next().is_none());
    put(&store, &f, b"k", &a, 1);
    assert!(store.get(&f, b"k", &a).unwrap().is_some());
}

#[test]
fn a_dropped_family_takes_no_writes_and_a_new_one_of_its_number_is_empty() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let a = column(&f, b"a");
    put(&store, &f, b"k", &a, 1);
    store.drop_family(1).unwrap();
    let mut m = StoreMutation::new(b"k");
    m.put(&f, &a, 2, b"v").put(&f, &column(&f, b"b"), 2, b"v");
    assert!(store.apply(&[m], Durability::Process).is_err());
    assert!(store.get(&f, b"k", &a).is_err());
    let f = store.open_family(spec(1, standard())).unwrap();
    assert!(store.get(&f, b"k", &a).unwrap().is_none());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn an_update_sees_and_writes_its_partitions_only() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let a = column(&f, b"a");
    let add_one = |store: &CellStore| {
        store.update(&[b"k"], Durability::Process, |view| {
            let n = view.get(&f, b"k", &a)?.map_or(0, |c| c.value().len());
            let mut m = StoreMutation::new(b"k");
            m.put(&f, &a, store.timestamp(), &vec![b'x'; n + 1]);
            Ok((vec![m], n))
        })
    };
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..50).for_each(|_| _ = add_one(&store).unwrap()));
        }
    });
    assert_eq!(add_one(&store).unwrap(), 200);
    let other = store.update(&[b"k"], Durability::Process, |_| {
        let mut m = StoreMutation::new(b"other");
        m.put(&f, &a, 1, b"");
        Ok((vec![m], ()))
    });
    assert!(other.is_err());
    assert!(store.get(&f, b"other", &a).unwrap().is_none());
}
