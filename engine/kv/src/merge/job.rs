//! Writes the output tables of a flush or a compaction: sorted sources in, what must be kept out.
//!
//! Invariants:
//! - Outputs are sorted and disjoint in user keys; all versions of a key go to one table.
//! - A range deletion is cut where the outputs are cut: at the successor of the last key of a
//!   table, so that the bounds of neighbouring tables never touch, no key falls between them, and
//!   every bound is a key itself.
//! - A put whose value is long goes to a value file, and the table refers to it; what refers to one
//!   already goes on doing so, unless that file is given up.
//! - A block that nothing else overlaps is copied as it is stored: no less is kept, only sooner. So is
//!   one of a single entry that survives as the only version of its key.
//! - Of a job over a range of keys all outputs lie in it, deletions too, which are cut at its ends.
//!   So several jobs over neighbouring ranges make what one over all of them makes, but for where
//!   tables begin.
//! - Every output is synced when it is reported; nothing is installed here.

use std::sync::Arc;

use super::merging::{MergeSource, Merging};
use super::retain::{Advanced, DroppedVersions, Retain, Rules, STEP, retain_tombstones};
use crate::base::blob_ref::{BlobFileMeta, BlobHandle};
use crate::base::cursor::Cursor;
use crate::base::deletions::Deletions;
use crate::base::error::{Error, Result};
use crate::base::facts::TableFacts;
use crate::base::key::{Kind, Seq, Trailer, successor};
use crate::base::tombstone::Fragments;
use crate::cache::FrameRef;
use crate::compaction::OutputSplits;
use crate::sstable::{TableWriter, ValueWriter, WarmBlocks, WholeBlock};

/// About so many bytes of output at most lie between two calls of [`Outputs::progress`], and
/// [`STEP`] entries of the input. What is not cut is a block that is copied, and the merge operands
/// of one key.
const STEP_BYTES: u64 = 256 << 10;

/// Makes the writers of a job's outputs and may stop the job.
pub trait Outputs {
    /// A writer for the next output table.
    fn create(&mut self) -> Result<TableWriter>;
    /// How long a value is, in bytes, that goes to a value file.
    fn blob_from(&self) -> usize {
        usize::MAX
    }
    /// A writer for the next value file. Asked only for values that long.
    fn create_values(&mut self) -> Result<ValueWriter> {
        Err(Error::invalid("this job writes no value files"))
    }
    /// Called before [`added`](Outputs::added), where the value of the entry has gone to a value
    /// file: its place there.
    #[inline]
    fn put_apart(&mut self, place: &BlobHandle) {
        let _ = place;
    }
    /// Called now and then, with the entries of the input passed since, whether they came out or
    /// not; an error stops the job.
    fn progress(&mut self, entries: u64) -> Result<()>;
    /// Called before [`progress`](Outputs::progress), with the bytes of memory that the table in the
    /// making takes, and will take to be finished, beside those that are written.
    fn holds(&mut self, bytes: usize) {
        let _ = bytes;
    }
    /// Called after an entry has been added by itself (not with a copied block) to the table made
    /// last.
    #[inline]
    fn added(&mut self, key: &[u8], trailer: Trailer) {
        let _ = (key, trailer);
    }
    /// Table `id` is whole and on disk.
    fn finished(&mut self, id: u64, warm: WarmBlocks) {
        let _ = (id, warm);
    }
    /// Value file `id` is; `frames` are those of its values for which the cache had room, by their
    /// numbers.
    fn finished_values(&mut self, id: u64, frames: Vec<(u32, FrameRef)>) {
        let _ = (id, frames);
    }
}

/// What a job has made.
#[derive(Debug, Default)]
pub struct CompactionOutputs {
    /// The facts of the output tables, in key order.
    pub tables: Vec<TableFacts>,
    /// The facts of the value files that were written for them.
    pub values: Vec<BlobFileMeta>,
    /// Entries written.
    pub entries: u64,
    /// Blocks that were copied as they are.
    pub copied: u64,
    /// What was left out.
    pub dropped: DroppedVersions,
}

/// A table is not cut for its size before it has this many bytes for each byte of its bounds, which
/// the manifest repeats: else small tables of long keys make a manifest as large as the data.
const BYTES_PER_BOUND: u64 = 8;

/// A value file is not written on when it has so many bytes: the larger they are, the fewer there
/// are, and the more of one must be written again to win back what nobody refers to.
const VALUE_FILE: u64 = 256 << 20;

/// Where the output is cut.
struct TableCutter<'a> {
    cuts: &'a OutputSplits,
    next: usize,
}

impl TableCutter<'_> {
    /// Whether a table of `size` bytes, whose first and last key have `bounds` bytes together, must
    /// end before `key`.
    fn cut_before(&mut self, key: &[u8], size: u64, bounds: usize) -> bool {
        let from = self.next;
        while self.cuts.at.get(self.next).is_some_and(|b| &**b <= key) {
            self.next += 1;
        }
        self.next > from || size >= self.cuts.size.max(bounds as u64 * BYTES_PER_BOUND)
    }

    /// Whether a table that goes on must end before `key` or an earlier one.
    fn cuts_before(&self, key: &[u8]) -> bool {
        self.cuts.at.get(self.next).is_some_and(|b| &**b <= key)
    }
}

