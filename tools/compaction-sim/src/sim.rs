//! The simulator: drives a [`SimStore`] through the engine's own policy functions, as `db` does.
//!
//! The order of things is the engine's: a memtable that is full is sealed, a flush goes before a
//! compaction, the most urgent job of the policy is started with its inputs marked busy when it has
//! room and is applied when it is done, writers are slowed by [`delay`] or [`fill_delay`],
//! whichever is longer, and wait while every memtable is full. Without threads all work is done at
//! the end of the write that made it necessary.
//!
//! Time is a row of events: between two of them the writers' rate and the jobs' speeds are constant
//! ([`Machine`]).

use std::collections::HashSet;
use std::sync::Arc;

use firn_kv::internals::compaction::{
    Action, CompactionJob, RunShape, TableShape, TreeShape, delay, fill_delay, pressure,
};
use firn_kv::internals::memtable::Memtable;
use firn_kv::{Error, ErrorKind, Result, TreeOptions};

use crate::exact::{Exact, ExactTtl};
use crate::filters::TableFilters;
use crate::idea::SimPolicy;
use crate::latency::CountOdds;
use crate::machine::{Load, Machine, MachineCost};
use crate::meter::{Moment, SimMeter, SimOutcome};
use crate::ssd::{Ssd, SsdShape};
use crate::store::{EPOCH_MICROS, MadeRuns, SimClock, SimStore};
use crate::summary::{RunSummary, normal};
use crate::workload::SimWorkload;

/// How often a time-driven policy is asked while nothing else happens, in nanoseconds: as often as
/// the engine's idle workers do.
const TICK: f64 = 1e9;

/// What is to be simulated.
#[derive(Clone)]
pub struct Setup {
    /// The tree.
    pub options: TreeOptions,
    /// A policy that the engine does not have, instead of that of the options.
    pub idea: Option<Arc<dyn SimPolicy>>,
    /// What is done to it.
    pub workload: SimWorkload,
    /// The machine.
    pub machine: Machine,
    /// What each flush costs over what the machine says, in their order; 1 for those beyond the
    /// end.
    pub flush_factors: Arc<[f64]>,
    /// The device, where its own garbage collection is wanted.
    pub ssd: Option<SsdShape>,
    /// Whether every key is held; else only numbers are.
    pub exact: bool,
    /// Whether frames of a moving picture are wanted.
    pub picture: bool,
}

impl Setup {
    /// What the policy of the options does to a workload on a machine: in numbers only, without a
    /// picture.
    pub fn new(options: TreeOptions, workload: SimWorkload, machine: Machine) -> Setup {
        Setup {
            options,
            idea: None,
            workload,
            machine,
            flush_factors: Arc::default(),
            ssd: None,
            exact: false,
            picture: false,
        }
    }
}

/// What a simulation is told besides: called now and then with the share that is done.
pub type OnProgress<'a> = &'a mut dyn FnMut(f64);

/// Runs a simulation to its end.
///
/// # Errors
/// Options out of bounds, and what the engine's parts refuse.
pub fn run(setup: &Setup, progress: OnProgress<'_>) -> Result<SimOutcome> {
    let (outcome, _) = run_to_shape(setup, progress)?;
    Ok(outcome)
}

/// As [`run`], with the tables as they are in the end.
///
/// # Errors
/// As [`run`].
pub fn run_to_shape(setup: &Setup, progress: OnProgress<'_>) -> Result<(SimOutcome, TreeShape)> {
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

/// A job at work.
struct RunningJob {
    /// `None` for a flush.
    job: Option<CompactionJob>,
    made: MadeRuns,
    bytes_in: u64,
    cost: MachineCost,
    /// The share that is still to be done, 1 to 0.
    left: f64,
    /// When it was begun, waiting not counted.
    since: f64,
    /// Bytes of its tables that have got to the device.
    stored: f64,
}

impl RunningJob {
    fn bytes_out(&self) -> u64 {
        self.made.tables.iter().map(|t| t.size).sum()
    }
}

/// How fast memtables fill and how fast they are flushed, as the engine's pacing sees it; times in
/// nanoseconds.
struct SimFill {
    /// The delay for each KiB of memtable.
    delay: u64,
    /// What a KiB took in the last flush; 0 before the first.
    flush_per_kib: u64,
    /// When the present memtable was begun, and how long writers had slept and stood still until
    /// then.
    begun: f64,
    stood: f64,
}

struct Sim<'a, S> {
    setup: &'a Setup,
    options: Arc<TreeOptions>,
    store: S,
    filters: TableFilters,
    ssd: Option<Ssd>,
    shape: TreeShape,
    /// Bytes of the shape's tables.
    bytes: u64,
    running: Vec<RunningJob>,
    now: f64,
    /// Whether the shape may want a job that it was not asked for yet.
    dirty: bool,
    delay: u64,
    fill: SimFill,
    /// Bytes that the engine's pacing counts for an operation.
    memory_per_op: f64,
    flushes_begun: usize,
    jobs_begun: u64,
    meter: SimMeter,
    total: u64,
}

