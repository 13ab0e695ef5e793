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

mod keys;
mod part;
mod population;
mod tables;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::compaction::{CompactionJob, LsmShape, OutputSplits, RunShape, TableShape};
use firn_kv::internals::memtable::{ArenaPool, Memtable};
use firn_kv::{Result, TreeOptions};
use firn_workload::Distribution;

use self::keys::KeyModel;
use self::part::{RunPiece, SummaryPart, key_pieces, key_range, note_ages, remember, union};
use self::population::{Population, zones};
use self::tables::{SummaryPlace, SummaryTables};
use crate::model::blobs::{BlobShare, SimBlobFiles};
use crate::model::size::{EntrySize, KeySeries, Sizes, place};
use crate::model::store::{
    LiveKeys, MadeRuns, PhaseCursor, PhaseTurn, SimClock, SimStore, Written,
};
use crate::workload::{SimOps, SimPhase, SimWorkload};

/// A memtable.
#[derive(Clone, Debug, Default)]
struct SummaryBuffer {
    parts: Vec<SummaryPart>,
    used: f64,
}

/// See the module.
pub struct RunSummary {
    tables: SummaryTables,
    /// Memtable bytes per operation of each phase.
    cost: Vec<(f64, f64)>,
    phase: usize,
    done: u64,
    phases: PhaseCursor,
    active: SummaryBuffer,
    sealed: VecDeque<SummaryBuffer>,
    /// Everything written so far, merged, by phase.
    whole: Vec<SummaryPart>,
    /// Key ranges of runs below many compactions, by level and number.
    covers: HashMap<(u8, u64), RunCover>,
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
                let cost = options.memtable_size as f64 / n.max(1) as f64;
                vec![(cost, cost); 8]
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
        let populations = workload.phases.iter().map(|p| Population::of(p, keys)).collect();
        let zones = workload.phases.iter().map(|p| zones(p, keys)).collect();
        let relative = relative(&options, workload, per_memtable, &sizes)?;
        let phases = PhaseCursor::new(&workload.phases);
        let workload = workload.clone();
        let model = KeyModel { options, workload, populations, zones, sizes, relative };
        Ok(RunSummary {
            tables: SummaryTables::new(model),
            cost,
            phase: 0,
            done: 0,
            phases,
            active: SummaryBuffer::default(),
            sealed: VecDeque::new(),
            whole: vec![],
            covers: HashMap::new(),
        })
    }

    /// Returns the number of operations of the first phase that fill a memtable.
    pub fn per_memtable(&self) -> u64 {
        (self.model().options.memtable_size as f64 / self.cost.first().map_or(1.0, |c| c.0)) as u64
    }

    fn model(&self) -> &KeyModel {
        &self.tables.model
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
}

/// Returns the bytes of a put of each phase relative to `sizes`, which are those of random keys
/// unless all keys ascend.
fn relative(
    options: &TreeOptions,
    workload: &SimWorkload,
    per_memtable: u64,
    sizes: &Sizes,
) -> Result<Vec<f64>> {
    let of = |phase: &SimPhase| match phase.order {
        Distribution::Series(series) if workload.series().is_none() && !phase.hashed => {
            let series = KeySeries { series, step: place(1, workload.keys) };
            let (memtable, total) = (per_memtable.max(1), workload.ops().max(1));
            let own = Sizes::measure(options, &workload.content, memtable, total, Some(series))?;
            Ok(own.flushed.put / sizes.flushed.put.max(1.0))
        }
        _ => Ok(1.0),
    };
    workload.phases.iter().map(of).collect()
}

/// Measures the memtable bytes of a write of a phase, by filling a small one.
fn memtable_cost(workload: &SimWorkload, phase: SimPhase, size: usize) -> Result<f64> {
    let capacity = size.min(4 << 20);
    let fills = ((4 << 20) / capacity).clamp(1, 16);
    let alone =
        SimWorkload { phases: vec![SimPhase { ops: u64::MAX / 4, ..phase }], ..workload.clone() };
    let (mut key, mut value, mut n) = (vec![], vec![], 0u64);
    let mut ops = SimOps::new(&alone);
    // The order of the keys changes how full nodes are, so small memtables are filled several
    // times.
    for _ in 0..fills {
        let mem = Memtable::new(&ArenaPool::new(0), capacity)?;
        // A phase may write very seldom, or never.
        for _ in 0..capacity.saturating_mul(64) {
            let Some(Some(op)) = ops.step() else { continue };
            workload.content.key(op.place, &mut key);
            if !mem.reserve(Memtable::cost(key.len(), op.len as usize)) {
                break;
            }
            value.resize(op.len as usize, 0);
            n += 1;
            let kind = if op.delete { Kind::Delete } else { Kind::Put };
            mem.add(&key, Trailer::new(n, kind), &value);
        }
    }
    Ok((capacity * fills) as f64 / n.max(1) as f64)
}

/// Returns the cost of each phase's operations; for a queue the cost before it has its length, and
/// after.
fn costs(workload: &SimWorkload, size: usize) -> Result<Vec<(f64, f64)>> {
    let of = |p: &SimPhase| {
        if p.queue(workload.keys).is_some() {
            let short = Distribution::Queue { share: f64::MIN_POSITIVE };
            let grown = memtable_cost(workload, SimPhase { order: short, ..*p }, size)?;
            let only_puts = SimPhase::of(Distribution::Series(1), p.ops, 0.0);
            return Ok((memtable_cost(workload, only_puts, size)?, grown));
        }
        let writes = p.puts + p.inserts + p.deletes;
        if writes <= 0.0 {
            return Ok((0.0, 0.0));
        }
        memtable_cost(workload, *p, size).map(|cost| (cost * writes, cost * writes))
    };
    workload.phases.iter().map(of).collect()
}

