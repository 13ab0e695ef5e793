//! The summary model: it stores only numbers for each table, so a petabyte takes megabytes. The
//! output of a compaction is an expectation, not a count.
//!
//! A table is a few `SummaryPart`s. Each has a range of the key space, evenly filled, and the
//! number of writes (*draws*) of one phase of the workload in it. For each pattern (`Population`)
//! the number of distinct keys for a number of draws is known. So is the share of an older part's
//! keys that newer parts did not overwrite: that share survives a compaction. Before a compaction
//! the inputs are split where any part begins or ends; inside such a piece everything is even.
//!
//! A table has up to `STRETCHES` separate ranges of the key space. Data may be dense where no older
//! run is below, and thin elsewhere. Spread evenly, keys would seem to hide others outside their
//! range, and the tree would lose both. Joined ranges get the draws that make as many distinct keys
//! as both had. So they hide and contain the same keys as before.
//!
//! The newer version of a key is in the newer run. So writes of an earlier phase never hide those
//! of a later one, even if they are in a newer run: they are different keys.
//!
//! Invariants: the tables of a run are sorted and disjoint, and so are their parts. The number of
//! entries never grows. A delete is dropped where no table outside the job overlaps its piece, as
//! in the engine.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::compaction::{CompactionJob, LsmShape, OutputSplits, RunShape, TableShape};
use firn_kv::internals::memtable::{ArenaPool, Memtable};
use firn_kv::{Result, TreeOptions};
use firn_workload::dist::Zipfian;
use firn_workload::rng::Rng;

use crate::model::blobs::{BlobShare, SimBlobFiles, SimBlobOutput};
use crate::model::division::flush_starts;
use crate::model::exact::ExactTtl;
use crate::model::size::{EntrySize, Sizes};
use crate::model::store::{LiveKeys, MadeRuns, SimClock, SimStore, Written};
use crate::workload::{Pattern, SimOps, SimPhase, SimWorkload};

/// Minimum width of a piece of the key space.
const NARROW: f64 = 1e-13;

/// Random stream for the times of the first and last entry of a table, separate from other streams.
const SEQUENCE: u64 = 0x5e90;

/// Upper bound on the parts of one range and of its neighbours.
const OVERLAID: usize = 16;

/// Bytes of values that the engine writes into one blob file.
const VALUE_FILE: f64 = (256 << 20) as f64;

/// Maximum number of separate ranges of a table.
const STRETCHES: usize = 6;

/// Neighbours are joined if that moves at most this share of their entries.
const ALIKE: f64 = 0.01;

/// Relation between draws and distinct keys.
enum Population {
    /// No key twice.
    Unique,
    /// Uniform over this many keys.
    Uniform(f64),
    /// Popular keys: pairs of draws and distinct keys over the whole domain, at equal steps of the
    /// logarithm of draws.
    Popular(Vec<f64>),
}

/// Maximum share of keys that a part is assumed to have when its draws are calculated: all keys
/// would need infinitely many draws.
const MOST_FULL: f64 = 1.0 - 1e-15;

/// Steps of the table of [`Population::Popular`] per factor of e, and the largest logarithm.
const STEPS: f64 = 12.0;
const LARGEST: f64 = 46.0;

impl Population {
    fn of(phase: &SimPhase, keys: f64) -> Population {
        match phase.pattern {
            Pattern::Uniform => Population::Uniform(keys),
            Pattern::Zipfian(skew) => Population::Popular(popular(keys as u64, skew)),
            Pattern::Unique | Pattern::Series(_) | Pattern::Queue(_) | Pattern::Delete => {
                Population::Unique
            }
        }
    }

    /// Returns the distinct keys of `draws` in a part of the key space with this width.
    fn distinct(&self, draws: f64, width: f64) -> f64 {
        match self {
            Population::Unique => draws,
            Population::Uniform(keys) => {
                let n = keys * width;
                -n * (-draws / n).exp_m1()
            }
            Population::Popular(table) => {
                let all = draws / width;
                if all <= 1.0 {
                    return draws;
                }
                let at = all.ln() * STEPS;
                let i = (at as usize).min(table.len() - 2);
                let share = (at - i as f64).min(1.0);
                (table[i] * (1.0 - share) + table[i + 1] * share) * width
            }
        }
    }
}

impl Population {
    /// Returns the draws that make this many distinct keys in a part of this width: the inverse of
    /// [`distinct`](Population::distinct).
    fn draws(&self, distinct: f64, width: f64) -> f64 {
        match self {
            Population::Unique => distinct,
            Population::Uniform(keys) => {
                let n = keys * width;
                -n * (-(distinct / n).min(MOST_FULL)).ln_1p()
            }
            Population::Popular(table) => {
                let all = distinct / width;
                let i = table.partition_point(|&d| d <= all);
                if all <= 1.0 || i == 0 {
                    return distinct;
                }
                let (lo, hi) = (table[i - 1], table.get(i).copied().unwrap_or(table[i - 1]));
                let share = if hi > lo { (all - lo) / (hi - lo) } else { 0.0 };
                (((i - 1) as f64 + share) / STEPS).exp() * width
            }
        }
    }
}

