//! Public API from the view of an embedding program: accepted argument types, returned types and
//! error messages.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use firn_crash::{CrashEnv, Cut};
use firn_kv::Env;
use firn_kv::{
    Batch, BatchOp, Db, DbOptions, Durability, ErrorKind, MAX_KEY_LEN, Readable, Result, Retry,
    Snapshot, Tree, TreeOptions, Value,
};

fn store() -> (Db, Tree) {
    let db = Db::in_memory().unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    (db, tree)
}

fn filled(keys: &[&str]) -> (Db, Tree) {
    let (db, tree) = store();
    keys.iter().for_each(|k| tree.put(k, k).unwrap());
    (db, tree)
}

fn keys(items: impl Iterator<Item = Result<(Value, Value)>>) -> Vec<String> {
    items.map(|i| String::from_utf8(i.unwrap().0.into()).unwrap()).collect()
}

#[test]
fn keys_and_values_are_anything_that_is_bytes() {
    let (db, tree) = store();
    tree.put("str", String::from("String")).unwrap();
    tree.put(Vec::from("array"), [1u8, 2]).unwrap();
    tree.put(7u32.to_be_bytes(), b"literal").unwrap();
    assert_eq!(tree.get("array").unwrap().unwrap(), [1, 2]);
    // A returned value can be used as a key, too.
    let (key, value) = tree.last().unwrap().unwrap();
    tree.put(&value, &key).unwrap();
    assert!(tree.contains("String").unwrap() && tree.get(value).unwrap().unwrap() == "str");
    let mut batch = Batch::new();
    batch.put(&tree, "k", key).unwrap();
    db.write(batch).unwrap();
    assert_eq!(tree.multi_get(&["k", "none"]).unwrap().iter().flatten().count(), 1);
    let mut cursor = tree.cursor("k"..).unwrap();
    cursor.seek("l").unwrap();
    assert_eq!(cursor.key(), b"str");
}

#[test]
fn ranges_are_written_as_one_likes() {
    let (db, tree) = filled(&["a", "b", "c", "d"]);
    let snapshot = db.snapshot();
    let tx = db.transaction();
    assert_eq!(keys(tree.range(..)), ["a", "b", "c", "d"]);
    assert_eq!(keys(tree.range("b"..="c")), ["b", "c"]);
    assert_eq!(keys(snapshot.range(&tree, .."b")), ["a"]);
    assert_eq!(keys(tx.range(&tree, "c".to_owned()..)), ["c", "d"]);
    assert_eq!(keys(db.range(&tree, (Bound::Excluded(b"a"), Bound::Unbounded))), ["b", "c", "d"]);
    assert_eq!(keys(tree.range(&("b".."c"))), ["b"]);
    assert_eq!(keys((&tree).into_iter().rev()), ["d", "c", "b", "a"]);
    for item in &tree {
        item.unwrap();
    }
    assert_eq!(tree.range("c".."a").count(), 0);
}

/// Checks the result of deleting ranges of all forms: alone, in a batch after puts, and in a
/// transaction.
#[test]
fn a_range_of_any_form_is_deleted() {
    type Bounds = (Bound<&'static str>, Bound<&'static str>);
    let cases: [(Bounds, &[&str]); 9] = [
        ((Bound::Unbounded, Bound::Unbounded), &[]),
        ((Bound::Included("b"), Bound::Unbounded), &["a"]),
        ((Bound::Excluded("b"), Bound::Unbounded), &["a", "b"]),
        ((Bound::Unbounded, Bound::Included("b")), &["c", "d"]),
        ((Bound::Unbounded, Bound::Excluded("b")), &["b", "c", "d"]),
        ((Bound::Excluded("a"), Bound::Included("c")), &["a", "d"]),
        ((Bound::Included("e"), Bound::Unbounded), &["a", "b", "c", "d"]),
        ((Bound::Included("c"), Bound::Included("b")), &["a", "b", "c", "d"]),
        ((Bound::Excluded("b"), Bound::Excluded("b")), &["a", "b", "c", "d"]),
    ];
    for (range, left) in cases {
        for flushed in [false, true] {
            for how in 0..3 {
                let (db, tree) = filled(&["a", "b", "c"]);
                if flushed {
                    tree.flush().unwrap();
                }
                if how == 0 {
                    tree.put("d", "").unwrap();
                    tree.delete_range(range).unwrap();
                } else if how == 1 {
                    let mut batch = Batch::new();
                    batch.put(&tree, "d", "").unwrap();
                    batch.delete_range(&tree, range).unwrap();
                    db.write(batch).unwrap();
                } else {
                    let mut tx = db.transaction();
                    tx.put(&tree, "d", "").unwrap();
                    tx.delete_range(&tree, range).unwrap();
                    assert_eq!(keys(tx.iter(&tree)), left, "{range:?}");
                    assert_eq!(keys(tx.iter(&tree).rev()).len(), left.len());
                    assert_eq!(tx.contains(&tree, "d").unwrap(), left.contains(&"d"));
                    tx.commit().unwrap();
                }
                assert_eq!(keys(tree.iter()), left, "{range:?}, {how}, flushed: {flushed}");
                // It deletes earlier entries only, not later ones.
                tree.put("x", "").unwrap();
                assert!(tree.contains("x").unwrap());
            }
        }
    }
}

