//! Records the latency of operations in histograms that are always on.
//!
//! Invariants:
//! - Gets, seeks and writes are sampled together ([`SampleToken`]): each thread times one in
//!   [`SAMPLED`]. It observes another one, half a period later, for the counters of
//!   [`reads`](crate::counters::reads), because counting takes time. Any other operation costs one
//!   decrement and does not read the clock.
//! - Rare or slow operations (syncs, stalls, flushes, compactions) are always timed.

use std::cell::Cell;
use std::sync::Arc;

use crate::counters::reads::{SAMPLED, sampling_phase};
use crate::env::Env;
use crate::util::sync::Mutex;
use hdrhistogram::Histogram;

#[cfg(feature = "explain")]
use crate::db::explain::recorder::Recorder;

/// Longest recorded time in nanoseconds: one hour. Longer times count as an hour.
const LONGEST: u64 = 3_600_000_000_000;

thread_local! {
    /// Number of operations of this thread until the next sample.
    static LEFT: Cell<u32> = const { Cell::new(1) };
    /// Action of the next sample.
    static NEXT: Cell<NextSample> = const { Cell::new(NextSample::Begin) };
}

#[derive(Clone, Copy)]
enum NextSample {
    /// Neither: the thread is new, and starts at a spread position in the period.
    Begin,
    Time,
    Count,
}

/// Number of operations from a timed one to the next counted one.
const HALF: u32 = SAMPLED / 2;

/// Sampling decision for one operation: timed, counted, or (for most) neither.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SampleToken(u64);

impl SampleToken {
    const COUNTED: SampleToken = SampleToken(1);

    /// Reports whether the operation is neither timed nor counted.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Reports whether the operation is counted.
    pub fn counts(self) -> bool {
        self == SampleToken::COUNTED
    }
}

/// Operation whose latency is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyOp {
    /// A get.
    Get,
    /// A seek of a cursor, or the first item of a range.
    Seek,
    /// A put, a delete, an operand or a batch, with its sync and slowdown sleeps.
    Write,
    /// The wait of a writer for its sync.
    Sync,
    /// The wait of a writer for a memtable.
    Stall,
    /// A slowdown sleep of a writer.
    Slowdown,
    /// A flush.
    Flush,
    /// A compaction that merges tables.
    Compaction,
}

const KINDS: usize = 8;

/// Latency histograms of a Db, and the recorder of its reads.
pub struct Meters {
    /// Recorder of the cost of reads.
    #[cfg(feature = "explain")]
    pub recorder: Recorder,
    env: Arc<dyn Env>,
    /// Histogram of each operation, `None` before its first record. This saves memory in a process
    /// with a thousand stores, most of which time few operations.
    nanos: [Mutex<Option<Histogram<u32>>>; KINDS],
}

/// Creates a histogram with 2 significant digits. It grows with the longest time, from 1 KiB to
/// 18 KiB for [`LONGEST`].
fn histogram() -> Histogram<u32> {
    Histogram::new(2)
        .unwrap_or_else(|_| unreachable!("2 significant digits are within the crate's bounds"))
}

impl Meters {
    /// Creates empty histograms that use the clock of `env`.
    pub fn new(env: Arc<dyn Env>) -> Arc<Meters> {
        Arc::new(Meters {
            #[cfg(feature = "explain")]
            recorder: Recorder::new(env.clone()),
            env,
            nanos: Default::default(),
        })
    }

    /// Reports whether the cost of this thread's reads is recorded.
    #[inline]
    pub fn is_recording(&self) -> bool {
        #[cfg(feature = "explain")]
        return self.recorder.is_on();
        #[cfg(not(feature = "explain"))]
        false
    }

    /// Begins an operation, and decides whether it is a sample.
    #[inline]
    pub fn begin(&self) -> SampleToken {
        if cfg!(interleave) {
            // The count of one schedule would move the sampling points of the next schedule.
            return SampleToken(0);
        }
        let left = LEFT.get() - 1;
        LEFT.set(left);
        if left == 0 { self.begin_sampled() } else { SampleToken(0) }
    }

    #[cold]
    fn begin_sampled(&self) -> SampleToken {
        let (left, next, turn) = match NEXT.get() {
            NextSample::Begin => {
                let phase = sampling_phase();
                // As if the thread had run before.
                if phase < HALF {
                    (phase + 1, NextSample::Count, SampleToken(0))
                } else {
                    (phase - HALF + 1, NextSample::Time, SampleToken(0))
                }
            }
            NextSample::Time => {
                (HALF, NextSample::Count, SampleToken(self.now().max(SampleToken::COUNTED.0 + 1)))
            }
            NextSample::Count => (SAMPLED - HALF, NextSample::Time, SampleToken::COUNTED),
        };
        LEFT.set(left);
        NEXT.set(next);
        turn
    }

    /// Ends an operation that [`begin`](Meters::begin) began, and records its time if sampled.
    #[inline]
    pub fn end(&self, what: LatencyOp, turn: SampleToken) {
        if !turn.is_none() && !turn.counts() {
            self.since(what, turn.0);
        }
    }

    /// Returns the monotonic clock in nanoseconds, never 0.
    pub fn now(&self) -> u64 {
        self.env.monotonic_nanos().max(1)
    }

