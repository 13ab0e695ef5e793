//! Stretches that the deletes of a memtable have emptied: its flush writes one range deletion for
//! each.
//!
//! Whoever deletes one key after the other leaves a delete for each, over an older put of it: the
//! first reader behind a million of them would pass two million entries. The worker that flushes
//! the memtable passes them instead, once, and leaves a range deletion; readers leap over that, and
//! neither the deletes nor what lies beneath in later merges has to be kept.
//!
//! Invariants:
//! - E1: in `[start, end)` nothing is to be seen at the read point, neither in the memtable nor in
//!   anything older. The sequence number of the range deletion is the largest that the memtable has
//!   in there, range deletions included, up to the read point. Behind it the stretch does not
//!   change any more: so no reader at or after that number misses anything, and readers before it
//!   don't see the deletion.
//! - E2: operands that the hook folds to nothing end a stretch. A later operand is folded over
//!   them, and must find them.
//! - E3: nothing older has an entry in there with this number or a larger one: a newer source
//!   decides for all older ones. Tables that were loaded while the memtable took writes can have,
//!   and keep the deletes as they are.
//! - E4: both bounds are keys of the memtable, so its tables cover no more keys than without.
//! - E5: the deletes that were asked about and lie in no stretch are few steps from something to be
//!   seen.
//!
//! Readers who want to know what has changed *since* a moment, as transactions do, would take the
//! range deletion for a change of all that it covers. So the read point is that of the oldest of
//! them: whoever comes later sees the deletion as old as it is.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::deletions::Deletions;
use crate::base::error::Result;
use crate::base::hooks::Merge;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::tombstone::RangeTombstone;
use crate::memtable::{MemCursor, Memtable};

use super::merging::MergeSource;
use super::run::{RunCursor, TableRun};
use super::shadow::{Cover, RangeShadow};
use super::visible::{Visible, VisibleRange};

/// How many entries a stretch spares a reader at least, and how many deletes a memtable must have
/// to be searched. Debug builds take short ones, so that the short histories of tests have some
/// (but for those of the golden files, which have few deletes in any build).
const ENOUGH: u64 = if cfg!(debug_assertions) { 2 } else { 32 };
const MANY: u64 = if cfg!(debug_assertions) { 16 } else { 32 };
/// How many deletes are left out at most between two that are asked about, where most lie among
/// keys that are there.
const FAR: u32 = 256;

/// Nothing is to be seen in `[deletion.start, deletion.end)`.
#[derive(Debug)]
pub struct EmptiedStretch {
    /// The range deletion that can stand for it.
    pub deletion: RangeTombstone,
    /// How many entries a reader is spared, roughly.
    pub steps: u64,
}

/// What the deletes in `mem` have emptied: nothing of it is to be seen at the read point in
/// `memtables`, of which it is one, and in the runs, which are older. In key order, apart.
///
/// What cannot be read keeps its deletes.
pub fn emptied(
    mem: &Arc<Memtable>,
    memtables: &[Arc<Memtable>],
    older: &[Arc<TableRun>],
    merge: Option<Arc<dyn Merge>>,
    read: Seq,
) -> Vec<EmptiedStretch> {
    let mut found = vec![];
    if mem.deletes() >= MANY {
        // What was found before an error is right all the same, and the rest is only not found.
        let _ = Search::new(mem, memtables, older, merge, read).and_then(|mut s| s.run(&mut found));
    }
    found
}

struct Search<'a> {
    /// The range deletions of the memtable.
    own: Vec<Arc<Deletions>>,
    older: &'a [Arc<TableRun>],
    read: Seq,
    /// What is to be seen of the memtable and what is older.
    seen: Visible,
    /// The entries of the memtable, one after the other.
    walk: MemCursor,
    /// The same, for a look here and there.
    look: MemCursor,
}

