//! What a store must answer: ordered maps with versions, as simply as they can be written.
//!
//! Invariants:
//! - Every operation that is written counts one up; a *time* is such a count, and equals the store's sequence number.
//! - A state of the past can be read as long as it is held ([`Oracle::hold`]); versions that nobody can read are forgotten.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::history::{Key, Span, Write};

/// How a tree folds an operand into a value.
pub type Fold = fn(base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;

type Version = (u64, Option<Arc<[u8]>>);

#[derive(Default)]
struct Map {
    keys: BTreeMap<Key, Vec<Version>>,
    fold: Option<Fold>,
}

#[derive(Debug)]
enum Touched {
    Key(Key),
    Range(Key, Key),
}

/// The expected state of a store.
#[derive(Default)]
pub struct Oracle {
    now: u64,
    trees: Vec<Option<Map>>,
    held: BTreeMap<u64, usize>,
    /// What has been written since the oldest open transaction began.
    touched: Vec<(u64, usize, Touched)>,
    transactions: usize,
}

/// An open transaction.
pub struct Transaction {
    since: u64,
    keys: Vec<(usize, Key)>,
    spans: Vec<(usize, Span)>,
    writes: BTreeMap<(usize, Key), Option<Arc<[u8]>>>,
}

fn version_at(versions: &[Version], time: u64) -> Option<&Arc<[u8]>> {
    versions.iter().rev().find(|(t, _)| *t <= time).and_then(|(_, v)| v.as_ref())
}

impl Oracle {
    /// The present time: how many operations have been written.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Creates an empty tree.
    pub fn create(&mut self, tree: usize, fold: Option<Fold>) {
        if self.trees.len() <= tree {
            self.trees.resize_with(tree + 1, || None);
        }
        self.trees[tree] = Some(Map { keys: BTreeMap::new(), fold });
    }

    /// Drops a tree.
    pub fn drop_tree(&mut self, tree: usize) {
        if let Some(t) = self.trees.get_mut(tree) {
            *t = None;
        }
    }

    /// Whether a tree is there.
    pub fn has(&self, tree: usize) -> bool {
        self.map(tree).is_some()
    }

    fn map(&self, tree: usize) -> Option<&Map> {
        self.trees.get(tree).and_then(Option::as_ref)
    }

    /// Holds the present state: its time. Pair with [`release`](Oracle::release).
    pub fn hold(&mut self) -> u64 {
        *self.held.entry(self.now).or_default() += 1;
        self.now
    }

    /// Lets a held state go.
    pub fn release(&mut self, time: u64) {
        if let Some(n) = self.held.get_mut(&time) {
            *n -= 1;
            if *n == 0 {
                self.held.remove(&time);
            }
        }
    }

    /// How many states are held.
    pub fn holds(&self) -> usize {
        self.held.values().sum()
    }

    /// The value of a key at a time.
    pub fn get(&self, tree: usize, key: &[u8], time: u64) -> Option<&[u8]> {
        self.map(tree)?.keys.get(key).and_then(|v| version_at(v, time)).map(|v| &**v)
    }

    /// The keys of a span at a time, from both ends.
    pub fn range(&self, tree: usize, span: &Span, time: u64) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        let bounds = if span.is_empty() { (Bound::Unbounded, Bound::Excluded(&[][..])) } else { span.bounds() };
        let all = self.map(tree).map(|m| m.keys.range::<[u8], _>(bounds));
        all.into_iter().flatten().filter_map(move |(k, v)| version_at(v, time).map(|v| (k.as_slice(), &**v)))
    }

    /// Writes; nothing happens when the tree is not there, or takes no operands and is given one.
    pub fn write(&mut self, tree: usize, write: &Write) {
        let Some(map) = self.trees.get_mut(tree).and_then(Option::as_mut) else { return };
        let time = self.now + 1;
        let touched = match write {
            Write::Put(k, v) => {
                put(map, &self.held, k, time, Some(v.bytes().into()));
                Touched::Key(k.clone())
            }
            Write::Delete(k) => {
                put(map, &self.held, k, time, None);
                Touched::Key(k.clone())
            }
            Write::Merge(k, v) => {
                let Some(fold) = map.fold else { return };
                let base = map.keys.get(k).and_then(|v| version_at(v, time)).cloned();
                let folded = fold(base.as_deref(), &v.bytes());
                put(map, &self.held, k, time, folded.map(Into::into));
                Touched::Key(k.clone())
            }
            Write::DeleteRange(a, b) if a < b => {
                let keys: Vec<Key> = map.keys.range::<Key, _>(a..b).map(|(k, _)| k.clone()).collect();
                keys.iter().for_each(|k| put(map, &self.held, k, time, None));
                Touched::Range(a.clone(), b.clone())
            }
            Write::DeleteRange(..) => return,
        };
        self.now = time;
        if self.transactions > 0 {
            self.touched.push((time, tree, touched));
        }
    }

    /// Puts pairs as one operation; nothing happens when there are none, or the tree is not there.
    pub fn load<'p>(&mut self, tree: usize, pairs: impl IntoIterator<Item = (&'p [u8], Arc<[u8]>)>) {
        let Some(map) = self.trees.get_mut(tree).and_then(Option::as_mut) else { return };
        let (time, mut loaded) = (self.now + 1, false);
        for (k, v) in pairs {
            put(map, &self.held, k, time, Some(v));
            loaded = true;
            if self.transactions > 0 {
                self.touched.push((time, tree, Touched::Key(k.to_vec())));
            }
        }
        self.now += u64::from(loaded);
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Transaction {
        self.transactions += 1;
        Transaction { since: self.hold(), keys: vec![], spans: vec![], writes: BTreeMap::new() }
    }

    /// Ends a transaction without writing.
    pub fn abort(&mut self, tx: Transaction) {
        self.release(tx.since);
        self.transactions -= 1;
        if self.transactions == 0 {
            self.touched.clear();
        }
    }

    /// Commits: false, and nothing written, when something that it read has changed.
    pub fn commit(&mut self, tx: Transaction) -> bool {
        let meets = |tree: usize, touched: &Touched| match touched {
            Touched::Key(k) => {
                tx.keys.iter().any(|(t, r)| *t == tree && r == k) || tx.spans.iter().any(|(t, s)| *t == tree && s.contains(k))
            }
            Touched::Range(a, b) => {
                let deleted = Span { from: Bound::Included(a.clone()), to: Bound::Excluded(b.clone()) };
                tx.keys.iter().any(|(t, r)| *t == tree && deleted.contains(r))
                    || tx.spans.iter().any(|(t, s)| *t == tree && overlap(s, &deleted))
            }
        };
        let changed = self.touched.iter().any(|(time, tree, t)| *time > tx.since && meets(*tree, t));
        let fine = tx.writes.is_empty() || !changed;
        if fine {
            for ((tree, key), value) in &tx.writes {
                let Some(map) = self.trees.get_mut(*tree).and_then(Option::as_mut) else { continue };
                self.now += 1;
                put(map, &self.held, key, self.now, value.clone());
                self.touched.push((self.now, *tree, Touched::Key(key.clone())));
            }
        }
        self.abort(tx);
        fine
    }
}

