//! A paper as data: the set-up as options of `run`, so that you can run each case yourself, and the
//! list of claims. A claim has its section, its text, the paper's figure, and a function that
//! calculates ours from the outcomes and says whether both agree. Where they differ, it has the
//! reason. [`Paper::reproduce`] evaluates all of them.

use clap::Parser;
use firn_tools::output::{Done, Failure};

use crate::cli::batch::simulate_all;
use crate::cli::{SimCli, SimCommand};
use crate::model::meter::SimOutcome;
use crate::model::sim::Setup;

/// A paper and its simulated part.
pub struct Paper {
    /// Short name in the command.
    pub name: &'static str,
    /// Title, venue and year, and where it is available.
    pub title: &'static str,
    /// The set-up as text: the paper's part and ours.
    pub setup: &'static str,
    /// Options of `run` for all cases.
    pub options: &'static str,
    /// The cases: a name, and its own options of `run`.
    pub cases: &'static [(&'static str, &'static str)],
    /// Its claims.
    pub claims: &'static [PaperClaim],
}

/// A claim of a paper.
pub struct PaperClaim {
    /// Section of the paper.
    pub section: &'static str,
    /// The claim, in our words.
    pub text: &'static str,
    /// The paper's figure.
    pub figure: &'static str,
    /// Returns our finding, and whether it agrees.
    pub ours: fn(&PaperOutcomes) -> (String, bool),
    /// Known reason for disagreement; empty if it agrees.
    pub differs: &'static str,
}

/// Creates the claim of a section; [`PaperClaim::figure`] completes it.
pub(super) const fn claim(section: &'static str, text: &'static str) -> PaperClaim {
    PaperClaim { section, text, figure: "", ours: |_| (String::new(), false), differs: "" }
}

impl PaperClaim {
    /// Adds the paper's figure, and the function that returns ours and whether it agrees.
    pub(super) const fn figure(
        self,
        figure: &'static str,
        ours: fn(&PaperOutcomes) -> (String, bool),
    ) -> PaperClaim {
        PaperClaim { figure, ours, ..self }
    }

    /// Adds the reason why our finding is known to differ.
    pub(super) const fn differs(self, differs: &'static str) -> PaperClaim {
        PaperClaim { differs, ..self }
    }
}

/// The outcomes of a paper's cases.
pub struct PaperOutcomes {
    all: Vec<(String, SimOutcome)>,
}

impl std::ops::Index<&str> for PaperOutcomes {
    type Output = SimOutcome;

    /// Returns the outcome of the case with this name, which is in the paper's own table.
    fn index(&self, name: &str) -> &SimOutcome {
        let found = self.all.iter().find(|(case, _)| case == name);
        &found.unwrap_or_else(|| unreachable!("no case is called {name}")).1
    }
}

impl PaperOutcomes {
    /// Returns a figure of each of these cases.
    pub(super) fn each<const N: usize>(
        &self,
        cases: [&str; N],
        figure: fn(&SimOutcome) -> f64,
    ) -> [f64; N] {
        cases.map(|name| figure(&self[name]))
    }
}

/// Returns the bytes written for each byte put.
pub(super) fn writes(o: &SimOutcome) -> f64 {
    o.write_amplification
}

/// Returns the average number of runs.
pub(super) fn runs(o: &SimOutcome) -> f64 {
    o.mean_runs
}

/// Returns the average bytes beyond one copy of the live data, over those of the copy.
pub(super) fn excess(o: &SimOutcome) -> f64 {
    o.mean_space() - 1.0
}

/// Returns the bytes beyond one copy of the live data at the end, over those of the copy.
pub(super) fn excess_at_end(o: &SimOutcome) -> f64 {
    o.space_amplification - 1.0
}

/// Returns the peak bytes over those of one copy of the live data.
pub(super) fn peak(o: &SimOutcome) -> f64 {
    o.max_space_amplification
}

/// Result for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFinding {
    /// Our finding.
    pub ours: String,
    /// Whether it agrees with the paper.
    pub agrees: bool,
    /// Whether this was known: it agrees, or the paper lists it as differing.
    pub known: bool,
}

impl Paper {
    /// Returns the command line of a case.
    pub fn command(&self, case: &str) -> String {
        format!("compaction-sim run --compression none {} {case}", self.options)
    }

    fn setup(&self, case: &str) -> Done<Setup> {
        let line = self.command(case);
        let cli = SimCli::try_parse_from(line.split_whitespace())
            .map_err(|e| Failure::new(format!("{line}: {e}")))?;
        let SimCommand::Run(args) = cli.command else {
            return Err(Failure::new(format!("{line}: that is no run")));
        };
        Ok(args.setup()?.1)
    }

    /// Simulates all cases and evaluates each claim.
    ///
    /// # Errors
    /// Errors of the simulator.
    pub fn reproduce(&self) -> Done<Vec<ClaimFinding>> {
        let cases: Vec<(String, Setup)> = self
            .cases
            .iter()
            .map(|(name, case)| Ok(((*name).to_owned(), self.setup(case)?)))
            .collect::<Done<_>>()?;
        let found = simulate_all(self.name, &cases)?;
        let names = cases.into_iter().map(|(name, _)| name);
        let outcomes = PaperOutcomes { all: names.zip(found).collect() };
        let look = |claim: &PaperClaim| {
            let (ours, agrees) = (claim.ours)(&outcomes);
            ClaimFinding { ours, agrees, known: agrees == claim.differs.is_empty() }
        };
        Ok(self.claims.iter().map(look).collect())
    }
}

/// Returns `a` over `b`, as text.
pub fn times(a: f64, b: f64) -> String {
    format!("{:.2}", a / b.max(1e-9))
}

/// Rounds a number to the printed digits after the point.
pub(super) fn rounded(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    // Rounded to zero, a negative number has no sign.
    (x * scale).round() / scale + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_at_their_printed_digits() {
        assert_eq!([rounded(49.4, 0), rounded(49.6, 0)], [49.0, 50.0]);
        assert_eq!([rounded(0.364, 2), rounded(0.366, 2)], [0.36, 0.37]);
        assert_eq!(format!("{:.0} {:.3}", rounded(-0.3, 0), rounded(-1e-9, 3)), "0 0.000");
    }
}
