//! Merges k sorted cursors into one.
//!
//! Invariants:
//! - `order[..live]` lists the valid children by their current entries, the next one to show first.
//!   Each has a rank: the head of its key when moving forward, its complement when moving backward.
//!   So ranks ascend in both directions. Entries of equal rank are ordered too. Two sources never
//!   contain the same (key, trailer), so there are no ties.
//! - Children are passed newest first.
//! - A change of direction costs one seek per child.
//!
//! A step advances the first child and sinks it to its position. While it stays first, that is one
//! comparison of two ranks. Keys are compared only if heads are equal. The distance that it sinks
//! is unpredictable, so the code has no branches that depend on it.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use crate::base::cursor::{Cursor, STEPS_AHEAD};
use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::memtable::MemCursor;
use crate::sstable::WholeBlock;
use crate::util::sync::epoch::{self, Guard};

use crate::iterator::run_cursor::{BlobLocation, RunCursor, is_inside};
use crate::iterator::value::Value;

/// A source of entries in a merge.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum MergeSource {
    /// A memtable.
    Mem(MemCursor),
    /// A run of tables.
    Run(RunCursor),
}

impl MergeSource {
    /// Skips whole blocks of deletes whose keys are on this side of `limit`. Returns `true` if it
    /// moved.
    pub fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool> {
        match self {
            MergeSource::Mem(_) => Ok(false),
            MergeSource::Run(c) => c.pass_deletes(forward, limit),
        }
    }

    /// Skips all entries older than `seq`, up to the first that is not or that is beyond `edge`.
    /// Beyond means at or after `edge` going forward, before it going backward. Returns the number
    /// of steps.
    pub fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64> {
        match self {
            MergeSource::Run(c) => c.pass_older(seq, forward, edge),
            MergeSource::Mem(c) => {
                let mut steps = 0;
                while c.valid() && c.trailer().seq() < seq && is_inside(c.key(), forward, edge) {
                    if forward { c.next() } else { c.prev() }?;
                    steps += 1;
                }
                Ok(steps)
            }
        }
    }

    /// Returns the location of the current entry's blob; memtables have none.
    pub fn blob(&self) -> Option<BlobLocation> {
        match self {
            MergeSource::Run(c) => c.blob(),
            MergeSource::Mem(_) => None,
        }
    }

    /// Returns an owned handle of the current value, or `None` if not positioned.
    pub fn pin_value(&self) -> Option<Value> {
        match self {
            MergeSource::Mem(c) => Some(c.pin().into()),
            MergeSource::Run(c) => c.pin_value(),
        }
    }
}

macro_rules! each {
    ($self:expr, $c:ident => $e:expr) => {
        match $self {
            MergeSource::Mem($c) => $e,
            MergeSource::Run($c) => $e,
        }
    };
}

impl Cursor for MergeSource {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, c => c.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, c => c.key())
    }
    #[inline]
    fn trailer(&self) -> Trailer {
        each!(self, c => c.trailer())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, c => c.value())
    }
    #[inline]
    fn head(&self) -> u64 {
        each!(self, c => c.head())
    }
    fn defer_values(&mut self) {
        each!(self, c => c.defer_values())
    }
    #[inline]
    fn complete(&mut self) -> Result<()> {
        each!(self, c => c.complete())
    }
    fn fetch_blob(&self, out: &mut Vec<u8>) -> Result<()> {
        each!(self, c => c.fetch_blob(out))
    }
    fn approach(&mut self, key: &[u8], step: usize) -> bool {
        each!(self, c => c.approach(key, step))
    }
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        each!(self, c => c.seek(key, at))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, c => c.seek_before(key))
    }
    fn first(&mut self) -> Result<()> {
        each!(self, c => c.first())
    }
    fn last(&mut self) -> Result<()> {
        each!(self, c => c.last())
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, c => c.next())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, c => c.prev())
    }
}

