//! Model of a store: ordered maps with versions, as simple as possible.
//!
//! Invariants:
//! - Every written operation increments a counter; a *time* is a value of it, and equals the
//!   store's sequence number.
//! - A past state can be read while it is held ([`Oracle::hold`]); unreadable versions are dropped.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::history::{HistoryKey, Span, Write};

/// Folds an operand into a value.
pub type Fold = fn(base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;

type OracleVersion = (u64, Option<Arc<[u8]>>);

#[derive(Default)]
struct OracleMap {
    keys: BTreeMap<HistoryKey, Vec<OracleVersion>>,
    fold: Option<Fold>,
}

#[derive(Debug)]
enum OracleTouched {
    Key(HistoryKey),
    Range(Span),
}

/// The expected state of a store.
#[derive(Default)]
pub struct Oracle {
    now: u64,
    trees: Vec<Option<OracleMap>>,
    held: BTreeMap<u64, usize>,
    /// Keys and spans written since the oldest open transaction began.
    touched: Vec<(u64, usize, OracleTouched)>,
    transactions: usize,
}

/// An open transaction.
pub struct OracleTransaction {
    since: u64,
    keys: Vec<(usize, HistoryKey)>,
    spans: Vec<(usize, Span)>,
    writes: BTreeMap<(usize, HistoryKey), Option<Arc<[u8]>>>,
    deleted: Vec<(usize, Span)>,
}

fn version_at(versions: &[OracleVersion], time: u64) -> Option<&Arc<[u8]>> {
    versions.iter().rev().find(|(t, _)| *t <= time).and_then(|(_, v)| v.as_ref())
}

impl Oracle {
    /// Returns the current time: the number of written operations.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Creates an empty tree.
    pub fn create(&mut self, tree: usize, fold: Option<Fold>) {
        if self.trees.len() <= tree {
            self.trees.resize_with(tree + 1, || None);
        }
        self.trees[tree] = Some(OracleMap { keys: BTreeMap::new(), fold });
    }

    /// Drops a tree, which counts as an operation.
    pub fn drop_tree(&mut self, tree: usize) {
        if let Some(t) = self.trees.get_mut(tree) {
            *t = None;
            self.now += 1;
        }
    }

    /// Reports whether a tree exists.
    pub fn has(&self, tree: usize) -> bool {
        self.map(tree).is_some()
    }

    fn map(&self, tree: usize) -> Option<&OracleMap> {
        self.trees.get(tree).and_then(Option::as_ref)
    }

    /// Holds the current state and returns its time. Pair it with [`release`](Oracle::release).
    pub fn hold(&mut self) -> u64 {
        *self.held.entry(self.now).or_default() += 1;
        self.now
    }

    /// Releases a held state.
    pub fn release(&mut self, time: u64) {
        if let Some(n) = self.held.get_mut(&time) {
            *n -= 1;
            if *n == 0 {
                self.held.remove(&time);
            }
        }
    }

    /// Returns the number of held states.
    pub fn holds(&self) -> usize {
        self.held.values().sum()
    }

    /// Returns the value of a key at a time.
    pub fn get(&self, tree: usize, key: &[u8], time: u64) -> Option<&[u8]> {
        self.map(tree)?.keys.get(key).and_then(|v| version_at(v, time)).map(|v| &**v)
    }

    /// Iterates over the keys of a span at a time, from both ends.
    pub fn range(
        &self,
        tree: usize,
        span: &Span,
        time: u64,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        let bounds = if span.is_empty() {
            (Bound::Unbounded, Bound::Excluded(&[][..]))
        } else {
            span.bounds()
        };
        let all = self.map(tree).map(|m| m.keys.range::<[u8], _>(bounds));
        all.into_iter()
            .flatten()
            .filter_map(move |(k, v)| version_at(v, time).map(|v| (k.as_slice(), &**v)))
    }

    /// Writes; does nothing if the tree is missing, or gets an operand without accepting operands.
    pub fn write(&mut self, tree: usize, write: &Write) {
        let Some(map) = self.trees.get_mut(tree).and_then(Option::as_mut) else { return };
        let time = self.now + 1;
        let touched = match write {
            Write::Put(k, v) => {
                put(map, &self.held, k, time, Some(v.bytes().into()));
                OracleTouched::Key(k.clone())
            }
            Write::Delete(k) => {
                put(map, &self.held, k, time, None);
                OracleTouched::Key(k.clone())
            }
            Write::Merge(k, v) => {
                let Some(fold) = map.fold else { return };
                let base = map.keys.get(k).and_then(|v| version_at(v, time)).cloned();
                let folded = fold(base.as_deref(), &v.bytes());
                put(map, &self.held, k, time, folded.map(Into::into));
                OracleTouched::Key(k.clone())
            }
            Write::DeleteRange(span) if !span.is_empty() => {
                let keys: Vec<HistoryKey> =
                    map.keys.range::<[u8], _>(span.bounds()).map(|(k, _)| k.clone()).collect();
                keys.iter().for_each(|k| put(map, &self.held, k, time, None));
                OracleTouched::Range(span.clone())
            }
            Write::DeleteRange(_) => return,
        };
        self.now = time;
        if self.transactions > 0 {
            self.touched.push((time, tree, touched));
        }
    }

    /// Puts pairs as one operation; does nothing without pairs, or if the tree is missing.
    pub fn load<'p>(
        &mut self,
        tree: usize,
        pairs: impl IntoIterator<Item = (&'p [u8], Arc<[u8]>)>,
    ) {
        let Some(map) = self.trees.get_mut(tree).and_then(Option::as_mut) else { return };
        let (time, mut loaded) = (self.now + 1, false);
        for (k, v) in pairs {
            put(map, &self.held, k, time, Some(v));
            loaded = true;
            if self.transactions > 0 {
                self.touched.push((time, tree, OracleTouched::Key(k.to_vec())));
            }
        }
        self.now += u64::from(loaded);
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> OracleTransaction {
        self.transactions += 1;
        OracleTransaction {
            since: self.hold(),
            keys: vec![],
            spans: vec![],
            writes: BTreeMap::new(),
            deleted: vec![],
        }
    }

    /// Ends a transaction without writing.
    pub fn abort(&mut self, tx: OracleTransaction) {
        self.release(tx.since);
        self.transactions -= 1;
        if self.transactions == 0 {
            self.touched.clear();
        }
    }

    /// Returns the required result of a commit: success if nothing it read was touched, a conflict
    /// if a value it read has changed. In between, after a deletion of a missing key or a write of
    /// the same value, both results are valid (`None`).
    fn fate(&self, tx: &OracleTransaction) -> Option<bool> {
        let meets = |tree: usize, touched: &OracleTouched| match touched {
            OracleTouched::Key(k) => {
                tx.keys.iter().any(|(t, r)| *t == tree && r == k)
                    || tx.spans.iter().any(|(t, s)| *t == tree && s.contains(k))
            }
            OracleTouched::Range(deleted) => {
                tx.keys.iter().any(|(t, r)| *t == tree && deleted.contains(r))
                    || tx.spans.iter().any(|(t, s)| *t == tree && overlap(s, deleted))
            }
        };
        let touched =
            self.touched.iter().any(|(time, tree, t)| *time > tx.since && meets(*tree, t));
        if !touched || (tx.writes.is_empty() && tx.deleted.is_empty()) {
            return Some(true);
        }
        let key_changed =
            |(t, k): &(usize, HistoryKey)| self.get(*t, k, tx.since) != self.get(*t, k, self.now);
        let span_changed =
            |(t, s): &(usize, Span)| !self.range(*t, s, tx.since).eq(self.range(*t, s, self.now));
        let changed = tx.keys.iter().any(key_changed) || tx.spans.iter().any(span_changed);
        changed.then_some(false)
    }

    /// Records the result of a commit.
    ///
    /// # Errors
    /// An invalid result.
    pub fn commit(&mut self, tx: OracleTransaction, done: bool) -> Result<(), String> {
        let fate = self.fate(&tx);
        if done {
            for (tree, span) in &tx.deleted {
                self.write(*tree, &Write::DeleteRange(span.clone()));
            }
            for ((tree, key), value) in &tx.writes {
                self.set(*tree, key, value.clone());
            }
        }
        self.abort(tx);
        match (fate, done) {
            (Some(false), true) => Err("a commit that should have met a conflict".into()),
            (Some(true), false) => Err("a conflict where none was expected".into()),
            _ => Ok(()),
        }
    }

    /// Sets or deletes a key.
    pub fn set(&mut self, tree: usize, key: &[u8], value: Option<Arc<[u8]>>) {
        let Some(map) = self.trees.get_mut(tree).and_then(Option::as_mut) else { return };
        self.now += 1;
        put(map, &self.held, key, self.now, value);
        if self.transactions > 0 {
            self.touched.push((self.now, tree, OracleTouched::Key(key.to_vec())));
        }
    }
}

impl OracleTransaction {
    /// Reads a key, own writes first.
    pub fn get(&mut self, oracle: &Oracle, tree: usize, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(own) = self.writes.get(&(tree, key.to_vec())) {
            return own.as_ref().map(|v| v.to_vec());
        }
        if self.deleted.iter().any(|(t, s)| *t == tree && s.contains(key)) {
            return None;
        }
        self.keys.push((tree, key.to_vec()));
        oracle.get(tree, key, self.since).map(<[u8]>::to_vec)
    }

    /// Reads at most `limit` items of a span from one end, including own writes: later items do not
    /// count as read.
    pub fn range(
        &mut self,
        oracle: &Oracle,
        tree: usize,
        span: &Span,
        back: bool,
        limit: usize,
    ) -> Vec<(HistoryKey, Vec<u8>)> {
        let mut all: BTreeMap<HistoryKey, Vec<u8>> = oracle
            .range(tree, span, self.since)
            .filter(|(k, _)| !self.deleted.iter().any(|(t, s)| *t == tree && s.contains(k)))
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect();
        for ((_, k), own) in self.writes.iter().filter(|((t, k), _)| *t == tree && span.contains(k))
        {
            match own {
                Some(v) => all.insert(k.clone(), v.to_vec()),
                None => all.remove(k),
            };
        }
        let mut items: Vec<_> = all.into_iter().collect();
        if back {
            items.reverse();
        }
        let mut read = span.clone();
        if limit <= items.len() {
            items.truncate(limit);
            let Some((last, _)) = items.last() else { return items };
            *(if back { &mut read.from } else { &mut read.to }) = Bound::Included(last.clone());
        }
        self.spans.push((tree, read));
        items
    }

    /// Writes a key at the commit.
    pub fn put(&mut self, tree: usize, key: &[u8], value: Option<Vec<u8>>) {
        self.writes.insert((tree, key.to_vec()), value.map(Into::into));
    }

    /// Deletes a span at the commit.
    pub fn delete_range(&mut self, tree: usize, span: &Span) {
        if !span.is_empty() {
            self.writes.retain(|(t, k), _| *t != tree || !span.contains(k));
            self.deleted.push((tree, span.clone()));
        }
    }
}

/// Reports whether some key could be in both.
fn overlap(a: &Span, b: &Span) -> bool {
    let joint = |x: &Span, y: &Span| {
        !x.is_empty() && !Span { from: x.from.clone(), to: y.to.clone() }.is_empty()
    };
    joint(a, b) && joint(b, a)
}

/// Adds a version and drops unreadable ones.
fn put(
    map: &mut OracleMap,
    held: &BTreeMap<u64, usize>,
    key: &[u8],
    time: u64,
    value: Option<Arc<[u8]>>,
) {
    let versions = map.keys.entry(key.to_vec()).or_default();
    let mut until = time;
    let mut kept: Vec<OracleVersion> = vec![(time, value)];
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

    fn span(from: &str, to: &str) -> Span {
        Span { from: Bound::Included(from.into()), to: Bound::Excluded(to.into()) }
    }

    #[test]
    fn unvisited_keys_were_not_read() {
        let mut o = Oracle::default();
        o.create(0, None);
        ["a", "b", "c"].iter().for_each(|k| o.write(0, &Write::Put((*k).into(), v(1))));
        for (back, limit, key, fine) in [
            (false, 1, "b", true),
            (false, 2, "b", false),
            (true, 1, "b", true),
            (true, 4, "a", false),
        ] {
            let mut tx = o.begin();
            assert_eq!(tx.range(&o, 0, &Span::all(), back, limit).len(), limit.min(3));
            tx.delete_range(0, &span("x", "y"));
            o.set(0, key.as_bytes(), Some([limit as u8, u8::from(back)].as_slice().into()));
            assert!(o.commit(tx, fine).is_ok(), "{back} {limit}");
        }
    }

    #[test]
    fn held_states_stay_and_others_go() {
        let mut o = Oracle::default();
        o.create(0, Some(|b, op| Some([b.unwrap_or_default(), op].concat())));
        o.write(0, &Write::Put(b"a".to_vec(), v(2)));
        o.write(0, &Write::Put(b"b".to_vec(), v(4)));
        let t = o.hold();
        o.write(0, &Write::DeleteRange(span("a", "b")));
        o.write(0, &Write::Merge(b"b".to_vec(), v(6)));
        assert_eq!((o.now(), t), (4, 2));
        assert_eq!(o.get(0, b"a", t), Some(&v(2).bytes()[..]));
        assert_eq!(o.get(0, b"b", 4).map(<[u8]>::len), Some(18));
        assert_eq!(o.range(0, &Span::all(), t).count(), 2);
        assert_eq!(
            o.range(0, &Span::all(), 4).map(|(k, _)| k.to_vec()).collect::<Vec<_>>(),
            [b"b"]
        );
        o.release(t);
        o.write(0, &Write::Delete(b"a".to_vec()));
        assert!(o.map(0).unwrap().keys.len() == 1 && o.holds() == 0);
    }

    #[test]
    fn loaded_entries_have_one_time() {
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
        assert!(o.get(0, b"b", t) == Some(&v(1).bytes()) && o.commit(tx, false).is_ok());
    }

    #[test]
    fn transactions_conflict_with_writes_to_their_reads() {
        let mut o = Oracle::default();
        o.create(0, None);
        for (write, fates) in [
            (Write::Put(b"f".to_vec(), v(2)), [true, false]),
            (Write::Put(b"d".to_vec(), v(2)), [false, true]),
            (Write::DeleteRange(span("a", "c")), [true, false]),
            (Write::DeleteRange(span("a", "e")), [false, true]),
            // The key was missing.
            (Write::Delete(b"k".to_vec()), [true, true]),
        ] {
            for done in [true, false] {
                o.write(0, &Write::Put(b"d".to_vec(), v(4)));
                let mut tx = o.begin();
                tx.range(&o, 0, &span("c", "f"), false, usize::MAX);
                tx.get(&o, 0, b"k");
                tx.put(0, b"c", Some(vec![1]));
                o.write(0, &write);
                assert_eq!(o.commit(tx, done).is_ok(), fates[usize::from(!done)], "{write:?}");
            }
        }
        assert!(o.touched.is_empty() && o.holds() == 0);
    }
}