/// Merges `sources` (newest first) into output tables; blocks that nothing else overlaps are
/// copied. `oldest_tombstone` is the wall clock in microseconds of the oldest deletion among them.
///
/// # Errors
/// Those of the sources and of `outputs`.
pub fn run<O: Outputs>(
    sources: Vec<MergeSource>,
    rules: Rules,
    cuts: &OutputSplits,
    oldest_tombstone: Option<u64>,
    outputs: &mut O,
) -> Result<CompactionOutputs> {
    let mut out = Output::new(&rules, cuts, oldest_tombstone, outputs);
    let mut merging = Merging::new(sources);
    merging.defer_values();
    let mut input = Retain::new(merging, rules);
    loop {
        if let Some(block) = input.whole_block()?
            && out.copy(&block)?
        {
            let entries = block.len() as u64;
            input.pass_block(entries)?;
            out.tell(&mut input)?;
        } else if !out.add_next(&mut input, Retain::lone_block)? {
            return out.finish(input.dropped());
        }
    }
}

/// As [`run`], entry by entry, for an input that is merged already: user keys ascending, newest
/// first.
///
/// # Errors
/// Those of the input and of `outputs`.
pub fn run_on<C: Cursor, O: Outputs>(
    input: C,
    rules: Rules,
    cuts: &OutputSplits,
    oldest_tombstone: Option<u64>,
    outputs: &mut O,
) -> Result<CompactionOutputs> {
    let mut out = Output::new(&rules, cuts, oldest_tombstone, outputs);
    let mut input = Retain::new(input, rules);
    while out.add_next(&mut input, |_| None)? {}
    out.finish(input.dropped())
}

/// The tables in the making.
struct Output<'a, O> {
    tombstones: Fragments,
    oldest_tombstone: Option<u64>,
    cutter: TableCutter<'a>,
    outputs: &'a mut O,
    writer: Option<TableWriter>,
    values: Option<ValueWriter>,
    /// How long a value is that goes there.
    blob_from: usize,
    reference: Vec<u8>,
    /// Where the range deletions of the table in the making begin.
    from: Vec<u8>,
    /// The key added last.
    last: Vec<u8>,
    made: CompactionOutputs,
    /// Bytes added since progress was told.
    untold: u64,
}

impl<'a, O: Outputs> Output<'a, O> {
    fn new(
        rules: &Rules,
        cuts: &'a OutputSplits,
        oldest_tombstone: Option<u64>,
        outputs: &'a mut O,
    ) -> Self {
        let range = &rules.range;
        let tombstones = rules.tombstones.slice(&range.from, range.until.as_deref());
        Output {
            tombstones: retain_tombstones(
                &tombstones,
                &rules.snapshots,
                &rules.beneath,
                rules.zero_seqs,
            ),
            oldest_tombstone,
            cutter: TableCutter { cuts, next: 0 },
            blob_from: outputs.blob_from(),
            outputs,
            writer: None,
            values: None,
            reference: vec![],
            from: range.from.clone(),
            last: vec![],
            made: CompactionOutputs::default(),
            untold: 0,
        }
    }

    /// The writer for an entry of `key`.
    #[inline]
    fn writer(&mut self, key: &[u8]) -> Result<&mut TableWriter> {
        if let Some(w) = &self.writer
            && self.last != key
            && self.cutter.cut_before(
                key,
                w.estimated_size(),
                w.first_key().len() + self.last.len(),
            )
            && let Some(w) = self.writer.take()
        {
            // `key` is greater than the last, so there is a successor.
            let until = successor(&self.last);
            debug_assert!(until.as_deref().is_some_and(|u| u <= key), "keys out of order");
            let tombstones = self.tombstones.slice(&self.from, until.as_deref());
            self.made.tables.push(finish(w, &tombstones, self.oldest_tombstone, self.outputs)?);
            self.from = until.unwrap_or_default();
        }
        match &mut self.writer {
            Some(w) => Ok(w),
            none => {
                self.cutter.cut_before(key, 0, 0);
                Ok(none.insert(self.outputs.create()?))
            }
        }
    }

    /// Adds the next entry that survives, by copying its block where `lone` gives one. False at the
    /// end.
    #[inline]
    fn add_next<C: Cursor>(
        &mut self,
        input: &mut Retain<C>,
        lone: impl Fn(&Retain<C>) -> Option<WholeBlock<'_>>,
    ) -> Result<bool> {
        loop {
            let advanced = input.advance()?;
            match advanced {
                Advanced::Entry => {
                    let block = lone(input).filter(|b| self.last != b.first_key());
                    if !block.map_or(Ok(false), |b| self.copy(&b))? {
                        input.complete()?;
                        self.add(input.key(), input.trailer(), input.value())?;
                    }
                }
                Advanced::NotYet => {}
                Advanced::End => return Ok(false),
            }
            self.tell(input)?;
            if advanced == Advanced::Entry {
                return Ok(true);
            }
        }
    }

