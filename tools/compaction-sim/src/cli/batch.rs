//! Runs simulations one after the other or in parallel, with progress bars.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_tools::output::{Done, Failure, Progress};

use crate::model::meter::SimOutcome;
use crate::model::sim::{self, Setup};

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
    const STEPS: u64 = 1000;
    let bar = Progress::operations(what, Some(cases.len() as u64 * STEPS));
    let shares: Vec<AtomicUsize> = cases.iter().map(|_| AtomicUsize::new(0)).collect();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<firn_kv::Result<SimOutcome>>>> =
        Mutex::new(cases.iter().map(|_| None).collect());
    let work = || {
        while let Some((i, (_, setup))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, cases.get(i)?)))
        {
            let done = sim::run(setup, &mut |share| {
                shares[i].store((share * STEPS as f64) as usize, Ordering::Relaxed);
                bar.at(shares.iter().map(|s| s.load(Ordering::Relaxed) as u64).sum());
            });
            if let Ok(mut r) = results.lock() {
                r[i] = Some(done);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(cases.len());
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
