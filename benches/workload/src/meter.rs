//! Counters and timing of one thread.
//!
//! A clock reading takes some 20 ns, and an operation may take 50. So only every k-th operation is
//! timed, and the time between two timed ones is bounded as a whole ([`MeterTally::gap_ns`]), so
//! that no stall is missed.
//!
//! With a rate the thread is open-loop: operation i is due at its time even if the previous one has
//! not ended. Each is timed from its due time, so a stall counts for all operations that it
//! delayed.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::{LatencyFigures, OpKind};
use crate::store::{Error, Result};

const KINDS: usize = OpKind::ALL.len();

/// Operations done so far by one thread, on its own cache line; read by the thread that reports
/// progress.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Lane {
    ops: AtomicU64,
}

impl Lane {
    /// Returns the number of operations at the thread's last clock reading.
    pub fn ops(&self) -> u64 {
        self.ops.load(Ordering::Relaxed)
    }

    /// Publishes the number of operations.
    #[inline]
    pub fn publish(&self, ops: u64) {
        self.ops.store(ops, Ordering::Relaxed);
    }
}

/// Creates a histogram of nanoseconds, up to 1,000 s, with two significant digits.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 1_000_000_000_000, 2).map_err(Error::from)
}

/// Summarizes a histogram; `None` if it is empty.
pub fn latency(histogram: &Histogram<u64>) -> Option<LatencyFigures> {
    (!histogram.is_empty()).then(|| LatencyFigures {
        samples: histogram.len(),
        mean_ns: histogram.mean(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
    })
}

/// Maximum delay of the system when it wakes a thread. A thread with less time until the next
/// operation stays awake.
const SLACK: Duration = Duration::from_micros(100);

/// Schedule of due operations.
#[derive(Debug)]
struct ReportPace {
    /// Operations per second.
    rate: f64,
    due: Instant,
}

impl ReportPace {
    /// Waits until the next operation is due and returns its due time.
    fn next(&mut self) -> Instant {
        let due = self.due;
        self.due = due + Duration::from_secs_f64(1.0 / self.rate.max(1e-3));
        loop {
            let ahead = due.saturating_duration_since(Instant::now());
            if ahead.is_zero() {
                return due;
            }
            match ahead.checked_sub(SLACK) {
                Some(nap) => thread::sleep(nap),
                None => std::hint::spin_loop(),
            }
        }
    }
}

/// Counts and times of a thread.
#[derive(Debug)]
pub struct MeterTally {
    /// Operations by type.
    pub ops: [u64; KINDS],
    /// Latencies by kind, in nanoseconds.
    pub histograms: Vec<Histogram<u64>>,
    /// Longest time between two clock readings, in nanoseconds; 0 with a rate.
    pub gap_ns: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Reads that found something.
    pub found: u64,
    /// When the thread began.
    pub started: Instant,
    /// When the thread ended.
    pub ended: Instant,
}

/// Limits and progress of a thread.
#[derive(Clone, Copy, Debug)]
pub struct MeterWatch<'a> {
    /// Target of published progress.
    pub lane: &'a Lane,
    /// Set when the thread is to stop.
    pub stop: &'a AtomicBool,
    /// Times one operation in this many; all with a rate.
    pub sample_every: u64,
    /// Longest time to run.
    pub max_time: Option<Duration>,
    /// Operations per second; `None` for the maximum.
    pub rate: Option<f64>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct ReadMeter<'a> {
    watch: MeterWatch<'a>,
    deadline: Option<Instant>,
    pace: Option<ReportPace>,
    /// Operations until the next timed one.
    countdown: u64,
    last_look: Instant,
    stopped: bool,
    /// Sum over read data: keeps the compiler from dropping the reads.
    sum: u64,
    tally: MeterTally,
}

impl<'a> ReadMeter<'a> {
    /// Starts counting now.
    pub fn start(watch: MeterWatch<'a>) -> Result<Self> {
        let histograms = (0..KINDS).map(|_| histogram()).collect::<Result<Vec<_>>>()?;
        let now = Instant::now();
        Ok(ReadMeter {
            watch: MeterWatch {
                sample_every: if watch.rate.is_some() { 1 } else { watch.sample_every.max(1) },
                ..watch
            },
            deadline: watch.max_time.map(|t| now + t),
            pace: watch.rate.map(|rate| ReportPace { rate, due: now }),
            countdown: 1,
            last_look: now,
            stopped: watch.stop.load(Ordering::Relaxed),
            sum: 0,
            tally: MeterTally {
                ops: [0; KINDS],
                histograms,
                gap_ns: 0,
                bytes: 0,
                found: 0,
                started: now,
                ended: now,
            },
        })
    }

    /// Reports whether the thread should stop: its time is up, another thread failed, or the
    /// threads beside it have finished.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Runs `work`, which counts as `n` operations of `kind`, and times it if it is due for
    /// sampling.
    #[inline(always)]
    pub fn op<T>(&mut self, kind: OpKind, n: u64, work: impl FnOnce() -> T) -> T {
        self.countdown = self.countdown.saturating_sub(n);
        if self.countdown > 0 {
            self.tally.ops[kind as usize] += n;
            return work();
        }
        let began = self.look();
        let out = work();
        self.tally.ops[kind as usize] += n;
        self.record(kind, began);
        out
    }

    /// Counts `n` untimed operations.
    pub fn count(&mut self, kind: OpKind, n: u64) {
        self.tally.ops[kind as usize] += n;
    }

    /// Counts bytes that were written.
    #[inline]
    pub fn wrote(&mut self, bytes: usize) {
        self.tally.bytes += bytes as u64;
    }

