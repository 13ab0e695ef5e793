//! Writes the output tables of a flush or a compaction: merges sorted sources and retains the
//! required entries.
//!
//! Invariants:
//! - Outputs are sorted and disjoint in user keys. All versions of a key go to one table.
//! - A range deletion is split where outputs are split: at the successor of the last key of a
//!   table. So bounds of neighbouring tables never touch, no key is between them, and every bound
//!   is itself a key.
//! - A put with a long value goes to a blob file, and the table refers to it. An existing reference
//!   to a blob is preserved, unless its blob file is being collected.
//! - A block that no other input overlaps is copied as stored. This retains the same entries at
//!   lower cost. The same applies to a block with a single entry that survives as the only version
//!   of its key.
//! - All outputs of a job over a key range are in that range, including range deletions, which are
//!   split at its ends. So jobs over adjacent ranges produce the same as one job over all of them,
//!   except for the table boundaries.
//! - Every output is synced when it is reported; nothing is installed here.

use std::sync::Arc;

use crate::base::blob_ref::{BlobFileMeta, BlobHandle};
use crate::base::cursor::Cursor;
use crate::base::error::{Error, Result};
use crate::base::facts::TableFacts;
use crate::base::key::{Kind, Seq, Trailer, successor};
use crate::block_cache::FrameRef;
use crate::compaction::OutputSplits;
use crate::iterator::merging::{MergeSource, Merging};
use crate::range_del::deletions::Deletions;
use crate::range_del::tombstone::Fragments;
use crate::rewrite::retain::{Advanced, DroppedVersions, Retain, Rules, STEP, retain_tombstones};
use crate::sstable::{BlobWriter, TableWriter, WarmBlocks, WholeBlock};

/// Approximate maximum of output bytes between two calls of [`Outputs::progress`]; the maximum of
/// input entries is [`STEP`]. A copied block and the merge operands of one key are not interrupted.
const STEP_BYTES: u64 = 256 << 10;

/// Creates the writers of a job's outputs and may stop the job.
pub trait Outputs {
    /// Returns a writer for the next output table.
    fn create(&mut self) -> Result<TableWriter>;
    /// Returns the minimum length in bytes of a value that goes to a blob file.
    fn blob_from(&self) -> usize {
        usize::MAX
    }
    /// Returns a writer for the next blob file. Called only for values of at least that length.
    fn create_blob_file(&mut self) -> Result<BlobWriter> {
        Err(Error::invalid("this job writes no blob files"))
    }
    /// Called before [`added`](Outputs::added) with the location of the blob, if the value of the
    /// entry was written to a blob file.
    #[inline]
    fn put_blob(&mut self, place: &BlobHandle) {
        let _ = place;
    }
    /// Called periodically with the number of input entries passed since the last call, including
    /// dropped ones. An error stops the job.
    fn progress(&mut self, entries: u64) -> Result<()>;
    /// Called before [`progress`](Outputs::progress) with the memory in bytes that the unfinished
    /// table uses and needs until it is finished, besides written data.
    fn holds(&mut self, bytes: usize) {
        let _ = bytes;
    }
    /// Called after an entry was added individually (not with a copied block) to the current table.
    #[inline]
    fn added(&mut self, key: &[u8], trailer: Trailer) {
        let _ = (key, trailer);
    }
    /// Called when table `id` is complete and on disk.
    fn finished(&mut self, id: u64, warm: WarmBlocks) {
        let _ = (id, warm);
    }
    /// Called when blob file `id` is complete and on disk. `frames` are its cached blocks, by
    /// number: those for which the cache had room.
    fn finished_blobs(&mut self, id: u64, frames: Vec<(u32, FrameRef)>) {
        let _ = (id, frames);
    }
}

/// Outputs of a job.
#[derive(Debug, Default)]
pub struct CompactionOutputs {
    /// Metadata of the output tables, in key order.
    pub tables: Vec<TableFacts>,
    /// Metadata of the blob files written for them.
    pub values: Vec<BlobFileMeta>,
    /// Number of entries written.
    pub entries: u64,
    /// Number of blocks copied as stored.
    pub copied: u64,
    /// Counts of dropped entries.
    pub dropped: DroppedVersions,
}

/// Minimum table size for a split by size, in bytes per byte of the table's bounds. The manifest
/// repeats the bounds, so small tables with long keys would make the manifest as large as the data.
const BYTES_PER_BOUND: u64 = 8;

/// Size in bytes at which a blob file is finished. Larger files mean fewer files, but more bytes to
/// rewrite to reclaim garbage.
const BLOB_FILE: u64 = 256 << 20;

