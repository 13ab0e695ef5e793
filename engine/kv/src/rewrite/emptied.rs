//! Finds key ranges that the deletes of a memtable have emptied. The flush writes one range
//! deletion for each.
//!
//! Deleting one key after the other leaves a delete for each, over an older put of the key. A
//! reader that passes a million of them has to pass two million entries. Instead, the worker that
//! flushes the memtable passes them once and writes a range deletion. Readers skip that range, and
//! later merges need not retain the deletes or the entries below them.
//!
//! Invariants:
//! - E1: In `[start, end)` no key is visible at the read point, in the memtable or in older
//!   sources. The sequence number of the range deletion is the largest in that range of the
//!   memtable up to the read point, including range deletions. From that number up to the read
//!   point the range does not change. So readers at or after that number miss nothing, and readers
//!   before it do not see the deletion.
//! - E2: Operands that fold to no value end a range. A later operand is folded over them and must
//!   find them.
//! - E3: Older sources have no entry in the range with this number or a larger one, because a newer
//!   source takes precedence over all older ones. Tables ingested while the memtable took writes
//!   can have such entries; then the deletes are left unchanged.
//! - E4: Both bounds are keys of the memtable, so its tables cover no more keys than without the
//!   range.
//! - E5: Deletes that were examined but are in no range are few steps from a visible key.
//!
//! Readers that look for changes *since* a point in time, as transactions do, would take the range
//! deletion for a change of all keys that it covers. So the read point is that of the oldest such
//! reader: later readers see the range deletion with its true age.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::hooks::MergeOperator;
use crate::base::key::{Kind, Seq, Trailer};
use crate::memtable::{MemCursor, Memtable};
use crate::range_del::deletions::Deletions;
use crate::range_del::tombstone::RangeTombstone;

use crate::iterator::merging::MergeSource;
use crate::iterator::run::TableRun;
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::shadow::{Cover, RangeShadow};
use crate::iterator::visible::{Visible, VisibleRange};

/// Minimum number of entries that a range must save readers, and minimum number of deletes of a
/// memtable to be searched. Debug builds use small numbers, so the short histories of tests produce
/// some ranges. The histories of golden files have too few deletes in any build.
const ENOUGH: u64 = if cfg!(debug_assertions) { 2 } else { 32 };
const MANY: u64 = if cfg!(debug_assertions) { 16 } else { 32 };
/// Maximum number of deletes skipped between two examined ones, if most are among visible keys.
const FAR: u32 = 256;

/// A range without visible keys: `[deletion.start, deletion.end)`.
#[derive(Debug)]
pub struct EmptiedRange {
    /// Range deletion that can replace it.
    pub deletion: RangeTombstone,
    /// Approximate number of entries that a reader saves.
    pub steps: u64,
}

/// Returns the key ranges that the deletes in `mem` have emptied, in key order and disjoint. They
/// have no visible key at the read point in `memtables` (which include `mem`) and in the older
/// runs.
///
/// After a read error the remaining deletes stay unchanged.
pub fn emptied(
    mem: &Arc<Memtable>,
    memtables: &[Arc<Memtable>],
    older: &[Arc<TableRun>],
    merge: Option<Arc<dyn MergeOperator>>,
    read: Seq,
) -> Vec<EmptiedRange> {
    let mut found = vec![];
    if mem.deletes() >= MANY {
        // Ranges found before an error are correct; the rest is only not found.
        let _ = Search::new(mem, memtables, older, merge, read).and_then(|mut s| s.run(&mut found));
    }
    found
}

struct Search<'a> {
    /// Range deletions of the memtable.
    own: Vec<Arc<Deletions>>,
    older: &'a [Arc<TableRun>],
    read: Seq,
    /// Visible entries of the memtable and the older sources.
    seen: Visible,
    /// Sequential cursor over the entries of the memtable.
    walk: MemCursor,
    /// Second cursor over the memtable, for random lookups.
    look: MemCursor,
}

impl<'a> Search<'a> {
    fn new(
        mem: &Arc<Memtable>,
        memtables: &[Arc<Memtable>],
        older: &'a [Arc<TableRun>],
        merge: Option<Arc<dyn MergeOperator>>,
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

    fn run(&mut self, found: &mut Vec<EmptiedRange>) -> Result<()> {
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

    /// Returns the range around the delete at the sequential cursor, if it is worth it, and the
    /// last key of the memtable that it has examined. `back` is set if preceding deletes were
    /// skipped.
    fn ask(&mut self, back: bool) -> Result<(Option<EmptiedRange>, Vec<u8>)> {
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
        Ok((is_worth.then_some(EmptiedRange { deletion, steps }), end))
    }

    /// Reports whether all older tables that overlap `[start, end)` are older than `seq` (E3).
    fn is_newest(&self, start: &[u8], end: &[u8], seq: Seq) -> bool {
        self.older.iter().all(|run| {
            let mut there = run.tables[run.lower_bound(start)..]
                .iter()
                .take_while(|t| t.meta.first_key.as_slice() < end);
            there.all(|t| t.meta.max_seq < seq)
        })
    }
}