/// Returns the expected distinct keys for e^(i / STEPS) draws.
fn popular(keys: u64, skew: f64) -> Vec<f64> {
    let zipf = Zipfian::new(keys, skew);
    // Ranks in classes that widen with the rank: (number, probability of each).
    let mut classes: Vec<(f64, f64)> = vec![];
    let mut rank = 0u64;
    while rank < keys {
        let end = (rank + 1 + rank / 16).min(keys);
        classes.push(((end - rank) as f64, zipf.chance(rank + (end - rank) / 2)));
        rank = end;
    }
    let sum: f64 = classes.iter().map(|(n, p)| n * p).sum();
    let expected = |draws: f64| classes.iter().map(|(n, p)| -n * (-draws * p / sum).exp_m1()).sum();
    (0..=(LARGEST * STEPS) as usize).map(|i| expected((i as f64 / STEPS).exp())).collect()
}

/// An evenly filled range of keys with the writes of one phase of the workload.
#[derive(Clone, Copy, Debug, Default)]
struct SummaryPart {
    phase: usize,
    /// Index of its run among the inputs of a compaction.
    run: usize,
    lo: f64,
    hi: f64,
    /// Number of writes, counting repeated keys.
    draws: f64,
    puts: f64,
    deletes: f64,
    /// Times of its first and last put, in microseconds.
    put_at: (f64, f64),
    /// Times of its first and last delete.
    deleted_at: (f64, f64),
}

impl SummaryPart {
    fn width(&self) -> f64 {
        (self.hi - self.lo).max(NARROW)
    }

    /// Returns its share in `[lo, hi)`.
    fn cut(&self, lo: f64, hi: f64) -> SummaryPart {
        let (lo, hi) = (lo.max(self.lo), hi.min(self.hi));
        let share = ((hi - lo) / self.width()).clamp(0.0, 1.0);
        SummaryPart {
            lo,
            hi,
            draws: self.draws * share,
            puts: self.puts * share,
            deletes: self.deletes * share,
            ..*self
        }
    }

    /// Returns the part written from then on, assuming writes evenly spread in time.
    fn since(&self, micros: f64) -> SummaryPart {
        let (from, to) = self.put_at;
        let share = ((to - micros) / (to - from).max(1.0)).clamp(0.0, 1.0);
        SummaryPart {
            draws: self.draws * share,
            puts: self.puts * share,
            deletes: self.deletes * share,
            put_at: (from.max(micros), to),
            ..*self
        }
    }

    /// Adds another part of the same phase.
    fn join(&mut self, other: &SummaryPart) {
        let span = |a: (f64, f64), n: f64, b: (f64, f64), m: f64| match (n > 0.0, m > 0.0) {
            (true, true) => (a.0.min(b.0), a.1.max(b.1)),
            (false, true) => b,
            _ => a,
        };
        self.put_at = span(self.put_at, self.puts, other.put_at, other.puts);
        self.deleted_at = span(self.deleted_at, self.deletes, other.deleted_at, other.deletes);
        self.lo = self.lo.min(other.lo);
        self.hi = self.hi.max(other.hi);
        self.draws += other.draws;
        self.puts += other.puts;
        self.deletes += other.deletes;
    }
}

/// A memtable.
#[derive(Clone, Debug, Default)]
struct SummaryBuffer {
    parts: Vec<SummaryPart>,
    used: f64,
}

/// See the module.
pub struct RunSummary {
    options: Arc<TreeOptions>,
    workload: SimWorkload,
    populations: Vec<Population>,
    sizes: Sizes,
    /// Memtable bytes per operation of each phase.
    cost: Vec<(f64, f64)>,
    phase: usize,
    done: u64,
    active: SummaryBuffer,
    sealed: VecDeque<SummaryBuffer>,
    tables: BTreeMap<u64, Vec<SummaryPart>>,
    /// Everything written so far, merged, by phase.
    whole: Vec<SummaryPart>,
    /// Key ranges of runs below many compactions, by level and number.
    covers: HashMap<(u8, u64), RunCover>,
    next_id: u64,
}

/// An unchanged run, and the few disjoint ranges of its many tables.
type RunCover = (Weak<RunShape>, Arc<[(f64, f64)]>);

impl RunSummary {
    /// Creates an empty tree for the workload. Measures the cost of entries in memtables and
    /// tables.
    ///
    /// # Errors
    /// Errors of the engine's parts.
    pub fn new(options: Arc<TreeOptions>, workload: &SimWorkload) -> Result<RunSummary> {
        let cost = match workload.per_memtable {
            Some(n) => {
                vec![
                    (
                        options.memtable_size as f64 / n.max(1) as f64,
                        options.memtable_size as f64 / n.max(1) as f64
                    );
                    8
                ]
            }
            None => costs(workload, options.memtable_size)?,
        };
        let per_memtable =
            (options.memtable_size as f64 / cost.first().map_or(1.0, |c| c.0)) as u64;
        let sizes = Sizes::measure(
            &options,
            &workload.content,
            per_memtable.max(1),
            workload.ops().max(1),
            workload.series(),
        )?;
        let keys = workload.keys.max(1) as f64;
        Ok(RunSummary {
            options,
            workload: workload.clone(),
            populations: workload.phases.iter().map(|p| Population::of(p, keys)).collect(),
            sizes,
            cost,
            phase: 0,
            done: 0,
            active: SummaryBuffer::default(),
            sealed: VecDeque::new(),
            tables: BTreeMap::new(),
            whole: vec![],
            covers: HashMap::new(),
            next_id: 1,
        })
    }

    /// Returns the number of operations of the first phase that fill a memtable.
    pub fn per_memtable(&self) -> u64 {
        (self.options.memtable_size as f64 / self.cost.first().map_or(1.0, |c| c.0)) as u64
    }

