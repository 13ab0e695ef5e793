//! Which versions a flush or a compaction must keep.
//!
//! Snapshots cut the sequence numbers into *stripes*: two versions lie in one stripe when no
//! snapshot can see the older without the newer. Invariants of what comes out:
//! - R1: a reader at any live snapshot, or at the newest state, sees the same through the output as
//!   through the input.
//! - R2: of one stripe at most one version of a key survives (more only where merge operands cannot
//!   be combined).
//! - R3: a delete survives only while an older table outside the job may hold its key, or a
//!   snapshot may see what it hides.
//! - R4: a put that every reader sees, and under which nothing older lies anywhere, loses its
//!   sequence number (becomes 0). Not where a range deletion of the input covers its key: an older
//!   one that is kept for its other keys would hide the put then.
//! - R5: order is kept: user key ascending, newest first.
//!
//! A block of puts that no other input and no range deletion overlaps needs no judging:
//! [`Retain::whole_block`] gives it as it is. Its puts keep their sequence numbers, which hides and
//! uncovers nothing. The same holds of the only entry of a block ([`Retain::lone_block`]).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::base::blob_ref::BlobHandle;
use crate::base::cursor::Cursor;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hash::key_hash;
use crate::base::hooks::{FilterPrefix, Folded, Merge, PurgePass, Verdict};
use crate::base::key::{Kind, MAX_SEQ, MAX_VALUE_LEN, Seq, Trailer, head};
use crate::base::tombstone::{Fragment, Fragments};
use crate::sstable::WholeBlock;

use super::merging::{MergeSource, Merging};
use super::run::{TableHandle, TableRun};
use super::visible::{VisibleRange, fold};

/// Answers, for keys in ascending order, whether any of some runs may hold the key.
pub struct OlderRuns {
    runs: Vec<(Arc<TableRun>, usize)>,
}

debug_by!(OlderRuns, "OlderRuns");

impl OlderRuns {
    /// Asks about these runs: all that are older than the job's inputs.
    pub fn new(runs: Vec<Arc<TableRun>>) -> OlderRuns {
        OlderRuns { runs: runs.into_iter().map(|r| (r, 0)).collect() }
    }

    /// Whether no run can hold `key`. Keys must be asked in ascending order.
    pub fn is_alone(&mut self, key: &[u8]) -> bool {
        self.runs.iter_mut().all(|(run, at)| {
            while run.tables.get(*at).is_some_and(|t| t.meta.last_key.as_slice() < key) {
                *at += 1;
            }
            run.tables.get(*at).is_none_or(|t| t.meta.first_key.as_slice() > key)
        })
    }

    /// Whether no run can hold a key in `[start, end)`.
    pub fn is_range_alone(&self, start: &[u8], end: &[u8]) -> bool {
        let reaches_in = |run: &TableRun| {
            run.tables
                .get(run.lower_bound(start))
                .is_some_and(|t| t.meta.first_key.as_slice() < end)
        };
        !self.runs.iter().any(|(run, _)| reaches_in(run))
    }
}

/// All tables of a tree outside of a job: whether any may hold something older than an entry that
/// speaks for a range of keys.
pub struct OtherRuns {
    runs: Vec<Arc<TableRun>>,
    filter: Option<Arc<dyn FilterPrefix>>,
}

debug_by!(OtherRuns, "OtherRuns");

impl OtherRuns {
    /// Asks these runs, whose filters hold what `filter` says.
    pub fn new(runs: Vec<Arc<TableRun>>, filter: Option<Arc<dyn FilterPrefix>>) -> OtherRuns {
        OtherRuns { runs, filter }
    }

    /// Whether any table may hold a key in `[from, until)` that was written up to `seq`. A newer
    /// table may: keys of one table are not all of one age.
    pub fn may_hold_older(&self, from: &[u8], until: &[u8], seq: Seq) -> bool {
        let shared = self.filter.as_ref().and_then(|f| f.shared_len(from, until));
        let hash = shared.map(|n| key_hash(&from[..n]));
        self.runs.iter().any(|run| {
            let there = run.tables[run.lower_bound(from)..].iter();
            let mut there = there.take_while(|t| t.meta.first_key.as_slice() < until);
            // What can't be opened may hold anything.
            let may_contain =
                |t: &TableHandle, hash| t.table().map_or(true, |table| table.may_contain(hash));
            there.any(|t| t.meta.min_seq <= seq && hash.is_none_or(|h| may_contain(t, h)))
        })
    }
}