/// Decides where the output is split.
struct TableCutter<'a> {
    cuts: &'a OutputSplits,
    next: usize,
}

impl TableCutter<'_> {
    /// Reports whether a table of `size` bytes must end before `key`. `bounds` is the total length
    /// of its first and last key.
    fn cut_before(&mut self, key: &[u8], size: u64, bounds: usize) -> bool {
        let from = self.next;
        while self.cuts.at.get(self.next).is_some_and(|b| &**b <= key) {
            self.next += 1;
        }
        self.next > from || size >= self.cuts.size.max(bounds as u64 * BYTES_PER_BOUND)
    }

    /// Reports whether a table that continues must end before `key` or an earlier key.
    fn cuts_before(&self, key: &[u8]) -> bool {
        self.cuts.at.get(self.next).is_some_and(|b| &**b <= key)
    }
}

/// Merges `sources` (newest first) into output tables, and copies blocks that no other input
/// overlaps. `oldest_tombstone` is the wall-clock time in microseconds of the oldest deletion in
/// the sources.
///
/// # Errors
/// Errors of the sources and of `outputs`.
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

/// Does the same as [`run`], entry by entry, for an input that is already merged: user keys
/// ascending, newest version first.
///
/// # Errors
/// Errors of the input and of `outputs`.
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

/// The unfinished output tables.
struct Output<'a, O> {
    tombstones: Fragments,
    oldest_tombstone: Option<u64>,
    cutter: TableCutter<'a>,
    outputs: &'a mut O,
    writer: Option<TableWriter>,
    values: Option<BlobWriter>,
    /// Minimum length in bytes of a value that goes to a blob file.
    blob_from: usize,
    reference: Vec<u8>,
    /// Start of the range deletions of the current table.
    from: Vec<u8>,
    /// The key added last.
    last: Vec<u8>,
    made: CompactionOutputs,
    /// Bytes added since progress was last reported.
    unreported: u64,
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
                &rules.older_runs,
                rules.is_compaction,
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
            unreported: 0,
        }
    }

    /// Returns the writer for an entry of `key`.
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
            // `key` is greater than the last key, so there is a successor.
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

    /// Adds the next entry that survives, by copying its block if `lone` returns one. Returns
    /// `false` at the end.
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

    /// Reports the progress if it is sufficient.
    #[inline]
    fn tell<C: Cursor>(&mut self, input: &mut Retain<C>) -> Result<()> {
        if input.passed() < STEP && self.unreported < STEP_BYTES {
            return Ok(());
        }
        self.unreported = 0;
        self.outputs.holds(self.writer.as_ref().map_or(0, TableWriter::buffered));
        self.outputs.progress(input.take_passed())
    }

    #[inline]
    fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        if value.len() >= self.blob_from && trailer.kind() == Some(Kind::Put) {
            self.add_blob(key, trailer, value)?;
        } else {
            self.writer(key)?.add(key, trailer, value)?;
        }
        self.outputs.added(key, trailer);
        if self.last != key {
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        self.made.entries += 1;
        self.unreported += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Adds a put whose value goes to a blob file.
    fn add_blob(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        if let Some(full) = self.values.take_if(|w| w.size() >= BLOB_FILE) {
            self.finish_values(full)?;
        }
        let values = match &mut self.values {
            Some(w) => w,
            none => none.insert(self.outputs.create_blob_file()?),
        };
        let place = values.add(key, trailer.seq(), value)?;
        let mut reference = std::mem::take(&mut self.reference);
        reference.clear();
        place.encode(&mut reference);
        self.outputs.put_blob(&place);
        let added = self
            .writer(key)
            .and_then(|w| w.add(key, Trailer::new(trailer.seq(), Kind::Blob), &reference));
        self.reference = reference;
        added
    }

    fn finish_values(&mut self, w: BlobWriter) -> Result<()> {
        let (facts, frames) = w.finish()?;
        self.outputs.finished_blobs(facts.id, frames);
        self.made.values.push(facts);
        Ok(())
    }

    /// Copies a block as stored. Returns `false` if its entries must be added one by one.
    fn copy(&mut self, block: &WholeBlock<'_>) -> Result<bool> {
        // The block may contain long values, which must go to a blob file.
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
        self.unreported += w.estimated_size().saturating_sub(before);
        Ok(true)
    }

    /// Finishes the last table; `dropped` are the counts of entries that the input dropped.
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
    // A range deletion does not cover its end. If it was split after the last key, that key is the
    // exact bound. If its end has a final zero byte, the key before that byte is. So bounds of
    // neighbouring tables never touch.
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

/// Merges several sets of range deletions into one, with all that readers at these snapshots
/// (ascending) and of the newest state need.
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