impl Transaction {
    /// Reads a key, its own writes first.
    pub fn get(&mut self, oracle: &Oracle, tree: usize, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(own) = self.writes.get(&(tree, key.to_vec())) {
            return own.as_ref().map(|v| v.to_vec());
        }
        self.keys.push((tree, key.to_vec()));
        oracle.get(tree, key, self.since).map(<[u8]>::to_vec)
    }

    /// Reads a span, its own writes included.
    pub fn range(&mut self, oracle: &Oracle, tree: usize, span: &Span) -> BTreeMap<Key, Vec<u8>> {
        let mut all: BTreeMap<Key, Vec<u8>> =
            oracle.range(tree, span, self.since).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        for ((_, k), own) in self.writes.iter().filter(|((t, k), _)| *t == tree && span.contains(k)) {
            match own {
                Some(v) => all.insert(k.clone(), v.to_vec()),
                None => all.remove(k),
            };
        }
        self.spans.push((tree, span.clone()));
        all
    }

    /// Writes a key when it commits.
    pub fn put(&mut self, tree: usize, key: &[u8], value: Option<Vec<u8>>) {
        self.writes.insert((tree, key.to_vec()), value.map(Into::into));
    }
}

/// Whether some key could lie in both.
fn overlap(a: &Span, b: &Span) -> bool {
    let joint = |x: &Span, y: &Span| !x.is_empty() && !Span { from: x.from.clone(), to: y.to.clone() }.is_empty();
    joint(a, b) && joint(b, a)
}