/// Position of a child in the order.
#[derive(Clone, Copy)]
struct SourceRank {
    rank: u64,
    child: u32,
}

/// Number of positions that a child sinks between checks whether it has found its own.
const SINK: usize = 4;

/// Merge of several cursors.
pub struct Merging<C> {
    children: Vec<C>,
    order: Vec<SourceRank>,
    live: usize,
    forward: bool,
    turn: Vec<u8>,
}

impl<C> std::fmt::Debug for Merging<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merging").finish_non_exhaustive()
    }
}

impl<C: Cursor> Merging<C> {
    /// Creates a merge of `children`.
    pub fn new(children: Vec<C>) -> Self {
        let order = (0..children.len() as u32).map(|child| SourceRank { rank: 0, child }).collect();
        Merging { children, order, live: 0, forward: true, turn: vec![] }
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Reports whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Returns the source of the current entry. Requires a valid position.
    #[inline]
    pub fn current(&self) -> &C {
        &self.children[self.order[0].child as usize]
    }

    #[inline]
    fn compare(&self, a: SourceRank, b: SourceRank) -> Ordering {
        a.rank.cmp(&b.rank).then_with(|| {
            let (x, y) = (&self.children[a.child as usize], &self.children[b.child as usize]);
            let o = x.key().cmp(y.key()).then_with(|| y.trailer().cmp(&x.trailer()));
            if self.forward { o } else { o.reverse() }
        })
    }

    /// Maps the head of a key to its rank, and a rank to its head.
    #[inline]
    fn turned(&self, head: u64) -> u64 {
        if self.forward { head } else { !head }
    }

    /// Sorts all children after each was positioned.
    fn arrange(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.sort_unstable_by_key(|r| !self.children[r.child as usize].valid());
        self.live = order.iter().take_while(|r| self.children[r.child as usize].valid()).count();
        for r in &mut order[..self.live] {
            r.rank = self.turned(self.children[r.child as usize].head());
        }
        order[..self.live].sort_unstable_by(|&a, &b| self.compare(a, b));
        self.order = order;
    }

    /// Prefetches the memory that a seek to `key` will access, for all children at the same time.
    /// The thread is pinned until the seek ends, once for all children, because each accesses the
    /// cache several times. It is not pinned if a child will do I/O: frames cannot be reused while
    /// any thread is pinned.
    fn approach_all(&mut self, key: &[u8]) -> Option<Guard> {
        if self.children.len() < 2 {
            return None;
        }
        let (guard, mut is_in_memory) = (epoch::pin(), true);
        for step in 0..STEPS_AHEAD {
            self.children.iter_mut().for_each(|c| is_in_memory &= c.approach(key, step));
        }
        is_in_memory.then_some(guard)
    }

    fn position(&mut self, forward: bool, mut f: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.forward = forward;
        self.live = 0;
        for c in &mut self.children {
            f(c)?;
        }
        self.arrange();
        Ok(())
    }

    /// Advances the first child by one entry and sinks it to its position.
    #[inline]
    fn step(&mut self) -> Result<()> {
        if self.forward { self.move_winner(|c| c.next()) } else { self.move_winner(|c| c.prev()) }
    }

    #[inline]
    fn move_winner(&mut self, to: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        let child = self.order[0].child;
        let c = &mut self.children[child as usize];
        let moved = to(c);
        if moved.is_err() {
            self.live = 0;
            return moved;
        }
        if !c.valid() {
            self.order[..self.live].rotate_left(1);
            self.live -= 1;
            return Ok(());
        }
        let head = c.head();
        let rank = self.turned(head);
        let w = SourceRank { rank, child };
        self.order[0] = w;
        match self.order[..self.live].get(1) {
            Some(next) if next.rank < rank => self.sink(w),
            Some(next) if next.rank == rank => self.sink_by_keys(0),
            _ => {}
        }
        Ok(())
    }

    /// Sinks `w`, the first child, to its position.
    #[inline]
    fn sink(&mut self, w: SourceRank) {
        let order = &mut self.order[..self.live];
        // The loop carries `w` down as far as it sinks. From there on it carries the next element
        // each time, so all others stay in place.
        let (mut rank, mut child, mut ties) = (w.rank, w.child, false);
        let mut at = 1;
        while at < order.len() {
            let mut moves = false;
            let end = order.len().min(at + SINK);
            while at < end {
                let next = order[at];
                moves = next.rank < rank;
                ties |= next.rank == rank;
                order[at - 1] = SourceRank {
                    rank: rank.min(next.rank),
                    child: select_unpredictable(moves, next.child, child),
                };
                child = select_unpredictable(moves, child, next.child);
                rank = rank.max(next.rank);
                at += 1;
            }
            if !moves {
                return self.settle(ties, w.child);
            }
        }
        if let Some(last) = order.last_mut() {
            *last = SourceRank { rank, child };
        }
        self.settle(ties, w.child);
    }

    /// Orders the children with the rank of `child`, if there may be ties.
    #[inline]
    fn settle(&mut self, ties: bool, child: u32) {
        if ties && let Some(at) = self.order.iter().position(|r| r.child == child) {
            self.sink_by_keys(at);
        }
    }

    /// Sinks the `at`-th child to its position among those of its rank.
    fn sink_by_keys(&mut self, mut at: usize) {
        while at + 1 < self.live
            && self.compare(self.order[at + 1], self.order[at]) == Ordering::Less
        {
            self.order.swap(at, at + 1);
            at += 1;
        }
    }

    fn turn(&mut self, forward: bool) -> Result<()> {
        let mut key = std::mem::take(&mut self.turn);
        key.clear();
        key.extend_from_slice(self.current().key());
        let at = self.current().trailer();
        let done = if forward {
            // Just after the current entry: trailers descend, so seek to the next smaller one.
            self.position(true, |c| {
                if at.0 == 0 { c.seek(&key, Trailer(0)) } else { c.seek(&key, Trailer(at.0 - 1)) }
            })
        } else {
            // Newer versions of the same key come before it; then smaller keys.
            self.position(false, |c| {
                c.seek(&key, at)?;
                if c.valid() { c.prev() } else { c.last() }
            })
        };
        self.turn = key;
        done
    }
}

impl Merging<MergeSource> {
    /// Reports whether the merge is positioned at the first entry of a table's block.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.live > 0 && matches!(self.current(), MergeSource::Run(c) if c.is_at_start())
    }