    /// Returns the key ranges of a run.
    fn cover(&mut self, run: &Arc<RunShape>) -> Arc<[(f64, f64)]> {
        let known = self.covers.get(&(run.level, run.number));
        if let Some((of, ranges)) = known
            && std::ptr::eq(of.as_ptr(), Arc::as_ptr(run))
        {
            return ranges.clone();
        }
        let ranges: Arc<[(f64, f64)]> = union(run.tables.iter().map(key_range)).into();
        self.covers.retain(|_, (of, _)| of.strong_count() > 0);
        self.covers.insert((run.level, run.number), (Arc::downgrade(run), ranges.clone()));
        ranges
    }

    fn keys(&self) -> f64 {
        self.workload.keys.max(1) as f64
    }

    /// Returns the parts of operations `from` to `to` of a phase: ranges, draws, puts and deletes.
    fn drawn(&self, phase: usize, from: u64, to: u64, at: (f64, f64)) -> Vec<SummaryPart> {
        let SimPhase { pattern, deletes, .. } = self.workload.phases[phase];
        let (n, keys) = ((to - from) as f64, self.keys());
        let part = |lo: f64, hi: f64, draws: f64, deletes: f64| {
            let hi = hi.max(lo + NARROW);
            SummaryPart {
                phase,
                run: 0,
                lo,
                hi,
                draws,
                puts: draws - deletes,
                deletes,
                put_at: at,
                deleted_at: at,
            }
        };
        match pattern {
            Pattern::Series(1) => vec![part(from as f64 / keys, to as f64 / keys, n, 0.0)],
            Pattern::Delete => vec![part(0.0, 1.0, n, n)],
            Pattern::Queue(live) => {
                // Puts at the head, first one per operation, then one per two; deletes of the tail.
                let head = |j: u64| if j <= live { j } else { live + (j - live).div_ceil(2) };
                let tail = |j: u64| j.saturating_sub(live) / 2;
                let (h, t) = ((head(from), head(to)), (tail(from), tail(to)));
                let mut parts = vec![];
                if h.1 > h.0 {
                    parts.push(part(h.0 as f64 / keys, h.1 as f64 / keys, (h.1 - h.0) as f64, 0.0));
                }
                if t.1 > t.0 {
                    let gone = (t.1 - t.0) as f64;
                    parts.push(part(t.0 as f64 / keys, t.1 as f64 / keys, gone, gone));
                }
                parts
            }
            Pattern::Unique | Pattern::Series(_) => vec![part(0.0, 1.0, n, 0.0)],
            Pattern::Uniform | Pattern::Zipfian(_) => {
                let different = self.populations[phase].distinct(n, 1.0);
                let mut p = part(0.0, 1.0, n, 0.0);
                (p.puts, p.deletes) = (different * (1.0 - deletes), different * deletes);
                vec![p]
            }
        }
    }

    /// Returns the share of the keys of an older part that `newer` runs leave unchanged, in a piece
    /// of the key space. The effect of the older part's own run (`beside`) is already in it.
    fn survives(
        &self,
        older: &SummaryPart,
        beside: &[SummaryPart],
        newer: &[SummaryPart],
        width: f64,
    ) -> f64 {
        let keys = self.keys() * width;
        let mut share = 1.0;
        for n in newer {
            let population = &self.populations[n.phase];
            let queue = matches!(self.workload.phases[n.phase].pattern, Pattern::Queue(_));
            if n.phase == older.phase && !queue {
                let (one, both) = (
                    population.distinct(n.draws, width),
                    population.distinct(n.draws + older.draws, width),
                );
                let alone = population.distinct(older.draws, width);
                share *= if alone > 0.0 { ((both - one) / alone).clamp(0.0, 1.0) } else { 1.0 };
            } else if n.phase > older.phase || (queue && n.deletes > 0.0) {
                let before: f64 = beside
                    .iter()
                    .filter(|b| b.phase == n.phase && n.phase != older.phase)
                    .map(|b| b.draws)
                    .sum();
                let left = |draws: f64| (1.0 - population.distinct(draws, width) / keys).max(0.0);
                let had = left(before);
                share *=
                    if had > 0.0 { (left(before + n.draws) / had).clamp(0.0, 1.0) } else { 0.0 };
            }
        }
        share
    }

    /// Merges the parts that the runs, newest first, have in one piece. The result has one part per
    /// phase (for a queue one for puts and one for deletes), newest first. Calls `keeps` with the
    /// retained rest of each part.
    fn merge_piece(
        &self,
        runs: &[Vec<SummaryPart>],
        lo: f64,
        hi: f64,
        mut keeps: impl FnMut(&SummaryPart),
    ) -> Vec<SummaryPart> {
        let width = (hi - lo).max(NARROW);
        let mut merged: Vec<SummaryPart> = vec![];
        for run in runs {
            let newer = merged.clone();
            for p in run {
                let share = self.survives(p, run, &newer, width);
                let kept = SummaryPart { puts: p.puts * share, deletes: p.deletes * share, ..*p };
                keeps(&kept);
                let queue = matches!(self.workload.phases[p.phase].pattern, Pattern::Queue(_));
                let same = |m: &&mut SummaryPart| {
                    m.phase == p.phase && (!queue || (m.deletes > 0.0) == (p.deletes > 0.0))
                };
                match merged.iter_mut().find(same) {
                    Some(m) => m.join(&kept),
                    None => merged.push(kept),
                }
            }
        }
        merged
    }

    /// Recalculates the distinct keys of a part that was drawn in portions.
    fn recount(&self, p: &mut SummaryPart) {
        let share = p.deletes / (p.puts + p.deletes).max(1e-9);
        let all = self.populations[p.phase].distinct(p.draws, p.width());
        (p.puts, p.deletes) = (all * (1.0 - share), all * share);
    }

