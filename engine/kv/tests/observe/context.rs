//! `with_read_context` reports exactly the reads that the closure makes on this thread.

use std::sync::atomic::{AtomicBool, Ordering};

use firn_kv::explain::ReadSum;

use super::{key, open, options, piling};

#[test]
fn the_reads_of_an_operation_are_summed_up() {
    let (env, db) = open(options());
    let tree = db.tree("t", piling()).unwrap();
    for round in 0..3 {
        (0..300).for_each(|n| tree.put(key(3 * n + round), "v").unwrap());
        tree.flush().unwrap();
    }
    (0..100).for_each(|n| tree.delete(key(n)).unwrap());
    tree.flush().unwrap();
    drop((tree, db));
    let db = firn_kv::Db::open_in(env, "db", options()).unwrap();
    let tree = db.tree("t", piling()).unwrap();

    let cost = db.with_read_context(|cx| {
        assert_eq!(cx.sum(), ReadSum::default());
        assert!(tree.get(key(450)).unwrap().is_some());
        cx.sum()
    });
    assert_eq!(
        (cost.reads, cost.found, cost.memtables, cost.blocks_read, cost.blocks_cached),
        (1, 1, 0, 1, 0),
        "{cost:?}"
    );
    assert!(
        cost.bytes_read > 0 && cost.tables_opened >= 1 && cost.runs >= 1 && cost.entries >= 1,
        "{cost:?}"
    );
    let again = db.with_read_context(|cx| (tree.get(key(450)).unwrap(), cx.sum())).1;
    assert_eq!(
        (again.blocks_read, again.bytes_read, again.blocks_cached, again.tables_opened),
        (0, 0, 1, 0),
        "{again:?}"
    );
    let none = db.with_read_context(|cx| (tree.get(key(7000)).unwrap(), cx.sum())).1;
    assert_eq!((none.found, none.entries), (0, 0), "{none:?}");

    // The deletes hide older entries, and a scan steps over both.
    let walked = db.with_read_context(|cx| {
        assert_eq!(tree.range(..key(100)).count(), 0);
        cx.sum()
    });
    assert!(walked.tombstones >= 1 && walked.found == 0 && walked.reads == 1, "{walked:?}");
    // Reads of transactions and snapshots count. Reads outside of the closure do not.
    tree.get(key(1)).unwrap();
    let (snapshot, tx) = (db.snapshot(), db.transaction());
    let both = db.with_read_context(|cx| {
        snapshot.get(&tree, key(450)).unwrap();
        tx.get(&tree, key(451)).unwrap();
        tree.multi_get(&[key(452), key(453)]).unwrap();
        (cx.sum(), cx.recorded().reads.len())
    });
    assert_eq!((both.0.reads, both.0.found, both.1), (4, 4, 4), "{both:?}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test acts as an application with threads")]
fn other_threads_are_not_in_it_and_go_their_usual_way() {
    let (_env, db) = open(options());
    let tree = db.tree("t", piling()).unwrap();
    (0..300).for_each(|n| tree.put(key(n), "v").unwrap());
    tree.flush().unwrap();
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let cost = std::thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Ordering::Acquire) {
                assert!(tree.get(key(1)).unwrap().is_some());
                begun.store(true, Ordering::Release);
            }
        });
        db.with_read_context(|cx| {
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            tree.get(key(2)).unwrap();
            // Each nested context reports separately.
            assert_eq!(db.with_read_context(|cx| (tree.get(key(3)).unwrap(), cx.sum().reads)).1, 1);
            done.store(true, Ordering::Release);
            cx.sum()
        })
    });
    assert_eq!((cost.reads, cost.found), (2, 2), "{cost:?}");
    // An older iterator counts only if it has not returned an item yet.
    let (mut fresh, mut walked, mut cursor) = (tree.iter(), tree.iter(), tree.cursor(..).unwrap());
    walked.next();
    let reads = db.with_read_context(|cx| {
        walked.next();
        cursor.first().unwrap();
        let before = cx.sum().reads;
        fresh.next();
        (before, cx.sum().reads)
    });
    assert_eq!(reads, (0, 1));
    // A recording of all threads continues at the same time.
    let recording = db.record_reads();
    db.with_read_context(|_| tree.get(key(2)).unwrap());
    tree.get(key(2)).unwrap();
    assert_eq!(recording.finish().reads.len(), 2);
}