    /// Reports whether the current entry is a put that a reader at `read` sees, and the only entry
    /// of its key. It is in a plain block, and no other child is positioned at a key with the same
    /// head.
    #[inline]
    pub fn is_alone(&self, read: Seq) -> bool {
        let [winner, others @ ..] = &self.order[..self.live] else { return false };
        let MergeSource::Run(c) = &self.children[winner.child as usize] else { return false };
        others.first().is_none_or(|next| next.rank != winner.rank)
            && c.plain_up_to().is_some_and(|seq| seq <= read)
    }

    /// Returns the table block whose first entry is current, if the block can be copied and no
    /// other child has a key in it.
    #[inline]
    pub fn whole_block(&self) -> Option<WholeBlock<'_>> {
        let [winner, others @ ..] = &self.order[..self.live] else { return None };
        let MergeSource::Run(c) = &self.children[winner.child as usize] else { return None };
        let block = c.whole_block()?;
        others
            .first()
            .is_none_or(|r| self.children[r.child as usize].key() > block.separator())
            .then_some(block)
    }

    /// Reports whether the current entry is the only entry of a table's block.
    #[inline]
    pub fn is_lone(&self) -> bool {
        self.live > 0 && matches!(self.current(), MergeSource::Run(c) if c.is_lone())
    }

    /// Returns the table block whose only entry is current, if the block can be copied. Other
    /// children may have keys before its separator, so the key itself becomes the separator.
    pub fn lone_block(&self) -> Option<WholeBlock<'_>> {
        match self.current() {
            MergeSource::Run(c) => c.whole_block().and_then(WholeBlock::alone),
            MergeSource::Mem(_) => None,
        }
    }

    /// Moves to the first entry after the block that [`whole_block`](Self::whole_block) returned.
    pub fn pass_block(&mut self) -> Result<()> {
        self.move_winner(|c| match c {
            MergeSource::Run(c) => c.pass_block(),
            MergeSource::Mem(_) => Ok(()),
        })
    }

    /// Skips whole blocks of deletes in which no other child has an entry, up to `bound`.
    pub fn pass_deletes(&mut self, forward: bool, bound: Option<&[u8]>) -> Result<()> {
        let [winner, others @ ..] = &self.order[..self.live] else { return Ok(()) };
        let mut limit = std::mem::take(&mut self.turn);
        limit.clear();
        let next = others.first().map(|r| self.children[r.child as usize].key());
        let nearer = |a: &[u8], b: &[u8]| (a < b) == forward;
        let bound = match (next, bound) {
            (Some(n), Some(b)) => Some(if nearer(n, b) { n } else { b }),
            (n, b) => n.or(b),
        };
        let limit_key = bound.map(|b| {
            limit.extend_from_slice(b);
            limit.as_slice()
        });
        let moved = self.children[winner.child as usize].pass_deletes(forward, limit_key);
        self.turn = limit;
        self.rearrange(moved)
    }

    /// Skips all entries of all children that are older than `seq`: see
    /// [`MergeSource::pass_older`].
    pub fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64> {
        let mut steps = Ok(0);
        for r in &self.order[..self.live] {
            steps = match self.children[r.child as usize].pass_older(seq, forward, edge) {
                Ok(n) => steps.map(|before| before + n),
                e => e,
            };
            if steps.is_err() {
                break;
            }
        }
        let count = *steps.as_ref().unwrap_or(&0);
        self.rearrange(steps.map(|n| n > 0))?;
        Ok(count)
    }

    fn rearrange(&mut self, moved: Result<bool>) -> Result<()> {
        match moved {
            Ok(true) => self.arrange(),
            Ok(false) => {}
            Err(e) => {
                self.live = 0;
                return Err(e);
            }
        }
        Ok(())
    }
}