    fn part_bytes(&self, p: &SummaryPart, size: &EntrySize) -> f64 {
        p.puts * size.put + p.deletes * size.delete
    }

    /// Returns the first keys of all pieces of a flush but the first.
    fn piece_starts(&self, all: &[PiecedEntries], pieces: usize) -> Vec<Arc<[u8]>> {
        let stretch = |(parts, size, _): &PiecedEntries| {
            let bytes: f64 = parts.iter().map(|p| self.part_bytes(p, size)).sum();
            key_span(parts).map(|(lo, hi)| ((to_key(lo), to_key(hi)), bytes))
        };
        flush_starts(&all.iter().filter_map(stretch).collect::<Vec<_>>(), pieces)
    }

    /// Adds tables made of pieces, split as the job requires. The pieces are in key order; each has
    /// the cost of entries, and whether no older run is below.
    fn tables_of(
        &mut self,
        pieces: Vec<PiecedEntries>,
        cut: &OutputSplits,
        place: SummaryPlace,
    ) -> MadeRuns {
        let mut made = MadeRuns::default();
        let mut open = OpenRun::default();
        let mut ends = cut.at.iter().map(|k| from_key(k)).peekable();
        for (parts, size, alone) in pieces {
            let Some((lo, hi)) = key_span(&parts) else { continue };
            let mut from = lo;
            while from < hi {
                while ends.peek().is_some_and(|&e| e <= from) {
                    ends.next();
                    made.tables.extend(self.close(&mut open, place, from));
                }
                let until = ends.peek().copied().filter(|&e| e < hi).unwrap_or(hi);
                let bytes: f64 =
                    parts.iter().map(|p| self.part_bytes(&p.cut(from, until), &size)).sum();
                let room = cut.size as f64 - open.bytes;
                let (to, full) = if bytes > room && until - from > NARROW {
                    (from + (until - from) * (room / bytes).clamp(0.0, 1.0), true)
                } else {
                    (until, false)
                };
                // Parts without entries still show the effect on older parts.
                let queue = |p: &&SummaryPart| {
                    matches!(self.workload.phases[p.phase].pattern, Pattern::Queue(_))
                };
                let kept = parts
                    .iter()
                    .filter(|p| p.puts + p.deletes > 0.0 || !queue(p))
                    .map(|p| p.cut(from, to));
                let stretch = KeyStretch { lo: from, hi: to, parts: kept.collect() };
                open.bytes += stretch.parts.iter().map(|p| self.part_bytes(p, &size)).sum::<f64>();
                open.zeroed = (open.zeroed.0 || alone, open.zeroed.1 && alone);
                open.stretches.push(stretch);
                if open.stretches.len() > 2 * STRETCHES {
                    self.join_alike(&mut open.stretches);
                }
                from = to.max(from + NARROW);
                if full {
                    made.tables.extend(self.close(&mut open, place, from));
                }
            }
        }
        made.tables.extend(self.close(&mut open, place, 1.0));
        let entries = |t: &TableShape| t.entries as f64;
        made.entries = made.tables.iter().map(entries).sum();
        let per_delete = self.workload.content.key_len as f64;
        made.raw_bytes = made
            .tables
            .iter()
            .map(|t| {
                (t.entries - t.deletes) as f64 * self.workload.put_bytes()
                    + t.deletes as f64 * per_delete
            })
            .sum();
        made
    }

    fn close(&mut self, open: &mut OpenRun, place: SummaryPlace, end: f64) -> Option<TableShape> {
        let mut done = std::mem::take(open);
        self.join_alike(&mut done.stretches);
        let parts: Vec<SummaryPart> = done.stretches.into_iter().flat_map(|s| s.parts).collect();
        let (lo, hi) = key_span(&parts)?;
        let sum = |f: fn(&SummaryPart) -> f64| parts.iter().map(f).sum::<f64>();
        let (puts, deletes) = (sum(|p| p.puts), sum(|p| p.deletes));
        let entries = (puts + deletes).round() as u64;
        if entries == 0 {
            return None;
        }
        let oldest =
            parts.iter().filter(|p| p.deletes > 0.5).map(|p| p.deleted_at.0).min_by(f64::total_cmp);
        let id = self.next_id;
        self.next_id += 1;
        // The number of deletes among the entries is random. Tables with the same average share
        // have different shares, and a policy that uses the share finds the table with the largest.
        let spread = (deletes * puts / (puts + deletes).max(1.0)).sqrt();
        let counted = (deletes + normal(self.workload.seed, id) * spread).round().max(0.0) as u64;
        let counted = if deletes < 0.5 { 0 } else { counted.clamp(1, entries) };
        // A table's range equals that of its parts: so a job's overlap by keys equals the overlap
        // of its parts.
        let first = to_key(lo);
        let last = to_key(hi.min(end)).saturating_sub(1).max(first);
        let newest_put = parts.iter().map(|p| p.put_at.1).fold(0.0, f64::max);
        let seqs = seqs(&parts, &mut Rng::new(self.workload.seed ^ SEQUENCE, id));
        let shape = TableShape {
            id,
            size: done.bytes.max(1.0) as u64,
            entries,
            deletes: counted,
            range_deletes: 0,
            first: Arc::from(&first.to_be_bytes()[..]),
            last: Arc::from(&last.to_be_bytes()[..]),
            min_seq: if done.zeroed.0 { 0 } else { seqs.0 },
            max_seq: if done.zeroed.1 { 0 } else { seqs.1 },
            created_micros: place.now_micros,
            newest_micros: place.newest_micros,
            oldest_tombstone_micros: oldest.map(|_| place.oldest.unwrap_or(place.now_micros)),
            expires_micros: (self.workload.ttl_micros > 0 && deletes < 0.5).then(|| {
                // The cast saturates.
                ExactTtl(self.workload.ttl_micros).gone_at(newest_put as u64)
            }),
            blob_bytes: 0,
            blob_relocation_bytes: 0,
            held_back: false,
            busy: false,
        };
        self.tables.insert(id, parts);
        Some(shape)
    }

