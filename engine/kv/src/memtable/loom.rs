//! Interleavings of readers and writers, enumerated by loom on leaves of two entries and two levels
//! of links. `RUSTFLAGS="--cfg loom" cargo test -p firn-kv --lib --release memtable::loom`

use super::*;
use crate::base::cursor::Cursor;
use crate::base::key::MAX_SEQ;
use crate::util::sync::epoch::pin;
use ::loom::thread;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut b = ::loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(test);
}

fn table(keys: &[u8]) -> Arc<Memtable> {
    let t = Memtable::new(&ArenaPool::new(0), MIN_CAPACITY).unwrap();
    keys.iter().for_each(|&k| put(&t, k));
    t
}

fn put(t: &Memtable, key: u8) {
    t.add(&[key], Trailer::new(key as u64, Kind::Put), &[key, key]);
}

fn has(t: &Memtable, key: u8) -> bool {
    let found = t.get(&[key], MAX_SEQ);
    found.iter().for_each(|f| assert_eq!(f.value, [key, key]));
    found.is_some()
}

/// Returns the keys that an iteration finds; checks each entry.
fn walk(t: &Arc<Memtable>, forward: bool) -> Vec<u8> {
    let mut met = vec![];
    let mut c = t.cursor();
    if forward {
        c.first().unwrap()
    } else {
        c.last().unwrap()
    }
    while c.valid() {
        assert_eq!(c.value(), [c.key()[0]; 2]);
        met.push(c.key()[0]);
        if forward { c.next().unwrap() } else { c.prev().unwrap() }
    }
    if !forward {
        met.reverse();
    }
    assert!(met.is_sorted_by(|a, b| a < b), "{met:?}");
    met
}

fn holds(met: &[u8], keys: &[u8]) {
    assert!(keys.iter().all(|k| met.contains(k)), "{met:?} lacks some of {keys:?}");
}

/// One writer adds `new` to a table of `old`, while a reader looks up and iterates. The writer runs
/// first by default, because loom derives the other orders from loads after stores.
fn beside_a_reader(old: &'static [u8], new: &'static [u8], forward: bool) {
    model(move || {
        let t = table(old);
        let reader = thread::spawn({
            let t = t.clone();
            move || {
                let mut seen = old.to_vec();
                seen.extend(new.iter().filter(|&&k| has(&t, k)));
                assert!(old.iter().all(|&k| has(&t, k)));
                holds(&walk(&t, forward), &seen);
            }
        });
        new.iter().for_each(|&k| put(&t, k));
        reader.join().unwrap();
        let all: Vec<u8> = walk(&t, forward);
        assert_eq!(all.len(), old.len() + new.len());
        assert!(all.iter().all(|&k| has(&t, k)));
    });
}

#[test]
fn a_slot_is_published_whole() {
    beside_a_reader(&[5], &[3], true);
}

#[test]
fn a_split_in_the_middle() {
    beside_a_reader(&[2, 6], &[4], true);
    beside_a_reader(&[2, 6], &[4], false);
}

#[test]
fn a_leaf_is_appended() {
    beside_a_reader(&[2, 4], &[6], true);
    beside_a_reader(&[2, 4], &[6], false);
}

#[test]
fn splits_in_a_row() {
    beside_a_reader(&[2, 4, 8, 10], &[9, 3], true);
    beside_a_reader(&[2, 4, 8, 10], &[9, 3], false);
}

#[test]
fn the_successor_of_an_insert_follows() {
    // Key 7 goes into the half that another thread's split has just created, or is about to create.
    model(|| {
        let t = table(&[2, 8]);
        let other = thread::spawn({
            let t = t.clone();
            move || put(&t, 5)
        });
        put(&t, 7);
        assert!(has(&t, 7), "its own write");
        holds(&walk(&t, true), &[2, 7, 8]);
        other.join().unwrap();
        assert_eq!(walk(&t, true), [2, 5, 7, 8]);
        assert_eq!(walk(&t, false), [2, 5, 7, 8]);
        assert!([2, 5, 7, 8].iter().all(|&k| has(&t, k)));
    });
}

#[test]
fn two_writers_and_a_reader() {
    let mut b = ::loom::model::Builder::new();
    b.preemption_bound = Some(2);
    b.check(|| {
        let t = table(&[2, 8]);
        let writers: Vec<_> = [5, 9]
            .into_iter()
            .map(|k| {
                let t = t.clone();
                thread::spawn(move || put(&t, k))
            })
            .collect();
        let seen: Vec<u8> = [2, 5, 8, 9].into_iter().filter(|&k| has(&t, k)).collect();
        holds(&seen, &[2, 8]);
        holds(&walk(&t, true), &seen);
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(walk(&t, false), [2, 5, 8, 9]);
    });
}

/// A writer that has announced its end, a reader, and a copy. The copy contains the writes and then
/// diverges.
#[test]
fn a_copy_has_what_was_there() {
    use crate::util::sync::{AtomicU32, Ordering};
    model(|| {
        let (t, writers) = (table(&[2, 8]), Arc::new(AtomicU32::new(1)));
        let writer = thread::spawn({
            let (t, writers) = (t.clone(), writers.clone());
            move || {
                put(&t, 5);
                writers.fetch_sub(1, Ordering::Release);
            }
        });
        let reader = thread::spawn({
            let t = t.clone();
            move || holds(&walk(&t, true), &[2, 8])
        });
        while writers.load(Ordering::Acquire) != 0 {
            crate::util::sync::yield_now();
        }
        let copy = t.grown(2 * MIN_CAPACITY, 1, false).unwrap();
        put(&copy, 7);
        assert_eq!(walk(&copy, true), [2, 5, 7, 8]);
        assert!([2, 5, 7, 8].iter().all(|&k| has(&copy, k)) && !has(&t, 7));
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(walk(&t, false), [2, 5, 8]);
    });
}

#[test]
fn range_tombstones_are_seen_by_their_writer() {
    model(|| {
        let t = table(&[]);
        let add = |t: &Memtable, seq| {
            t.add_tombstone(&RangeTombstone { start: vec![1], end: vec![3], seq });
            assert!(t.newest_covering(&[2], seq, &pin()) == Some(seq), "its own write");
        };
        let other = thread::spawn({
            let t = t.clone();
            move || add(&t, 7)
        });
        assert!([None, Some(7)].contains(&t.newest_covering(&[2], MAX_SEQ, &pin())));
        other.join().unwrap();
        add(&t, 8);
        assert_eq!(t.newest_covering(&[2], 7, &pin()), Some(7));
    });
}

/// Two writers, of which one or both make a layer, with a reader: earlier deletions are visible at
/// every moment.
#[test]
fn range_tombstones_are_merged_beside_readers() {
    crate::util::sync::model(2, || {
        let t = table(&[]);
        let add = |t: &Memtable, seq| {
            t.add_tombstone(&RangeTombstone { start: vec![1], end: vec![3], seq })
        };
        add(&t, 5);
        let writers = [6, 7].map(|seq| {
            let t = t.clone();
            thread::spawn(move || {
                add(&t, seq);
                assert_eq!(t.newest_covering(&[2], seq, &pin()), Some(seq), "its own write");
            })
        });
        assert_eq!(t.newest_covering(&[2], 5, &pin()), Some(5));
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(
            [5, 6, 7, 8].map(|read| t.newest_covering(&[2], read, &pin())),
            [Some(5), Some(6), Some(7), Some(7)]
        );
        assert_eq!(t.fragments(&[5]).covering(&[2]).unwrap().seqs, [7, 5]);
    });
}