/// What a pass knows besides its input.
pub struct Rules {
    /// The keys that it is about: what lies outside is left to others, deletions too.
    pub range: VisibleRange,
    /// Live snapshots, ascending.
    pub snapshots: Vec<Seq>,
    /// The range deletions of the input.
    pub tombstones: Arc<Fragments>,
    /// What lies beneath.
    pub beneath: OlderRuns,
    /// What is not in the job at all.
    pub outside: OtherRuns,
    /// The tree's merge hook.
    pub merge: Option<Arc<dyn Merge>>,
    /// The purge hook's pass.
    pub purge: Option<Box<dyn PurgePass>>,
    /// Which values that lie apart come out as values: what the input refers to in these files.
    pub given_up: Arc<BTreeSet<u64>>,
    /// All that the input refers to does: the tree's values lie apart no more.
    pub brings_back: bool,
    /// Whether sequence numbers may be dropped and purges asked: not in flushes, where nothing is
    /// known beneath.
    pub zero_seqs: bool,
}

debug_by!(Rules, "Rules", snapshots, zero_seqs);

/// Counts of what a pass left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedVersions {
    /// Older versions of a key that no reader sees.
    pub shadowed: u64,
    /// Deletes under which nothing lies.
    pub deletes: u64,
    /// Entries covered by a range deletion.
    pub covered: u64,
    /// Entries that the purge hook let go.
    pub purged: u64,
}

/// An entry held by value.
type HeldVersion = (Trailer, Vec<u8>);

/// What lies under a stripe's operands.
enum Base {
    /// Nothing in this stripe of the input: it may lie in an older stripe or table.
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

/// Where [`Retain::advance`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// To an entry that survives.
    Entry,
    /// To none yet, though much of the input was passed: between two entries that do, or before the
    /// first or the end.
    NotYet,
    /// To the end.
    End,
}

/// After so many entries of the input that do not survive, or survive with others,
/// [`Retain::advance`] comes back.
pub const STEP: u64 = 1024;

/// The surviving entries of a sorted input.
pub struct Retain<C> {
    input: C,
    rules: Rules,
    /// Entries of the input passed since this was asked last.
    passed: u64,
    started: bool,
    key: Vec<u8>,
    key_head: u64,
    /// The stripe of the last version of `key` that hides older ones.
    hides: Option<Seq>,
    shown: ShownVersions,
    trailer: Trailer,
    queue: VecDeque<HeldVersion>,
    /// The end of the range that the current entry speaks for.
    reach: Vec<u8>,
    dropped: DroppedVersions,
}

impl<C> std::fmt::Debug for Retain<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retain").finish_non_exhaustive()
    }
}

/// The end of the stripe of `seq`: the oldest snapshot that sees it, or [`MAX_SEQ`] when only the
/// newest state does.
fn stripe(snapshots: &[Seq], seq: Seq) -> Seq {
    let i = snapshots.partition_point(|&s| s < seq);
    snapshots.get(i).copied().unwrap_or(MAX_SEQ)
}

impl<C: Cursor> Retain<C> {
    /// The surviving entries of `input`.
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

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The trailer of the current entry.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// Sees to it that the value of the current entry is there, which is not until then.
    pub fn complete(&mut self) -> Result<()> {
        if matches!(self.shown, ShownVersions::Input) { self.input.complete() } else { Ok(()) }
    }

    /// The value of the current entry.
    pub fn value(&self) -> &[u8] {
        match &self.shown {
            ShownVersions::Input => self.input.value(),
            ShownVersions::Replaced(v) => v,
            ShownVersions::Queue => self.queue.front().map_or(&[], |(_, v)| v),
            ShownVersions::Nothing => &[],
        }
    }

    /// What has been left out so far.
    pub fn dropped(&self) -> DroppedVersions {
        self.dropped
    }

    /// Entries of the input that it has left behind since [`take_passed`](Self::take_passed) was
    /// called.
    #[inline]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// As [`passed`](Self::passed); the count begins anew.
    pub fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    /// To the next entry of the input.
    #[inline]
    fn pass(&mut self) -> Result<()> {
        self.passed += 1;
        self.input.next()
    }

    /// Leaves the current entry for what follows it in the input.
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