impl<'a> Search<'a> {
    fn new(
        mem: &Arc<Memtable>,
        memtables: &[Arc<Memtable>],
        older: &'a [Arc<TableRun>],
        merge: Option<Arc<dyn Merge>>,
        read: Seq,
    ) -> Result<Search<'a>> {
        let (mut walk, mut look) = (mem.cursor(), mem.cursor());
        walk.first()?;
        look.last()?;
        let range =
            VisibleRange { from: walk.key().to_vec(), until: Some([look.key(), &[0]].concat()) };
        let (from, until) = (range.from.as_slice(), range.until.as_deref());
        let mut sources: Vec<MergeSource> =
            memtables.iter().map(|m| MergeSource::Mem(m.cursor())).collect();
        let mut shadows: Vec<Cover> =
            memtables.iter().flat_map(|m| m.deletions()).map(Cover::Mem).collect();
        for run in older.iter().filter(|r| r.overlaps(from, until)) {
            sources.push(MergeSource::Run(RunCursor::new(run.clone(), true)));
            if run.has_range_deletes(from, until) {
                shadows.push(Cover::Run(run.clone()));
            }
        }
        let shadow = RangeShadow::new(shadows, read);
        let mut seen = Visible::new(sources, read, shadow, merge, range);
        seen.show_keys_only();
        Ok(Search { own: mem.deletions(), older, read, seen, walk, look })
    }

    fn run(&mut self, found: &mut Vec<EmptiedStretch>) -> Result<()> {
        let (mut wait, mut stride) = (0, 1);
        while self.walk.valid() {
            let t = self.walk.trailer();
            if t.kind() != Some(Kind::Delete) || t.seq() > self.read {
                self.walk.next()?;
                continue;
            }
            if wait > 0 {
                wait -= 1;
                self.walk.next()?;
                continue;
            }
            let (stretch, last) = self.ask(stride > 1)?;
            (stride, wait) =
                if stretch.is_some() { (1, 0) } else { (FAR.min(2 * stride), FAR.min(2 * stride)) };
            found.extend(stretch);
            self.walk.seek(&last, Trailer(0))?;
        }
        Ok(())
    }

    /// The stretch around the delete on which the walk stands, if it is worth it, and the last key
    /// of the memtable about which all has been said with it. Deletes before it were left out where
    /// `back`.
    fn ask(&mut self, back: bool) -> Result<(Option<EmptiedStretch>, Vec<u8>)> {
        let mut start = self.walk.key().to_vec();
        self.seen.forget_passed();
        self.seen.seek(&start)?;
        if !self.seen.valid() {
            self.look.last()?;
        } else if self.seen.key() > start.as_slice() {
            self.look.seek_before(self.seen.key())?;
        } else {
            return Ok((None, start));
        }
        let end = self.look.key().to_vec();
        if back {
            self.seen.seek_before(&start)?;
            if self.seen.valid() {
                self.look.seek(self.seen.key(), Trailer(0))?;
            } else {
                self.look.first()?;
            }
            start = self.look.key().to_vec();
        }
        let (steps, folded) = self.seen.passed();
        if start >= end || folded {
            return Ok((None, end));
        }
        let (mut count, mut seq) = (0, 0);
        self.look.seek(&start, Trailer::NEWEST)?;
        while self.look.valid() && self.look.key() < end.as_slice() {
            let t = self.look.trailer();
            if t.seq() <= self.read {
                (count, seq) = (count + 1, t.seq().max(seq));
            }
            self.look.next()?;
        }
        let by_range = self.own.iter().filter_map(|d| d.newest_in(&start, &end, self.read)).max();
        let (steps, seq) = (steps.max(count), seq.max(by_range.unwrap_or(0)));
        let is_worth = seq > 0 && steps >= ENOUGH && self.is_newest(&start, &end, seq);
        let deletion = RangeTombstone { start, end: end.clone(), seq };
        Ok((is_worth.then_some(EmptiedStretch { deletion, steps }), end))
    }

    /// Whether all tables that reach into `[start, end)` are older than `seq` (E3).
    fn is_newest(&self, start: &[u8], end: &[u8], seq: Seq) -> bool {
        self.older.iter().all(|run| {
            let mut there = run.tables[run.lower_bound(start)..]
                .iter()
                .take_while(|t| t.meta.first_key.as_slice() < end);
            there.all(|t| t.meta.max_seq < seq)
        })
    }
}
