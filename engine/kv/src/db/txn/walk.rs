//! Iterators of a transaction: the snapshot's entries and what the transaction had written when they began, merged as they are walked.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::ops::TreeId;
use crate::db::Tree;
use crate::db::iter::{Here, Range};
use crate::merge::visible::KeyRange;

use super::state::{Own, State};

/// What makes an iterator of a snapshot one of a transaction.
pub struct Overlay {
    state: Arc<State>,
    tree: TreeId,
    /// The number by which the transaction knows what was walked.
    walk: usize,
    /// What it had written when the walk began.
    own: Own,
    /// From the front and from the back: the last key, and whether the snapshot has no more.
    front: End,
    back: End,
}

#[derive(Default)]
struct End {
    passed: Option<Vec<u8>>,
    is_over: bool,
}

enum Next {
    /// What the snapshot's cursor stands on.
    Seen,
    Own(Vec<u8>, Vec<u8>),
    Nothing,
}

impl Overlay {
    /// For a new iterator over `range`.
    pub fn new(state: &Arc<State>, tree: &Tree, range: KeyRange) -> Overlay {
        let (walk, own) = state.begin_walk(tree, range);
        Overlay { state: state.clone(), tree: tree.core.id, walk, own, front: End::default(), back: End::default() }
    }

    fn end(&mut self, forward: bool) -> &mut End {
        if forward { &mut self.front } else { &mut self.back }
    }
}

impl Range {
    /// The next entry from one end. It counts as read; where there is none, all of the range does.
    pub(in crate::db) fn step_in_transaction<T>(
        &mut self,
        forward: bool,
        take: impl FnOnce(Here<'_>) -> T,
    ) -> Result<Option<T>> {
        let Some(mut overlay) = self.overlay.take() else { return Ok(None) };
        let next = self.next_over(&mut overlay, forward);
        self.overlay = Some(overlay);
        Ok(match next? {
            Next::Own(key, value) => Some(take(Here::Own(&key, &value))),
            Next::Seen => if forward { &self.front } else { &self.back }.as_ref().map(|v| take(Here::Seen(v))),
            Next::Nothing => {
                self.done = true;
                None
            }
        })
    }

    fn next_over(&mut self, o: &mut Overlay, forward: bool) -> Result<Next> {
        loop {
            self.settle(o, forward)?;
            let (cursor, end, other) = if forward { (&self.front, &o.front, &o.back) } else { (&self.back, &o.back, &o.front) };
            let seen = cursor.as_ref().filter(|v| v.valid() && !end.is_over).map(|v| v.key());
            let is_behind = |a: &[u8], b: &[u8]| if forward { a > b } else { a < b };
            // Of two equal keys the own one counts.
            let own = o.own.next(&self.range, end.passed.as_deref(), forward);
            let own = own.filter(|(key, _)| seen.is_none_or(|s| !is_behind(key, s)));
            let key = own.as_ref().map(|(key, _)| key.as_slice()).or(seen);
            // Where the other end has been is the end.
            let key = key.filter(|key| other.passed.as_deref().is_none_or(|other| is_behind(other, key)));
            o.state.walked(o.tree, o.walk, key, forward);
            let Some(key) = key else { return Ok(Next::Nothing) };
            let passed = key.to_vec();
            o.end(forward).passed = Some(passed);
            match own {
                Some((key, Some(value))) => return Ok(Next::Own(key, value)),
                Some((_, None)) => {}
                None => return Ok(Next::Seen),
            }
        }
    }

    /// Moves the snapshot's cursor behind what was passed, and out of ranges that the transaction has deleted.
    fn settle(&mut self, o: &mut Overlay, forward: bool) -> Result<()> {
        let is_open = if forward { self.front.is_some() } else { self.back.is_some() };
        if !is_open {
            self.open(forward)?;
        }
        let Some(v) = (if forward { &mut self.front } else { &mut self.back }) else { return Ok(()) };
        while let Some(passed) = o.end(forward).passed.as_deref().filter(|_| v.valid())
            && (if forward { v.key() <= passed } else { v.key() >= passed })
        {
            if forward { v.next()? } else { v.prev()? }
        }
        while v.valid()
            && !o.end(forward).is_over
            && let Some(hidden) = o.own.hidden(v.key())
        {
            match (forward, &hidden.until) {
                (true, Some(until)) => v.seek(until)?,
                (true, None) => o.front.is_over = true,
                (false, _) => v.seek_before(&hidden.from)?,
            }
        }
        Ok(())
    }
}
