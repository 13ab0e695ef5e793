//! Times two alternatives in turns, so that other load of the machine affects both.
//!
//! Invariant: a ratio is the median over rounds of the first time divided by the second in the same
//! round. The order alternates.

use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Progress};

/// Result of two alternatives.
#[derive(Clone, Copy, Debug)]
pub struct Duel {
    /// Nanoseconds per operation of the first, median over rounds.
    pub ours: f64,
    /// Nanoseconds per operation of the second, median over rounds.
    pub beside: f64,
    /// First divided by second.
    pub ratio: f64,
}

/// Measurement of two alternatives.
pub struct DuelMeter {
    progress: Progress,
    each: u64,
    ours: Vec<f64>,
    beside: Vec<f64>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl DuelMeter {
    /// Creates a meter for `rounds` rounds of `each` operations of both.
    pub fn new(what: &str, rounds: u64, each: u64) -> DuelMeter {
        DuelMeter {
            progress: Progress::operations(what, Some(rounds * each)),
            each,
            ours: vec![],
            beside: vec![],
        }
    }

    fn time(&self, work: impl FnOnce() -> Done) -> Done<f64> {
        let watch = Stopwatch::start();
        work()?;
        Ok(watch.nanos() as f64 / self.each as f64)
    }

    /// Runs one round of both.
    pub fn round(&mut self, ours: impl FnOnce() -> Done, beside: impl FnOnce() -> Done) -> Done {
        let (a, b) = if self.ours.len().is_multiple_of(2) {
            let a = self.time(ours)?;
            (a, self.time(beside)?)
        } else {
            let b = self.time(beside)?;
            (self.time(ours)?, b)
        };
        self.ours.push(a);
        self.beside.push(b);
        self.progress.at(self.ours.len() as u64 * self.each);
        Ok(())
    }

    /// Returns the result.
    pub fn done(self) -> Duel {
        let ratios = self.ours.iter().zip(&self.beside).map(|(a, b)| a / b).collect();
        Duel { ours: median(self.ours), beside: median(self.beside), ratio: median(ratios) }
    }
}
