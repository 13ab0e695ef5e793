//! Tests that the cost of transactions, in visited tree nodes, grows with their size. Also compares
//! their results and conflicts with those of a plain list of writes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::TreeOptions;
use crate::util::version_map::steps::MET;
use proptest::prelude::*;

use super::*;

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Returns all of `0..n` in a mixed order, for `n` a power of two.
fn anyhow(n: u32) -> impl Iterator<Item = u32> {
    // An odd factor maps each number to a different one.
    (0..n).map(move |i| i.wrapping_mul(0x9e37_79b1) % n)
}

type Work = fn(&mut Transaction, &Tree, u32) -> Result<()>;

const WORKS: [(&str, Work); 8] = [
    ("from the head", |tx, t, _| {
        while let Some((k, _)) = tx.first(t)? {
            tx.delete(t, k)?;
        }
        Ok(())
    }),
    ("from the tail", |tx, t, _| {
        while let Some((k, _)) = tx.last(t)? {
            tx.delete(t, k)?;
        }
        Ok(())
    }),
    ("by iterators that are held", |tx, t, _| {
        while let Some(item) = tx.range(t, ..).next() {
            tx.delete(t, item?.0)?;
        }
        Ok(())
    }),
    ("in any order", |tx, t, n| {
        for i in anyhow(n) {
            tx.delete(t, key(i))?;
            tx.first(t)?;
        }
        Ok(())
    }),
    ("own puts", |tx, t, n| {
        for i in n..2 * n {
            tx.put(t, key(i), "v")?;
        }
        while let Some((k, _)) = tx.last(t)? {
            tx.delete(t, k)?;
        }
        Ok(())
    }),
    ("ranges side by side", |tx, t, n| {
        for i in 0..n {
            tx.put(t, key(i), "own")?;
            tx.delete_range(t, key(i)..key(i + 1))?;
        }
        (0..n).try_for_each(|i| tx.get(t, key(i)).map(drop))
    }),
    ("ranges apart", |tx, t, n| {
        for i in anyhow(n).filter(|i| i % 2 == 0) {
            tx.delete_range(t, key(i)..key(i + 1))?;
            tx.last(t)?;
        }
        (0..n).try_for_each(|i| tx.get(t, key(i)).map(drop))
    }),
    ("ranges read", |tx, t, n| {
        for i in anyhow(n).filter(|i| i % 2 == 0) {
            tx.range(t, key(i)..key(i + 1)).count();
        }
        Ok(())
    }),
];

#[test]
fn what_is_taken_costs_about_as_much_as_there_is() {
    let cost = |n: u32, work: Work| {
        let db = Db::in_memory().unwrap();
        let tree = db.tree("t", TreeOptions::default()).unwrap();
        (0..n).for_each(|i| tree.put(key(i), "v").unwrap());
        let mut tx = db.transaction();
        MET.set(0);
        work(&mut tx, &tree, n).unwrap();
        tx.put(&tree, "own", "").unwrap();
        tx.commit().unwrap();
        MET.get()
    };
    for (name, work) in WORKS {
        let (few, many) = (cost(128, work), cost(1024, work));
        // If each item costs O(log n), eight times as many items cost 8 · 10 / 7 times as much. If
        // each costs O(n), they cost 64 times as much.
        assert!(few > 0 && many < 16 * few, "{name}: {few}, then {many}");
    }
}

/// Number of distinct keys in the test below.
const PLACES: u8 = 48;

/// Returns the key at a place. Neighbours begin with the same byte or with bytes that differ by
/// one.
fn at(place: u8) -> Vec<u8> {
    if place.is_multiple_of(2) { vec![place / 2] } else { vec![place / 2, 7] }
}

/// A pending write: the places that it covers, and the value that it puts.
type Write = (std::ops::Range<u8>, Option<Vec<u8>>);

/// Returns the visible entries under a list of writes.
fn seen(snapshot: &BTreeMap<u8, Vec<u8>>, writes: &[Write]) -> BTreeMap<u8, Vec<u8>> {
    let mut seen = snapshot.clone();
    for (places, value) in writes {
        seen.retain(|p, _| !places.contains(p));
        seen.extend(value.clone().map(|v| (places.start, v)));
    }
    seen
}

struct Held {
    iter: Range,
    places: std::ops::Range<u8>,
    left: VecDeque<(u8, Vec<u8>)>,
    over: bool,
}