impl<'a, S: SimStore> Sim<'a, S> {
    fn new(setup: &'a Setup, options: Arc<TreeOptions>, store: S) -> Result<Self> {
        let shape = TreeShape {
            now_micros: EPOCH_MICROS,
            memtable_size: options.memtable_size as u64,
            table_size: options.table_size,
            tombstone_age_secs: options.tombstone_age_secs,
            tied: options.purge.is_some(),
            // Nobody reads here.
            toll: 0,
            for_readers: 0,
            runs: vec![],
            next_run: u64::MAX,
        };
        let total = setup.workload.ops();
        let mut meter = SimMeter::new(total, setup.picture, setup.machine);
        meter.outcome.seed = setup.workload.seed;
        let content = &setup.workload.content;
        let memory_per_op = match setup.workload.per_memtable {
            Some(n) => options.memtable_size as f64 / n.max(1) as f64,
            None => Memtable::cost(content.key_len, content.mean_value() as usize) as f64,
        };
        // The first memtable was begun at no time that counts.
        let fill = SimFill { delay: 0, flush_per_kib: 0, begun: f64::NEG_INFINITY, stood: 0.0 };
        let ssd = setup.ssd.map(Ssd::new).transpose().map_err(of_device)?;
        Ok(Sim {
            setup,
            ssd,
            filters: TableFilters::new(options.clone()),
            options,
            store,
            shape,
            bytes: 0,
            running: vec![],
            now: 0.0,
            dirty: false,
            delay: 0,
            fill,
            memory_per_op,
            flushes_begun: 0,
            jobs_begun: 0,
            meter,
            total,
        })
    }

    fn machine(&self) -> &Machine {
        &self.setup.machine
    }

