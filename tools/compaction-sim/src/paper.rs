//! A paper as data: its set-up as options of `run`, so that each of its cases can be had by hand,
//! and its claims. A claim says where it stands, what the paper's figure is, how ours follows from
//! the outcomes, and whether that agrees. Where it does not, the reason stands with it.

use clap::Parser;
use firn_tools::output::{Done, Failure};

use crate::batch::simulate_all;
use crate::cli::{SimCli, SimCommand};
use crate::meter::SimOutcome;
use crate::policy;
use crate::sim::Setup;

/// A paper, with what of it is simulated.
pub struct Paper {
    /// Its short name, as the command takes it.
    pub name: &'static str,
    /// Title, authors' venue and year, and where it can be read.
    pub title: &'static str,
    /// The set-up in words: what is the paper's, and what is ours.
    pub setup: &'static str,
    /// Options of `run` that all cases have.
    pub options: &'static str,
    /// The cases: a name, and the options of `run` that are its own.
    pub cases: &'static [(&'static str, &'static str)],
    /// What it claims.
    pub claims: &'static [PaperClaim],
}

/// One claim of a paper.
pub struct PaperClaim {
    /// Where in the paper it stands.
    pub section: &'static str,
    /// The claim, in our words.
    pub text: &'static str,
    /// The paper's figure.
    pub figure: &'static str,
    /// What we find, and whether that agrees.
    pub ours: fn(&PaperOutcomes) -> (String, bool),
    /// Why it is known not to agree; empty where it does.
    pub differs: &'static str,
}

/// The outcomes of a paper's cases.
pub struct PaperOutcomes {
    all: Vec<(String, SimOutcome)>,
}

impl std::ops::Index<&str> for PaperOutcomes {
    type Output = SimOutcome;

    /// That of the case of this name, which is one of the paper's own table.
    fn index(&self, name: &str) -> &SimOutcome {
        let found = self.all.iter().find(|(case, _)| case == name);
        &found.unwrap_or_else(|| unreachable!("no case is called {name}")).1
    }
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFinding {
    /// What we find.
    pub ours: String,
    /// Whether that agrees with the paper.
    pub agrees: bool,
    /// Whether it is as known: it agrees, or is said to differ.
    pub known: bool,
}

impl Paper {
    /// The command line of a case.
    pub fn command(&self, case: &str) -> String {
        format!("compaction-sim run {} {case}", self.options)
    }

    fn setup(&self, case: &str) -> Done<Setup> {
        let line = self.command(case);
        let cli = SimCli::try_parse_from(line.split_whitespace())
            .map_err(|e| Failure::new(format!("{line}: {e}")))?;
        let SimCommand::Run(args) = cli.command else {
            return Err(Failure::new(format!("{line}: that is no run")));
        };
        let options = args.model.options();
        let named = policy::parse(&args.policy, &options).map_err(Failure::new)?;
        args.model.setup(&named, &options, false)
    }

    /// Simulates all cases and looks at each claim.
    ///
    /// # Errors
    /// What the simulator says.
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

/// `a` over `b`, as text.
pub fn times(a: f64, b: f64) -> String {
    format!("{:.2}", a / b.max(1e-9))
}
