//! Writes the output tables of a flush or a compaction: sorted sources in, what must be kept out.
//!
//! Invariants:
//! - Outputs are sorted and disjoint in user keys; all versions of a key go to one table.
//! - A range deletion is cut where the outputs are cut: just after the last key of a table, so that the bounds of neighbouring
//!   tables never touch.
//! - Every output is synced when it is reported; nothing is installed here.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::base::tombstone::{Fragment, Fragments};
use crate::merge::merging::{Merging, Source};
use crate::merge::retain::{Dropped, Retain, Rules, retain_tombstones};
use crate::sstable::{TableFacts, TableWriter};

use super::shape::Cuts;

/// How many entries pass between two calls of [`Outputs::progress`].
const PROGRESS_EVERY: u64 = 1024;

/// Makes the writers of a job's outputs and may stop the job.
pub trait Outputs {
    /// A writer for the next output table.
    fn create(&mut self) -> Result<TableWriter>;
    /// Called now and then; an error stops the job.
    fn progress(&mut self) -> Result<()>;
    /// Called after an entry has been added to the table made last.
    #[inline]
    fn added(&mut self, key: &[u8], trailer: Trailer) {
        let _ = (key, trailer);
    }
}

/// What a job has made.
#[derive(Debug, Default)]
pub struct Made {
    /// The facts of the output tables, in key order.
    pub tables: Vec<TableFacts>,
    /// Entries written.
    pub entries: u64,
    /// What was left out.
    pub dropped: Dropped,
}

/// Where the output is cut.
struct Cutter<'a> {
    cuts: &'a Cuts,
    next: usize,
}

impl Cutter<'_> {
    /// Whether a table of `size` bytes must end before `key`.
    fn cut_before(&mut self, key: &[u8], size: u64) -> bool {
        let from = self.next;
        while self.cuts.at.get(self.next).is_some_and(|b| &**b <= key) {
            self.next += 1;
        }
        self.next > from || size >= self.cuts.size
    }
}

/// The part of `all` in `[from, until)`.
fn slice(all: &Fragments, from: &[u8], until: Option<&[u8]>) -> Fragments {
    let inside = all.as_slice().iter().filter_map(|f| {
        let start = f.start.as_slice().max(from);
        let end = until.map_or(f.end.as_slice(), |u| u.min(&f.end));
        (start < end).then(|| Fragment { start: start.to_vec(), end: end.to_vec(), seqs: f.seqs.clone() })
    });
    Fragments::from_sorted(inside.collect()).unwrap_or_default()
}

/// Merges `sources` (newest first, each with the newest sequence number it can hold) into output tables. `oldest_tombstone` is
/// the wall clock in microseconds of the oldest deletion among them.
pub fn run<O: Outputs>(
    sources: Vec<(Source, Seq)>,
    rules: Rules,
    cuts: &Cuts,
    oldest_tombstone: Option<u64>,
    outputs: &mut O,
) -> Result<Made> {
    run_on(Merging::new(sources), rules, cuts, oldest_tombstone, outputs)
}

/// As [`run`], for an input that is merged already: user keys ascending, newest first.
pub fn run_on<C: Cursor, O: Outputs>(
    input: C,
    rules: Rules,
    cuts: &Cuts,
    oldest_tombstone: Option<u64>,
    outputs: &mut O,
) -> Result<Made> {
    let tombstones: Fragments = retain_tombstones(&rules.tombstones, &rules.snapshots, &rules.beneath, rules.settle);
    let mut input = Retain::new(input, rules);
    let mut cutter = Cutter { cuts, next: 0 };
    let mut made = Made::default();
    let mut writer: Option<TableWriter> = None;
    let mut from: Vec<u8> = vec![];
    let mut last: Vec<u8> = vec![];
    while input.advance()? {
        let key = input.key();
        if let Some(w) = &writer
            && last != key
            && cutter.cut_before(key, w.estimated_size())
            && let Some(w) = writer.take()
        {
            last.push(0);
            made.tables.push(finish(w, &slice(&tombstones, &from, Some(&last)), oldest_tombstone)?);
            std::mem::swap(&mut from, &mut last);
        }
        let w = match &mut writer {
            Some(w) => w,
            None => {
                cutter.cut_before(key, 0);
                writer.insert(outputs.create()?)
            }
        };
        w.add(key, input.trailer(), input.value())?;
        outputs.added(key, input.trailer());
        if last != key {
            last.clear();
            last.extend_from_slice(key);
        }
        made.entries += 1;
        if made.entries.is_multiple_of(PROGRESS_EVERY) {
            outputs.progress()?;
        }
    }
    let rest = slice(&tombstones, &from, None);
    if writer.is_none() && !rest.is_empty() {
        writer = Some(outputs.create()?);
    }
    if let Some(w) = writer {
        made.tables.push(finish(w, &rest, oldest_tombstone)?);
    }
    made.dropped = input.dropped();
    Ok(made)
}

fn finish(mut w: TableWriter, tombstones: &Fragments, oldest: Option<u64>) -> Result<TableFacts> {
    let last = w.last_key().to_vec();
    w.set_tombstones(tombstones, oldest);
    let mut facts = w.finish()?;
    // The end of a range deletion is not covered by it. One that was cut behind a key ends in a zero byte, and then the key itself
    // is the exact bound: so the bounds of neighbouring tables never touch.
    if let Some(f) = tombstones.as_slice().last()
        && f.end > last
        && let Some((0, exact)) = f.end.split_last()
    {
        facts.last_key = exact.to_vec();
    }
    Ok(facts)
}

/// One set of range deletions out of several.
pub fn unite(sources: impl IntoIterator<Item = Arc<Fragments>>) -> Arc<Fragments> {
    let mut all: Vec<Arc<Fragments>> = sources.into_iter().filter(|f| !f.is_empty()).collect();
    match all.len() {
        0 => Arc::default(),
        1 => all.remove(0),
        _ => Arc::new(Fragments::build(all.iter().flat_map(|f| f.to_tombstones()).collect())),
    }
}
