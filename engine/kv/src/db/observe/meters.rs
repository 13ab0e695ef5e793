//! Latency of operations: histograms that are always on.
//!
//! Invariants:
//! - Reads and writes are sampled: of each thread's gets, seeks and writes one in [`SAMPLED`] is
//!   timed, counted over all of them, and another one, half a period later, is looked at for the
//!   counts of [`reads`](crate::counters::reads) ([`SampleToken`]): to count takes time. One that is neither
//!   costs a count down and no look at the clock.
//! - What is rare or slow anyway (syncs, stalls, flushes, compactions) is timed every time.

use std::cell::Cell;
use std::sync::Arc;

use crate::counters::reads::{SAMPLED, some_phase};
use crate::env::Env;
use crate::util::sync::Mutex;
use hdrhistogram::Histogram;

use crate::db::explain::recorder::Recorder;

/// An hour: what takes longer counts as one.
const LONGEST: u64 = 3_600_000_000_000;

thread_local! {
    /// How many operations of this thread go by until one is timed or counted.
    static LEFT: Cell<u32> = const { Cell::new(1) };
    /// What is done then.
    static NEXT: Cell<NextSample> = const { Cell::new(NextSample::Begin) };
}

#[derive(Clone, Copy)]
enum NextSample {
    /// Neither: the thread is new, and begins somewhere in the period.
    Begin,
    Time,
    Count,
}

/// From an operation that is timed to one that is counted.
const HALF: u32 = SAMPLED / 2;

/// Whether an operation is timed, or counted: none of both for most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SampleToken(u64);

impl SampleToken {
    const COUNTED: SampleToken = SampleToken(1);

    /// Whether neither is done.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it is counted what the operation does.
    pub fn counts(self) -> bool {
        self == SampleToken::COUNTED
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyOp {
    /// A get.
    Get,
    /// A seek of a cursor, or the first item of a range.
    Seek,
    /// A put, a delete, an operand or a batch, with its sync and the sleeps that pace it.
    Write,
    /// What a writer waits for its sync.
    Sync,
    /// What a writer waits for a memtable.
    Stall,
    /// A sleep that paces a writer.
    Pace,
    /// A flush.
    Flush,
    /// A merging compaction.
    Compaction,
}

const KINDS: usize = 8;

/// The histograms of a Db, and who records its reads.
pub struct Meters {
    /// Who records what reads cost.
    pub recorder: Recorder,
    env: Arc<dyn Env>,
    /// None where nothing was recorded yet: in a process with a thousand stores most of them time
    /// little.
    nanos: [Mutex<Option<Histogram<u32>>>; KINDS],
}

/// With 2 significant digits. It grows with the longest time: 1 KiB, and 18 for [`LONGEST`].
fn histogram() -> Histogram<u32> {
    Histogram::new(2)
        .unwrap_or_else(|_| unreachable!("2 significant digits are within the crate's bounds"))
}

impl Meters {
    /// Empty histograms over the clock of `env`.
    pub fn new(env: Arc<dyn Env>) -> Arc<Meters> {
        let recorder = Recorder::new(env.clone());
        Arc::new(Meters { recorder, env, nanos: Default::default() })
    }

    /// Begins an operation that is sampled.
    #[inline]
    pub fn begin(&self) -> SampleToken {
        if cfg!(interleave) {
            // What a thread has counted in one schedule would move the points of the next.
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
                let phase = some_phase();
                // As if the thread had been there before.
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

    /// Ends what [`begin`](Meters::begin) began.
    #[inline]
    pub fn end(&self, what: LatencyOp, turn: SampleToken) {
        if !turn.is_none() && !turn.counts() {
            self.since(what, turn.0);
        }
    }

    /// The clock; never 0.
    pub fn now(&self) -> u64 {
        self.env.monotonic_nanos().max(1)
    }

    /// Records the time since `began`, and gives it.
    #[cold]
    pub fn since(&self, what: LatencyOp, began: u64) -> u64 {
        let nanos = self.env.monotonic_nanos().saturating_sub(began);
        self.record(what, nanos);
        nanos
    }

    /// Records a time.
    pub fn record(&self, what: LatencyOp, nanos: u64) {
        let mut of = self.nanos[what as usize].lock();
        let recorded = of.get_or_insert_with(histogram).record(nanos.min(LONGEST));
        debug_assert!(recorded.is_ok(), "it grows as far as is needed");
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

    /// All of them.
    pub fn all(&self) -> Latencies {
        Latencies {
            sampled: SAMPLED,
            get: self.of(LatencyOp::Get),
            seek: self.of(LatencyOp::Seek),
            write: self.of(LatencyOp::Write),
            sync: self.of(LatencyOp::Sync),
            stall: self.of(LatencyOp::Stall),
            pace: self.of(LatencyOp::Pace),
            flush: self.of(LatencyOp::Flush),
            compaction: self.of(LatencyOp::Compaction),
        }
    }
}

/// How long one kind of operation took, in nanoseconds, to two significant digits; all 0 when none
/// was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many were timed.
    pub timed: u64,
    /// The median.
    pub p50: u64,
    /// Nine in ten took at most this.
    pub p90: u64,
    /// 99 in 100.
    pub p99: u64,
    /// 999 in 1000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// All together.
    pub sum: u64,
    /// How many took at most each of [`BOUNDS`](Latency::BOUNDS).
    pub within: [u64; Latency::BOUNDS.len()],
}

impl Latency {
    /// In nanoseconds: from 250 ns to a minute.
    pub const BOUNDS: [u64; 24] = {
        let mut bounds = [0; 24];
        let (mut i, mut decade) = (0, 100);
        while i < 23 {
            // 250 and 500 of each decade, and the next.
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

/// How long operations took since the Db was opened.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Latencies {
    /// Of gets, seeks and writes one in so many was timed, by each thread; of the others every one.
    pub sampled: u32,
    /// A get of one key, present or not; of a snapshot or not.
    pub get: Latency,
    /// A seek of a cursor (first and last included), or the first item of a range.
    pub seek: Latency,
    /// A put, a delete, an operand or a batch, with its sync and the sleeps that pace it.
    pub write: Latency,
    /// What a writer waits for the sync of a group, with
    /// [`Durability::Power`](crate::Durability::Power).
    pub sync: Latency,
    /// What a writer waits because every memtable is full.
    pub stall: Latency,
    /// Sleeps of writers because compaction is behind.
    pub pace: Latency,
    /// Flushes of memtables.
    pub flush: Latency,
    /// Merging compactions.
    pub compaction: Latency,
}

impl Latencies {
    /// All with their names.
    pub fn named(&self) -> [(&'static str, Latency); KINDS] {
        [
            ("get", self.get),
            ("seek", self.seek),
            ("write", self.write),
            ("sync", self.sync),
            ("stall", self.stall),
            ("pace", self.pace),
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
    fn any_time_is_recorded_and_what_never_happened_takes_no_memory() {
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