    /// Adds blob files with these bytes of values to the output. Divides their references, and the
    /// references `stays` to other files, among the tables by their puts.
    fn put_blob(&mut self, made: &mut MadeRuns, bytes: f64, stays: &[BlobShare]) {
        let puts = |t: &TableShape| (t.entries - t.deletes) as f64;
        let all = made.tables.iter().map(puts).sum::<f64>();
        if all <= 0.0 || (bytes <= 0.0 && stays.is_empty()) {
            return;
        }
        let files = (bytes / VALUE_FILE).ceil();
        let each = bytes / files.max(1.0);
        for _ in 0..files as u64 {
            made.values.push(SimBlobOutput { id: self.next_id, size: each as u64, bytes: each });
            self.next_id += 1;
        }
        let stored = self.stored_value();
        let mut before = 0.0;
        for t in &made.tables {
            let share = puts(t) / all;
            let of = |u: &BlobShare| BlobShare {
                values: u.values * share,
                bytes: u.bytes * share,
                ..*u
            };
            let mut uses: Vec<BlobShare> = stays.iter().map(of).collect();
            // The files come in key order, as the tables do.
            let (from, to) = (before, before + bytes * share);
            for (i, file) in made.values.iter().enumerate() {
                let begins = each * i as f64;
                let bytes = to.min(begins + each) - from.max(begins);
                if bytes > 0.0 {
                    uses.push(BlobShare { file: file.id, values: bytes / stored, bytes });
                }
            }
            before = to;
            made.uses.push((t.id, uses));
        }
    }

    /// Returns the average bytes of a value in a blob file.
    fn stored_value(&self) -> f64 {
        let (lo, hi) = self.workload.content.value_len;
        let lengths = (hi - lo + 1) as f64;
        let apart = (hi + 1).saturating_sub(self.options.blob_from().max(lo)) as f64;
        (self.sizes.flushed.apart * lengths / apart.max(1.0)).max(1.0)
    }

    /// Joins neighbours that are equally full, and then those that differ least, until few are
    /// left.
    fn join_alike(&self, stretches: &mut Vec<KeyStretch>) {
        loop {
            let moved = stretches.windows(2).map(|w| w[0].moved(&w[1])).enumerate();
            let Some((i, least)) = moved.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
            if least > ALIKE && stretches.len() <= STRETCHES {
                return;
            }
            let next = stretches.remove(i + 1);
            self.join(&mut stretches[i], next);
        }
    }

    /// Joins two ranges.
    fn join(&self, into: &mut KeyStretch, next: KeyStretch) {
        let (lo, hi) = (into.lo, next.hi);
        let distinct = |p: &SummaryPart| self.populations[p.phase].distinct(p.draws, p.width());
        let mut counts: Vec<f64> = into.parts.iter().map(distinct).collect();
        for p in next.parts {
            match into
                .parts
                .iter()
                .position(|q| q.phase == p.phase && (q.deletes > 0.0) == (p.deletes > 0.0))
            {
                Some(i) => {
                    counts[i] += distinct(&p);
                    into.parts[i].join(&p);
                }
                None => {
                    counts.push(distinct(&p));
                    into.parts.push(p);
                }
            }
        }
        for (p, count) in into.parts.iter_mut().zip(counts) {
            p.draws = self.populations[p.phase].draws(count, hi - lo);
            (p.lo, p.hi) = (lo, hi);
        }
        (into.lo, into.hi) = (lo, hi);
    }

    /// Drops entries that a compaction may drop if no older run is below: deletes, and expired
    /// puts.
    fn drop_obsolete(&self, parts: &mut [SummaryPart], now: f64, vanished: &mut Vec<(f64, u64)>) {
        for p in parts {
            if p.deletes > 0.0 {
                note_ages(vanished, p.deletes, p.deleted_at, now);
                p.deletes = 0.0;
            }
            let limit = now - self.workload.ttl_micros as f64;
            if self.workload.ttl_micros > 0 && p.put_at.0 < limit {
                let share = ((limit - p.put_at.0) / (p.put_at.1 - p.put_at.0).max(1.0)).min(1.0);
                p.puts *= 1.0 - share;
                p.put_at.0 = limit.min(p.put_at.1);
            }
        }
    }
}

/// Records the ages of `n` deletes that were spread evenly between two times.
fn note_ages(into: &mut Vec<(f64, u64)>, n: f64, at: (f64, f64), now: f64) {
    const BUCKETS: usize = 4;
    for i in 0..BUCKETS {
        let when = at.0 + (at.1 - at.0) * (i as f64 + 0.5) / BUCKETS as f64;
        into.push((n / BUCKETS as f64, (now - when).max(0.0) as u64));
    }
}

/// An evenly filled range of a table.
struct KeyStretch {
    lo: f64,
    hi: f64,
    parts: Vec<SummaryPart>,
}

impl KeyStretch {
    fn entries(&self) -> f64 {
        self.parts.iter().map(|p| p.puts + p.deletes).sum()
    }

