//! The simulator: drives a [`SimStore`] through the engine's own policy functions, as `db` does.
//!
//! The order of events is the engine's:
//! - A full memtable is sealed. A flush precedes a compaction.
//! - The most urgent job of the policy starts if it has room, with its inputs marked busy. It is
//!   installed when it is done.
//! - `delay` or `fill_delay`, whichever is longer, slows writers. They wait while every
//!   memtable is full.
//! - Large compactions, and flushes that writers will wait for, run in pieces on as many threads as
//!   there are free subcompaction slots.
//! - A compacting thread removes obsolete files before it continues.
//! - Without threads all work is done at the end of the write that made it necessary.
//!
//! Time is a sequence of events: between two of them the writers' rate and the jobs' speeds are
//! constant ([`Machine`]).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use firn_kv::internals::compaction::{
    Action, ActivePolicy, CompactionJob, LsmShape, RunShape, fits, least_flushed, pick, pieces_of,
    run_limits, steps,
};
use firn_kv::internals::memtable::Memtable;
use firn_kv::{Error, ErrorKind, Result, TreeOptions};
use firn_workload::rng::Rng;

use crate::model::blobs::{BlobShare, SimBlobFiles, SimBlobOutput};
use crate::model::division::cut_merge;
use crate::model::exact::{Exact, ExactTtl};
use crate::model::filters::TableFilters;
use crate::model::jobs::{LEAST_LEFT, RunningJob, RunningJobs, SimStep, SimWork, put_on};
use crate::model::latency::CountOdds;
use crate::model::machine::{Load, Machine, MachineCost, WorkBytes, side_by_side};
use crate::model::meter::{Moment, SimMeter, SimOutcome};
pub use crate::model::setup::Setup;
use crate::model::shape::{apply, hold, mark};
use crate::model::slowdown::SimSlowdown;
use crate::model::ssd::Ssd;
use crate::model::store::{EPOCH_MICROS, MadeRuns, SimClock, SimStore};
use crate::model::summary::RunSummary;

/// Interval, in nanoseconds, at which a time-driven policy is called while there are no other
/// events: that of the engine's idle workers.
const TICK: f64 = 1e9;

/// Progress callback: called now and then with the share that is done.
pub type OnProgress<'a> = &'a mut dyn FnMut(f64);

/// Runs a simulation to its end.
///
/// # Errors
/// Options out of bounds, and errors of the engine's parts.
pub fn run(setup: &Setup, progress: OnProgress<'_>) -> Result<SimOutcome> {
    let (outcome, _) = run_to_shape(setup, progress)?;
    Ok(outcome)
}

/// Does the same as [`run`], and also returns the final tables.
///
/// # Errors
/// As [`run`].
pub fn run_to_shape(setup: &Setup, progress: OnProgress<'_>) -> Result<(SimOutcome, LsmShape)> {
    let ttl = ExactTtl(setup.workload.ttl_micros);
    let options = if ttl.0 > 0 { ttl.hooked(&setup.options) } else { setup.options.clone() };
    options.check()?;
    let options = Arc::new(options);
    if setup.exact {
        Sim::new(setup, options.clone(), Exact::new(options, &setup.workload)?)?.run(progress)
    } else {
        Sim::new(setup, options.clone(), RunSummary::new(options, &setup.workload)?)?.run(progress)
    }
}

struct Sim<'a, S> {
    setup: &'a Setup,
    options: Arc<TreeOptions>,
    store: S,
    values: SimBlobFiles,
    filters: TableFilters,
    ssd: Option<Ssd>,
    shape: LsmShape,
    /// Bytes of the shape's tables.
    bytes: u64,
    running: RunningJobs<'a>,
    now: f64,
    /// Whether the shape may need a job that the policy was not asked for yet.
    dirty: bool,
    slowdown: SimSlowdown,
    flushes_begun: usize,
    /// Times since when the immutable memtables could be flushed, oldest first, and since when no
    /// other flush delays them.
    due: VecDeque<f64>,
    flushed_at: f64,
    /// Number of random draws so far.
    chances: u64,
    meter: SimMeter,
    total: u64,
    /// Number of changes, in debug builds, until the whole shape is checked again.
    until_check: usize,
}

