//! Runs simulations one after the other or in parallel, with progress bars.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Failure, Progress};

use crate::model::meter::SimOutcome;
use crate::model::sim::{self, Setup};
use crate::report::text::seconds;

/// Runs one simulation with a progress bar.
///
/// # Errors
/// Errors of the simulator.
pub fn simulate(what: &str, setup: &Setup) -> Done<SimOutcome> {
    let bar = Progress::operations(what, Some(setup.workload.ops()));
    Ok(sim::run(setup, &mut |share| bar.at((share * setup.workload.ops() as f64) as u64))?)
}

/// Runs simulations on all cores, with a progress bar. Outcomes have the order of the cases.
///
/// # Errors
/// The first failure.
pub fn simulate_all(what: &str, cases: &[(String, Setup)]) -> Done<Vec<SimOutcome>> {
    simulate_each(what, cases)?.into_iter().map(|r| Ok(r?)).collect()
}

/// Does the same as [`simulate_all`], but a failed simulation does not fail the others.
///
/// # Errors
/// A simulation that ends without a result.
pub fn simulate_each(
    what: &str,
    cases: &[(String, Setup)],
) -> Done<Vec<firn_kv::Result<SimOutcome>>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(cases.len());
    // The bar has percent of all operations, which is a short number.
    let bar = Progress::operations(what, Some(100));
    let watch = Stopwatch::start();
    let progress = Mutex::new(BatchProgress::new(cases, threads));
    let show = |i: usize, share: f64| {
        let Ok(mut progress) = progress.lock() else { return };
        progress.advance(i, share, watch.seconds());
        bar.at(progress.percent());
        bar.say(progress.text(watch.seconds()));
    };
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<firn_kv::Result<SimOutcome>>>> =
        Mutex::new(cases.iter().map(|_| None).collect());
    let work = || {
        while let Some((i, (_, setup))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, cases.get(i)?)))
        {
            show(i, 0.0);
            let done = sim::run(setup, &mut |share| show(i, share));
            show(i, 1.0);
            if let Ok(mut r) = results.lock() {
                r[i] = Some(done);
            }
        }
    };
    #[allow(
        clippy::disallowed_methods,
        reason = "threads of the simulator itself: no store runs on them"
    )]
    std::thread::scope(|s| {
        (1..threads).for_each(|_| {
            s.spawn(work);
        });
        work();
    });
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    let missing = || Failure::new("a simulation ended without a result");
    results.into_iter().map(|r| r.ok_or_else(missing)).collect()
}

/// Share of a simulation from which on all or nearly all writes are done.
const ALL_WRITTEN: f64 = 0.999;

/// Progress of a simulation.
#[derive(Clone, Copy, Debug, Default)]
struct CaseProgress {
    /// Its number of operations.
    ops: f64,
    /// Seconds at which it began; `None` if it has not begun.
    begun: Option<f64>,
    /// Seconds that it took so far.
    passed: f64,
    /// The share of its operations that is done.
    share: f64,
}

/// Progress of a batch.
#[derive(Debug)]
struct BatchProgress {
    cases: Vec<CaseProgress>,
    threads: usize,
}

impl BatchProgress {
    fn new(cases: &[(String, Setup)], threads: usize) -> BatchProgress {
        let of = |(_, setup): &(String, Setup)| CaseProgress {
            ops: setup.workload.ops() as f64,
            ..CaseProgress::default()
        };
        BatchProgress { cases: cases.iter().map(of).collect(), threads }
    }

    /// Records the share of a simulation that is done.
    fn advance(&mut self, i: usize, share: f64, now: f64) {
        if let Some(case) = self.cases.get_mut(i) {
            case.passed = now - *case.begun.get_or_insert(now);
            case.share = share;
        }
    }

    /// Returns the done share of all operations in percent.
    fn percent(&self) -> u64 {
        let done: f64 = self.cases.iter().map(|c| c.ops * c.share).sum();
        (100.0 * done / self.cases.iter().map(|c| c.ops).sum::<f64>().max(1.0)) as u64
    }

    /// Returns the seconds that the rest takes. A running simulation continues at its own speed,
    /// and others have the average speed so far. `None` if no speed is known.
    fn left(&self) -> Option<f64> {
        let done: f64 = self.cases.iter().map(|c| c.ops * c.share).sum();
        let passed: f64 = self.cases.iter().map(|c| c.passed).sum();
        if done <= 0.0 || passed <= 0.0 {
            return None;
        }
        let rest = |c: &CaseProgress| match c.share {
            share if share > 0.0 => c.passed * (1.0 - share) / share,
            _ => c.ops * passed / done,
        };
        let all: f64 = self.cases.iter().map(rest).sum();
        let longest = self.cases.iter().map(rest).fold(0.0, f64::max);
        Some((all / self.threads.max(1) as f64).max(longest))
    }

    /// Returns the time that the rest takes, and the number of finished simulations. The time is
    /// first, because a narrow terminal cuts the end.
    fn text(&self, now: f64) -> String {
        let finished = self.cases.iter().filter(|c| c.share >= 1.0).count();
        let text = format!("{finished} of {} simulations", self.cases.len());
        // After the last write a simulation reports no progress until its compactions are done.
        let rest = || self.cases.iter().filter(|c| c.share < 1.0);
        if finished < self.cases.len() && rest().all(|c| c.share > ALL_WRITTEN) {
            return format!("last compactions, {text}");
        }
        match self.left().filter(|_| now >= 0.5) {
            Some(left) => format!("{} left, {text}", seconds(left)),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_what_remains() {
        let case = CaseProgress { ops: 100.0, ..CaseProgress::default() };
        let mut progress = BatchProgress { cases: vec![case; 4], threads: 2 };
        assert_eq!(progress.text(7.0), "0 of 4 simulations");
        progress.advance(0, 0.0, 0.0);
        progress.advance(0, 0.5, 2.0);
        assert_eq!((progress.percent(), progress.left()), (12, Some(7.0)));
        assert_eq!(progress.text(0.2), "0 of 4 simulations");
        assert_eq!(progress.text(2.0), "7.0 s left, 0 of 4 simulations");
        // A slow simulation, with which the batch ends, goes on at its own speed.
        progress.advance(0, 1.0, 4.0);
        progress.advance(1, 0.0, 4.0);
        progress.advance(1, 1.0, 8.0);
        progress.advance(2, 0.0, 8.0);
        progress.advance(2, 1.0, 12.0);
        progress.advance(3, 0.0, 12.0);
        progress.advance(3, 0.2, 18.0);
        assert_eq!(progress.text(18.0), "24.0 s left, 3 of 4 simulations");
        progress.advance(3, 0.9995, 41.0);
        assert_eq!(progress.text(41.0), "last compactions, 3 of 4 simulations");
        progress.advance(3, 1.0, 42.0);
        assert_eq!(
            (progress.percent(), progress.text(42.0).as_str()),
            (100, "0 left, 4 of 4 simulations")
        );
    }
}