    /// Returns the share of entries that would move if both were joined.
    fn moved(&self, next: &KeyStretch) -> f64 {
        let (a, b, gap) = (self.hi - self.lo, next.hi - next.lo, (next.lo - self.hi).max(0.0));
        let (n, m) = (self.entries(), next.entries());
        let density = (n + m) / (a + b + gap).max(NARROW);
        ((n - density * a).abs() + (m - density * b).abs() + density * gap)
            / (2.0 * (n + m)).max(1e-9)
    }
}

/// A table under construction.
struct OpenRun {
    stretches: Vec<KeyStretch>,
    bytes: f64,
    /// Whether some of it, and whether all of it, has no older run below.
    zeroed: (bool, bool),
}

impl Default for OpenRun {
    fn default() -> OpenRun {
        OpenRun { stretches: vec![], bytes: 0.0, zeroed: (false, true) }
    }
}

/// Times of new tables and of their inputs.
#[derive(Clone, Copy)]
struct SummaryPlace {
    now_micros: u64,
    newest_micros: u64,
    oldest: Option<u64>,
}

fn key_span(parts: &[SummaryPart]) -> Option<(f64, f64)> {
    let full = || parts.iter().filter(|p| p.puts + p.deletes > 0.0);
    full().next()?;
    Some((full().map(|p| p.lo).fold(f64::MAX, f64::min), full().map(|p| p.hi).fold(0.0, f64::max)))
}