    /// Tells of the progress, when there was enough.
    #[inline]
    fn tell<C: Cursor>(&mut self, input: &mut Retain<C>) -> Result<()> {
        if input.passed() < STEP && self.untold < STEP_BYTES {
            return Ok(());
        }
        self.untold = 0;
        self.outputs.holds(self.writer.as_ref().map_or(0, TableWriter::buffered));
        self.outputs.progress(input.take_passed())
    }

    #[inline]
    fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        if value.len() >= self.blob_from && trailer.kind() == Some(Kind::Put) {
            self.add_apart(key, trailer, value)?;
        } else {
            self.writer(key)?.add(key, trailer, value)?;
        }
        self.outputs.added(key, trailer);
        if self.last != key {
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        self.made.entries += 1;
        self.untold += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Adds a put whose value goes to a value file.
    fn add_apart(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        if let Some(full) = self.values.take_if(|w| w.size() >= VALUE_FILE) {
            self.finish_values(full)?;
        }
        let values = match &mut self.values {
            Some(w) => w,
            none => none.insert(self.outputs.create_values()?),
        };
        let place = values.add(key, trailer.seq(), value)?;
        let mut reference = std::mem::take(&mut self.reference);
        reference.clear();
        place.encode(&mut reference);
        self.outputs.put_apart(&place);
        let added = self
            .writer(key)
            .and_then(|w| w.add(key, Trailer::new(trailer.seq(), Kind::Blob), &reference));
        self.reference = reference;
        added
    }

    fn finish_values(&mut self, w: ValueWriter) -> Result<()> {
        let (facts, frames) = w.finish()?;
        self.outputs.finished_values(facts.id, frames);
        self.made.values.push(facts);
        Ok(())
    }

    /// Copies a block as it is. False when its entries must be added one by one.
    fn copy(&mut self, block: &WholeBlock<'_>) -> Result<bool> {
        // Of a table with long values they may be in this block, and are to lie apart.
        if block.largest_entry() >= self.blob_from as u64 {
            return Ok(false);
        }
        self.writer(block.first_key())?;
        let Some(w) = &mut self.writer else { return Ok(false) };
        let before = w.estimated_size();
        if self.cutter.cuts_before(block.separator()) || !w.copy(block)? {
            return Ok(false);
        }
        self.last.clear();
        self.last.extend_from_slice(w.last_key());
        self.made.copied += 1;
        self.made.entries += block.len() as u64;
        self.untold += w.estimated_size().saturating_sub(before);
        Ok(true)
    }

    /// Ends the last table; `dropped` is what the input left out.
    fn finish(mut self, dropped: DroppedVersions) -> Result<CompactionOutputs> {
        let rest = self.tombstones.slice(&self.from, None);
        if self.writer.is_none() && !rest.is_empty() {
            self.writer = Some(self.outputs.create()?);
        }
        if let Some(w) = self.writer.take() {
            self.made.tables.push(finish(w, &rest, self.oldest_tombstone, self.outputs)?);
        }
        if let Some(w) = self.values.take() {
            self.finish_values(w)?;
        }
        self.made.dropped = dropped;
        Ok(self.made)
    }
}

fn finish<O: Outputs>(
    mut w: TableWriter,
    tombstones: &Fragments,
    oldest: Option<u64>,
    outputs: &mut O,
) -> Result<TableFacts> {
    let last = w.last_key().to_vec();
    w.set_tombstones(tombstones, oldest);
    let (mut facts, warm) = w.finish_warm()?;
    outputs.finished(facts.id, warm);
    // The end of a range deletion is not covered by it. Of one that was cut behind the last key
    // that key is the exact bound, of any other that ends in a zero byte what is before it: so the
    // bounds of neighbouring tables never touch.
    if let Some(f) = tombstones.as_slice().last()
        && f.end > last
    {
        if successor(&last).as_ref() == Some(&f.end) {
            facts.last_key = last;
        } else if let Some((0, exact)) = f.end.split_last() {
            facts.last_key = exact.to_vec();
        }
    }
    Ok(facts)
}

/// One set of range deletions out of several: what readers at these snapshots (ascending) and of
/// the newest state need of them.
pub fn unite(sources: &[Arc<Fragments>], snapshots: &[Seq]) -> Arc<Fragments> {
    match sources {
        [] => Arc::default(),
        [one] => one.clone(),
        _ => {
            let all = sources.iter().flat_map(|f| f.as_slice());
            let all = all.flat_map(|f| {
                f.seqs.iter().map(|&seq| (f.start.as_slice(), f.end.as_slice(), seq))
            });
            Arc::new(Deletions::build(all).fragments(snapshots))
        }
    }
}
