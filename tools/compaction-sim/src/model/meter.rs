//! Measures a simulation, and builds its [`SimOutcome`].

use std::collections::BTreeMap;
use std::convert::Infallible;

use firn_kv::internals::compaction::{Action, CompactionJob, LsmShape, RunShape, TableShape};
use firn_tools::page::{DrawnRun, Film, PageFrame};
use serde::Serialize;

use crate::model::filters::TableFilters;
use crate::model::latency::{CountOdds, Percentiles, ReadCosts, ReadRun, WeightedTimes};
use crate::model::machine::{LogSpread, Machine};
use crate::model::ssd::SsdWear;
use crate::model::store::{LiveKeys, MadeRuns};

/// Maximum number of points of a curve; beyond it every second one is dropped.
const MOST_POINTS: usize = 1024;

/// Processor seconds of a lookup, and of each run of a scan: the engine's own measurements, rounded
/// up.
pub const READ_CPU: f64 = 5e-6;

/// Number of groups into which the writes that wait for one memtable are divided.
const STALL_PARTS: u32 = 32;

/// Outcome of a simulation. Sizes are bytes of table files unless stated otherwise.
/// [`METRICS`](crate::report::metric::METRICS) lists what is printed of it.
#[derive(Clone, Debug, Default)]
pub struct SimOutcome {
    /// Name of the policy.
    pub policy: String,
    /// Name of the workload.
    pub workload: String,
    /// Random seed.
    pub seed: u64,
    /// Number of operations written.
    pub ops: u64,
    /// Bytes of keys and values written.
    pub user_bytes: f64,
    /// Simulated seconds from the first write to the end of the last job.
    pub seconds: f64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of compactions.
    pub merges: u64,
    /// Number of jobs that only moved tables.
    pub moves: u64,
    /// Number of jobs that only dropped tables.
    pub drops: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Bytes of keys and values that flushes wrote.
    pub flush_raw_bytes: f64,
    /// Bytes read by compactions.
    pub merge_read: u64,
    /// Bytes written by compactions.
    pub merge_written: u64,
    /// Bytes written to tables for each byte that the user wrote.
    pub write_amplification: f64,
    /// Bytes written to tables for each flushed byte: the part of the policy alone.
    pub rewrite_amplification: f64,
    /// Number of runs that a read may have to search: mean over all writes.
    pub mean_runs: f64,
    /// Maximum number of runs.
    pub max_runs: usize,
    /// Tables at the end whose range contains a looked up key.
    pub tables_per_read: f64,
    /// Blocks read at the end for a missing key, because of false positives.
    pub blocks_per_miss: f64,
    /// Runs at the end.
    pub runs: usize,
    /// Tables at the end.
    pub tables: usize,
    /// Bytes at the end.
    pub bytes: u64,
    /// Bytes of blob files at the end, included in `bytes`.
    pub value_bytes: u64,
    /// Number of blob files at the end.
    pub blob_files: usize,
    /// Bytes of blob files, included in the bytes that flushes and compactions wrote.
    pub value_bytes_written: u64,
    /// Bytes of one copy of all live keys.
    pub live_bytes: f64,
    /// `bytes` over `live_bytes`.
    pub space_amplification: f64,
    /// Peak of the space amplification after the first tenth of the operations, including
    /// unfinished outputs.
    pub max_space_amplification: f64,
    /// Peak bytes, including unfinished outputs.
    pub peak_bytes: u64,
    /// Seconds from a delete until it is gone or, if it still exists, until the end: median, 99th
    /// percentile, maximum.
    pub tombstone_age: [f64; 3],
    /// Deletes in tables at the end.
    pub tombstones: f64,
    /// Seconds in which writers were slowed.
    pub slowdown_seconds: f64,
    /// Seconds in which writers waited for a memtable.
    pub stalled_seconds: f64,
    /// Seconds of all flushes.
    pub flush_seconds: f64,
    /// Processor seconds of all flushes.
    pub flush_cpu_seconds: f64,
    /// Seconds in which a flush could have begun but did not.
    pub flush_waited_seconds: f64,
    /// Seconds until the last flush in which writers were not held up.
    pub writing_seconds: f64,
    /// Variation of the time of a flush per entry.
    pub flush_spread: LogSpread,
    /// Variation of the time of a compaction relative to its time alone and without jitter.
    pub merge_spread: LogSpread,
    /// Seconds of all compactions.
    pub merge_seconds: f64,
    /// Processor seconds of all compactions.
    pub merge_cpu_seconds: f64,
    /// Operations per second while there were writes.
    pub ops_per_second: f64,
    /// Latency of a write in seconds ([`latency`](crate::model::latency)).
    pub write_latency: Percentiles,
    /// Latency of a lookup of an existing key, over the whole time.
    pub hit_latency: Percentiles,
    /// Latency of a lookup of a missing key.
    pub miss_latency: Percentiles,
    /// Latency of the beginning of a scan.
    pub scan_latency: Percentiles,
    /// Average number of blocks that a lookup of an existing key reads from the device.
    pub hit_blocks: f64,
    /// The same for a missing key.
    pub miss_blocks: f64,
    /// The same for the beginning of a scan.
    pub scan_blocks: f64,
    /// Wear of the device; `None` if no device is simulated.
    pub wear: Option<SsdWear>,
    /// Bytes of filters at the end.
    pub filter_bytes: f64,
    /// Approximate bytes of pinned indexes at the end.
    pub index_bytes: f64,
    /// Jobs, bytes read and bytes written for each reason.
    pub reasons: BTreeMap<String, [u64; 3]>,
    /// The levels at the end.
    pub levels: Vec<Level>,
    /// The course of the simulation.
    pub points: Vec<MeterPoint>,
    /// Frames of the animation; empty unless requested.
    pub frames: Vec<PageFrame>,
}

