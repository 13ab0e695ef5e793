//! The measurements of a simulation, and its [`SimOutcome`].

use std::collections::BTreeMap;
use std::convert::Infallible;

use firn_kv::internals::base::key::head;
use firn_kv::internals::compaction::{LsmShape, RunShape, TableShape};
use firn_tools::page::{DrawnRun, Film, PageFrame};
use serde::Serialize;

use crate::filters::TableFilters;
use crate::latency::{CountOdds, Percentiles, ReadCosts, ReadRun, WeightedTimes};
use crate::machine::{LogSpread, Machine};
use crate::ssd::SsdWear;
use crate::store::LiveKeys;

/// Points of a curve are thinned out when they become more than these.
const MOST_POINTS: usize = 1024;

/// Seconds of the processor for a lookup, and for each run of a scan: those of the engine's own
/// measurements, rounded up.
pub const READ_CPU: f64 = 5e-6;

/// Into how many parts those are divided who wait for one memtable.
const STALL_PARTS: u32 = 32;

/// What a simulation found. Sizes are bytes of table files unless said otherwise.
/// [`METRICS`](crate::metric::METRICS) says what is told of it.
#[derive(Clone, Debug, Default)]
pub struct SimOutcome {
    /// The policy by its name here.
    pub policy: String,
    /// The workload by its name here.
    pub workload: String,
    /// The seed of all chance.
    pub seed: u64,
    /// Operations written.
    pub ops: u64,
    /// Bytes of keys and values written.
    pub user_bytes: f64,
    /// Simulated seconds from the first write to the last piece of work.
    pub seconds: f64,
    /// Flushes done.
    pub flushes: u64,
    /// Merges done.
    pub merges: u64,
    /// Jobs that only moved tables.
    pub moves: u64,
    /// Jobs that only dropped tables.
    pub drops: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Bytes of keys and values that flushes wrote.
    pub flush_raw_bytes: f64,
    /// Bytes read by merges.
    pub merge_read: u64,
    /// Bytes written by merges.
    pub merge_written: u64,
    /// Bytes written to tables for each byte that the user wrote.
    pub write_amplification: f64,
    /// Bytes written to tables for each byte that was flushed: what the policy alone adds.
    pub rewrite_amplification: f64,
    /// Runs that a read may have to look into: mean over all writes, and the most.
    pub mean_runs: f64,
    /// See `mean_runs`.
    pub max_runs: usize,
    /// Tables whose range holds a key that is looked up, at the end.
    pub tables_per_read: f64,
    /// Blocks read to find a key that is not there, by the filters' false positives, at the end.
    pub blocks_per_miss: f64,
    /// Runs at the end.
    pub runs: usize,
    /// Tables at the end.
    pub tables: usize,
    /// Bytes at the end.
    pub bytes: u64,
    /// Bytes of them that are blob files.
    pub value_bytes: u64,
    /// How many blob files there are at the end.
    pub value_files: usize,
    /// Bytes of blob files among those that flushes and merges wrote.
    pub value_bytes_written: u64,
    /// Bytes that one copy of all live keys would take.
    pub live_bytes: f64,
    /// `bytes` over `live_bytes`.
    pub space_amplification: f64,
    /// The largest that it was, counted from a tenth of the operations on, outputs in the making
    /// included.
    pub max_space_amplification: f64,
    /// The most bytes at any time, outputs in the making included.
    pub peak_bytes: u64,
    /// Seconds from a delete to the moment when it is gone or, if it still is there, to the end:
    /// median, 99th percentile, maximum.
    pub tombstone_age: [f64; 3],
    /// Deletes that are still in tables at the end.
    pub tombstones: f64,
    /// Seconds that writers were slowed by pacing.
    pub slowdown_seconds: f64,
    /// Seconds that writers waited for a memtable.
    pub stalled_seconds: f64,
    /// Seconds that flushes took, all together, and their processor time.
    pub flush_seconds: f64,
    /// See `flush_seconds`.
    pub flush_cpu_seconds: f64,
    /// Seconds that flushes did not begin though they could.
    pub flush_waited_seconds: f64,
    /// Seconds until the last flush in which writers were not held up.
    pub writing_seconds: f64,
    /// How much what a flush takes for an entry varies.
    pub flush_spread: LogSpread,
    /// How much what a merge takes varies, over what it would take alone and without chance.
    pub merge_spread: LogSpread,
    /// The same of merges.
    pub merge_seconds: f64,
    /// See `merge_seconds`.
    pub merge_cpu_seconds: f64,
    /// Operations a second while writes went on.
    pub ops_per_second: f64,
    /// How long a write takes, in seconds ([`latency`](crate::latency)).
    pub write_latency: Percentiles,
    /// How long a lookup of a key that is there takes, of one that is not, and a scan until it has
    /// begun, over all of the time.
    pub hit_latency: Percentiles,
    /// See `hit_latency`.
    pub miss_latency: Percentiles,
    /// See `hit_latency`.
    pub scan_latency: Percentiles,
    /// Blocks that these read from the device, on average over all of the time.
    pub hit_blocks: f64,
    /// See `hit_blocks`.
    pub miss_blocks: f64,
    /// See `hit_blocks`.
    pub scan_blocks: f64,
    /// What the device was put to; `None` where no device is simulated.
    pub wear: Option<SsdWear>,
    /// Bytes of filters at the end.
    pub filter_bytes: f64,
    /// Bytes of pinned indexes at the end, roughly.
    pub index_bytes: f64,
    /// Jobs, bytes read and bytes written for each reason.
    pub reasons: BTreeMap<String, [u64; 3]>,
    /// The levels at the end.
    pub levels: Vec<Level>,
    /// The course of things.
    pub points: Vec<MeterPoint>,
    /// The moving picture; empty unless asked for.
    pub frames: Vec<PageFrame>,
}

