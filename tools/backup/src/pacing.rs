//! Rate limit, progress and cancellation of copies.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::{Env, Error, ErrorKind, Result};

/// Longest sleep between checks of the stop flag.
const NAP_NANOS: u64 = 100_000_000;

/// Progress callback: bytes done, total bytes.
type ReportBytes<'a> = Box<dyn FnMut(u64, u64) + 'a>;

/// A rate limit, a progress callback, and a stop flag. The default has none of them.
#[derive(Default)]
pub struct Pacing<'a> {
    rate: Option<u64>,
    report: Option<ReportBytes<'a>>,
    stop: Option<&'a AtomicBool>,
    began_nanos: u64,
    done: u64,
    all: u64,
}

impl fmt::Debug for Pacing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pacing { rate, done, all, .. } = self;
        write!(f, "Pacing {{ rate: {rate:?}, done: {done}, all: {all} }}")
    }
}

impl<'a> Pacing<'a> {
    /// Limits the rate to this number of bytes per second, at least 1; `None` for unlimited.
    #[must_use]
    pub fn with_rate_limit(mut self, bytes_per_second: Option<u64>) -> Pacing<'a> {
        self.rate = bytes_per_second.map(|rate| rate.max(1));
        self
    }

    /// Calls `report` with the bytes done so far and the total bytes.
    #[must_use]
    pub fn with_progress(mut self, report: impl FnMut(u64, u64) + 'a) -> Pacing<'a> {
        self.report = Some(Box::new(report));
        self
    }

    /// Ends the run with an error of kind `Closed` soon after the flag is set.
    #[must_use]
    pub fn with_stop_flag(mut self, stop: &'a AtomicBool) -> Pacing<'a> {
        self.stop = Some(stop);
        self
    }

    /// Begins a run that copies this many bytes.
    pub(crate) fn begin(&mut self, env: &dyn Env, all: u64) {
        (self.began_nanos, self.done, self.all) = (env.monotonic_nanos(), 0, all);
        self.report_progress();
    }

    /// Counts copied bytes; waits if the rate was too high.
    pub(crate) fn step(&mut self, env: &dyn Env, bytes: u64) -> Result<()> {
        self.done += bytes;
        self.report_progress();
        let due = self.rate.map_or(0, |rate| {
            let nanos = u128::from(self.done) * 1_000_000_000 / u128::from(rate);
            u64::try_from(nanos).unwrap_or(u64::MAX)
        });
        loop {
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(Error::new(ErrorKind::Closed, "the run was stopped"));
            }
            let early = due.saturating_sub(env.monotonic_nanos().saturating_sub(self.began_nanos));
            if early == 0 {
                return Ok(());
            }
            env.sleep(Duration::from_nanos(early.min(NAP_NANOS)));
        }
    }

    fn report_progress(&mut self) {
        if let Some(report) = &mut self.report {
            report(self.done, self.all.max(self.done));
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::MemEnv;

    use super::*;

    #[test]
    fn a_rate_is_limited_by_the_clock() {
        let env = MemEnv::new(1);
        let mut seen = vec![];
        let mut pacing = Pacing::default()
            .with_rate_limit(Some(1000))
            .with_progress(|done, all| seen.push((done, all)));
        let before = env.monotonic_nanos();
        pacing.begin(&env, 2500);
        [500, 1500, 500].iter().for_each(|n| pacing.step(&env, *n).unwrap());
        assert_eq!(env.monotonic_nanos() - before, 2_500_000_000);
        drop(pacing);
        assert_eq!(seen, [(0, 2500), (500, 2500), (2000, 2500), (2500, 2500)]);
    }

    #[test]
    fn a_flag_stops_a_run_also_while_it_sleeps() {
        let (env, stop) = (MemEnv::new(1), AtomicBool::new(false));
        let mut pacing = Pacing::default().with_rate_limit(Some(1)).with_stop_flag(&stop);
        pacing.begin(&env, 1 << 40);
        pacing.step(&env, 1).unwrap();
        stop.store(true, Ordering::Relaxed);
        let before = env.monotonic_nanos();
        assert_eq!(pacing.step(&env, 1 << 40).unwrap_err().kind(), ErrorKind::Closed);
        assert!(env.monotonic_nanos() - before <= NAP_NANOS);
    }
}