impl SimOutcome {
    /// Returns the average space amplification after a flush, without the first tenth of the run.
    pub fn mean_space(&self) -> f64 {
        let late = || self.points.iter().filter(|p| p.ops * 10 >= self.ops && p.live_bytes > 0.0);
        late().map(|p| p.bytes as f64 / p.live_bytes).sum::<f64>() / late().count().max(1) as f64
    }

    /// Returns the entries of each run at the end, newest first; runs of a level count as equal.
    pub fn run_entries(&self) -> Vec<f64> {
        let of = |l: &Level| vec![l.entries as f64 / l.runs.max(1) as f64; l.runs];
        self.levels.iter().flat_map(of).collect()
    }
}

/// A level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    /// Number of the level.
    pub level: u8,
    /// Number of its runs.
    pub runs: usize,
    /// Number of its tables.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries.
    pub entries: u64,
}

/// A point of the course.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MeterPoint {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Operations so far.
    pub ops: u64,
    /// Operations per second since the previous point.
    pub rate: f64,
    /// Number of runs.
    pub runs: usize,
    /// Bytes.
    pub bytes: u64,
    /// Peak bytes since the previous point, including unfinished outputs.
    pub peak: u64,
    /// Peak of these bytes over `live_bytes` at the same time.
    pub peak_space: f64,
    /// Bytes of one copy of all live keys.
    pub live_bytes: f64,
    /// Bytes flushed so far.
    pub flushed: u64,
    /// Bytes written by compactions so far.
    pub merged: u64,
    /// Seconds that writers were held up so far, for any reason.
    pub held_up: f64,
}

