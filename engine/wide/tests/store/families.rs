//! Families belong to their store: dropped ones, and those of another store, are refused on every
//! write path.

use firn_kv::Durability;
use firn_kv::MemEnv;
use firn_wide::internals::key::Layout;
use firn_wide::internals::store::{CellStore, StoreFamily, StoreMutation};
use firn_wide::{Error, Partitioner, Type};

use super::{column, open, spec, standard};

fn put(store: &CellStore, family: &StoreFamily, timestamp: i64) -> firn_wide::Result<()> {
    store.put(family, b"row", &column(family, b"c"), timestamp, b"value", Durability::Process)
}

fn refused(done: firn_wide::Result<()>) {
    assert!(matches!(done, Err(Error::InvalidRequest(_))), "{done:?}");
}

#[test]
fn a_family_of_another_store_is_refused_by_the_short_way_too() {
    let (a, b) = (open(&MemEnv::new(1)), open(&MemEnv::new(2)));
    let own = a.open_family(spec(1, standard())).unwrap();
    let foreign = b.open_family(spec(1, standard())).unwrap();
    refused(put(&a, &foreign, 1));
    // From the second put on, the stripe's recorded bound covers the timestamps.
    (1..4).for_each(|t| put(&a, &own, t).unwrap());
    refused(put(&a, &foreign, 5));
    let mut m = StoreMutation::new(b"row");
    m.put(&foreign, &column(&foreign, b"c"), 6, b"value");
    refused(a.apply(&[m], Durability::Process));
    refused(a.truncate(&foreign));
    assert!(b.get(&foreign, b"row", &column(&foreign, b"c")).unwrap().is_none());
    put(&a, &own, 7).unwrap();
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn a_dropped_family_is_refused_by_the_short_way_too() {
    let store = open(&MemEnv::new(1));
    let family = store.open_family(spec(1, standard())).unwrap();
    (1..4).for_each(|t| put(&store, &family, t).unwrap());
    store.drop_family(1).unwrap();
    refused(put(&store, &family, 5));
    refused(store.truncate(&family));
    // Each write concurrent with a drop is acknowledged or refused.
    for id in 2..30 {
        let family = store.open_family(spec(id, standard())).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                for t in 10.. {
                    match put(&store, &family, t) {
                        Ok(()) => {}
                        done => return refused(done),
                    }
                }
            });
            store.drop_family(id).unwrap();
        });
    }
}

#[test]
fn truncation_removes_the_greatest_keys_too() {
    let store = open(&MemEnv::new(1));
    let family = store
        .open_family(spec(1, Layout::standard(Partitioner::ByteOrdered, Type::Bytes)))
        .unwrap();
    let greatest = [0xff; 100];
    store.put(&family, &greatest, &column(&family, b"c"), 1, b"v", Durability::Process).unwrap();
    put(&store, &family, 1).unwrap();
    store.truncate(&family).unwrap();
    assert_eq!(family.tree().iter().count(), 0);
    store.truncate(&family).unwrap();
    put(&store, &family, 1).unwrap();
    assert!(store.get(&family, b"row", &column(&family, b"c")).unwrap().is_some());
}

/// Bytes that are not a cell are an error, never a live empty cell.
#[test]
fn undecodable_entries_are_errors() {
    let store = open(&MemEnv::new(1));
    let family = store.open_family(spec(1, standard())).unwrap();
    put(&store, &family, 1).unwrap();
    let key = family.tree().iter().next().unwrap().unwrap().0.to_vec();
    for bytes in [&b""[..], b"\x01", b"\x09aaaaaaaa", b"\x02aaaaaaaa12"] {
        family.tree().put(&key, bytes).unwrap();
        let found = store.get(&family, b"row", &column(&family, b"c"));
        assert!(matches!(found, Err(Error::Corrupt(_))), "{found:?}");
        let found = store.get_many(&family, b"row", &[column(&family, b"c")]);
        assert!(matches!(found, Err(Error::Corrupt(_))), "{found:?}");
    }
}