/// Returns a random number, nearly normal, with mean 0 and deviation 1.
pub fn normal(seed: u64, stream: u64) -> f64 {
    let mut rng = Rng::new(seed, stream);
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

/// Returns the smallest and the largest sequence number in a table. They ascend with time, and only
/// their order is used. Entries come at random times of an interval. The fewer they are, the later
/// comes the first, and the earlier the last.
fn seqs(parts: &[SummaryPart], chance: &mut Rng) -> (u64, u64) {
    let mut wait = |n: f64, (from, to): (f64, f64)| {
        ((from - to) * chance.unit_above_zero().ln() / n.max(1.0)).min(to - from)
    };
    let (mut first, mut last) = (f64::MAX, 0f64);
    for p in parts {
        for (n, at) in [(p.puts, p.put_at), (p.deletes, p.deleted_at)] {
            if n > 0.0 {
                first = first.min(at.0 + wait(n, at));
                last = last.max(at.1 - wait(n, at));
            }
        }
    }
    // In microseconds; the casts saturate.
    let seq = |micros: f64| (micros * 1024.0) as u64;
    (seq(first), seq(last).max(seq(first)))
}

fn key_range(t: &TableShape) -> (f64, f64) {
    (from_key(&t.first), from_key(&t.last))
}

fn to_key(x: f64) -> u64 {
    // The cast saturates at both ends.
    (x * 2f64.powi(64)) as u64
}

fn from_key(key: &[u8]) -> f64 {
    firn_kv::internals::base::key::head(key) as f64 / 2f64.powi(64)
}

/// Measures the memtable bytes of an operation of a phase, by filling a small one.
fn memtable_cost(workload: &SimWorkload, pattern: SimPhase, size: usize) -> Result<f64> {
    let capacity = size.min(4 << 20);
    let mem = Memtable::new(&ArenaPool::new(0), capacity)?;
    let alone =
        SimWorkload { phases: vec![SimPhase { ops: u64::MAX, ..pattern }], ..workload.clone() };
    let (mut key, mut value, mut n) = (vec![], vec![], 0u64);
    for op in SimOps::new(&alone) {
        let len = if op.delete { 0 } else { workload.content.len_of(n + 1) };
        workload.content.key(op.place, &mut key);
        if !mem.reserve(Memtable::cost(key.len(), len)) {
            break;
        }
        value.resize(len, 0);
        n += 1;
        mem.add(&key, Trailer::new(n, if op.delete { Kind::Delete } else { Kind::Put }), &value);
    }
    Ok(capacity as f64 / n.max(1) as f64)
}

/// Returns the cost of each phase's operations; for a queue the cost before it has its length, and
/// after.
fn costs(workload: &SimWorkload, size: usize) -> Result<Vec<(f64, f64)>> {
    let of = |p: &SimPhase| match p.pattern {
        Pattern::Queue(_) => {
            let grown =
                memtable_cost(workload, SimPhase { pattern: Pattern::Queue(1), ..*p }, size)?;
            Ok((
                memtable_cost(workload, SimPhase { pattern: Pattern::Series(1), ..*p }, size)?,
                grown,
            ))
        }
        _ => memtable_cost(workload, *p, size).map(|c| (c, c)),
    };
    workload.phases.iter().map(of).collect()
}

impl SimStore for RunSummary {
    fn write(&mut self, ops: u64, clock: SimClock) -> Result<Written> {
        let mut done = Written::default();
        while done.ops < ops {
            let Some(phase) = self.workload.phases.get(self.phase).copied() else {
                done.ended = true;
                break;
            };
            if self.done >= phase.ops {
                self.phase += 1;
                self.done = 0;
                continue;
            }
            let deletes = match phase.pattern {
                Pattern::Delete => 1.0,
                Pattern::Queue(live) if self.done >= live => 0.5,
                Pattern::Uniform | Pattern::Zipfian(_) => phase.deletes,
                _ => 0.0,
            };
            let cost = match phase.pattern {
                Pattern::Queue(live) if self.done >= live => self.cost[self.phase].1,
                _ => self.cost[self.phase].0,
            };
            let room =
                ((self.options.memtable_size as f64 - self.active.used) / cost).max(0.0) as u64;
            let change = match phase.pattern {
                Pattern::Queue(live) if self.done < live => live - self.done,
                _ => u64::MAX,
            };
            let n = room.min(ops - done.ops).min(phase.ops - self.done).min(change);
            if n == 0 {
                done.full = true;
                break;
            }
            let at = (clock.wall(done.ops + 1) as f64, clock.wall(done.ops + n) as f64);
            for p in self.drawn(self.phase, self.done, self.done + n, at) {
                remember(&mut self.active.parts, p);
                remember(&mut self.whole, p);
            }
            self.active.used += n as f64 * cost;
            self.done += n;
            done.ops += n;
            let per_op = self.workload.content.key_len as f64
                + (1.0 - deletes) * self.workload.content.mean_value();
            done.bytes += n as f64 * per_op;
        }
        Ok(done)
    }

    fn seal(&mut self) -> Result<()> {
        self.sealed.push_back(std::mem::take(&mut self.active));
        Ok(())
    }

    fn sealed(&self) -> usize {
        self.sealed.len()
    }

    fn next_entries(&self) -> u64 {
        self.sealed.front().map_or(0, |m| m.parts.iter().map(|p| p.draws).sum::<f64>() as u64)
    }

    fn flush(&mut self, filter_bits: f64, now_micros: u64, pieces: usize) -> Result<MadeRuns> {
        let Some(buffer) = self.sealed.pop_front() else { return Ok(MadeRuns::default()) };
        let mut runs: Vec<Vec<SummaryPart>> =
            buffer.parts.into_iter().rev().map(|p| vec![p]).collect();
        runs.iter_mut().flatten().for_each(|p| self.recount(p));
        let size = self.sizes.flushed.with_filter(filter_bits);
        let flushed =
            |(lo, hi, runs): RunPiece| (self.merge_piece(&runs, lo, hi, |_| ()), size, false);
        let stretches: Vec<_> = key_pieces(&runs, &[]).into_iter().map(flushed).collect();
        let place =
            SummaryPlace { now_micros, newest_micros: now_micros, oldest: Some(now_micros) };
        let cut = OutputSplits {
            size: self.options.table_size,
            at: self.piece_starts(&stretches, pieces),
        };
        let mut made = self.tables_of(stretches, &cut, place);
        let bytes = made.tables.iter().map(|t| (t.entries - t.deletes) as f64).sum::<f64>()
            * self.sizes.flushed.apart;
        self.put_blob(&mut made, bytes, &[]);
        Ok(made)
    }

    fn merge(
        &mut self,
        shape: &LsmShape,
        job: &CompactionJob,
        values: &SimBlobFiles,
        filter_bits: f64,
        now_micros: u64,
    ) -> Result<MadeRuns> {
        let taken: HashSet<u64> =
            job.inputs.iter().flat_map(|i| i.tables.iter().copied()).collect();
        let Some((first_key, last_key)) = job.range(shape) else { return Ok(MadeRuns::default()) };
        let (mut runs, mut uses, mut entries_in) = (vec![], vec![], 0.0);
        let mut older_runs: Vec<(f64, f64)> = vec![];
        let (mut newest, mut oldest): (u64, Option<u64>) = (0, None);
        let mut first = true;
        for run in &shape.runs {
            let mut parts: Vec<SummaryPart> = vec![];
            let near = &run.tables[run.overlapping(&first_key, &last_key)];
            let is_input = job.inputs.iter().any(|i| (i.level, i.run) == (run.level, run.number));
            let is_taken = |t: &TableShape| is_input && taken.contains(&t.id);
            let mut referred: Vec<BlobShare> = vec![];
            for t in near.iter().filter(|t| is_taken(t)) {
                let of_table = self.tables.get(&t.id).into_iter().flatten();
                parts.extend(of_table.map(|p| SummaryPart { run: runs.len(), ..*p }));
                referred.extend_from_slice(values.of_table(t.id));
                entries_in += t.entries as f64;
                newest = newest.max(t.newest_micros);
                oldest = oldest.into_iter().chain(t.oldest_tombstone_micros).min();
            }
            first &= parts.is_empty();
            if !parts.is_empty() {
                runs.push(parts);
                uses.push(referred);
            }
            // They are in order, and mostly adjacent: many tables give few ranges.
            if !first && is_input {
                older_runs.extend(union(near.iter().filter(|t| !is_taken(t)).map(key_range)));
            } else if !first {
                older_runs.extend(self.cover(run).iter());
            }
        }
        older_runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let covered = union(older_runs.into_iter());
        let may_drop =
            self.workload.ttl_micros > 0 || runs.iter().flatten().any(|p| p.deletes > 0.0);
        let [bottom, above] =
            [self.sizes.bottom, self.sizes.merged].map(|size| size.with_filter(filter_bits));
        let mut vanished = vec![];
        let mut out = vec![];
        let puts = |run: &Vec<SummaryPart>| run.iter().map(|p| p.puts).sum::<f64>();
        let had: Vec<f64> = runs.iter().map(puts).collect();
        let mut kept = vec![0.0; runs.len()];
        for (lo, hi, runs) in key_pieces(&runs, if may_drop { &covered } else { &[] }) {
            let mut merged = self.merge_piece(&runs, lo, hi, |p| kept[p.run] += p.puts);
            let at = covered.partition_point(|c| c.1 <= lo);
            let alone = covered.get(at).is_none_or(|c| c.0 >= hi);
            if may_drop {
                let parts = || runs.iter().flatten();
                let shadowed = parts().map(|p| p.deletes).sum::<f64>()
                    - merged.iter().map(|p| p.deletes).sum::<f64>();
                if shadowed > 0.0 {
                    let when = parts()
                        .filter(|p| p.deletes > 0.0)
                        .map(|p| p.deleted_at)
                        .next_back()
                        .unwrap_or_default();
                    note_ages(&mut vanished, shadowed, when, now_micros as f64);
                }
                if alone {
                    self.drop_obsolete(&mut merged, now_micros as f64, &mut vanished);
                }
            }
            out.push((merged, if alone { bottom } else { above }, alone));
        }
        let place = SummaryPlace { now_micros, newest_micros: newest, oldest };
        let mut made = self.tables_of(out, &job.cuts, place);
        made.entries_in = entries_in;
        made.vanished = vanished;
        let share = |run: usize| (kept[run] / had[run].max(1e-9)).min(1.0);
        let uses = uses
            .into_iter()
            .enumerate()
            .flat_map(|(run, uses)| uses.into_iter().map(move |u| (share(run), u)));
        let (mut again, mut stay) = (0.0, BTreeMap::<u64, BlobShare>::new());
        for (share, u) in uses {
            if values.gc_files().contains(&u.file) {
                again += u.bytes * share;
            } else {
                let sum = stay.entry(u.file).or_insert(BlobShare { values: 0.0, bytes: 0.0, ..u });
                (sum.values, sum.bytes) =
                    (sum.values + u.values * share, sum.bytes + u.bytes * share);
            }
        }
        let stay: Vec<BlobShare> = stay.into_values().collect();
        self.put_blob(&mut made, again, &stay);
        Ok(made)
    }

    fn forget(&mut self, tables: impl Iterator<Item = u64>) {
        tables.for_each(|id| {
            self.tables.remove(&id);
        });
    }

    fn live(&mut self, now_micros: u64) -> LiveKeys {
        let ttl = self.workload.ttl_micros;
        let lives = |p: &SummaryPart| {
            let left =
                if ttl > 0 { p.since((now_micros as f64 - ttl as f64).max(0.0)) } else { *p };
            (left.draws > 0.0).then(|| vec![left])
        };
        let mut newest_first: Vec<Vec<SummaryPart>> =
            self.whole.iter().rev().filter_map(lives).collect();
        newest_first.iter_mut().flatten().for_each(|p| self.recount(p));
        let mut keys = 0.0;
        for (lo, hi, runs) in key_pieces(&newest_first, &[]) {
            keys += self.merge_piece(&runs, lo, hi, |_| ()).iter().map(|p| p.puts).sum::<f64>();
        }
        let EntrySize { put, apart, .. } = self.sizes.bottom;
        LiveKeys { keys, bytes: keys * (put + apart) }
    }

    fn tombstones(&self, now_micros: u64) -> Vec<(f64, u64)> {
        let mut ages = vec![];
        for p in self.tables.values().flatten().filter(|p| p.deletes > 0.0) {
            note_ages(&mut ages, p.deletes, p.deleted_at, now_micros as f64);
        }
        ages
    }
}

/// Adds drawn operations to the last part of their phase and kind.
fn remember(parts: &mut Vec<SummaryPart>, p: SummaryPart) {
    match parts
        .iter_mut()
        .rev()
        .find(|q| q.phase == p.phase && (q.deletes > 0.0) == (p.deletes > 0.0))
    {
        Some(q) => q.join(&p),
        None => parts.push(p),
    }
}

/// Joins sorted ranges into as few disjoint ones as possible.
fn union(sorted: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = vec![];
    for (lo, hi) in sorted {
        match out.last_mut() {
            Some(last) if lo <= last.1 + NARROW => last.1 = last.1.max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// Parts in a piece of the key space, the cost of entries there, and whether no older run is below.
type PiecedEntries = (Vec<SummaryPart>, EntrySize, bool);

/// A piece of the key space with the parts of each run there, newest run first.
type RunPiece = (f64, f64, Vec<Vec<SummaryPart>>);

/// Splits the runs, newest first, at every bound of a part or of `also`: pieces in key order. The
/// parts of a run are sorted, but those of one table may overlap.
fn key_pieces(runs: &[Vec<SummaryPart>], also: &[(f64, f64)]) -> Vec<RunPiece> {
    let mut bounds: Vec<f64> = runs.iter().flatten().flat_map(|p| [p.lo, p.hi]).collect();
    let (Some(lo), Some(hi)) = (
        bounds.iter().copied().min_by(f64::total_cmp),
        bounds.iter().copied().max_by(f64::total_cmp),
    ) else {
        return vec![];
    };
    bounds.extend(also.iter().flat_map(|c| [c.0, c.1]).filter(|&b| b > lo && b < hi));
    bounds.sort_by(f64::total_cmp);
    bounds.dedup_by(|a, b| *a - *b < NARROW);
    let mut at = vec![0usize; runs.len()];
    let mut out = Vec::with_capacity(bounds.len());
    for w in bounds.windows(2) {
        let (lo, hi) = (w[0], w[1]);
        let inside = |p: &&SummaryPart| p.lo < hi - NARROW / 2.0 && p.hi > lo + NARROW / 2.0;
        let mut here = Vec::with_capacity(runs.len());
        for (run, at) in runs.iter().zip(&mut at) {
            while run.get(*at).is_some_and(|p| p.hi <= lo + NARROW / 2.0) {
                *at += 1;
            }
            let parts: Vec<SummaryPart> =
                run[*at..].iter().take(OVERLAID).filter(inside).map(|p| p.cut(lo, hi)).collect();
            if !parts.is_empty() {
                here.push(parts);
            }
        }
        if !here.is_empty() {
            out.push((lo, hi, here));
        }
    }
    out
}