impl<'a, S: SimStore> Sim<'a, S> {
    fn new(setup: &'a Setup, options: Arc<TreeOptions>, store: S) -> Result<Self> {
        let shape = LsmShape {
            now_micros: EPOCH_MICROS,
            memtable_size: options.memtable_size as u64,
            table_size: options.table_size,
            tombstone_age_secs: options.tombstone_age_secs,
            has_compaction_filter: options.compaction_filter.is_some(),
            // There are no reads here.
            read_debt: 0,
            read_compaction_bytes: 0,
            runs: vec![],
            next_run: u64::MAX,
            _non_exhaustive: (),
        };
        let total = setup.workload.ops();
        let mut meter = SimMeter::new(total, setup.picture, setup.machine);
        meter.outcome.seed = setup.workload.seed;
        let content = &setup.workload.content;
        let memory_per_op = match setup.workload.per_memtable {
            Some(n) => options.memtable_size as f64 / n.max(1) as f64,
            None => Memtable::cost(content.key_len, content.mean_value() as usize) as f64,
        };
        let slowdown = SimSlowdown::new(options.memtable_size, memory_per_op);
        let ssd = setup.ssd.map(Ssd::new).transpose().map_err(refused)?;
        Ok(Sim {
            setup,
            ssd,
            filters: TableFilters::new(options.clone(), setup.key_span()),
            values: SimBlobFiles::new(options.clone()),
            options,
            store,
            shape,
            bytes: 0,
            running: RunningJobs::new(&setup.machine),
            now: 0.0,
            dirty: false,
            slowdown,
            flushes_begun: 0,
            due: VecDeque::new(),
            flushed_at: 0.0,
            chances: 0,
            meter,
            total,
            until_check: 0,
        })
    }

    fn machine(&self) -> &Machine {
        &self.setup.machine
    }

