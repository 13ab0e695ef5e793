//! Selects the versions that a flush or a compaction must retain.
//!
//! Snapshots divide the sequence numbers into *stripes*. Two versions are in one stripe if no
//! snapshot sees the older without the newer. Invariants of the output:
//! - R1: A reader at any live snapshot, or at the newest state, reads the same from the output as
//!   from the input.
//! - R2: At most one version of a key survives in each stripe. More survive only if merge operands
//!   cannot be combined.
//! - R3: A delete survives only while an older table outside the job may contain its key, or a
//!   snapshot may see the versions that it hides.
//! - R4: A put that every reader sees gets sequence number 0 if no older version exists anywhere.
//!   Exception: a range deletion of the input covers its key. An older range deletion retained for
//!   other keys would then hide the put.
//! - R5: The order is preserved: user key ascending, newest version first.
//!
//! A block of puts that overlaps no other input and no range deletion needs no per-entry checks:
//! [`Retain::whole_block`] returns it unchanged. Its puts retain their sequence numbers, which does
//! not change visibility. The same holds for the only entry of a block ([`Retain::lone_block`]).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::blob_ref::BlobHandle;
use crate::base::cursor::Cursor;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::{
    CompactionFilterPass, FilterDecision, FilterPrefix, MergeOperator, MergeResult,
};
use crate::base::key::{Kind, MAX_SEQ, MAX_VALUE_LEN, Seq, Trailer, head};
use crate::range_del::tombstone::{Fragment, Fragments};
use crate::sstable::WholeBlock;
use crate::util::hash::key_hash;
use crate::util::sorted_map::SortedSet;

use crate::iterator::merging::{MergeSource, Merging};
use crate::iterator::run::TableRun;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::visible::{VisibleRange, fold};

/// Reports, for keys in ascending order, whether any of some runs may contain the key.
pub struct OlderRuns {
    runs: Vec<(Arc<TableRun>, usize)>,
}

debug_by!(OlderRuns, "OlderRuns");

impl OlderRuns {
    /// Creates the check for these runs: all that are older than the job's inputs.
    pub fn new(runs: Vec<Arc<TableRun>>) -> OlderRuns {
        OlderRuns { runs: runs.into_iter().map(|r| (r, 0)).collect() }
    }

    /// Reports whether no run can contain `key`. Requires keys in ascending order.
    pub fn lacks_key(&mut self, key: &[u8]) -> bool {
        self.runs.iter_mut().all(|(run, at)| {
            while run.tables.get(*at).is_some_and(|t| t.meta.last_key.as_slice() < key) {
                *at += 1;
            }
            run.tables.get(*at).is_none_or(|t| t.meta.first_key.as_slice() > key)
        })
    }

    /// Reports whether no run can contain a key in `[start, end)`.
    pub fn lacks_range(&self, start: &[u8], end: &[u8]) -> bool {
        let reaches_in = |run: &TableRun| {
            run.tables
                .get(run.lower_bound(start))
                .is_some_and(|t| t.meta.first_key.as_slice() < end)
        };
        !self.runs.iter().any(|(run, _)| reaches_in(run))
    }
}

/// All tables of a tree outside a job. Reports whether any may contain an older version for an
/// entry that affects a range of keys.
pub struct OtherRuns {
    runs: Vec<Arc<TableRun>>,
    filter: Option<Arc<dyn FilterPrefix>>,
}

debug_by!(OtherRuns, "OtherRuns");

impl OtherRuns {
    /// Creates the check for these runs. `filter` defines the prefixes that their filters contain.
    pub fn new(runs: Vec<Arc<TableRun>>, filter: Option<Arc<dyn FilterPrefix>>) -> OtherRuns {
        OtherRuns { runs, filter }
    }

    /// Reports whether any table may contain a key in `[from, until)` written at or before `seq`.
    /// Tables with newer entries count too, because the keys of one table differ in age.
    pub fn may_hold_older(&self, from: &[u8], until: &[u8], seq: Seq) -> bool {
        let shared = self.filter.as_ref().and_then(|f| f.shared_len(from, until));
        let hash = shared.map(|n| key_hash(&from[..n]));
        self.runs.iter().any(|run| {
            let there = run.tables[run.lower_bound(from)..].iter();
            let mut there = there.take_while(|t| t.meta.first_key.as_slice() < until);
            // A table that cannot be opened may contain any key.
            let may_contain =
                |t: &TableHandle, hash| t.table().map_or(true, |table| table.may_contain(hash));
            there.any(|t| t.meta.min_seq <= seq && hash.is_none_or(|h| may_contain(t, h)))
        })
    }
}