impl<C: Cursor> Cursor for Merging<C> {
    #[inline]
    fn valid(&self) -> bool {
        self.live > 0
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.current().key()
    }
    #[inline]
    fn trailer(&self) -> Trailer {
        self.current().trailer()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }
    #[inline]
    fn head(&self) -> u64 {
        self.turned(self.order[0].rank)
    }
    fn defer_values(&mut self) {
        self.children.iter_mut().for_each(|c| c.defer_values());
    }
    #[inline]
    fn complete(&mut self) -> Result<()> {
        let done = self.children[self.order[0].child as usize].complete();
        if done.is_err() {
            self.live = 0;
        }
        done
    }
    fn fetch_blob(&self, out: &mut Vec<u8>) -> Result<()> {
        self.current().fetch_blob(out)
    }
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        let _pinned = self.approach_all(key);
        self.position(true, |c| c.seek(key, at))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let _pinned = self.approach_all(key);
        self.position(false, |c| c.seek_before(key))
    }
    fn first(&mut self) -> Result<()> {
        self.position(true, |c| c.first())
    }
    fn last(&mut self) -> Result<()> {
        self.position(false, |c| c.last())
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.live == 0 {
            return Ok(());
        }
        if self.forward { self.step() } else { self.turn(true) }
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.live == 0 {
            return Ok(());
        }
        if self.forward { self.turn(false) } else { self.step() }
    }
}

#[cfg(test)]
mod tests;