#[test]
fn the_greatest_key_of_all_is_deleted_too() {
    let greatest = vec![0xff; MAX_KEY_LEN];
    for flushed in [false, true] {
        let (db, tree) = filled(&["a"]);
        tree.put(&greatest, "").unwrap();
        if flushed {
            tree.flush().unwrap();
        }
        tree.delete_range((
            Bound::Excluded("a"),
            Bound::Included(std::str::from_utf8(b"z").unwrap()),
        ))
        .unwrap();
        assert_eq!(tree.len().unwrap(), 2);
        tree.delete_range("b".as_bytes()..=&greatest[..]).unwrap();
        assert_eq!(keys(tree.iter()), ["a"]);
        let mut batch = Batch::new();
        batch.put(&tree, &greatest, "").unwrap();
        batch.delete_range(&tree, (Bound::Excluded(&greatest), Bound::Unbounded)).unwrap();
        db.write(batch).unwrap();
        assert_eq!(tree.len().unwrap(), 2);
        tree.clear().unwrap();
        assert!(tree.is_empty().unwrap());
    }
}

#[test]
fn messages_have_names_and_sizes_and_no_data() {
    let (db, tree) = filled(&["secret"]);
    let mut batch = Batch::new();
    batch.put(&tree, "secret", "secret").unwrap();
    let mut tx = db.transaction();
    tx.put(&tree, "secret", "secret").unwrap();
    tx.get(&tree, "other").unwrap();
    let mut cursor = tree.cursor(..).unwrap();
    cursor.first().unwrap();
    let snapshot = db.snapshot();
    let all = [
        format!("{db:?}"),
        format!("{tree:?}"),
        format!("{batch:?} {:?}", batch.iter()),
        format!("{tx:?}"),
        format!("{cursor:?}"),
        format!("{snapshot:?}"),
        format!("{:?} {:?}", tree.range(.."s"), tx.iter(&tree).keys()),
        format!("{:?} {:?}", Retry::default(), db.stats().memory),
    ];
    for words in &all {
        assert!(!words.contains("secret") && words.len() < 400, "{words}");
    }
    assert_eq!(
        all[2].split(" BatchOps").next().unwrap(),
        r#"Batch { len: 1, size: 16, trees: ["t"] }"#
    );
    assert!(all[1].starts_with(r#"Tree { name: "t", memtable_bytes: "#), "{}", all[1]);
    assert!(all[3].contains("reads: 1, writes: 1"), "{}", all[3]);
    assert_eq!(
        format!("{:?}", Value::from(vec![b'x'; 10_000])).len(),
        2 + 256 + "… (10000 bytes)".len()
    );
}

#[test]
fn a_batch_is_read_back() {
    let (db, a) = store();
    let b = db.tree("b", TreeOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&a, "k", "v").unwrap();
    batch.delete(&b, "k").unwrap();
    batch.delete_range(&a, "x"..="y").unwrap();
    batch.delete_range(&b, ..).unwrap();
    let told: Vec<BatchOp<'_>> = (&batch).into_iter().collect();
    assert_eq!(
        told,
        [
            BatchOp::Put { tree: "t", key: b"k", value: b"v" },
            BatchOp::Delete { tree: "b", key: b"k" },
            BatchOp::DeleteRange { tree: "t", start: b"x", end: Some(b"y\0") },
            BatchOp::DeleteRange { tree: "b", start: b"", end: None },
        ]
    );
    batch.clear();
    assert_eq!(batch.iter().count(), 0);
}

/// A handle's durability decides whether its writes must survive a power cut.
#[test]
fn a_handle_has_a_durability() {
    let env = CrashEnv::new(1);
    let arc: Arc<dyn Env> = Arc::new(env.clone());
    let options = DbOptions { background_threads: 0, ..DbOptions::default() };
    let db = Db::open_in(arc, "/d", options.clone()).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let safe = tree.with_durability(Durability::Power);
    let survives = |key: &str| {
        let image: Arc<dyn Env> = Arc::new(env.crash_image(0, &Cut::PowerNone));
        let copy = Db::open_in(image, "/d", options.clone()).unwrap();
        let tree = copy.existing_tree("t").unwrap();
        tree.contains(key).unwrap()
    };
    tree.put("lost", "").unwrap();
    assert!(!survives("lost"));
    safe.put("put", "").unwrap();
    assert!(survives("put") && survives("lost"), "earlier writes survive too");
    type Write = fn(&Db, &Tree);
    let writes: [(&str, Write); 9] = [
        ("insert", |_, t| assert!(t.insert_if_absent("insert", "").unwrap().is_none())),
        ("update", |_, t| drop(t.update("update", |_| Some("")).unwrap())),
        ("swap", |_, t| t.compare_and_swap("swap", None, Some(b"")).unwrap().unwrap()),
        ("batch", |db, t| {
            let mut batch = Batch::new();
            batch.put(t, "batch", "").unwrap();
            db.write(batch).unwrap();
        }),
        ("transact", |db, t| db.transact(|tx| tx.put(t, "transact", "")).unwrap()),
        ("delete", |_, t| {
            t.put("delete", "").unwrap();
            t.delete("none").unwrap();
        }),
        ("delete_range", |_, t| {
            t.put("delete_range", "").unwrap();
            t.delete_range("x"..).unwrap();
        }),
        ("pop", |_, t| {
            t.put("pop", "").unwrap();
            t.put("", "").unwrap();
            t.pop_first().unwrap().unwrap();
        }),
        ("db", |_, t| t.db().existing_tree("t").unwrap().put("db", "").unwrap()),
    ];
    for (key, write) in writes {
        write(&db, &tree);
        assert!(!survives(key), "{key}");
        tree.delete(key).unwrap();
        write(&db.with_durability(Durability::Power), &safe);
        assert!(survives(key), "{key}");
    }
    let tx = db.transaction();
    let mut tx = tx.with_durability(Durability::Power);
    tx.put(&tree, "tx", "").unwrap();
    tx.commit().unwrap();
    assert!(survives("tx"));
}

#[test]
fn one_function_reads_what_is_newest_what_was_and_what_a_transaction_sees() {
    fn seen(at: &impl Readable, tree: &Tree) -> (u64, bool, Vec<String>, usize, Option<String>) {
        let name =
            |e: Option<(Value, Value)>| e.map(|(k, _)| String::from_utf8_lossy(&k).into_owned());
        assert_eq!(at.first(tree).unwrap().is_none(), at.is_empty(tree).unwrap());
        assert_eq!(name(at.last(tree).unwrap()), keys(at.iter(tree)).pop());
        let (len, prefixed) = (at.len(tree).unwrap(), at.prefix(tree, "a").count());
        (
            len,
            at.contains(tree, "b").unwrap(),
            keys(at.range(tree, ..)),
            prefixed,
            name(at.first(tree).unwrap()),
        )
    }
    let (db, tree) = filled(&["a1", "b"]);
    let snapshot: Snapshot = db.snapshot();
    let mut tx = db.transaction();
    tree.put("a2", "").unwrap();
    tx.delete(&tree, "b").unwrap();
    tx.put(&tree, "a0", "").unwrap();
    let owned = |k: &[&str]| k.iter().map(|k| (*k).to_owned()).collect::<Vec<_>>();
    assert_eq!(seen(&db, &tree), (3, true, owned(&["a1", "a2", "b"]), 2, Some("a1".into())));
    assert_eq!(seen(&snapshot, &tree), (2, true, owned(&["a1", "b"]), 1, Some("a1".into())));
    assert_eq!(seen(&tx, &tree), (2, false, owned(&["a0", "a1"]), 2, Some("a0".into())));
    let (other, _) = store();
    assert_eq!(other.get(&tree, "b").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(other.iter(&tree).next().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_transaction_depends_on_what_it_has_walked() {
    let commit = |walk: &dyn Fn(&mut firn_kv::Transaction, &Tree), disturb: &dyn Fn(&Tree)| {
        let (db, tree) = filled(&["b", "d", "f", "h"]);
        let mut tx = db.transaction();
        walk(&mut tx, &tree);
        tx.put(&tree, "own", "").unwrap();
        disturb(&tree);
        tx.commit().map_err(|e| e.kind())
    };
    let conflict = Err(ErrorKind::Conflict);
    let first_two =
        |tx: &mut firn_kv::Transaction, t: &Tree| assert_eq!(keys(tx.iter(t).take(2)), ["b", "d"]);
    let last =
        |tx: &mut firn_kv::Transaction, t: &Tree| assert_eq!(keys(tx.iter(t).rev().take(1)), ["h"]);
    let put = |key: &'static str| move |t: &Tree| t.put(key, "").unwrap();
    assert_eq!(commit(&first_two, &put("e")), Ok(()));
    assert_eq!(commit(&first_two, &put("c")), conflict);
    assert_eq!(commit(&first_two, &put("a")), conflict);
    assert_eq!(commit(&first_two, &put("d")), conflict);
    assert_eq!(commit(&first_two, &|t| t.delete("b").unwrap()), conflict);
    assert_eq!(commit(&first_two, &|t| t.delete_range("g"..).unwrap()), Ok(()));
    assert_eq!(commit(&first_two, &|t| t.delete_range("a".."c").unwrap()), conflict);
    assert_eq!(commit(&last, &put("g")), Ok(()));
    assert_eq!(commit(&last, &put("i")), conflict);
    // An unused iterator adds nothing to the read set; an exhausted iterator adds the whole range.
    assert_eq!(commit(&|tx, t| drop(tx.iter(t)), &put("c")), Ok(()));
    assert_eq!(commit(&|tx, t| assert_eq!(tx.iter(t).count(), 4), &put("i")), conflict);
    let both = |tx: &mut firn_kv::Transaction, t: &Tree| {
        let mut all = tx.iter(t);
        all.next().unwrap().unwrap();
        all.next_back().unwrap().unwrap();
    };
    assert_eq!(commit(&both, &put("e")), Ok(()));
    assert_eq!(commit(&both, &put("a")), conflict);
    assert_eq!(commit(&both, &put("z")), conflict);
}

/// An iterator of a transaction stays valid while the transaction writes. It shows the state at its
/// creation.
#[test]
fn a_transaction_writes_while_it_walks() {
    let (db, tree) = filled(&["a", "b", "c", "d"]);
    let mut tx = db.transaction();
    let mut met = vec![];
    for key in tx.keys(&tree) {
        let key = key.unwrap();
        tx.delete(&tree, &key).unwrap();
        if key == "b" {
            tx.delete(&tree, "c").unwrap();
            tx.put(&tree, "cc", "").unwrap();
            tx.put(&tree, "aa", "").unwrap();
        }
        met.push(String::from_utf8(key.into()).unwrap());
    }
    assert_eq!(met, ["a", "b", "c", "d"]);
    assert_eq!(keys(tx.iter(&tree)), ["aa", "cc"]);
    tx.commit().unwrap();
    assert_eq!(keys(tree.iter()), ["aa", "cc"]);
}

/// The cost of taking the first item of a queue depends neither on the rest of the queue nor on the
/// items taken before. The conflict check of a commit skips deleted ranges as reads do. Concurrent
/// deletes of missing keys in that range make this visible.
#[test]
fn a_transaction_takes_the_first_item_without_walking_the_queue() {
    let (db, queue) = store();
    const ITEMS: u32 = 1000;
    for i in 0..ITEMS {
        queue.put(i.to_be_bytes(), "").unwrap();
    }
    for i in 0..ITEMS {
        let mut tx = db.transaction();
        let (key, _) = tx.first(&queue).unwrap().unwrap();
        assert_eq!(key, i.to_be_bytes());
        tx.delete(&queue, key).unwrap();
        queue.put((ITEMS + i).to_be_bytes(), "").unwrap();
        if i > 200 {
            queue.delete((i / 2).to_be_bytes()).unwrap();
        }
        tx.commit().unwrap();
    }
    // A concurrent put of a deleted key, however, is a conflict.
    let mut tx = db.transaction();
    let (key, _) = tx.first(&queue).unwrap().unwrap();
    tx.delete(&queue, key).unwrap();
    queue.put(7u32.to_be_bytes(), "").unwrap();
    assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn what_meets_conflicts_is_run_again_so_often_and_no_more() {
    let (db, tree) = store();
    let run = |attempts: u32, disturbed: u32| {
        let mut tries = 0;
        let retry = Retry { attempts, first_pause: Duration::ZERO, ..Retry::default() };
        let done = retry.transact(&db, |tx| {
            tries += 1;
            tx.get(&tree, "k")?;
            if tries <= disturbed {
                tree.put("k", tries.to_be_bytes())?;
            }
            tx.put(&tree, "own", "")
        });
        (tries, done.map_err(|e| e.kind()))
    };
    assert_eq!(run(3, 0), (1, Ok(())));
    assert_eq!(run(3, 2), (3, Ok(())));
    assert_eq!(run(3, 3), (3, Err(ErrorKind::Conflict)));
    assert_eq!(run(0, 1), (1, Err(ErrorKind::Conflict)));
    // Other errors are returned at once.
    let mut tries = 0;
    let done = db.transact(|tx| {
        tries += 1;
        tx.put(&tree, vec![0; MAX_KEY_LEN + 1], "")
    });
    assert_eq!((tries, done.unwrap_err().kind()), (1, ErrorKind::InvalidArgument));
    // With a nonzero pause it sleeps on the clock of the environment.
    let env = CrashEnv::new(1);
    let db = Db::open_in(Arc::new(env.clone()), "/d", DbOptions::default()).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let before = env.monotonic_nanos();
    let mut tries = 0;
    db.transact(|tx| {
        tries += 1;
        tx.get(&tree, "k")?;
        if tries < 20 {
            tree.put("k", "")?;
        }
        tx.put(&tree, "own", "")
    })
    .unwrap();
    assert!(env.monotonic_nanos() > before + 1_000_000);
}

#[test]
fn a_transaction_larger_than_a_batch_is_refused_as_it_grows() {
    let (db, tree) = store();
    let mut tx = db.transaction();
    let value = vec![0; 200 << 20];
    tx.put(&tree, "a", &value).unwrap();
    tx.put(&tree, "b", &value).unwrap();
    // An operation that replaces another one takes no additional space.
    tx.put(&tree, "b", &value[1..]).unwrap();
    assert_eq!(tx.put(&tree, "c", &value).unwrap_err().kind(), ErrorKind::InvalidArgument);
    tx.delete_range(&tree, "a"..="b").unwrap();
    tx.put(&tree, "c", &value).unwrap();
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn threads_share_a_queue_a_lock_and_a_counter() {
    let (_db, tree) = store();
    for i in 0..400u32 {
        tree.put([b"q", &i.to_be_bytes()[..]].concat(), "").unwrap();
    }
    tree.put("r", "end").unwrap();
    let mut taken: Vec<Vec<Value>> = vec![];
    std::thread::scope(|s| {
        let work = |n: u32| {
            let (mut mine, mut locked) = (vec![], false);
            let lock = || {
                if tree.insert_if_absent("y", n.to_be_bytes()).unwrap().is_some() {
                    return false;
                }
                assert!(tree.compare_and_swap("y", Some(b"nobody"), None).unwrap().is_err());
                assert!(tree.compare_and_swap("y", Some(&n.to_be_bytes()), None).unwrap().is_ok());
                true
            };
            for _ in 0..100 {
                mine.push(tree.pop_first().unwrap().unwrap().0);
                tree.update("s", |old| Some((old.map_or(0, |v| v.len()) + 1).to_string())).unwrap();
                tree.update("z", |old| Some([old.unwrap_or_default(), &[n as u8]].concat()))
                    .unwrap();
                locked |= lock();
            }
            // Another thread may hold the lock each time, but not forever.
            while !locked {
                std::thread::yield_now();
                locked = lock();
            }
            mine
        };
        let threads: Vec<_> = (0..4u32).map(|n| s.spawn(move || work(n))).collect();
        taken = threads.into_iter().map(|t| t.join().unwrap()).collect();
    });
    let all: BTreeSet<Value> = taken.iter().flatten().cloned().collect();
    assert!(all.len() == 400 && taken.iter().all(|t| t.is_sorted()));
    let counted = tree.get("z").unwrap().unwrap();
    assert_eq!(
        (0..4).map(|n| counted.iter().filter(|c| **c == n).count()).collect::<Vec<_>>(),
        [100; 4]
    );
    assert!(tree.get("y").unwrap().is_none());
}

/// Handles and returned values are `Send` and `Sync`.
#[test]
fn handles_go_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Db>();
    check::<Tree>();
    check::<firn_kv::Snapshot>();
    check::<firn_kv::Cursor>();
    check::<firn_kv::Range>();
    check::<firn_kv::Keys>();
    check::<firn_kv::Transaction>();
    check::<firn_kv::Batch>();
    check::<firn_kv::Value>();
    check::<firn_kv::Pause>();
    check::<firn_kv::TtlTree>();
    check::<firn_kv::explain::Recording>();
    check::<firn_kv::Error>();
}