    fn policy(&self) -> &'a dyn SimPolicy {
        self.setup.idea.as_deref().unwrap_or(&self.setup.options.policy)
    }

    /// Whether the policy may want something only because time has passed.
    fn is_clocked(&self) -> bool {
        self.options.tombstone_age_secs > 0 || self.policy().is_clocked()
    }

    fn wall(&self) -> u64 {
        EPOCH_MICROS + (self.now / 1000.0) as u64
    }

    fn run(mut self, progress: OnProgress<'_>) -> Result<(SimOutcome, TreeShape)> {
        let written = if self.machine().threads == 0 {
            self.run_inline(progress)
        } else {
            self.run_beside(progress)
        }?;
        if let Some(why) = self.policy().failed() {
            return Err(Error::new(ErrorKind::InvalidArgument, why));
        }
        self.meter.outcome.ops_per_second =
            self.meter.outcome.ops as f64 / (written / 1e9).max(1e-9);
        let left = self.store.tombstones(self.wall());
        let live = self.store.live(self.wall());
        let moment = Moment {
            seconds: self.now / 1e9,
            shape: &self.shape,
            filters: &self.filters,
            bytes: self.bytes,
            making: 0,
            live,
        };
        let entry = self.setup.workload.put_bytes() + 4.0;
        // A block's place in the index, and two words for its decoded form.
        let per_entry = 41.0 * (entry / self.options.block_size as f64).min(1.0);
        let mut outcome = self.meter.finish(&moment, left, per_entry);
        outcome.wear = self.ssd.as_ref().map(|ssd| ssd.wear(outcome.seconds));
        Ok((outcome, self.shape))
    }

    /// Nanoseconds that the engine slows an operation by, at present.
    fn slowed(&self) -> f64 {
        self.delay.max(self.fill.delay) as f64 * self.memory_per_op / 1024.0
    }

    /// Nanoseconds from one operation to the next, at present.
    fn interval(&self) -> f64 {
        self.machine().interval(self.setup.workload.put_bytes(), self.slowed(), self.load(true))
    }

    /// Who is at work now.
    fn load(&self, writing: bool) -> Load {
        let writers = if writing {
            self.machine().writers(self.setup.workload.put_bytes(), self.slowed())
        } else {
            0.0
        };
        let flushes = self.flushing();
        let merges = self.running.iter().filter(|r| r.job.is_some() && !self.is_paused(r)).count();
        Load { writers, flushes, merges }
    }

    /// Seals the memtable and sets the pace at which the next one may fill.
    fn seal(&mut self) -> Result<()> {
        self.store.seal()?;
        let stood = (self.meter.outcome.paced_seconds + self.meter.outcome.stalled_seconds) * 1e9;
        let (elapsed, idle) = (self.now - self.fill.begun, stood - self.fill.stood);
        let done =
            self.running.iter().find(|r| r.job.is_none()).map_or(0.0, |r| self.now - r.since);
        let wait = self.store.sealed() + self.flushing() >= self.machine().max_sealed;
        self.fill.delay = if wait {
            // The casts saturate.
            fill_delay(
                self.options.memtable_size,
                self.fill.flush_per_kib,
                done as u64,
                (elapsed - idle) as u64,
            )
        } else {
            0
        };
        (self.fill.begun, self.fill.stood) = (self.now, stood);
        Ok(())
    }

    fn write(&mut self, ops: u64, interval: f64) -> Result<crate::store::Written> {
        let w = self.store.write(ops, SimClock { nanos: self.now, interval })?;
        let bytes = self.setup.workload.put_bytes();
        let took = self.machine().service(bytes, self.slowed(), self.load(true));
        self.meter.writes.add(w.ops as f64, took / 1e9);
        self.now += w.ops as f64 * interval;
        self.meter.outcome.ops += w.ops;
        self.meter.outcome.user_bytes += w.bytes;
        Ok(w)
    }

    /// Writes and works in turn. Gives the time at which the last write was done.
    fn run_inline(&mut self, progress: OnProgress<'_>) -> Result<f64> {
        loop {
            let interval = self.interval();
            // The engine asks its policy after every write; only where time counts can that make a
            // difference.
            let most = match (self.is_clocked(), self.setup.exact) {
                (false, _) => u64::MAX,
                (true, true) => 1,
                (true, false) => (TICK / interval).max(1.0) as u64,
            };
            let w = self.write(most, interval)?;
            if w.full {
                self.store.seal()?;
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
        loop {
            let work =
                if self.store.sealed() > 0 { Some(self.start_flush()?) } else { self.start_job()? };
            let Some(work) = work else { return Ok(()) };
            let is_flush = work.job.is_none();
            let load = Load {
                writers: 0.0,
                flushes: usize::from(is_flush),
                merges: usize::from(!is_flush),
            };
            let nanos = self.machine().nanos(work.cost, is_flush, load);
            let mut busy = CountOdds::default();
            busy.and(self.machine().device_share(work.cost, is_flush, load));
            self.meter.busy.mix(nanos, &busy);
            self.now += nanos;
            self.finish(work)?;
        }
    }

    /// Writes while background threads work. Gives the time at which the last write was done.
    fn run_beside(&mut self, progress: OnProgress<'_>) -> Result<f64> {
        let (mut ended, mut stalled) = (None, None);
        let arrival = self.machine().arrival(self.setup.workload.put_bytes());
        loop {
            self.start_work()?;
            let writing = ended.is_none() && stalled.is_none();
            let next = self.next_end(writing);
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
                    None => {
                        return Err(Error::new(
                            ErrorKind::InvalidArgument,
                            "writers wait and nobody works",
                        ));
                    }
                }
                if let Some(since) = stalled {
                    self.meter.outcome.stalled_seconds += next.unwrap_or(0.0) / 1e9;
                    if self.store.sealed() + self.flushing() < self.machine().max_sealed {
                        self.meter.stalled(self.now - since, arrival);
                        stalled = None;
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
            self.meter.outcome.paced_seconds += w.ops as f64 * (interval - unpaced).max(0.0) / 1e9;
            let passed = self.now - before;
            self.now = before;
            self.advance(passed, true)?;
            self.now = before + passed;
            self.dirty |= self.is_clocked();
            if w.full {
                if self.store.sealed() + self.flushing() >= self.machine().max_sealed {
                    stalled = Some(self.now);
                } else {
                    self.seal()?;
                }
                progress(self.meter.outcome.ops as f64 / self.total.max(1) as f64);
            }
            if w.ended {
                ended = Some(self.now);
            }
        }
    }

    /// The store is closed when so many nanoseconds have passed. Nobody knows of what was nearly
    /// done then whether it was: it counts from one half on.
    fn close(&mut self, nanos: f64) -> Result<()> {
        self.advance(nanos.max(0.0), false)?;
        self.running.retain(|r| r.left < 0.5);
        while let Some(work) = self.running.pop() {
            self.finish(work)?;
        }
        Ok(())
    }

    fn flushing(&self) -> usize {
        self.running.iter().filter(|r| r.job.is_none()).count()
    }

    /// Gives threads that are free something to do: flushes first, and at most all threads but one
    /// compact.
    fn start_work(&mut self) -> Result<()> {
        loop {
            let (flushing, threads) = (self.flushing(), self.machine().threads);
            // One thread alone stops its compaction for a flush, so a flush always finds someone.
            if flushing == 0 && self.store.sealed() > 0 {
                let work = self.start_flush()?;
                self.running.push(work);
                continue;
            }
            let compacting = self.running.len() - flushing;
            if compacting >= threads.saturating_sub(1).max(1) || self.running.len() >= threads {
                return Ok(());
            }
            match self.start_job()? {
                Some(work) => self.running.push(work),
                None => return Ok(()),
            }
        }
    }

    /// Whether a running job waits for a flush, as the only thread does both. It goes on until the
    /// flush begins.
    fn is_paused(&self, r: &RunningJob) -> bool {
        let begun = |f: &RunningJob| f.job.is_none() && f.since <= self.now;
        self.machine().threads == 1 && r.job.is_some() && self.running.iter().any(begun)
    }

    fn speed(&self, r: &RunningJob, load: Load) -> f64 {
        if self.is_paused(r) {
            0.0
        } else {
            1.0 / self.machine().nanos(r.cost, r.job.is_none(), load).max(1.0)
        }
    }

    /// Nanoseconds until the next job ends.
    fn next_end(&self, writing: bool) -> Option<f64> {
        let load = self.load(writing);
        let ends = self
            .running
            .iter()
            .filter(|r| !self.is_paused(r))
            .map(|r| r.left / self.speed(r, load));
        // A flush that begins may stop a merge.
        let begins = self.running.iter().map(|r| r.since - self.now).filter(|&nanos| nanos > 0.0);
        let begins = begins.filter(|_| self.machine().threads == 1);
        ends.chain(begins).min_by(f64::total_cmp)
    }

    /// Lets time pass and finishes what is done then.
    fn advance(&mut self, nanos: f64, writing: bool) -> Result<()> {
        let load = self.load(writing);
        let speeds: Vec<f64> = self.running.iter().map(|r| self.speed(r, load)).collect();
        let mut busy = CountOdds::default();
        for r in self.running.iter().filter(|r| !self.is_paused(r)) {
            busy.and(self.machine().device_share(r.cost, r.job.is_none(), load));
        }
        self.meter.busy.mix(nanos, &busy);
        for (r, speed) in self.running.iter_mut().zip(speeds) {
            r.left -= nanos * speed;
            put_on(&mut self.ssd, r)?;
        }
        self.now += nanos;
        while let Some(i) = self.running.iter().position(|r| r.left <= 1e-9) {
            let work = self.running.remove(i);
            self.finish(work)?;
        }
        Ok(())
    }

    fn start_flush(&mut self) -> Result<RunningJob> {
        let made = self.store.flush(self.wall())?;
        self.filters.flushed(&self.shape.runs, &made.tables, made.entries as u64);
        let bytes = made.tables.iter().map(|t| t.size).sum();
        let factor = self.setup.flush_factors.get(self.flushes_begun).copied();
        let factor = factor.unwrap_or_else(|| self.jitter(self.machine().jitter.0));
        self.flushes_begun += 1;
        let before = self.machine().before_flush;
        let cost = self.machine().flush_cost(made.entries, bytes).times(factor);
        let cost = MachineCost { wait: cost.wait + before, ..cost };
        Ok(RunningJob {
            job: None,
            made,
            bytes_in: 0,
            cost,
            left: 1.0,
            since: self.now + before,
            stored: 0.0,
        })
    }

    /// What the next job takes over what the machine says.
    fn jitter(&mut self, spread: f64) -> f64 {
        self.jobs_begun += 1;
        if spread > 0.0 {
            let normal = normal(self.setup.workload.seed, self.jobs_begun);
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
            self.running.iter().map(|r| r.bytes_in).filter(|&bytes| bytes > 0).collect();
        let policy = self.policy();
        let has_room = |job: &CompactionJob| policy.has_room(&self.shape, &merging, job);
        let Some(job) = policy.choose(&self.shape).filter(has_room) else {
            // One that does not fit waits for another to end, and that makes the shape a new one.
            self.dirty = false;
            return Ok(None);
        };
        // Who chooses checks what it gives.
        debug_assert_eq!(job.check(&self.shape), Ok(()));
        let mut made = MadeRuns::default();
        for part in job.parts(&self.shape) {
            made.append(self.store.merge(&self.shape, &part, self.wall())?);
        }
        self.filters.merged(&self.shape.runs, &job, &made.tables);
        let bytes_in = mark(&mut self.shape, &job);
        let bytes_out = made.tables.iter().map(|t| t.size).sum();
        let cost = match job.action {
            Action::Merge => {
                let runs = job.inputs.len();
                let cost = self.machine().merge_cost(runs, made.entries_in, bytes_in, bytes_out);
                cost.times(self.jitter(self.machine().jitter.1))
            }
            Action::Move | Action::Drop => MachineCost::default(),
        };
        Ok(Some(RunningJob {
            job: Some(job),
            made,
            bytes_in,
            cost,
            left: 1.0,
            since: self.now,
            stored: 0.0,
        }))
    }

    fn making(&self) -> u64 {
        self.running
            .iter()
            .map(|r| (r.bytes_out() as f64 * (1.0 - r.left).clamp(0.0, 1.0)) as u64)
            .sum()
    }

    fn finish(&mut self, mut work: RunningJob) -> Result<()> {
        work.left = 0.0;
        put_on(&mut self.ssd, &mut work)?;
        let out = work.bytes_out();
        let live = self.store.live(self.wall());
        let moment = Moment {
            seconds: self.now / 1e9,
            shape: &self.shape,
            filters: &self.filters,
            bytes: self.bytes,
            making: self.making() + out,
            live,
        };
        self.meter.space(&moment);
        let (took, cpu) = ((self.now - work.since) / 1e9, work.cost.cpu / 1e9);
        let o = &mut self.meter.outcome;
        let (sum, sum_cpu) = match work.job {
            None => (&mut o.flush_seconds, &mut o.flush_cpu_seconds),
            Some(_) => (&mut o.merge_seconds, &mut o.merge_cpu_seconds),
        };
        *sum += took;
        *sum_cpu += cpu;
        let words = match work.job {
            None => {
                let kib = (self.options.memtable_size / 1024).max(1) as f64;
                self.fill.flush_per_kib = ((self.now - work.since) / kib) as u64;
                self.add_run(work.made, out);
                None
            }
            Some(job) => {
                self.note_job(&job, work.bytes_in, &work.made, out);
                let gone = apply(&mut self.shape, &job, work.made.tables);
                self.bytes = self.bytes + out - gone.iter().map(|t| t.1).sum::<u64>();
                debug_assert_eq!(self.bytes, self.shape.size());
                if let Some(ssd) = &mut self.ssd {
                    gone.iter().for_each(|t| ssd.trim(t.0));
                }
                self.filters.forget(gone.iter().map(|t| t.0));
                self.store.forget(gone.into_iter().map(|t| t.0));
                Some(job)
            }
        };
        debug_assert_eq!(self.shape.check(), Ok(()));
        self.dirty = true;
        self.delay = delay(pressure(self.policy().limits(&self.shape), self.shape.runs.len()));
        let moment = Moment {
            seconds: self.now / 1e9,
            shape: &self.shape,
            filters: &self.filters,
            bytes: self.bytes,
            making: self.making(),
            live,
        };
        if words.is_none() {
            self.meter.after_flush(&moment);
        }
        self.meter
            .frame(&moment, || words.map_or_else(|| "flush".to_owned(), |job| job.to_string()));
        Ok(())
    }

    fn add_run(&mut self, made: MadeRuns, bytes: u64) {
        let o = &mut self.meter.outcome;
        o.flushes += 1;
        o.flush_bytes += bytes;
        o.flush_raw_bytes += made.raw_bytes;
        made.vanished.iter().for_each(|&(n, age)| self.meter.ages.add(n, age as f64 / 1e6));
        self.bytes += bytes;
        let number = made.tables.first().map_or(0, |t| t.id);
        if !made.tables.is_empty() {
            let run = RunShape { level: 0, number, tables: made.tables.into() };
            self.shape.runs.insert(0, Arc::new(run));
        }
    }

    fn note_job(&mut self, job: &CompactionJob, bytes_in: u64, made: &MadeRuns, out: u64) {
        let o = &mut self.meter.outcome;
        match job.action {
            Action::Merge => o.merges += 1,
            Action::Move => o.moves += 1,
            Action::Drop => o.drops += 1,
        }
        o.merge_read += bytes_in;
        o.merge_written += out;
        let reason = o.reasons.entry(job.reason.name().to_owned()).or_default();
        reason[0] += 1;
        reason[1] += bytes_in;
        reason[2] += out;
        made.vanished.iter().for_each(|&(n, age)| self.meter.ages.add(n, age as f64 / 1e6));
    }
}

/// What a job has written until now gets to the device, table by table.
fn put_on(ssd: &mut Option<Ssd>, r: &mut RunningJob) -> Result<()> {
    let Some(ssd) = ssd else { return Ok(()) };
    let until = r.bytes_out() as f64 * (1.0 - r.left).clamp(0.0, 1.0);
    let mut begins = 0.0;
    for t in &r.made.tables {
        let ends = begins + t.size as f64;
        let (from, to) = (r.stored.max(begins), until.min(ends));
        if to > from {
            ssd.write(t.id, to - from).map_err(of_device)?;
        }
        begins = ends;
    }
    r.stored = r.stored.max(until);
    Ok(())
}

fn of_device(why: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, why)
}

/// Marks the inputs of a job as busy and gives the bytes that are written again. The same as
/// [`TreeShape::set_busy`] and [`CompactionJob::rewritten`], without a look at every table.
fn mark(shape: &mut TreeShape, job: &CompactionJob) -> u64 {
    let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
    let mut bytes = 0;
    for input in &job.inputs {
        let Some(run) =
            shape.runs.iter_mut().find(|r| r.level == input.level && r.number == input.run)
        else {
            continue;
        };
        let mut wanted = input.tables.iter().peekable();
        for t in &mut Arc::make_mut(run).tables {
            if wanted.next_if(|id| **id == t.id).is_some() {
                t.busy = true;
                if job.action == Action::Merge && !adopted.contains(&t.id) {
                    bytes += t.size;
                }
            }
        }
    }
    bytes
}

/// Does to the shape what the job does to the tree, in place, and gives the tables that are no
/// more, with their sizes. The same as the engine's own [`apply`](firn_kv::internals::compaction::shape::apply),
/// which copies and checks the whole shape: too slow for a hundred thousand tables.
fn apply(shape: &mut TreeShape, job: &CompactionJob, outputs: Vec<TableShape>) -> Vec<(u64, u64)> {
    let adopted: HashSet<u64> = job.adopted.iter().copied().collect();
    let mut out = outputs;
    let mut gone = vec![];
    for input in &job.inputs {
        let Some(run) =
            shape.runs.iter_mut().find(|r| r.level == input.level && r.number == input.run)
        else {
            continue;
        };
        let taken: HashSet<u64> = input.tables.iter().copied().collect();
        let stays = |id: &u64| job.action == Action::Move || adopted.contains(id);
        let kept = |t: &&TableShape| taken.contains(&t.id) && stays(&t.id);
        out.extend(run.tables.iter().filter(kept).cloned());
        let leaves = |t: &&TableShape| taken.contains(&t.id) && !stays(&t.id);
        gone.extend(run.tables.iter().filter(leaves).map(|t| (t.id, t.size)));
        Arc::make_mut(run).tables.retain(|t| !taken.contains(&t.id));
    }
    if !out.is_empty() {
        out.iter_mut().for_each(|t| t.busy = false);
        let place = job.output();
        let at = shape.runs.partition_point(|r| r.place() < place);
        if shape.runs.get(at).is_none_or(|r| r.place() != place) {
            let run = RunShape { level: place.level, number: place.number, ..RunShape::default() };
            shape.runs.insert(at, Arc::new(run));
        }
        let tables = &mut Arc::make_mut(&mut shape.runs[at]).tables;
        tables.append(&mut out);
        tables.sort_by(|a, b| a.first.cmp(&b.first).then(a.id.cmp(&b.id)));
    }
    shape.runs.retain(|r| !r.tables.is_empty());
    gone
}