/// Context of one flush or compaction, besides its input.
pub struct Rules {
    /// Key range of the job. Keys outside of it, and range deletions there, belong to other jobs.
    pub range: VisibleRange,
    /// Sequence numbers of live snapshots, ascending.
    pub snapshots: Vec<Seq>,
    /// Range deletions of the input.
    pub tombstones: Arc<Fragments>,
    /// Runs that are older than the inputs.
    pub older_runs: OlderRuns,
    /// All tables outside the job.
    pub outside: OtherRuns,
    /// Merge operator of the tree.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Compaction filter of the tree, for this job.
    pub compaction_filter: Option<Box<dyn CompactionFilterPass>>,
    /// Numbers of the blob files to collect. Blobs of these files come out as inline values.
    pub gc_files: Arc<SortedSet<u64>>,
    /// Whether all blobs come out as inline values, because the tree no longer separates values.
    pub inlines_blobs: bool,
    /// Whether sequence numbers may be set to 0 and the compaction filter applied. `false` in
    /// flushes, where older runs are not known.
    pub is_compaction: bool,
}

debug_by!(Rules, "Rules", snapshots, is_compaction);

/// Counts of dropped entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedVersions {
    /// Older versions of a key that no reader sees.
    pub shadowed: u64,
    /// Deletes without older versions.
    pub deletes: u64,
    /// Entries covered by a range deletion.
    pub covered: u64,
    /// Entries that the compaction filter dropped.
    pub filtered: u64,
}

/// An entry held by value.
type HeldVersion = (Trailer, Vec<u8>);

/// The version below the operands of a stripe.
enum Base {
    /// None in this stripe of the input. There may be one in an older stripe or table.
    Unknown,
    /// A put.
    Put(HeldVersion),
    /// A delete.
    Delete(HeldVersion),
    /// A range deletion.
    Covered,
}

enum ShownVersions {
    Nothing,
    Input,
    Replaced(Vec<u8>),
    Queue,
}

/// Result of [`Retain::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// Positioned at an entry that survives.
    Entry,
    /// Paused before the next surviving entry or the end, because many input entries were passed.
    NotYet,
    /// Reached the end.
    End,
}

/// Number of input entries after which [`Retain::advance`] returns, if they were dropped or
/// combined with others.
pub const STEP: u64 = 1024;

/// Iterator over the surviving entries of a sorted input.
pub struct Retain<C> {
    input: C,
    rules: Rules,
    /// Entries of the input passed since the last `take_passed`.
    passed: u64,
    started: bool,
    key: Vec<u8>,
    key_head: u64,
    /// Stripe of the last version of `key` that hides older ones.
    hides: Option<Seq>,
    shown: ShownVersions,
    trailer: Trailer,
    queue: VecDeque<HeldVersion>,
    /// End of the key range that the current entry affects.
    reach: Vec<u8>,
    dropped: DroppedVersions,
}

impl<C> std::fmt::Debug for Retain<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retain").finish_non_exhaustive()
    }
}

/// Returns the end of the stripe of `seq`: the oldest snapshot that sees it, or [`MAX_SEQ`] if only
/// the newest state does.
fn stripe(snapshots: &[Seq], seq: Seq) -> Seq {
    let i = snapshots.partition_point(|&s| s < seq);
    snapshots.get(i).copied().unwrap_or(MAX_SEQ)
}

impl<C: Cursor> Retain<C> {
    /// Creates an iterator over the surviving entries of `input`.
    pub fn new(input: C, rules: Rules) -> Self {
        Retain {
            input,
            rules,
            passed: 0,
            started: false,
            key: vec![],
            key_head: 0,
            hides: None,
            shown: ShownVersions::Nothing,
            trailer: Trailer(0),
            queue: VecDeque::new(),
            reach: vec![],
            dropped: DroppedVersions::default(),
        }
    }