/// Measures a simulation.
#[derive(Default)]
pub struct SimMeter {
    /// The outcome so far.
    pub outcome: SimOutcome,
    /// Ages of deletes that are gone.
    pub ages: WeightedTimes,
    total_ops: u64,
    picture: bool,
    point_stride: u64,
    points_seen: u64,
    film: Film,
    run_ops: f64,
    ops_before: u64,
    /// Peak bytes since the last point.
    peak: u64,
    peak_space: f64,
    /// Latencies of writes.
    pub writes: WeightedTimes,
    /// Number of jobs that used the device, weighted by time.
    pub busy: CountOdds,
    reads: ReadCosts,
    machine: Machine,
    /// Time of the last point.
    read_at: f64,
}

/// State of a simulation that the meter needs.
pub struct Moment<'a> {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// The tables.
    pub shape: &'a LsmShape,
    /// Their filters.
    pub filters: &'a TableFilters,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that running jobs have written so far.
    pub making: u64,
    /// Live data.
    pub live: LiveKeys,
}

impl SimMeter {
    /// Creates a meter for a run of this many operations; `picture` requests frames.
    pub fn new(total_ops: u64, picture: bool, machine: Machine) -> SimMeter {
        SimMeter {
            total_ops,
            picture,
            point_stride: 1,
            busy: CountOdds::none(),
            reads: ReadCosts::none(),
            machine,
            ..SimMeter::default()
        }
    }

    /// Records that writers stalled for these nanoseconds. An operation arrives each `arrival`
    /// nanoseconds (0: when the previous one is done).
    pub fn stalled(&mut self, nanos: f64, arrival: f64) {
        let seconds = nanos / 1e9;
        let waiting = if arrival > 0.0 { nanos / arrival } else { 0.0 };
        if waiting <= 1.0 {
            return self.writes.add(1.0, seconds);
        }
        // They arrived evenly.
        for i in 1..=STALL_PARTS {
            let part = f64::from(i) / f64::from(STALL_PARTS);
            self.writes.add(waiting / f64::from(STALL_PARTS), seconds * part);
        }
    }

    /// Adds the present cost of reads for the time since the last call.
    fn look_up(&mut self, now: &Moment<'_>) {
        let runs: Vec<ReadRun> = now.shape.runs.iter().map(|r| now.filters.read_run(r)).collect();
        let missed = (1.0 - self.machine.cache / (now.bytes as f64).max(1.0)).clamp(0.0, 1.0);
        let passed = now.seconds - std::mem::replace(&mut self.read_at, now.seconds);
        if passed > 0.0 && !runs.is_empty() {
            self.reads.mix(passed, &ReadCosts::of(&runs, missed));
        }
    }

    /// Records the output of a flush, with the bytes that it wrote.
    pub fn flushed(&mut self, made: &MadeRuns, written: u64) {
        let o = &mut self.outcome;
        o.flushes += 1;
        o.flush_bytes += written;
        o.flush_raw_bytes += made.raw_bytes;
        self.vanished(made);
    }

    /// Records the output of a compaction job, with the bytes that it read and wrote.
    pub fn compacted(&mut self, job: &CompactionJob, read: u64, made: &MadeRuns, written: u64) {
        let o = &mut self.outcome;
        match job.action {
            Action::Merge => o.merges += 1,
            Action::Move => o.moves += 1,
            Action::Drop => o.drops += 1,
        }
        o.merge_read += read;
        o.merge_written += written;
        let reason = o.reasons.entry(job.reason.name().to_owned()).or_default();
        reason[0] += 1;
        reason[1] += read;
        reason[2] += written;
        self.vanished(made);
    }

    /// Records the ages of dropped deletes.
    fn vanished(&mut self, made: &MadeRuns) {
        made.vanished.iter().for_each(|&(n, age)| self.ages.add(n, age as f64 / 1e6));
    }

    /// Records the tree after a flush.
    pub fn after_flush(&mut self, now: &Moment<'_>) {
        let o = &mut self.outcome;
        let runs = now.shape.runs.len();
        self.run_ops += runs as f64 * (o.ops - self.ops_before) as f64;
        self.ops_before = o.ops;
        o.max_runs = o.max_runs.max(runs);
        self.space(now);
        self.points_seen += 1;
        if self.points_seen.is_multiple_of(self.point_stride) {
            self.point(now);
        }
    }