/// Adds a version and forgets those that nobody can read.
fn put(map: &mut Map, held: &BTreeMap<u64, usize>, key: &[u8], time: u64, value: Option<Arc<[u8]>>) {
    let versions = map.keys.entry(key.to_vec()).or_default();
    let mut until = time;
    let mut kept: Vec<Version> = vec![(time, value)];
    for v in versions.drain(..).rev() {
        if held.range(v.0..until).next().is_some() {
            until = v.0;
            kept.push(v);
        } else {
            until = v.0.min(until);
        }
    }
    kept.reverse();
    if kept.iter().all(|(_, v)| v.is_none()) {
        map.keys.remove(key);
    } else {
        *versions = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Filler;

    fn v(seed: u32) -> Filler {
        Filler { seed, len: 9 }
    }

    #[test]
    fn held_states_stay_and_others_go() {
        let mut o = Oracle::default();
        o.create(0, Some(|b, op| Some([b.unwrap_or_default(), op].concat())));
        o.write(0, &Write::Put(b"a".to_vec(), v(2)));
        o.write(0, &Write::Put(b"b".to_vec(), v(4)));
        let t = o.hold();
        o.write(0, &Write::DeleteRange(b"a".to_vec(), b"b".to_vec()));
        o.write(0, &Write::Merge(b"b".to_vec(), v(6)));
        assert_eq!((o.now(), t), (4, 2));
        assert_eq!(o.get(0, b"a", t), Some(&v(2).bytes()[..]));
        assert_eq!(o.get(0, b"b", 4).map(<[u8]>::len), Some(18));
        assert_eq!(o.range(0, &Span::all(), t).count(), 2);
        assert_eq!(o.range(0, &Span::all(), 4).map(|(k, _)| k.to_vec()).collect::<Vec<_>>(), [b"b"]);
        o.release(t);
        o.write(0, &Write::Delete(b"a".to_vec()));
        assert!(o.map(0).unwrap().keys.len() == 1 && o.holds() == 0);
    }

    #[test]
    fn what_is_loaded_has_one_time() {
        let mut o = Oracle::default();
        o.create(0, None);
        o.write(0, &Write::Put(b"b".to_vec(), v(1)));
        let t = o.hold();
        let mut tx = o.begin();
        tx.get(&o, 0, b"b");
        tx.put(0, b"x", Some(vec![]));
        o.load(0, [(&b"a"[..], Arc::from(&b"1"[..])), (b"b", Arc::from(&b"2"[..]))]);
        o.load(0, []);
        o.load(1, [(&b"a"[..], Arc::from(&b"1"[..]))]);
        assert_eq!((o.now(), o.get(0, b"b", 2), o.get(0, b"a", t)), (2, Some(&b"2"[..]), None));
        assert!(o.get(0, b"b", t) == Some(&v(1).bytes()) && !o.commit(tx));
    }

    #[test]
    fn transactions_conflict_with_what_touched_their_reads() {
        let mut o = Oracle::default();
        o.create(0, None);
        let span = Span { from: Bound::Included(b"c".to_vec()), to: Bound::Excluded(b"f".to_vec()) };
        for (write, fine) in [
            (Write::Put(b"f".to_vec(), v(2)), true),
            (Write::Put(b"d".to_vec(), v(2)), false),
            (Write::DeleteRange(b"a".to_vec(), b"c".to_vec()), true),
            (Write::DeleteRange(b"a".to_vec(), b"d".to_vec()), false),
            (Write::Delete(b"k".to_vec()), false),
        ] {
            let mut tx = o.begin();
            tx.range(&o, 0, &span);
            tx.get(&o, 0, b"k");
            tx.put(0, b"c", Some(vec![1]));
            o.write(0, &write);
            assert_eq!(o.commit(tx), fine, "{write:?}");
        }
        assert!(o.touched.is_empty() && o.holds() == 0);
    }
}