    /// Returns the key of the current entry.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the trailer of the current entry.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// Loads the value of the current entry, which may be missing until then.
    pub fn complete(&mut self) -> Result<()> {
        if matches!(self.shown, ShownVersions::Input) { self.input.complete() } else { Ok(()) }
    }

    /// Returns the value of the current entry.
    pub fn value(&self) -> &[u8] {
        match &self.shown {
            ShownVersions::Input => self.input.value(),
            ShownVersions::Replaced(v) => v,
            ShownVersions::Queue => self.queue.front().map_or(&[], |(_, v)| v),
            ShownVersions::Nothing => &[],
        }
    }

    /// Returns the counts of entries dropped so far.
    pub fn dropped(&self) -> DroppedVersions {
        self.dropped
    }

    /// Returns the number of input entries passed since the last
    /// [`take_passed`](Self::take_passed).
    #[inline]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns [`passed`](Self::passed) and resets it to 0.
    pub fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    /// Moves to the next entry of the input.
    #[inline]
    fn pass(&mut self) -> Result<()> {
        self.passed += 1;
        self.input.next()
    }

    /// Moves from the current entry to the entry that follows it in the input.
    #[inline]
    fn leave(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.shown, ShownVersions::Nothing) {
            ShownVersions::Queue => {
                self.queue.pop_front();
            }
            ShownVersions::Input | ShownVersions::Replaced(_) => self.pass()?,
            ShownVersions::Nothing if !self.started => {
                self.started = true;
                match self.rules.range.from.as_slice() {
                    [] => self.input.first()?,
                    from => self.input.seek(from, Trailer::NEWEST)?,
                }
            }
            ShownVersions::Nothing => {}
        }
        Ok(())
    }

    /// Moves to the next surviving entry. Returns early after [`STEP`] entries have been passed
    /// since the last [`take_passed`](Self::take_passed).
    pub fn advance(&mut self) -> Result<Advanced> {
        self.leave()?;
        loop {
            if let Some((t, _)) = self.queue.front() {
                self.trailer = *t;
                self.shown = ShownVersions::Queue;
                return Ok(Advanced::Entry);
            }
            if !self.input.valid() {
                return Ok(Advanced::End);
            }
            if self.input.head() != self.key_head || self.input.key() != self.key.as_slice() {
                if self.is_after(self.input.key()) {
                    return Ok(Advanced::End);
                }
                self.new_key();
            }
            if self.judge()? {
                return Ok(Advanced::Entry);
            }
            if self.passed >= STEP && self.queue.is_empty() {
                return Ok(Advanced::NotYet);
            }
        }
    }

    /// Reports whether a key is after the range.
    #[inline]
    fn is_after(&self, key: &[u8]) -> bool {
        self.rules.range.until.as_deref().is_some_and(|u| key >= u)
    }

    fn new_key(&mut self) {
        self.hides = None;
        self.key.clear();
        if self.input.valid() {
            self.key.extend_from_slice(self.input.key());
            self.key_head = head(&self.key);
        }
    }

    /// Returns the newest range deletion of the current key in the stripe that ends at `stripe`.
    fn cover(&self, stripe: Seq) -> Seq {
        if self.rules.tombstones.is_empty() {
            return 0;
        }
        self.rules.tombstones.newest_covering(&self.key, stripe).unwrap_or(0)
    }

    /// Judges the entry at the input cursor. Returns `true` if it survives; otherwise the cursor
    /// has moved on.
    fn judge(&mut self) -> Result<bool> {
        let t = self.input.trailer();
        let stripe = stripe(&self.rules.snapshots, t.seq());
        if self.hides.is_some_and(|h| h == stripe) {
            self.dropped.shadowed += 1;
            self.pass()?;
            return Ok(false);
        }
        if self.cover(stripe) > t.seq() {
            self.dropped.covered += 1;
            self.pass()?;
            return Ok(false);
        }
        let oldest = self.rules.snapshots.first().is_none_or(|&s| t.seq() <= s);
        match t.kind() {
            Some(Kind::Merge) if self.rules.merge_operator.is_some() => {
                self.gather(stripe, oldest)?;
                return Ok(false);
            }
            Some(Kind::Merge) => {
                self.show(t);
                return Ok(true);
            }
            Some(Kind::Delete) => {
                self.hides = Some(stripe);
                if self.rules.is_compaction && oldest && self.rules.older_runs.lacks_key(&self.key)
                {
                    self.dropped.deletes += 1;
                    self.pass()?;
                    return Ok(false);
                }
            }
            Some(Kind::Put) => self.hides = Some(stripe),
            Some(Kind::Blob) => self.hides = Some(stripe),
            None => {
                return Err(Error::corruption(format!("an entry of unknown kind {}", t.0 as u8))
                    .keys(&self.key, &self.key));
            }
        }
        self.purge(t, stripe, oldest)
    }

    /// Reports whether no range deletion could hide the current key if its sequence number were 0
    /// (R4).
    fn can_zero_seq(&self) -> bool {
        self.rules.tombstones.covering(&self.key).is_none()
    }

    fn show(&mut self, t: Trailer) {
        self.trailer = t;
        self.shown = ShownVersions::Input;
    }

    /// Applies the compaction filter to the entry at the input cursor and shows the result.
    fn purge(&mut self, t: Trailer, stripe: Seq, oldest: bool) -> Result<bool> {
        let Some(mut kind) = t.kind() else { return Ok(false) };
        self.show(t);
        if kind == Kind::Blob || self.rules.compaction_filter.is_some() {
            self.input.complete()?;
        }
        if kind == Kind::Blob {
            if self.inline_blob(t)? {
                kind = Kind::Put;
            } else if self.rules.compaction_filter.is_some() {
                // Without a readable value the filter cannot judge the entry.
                return Ok(true);
            }
        }
        if !self.rules.is_compaction {
            return Ok(true);
        }
        // Without a filter the value is not needed and may not have been read.
        let value = match &self.rules.compaction_filter {
            Some(_) => shown(&self.shown, &self.input),
            None => &[],
        };
        let judged = Self::ask_compaction_filter(
            &mut self.rules,
            &mut self.reach,
            (&self.key, kind, value),
            (t.seq(), stripe, oldest),
        );
        match judged.verdict {
            FilterDecision::Keep => {}
            FilterDecision::Replace(v) => self.shown = ShownVersions::Replaced(v),
            FilterDecision::Drop => {
                self.dropped.filtered += 1;
                self.shown = ShownVersions::Nothing;
                self.pass()?;
                return Ok(false);
            }
        }
        // An entry that affects a range must retain its number, which shows which versions are
        // older.
        if judged.alone
            && !judged.reaches
            && let Some(kind @ (Kind::Put | Kind::Blob)) = self.trailer.kind()
            && self.can_zero_seq()
        {
            self.trailer = Trailer::new(0, kind);
        }
        Ok(true)
    }

    /// Applies the compaction filter to an entry (key, kind and value) with a sequence number in a
    /// stripe. Only the newest version of a key is judged.
    fn ask_compaction_filter(
        rules: &mut Rules,
        reach: &mut Vec<u8>,
        (key, kind, value): (&[u8], Kind, &[u8]),
        (seq, stripe, oldest): (Seq, Seq, bool),
    ) -> Judged {
        // A version that this job retains for a snapshot is an older version too, even if no other
        // table has the key.
        let mut alone = oldest && rules.older_runs.lacks_key(key);
        let (mut reaches, mut verdict) = (false, FilterDecision::Keep);
        if let Some(purge) = &mut rules.compaction_filter {
            if alone {
                reach.clear();
                reaches = purge.reach(key, value, reach);
                alone = !reaches || !rules.outside.may_hold_older(key, reach, seq);
            }
            if stripe == MAX_SEQ {
                verdict = purge.filter(key, kind, value, alone);
            }
        }
        Judged { verdict, alone, reaches }
    }

    /// Turns the current blob entry into a put, if its blob file is being collected or blobs are
    /// disabled. An unreadable value stays in its file: reads of it report the error, and other
    /// entries are not affected. Returns `false` if the entry is unchanged.
    fn inline_blob(&mut self, t: Trailer) -> Result<bool> {
        let is_in_gc = |r: BlobHandle| self.rules.gc_files.contains(&r.file);
        let wanted = self.rules.inlines_blobs
            || (!self.rules.gc_files.is_empty()
                && BlobHandle::decode(self.input.value()).is_some_and(is_in_gc));
        if !wanted {
            return Ok(false);
        }
        let mut value = vec![];
        match self.input.fetch_blob(&mut value) {
            Ok(()) => {
                self.trailer = Trailer::new(t.seq(), Kind::Put);
                self.shown = ShownVersions::Replaced(value);
                Ok(true)
            }
            Err(e) if matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Gathers the operands of one stripe from the input cursor on and queues the entries that
    /// replace them.
    fn gather(&mut self, stripe: Seq, oldest: bool) -> Result<()> {
        let cover = self.cover(stripe);
        let mut operands: Vec<HeldVersion> = vec![];
        let mut base = Base::Unknown;
        while self.input.valid() && self.input.key() == self.key.as_slice() {
            let t = self.input.trailer();
            if self::stripe(&self.rules.snapshots, t.seq()) != stripe {
                break;
            }
            if t.seq() < cover {
                base = Base::Covered;
                break;
            }
            self.input.complete()?;
            let mut held = (t, self.input.value().to_vec());
            if t.kind() == Some(Kind::Blob) {
                self.input.fetch_blob(&mut held.1)?;
                held.0 = Trailer::new(t.seq(), Kind::Put);
            }
            self.pass()?;
            match t.kind() {
                Some(Kind::Merge) => operands.push(held),
                Some(Kind::Put | Kind::Blob) => base = Base::Put(held),
                Some(Kind::Delete) | None => base = Base::Delete(held),
            }
            if !matches!(base, Base::Unknown) {
                break;
            }
        }
        if !matches!(base, Base::Unknown) {
            self.hides = Some(stripe);
        }
        let ended = !(self.input.valid() && self.input.key() == self.key.as_slice());
        let bottom =
            oldest && self.rules.is_compaction && self.rules.older_runs.lacks_key(&self.key);
        let known = !matches!(base, Base::Unknown) || (ended && bottom);
        if known && self.fold(&operands, &base, bottom, (stripe, oldest)) {
            return Ok(());
        }
        self.combine(operands);
        match base {
            Base::Put(held) | Base::Delete(held) => self.queue.push_back(held),
            Base::Unknown | Base::Covered => {}
        }
        Ok(())
    }

    /// Queues the entry that the operands (newest first) and their base fold to, unless the
    /// compaction filter drops it. Returns `false` if the merge operator fails.
    fn fold(
        &mut self,
        operands: &[HeldVersion],
        base: &Base,
        bottom: bool,
        (stripe, oldest): (Seq, bool),
    ) -> bool {
        let values: Vec<Vec<u8>> = operands.iter().rev().map(|(_, v)| v.clone()).collect();
        let under = if let Base::Put((_, v)) = base { Some(v.as_slice()) } else { None };
        let Ok(folded) = fold(self.rules.merge_operator.as_deref(), &self.key, under, &values)
        else {
            return false;
        };
        let seq = operands.first().map_or(0, |(t, _)| t.seq());
        self.dropped.shadowed +=
            operands.len() as u64 - 1 + matches!(base, Base::Put(_) | Base::Delete(_)) as u64;
        match folded {
            MergeResult::Value(mut v) => {
                let mut reaches = false;
                if self.rules.is_compaction && self.rules.compaction_filter.is_some() {
                    let entry = (&*self.key, Kind::Put, &*v);
                    let judged = Self::ask_compaction_filter(
                        &mut self.rules,
                        &mut self.reach,
                        entry,
                        (seq, stripe, oldest),
                    );
                    reaches = judged.reaches;
                    match judged.verdict {
                        FilterDecision::Keep => {}
                        FilterDecision::Replace(other) => v = other,
                        FilterDecision::Drop => {
                            self.dropped.filtered += 1;
                            return true;
                        }
                    }
                }
                let seq = if bottom && !reaches && self.can_zero_seq() { 0 } else { seq };
                self.queue.push_back((Trailer::new(seq, Kind::Put), v));
            }
            MergeResult::Absent if bottom => self.dropped.deletes += 1,
            MergeResult::Absent => self.queue.push_back((Trailer::new(seq, Kind::Delete), vec![])),
        }
        true
    }

    /// Queues operands (newest first), combining neighbours if the merge operator can.
    fn combine(&mut self, operands: Vec<HeldVersion>) {
        let mut oldest_first: Vec<HeldVersion> = vec![];
        for (t, v) in operands.into_iter().rev() {
            let joined = match (&self.rules.merge_operator, oldest_first.last()) {
                (Some(m), Some((_, older))) => m
                    .partial_merge(&self.key, older, &v)
                    .filter(|joined| joined.len() <= MAX_VALUE_LEN),
                _ => None,
            };
            match (joined, oldest_first.last_mut()) {
                (Some(j), Some(last)) => {
                    self.dropped.shadowed += 1;
                    *last = (t, j);
                }
                _ => oldest_first.push((t, v)),
            }
        }
        self.queue.extend(oldest_first.into_iter().rev());
    }
}

/// Result of the compaction filter for an entry.
struct Judged {
    verdict: FilterDecision,
    /// Whether there is no older version outside the job, of the key or of the range that it
    /// affects.
    alone: bool,
    /// Whether the entry affects a range.
    reaches: bool,
}

/// Returns the value of an input entry, or the blob that replaced it.
fn shown<'a>(versions: &'a ShownVersions, input: &'a impl Cursor) -> &'a [u8] {
    match versions {
        ShownVersions::Replaced(v) => v,
        _ => input.value(),
    }
}

impl Retain<Merging<MergeSource>> {
    /// Leaves the current entry. Returns a block if all of it survives unchanged and no other entry
    /// is between its entries. The caller either copies the block and then calls
    /// [`pass_block`](Self::pass_block), or calls [`advance`](Self::advance), which returns its
    /// entries.
    #[inline]
    pub fn whole_block(&mut self) -> Result<Option<WholeBlock<'_>>> {
        self.leave()?;
        // Called for every entry, so the common negative case is checked first.
        if self.input.is_at_start() { Ok(self.block_here()) } else { Ok(None) }
    }

    #[inline(never)]
    fn block_here(&self) -> Option<WholeBlock<'_>> {
        if !self.queue.is_empty() || self.rules.compaction_filter.is_some() {
            return None;
        }
        let tombstones = &self.rules.tombstones;
        let free = |b: &WholeBlock<'_>| {
            b.first_key() != self.key.as_slice()
                && !self.is_after(b.separator())
                && !tombstones.touches(b.first_key(), b.separator())
        };
        self.input.whole_block().filter(free)
    }

    /// Returns the block of the current entry if the entry is its only one, survives unchanged, and
    /// hides all older versions of its key. The entry retains its sequence number.
    #[inline]
    pub fn lone_block(&self) -> Option<WholeBlock<'_>> {
        if !matches!(self.shown, ShownVersions::Input) || !self.input.is_lone() {
            return None;
        }
        let seq = self.input.trailer().seq();
        let hides_all = self.rules.snapshots.first().is_none_or(|&s| seq <= s);
        self.input.lone_block().filter(|_| hides_all)
    }

    /// Leaves the block of `entries` entries that [`whole_block`](Self::whole_block) returned.
    pub fn pass_block(&mut self, entries: u64) -> Result<()> {
        self.passed += entries;
        self.input.pass_block()
    }
}

/// Returns the range deletions that must survive. A reader may still need them, because a snapshot
/// sees the versions that they hide or because older runs may contain such versions.
pub fn retain_tombstones(
    tombstones: &Fragments,
    snapshots: &[Seq],
    older_runs: &OlderRuns,
    is_compaction: bool,
) -> Fragments {
    let mut out = vec![];
    for f in tombstones.as_slice() {
        let alone = is_compaction && older_runs.lacks_range(&f.start, &f.end);
        let mut last = None;
        let mut seqs = vec![];
        for &seq in &f.seqs {
            let stripe = stripe(snapshots, seq);
            let oldest = snapshots.first().is_none_or(|&s| seq <= s);
            if last == Some(stripe) || (alone && oldest) {
                continue;
            }
            last = Some(stripe);
            seqs.push(seq);
        }
        if !seqs.is_empty() {
            out.push(Fragment { start: f.start.clone(), end: f.end.clone(), seqs });
        }
    }
    Fragments::from_parts(out)
}