    /// Records the present space.
    pub fn space(&mut self, now: &Moment<'_>) {
        let o = &mut self.outcome;
        let bytes = now.bytes + now.making;
        o.peak_bytes = o.peak_bytes.max(bytes);
        self.peak = self.peak.max(bytes);
        self.film.note_bytes(bytes);
        // The little data at the beginning is copied more often than later data.
        if o.ops >= self.total_ops / 10 && now.live.bytes > 0.0 {
            let space = bytes as f64 / now.live.bytes;
            self.peak_space = self.peak_space.max(space);
            o.max_space_amplification = o.max_space_amplification.max(space);
        }
    }

    fn point(&mut self, now: &Moment<'_>) {
        self.look_up(now);
        let o = &mut self.outcome;
        let last = o.points.last().copied().unwrap_or_default();
        let rate = (o.ops - last.ops) as f64 / (now.seconds - last.seconds).max(1e-9);
        o.points.push(MeterPoint {
            seconds: now.seconds,
            ops: o.ops,
            rate,
            runs: now.shape.runs.len(),
            bytes: now.bytes,
            peak: std::mem::take(&mut self.peak),
            peak_space: std::mem::take(&mut self.peak_space),
            live_bytes: now.live.bytes,
            flushed: o.flush_bytes,
            merged: o.merge_written,
            held_up: o.slowdown_seconds + o.stalled_seconds,
        });
        if o.points.len() > MOST_POINTS {
            for i in (1..o.points.len()).step_by(2) {
                o.points[i].peak = o.points[i].peak.max(o.points[i - 1].peak);
                o.points[i].peak_space = o.points[i].peak_space.max(o.points[i - 1].peak_space);
            }
            // With an odd number the last one has no next one.
            if let Some(last) = o.points.last().filter(|_| o.points.len() % 2 == 1) {
                (self.peak, self.peak_space) = (last.peak, last.peak_space);
            }
            thin(&mut o.points);
            for i in (1..o.points.len()).rev() {
                let (a, b) = (o.points[i - 1], o.points[i]);
                o.points[i].rate = (b.ops - a.ops) as f64 / (b.seconds - a.seconds).max(1e-9);
            }
            self.point_stride *= 2;
        }
    }

    /// Records a change of the shape; `did` describes it.
    pub fn frame(&mut self, now: &Moment<'_>, did: impl FnOnce() -> String) {
        if !self.picture {
            return;
        }
        let o = &self.outcome;
        let frame = || {
            let runs = now.shape.runs.iter().map(|r| drawn(r, now.filters)).collect();
            Ok::<_, Infallible>(PageFrame {
                t: now.seconds,
                ops: o.ops,
                written: [o.flush_bytes, o.merge_written],
                held: [o.slowdown_seconds, o.stalled_seconds],
                live: Some(now.live.bytes),
                did: did(),
                runs,
                ..PageFrame::default()
            })
        };
        let Ok(()) = self.film.add(frame);
    }

