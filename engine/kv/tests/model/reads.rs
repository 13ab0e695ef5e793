//! Steps that read keys, ranges, iterators and cursors, in the current state and in snapshots.

use std::rc::Rc;

use firn_kv::{Range, Readable, Snapshot, Tree};
use firn_testkit::history::{HistoryEnds, HistoryKey, Move, Span};
use firn_testkit::rng::Rng;

use super::{Runner, Walker, collect};
use crate::model::compare::{Outcome, ensure, same, same_item, same_pair};

impl Runner<'_> {
    /// Returns the snapshot of a slot and its sequence number.
    pub(super) fn snapshot(&self, at: Option<usize>) -> (Option<&Snapshot>, u64) {
        match at.and_then(|i| self.open.snapshots[i].as_ref()) {
            Some(f) => (Some(&f.snapshot), f.time),
            None => (None, self.oracle.now()),
        }
    }

    pub(super) fn pins(&self, at: Option<usize>) -> Option<Rc<()>> {
        at.and_then(|i| self.open.snapshots[i].as_ref()).map(|f| f.pins.clone())
    }

    pub(super) fn items(
        &self,
        tree: usize,
        span: &Span,
        at: Option<usize>,
    ) -> Vec<(HistoryKey, Vec<u8>)> {
        collect(self.oracle.range(tree, span, self.snapshot(at).1))
    }

    pub(super) fn get(&self, t: &Tree, tree: usize, key: &[u8], at: Option<usize>) -> Outcome {
        let (snapshot, time) = self.snapshot(at);
        let got = snapshot.map_or_else(|| t.get(key), |s| s.get(t, key))?;
        same("get", got.as_deref(), self.oracle.get(tree, key, time))
    }

    pub(super) fn contains(&self, t: &Tree, tree: usize, key: &[u8], at: Option<usize>) -> Outcome {
        let (snapshot, time) = self.snapshot(at);
        let got = snapshot.map_or_else(|| t.contains(key), |s| s.contains(t, key))?;
        let want = self.oracle.get(tree, key, time).is_some();
        ensure(got == want, || format!("contains: expected {want}, got {got}"))
    }

    /// Checks the first and last key, the number of keys, and the keys from both ends.
    pub(super) fn edges(&self, t: &Tree, tree: usize, at: Option<usize>) -> Outcome {
        let all = self.items(tree, &Span::all(), at);
        let pair = |p: Option<&(HistoryKey, Vec<u8>)>| p.map(|(k, v)| (k.clone(), v.clone()));
        let own =
            |e: Option<(firn_kv::Value, firn_kv::Value)>| e.map(|(k, v)| (k.to_vec(), v.to_vec()));
        let db = self.db()?;
        let (first, last, len, is_empty, mut keys) = match (self.snapshot(at).0, all.len() % 2) {
            (Some(s), _) => (s.first(t)?, s.last(t)?, s.len(t)?, s.is_empty(t)?, s.keys(t)),
            (None, 0) => (t.first()?, t.last()?, t.len()?, t.is_empty()?, t.keys()),
            (None, _) => (db.first(t)?, db.last(t)?, db.len(t)?, db.is_empty(t)?, db.keys(t)),
        };
        ensure(own(first) == pair(all.first()) && own(last) == pair(all.last()), || {
            "the first or last key differs".into()
        })?;
        ensure(len == all.len() as u64 && is_empty == all.is_empty(), || {
            format!("{len} keys, expected {}", all.len())
        })?;
        let mut left: std::collections::VecDeque<_> = all.iter().map(|(k, _)| k).collect();
        for step in 0..=all.len() {
            let (got, want) = if step % 3 == 0 {
                (keys.next_back(), left.pop_back())
            } else {
                (keys.next(), left.pop_front())
            };
            ensure(got.transpose()?.as_deref() == want.map(Vec::as_slice), || {
                "the keys differ".into()
            })?;
        }
        Ok(())
    }

    pub(super) fn multi_get(&self, t: &Tree, tree: usize, keys: &[HistoryKey]) -> Outcome {
        let got = t.multi_get(keys)?;
        ensure(got.len() == keys.len(), || {
            format!("{} results for {} keys", got.len(), keys.len())
        })?;
        for (k, v) in keys.iter().zip(got) {
            same("multi_get", v.as_deref(), self.oracle.get(tree, k, self.oracle.now()))?;
        }
        Ok(())
    }

    pub(super) fn range(&self, t: &Tree, span: &Span, at: Option<usize>) -> Range {
        self.snapshot(at).0.map_or_else(|| t.range(span.bounds()), |s| s.range(t, span.bounds()))
    }

    pub(super) fn scan(
        &self,
        tree: usize,
        span: &Span,
        mut got: Range,
        ends: HistoryEnds,
        limit: usize,
        at: Option<usize>,
    ) -> Outcome {
        let mut want = self.oracle.range(tree, span, self.snapshot(at).1);
        let mut rng = Rng::new(if let HistoryEnds::Both(seed) = ends { seed } else { 0 });
        for _ in 0..limit {
            let front = match ends {
                HistoryEnds::Front => true,
                HistoryEnds::Back => false,
                HistoryEnds::Both(_) => rng.one_in(2),
            };
            let item = if front { want.next() } else { want.next_back() };
            let done = item.is_none();
            let what = if front { "forward" } else { "backward" };
            same_item(what, if front { got.next() } else { got.next_back() }, item)?;
            if done {
                same_item("after the end", got.next_back(), None)?;
                return same_item("after the end", got.next(), None);
            }
        }
        Ok(())
    }

    pub(super) fn prefix(
        &self,
        t: &Tree,
        tree: usize,
        prefix: &[u8],
        ends: HistoryEnds,
        limit: usize,
        at: Option<usize>,
    ) -> Outcome {
        let got = self.snapshot(at).0.map_or_else(|| t.prefix(prefix), |s| s.prefix(t, prefix));
        let end = prefix.iter().rposition(|b| *b != 0xff).map(|i| {
            let mut end = prefix[..=i].to_vec();
            end[i] += 1;
            end
        });
        let to = end.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let span = Span { from: std::ops::Bound::Included(prefix.to_vec()), to };
        self.scan(tree, &span, got, ends, limit, at)
    }

    pub(super) fn walker(
        &self,
        t: &Tree,
        tree: usize,
        span: &Span,
        at: Option<usize>,
    ) -> Outcome<Walker> {
        let cursor = match self.snapshot(at).0 {
            Some(s) => s.cursor(t, span.bounds())?,
            None => t.cursor(span.bounds())?,
        };
        Ok(Walker { cursor, _pins: self.pins(at), items: self.items(tree, span, at), at: None })
    }

    /// Reads all keys of a tree from both ends, and each key singly.
    pub(super) fn full_scan(&self, tree: usize) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        let all = Span::all();
        self.scan(tree, &all, t.iter(), HistoryEnds::Front, usize::MAX, None)?;
        self.scan(tree, &all, t.iter(), HistoryEnds::Back, usize::MAX, None)?;
        for (k, v) in self.oracle.range(tree, &all, self.oracle.now()) {
            same("get in a full scan", t.get(k)?.as_deref(), Some(v))?;
        }
        Ok(())
    }

    pub(super) fn step_iter(&mut self, slot: usize, front: usize, back: usize) -> Outcome {
        let Some(iter) = &mut self.open.iters[slot] else { return Ok(()) };
        for i in 0..front + back {
            let (got, want) = if i < front {
                (iter.range.next(), iter.left.pop_front())
            } else {
                (iter.range.next_back(), iter.left.pop_back())
            };
            let what = if i < front { "iterator forward" } else { "iterator backward" };
            same_item(what, got, want.as_ref().map(|(k, v)| (&k[..], &v[..])))?;
        }
        Ok(())
    }
}

impl Walker {
    pub(super) fn walk(&mut self, moves: &[Move]) -> Outcome {
        let n = self.items.len();
        for m in moves {
            self.at = match m {
                Move::First => {
                    self.cursor.first()?;
                    Some(0)
                }
                Move::Last => {
                    self.cursor.last()?;
                    n.checked_sub(1)
                }
                Move::Seek(k) => {
                    self.cursor.seek(k)?;
                    Some(self.items.partition_point(|(i, _)| i < k))
                }
                Move::SeekBefore(k) => {
                    self.cursor.seek_before(k)?;
                    self.items.partition_point(|(i, _)| i < k).checked_sub(1)
                }
                Move::Next => {
                    self.cursor.next()?;
                    self.at.map(|i| i + 1)
                }
                Move::Prev => {
                    self.cursor.prev()?;
                    self.at.and_then(|i| i.checked_sub(1))
                }
            }
            .filter(|i| *i < n);
            let got = self.cursor.is_valid().then(|| (self.cursor.key(), self.cursor.value()));
            let want = self.at.and_then(|i| self.items.get(i)).map(|(k, v)| (&k[..], &v[..]));
            same_pair(&format!("cursor after {m:?}"), got, want)?;
        }
        Ok(())
    }
}