    /// Counts a read: its bytes, and the sum of touched data.
    #[inline]
    pub fn read(&mut self, touched: &TouchedBytes) {
        self.tally.found += u64::from(touched.entries > 0);
        self.tally.bytes += touched.bytes;
        self.sum = self.sum.wrapping_add(touched.sum);
    }

    /// Returns the target of published progress, for loops that [`ReadMeter::count`] only at their
    /// end.
    pub fn lane(&self) -> &'a Lane {
        self.watch.lane
    }

    #[inline(never)]
    fn look(&mut self) -> Instant {
        self.countdown = self.watch.sample_every;
        if let Some(pace) = &mut self.pace {
            return pace.next();
        }
        let now = Instant::now();
        self.saw(now);
        now
    }

    #[inline(never)]
    fn record(&mut self, kind: OpKind, began: Instant) {
        let now = Instant::now();
        let ns = u64::try_from(now.duration_since(began).as_nanos()).unwrap_or(u64::MAX);
        self.tally.histograms[kind as usize].saturating_record(ns);
        if self.pace.is_none() {
            self.saw(now);
        }
        self.watch.lane.publish(self.tally.ops.iter().sum());
        self.stopped =
            self.watch.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|d| now >= d);
    }

    #[inline]
    fn saw(&mut self, now: Instant) {
        let gap = u64::try_from(now.duration_since(self.last_look).as_nanos()).unwrap_or(u64::MAX);
        self.tally.gap_ns = self.tally.gap_ns.max(gap);
        self.last_look = now;
    }

    /// Stops counting.
    pub fn finish(mut self) -> MeterTally {
        std::hint::black_box(self.sum);
        let now = Instant::now();
        if self.pace.is_none() {
            self.saw(now);
        }
        self.watch.lane.publish(self.tally.ops.iter().sum());
        self.tally.ended = now;
        self.tally
    }
}

/// Touched bytes of read entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct TouchedBytes {
    /// Number of entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    sum: u64,
}

impl TouchedBytes {
    /// Touches a value: its first byte and its length.
    #[inline(always)]
    pub fn value(&mut self, value: &[u8]) {
        self.entries += 1;
        self.bytes += value.len() as u64;
        self.sum = self.sum.wrapping_add(value.first().copied().map_or(0, u64::from));
    }

    /// Touches an entry: the first bytes and the lengths of its key and value.
    #[inline(always)]
    pub fn entry(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += key.len() as u64;
        self.sum = self.sum.wrapping_add(key.first().copied().map_or(0, u64::from));
        self.value(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch<'a>(lane: &'a Lane, stop: &'a AtomicBool) -> MeterWatch<'a> {
        MeterWatch { lane, stop, sample_every: 16, max_time: None, rate: None }
    }

    #[test]
    fn one_in_sixteen_is_timed_and_all_are_counted() {
        let (lane, stop) = (Lane::default(), AtomicBool::new(false));
        let mut meter = ReadMeter::start(watch(&lane, &stop)).unwrap();
        for i in 0..160u64 {
            meter.op(OpKind::Read, 1, || std::hint::black_box(i));
        }
        meter.op(OpKind::Batch, 1000, || ());
        let tally = meter.finish();
        assert_eq!(
            (tally.ops[OpKind::Read as usize], tally.ops[OpKind::Batch as usize]),
            (160, 1000)
        );
        assert_eq!(tally.histograms[OpKind::Read as usize].len(), 10);
        assert_eq!(tally.histograms[OpKind::Batch as usize].len(), 1);
        assert_eq!(lane.ops(), 1160);
    }

    #[test]
    fn a_stall_between_timed_operations_is_seen() {
        let (lane, stop) = (Lane::default(), AtomicBool::new(false));
        let mut meter = ReadMeter::start(watch(&lane, &stop)).unwrap();
        for i in 0..32 {
            let nap = if i == 5 { 20 } else { 0 };
            meter.op(OpKind::Write, 1, || {
                if nap > 0 {
                    thread::sleep(Duration::from_millis(nap))
                }
            });
        }
        let tally = meter.finish();
        assert!(tally.gap_ns >= 20_000_000);
        assert!(tally.histograms[OpKind::Write as usize].max() < 20_000_000);
    }

    #[test]
    fn a_rate_counts_a_stall_against_all_that_it_held_up() {
        let (lane, stop) = (Lane::default(), AtomicBool::new(false));
        let mut meter =
            ReadMeter::start(MeterWatch { rate: Some(1000.0), ..watch(&lane, &stop) }).unwrap();
        for i in 0..40 {
            let nap = if i == 10 { 20 } else { 0 };
            meter.op(OpKind::Write, 1, || {
                if nap > 0 {
                    thread::sleep(Duration::from_millis(nap))
                }
            });
        }
        let tally = meter.finish();
        assert!(tally.ended.duration_since(tally.started) >= Duration::from_millis(39));
        let histogram = &tally.histograms[OpKind::Write as usize];
        assert_eq!(histogram.len(), 40);
        let held_up = histogram.len() - histogram.count_between(0, 5_000_000);
        assert!(held_up >= 10, "{held_up} of 40 were late by 5 ms or more");
    }

    #[test]
    fn a_deadline_and_a_stop_end_the_loop() {
        let (lane, stop) = (Lane::default(), AtomicBool::new(false));
        let mut meter = ReadMeter::start(MeterWatch {
            max_time: Some(Duration::from_millis(5)),
            ..watch(&lane, &stop)
        })
        .unwrap();
        while !meter.stopped() {
            meter.op(OpKind::Read, 1, || ());
        }
        assert!(meter.finish().ops[0] > 0);
        stop.store(true, Ordering::Relaxed);
        assert!(ReadMeter::start(watch(&lane, &stop)).unwrap().stopped());
    }
}