impl Held {
    fn new(
        tx: &Transaction,
        tree: &Tree,
        places: std::ops::Range<u8>,
        seen: &BTreeMap<u8, Vec<u8>>,
    ) -> Held {
        let iter = tx.range(tree, at(places.start)..at(places.end));
        let left =
            seen.iter().filter(|(p, _)| places.contains(p)).map(|(p, v)| (*p, v.clone())).collect();
        Held { iter, places, left, over: false }
    }

    /// Takes a step, compares the result and records the places read. Returns the place reached.
    fn step(&mut self, forward: bool, read: &mut BTreeSet<u8>) -> Option<u8> {
        let want = if forward { self.left.pop_front() } else { self.left.pop_back() }
            .filter(|_| !self.over);
        let got = if forward { self.iter.next() } else { self.iter.next_back() }
            .map(|item| item.unwrap());
        let got = got.map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert_eq!(got, want.clone().map(|(p, v)| (at(p), v)));
        match want {
            Some((p, _)) if forward => read.extend(self.places.start..=p),
            Some((p, _)) => read.extend(p..self.places.end),
            None => {
                self.over = true;
                read.extend(self.places.clone());
            }
        }
        want.map(|(p, _)| p)
    }
}

proptest! {
    #[test]
    fn they_say_and_depend_on_what_a_list_of_writes_would(
        there in prop::collection::btree_map(0..PLACES, prop::collection::vec(any::<u8>(), 1), 0..40),
        flushed: bool,
        steps in prop::collection::vec((0u8..16, 0..PLACES, 0..PLACES), 0..120),
        disturbed in 0..PLACES,
    ) {
        let db = Db::in_memory().unwrap();
        let tree = db.tree("t", TreeOptions::default()).unwrap();
        there.iter().for_each(|(p, v)| tree.put(at(*p), v).unwrap());
        if flushed {
            tree.flush().unwrap();
        }
        let mut tx = db.transaction();
        let (mut writes, mut read, mut held): (Vec<Write>, BTreeSet<u8>, Vec<Held>) = Default::default();
        let mut saved: Vec<(Savepoint, Vec<Write>)> = vec![];
        for (what, a, b) in steps {
            let now = seen(&there, &writes);
            match what {
                0 => {
                    tx.put(&tree, at(a), [b]).unwrap();
                    writes.push((a..a + 1, Some(vec![b])));
                }
                1 | 2 => {
                    tx.delete(&tree, at(a)).unwrap();
                    writes.push((a..a + 1, None));
                }
                3 => {
                    tx.delete_range(&tree, at(a)..at(b)).unwrap();
                    writes.push((a..b, None));
                }
                4 => {
                    prop_assert_eq!(tx.get(&tree, at(a)).unwrap().map(|v| v.to_vec()), now.get(&a).cloned());
                    if writes.iter().all(|(places, _)| !places.contains(&a)) {
                        read.insert(a);
                    }
                }
                5 => held.push(Held::new(&tx, &tree, a..b, &now)),
                6 if !held.is_empty() => drop(held.swap_remove(usize::from(a) % held.len())),
                7..=9 if !held.is_empty() => {
                    let i = usize::from(a) % held.len();
                    held[i].step(b % 2 == 0, &mut read);
                }
                14 => saved.push((tx.savepoint(), writes.clone())),
                15 => {
                    if let Some((savepoint, then)) = saved.get(usize::from(a) % saved.len().max(1)) {
                        tx.rollback_to(savepoint).unwrap();
                        writes = then.clone();
                    }
                }
                // Takes and deletes the entry at one end.
                _ => {
                    let places = if what % 2 == 0 { 0..PLACES } else { a.min(b)..a.max(b) };
                    if let Some(p) = Held::new(&tx, &tree, places, &now).step(b % 2 == 0, &mut read) {
                        tx.delete(&tree, at(p)).unwrap();
                        writes.push((p..p + 1, None));
                    }
                }
            }
        }
        // Open iterators also count as having read what they have reached.
        if disturbed % 2 == 0 {
            held.clear();
        }
        tx.put(&tree, at(PLACES), "own").unwrap();
        tree.put(at(disturbed), "other").unwrap();
        let done = tx.commit().map_err(|e| e.kind());
        prop_assert_eq!(done.is_err(), read.contains(&disturbed));
        if let Err(kind) = done {
            prop_assert_eq!(kind, ErrorKind::Conflict);
        } else {
            let mut there = there;
            there.insert(disturbed, b"other".to_vec());
            let mut want = seen(&there, &writes);
            want.insert(PLACES, b"own".to_vec());
            let got = tree.iter().map(|item| item.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec()));
            prop_assert_eq!(got.collect::<Vec<_>>(), want.into_iter().map(|(p, v)| (at(p), v)).collect::<Vec<_>>());
        }
    }
}
