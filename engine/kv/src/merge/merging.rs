//! k sorted cursors as one.
//!
//! Invariants:
//! - `order[..live]` lists the valid children with the heads of their keys, by their current entry: ascending when walking
//!   forward, descending backward. Ties cannot happen: two sources never hold the same (key, trailer).
//! - Children are given newest first; the newest sequence number each can hold is known, so that a range deletion can move all
//!   older children past its end at once.
//! - Turning around costs one seek per child.
//!
//! A step moves the winner and lets it sink to its place. As long as the winner stays the winner that is one comparison of two
//! 8-byte heads; keys are touched only where heads are equal.

use std::cmp::Ordering;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::memtable::MemCursor;

use super::run::RunCursor;

/// A source of entries inside a merge.
#[allow(clippy::large_enum_variant)]
pub enum Source {
    /// A memtable.
    Mem(MemCursor),
    /// A run of tables.
    Run(RunCursor),
}

macro_rules! each {
    ($self:expr, $c:ident => $e:expr) => {
        match $self {
            Source::Mem($c) => $e,
            Source::Run($c) => $e,
        }
    };
}

impl Cursor for Source {
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

struct Child<C> {
    cursor: C,
    max_seq: Seq,
}

/// A child's place in the order.
#[derive(Clone, Copy)]
struct Rank {
    head: u64,
    child: u32,
}

/// The merge of several cursors.
pub struct Merging<C> {
    children: Vec<Child<C>>,
    order: Vec<Rank>,
    live: usize,
    forward: bool,
    turn: Vec<u8>,
}

impl<C: Cursor> Merging<C> {
    /// A merge of `sources`, each with the newest sequence number it can hold.
    pub fn new(sources: Vec<(C, Seq)>) -> Self {
        let order = (0..sources.len() as u32).map(|child| Rank { head: 0, child }).collect();
        let children = sources.into_iter().map(|(cursor, max_seq)| Child { cursor, max_seq }).collect();
        Merging { children, order, live: 0, forward: true, turn: vec![] }
    }

    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The source of the current entry. Only while valid.
    #[inline]
    pub fn current(&self) -> &C {
        &self.children[self.order[0].child as usize].cursor
    }

    #[inline]
    fn compare(&self, a: Rank, b: Rank) -> Ordering {
        let o = a.head.cmp(&b.head).then_with(|| self.compare_keys(a, b));
        if self.forward { o } else { o.reverse() }
    }

    fn compare_keys(&self, a: Rank, b: Rank) -> Ordering {
        let (x, y) = (&self.children[a.child as usize].cursor, &self.children[b.child as usize].cursor);
        x.key().cmp(y.key()).then_with(|| y.trailer().cmp(&x.trailer()))
    }

    /// Puts all children in order after each was positioned.
    fn arrange(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.sort_unstable_by_key(|r| !self.children[r.child as usize].cursor.valid());
        self.live = order.iter().take_while(|r| self.children[r.child as usize].cursor.valid()).count();
        for r in &mut order[..self.live] {
            r.head = self.children[r.child as usize].cursor.head();
        }
        order[..self.live].sort_unstable_by(|&a, &b| self.compare(a, b));
        self.order = order;
    }

    fn position(&mut self, forward: bool, mut f: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.forward = forward;
        self.live = 0;
        for c in &mut self.children {
            f(&mut c.cursor)?;
        }
        self.arrange();
        Ok(())
    }

    /// Moves the winner one entry on and lets it sink to its place.
    #[inline]
    fn step(&mut self) -> Result<()> {
        let child = self.order[0].child;
        let forward = self.forward;
        let c = &mut self.children[child as usize].cursor;
        let moved = if forward { c.next() } else { c.prev() };
        if moved.is_err() {
            self.live = 0;
            return moved;
        }
        if !c.valid() {
            self.order[..self.live].rotate_left(1);
            self.live -= 1;
            return Ok(());
        }
        let w = Rank { head: c.head(), child };
        let mut i = 1;
        while i < self.live && self.compare(self.order[i], w) == Ordering::Less {
            self.order[i - 1] = self.order[i];
            i += 1;
        }
        self.order[i - 1] = w;
        Ok(())
    }

    /// Moves every child that holds only entries older than `seq` to `end` if it stands before it. Forward only.
    pub fn skip_older(&mut self, end: &[u8], seq: Seq) -> Result<()> {
        debug_assert!(self.forward);
        let mut moved = false;
        for i in 0..self.live {
            let c = &mut self.children[self.order[i].child as usize];
            if c.max_seq < seq && c.cursor.key() < end {
                if let Err(e) = c.cursor.seek(end, Trailer::NEWEST) {
                    self.live = 0;
                    return Err(e);
                }
                moved = true;
            }
        }
        if moved {
            self.arrange();
        }
        Ok(())
    }

    fn turn(&mut self, forward: bool) -> Result<()> {
        let mut key = std::mem::take(&mut self.turn);
        key.clear();
        key.extend_from_slice(self.current().key());
        let at = self.current().trailer();
        let done = if forward {
            // Just after the current entry: trailers descend, so the next smaller one.
            self.position(true, |c| if at.0 == 0 { c.seek(&key, Trailer(0)) } else { c.seek(&key, Trailer(at.0 - 1)) })
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
        self.order[0].head
    }
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        self.position(true, |c| c.seek(key, at))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
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
