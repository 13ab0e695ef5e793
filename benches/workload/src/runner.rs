//! Runs a phase on a store: threads with common start and end, progress, and the sum of their
//! counts.
//!
//! All threads have created their data (distributions, buffers) before the clock starts. The
//! calling thread reads the counters once per interval; the workers write them to their own cache
//! lines.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::keys::KeyBuf;
use crate::loops;
use crate::meter::{Lane, MeterTally, MeterWatch, ReadMeter, histogram, latency};
use crate::outcome::{OpKind, Outcome, OutcomeClass, Point, RunProgress};
use crate::phase::{Extent, Phase};
use crate::store::{Result, Store};
use crate::stream::{OperationStream, phase_seed};
use crate::values::ValuePool;

/// Runs phases that share a [`Config`]. See the [crate] for an example.
#[derive(Debug)]
pub struct Runner {
    config: Config,
    /// Number of items: the keys of the configuration, and those that phases have inserted.
    items: AtomicU64,
    /// Number of phases so far that wrote.
    writing: AtomicU64,
}

/// Items inserted by the threads of a phase, and the number below which all were inserted.
#[derive(Debug)]
pub(crate) struct Inserts {
    next: AtomicU64,
    /// For each thread a lower bound of the number that it is inserting; the maximum if it is idle.
    at: Vec<RunnerSlot>,
}

#[derive(Debug)]
#[repr(align(128))]
struct RunnerSlot(AtomicU64);

impl Inserts {
    fn new(from: u64, threads: usize) -> Self {
        Inserts {
            next: AtomicU64::new(from),
            at: (0..threads).map(|_| RunnerSlot(AtomicU64::new(u64::MAX))).collect(),
        }
    }

    /// Returns the item that `thread` inserts next.
    pub(crate) fn begin(&self, thread: usize) -> u64 {
        // The bound is published before the number is taken: a thread that sees the number taken
        // also sees the bound.
        self.at[thread].0.store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes that `thread` has inserted its item.
    pub(crate) fn end(&self, thread: usize) {
        self.at[thread].0.store(u64::MAX, Ordering::SeqCst);
    }

    /// Returns the number below which all items were inserted.
    #[inline]
    pub(crate) fn complete(&self) -> u64 {
        let next = self.next.load(Ordering::SeqCst);
        self.at.iter().fold(next, |low, slot| low.min(slot.0.load(Ordering::SeqCst)))
    }
}

/// State shared by the threads of a phase.
#[derive(Debug)]
pub(crate) struct RunnerJob<'a> {
    pub(crate) config: &'a Config,
    pub(crate) phase: &'a Phase,
    /// Total operations of all threads.
    pub(crate) total: u64,
    /// Number of items at the beginning.
    pub(crate) items: u64,
    pub(crate) seed: u64,
    pub(crate) inserts: Inserts,
    stop: AtomicBool,
    running: AtomicUsize,
    lanes: Vec<Lane>,
}

impl RunnerJob<'_> {
    /// Returns the operations of this seed.
    pub(crate) fn stream(&self, seed: u64) -> OperationStream {
        OperationStream::new(&self.phase.mix, self.config.distribution, self.items, seed)
    }
}

/// One thread of a phase.
pub(crate) struct RunnerWorker<'a> {
    pub(crate) job: &'a RunnerJob<'a>,
    pub(crate) index: usize,
    pub(crate) key: KeyBuf,
    pub(crate) pool: &'a ValuePool,
    pub(crate) watch: MeterWatch<'a>,
    barrier: &'a Barrier,
}

impl<'a> RunnerWorker<'a> {
    /// Returns the operations of this thread: their count, and the number of the first one.
    pub(crate) fn share(&self) -> (u64, u64) {
        let bound = |i: usize| {
            (u128::from(self.job.total) * i as u128 / self.job.phase.threads as u128) as u64
        };
        let first = bound(self.index);
        (first, bound(self.index + 1) - first)
    }

    /// Waits for the other threads and starts the clock.
    pub(crate) fn start(&self) -> Result<ReadMeter<'a>> {
        self.barrier.wait();
        ReadMeter::start(self.watch)
    }
}

/// Notifies the caller that a thread has ended, even by a panic of a driver.
struct Ended<'a> {
    job: &'a RunnerJob<'a>,
    index: usize,
    caller: &'a thread::Thread,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if self.index < self.job.phase.threads {
            self.job.running.fetch_sub(1, Ordering::AcqRel);
        }
        self.caller.unpark();
    }
}