    /// To the next surviving entry; not so far when [`STEP`] entries have been passed on the way
    /// since [`take_passed`](Self::take_passed).
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
                if self.is_behind(self.input.key()) {
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

    /// Whether a key lies behind the range.
    #[inline]
    fn is_behind(&self, key: &[u8]) -> bool {
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

    /// The newest range deletion of the current key inside the stripe that ends at `stripe`.
    fn cover(&self, stripe: Seq) -> Seq {
        if self.rules.tombstones.is_empty() {
            return 0;
        }
        self.rules.tombstones.newest_covering(&self.key, stripe).unwrap_or(0)
    }

    /// Judges the entry under the input cursor: true when it is to be shown, else the cursor has
    /// moved on.
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
            Some(Kind::Merge) if self.rules.merge.is_some() => {
                self.gather(stripe, oldest)?;
                return Ok(false);
            }
            Some(Kind::Merge) => {
                self.show(t);
                return Ok(true);
            }
            Some(Kind::Delete) => {
                self.hides = Some(stripe);
                if self.rules.zero_seqs && oldest && self.rules.beneath.is_alone(&self.key) {
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

    /// Whether no range deletion could hide the current key if its sequence number were 0 (R4).
    fn may_lose_seq(&self) -> bool {
        self.rules.tombstones.covering(&self.key).is_none()
    }

    fn show(&mut self, t: Trailer) {
        self.trailer = t;
        self.shown = ShownVersions::Input;
    }

    /// Asks the purge hook about the entry under the input cursor and shows what is left of it.
    fn purge(&mut self, t: Trailer, stripe: Seq, oldest: bool) -> Result<bool> {
        let Some(mut kind) = t.kind() else { return Ok(false) };
        self.show(t);
        if kind == Kind::Blob || self.rules.purge.is_some() {
            self.input.complete()?;
        }
        if kind == Kind::Blob {
            if self.bring_back(t)? {
                kind = Kind::Put;
            } else if self.rules.purge.is_some() {
                // What nobody can read nobody can judge.
                return Ok(true);
            }
        }
        if !self.rules.zero_seqs {
            return Ok(true);
        }
        // Without a hook nobody needs the value, which may not have been read.
        let value = match &self.rules.purge {
            Some(_) => shown(&self.shown, &self.input),
            None => &[],
        };
        let judged = Self::ask_purge(
            &mut self.rules,
            &mut self.reach,
            (&self.key, kind, value),
            (t.seq(), stripe, oldest),
        );
        match judged.verdict {
            Verdict::Keep => {}
            Verdict::Replace(v) => self.shown = ShownVersions::Replaced(v),
            Verdict::Drop => {
                self.dropped.purged += 1;
                self.shown = ShownVersions::Nothing;
                self.pass()?;
                return Ok(false);
            }
        }
        // What speaks for a range must go on telling what is older than it.
        if judged.alone
            && !judged.reaches
            && let Some(kind @ (Kind::Put | Kind::Blob)) = self.trailer.kind()
            && self.may_lose_seq()
        {
            self.trailer = Trailer::new(0, kind);
        }
        Ok(true)
    }

    /// Asks the purge hook about an entry (key, kind and value) of a sequence number in a stripe.
    /// Only the newest version of a key is judged.
    fn ask_purge(
        rules: &mut Rules,
        reach: &mut Vec<u8>,
        (key, kind, value): (&[u8], Kind, &[u8]),
        (seq, stripe, oldest): (Seq, Seq, bool),
    ) -> Judged {
        // What a snapshot makes this job keep of the key lies beneath too, though no other table
        // has it.
        let mut alone = oldest && rules.beneath.is_alone(key);
        let (mut reaches, mut verdict) = (false, Verdict::Keep);
        if let Some(purge) = &mut rules.purge {
            if alone {
                reach.clear();
                reaches = purge.reach(key, value, reach);
                alone = !reaches || !rules.outside.may_hold_older(key, reach, seq);
            }
            if stripe == MAX_SEQ {
                verdict = purge.judge(key, kind, value, alone);
            }
        }
        Judged { verdict, alone, reaches }
    }

    /// Makes a put of the entry that is shown, whose value lies apart, if that is in a file that is
    /// given up, or none is to lie apart any more. A value that cannot be read stays where it is: who
    /// reads it will say why, and all others are none the worse. False where nothing was done.
    fn bring_back(&mut self, t: Trailer) -> Result<bool> {
        let is_given_up = |r: BlobHandle| self.rules.given_up.contains(&r.file);
        let wanted = self.rules.brings_back
            || (!self.rules.given_up.is_empty()
                && BlobHandle::decode(self.input.value()).is_some_and(is_given_up));
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

    /// Gathers the operands of one stripe from the input cursor on and queues what stands for them.
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
        let bottom = oldest && self.rules.zero_seqs && self.rules.beneath.is_alone(&self.key);
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

    /// Queues the one entry that operands (newest first) and their base fold to, unless the purge
    /// hook drops it. False when the hook refuses.
    fn fold(
        &mut self,
        operands: &[HeldVersion],
        base: &Base,
        bottom: bool,
        (stripe, oldest): (Seq, bool),
    ) -> bool {
        let values: Vec<Vec<u8>> = operands.iter().rev().map(|(_, v)| v.clone()).collect();
        let under = if let Base::Put((_, v)) = base { Some(v.as_slice()) } else { None };
        let Ok(folded) = fold(self.rules.merge.as_deref(), &self.key, under, &values) else {
            return false;
        };
        let seq = operands.first().map_or(0, |(t, _)| t.seq());
        self.dropped.shadowed +=
            operands.len() as u64 - 1 + matches!(base, Base::Put(_) | Base::Delete(_)) as u64;
        match folded {
            Folded::Value(mut v) => {
                let mut reaches = false;
                if self.rules.zero_seqs && self.rules.purge.is_some() {
                    let entry = (&*self.key, Kind::Put, &*v);
                    let judged = Self::ask_purge(
                        &mut self.rules,
                        &mut self.reach,
                        entry,
                        (seq, stripe, oldest),
                    );
                    reaches = judged.reaches;
                    match judged.verdict {
                        Verdict::Keep => {}
                        Verdict::Replace(other) => v = other,
                        Verdict::Drop => {
                            self.dropped.purged += 1;
                            return true;
                        }
                    }
                }
                let seq = if bottom && !reaches && self.may_lose_seq() { 0 } else { seq };
                self.queue.push_back((Trailer::new(seq, Kind::Put), v));
            }
            Folded::Absent if bottom => self.dropped.deletes += 1,
            Folded::Absent => self.queue.push_back((Trailer::new(seq, Kind::Delete), vec![])),
        }
        true
    }

    /// Queues operands (newest first), neighbours combined where the hook can.
    fn combine(&mut self, operands: Vec<HeldVersion>) {
        let mut oldest_first: Vec<HeldVersion> = vec![];
        for (t, v) in operands.into_iter().rev() {
            let joined = match (&self.rules.merge, oldest_first.last()) {
                (Some(m), Some((_, older))) => {
                    m.combine(&self.key, older, &v).filter(|joined| joined.len() <= MAX_VALUE_LEN)
                }
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

/// The purge hook's answer about an entry.
struct Judged {
    verdict: Verdict,
    /// Whether nothing older of the key, or of the range that it speaks for, is outside of the job.
    alone: bool,
    /// Whether it speaks for a range.
    reaches: bool,
}

/// The value of an entry of the input, whose value may have been brought back.
fn shown<'a>(versions: &'a ShownVersions, input: &'a impl Cursor) -> &'a [u8] {
    match versions {
        ShownVersions::Replaced(v) => v,
        _ => input.value(),
    }
}

impl Retain<Merging<MergeSource>> {
    /// Leaves the current entry. A block, when all of it survives as it is and nothing comes in
    /// between: either it is taken, and then [`pass_block`](Self::pass_block) must follow, or
    /// [`advance`](Self::advance) shows its entries.
    #[inline]
    pub fn whole_block(&mut self) -> Result<Option<WholeBlock<'_>>> {
        self.leave()?;
        // Asked for every entry, so what is nearly always the answer is given without more ado.
        if self.input.is_at_start() { Ok(self.block_here()) } else { Ok(None) }
    }

    #[inline(never)]
    fn block_here(&self) -> Option<WholeBlock<'_>> {
        if !self.queue.is_empty() || self.rules.purge.is_some() {
            return None;
        }
        let tombstones = &self.rules.tombstones;
        let free = |b: &WholeBlock<'_>| {
            b.first_key() != self.key.as_slice()
                && !self.is_behind(b.separator())
                && !tombstones.touches(b.first_key(), b.separator())
        };
        self.input.whole_block().filter(free)
    }

    /// The block of the current entry, when it has no other, survives as it is, and is the last
    /// version of its key that does. It keeps its sequence number.
    #[inline]
    pub fn lone_block(&self) -> Option<WholeBlock<'_>> {
        if !matches!(self.shown, ShownVersions::Input) || !self.input.is_lone() {
            return None;
        }
        let seq = self.input.trailer().seq();
        let hides_all = self.rules.snapshots.first().is_none_or(|&s| seq <= s);
        self.input.lone_block().filter(|_| hides_all)
    }

    /// Leaves the block that [`whole_block`](Self::whole_block) gave, of so many entries.
    pub fn pass_block(&mut self, entries: u64) -> Result<()> {
        self.passed += entries;
        self.input.pass_block()
    }
}

/// The range deletions that must survive: those that some reader may still need because a snapshot
/// sees what they hide, or because something older lies beneath.
pub fn retain_tombstones(
    tombstones: &Fragments,
    snapshots: &[Seq],
    beneath: &OlderRuns,
    zero_seqs: bool,
) -> Fragments {
    let mut out = vec![];
    for f in tombstones.as_slice() {
        let alone = zero_seqs && beneath.is_range_alone(&f.start, &f.end);
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
