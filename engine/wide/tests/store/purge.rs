//! The report of retained tombstones predicts what the engine then does.

use std::time::Duration;

use firn_kv::Durability;
use firn_kv::MemEnv;
use firn_wide::internals::store::{CellStore, StoreFamily, StoreMutation};
use firn_wide::{Blocker, Grace, PurgeReport};

use super::{column, open, spec, standard};

const GRACE: i64 = 864_000;

fn write(store: &CellStore, f: &StoreFamily, key: &[u8], change: impl FnOnce(&mut StoreMutation)) {
    let mut m = StoreMutation::new(key);
    change(&mut m);
    store.apply(&[m], Durability::Process).unwrap();
    f.tree().flush().unwrap();
}

fn report(store: &CellStore, f: &StoreFamily) -> PurgeReport {
    store.purge_report(f, GRACE).unwrap()
}

#[test]
fn tombstones_wait_for_their_grace_and_for_older_data() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let a = column(&f, b"a");
    assert!(report(&store, &f).tables.is_empty());
    write(&store, &f, b"k", |m| _ = m.put(&f, &a, 7, b"x"));
    write(&store, &f, b"k", |m| _ = m.delete(&f, &a, 8));
    write(&store, &f, b"l", |m| _ = m.put_ttl(&f, &a, 9, b"x", 60));

    let now = store.now();
    let r = report(&store, &f);
    assert_eq!((r.now, r.gc_grace, r.tree.as_str(), r.holders.len()), (now, GRACE, "cf-1", 0));
    let [expiring, deleted, live] = &r.tables[..] else { panic!("{:?}", r.tables) };
    assert_eq!(
        (expiring.grace, &expiring.blocked_by[..]),
        (Grace::Until(now + 60 + GRACE + 1), &[][..]),
        "other keys"
    );
    let beneath = Blocker::Table { id: live.id, min_timestamp: Some(7) };
    assert_eq!(
        (deleted.grace, &deleted.blocked_by[..]),
        (Grace::Until(now + GRACE + 1), &[beneath][..])
    );
    assert_eq!(
        (live.grace, live.blocked_by.len(), live.facts.unwrap().entries),
        (Grace::Nothing, 0, 1)
    );
    assert_eq!((live.droppable_ratio(), deleted.droppable_ratio()), (0.0, 1.0));

    // One second before the reported time nothing is purged; then it is.
    env.advance(Duration::from_secs(GRACE as u64));
    assert_eq!(report(&store, &f).tables[1].grace, Grace::Until(now + GRACE + 1));
    f.tree().compact().unwrap();
    assert_eq!(report(&store, &f).tables[0].facts.unwrap().droppable, 2);
    env.advance(Duration::from_secs(1));
    assert_eq!(report(&store, &f).tables[0].grace, Grace::Some);
    f.tree().compact().unwrap();
    assert!(f.tree().iter().next().is_none());
    assert!(
        report(&store, &f).tables.is_empty(),
        "expired cells are dropped by the time of their writing"
    );
}

#[test]
fn a_snapshot_keeps_tombstones() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let a = column(&f, b"a");
    write(&store, &f, b"k", |m| _ = m.put(&f, &a, 1, b"x"));
    let view = store.view();
    write(&store, &f, b"k", |m| _ = m.delete(&f, &a, 2));
    env.advance(Duration::from_secs(GRACE as u64 + 2));
    f.tree().compact().unwrap();
    let r = report(&store, &f);
    let [table] = &r.tables[..] else { panic!("{:?}", r.tables) };
    assert_eq!(table.grace, Grace::Some);
    assert!(matches!(&table.blocked_by[..], [Blocker::Snapshot(_)]), "{:?}", table.blocked_by);
    drop(view);
    assert!(report(&store, &f).tables[0].blocked_by.is_empty());
    f.tree().compact().unwrap();
    assert!(report(&store, &f).tables.is_empty());
}

#[test]
fn a_table_is_whole_when_all_of_it_can_go() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    write(&store, &f, b"k", |m| _ = m.delete_partition(&f, 5));
    env.advance(Duration::from_secs(GRACE as u64 + 2));
    let r = report(&store, &f);
    assert_eq!((r.tables[0].grace, r.tables[0].blocked_by.len()), (Grace::Whole, 0));
    write(&store, &f, b"k", |m| _ = m.put(&f, &column(&f, b"a"), 6, b"x"));
    store.drop_family(1).unwrap();
    assert!(store.purge_report(&f, GRACE).is_err());
}

#[test]
fn files_without_summary_are_unknown_until_compaction() {
    let env = MemEnv::new(1);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    let mut m = StoreMutation::new(b"k");
    m.put(&f, &column(&f, b"a"), 5, b"x");
    store.apply(&[m], Durability::Process).unwrap();
    drop((f, store));
    let db = firn_kv::Db::open_in(std::sync::Arc::new(env.clone()), "/store", super::options().db)
        .unwrap();
    db.existing_tree("cf-1").unwrap().flush().unwrap();
    drop(db);
    let store = open(&env);
    let f = store.open_family(spec(1, standard())).unwrap();
    assert_eq!(
        (report(&store, &f).tables[0].facts, report(&store, &f).tables[0].grace),
        (None, Grace::Some)
    );
    f.tree().compact().unwrap();
    assert_eq!(report(&store, &f).tables[0].facts.map(|f| f.entries), Some(1));
}
