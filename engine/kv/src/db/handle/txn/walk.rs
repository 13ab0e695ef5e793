//! Iterators of a transaction: merge the snapshot's entries with the transaction's puts made
//! before the iterator's creation. One seek skips each hidden range of the snapshot.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::ops::TreeId;
use crate::db::handle::walk::{NextStep, TreeWalk, WalkOverlay};
use crate::db::versions::tree::TreeInner;
use crate::iterator::visible::VisibleRange;
use crate::util::version_map::MapKey;

use crate::db::handle::txn::state::{Own, TransactionState};

/// Overlay that turns an iterator of a snapshot into one of a transaction.
pub struct Overlay {
    state: Arc<TransactionState>,
    tree: TreeId,
    /// Number of this iterator in the transaction's state.
    walk: u64,
    /// Pending writes at the creation of the iterator.
    own: Own,
    /// For each direction: the last key, and whether the snapshot has no more entries.
    front: WalkEnd,
    back: WalkEnd,
}

#[derive(Default)]
struct WalkEnd {
    passed: Option<Vec<u8>>,
    is_over: bool,
}

impl Overlay {
    /// Creates the overlay of a new iterator over `range`.
    pub fn new(
        state: &Arc<TransactionState>,
        tree: &Arc<TreeInner>,
        range: VisibleRange,
    ) -> Overlay {
        let (walk, own) = state.begin_walk(tree, range);
        Overlay {
            state: state.clone(),
            tree: tree.id,
            walk,
            own,
            front: WalkEnd::default(),
            back: WalkEnd::default(),
        }
    }

    fn end(&mut self, forward: bool) -> &mut WalkEnd {
        if forward { &mut self.front } else { &mut self.back }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.state.end_walk(self.tree, self.walk);
    }
}

impl WalkOverlay for Overlay {
    fn next(&mut self, walk: &mut TreeWalk, forward: bool) -> Result<NextStep> {
        self.skip_hidden(walk, forward)?;
        let (cursor, end, other) = if forward {
            (&walk.front, &self.front, &self.back)
        } else {
            (&walk.back, &self.back, &self.front)
        };
        let seen = cursor.as_ref().filter(|v| v.valid() && !end.is_over).map(|v| v.key());
        let is_after = |a: &[u8], b: &[u8]| if forward { a > b } else { a < b };
        // For equal keys the transaction's own entry wins.
        let own = self.own.next(&walk.range, end.passed.as_deref(), forward);
        let own = own.filter(|(key, _)| seen.is_none_or(|s| !is_after(key, s)));
        let key = own.as_ref().map(|(key, _)| &**key).or(seen);
        // The iterator ends at the last key that the other end has returned.
        let key =
            key.filter(|key| other.passed.as_deref().is_none_or(|other| is_after(other, key)));
        self.state.walked(self.tree, self.walk, key, forward);
        let Some(key) = key else { return Ok(NextStep::Nothing) };
        let passed = key.to_vec();
        self.end(forward).passed = Some(passed);
        Ok(own.map_or(NextStep::Seen, |(key, value)| NextStep::Own(key, value)))
    }
}

impl Overlay {
    /// Moves the snapshot's cursor past the last returned key and out of hidden ranges.
    fn skip_hidden(&mut self, walk: &mut TreeWalk, forward: bool) -> Result<()> {
        if walk.end(forward).is_none() {
            walk.open(forward)?;
        }
        let Some(v) = walk.end(forward) else { return Ok(()) };
        let end = if forward { &mut self.front } else { &mut self.back };
        if end.is_over {
            return Ok(());
        }
        if v.valid()
            && let Some(passed) = &end.passed
            && (if forward { v.key() <= passed.as_slice() } else { v.key() >= passed.as_slice() })
        {
            if forward { v.next()? } else { v.prev()? }
        }
        let mut left: Option<(MapKey, Option<MapKey>)> = None;
        while v.valid()
            && let Some((from, until)) = self.own.hidden.around(v.key())
        {
            let here = (from.clone(), until.clone());
            // No entry is visible between the hidden range just left and this one, so they can be
            // joined. The exception is a merge operator that folded operands to no value there:
            // another call may return a value.
            if let Some(left) = left.filter(|_| !v.passed().1) {
                let (first, last) = if forward { (&left, &here) } else { (&here, &left) };
                self.state.hide(self.tree, self.walk, &first.0, last.1.as_deref());
            }
            v.forget_passed();
            match (forward, &here.1) {
                (true, Some(until)) => v.seek(until)?,
                (true, None) => {
                    end.is_over = true;
                    break;
                }
                (false, _) => v.seek_before(&here.0)?,
            }
            left = Some(here);
        }
        Ok(())
    }
}