impl SimStore for RunSummary {
    fn write(&mut self, ops: u64, clock: SimClock) -> Result<Written> {
        let mut done = Written::default();
        while done.ops < ops {
            let left = match self.phases.enter(self.phase, self.done, &clock, done.ops) {
                PhaseTurn::Operations(left) => left,
                PhaseTurn::Over => {
                    self.phase += 1;
                    self.done = 0;
                    continue;
                }
                PhaseTurn::Paused => {
                    done.paused = true;
                    break;
                }
                PhaseTurn::Ended => {
                    done.ended = true;
                    break;
                }
            };
            let workload = &self.model().workload;
            let (phase, keys) = (workload.phases[self.phase], workload.keys);
            let live = phase.queue(keys);
            let [puts, deletes, _] = phase.written(self.done, keys);
            let (puts_only, grown) = self.cost[self.phase];
            let is_grown = live.is_some_and(|live| self.done >= live);
            let cost = if is_grown { grown } else { puts_only };
            let free = (self.model().options.memtable_size as f64 - self.active.used).max(0.0);
            let room = if cost > 0.0 { (free / cost) as u64 } else { u64::MAX };
            let change = live.filter(|_| !is_grown).map_or(u64::MAX, |live| live - self.done);
            let n = room.min(ops - done.ops).min(left).min(change);
            if n == 0 {
                done.full = true;
                break;
            }
            let at = (clock.wall(done.ops + 1) as f64, clock.wall(done.ops + n) as f64);
            for p in self.model().written_parts(self.phase, self.done, self.done + n, at) {
                remember(&mut self.active.parts, p);
                remember(&mut self.whole, p);
            }
            self.active.used += n as f64 * cost;
            self.done += n;
            done.ops += n;
            let content = &self.model().workload.content;
            let per_op = (puts + deletes) * content.key_len as f64 + puts * content.mean_value();
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
        runs.iter_mut().flatten().for_each(|p| self.model().recount(p));
        let size = self.model().sizes.flushed.with_filter(filter_bits);
        let flushed = |(lo, hi, runs): RunPiece| {
            (self.model().merge_piece(&runs, lo, hi, |_| ()), size, false)
        };
        let stretches: Vec<_> = key_pieces(&runs, &[]).into_iter().map(flushed).collect();
        let place =
            SummaryPlace { now_micros, newest_micros: now_micros, oldest: Some(now_micros) };
        let cut = OutputSplits {
            size: self.model().options.table_size,
            at: self.tables.piece_starts(&stretches, pieces),
        };
        let mut made = self.tables.tables_of(stretches, &cut, place);
        let bytes = made.tables.iter().map(|t| (t.entries - t.deletes) as f64).sum::<f64>()
            * self.model().sizes.flushed.blob;
        self.tables.put_blob(&mut made, bytes, &[]);
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
                parts.extend(
                    self.tables.parts(t.id).iter().map(|p| SummaryPart { run: runs.len(), ..*p }),
                );
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
        let may_drop = self.model().workload.ttl_micros > 0
            || runs.iter().flatten().any(|p| p.deletes + p.ranged > 0.0);
        let [bottom, above] = [self.model().sizes.bottom, self.model().sizes.merged]
            .map(|size| size.with_filter(filter_bits));
        let mut vanished = vec![];
        let mut out = vec![];
        let puts = |run: &Vec<SummaryPart>| run.iter().map(|p| p.puts).sum::<f64>();
        let had: Vec<f64> = runs.iter().map(puts).collect();
        let mut kept = vec![0.0; runs.len()];
        for (lo, hi, runs) in key_pieces(&runs, if may_drop { &covered } else { &[] }) {
            let mut merged = self.model().merge_piece(&runs, lo, hi, |p| kept[p.run] += p.puts);
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
                    self.model().drop_obsolete(&mut merged, now_micros as f64, &mut vanished);
                }
            }
            out.push((merged, if alone { bottom } else { above }, alone));
        }
        let place = SummaryPlace { now_micros, newest_micros: newest, oldest };
        let mut made = self.tables.tables_of(out, &job.cuts, place);
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
        self.tables.put_blob(&mut made, again, &stay);
        Ok(made)
    }

    fn forget(&mut self, tables: impl Iterator<Item = u64>) {
        self.tables.forget(tables);
    }

    fn live(&mut self, now_micros: u64) -> LiveKeys {
        let ttl = self.model().workload.ttl_micros;
        let lives = |p: &SummaryPart| {
            let left =
                if ttl > 0 { p.since((now_micros as f64 - ttl as f64).max(0.0)) } else { *p };
            (left.draws > 0.0).then(|| vec![left])
        };
        let mut newest_first: Vec<Vec<SummaryPart>> =
            self.whole.iter().rev().filter_map(lives).collect();
        newest_first.iter_mut().flatten().for_each(|p| self.model().recount(p));
        let mut keys = 0.0;
        for (lo, hi, runs) in key_pieces(&newest_first, &[]) {
            keys +=
                self.model().merge_piece(&runs, lo, hi, |_| ()).iter().map(|p| p.puts).sum::<f64>();
        }
        let EntrySize { put, blob, .. } = self.model().sizes.bottom;
        LiveKeys { keys, bytes: keys * (put + blob) }
    }

    fn tombstones(&self, now_micros: u64) -> Vec<(f64, u64)> {
        let mut ages = vec![];
        for p in self.tables.all_parts().filter(|p| p.deletes > 0.0) {
            note_ages(&mut ages, p.deletes, p.deleted_at, now_micros as f64);
        }
        ages
    }
}