    fn policy(&self) -> ActivePolicy<'a> {
        self.setup.options.active_policy()
    }

    /// Ends the simulation if its custom policy has failed: the engine goes on with the stored one.
    fn check_policy(&self) -> Result<()> {
        let custom = self.setup.options.custom_policy.as_ref();
        match custom.and_then(|custom| Some((custom.name(), custom.failure()?))) {
            Some((name, reason)) => Err(refused(format!("{name}: {reason}"))),
            None => Ok(()),
        }
    }

    /// Reports whether the policy may want a job only because time has passed.
    fn is_clocked(&self) -> bool {
        self.options.tombstone_age_secs > 0 || self.policy().ages()
    }

    fn wall(&self) -> u64 {
        SimClock { nanos: self.now, interval: 0.0 }.wall(0)
    }

    fn run(mut self, progress: OnProgress<'_>) -> Result<(SimOutcome, LsmShape)> {
        let written = if self.machine().threads == 0 {
            self.run_inline(progress)
        } else {
            self.run_threaded(progress)
        }?;
        self.check_policy()?;
        self.meter.outcome.ops_per_second =
            self.meter.outcome.ops as f64 / (written / 1e9).max(1e-9);
        if cfg!(debug_assertions) {
            self.check_shape();
        }
        let left = self.store.tombstones(self.wall());
        let live = self.store.live(self.wall());
        let (seconds, bytes) = (self.now / 1e9, self.bytes + self.values.bytes());
        let making = 0;
        let (shape, filters) = (&self.shape, &self.filters);
        let moment = Moment { seconds, shape, filters, bytes, making, live };
        self.meter.outcome.blob_files = self.values.count();
        self.meter.outcome.value_bytes = self.values.bytes();
        let entry = self.setup.workload.put_bytes() + 4.0;
        // A block's entry in the index, and two words for its decoded form.
        let per_entry = 41.0 * (entry / self.options.block_size as f64).min(1.0);
        let mut outcome = self.meter.finish(&moment, written / 1e9, left, per_entry);
        outcome.wear = self.ssd.as_ref().map(|ssd| ssd.wear(outcome.seconds));
        Ok((outcome, self.shape))
    }

    /// Returns the nanoseconds between two operations at present.
    fn interval(&self) -> f64 {
        self.machine().interval(
            self.setup.workload.put_bytes(),
            self.slowdown.nanos(),
            self.load(true),
        )
    }

    /// Returns the present load.
    fn load(&self, writing: bool) -> Load {
        let writers = if writing {
            self.machine().writers(self.setup.workload.put_bytes(), self.slowdown.nanos())
        } else {
            0.0
        };
        self.running.load(writers, self.now)
    }

    /// Seals the memtable and sets the pace at which the next one may fill.
    fn seal(&mut self) -> Result<()> {
        self.store.seal()?;
        self.due.push_back(self.now);
        let waited =
            (self.meter.outcome.slowdown_seconds + self.meter.outcome.stalled_seconds) * 1e9;
        let is_full = self.store.sealed() + self.running.flushing() >= self.machine().max_sealed;
        let flushing = || {
            let flush = self.running.jobs.iter().find(|r| r.is_flush());
            flush.map_or(0.0, |r| self.now - r.since)
        };
        self.slowdown.sealed(self.now, waited, is_full.then(flushing));
        Ok(())
    }

    fn write(&mut self, ops: u64, interval: f64) -> Result<crate::model::store::Written> {
        let w = self.store.write(ops, SimClock { nanos: self.now, interval })?;
        let bytes = self.setup.workload.put_bytes();
        let took = self.machine().service(bytes, self.slowdown.nanos(), self.load(true));
        self.meter.writes.add(w.ops as f64, took / 1e9);
        self.now += w.ops as f64 * interval;
        self.meter.outcome.ops += w.ops;
        self.meter.outcome.user_bytes += w.bytes;
        Ok(w)
    }

    /// Alternates between writes and work. Returns the time of the last write.
    fn run_inline(&mut self, progress: OnProgress<'_>) -> Result<f64> {
        loop {
            let interval = self.interval();
            // The engine calls its policy after every write; that makes a difference only if time
            // counts.
            let most = match (self.is_clocked(), self.setup.exact) {
                (false, _) => u64::MAX,
                (true, true) => 1,
                (true, false) => (TICK / interval).max(1.0) as u64,
            };
            let w = self.write(most, interval)?;
            if w.full {
                self.store.seal()?;
                self.due.push_back(self.now);
                self.write(1, interval)?;
            }
            self.meter.busy.mix(w.ops as f64 * interval, &CountOdds::default());
            self.dirty |= self.is_clocked();
            let before = self.now;
            self.work_inline()?;
            if self.now > before {
                self.meter.stalled(self.now - before, 0.0);
            }
            if w.full {
                progress(self.meter.outcome.ops as f64 / self.total.max(1) as f64);
            }
            if w.ended {
                return Ok(self.now);
            }
        }
    }

    fn work_inline(&mut self) -> Result<()> {
        let mut next = None;
        loop {
            let work = match next.take() {
                None if self.store.sealed() > 0 => Some(self.start_flush()?),
                None => self.start_job()?,
                step => step,
            };
            let Some(work) = work else { return Ok(()) };
            let mut load = Load::default();
            load.add(work.cost, work.yields);
            let nanos = self.machine().nanos(work.cost, work.yields, load);
            let mut busy = CountOdds::default();
            busy.and(self.machine().device_share(work.cost, work.yields, load));
            self.meter.busy.mix(nanos, &busy);
            self.now += nanos;
            next = self.finish(work)?;
        }
    }

    /// Writes while background threads work. Returns the time of the last write.
    fn run_threaded(&mut self, progress: OnProgress<'_>) -> Result<f64> {
        let (mut ended, mut stalled, mut paused) = (None, None, false);
        let arrival = self.machine().arrival(self.setup.workload.put_bytes());
        loop {
            self.start_work()?;
            self.running.assign_helpers();
            let writing = ended.is_none() && stalled.is_none() && !paused;
            let next = self.running.next_end(self.load(writing), self.now);
            if !writing {
                let left = ended
                    .map_or(f64::INFINITY, |at| self.machine().stays_open * 1e9 - (self.now - at));
                match next {
                    Some(nanos) if nanos > left => {
                        self.close(left)?;
                        return Ok(ended.unwrap_or(self.now));
                    }
                    Some(nanos) => self.advance(nanos, false)?,
                    None if ended.is_some() => return Ok(ended.unwrap_or(self.now)),
                    None if paused && stalled.is_none() => paused = false,
                    None => {
                        return Err(refused("writers wait and nobody works".to_owned()));
                    }
                }
                if let Some(since) = stalled {
                    self.meter.outcome.stalled_seconds += next.unwrap_or(0.0) / 1e9;
                    if self.store.sealed() + self.running.flushing() < self.machine().max_sealed {
                        self.meter.stalled(self.now - since, arrival);
                        stalled = None;
                        // The end of the flush wakes workers and waiting writers. A random draw
                        // decides which is first. A worker flushes only memtables that are sealed
                        // by then.
                        if self.one_of(2) == 0 {
                            self.start_work()?;
                        }
                        self.seal()?;
                    }
                }
                continue;
            }
            let interval = self.interval();
            let span =
                next.unwrap_or(f64::MAX).min(if self.is_clocked() { TICK } else { f64::MAX });
            let before = self.now;
            let w = self.write((span / interval).ceil().max(1.0) as u64, interval)?;
            let unpaced =
                self.machine().interval(self.setup.workload.put_bytes(), 0.0, self.load(true));
            self.meter.outcome.slowdown_seconds +=
                w.ops as f64 * (interval - unpaced).max(0.0) / 1e9;
            let passed = self.now - before;
            self.now = before;
            self.advance(passed, true)?;
            self.now = before + passed;
            self.dirty |= self.is_clocked();
            if w.full {
                if self.store.sealed() + self.running.flushing() >= self.machine().max_sealed {
                    stalled = Some(self.now);
                } else {
                    self.seal()?;
                }
                progress(self.meter.outcome.ops as f64 / self.total.max(1) as f64);
            }
            if w.ended {
                ended = Some(self.now);
            }
            paused = w.paused;
        }
    }

    /// Closes the store after these nanoseconds. Whether a nearly finished job was done is unknown:
    /// it counts from one half on.
    fn close(&mut self, nanos: f64) -> Result<()> {
        self.advance(nanos.max(0.0), false)?;
        self.running.jobs.retain(|r| r.left < 0.5);
        while let Some(work) = self.running.jobs.pop() {
            // The close does not wait for the removal of files.
            let _ = self.finish(work)?;
        }
        Ok(())
    }

    /// Gives free threads work: flushes first. At most all threads but one compact.
    fn start_work(&mut self) -> Result<()> {
        loop {
            let (flushing, threads) = (self.running.flushing(), self.machine().threads);
            // A single thread interrupts its compaction for a flush, so a flush always finds a
            // thread; but not while it removes files.
            let removes = |r: &RunningJob| matches!(r.work, SimWork::Removal);
            let is_away = threads == 1 && self.running.jobs.iter().any(removes);
            if flushing == 0 && self.store.sealed() > 0 && !is_away {
                let work = self.start_flush()?;
                self.running.jobs.push(work);
                continue;
            }
            if self.running.compacting() >= threads.saturating_sub(1).max(1)
                || self.running.jobs.len() >= threads
            {
                return Ok(());
            }
            match self.start_job()? {
                Some(work) => self.running.jobs.push(work),
                None => return Ok(()),
            }
        }
    }

    /// Lets time pass and finishes jobs that are done then.
    fn advance(&mut self, nanos: f64, writing: bool) -> Result<()> {
        let load = self.load(writing);
        let speeds: Vec<f64> =
            self.running.jobs.iter().map(|r| self.running.speed(r, load, self.now)).collect();
        let mut busy = CountOdds::default();
        for r in self.running.jobs.iter().filter(|r| !self.running.is_paused(r, self.now)) {
            busy.and(self.machine().device_share(r.cost, r.yields, load));
        }
        self.meter.busy.mix(nanos, &busy);
        for (r, speed) in self.running.jobs.iter_mut().zip(speeds) {
            r.left -= nanos * speed;
            put_on(&mut self.ssd, r).map_err(refused)?;
        }
        self.now += nanos;
        while let Some(i) = self.running.jobs.iter().position(|r| r.left <= LEAST_LEFT) {
            let work = self.running.jobs.remove(i);
            let next = self.finish(work)?;
            self.running.jobs.extend(next);
        }
        Ok(())
    }

    /// Returns the number of pieces of a job over this many bytes, each of at least `least`.
    fn pieces_of(&self, bytes: u64, least: u64) -> usize {
        pieces_of(bytes, least, self.machine().threads)
    }

    fn start_flush(&mut self) -> Result<RunningJob> {
        let is_waited_for =
            self.store.sealed() + self.running.flushing() >= self.machine().max_sealed;
        let pieces = if is_waited_for {
            let least = least_flushed(self.options.table_size);
            self.pieces_of(self.options.memtable_size as u64, least)
        } else {
            1
        };
        let yields = self.is_flushed_by_chance();
        let filter_bits = self.filters.flushed(&self.shape.runs, self.store.next_entries());
        let made = self.store.flush(filter_bits, self.wall(), pieces)?;
        self.filters.note(&made.tables, filter_bits);
        let factor = self.setup.flush_factors.get(self.flushes_begun).copied();
        let factor = factor.unwrap_or_else(|| self.jitter(self.machine().jitter.0));
        self.flushes_begun += 1;
        let before = self.machine().before_flush;
        let due = self.due.pop_front().unwrap_or(self.now).max(self.flushed_at);
        self.meter.outcome.flush_waited_seconds += (self.now - due + before) / 1e9;
        let work = WorkBytes { read: 0, written: made.bytes(), tables: made.tables.len() };
        let cost = self.machine().flush_cost(made.entries, work).times(factor);
        let cost = MachineCost { wait: cost.wait + before, ..cost };
        let alone = self.alone(cost, pieces);
        let closing = (self.machine().install + self.machine().flush_wait) * 1e9;
        let flush = RunningJob::new(SimWork::Flush, made, cost, self.now + before);
        Ok(RunningJob { pieces, yields, alone, closing, ..flush })
    }

    /// Draws whether a yielding thread runs the next flush. Any free thread may be the first to see
    /// the memtable, and all but one of them yield.
    fn is_flushed_by_chance(&mut self) -> bool {
        let free = self.machine().threads.saturating_sub(self.running.compacting());
        free > 1 && self.one_of(free as u64) > 0
    }

    /// Returns a random number below `n`.
    fn one_of(&mut self, n: u64) -> u64 {
        self.chances += 1;
        Rng::new(self.setup.workload.seed, !self.chances).below(n)
    }

    /// Returns the nanoseconds of a job in this many pieces alone.
    fn alone(&self, cost: MachineCost, pieces: usize) -> f64 {
        let threads = side_by_side(pieces, pieces.min(self.machine().threads));
        self.machine().alone(MachineCost { threads, ..cost })
    }

    /// Returns a random factor for the cost of the next job.
    fn jitter(&mut self, spread: f64) -> f64 {
        self.chances += 1;
        if spread > 0.0 {
            let normal = Rng::new(self.setup.workload.seed, self.chances).normal();
            // Its mean is 1.
            (spread * normal - spread * spread / 2.0).exp()
        } else {
            1.0
        }
    }

    /// Starts the most urgent job, if there is one.
    fn start_job(&mut self) -> Result<Option<RunningJob>> {
        if !self.dirty {
            return Ok(None);
        }
        self.shape.now_micros = self.wall();
        let merging: Vec<u64> =
            self.running.jobs.iter().map(|r| r.most).filter(|&bytes| bytes > 0).collect();
        let policy = self.policy();
        let has_room = |job: &CompactionJob| fits(policy, &self.shape, &merging, job);
        let job = pick(policy, &self.shape).filter(has_room);
        self.check_policy()?;
        let Some(job) = job else {
            // A job without room waits for another to end, and that changes the shape.
            self.dirty = false;
            return Ok(None);
        };
        // The policy checks the job that it returns.
        debug_assert_eq!(job.check(&self.shape), Ok(()));
        let filter_bits = self.filters.merged(&self.shape.runs, &job);
        let (mut parts, mut most) = (VecDeque::new(), 0);
        for job in steps(policy, &self.shape, job).into_iter().rev() {
            most = job.rewritten(&self.shape).max(most);
            mark(&mut self.shape, &job, true);
            parts.push_front(SimStep { job, most });
        }
        self.next_step(parts, HashSet::new(), filter_bits)
    }

    /// Starts the first of these steps, if nothing blocks it. The inputs of all steps are marked as
    /// busy, and so are the outputs of earlier steps: the tables in `held`.
    fn next_step(
        &mut self,
        mut rest: VecDeque<SimStep>,
        held: HashSet<u64>,
        filter_bits: f64,
    ) -> Result<Option<RunningJob>> {
        let Some(SimStep { job, most }) = rest.pop_front() else { return Ok(None) };
        mark(&mut self.shape, &job, false);
        // The job of the first step has just been checked.
        if !held.is_empty() && job.check(&self.shape).is_err() {
            rest.iter().for_each(|step| _ = mark(&mut self.shape, &step.job, false));
            hold(&mut self.shape, &job, &held, false);
            return Ok(None);
        }
        let bytes_in = mark(&mut self.shape, &job, true);
        let mut made = MadeRuns::default();
        let mut pieces = 0;
        for mut part in job.parts(&self.shape) {
            // A compaction filter must see all of a part, in order.
            let bytes =
                if self.shape.has_compaction_filter { 0 } else { part.rewritten(&self.shape) };
            let most = self.pieces_of(bytes, self.options.table_size);
            pieces += cut_merge(&self.shape, &mut part, most);
            let (shape, values) = (&self.shape, &self.values);
            made.append(self.store.merge(shape, &part, values, filter_bits, self.wall())?);
        }
        self.filters.note(&made.tables, filter_bits);
        let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
        let merged = job.inputs.iter().flat_map(|i| &i.tables).filter(|id| !adopted.contains(id));
        let stale_in = match job.action {
            Action::Merge => self.values.stale(merged.copied()),
            Action::Move | Action::Drop => 0,
        };
        let work = WorkBytes {
            read: bytes_in + stale_in,
            written: made.bytes(),
            tables: made.tables.len(),
        };
        let usual = match job.action {
            Action::Merge => self.machine().merge_cost(job.inputs.len(), made.entries_in, work),
            Action::Move | Action::Drop => self.machine().move_cost(),
        };
        let alone = self.alone(usual, pieces);
        let closing = self.machine().install * 1e9;
        let cost = usual.times(self.jitter(self.machine().jitter.1));
        let started = RunningJob::new(SimWork::Compaction(job), made, cost, self.now);
        let yields = self.machine().threads > 1;
        let started = RunningJob { pieces, yields, alone, closing, ..started };
        Ok(Some(RunningJob { rest, most, held, filter_bits, bytes_in, ..started }))
    }

    /// Asserts that the shape and the counts about it are consistent.
    fn check_shape(&self) {
        assert_eq!(self.shape.check(), Ok(()));
        assert_eq!(self.bytes, self.shape.size());
    }

    /// Does the same after a change; with many tables only now and then, because it checks all of
    /// them.
    fn check_change(&mut self) {
        if self.until_check > 0 {
            self.until_check -= 1;
        } else {
            self.until_check = self.shape.tables().count() / 256;
            self.check_shape();
        }
    }

    /// Finishes a job, or a step of one. Returns the work that its thread must do next.
    fn finish(&mut self, mut work: RunningJob) -> Result<Option<RunningJob>> {
        work.left = 0.0;
        put_on(&mut self.ssd, &mut work).map_err(refused)?;
        let out = work.bytes_out();
        let (made_values, uses) =
            (std::mem::take(&mut work.made.values), std::mem::take(&mut work.made.uses));
        let of_values = made_values.iter().map(|v| v.size).sum::<u64>();
        self.meter.outcome.value_bytes_written += of_values;
        let live = self.store.live(self.wall());
        let (seconds, bytes) = (self.now / 1e9, self.bytes + self.values.bytes());
        let making = self.running.making() + out;
        let (shape, filters) = (&self.shape, &self.filters);
        let moment = Moment { seconds, shape, filters, bytes, making, live };
        self.meter.space(&moment);
        let (took, cpu) = ((self.now - work.since) / 1e9, work.cost.cpu / 1e9);
        let o = &mut self.meter.outcome;
        let mut removal = None;
        let words = match work.work {
            SimWork::Removal => return self.next_step(work.rest, work.held, work.filter_bits),
            SimWork::Flush => {
                o.flush_spread.add(took / work.made.entries.max(1.0));
                o.writing_seconds = self.now / 1e9 - o.slowdown_seconds - o.stalled_seconds;
                o.flush_seconds += took;
                o.flush_cpu_seconds += cpu;
                self.slowdown.flushed(self.now - work.since);
                self.flushed_at = self.now;
                self.meter.flushed(&work.made, out);
                self.bytes += out - of_values;
                let tables = work.made.tables;
                if let Some(first) = tables.first() {
                    let run = RunShape { level: 0, number: first.id, tables: tables.into() };
                    self.shape.runs.insert(0, Arc::new(run));
                }
                self.change_values(made_values, uses, &[]);
                None
            }
            SimWork::Compaction(job) => {
                if job.action == Action::Merge {
                    o.merge_spread.add(took * 1e9 / work.alone.max(1.0));
                    o.merge_seconds += took;
                    o.merge_cpu_seconds += cpu;
                }
                self.meter.compacted(&job, work.bytes_in, &work.made, out);
                let in_steps = !work.rest.is_empty() || !work.held.is_empty();
                if in_steps {
                    let moved = if job.action == Action::Move { &job.inputs[..] } else { &[] };
                    work.held.extend(moved.iter().flat_map(|input| &input.tables));
                    work.held.extend(work.made.tables.iter().map(|t| t.id));
                    work.held.extend(&job.adopted);
                }
                let gone = apply(&mut self.shape, &job, work.made.tables);
                let removed = gone.iter().map(|t| t.1).sum::<u64>();
                self.bytes = self.bytes + (out - of_values) - removed;
                if removed > 0 {
                    let cost = self.machine().removal_cost(removed);
                    let made = MadeRuns::default();
                    let next = RunningJob::new(SimWork::Removal, made, cost, self.now);
                    removal = Some(RunningJob { yields: work.yields, ..next });
                }
                if let Some(ssd) = &mut self.ssd {
                    gone.iter().for_each(|t| ssd.trim(t.0));
                }
                self.change_values(made_values, uses, &gone);
                self.filters.forget(gone.iter().map(|t| t.0));
                self.store.forget(gone.into_iter().map(|t| t.0));
                if in_steps {
                    hold(&mut self.shape, &job, &work.held, !work.rest.is_empty());
                }
                Some(job)
            }
        };
        if cfg!(debug_assertions) {
            self.check_change();
        }
        self.dirty = true;
        self.slowdown.runs_changed(run_limits(self.policy(), &self.shape), self.shape.runs.len());
        let (seconds, bytes) = (self.now / 1e9, self.bytes + self.values.bytes());
        let making = self.running.making();
        let (shape, filters) = (&self.shape, &self.filters);
        let moment = Moment { seconds, shape, filters, bytes, making, live };
        if words.is_none() {
            self.meter.after_flush(&moment);
        }
        self.meter
            .frame(&moment, || words.map_or_else(|| "flush".to_owned(), |job| job.to_string()));
        match removal {
            Some(removal) => {
                let RunningJob { rest, held, filter_bits, .. } = work;
                let most = rest.front().map_or(0, |step| step.most);
                Ok(Some(RunningJob { rest, most, held, filter_bits, ..removal }))
            }
            None => self.next_step(work.rest, work.held, work.filter_bits),
        }
    }

    /// Applies new blob files with their references, and removed tables.
    fn change_values(
        &mut self,
        made: Vec<SimBlobOutput>,
        uses: Vec<(u64, Vec<BlobShare>)>,
        gone: &[(u64, u64)],
    ) {
        if self.options.blob_threshold == 0 {
            return;
        }
        let files = self.values.change(made, uses, gone.iter().map(|t| t.0));
        if let Some(ssd) = &mut self.ssd {
            files.iter().for_each(|id| ssd.trim(*id));
        }
        self.values.mark(&mut self.shape);
    }
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, why)
}
