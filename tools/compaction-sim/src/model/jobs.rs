//! The running jobs of a simulation: their remaining work, helper threads and speeds.

use std::collections::{HashSet, VecDeque};

use firn_kv::internals::compaction::CompactionJob;

use crate::model::machine::{Load, Machine, MachineCost, side_by_side};
use crate::model::ssd::Ssd;
use crate::model::store::MadeRuns;

/// Smaller remaining shares of a job count as zero: they are rounding errors.
pub(super) const LEAST_LEFT: f64 = 1e-9;

/// Work of a thread.
pub(super) enum SimWork {
    Flush,
    Compaction(CompactionJob),
    /// Files of obsolete tables are removed.
    Removal,
}

/// A step of a compaction that runs in several.
pub(super) struct SimStep {
    pub(super) job: CompactionJob,
    /// Largest number of bytes that it or a later step rewrites.
    pub(super) most: u64,
}

/// A running job.
pub(super) struct RunningJob {
    pub(super) work: SimWork,
    /// Steps after it, if it has several.
    pub(super) rest: VecDeque<SimStep>,
    /// Largest number of bytes that any of its steps rewrites.
    pub(super) most: u64,
    /// Tables that earlier steps have written, which no other job may take yet.
    pub(super) held: HashSet<u64>,
    /// Filter bits per key in the output of all steps.
    pub(super) filter_bits: f64,
    pub(super) made: MadeRuns,
    /// Bytes of the input tables.
    pub(super) bytes_in: u64,
    pub(super) cost: MachineCost,
    /// Number of pieces in which it runs.
    pub(super) pieces: usize,
    /// Number of threads that help its owner at present.
    pub(super) helpers: usize,
    /// Whether its threads yield to writers, as compacting threads do.
    pub(super) yields: bool,
    /// Nanoseconds that it would take alone and without jitter.
    pub(super) alone: f64,
    /// Nanoseconds at its end, when its tables are written and no thread helps any more.
    pub(super) closing: f64,
    /// Share of the job that these are.
    pub(super) tail: f64,
    /// Remaining share, 1 to 0.
    pub(super) left: f64,
    /// Start time, without waiting.
    pub(super) since: f64,
    /// Bytes of its tables that have reached the device.
    pub(super) stored: f64,
}

impl RunningJob {
    pub(super) fn new(work: SimWork, made: MadeRuns, cost: MachineCost, since: f64) -> RunningJob {
        RunningJob {
            work,
            rest: VecDeque::new(),
            most: 0,
            held: HashSet::new(),
            filter_bits: 0.0,
            made,
            bytes_in: 0,
            cost,
            pieces: 1,
            helpers: 0,
            yields: false,
            alone: 0.0,
            closing: 0.0,
            tail: 0.0,
            left: 1.0,
            since,
            stored: 0.0,
        }
    }

    pub(super) fn is_flush(&self) -> bool {
        matches!(self.work, SimWork::Flush)
    }

    /// Reports whether other threads may help: until its tables are written.
    pub(super) fn is_divided(&self) -> bool {
        self.pieces > 1 && self.left > self.tail + LEAST_LEFT
    }

    /// Returns its present cost: without helpers it is that of one thread.
    pub(super) fn present_cost(&self) -> MachineCost {
        let threads = if self.is_divided() { self.cost.threads } else { 1.0 };
        MachineCost { threads, ..self.cost }
    }

    pub(super) fn bytes_out(&self) -> u64 {
        self.made.bytes()
    }
}

/// The running jobs on a machine.
pub(super) struct RunningJobs<'a> {
    machine: &'a Machine,
    pub(super) jobs: Vec<RunningJob>,
}