    /// Ends the measurement; the last write was done after `written` seconds.
    pub fn finish(
        mut self,
        now: &Moment<'_>,
        written: f64,
        left: Vec<(f64, u64)>,
        index_per_entry: f64,
    ) -> SimOutcome {
        self.space(now);
        self.point(now);
        keep_rate(&mut self.outcome.points, written);
        for &(n, age) in &left {
            self.ages.add(n, age as f64 / 1e6);
        }
        let mut o = self.outcome;
        o.seconds = now.seconds;
        // The sum of no numbers is -0.
        o.tombstones = 0.0 + left.iter().map(|l| l.0).sum::<f64>();
        let ages = self.ages.percentiles();
        o.tombstone_age = [ages.p50, ages.p99, ages.most];
        let written = (o.flush_bytes + o.merge_written) as f64;
        o.write_amplification = written / o.user_bytes.max(1.0);
        o.rewrite_amplification = written / (o.flush_bytes as f64).max(1.0);
        o.mean_runs = self.run_ops / (self.ops_before as f64).max(1.0);
        o.runs = now.shape.runs.len();
        o.tables = now.shape.tables().count();
        o.bytes = now.bytes;
        o.live_bytes = now.live.bytes;
        o.space_amplification = o.bytes as f64 / o.live_bytes.max(1.0);
        for r in now.shape.runs.iter().map(|r| now.filters.read_run(r)) {
            o.index_bytes += r.entries * index_per_entry;
            o.tables_per_read += r.covers;
            o.blocks_per_miss += r.errs;
        }
        o.filter_bytes = now.shape.runs.iter().map(|r| now.filters.bytes(r)).sum::<u64>() as f64;
        o.write_latency = self.writes.percentiles();
        let (block, reads) = (self.machine.block_seconds, &self.reads);
        let took = |blocks: &CountOdds| blocks.percentiles(&self.busy, block, READ_CPU);
        (o.hit_latency, o.hit_blocks) = (took(&reads.hit), reads.hit.mean());
        (o.miss_latency, o.miss_blocks) = (took(&reads.miss), reads.miss.mean());
        (o.scan_latency, o.scan_blocks) = (took(&reads.scan), reads.scan.mean());
        o.levels = levels(now.shape);
        o.frames = self.film.into_frames();
        o
    }
}

/// Returns the levels of a shape.
pub fn levels(shape: &LsmShape) -> Vec<Level> {
    let mut levels: Vec<Level> = vec![];
    for r in &shape.runs {
        let (tables, bytes) = (r.tables.len(), r.size());
        let entries: u64 = r.tables.iter().map(|t| t.entries).sum();
        match levels.last_mut() {
            Some(l) if l.level == r.level => {
                l.runs += 1;
                l.tables += tables;
                l.bytes += bytes;
                l.entries += entries;
            }
            _ => levels.push(Level { level: r.level, runs: 1, tables, bytes, entries }),
        }
    }
    levels
}

/// Gives points after the last write, which was done after `written` seconds, the rate of the time
/// until then: there were no writes during the remaining work.
fn keep_rate(points: &mut [MeterPoint], written: f64) {
    let mut before = MeterPoint::default();
    for p in points {
        if p.seconds > written {
            let (ops, seconds) = (p.ops - before.ops, written - before.seconds);
            let is_known = ops > 0 && seconds > 0.0;
            p.rate = if is_known { ops as f64 / seconds } else { before.rate };
        }
        before = *p;
    }
}

fn thin<T>(all: &mut Vec<T>) {
    let mut i = 0;
    all.retain(|_| {
        i += 1;
        i % 2 == 0
    });
}

fn drawn(run: &RunShape, filters: &TableFilters) -> DrawnRun {
    let thousandth = |k: &[u8]| (filters.position(k) * 1000.0) as u16;
    let bar =
        |t: &TableShape| (t.size, [thousandth(&t.first), thousandth(&t.last), u16::from(t.busy)]);
    DrawnRun::new(run.level, run.tables.iter().map(bar))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_after_the_last_write_does_not_lower_the_rate() {
        let point = |ops, seconds, rate| MeterPoint { ops, seconds, rate, ..Default::default() };
        let course = [point(100, 1.0, 100.0), point(150, 3.0, 25.0), point(150, 4.0, 0.0)];
        let rates = |written| {
            let mut points = course;
            keep_rate(&mut points, written);
            points.map(|p| p.rate)
        };
        assert_eq!(rates(1.5), [100.0, 100.0, 100.0]);
        assert_eq!(rates(3.5), [100.0, 25.0, 25.0]);
        assert_eq!(rates(4.0), [100.0, 25.0, 0.0], "writers stood still until then");
    }
}