impl SimOutcome {
    /// Space amplification after each flush, on average; the first tenth of the run is not looked
    /// at.
    pub fn mean_space(&self) -> f64 {
        let late = || self.points.iter().filter(|p| p.ops * 10 >= self.ops && p.live_bytes > 0.0);
        late().map(|p| p.bytes as f64 / p.live_bytes).sum::<f64>() / late().count().max(1) as f64
    }

    /// Entries of each run at the end, newest first, those of a level taken as equal.
    pub fn run_entries(&self) -> Vec<f64> {
        let of = |l: &Level| vec![l.entries as f64 / l.runs.max(1) as f64; l.runs];
        self.levels.iter().flat_map(of).collect()
    }
}

/// One level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    /// Which.
    pub level: u8,
    /// Runs on it.
    pub runs: usize,
    /// Tables on it.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries.
    pub entries: u64,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MeterPoint {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Operations so far.
    pub ops: u64,
    /// Operations a second since the point before.
    pub rate: f64,
    /// Runs.
    pub runs: usize,
    /// Bytes.
    pub bytes: u64,
    /// The most bytes since the point before, outputs in the making included.
    pub peak: u64,
    /// The most that these were over `live_bytes` of their moment.
    pub peak_space: f64,
    /// Bytes that one copy of all live keys would take.
    pub live_bytes: f64,
    /// Bytes flushed so far.
    pub flushed: u64,
    /// Bytes written by merges so far.
    pub merged: u64,
    /// Seconds that writers were held up so far, for whatever reason.
    pub held_up: f64,
}

/// Measures.
#[derive(Default)]
pub struct SimMeter {
    /// What is known so far.
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
    /// The most bytes since the last point.
    peak: u64,
    peak_space: f64,
    /// How long writes took.
    pub writes: WeightedTimes,
    /// How many jobs used the device, by time.
    pub busy: CountOdds,
    reads: ReadCosts,
    machine: Machine,
    /// When the last point was.
    read_at: f64,
}

/// The state of a simulation, as far as the meter wants to know.
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
    /// What lives.
    pub live: LiveKeys,
}

impl SimMeter {
    /// A meter for a run of so many operations; `picture` asks for frames.
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

    /// Writers stood still for so many nanoseconds, while an operation came each `arrival`
    /// nanoseconds (0: when the one before was done).
    pub fn stalled(&mut self, nanos: f64, arrival: f64) {
        let seconds = nanos / 1e9;
        let waiting = if arrival > 0.0 { nanos / arrival } else { 0.0 };
        if waiting <= 1.0 {
            return self.writes.add(1.0, seconds);
        }
        // They came evenly.
        for i in 1..=STALL_PARTS {
            let part = f64::from(i) / f64::from(STALL_PARTS);
            self.writes.add(waiting / f64::from(STALL_PARTS), seconds * part);
        }
    }

    /// What reads meet now counts for the time since the last look.
    fn look_up(&mut self, now: &Moment<'_>) {
        let runs: Vec<ReadRun> = now.shape.runs.iter().map(|r| now.filters.read_run(r)).collect();
        let missed = (1.0 - self.machine.cache / (now.bytes as f64).max(1.0)).clamp(0.0, 1.0);
        let passed = now.seconds - std::mem::replace(&mut self.read_at, now.seconds);
        if passed > 0.0 && !runs.is_empty() {
            self.reads.mix(passed, &ReadCosts::of(&runs, missed));
        }
    }

    /// A memtable has been flushed.
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

    /// The space of this moment.
    pub fn space(&mut self, now: &Moment<'_>) {
        let o = &mut self.outcome;
        let bytes = now.bytes + now.making;
        o.peak_bytes = o.peak_bytes.max(bytes);
        self.peak = self.peak.max(bytes);
        self.film.note_bytes(bytes);
        // What little there is at the beginning is copied more often than what there is later.
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
            // The last of an odd number has no next one.
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

    /// Something has changed in the shape; `did` says what.
    pub fn frame(&mut self, now: &Moment<'_>, did: impl FnOnce() -> String) {
        if !self.picture {
            return;
        }
        let o = &self.outcome;
        let frame = || {
            let runs = now.shape.runs.iter().map(|r| drawn(r)).collect();
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

    /// The end; the last write was done after `written` seconds.
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

/// The levels of a shape.
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

/// Gives points behind the last write, which was done after `written` seconds, the rate of the time
/// until then: nobody wrote while the rest of the work was done.
fn keep_rate(points: &mut [MeterPoint], written: f64) {
    let mut before = MeterPoint::default();
    for p in points {
        if p.seconds > written {
            let (ops, seconds) = (p.ops - before.ops, written - before.seconds);
            let is_told = ops > 0 && seconds > 0.0;
            p.rate = if is_told { ops as f64 / seconds } else { before.rate };
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

fn drawn(run: &RunShape) -> DrawnRun {
    let thousandth = |k: &[u8]| ((u128::from(head(k)) * 1000) >> 64) as u16;
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