impl Runner {
    /// Checks `config`.
    pub fn new(config: Config) -> Result<Self> {
        config.check()?;
        let items = AtomicU64::new(config.keys);
        Ok(Runner { config, items, writing: AtomicU64::new(0) })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs `phase` on `store`; `progress` is called once per interval.
    ///
    /// # Errors
    /// The first error of the store; the other threads stop then.
    pub fn run<S: Store>(
        &self,
        store: &S,
        phase: &Phase,
        mut progress: impl FnMut(&RunProgress),
    ) -> Result<Outcome> {
        let (config, mix) = (&self.config, &phase.mix);
        mix.check()?;
        let earlier = match mix.only_reads() {
            true => 0,
            false => self.writing.fetch_add(1, Ordering::Relaxed),
        };
        let grows = mix.hashed || mix.inserts > 0.0;
        let items = if grows { self.items.load(Ordering::Relaxed) } else { config.keys };
        let longest = mix.value_size(config.value_size).max();
        let pool = &ValuePool::new(longest, config.random_share, config.seed);
        let job = RunnerJob {
            config,
            phase,
            total: phase.total_ops(config.keys),
            items,
            seed: phase_seed(config.seed, &phase.name, earlier),
            inserts: Inserts::new(items, phase.threads),
            stop: AtomicBool::new(false),
            running: AtomicUsize::new(phase.threads),
            lanes: (0..phase.threads + usize::from(mix.writer)).map(|_| Lane::default()).collect(),
        };
        let barrier = Barrier::new(job.lanes.len() + 1);
        let (job, barrier, caller) = (&job, &barrier, thread::current());
        let (tallies, series) = thread::scope(|scope| {
            let caller = &caller;
            let handles: Vec<_> = (0..job.lanes.len())
                .map(|index| {
                    scope.spawn(move || {
                        let watch = watch(job, index);
                        let key = KeyBuf::new(config.key_size);
                        let mut worker = RunnerWorker { job, index, key, pool, watch, barrier };
                        let _ended = Ended { job, index, caller };
                        let tally = loops::run(store, &mut worker);
                        if tally.is_err() {
                            job.stop.store(true, Ordering::Relaxed);
                        }
                        tally
                    })
                })
                .collect();
            barrier.wait();
            let series = oversee(job, &mut progress);
            let tallies: Vec<Result<MeterTally>> = handles
                .into_iter()
                .map(|h| {
                    h.join().unwrap_or_else(|_| Err("a thread of the workload panicked".into()))
                })
                .collect();
            (tallies, series)
        });
        if grows {
            self.items.store(job.inserts.complete(), Ordering::Relaxed);
        }
        let tallies: Vec<MeterTally> = tallies.into_iter().collect::<Result<_>>()?;
        sum_up(phase, &tallies, series)
    }
}

fn watch<'a>(job: &'a RunnerJob<'a>, index: usize) -> MeterWatch<'a> {
    let (config, threads) = (job.config, job.phase.threads);
    let rate = match index < threads {
        true => job.phase.mix.rate.or(config.rate).map(|rate| rate / threads as f64),
        false => config.write_rate,
    };
    let time = match job.phase.extent() {
        Extent::Seconds(seconds) => Some(Duration::from_secs_f64(seconds)),
        _ => None,
    };
    // The writer beside readers runs as long as they do.
    let max_time = time.into_iter().chain(config.max_time).min().filter(|_| index < threads);
    MeterWatch {
        lane: &job.lanes[index],
        stop: &job.stop,
        sample_every: config.sample_every,
        max_time,
        rate,
    }
}

/// Reads the counters once per interval until all threads have ended, then stops the threads that
/// run beside them.
fn oversee(job: &RunnerJob<'_>, progress: &mut impl FnMut(&RunProgress)) -> Vec<Point> {
    let of = match job.phase.mix.full_scan {
        Some(_) => job.total.saturating_mul(job.phase.threads as u64),
        None => job.total,
    };
    let mut series = Vec::new();
    let start = Instant::now();
    let (mut before, mut ops_before) = (start, 0u64);
    loop {
        let due = before + job.config.interval;
        let ended = loop {
            if job.running.load(Ordering::Acquire) == 0 {
                break true;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            thread::park_timeout(left);
        };
        let now = Instant::now();
        let ops: u64 = job.lanes[..job.phase.threads].iter().map(Lane::ops).sum();
        let span = now.duration_since(before).as_secs_f64();
        let rate = ops.saturating_sub(ops_before) as f64 / span.max(1e-9);
        // The last interval is shorter: a very short one would be noise.
        if !ended || series.is_empty() || span > job.config.interval.as_secs_f64() / 4.0 {
            series.push(Point {
                seconds: now.duration_since(start).as_secs_f64(),
                ops_per_second: rate,
            });
        }
        progress(&RunProgress {
            seconds: now.duration_since(start).as_secs_f64(),
            ops,
            of,
            ops_per_second: rate,
        });
        if ended {
            job.stop.store(true, Ordering::Relaxed);
            return series;
        }
        (before, ops_before) = (now, ops);
    }
}

fn sum_up(phase: &Phase, tallies: &[MeterTally], series: Vec<Point>) -> Result<Outcome> {
    let primary = &tallies[..phase.threads.min(tallies.len())];
    let started = primary.iter().map(|t| t.started).min();
    let ended = primary.iter().map(|t| t.ended).max();
    let seconds = match (started, ended) {
        (Some(a), Some(b)) => b.duration_since(a).max(Duration::from_nanos(1)).as_secs_f64(),
        _ => return Err("no thread ran".into()),
    };
    let mut all = histogram()?;
    for t in primary {
        t.histograms.iter().try_for_each(|h| all.add(h))?;
    }
    let mut classes = Vec::new();
    for kind in OpKind::ALL {
        let ops: u64 = tallies.iter().map(|t| t.ops[kind as usize]).sum();
        if ops > 0 {
            let mut times = histogram()?;
            tallies.iter().try_for_each(|t| times.add(&t.histograms[kind as usize]))?;
            classes.push(OutcomeClass {
                kind,
                ops,
                ops_per_second: ops as f64 / seconds,
                latency: latency(&times),
            });
        }
    }
    let ops: u64 = primary.iter().flat_map(|t| t.ops).sum();
    Ok(Outcome {
        workload: phase.to_string(),
        threads: phase.threads,
        ops,
        seconds,
        ops_per_second: ops as f64 / seconds,
        bytes: primary.iter().map(|t| t.bytes).sum(),
        found: primary.iter().map(|t| t.found).sum(),
        latency: latency(&all),
        ceiling_ns: primary.iter().map(|t| t.gap_ns).max().unwrap_or(0),
        classes,
        series,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::MapStore;

    fn runner(config: Config) -> Runner {
        Runner::new(Config { keys: 2000, interval: Duration::from_millis(5), ..config }).unwrap()
    }

    fn run(runner: &Runner, store: &MapStore, phase: &str) -> Outcome {
        runner.run(store, &phase.parse().unwrap(), |_| ()).unwrap()
    }

    #[test]
    fn fills_hold_what_they_should() {
        let runner = runner(Config::default());
        for (phase, low, high) in [
            ("fillseq", 2000, 2000),
            ("fillseq:3", 2000, 2000),
            ("filluniquerandom:2", 2000, 2000),
            ("fillrandom", 1200, 1330),
            ("fillbatch", 1200, 1330),
            ("fillsync", 1, 2),
            ("ycsb-load:2", 2000, 2000),
        ] {
            let store = MapStore::default();
            let outcome = run(&runner, &store, phase);
            assert!((low..=high).contains(&store.len()), "{phase}: {}", store.len());
            assert_eq!(outcome.found, 0);
            assert_eq!(
                outcome.bytes,
                outcome.ops * if phase.starts_with("ycsb") { 1016 } else { 116 },
                "{phase}"
            );
            assert_eq!(outcome.workload, phase);
        }
    }

    #[test]
    fn reads_find_what_is_there() {
        let (runner, store) = (runner(Config::default()), MapStore::default());
        run(&runner, &store, "fillseq");
        assert_eq!(run(&runner, &store, "readrandom:2").found, 2000);
        assert_eq!(run(&runner, &store, "readmissing").found, 0);
        let scanned = run(&runner, &store, "readseq:2");
        assert_eq!((scanned.ops, scanned.bytes), (4000, 4000 * 116));
        assert_eq!(run(&runner, &store, "readreverse@500").ops, 500);
        let seeks = run(&runner, &store, "seekrandom");
        assert_eq!((seeks.ops, seeks.found), (200, 200));
        assert!(seeks.bytes > 190 * 10 * 116);
        run(&runner, &store, "deleteseq");
        assert_eq!(store.len(), 0);
    }

    #[test]
    fn merges_add_up_and_ranges_go() {
        let (runner, store) = (runner(Config::default()), MapStore::default());
        let merged = run(&runner, &store, "mergerandom:2");
        assert_eq!((merged.ops, merged.bytes), (2000, 2000 * 24));
        let sum: u64 = store
            .entries()
            .iter()
            .map(|(_, v)| u64::from_le_bytes(v[..].try_into().unwrap()))
            .sum();
        assert_eq!(sum, 2000);
        run(&runner, &store, "fillseq");
        let ranges = run(&runner, &store, "deleterange");
        assert_eq!((ranges.ops, ranges.classes[0].kind), (2, OpKind::DeleteRange));
        assert!((1800..2000).contains(&store.len()), "{}", store.len());
    }

    #[test]
    fn reads_beside_a_writer_count_apart() {
        let (runner, store) = (runner(Config::default()), MapStore::default());
        run(&runner, &store, "fillseq");
        let outcome = run(&runner, &store, "readwhilewriting@20000:2");
        assert_eq!((outcome.ops, outcome.found), (20_000, 20_000));
        let kinds: Vec<OpKind> = outcome.classes.iter().map(|c| c.kind).collect();
        assert_eq!(kinds, [OpKind::Read, OpKind::Write]);
        assert!(
            outcome
                .latency
                .is_some_and(|l| l.samples >= 1250 && l.p50_ns <= l.p99_ns && l.p99_ns <= l.max_ns)
        );
    }

    #[test]
    fn ycsb_mixes_have_their_shares() {
        let (runner, store) = (runner(Config::default()), MapStore::default());
        run(&runner, &store, "ycsb-load");
        for (phase, kind, share) in [
            ("ycsb-a@20000", OpKind::Write, 0.5),
            ("ycsb-b@20000", OpKind::Write, 0.05),
            ("ycsb-c@20000", OpKind::Read, 1.0),
            ("ycsb-d@20000:2", OpKind::Insert, 0.05),
            ("ycsb-e@20000:2", OpKind::Scan, 0.95),
            ("ycsb-f@20000", OpKind::ReadModifyWrite, 0.5),
        ] {
            let outcome = run(&runner, &store, phase);
            assert_eq!(outcome.ops, 20_000);
            let class = outcome.classes.iter().find(|c| c.kind == kind).unwrap();
            assert!((class.ops as f64 / 20_000.0 - share).abs() < 0.01, "{phase}: {class:?}");
            let written: u64 = outcome
                .classes
                .iter()
                .filter(|c| matches!(c.kind, OpKind::Write | OpKind::Insert))
                .map(|c| c.ops)
                .sum();
            assert_eq!(
                outcome.found,
                outcome.ops - written,
                "{phase}: every read finds its record"
            );
        }
        // D and E inserted new records, each with its own number.
        assert!((3800..4200).contains(&store.len()), "{}", store.len());
    }

    #[test]
    fn mixgraph_mixes() {
        let (runner, store) = (runner(Config::default()), MapStore::default());
        run(&runner, &store, "fillseq");
        let outcome = run(&runner, &store, "mixgraph@20000");
        for (kind, share) in [(OpKind::Read, 0.83), (OpKind::Write, 0.14), (OpKind::Scan, 0.03)] {
            let ops = outcome.classes.iter().find(|c| c.kind == kind).map_or(0, |c| c.ops);
            assert!((ops as f64 / 20_000.0 - share).abs() < 0.01, "{kind:?}: {ops}");
        }
    }

    #[test]
    fn equal_seeds_leave_equal_stores() {
        let filled = |seed: u64, phase: &str| {
            let (runner, store) =
                (runner(Config { seed, ..Config::default() }), MapStore::default());
            run(&runner, &store, phase);
            store.entries()
        };
        for phase in ["fillrandom", "filluniquerandom", "fillbatch", "mixgraph"] {
            assert_eq!(filled(1, phase), filled(1, phase), "{phase}");
            assert_ne!(filled(1, phase), filled(2, phase), "{phase}");
        }
    }

    #[test]
    fn time_and_rate_bound_a_run() {
        let bounded =
            runner(Config { max_time: Some(Duration::from_millis(200)), ..Config::default() });
        let store = MapStore::default();
        let outcome = run(&bounded, &store, "readrandom@1000m:2");
        assert!(outcome.ops < 1_000_000_000 && outcome.seconds < 5.0 && outcome.series.len() > 1);
        let paced = runner(Config { rate: Some(10_000.0), ..Config::default() });
        let outcome = run(&paced, &store, "overwrite@500:2");
        assert!((0.049..5.0).contains(&outcome.seconds) && outcome.ceiling_ns == 0);
        assert_eq!(outcome.latency.map(|l| l.samples), Some(500));
    }

    #[test]
    fn an_error_ends_the_run() {
        let (runner, store) = (runner(Config::default()), MapStore::failing_after(100));
        let err = runner.run(&store, &"fillrandom@100m:2".parse().unwrap(), |_| ()).unwrap_err();
        assert!(err.to_string().contains("is set to fail"));
        let err =
            runner.run(&store, &"readwhilewriting@100m".parse().unwrap(), |_| ()).unwrap_err();
        assert!(err.to_string().contains("is set to fail"));
    }
}