    /// Records the time since `began` and returns it, in nanoseconds.
    #[cold]
    pub fn since(&self, what: LatencyOp, began: u64) -> u64 {
        let nanos = self.env.monotonic_nanos().saturating_sub(began);
        self.record(what, nanos);
        nanos
    }

    /// Records a time in nanoseconds.
    pub fn record(&self, what: LatencyOp, nanos: u64) {
        let mut of = self.nanos[what as usize].lock();
        let recorded = of.get_or_insert_with(histogram).record(nanos.min(LONGEST));
        debug_assert!(recorded.is_ok(), "the histogram grows as needed");
    }

    fn of(&self, what: LatencyOp) -> Latency {
        let of = self.nanos[what as usize].lock();
        let Some(h) = &*of else { return Latency::default() };
        let at = |q| h.value_at_quantile(q);
        let (mut sum, mut within) = (0_u64, [0; Latency::BOUNDS.len()]);
        for of in h.iter_recorded() {
            let (value, count) = (of.value_iterated_to(), of.count_since_last_iteration());
            sum = sum.saturating_add(h.median_equivalent(value).saturating_mul(count));
            within
                .iter_mut()
                .zip(Latency::BOUNDS)
                .filter(|(_, bound)| value <= *bound)
                .for_each(|(n, _)| *n += count);
        }
        Latency {
            timed: h.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: h.max(),
            sum,
            within,
        }
    }

    /// Returns the latencies of all operations.
    pub fn all(&self) -> Latencies {
        Latencies {
            sampled: SAMPLED,
            get: self.of(LatencyOp::Get),
            seek: self.of(LatencyOp::Seek),
            write: self.of(LatencyOp::Write),
            sync: self.of(LatencyOp::Sync),
            stall: self.of(LatencyOp::Stall),
            slowdown: self.of(LatencyOp::Slowdown),
            flush: self.of(LatencyOp::Flush),
            compaction: self.of(LatencyOp::Compaction),
        }
    }
}

/// Latency distribution of one operation, in nanoseconds with two significant digits. All fields
/// are 0 if no operation was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// Number of timed operations.
    pub timed: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// Sum of all times.
    pub sum: u64,
    /// Number of operations that took at most each of [`BOUNDS`](Latency::BOUNDS).
    pub within: [u64; Latency::BOUNDS.len()],
}

impl Latency {
    /// Bounds of the cumulative counts in nanoseconds, from 250 ns to a minute.
    pub const BOUNDS: [u64; 24] = {
        let mut bounds = [0; 24];
        let (mut i, mut decade) = (0, 100);
        while i < 23 {
            // 2.5 and 5 times each decade, then the next decade.
            bounds[i] = match i % 3 {
                0 => decade * 5 / 2,
                1 => decade * 5,
                _ => {
                    decade *= 10;
                    decade
                }
            };
            i += 1;
        }
        bounds[23] = 60_000_000_000;
        bounds
    };
}

/// Latencies of operations since the Db was opened.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Latencies {
    /// Sampling interval: each thread times one in `sampled` gets, seeks and writes. All other
    /// operations are timed.
    pub sampled: u32,
    /// Gets of one key, present or absent, with or without a snapshot.
    pub get: Latency,
    /// Seeks of a cursor (including first and last), and reads of the first item of a range.
    pub seek: Latency,
    /// Puts, deletes, operands and batches, with their syncs and slowdown sleeps.
    pub write: Latency,
    /// Waits of writers for the sync of a commit group, with
    /// [`Durability::Power`](crate::Durability::Power).
    pub sync: Latency,
    /// Write stalls: waits of writers because every memtable is full.
    pub stall: Latency,
    /// Slowdown sleeps of writers, because compactions or a flush are late.
    pub slowdown: Latency,
    /// Flushes of memtables.
    pub flush: Latency,
    /// Compactions that merge tables.
    pub compaction: Latency,
}

impl Latencies {
    /// Returns all latencies with their names.
    pub fn named(&self) -> [(&'static str, Latency); KINDS] {
        [
            ("get", self.get),
            ("seek", self.seek),
            ("write", self.write),
            ("sync", self.sync),
            ("stall", self.stall),
            ("slowdown", self.slowdown),
            ("flush", self.flush),
            ("compaction", self.compaction),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::mem::MemEnv;

    #[test]
    fn any_time_is_recorded_and_unused_histograms_take_no_memory() {
        let meters = Meters::new(Arc::new(MemEnv::new(1)));
        assert_eq!(meters.all().get, Latency::default());
        for nanos in [0, 1, 300, 5_000_000, LONGEST, LONGEST + 1, u64::MAX] {
            meters.record(LatencyOp::Get, nanos);
        }
        let get = meters.all().get;
        assert_eq!((get.timed, get.within[0], get.within[1], get.within[23]), (7, 2, 3, 4));
        assert!((LONGEST..LONGEST + LONGEST / 50).contains(&get.max), "{}", get.max);
        let none = |what: &LatencyOp| meters.nanos[*what as usize].lock().is_none();
        assert!([LatencyOp::Seek, LatencyOp::Write, LatencyOp::Compaction].iter().all(none));
    }
}
