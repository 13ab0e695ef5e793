//! Times two ways of doing something by turns, so that what else the machine does falls on both.
//!
//! Invariant: a ratio is the median over rounds of the one's time by the other's in the same round;
//! who comes first alternates.

use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, Progress};

/// Two ways, measured.
#[derive(Clone, Copy, Debug)]
pub struct Duel {
    /// Nanoseconds for each operation of the first, the median over rounds.
    pub ours: f64,
    /// Of the second.
    pub beside: f64,
    /// The first by the second.
    pub ratio: f64,
}

/// The rounds of two ways.
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
    /// For `rounds` rounds of `each` operations each way.
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

    /// One round of both.
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

    /// What came out.
    pub fn done(self) -> Duel {
        let ratios = self.ours.iter().zip(&self.beside).map(|(a, b)| a / b).collect();
        Duel { ours: median(self.ours), beside: median(self.beside), ratio: median(ratios) }
    }
}