impl<'a> RunningJobs<'a> {
    pub(super) fn new(machine: &'a Machine) -> RunningJobs<'a> {
        RunningJobs { machine, jobs: vec![] }
    }

    /// Returns the present load, with writers that use this many cores.
    pub(super) fn load(&self, writers: f64, now: f64) -> Load {
        let mut load = Load { writers, ..Load::default() };
        for r in self.jobs.iter().filter(|r| !self.is_paused(r, now)) {
            load.add(r.present_cost(), r.yields);
        }
        load
    }

    pub(super) fn flushing(&self) -> usize {
        self.jobs.iter().filter(|r| r.is_flush()).count()
    }

    /// Returns the number of threads that compact.
    pub(super) fn compacting(&self) -> usize {
        self.jobs.iter().filter(|r| r.yields || !r.is_flush()).count()
    }

    /// Reports whether a running job waits for a flush, because the only thread does both. It
    /// continues until the flush begins.
    pub(super) fn is_paused(&self, r: &RunningJob, now: f64) -> bool {
        let begun = |f: &RunningJob| f.is_flush() && f.since <= now;
        self.machine.threads == 1 && !r.is_flush() && self.jobs.iter().any(begun)
    }

    pub(super) fn speed(&self, r: &RunningJob, load: Load, now: f64) -> f64 {
        if self.is_paused(r, now) {
            0.0
        } else {
            1.0 / self.machine.nanos(r.cost, r.yields, load).max(1.0)
        }
    }

    /// Returns the nanoseconds until the next job ends.
    pub(super) fn next_end(&self, load: Load, now: f64) -> Option<f64> {
        let ends = self
            .jobs
            .iter()
            .filter(|r| !self.is_paused(r, now))
            .map(|r| r.left / self.speed(r, load, now));
        // Helpers are free when the tables are written.
        let freed = self.jobs.iter().filter(|r| r.helpers > 0 && r.is_divided());
        let freed = freed.map(|r| (r.left - r.tail) / self.speed(r, load, now));
        // A flush that begins may interrupt a compaction.
        let begins = self.jobs.iter().map(|r| r.since - now).filter(|&nanos| nanos > 0.0);
        let begins = begins.filter(|_| self.machine.threads == 1);
        ends.chain(freed).chain(begins).min_by(f64::total_cmp)
    }

    /// Assigns helper threads, one less than there are threads, to the running jobs. Flushes take
    /// them from compactions, and compactions retain theirs before others get any.
    pub(super) fn assign_helpers(&mut self) {
        let machine = self.machine;
        let mut free = machine.threads.saturating_sub(1);
        let mut lend = |most: usize| {
            let helpers = free.min(most);
            free -= helpers;
            helpers
        };
        let divided = |r: &&mut RunningJob| r.is_divided();
        let (mut flushes, mut merges): (Vec<_>, Vec<_>) =
            self.jobs.iter_mut().filter(divided).partition(|r| r.is_flush());
        flushes.iter_mut().for_each(|r| r.helpers = lend(r.pieces - 1));
        merges.iter_mut().for_each(|r| r.helpers = lend(r.helpers));
        merges.iter_mut().for_each(|r| r.helpers += lend(r.pieces - 1 - r.helpers));
        for r in flushes.into_iter().chain(merges) {
            r.cost.threads = side_by_side(r.pieces, r.helpers + 1);
            r.tail = (r.closing / machine.alone(r.cost).max(1.0)).min(1.0);
        }
    }

    /// Returns the bytes that unfinished outputs have so far.
    pub(super) fn making(&self) -> u64 {
        self.jobs
            .iter()
            .map(|r| (r.bytes_out() as f64 * (1.0 - r.left).clamp(0.0, 1.0)) as u64)
            .sum()
    }
}

/// Writes the job's progress to the device, table by table.
///
/// # Errors
/// A full device, as text.
pub(super) fn put_on(ssd: &mut Option<Ssd>, r: &mut RunningJob) -> Result<(), String> {
    let Some(ssd) = ssd else { return Ok(()) };
    let until = r.bytes_out() as f64 * (1.0 - r.left).clamp(0.0, 1.0);
    let mut begins = 0.0;
    let values = r.made.values.iter().map(|v| (v.id, v.size));
    for (id, size) in values.chain(r.made.tables.iter().map(|t| (t.id, t.size))) {
        let ends = begins + size as f64;
        let (from, to) = (r.stored.max(begins), until.min(ends));
        if to > from {
            ssd.write(id, to - from)?;
        }
        begins = ends;
    }
    r.stored = r.stored.max(until);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_take_helpers_and_merges_keep_theirs() {
        let machine = Machine { threads: 4, ..Machine::default() };
        let mut running = RunningJobs::new(&machine);
        let job = |work, pieces| {
            let cost = MachineCost { cpu: 1e6, ..MachineCost::default() };
            let started = RunningJob::new(work, MadeRuns::default(), cost, 0.0);
            RunningJob { pieces, closing: 1e5, ..started }
        };
        let lent = |running: &mut RunningJobs<'_>| {
            running.assign_helpers();
            running.jobs.iter().map(|r| (r.helpers, r.cost.threads)).collect::<Vec<_>>()
        };
        running.jobs = vec![job(SimWork::Removal, 3), job(SimWork::Removal, 4)];
        assert_eq!(lent(&mut running), [(2, 3.0), (1, 2.0)], "the older merge first");
        running.jobs.push(job(SimWork::Flush, 3));
        assert_eq!(lent(&mut running), [(1, 1.5), (0, 1.0), (2, 3.0)], "a flush before both");
        running.jobs[2].left = running.jobs[2].tail / 2.0;
        assert_eq!(lent(&mut running)[..2], [(2, 3.0), (1, 2.0)], "its tables are written");
        running.jobs.swap(0, 1);
        assert_eq!(
            lent(&mut running)[..2],
            [(1, 2.0), (2, 3.0)],
            "a job with helpers retains them"
        );
    }
}
