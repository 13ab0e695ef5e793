//! Simulates the candidates and chooses one.

use firn_tools::output::{Done, Failure};
use serde::Serialize;

use crate::advise::candidates::{PolicyCandidate, candidates};
use crate::advise::cost::PolicyCost;
use crate::advise::profile::{ExtrapolatedOutcome, StoreProfile};
use crate::advise::reason::{DecidingUse, Ranked, doubled_text, rank};
use crate::cli::batch::{simulate_all, simulate_each};
use crate::model::sim::Setup;

/// A candidate that is better by less does not count as better.
const TOLERANCE: f64 = 0.02;

/// The recommendation: all candidates, the ones that no other beats, and the recommended one.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Costs of the candidates: the front first, then by bytes written.
    pub costs: Vec<PolicyCost>,
    /// Number of candidates in the front.
    pub front: usize,
    /// Index of the recommended candidate in `costs`.
    pub chosen: usize,
    /// Index of the second best candidate, if both fit.
    pub second: Option<usize>,
    /// The comparison of these two that decided; `None` if the table shows no difference.
    pub decided: Option<DecidingUse>,
    /// Reason, as text.
    pub because: String,
    /// First limit that breaks at twice the load.
    pub doubled: String,
    /// The candidates with their simulated outcomes, in the order of `costs`.
    #[serde(skip)]
    pub simulated: Vec<(PolicyCandidate, ExtrapolatedOutcome)>,
}

impl Advice {
    /// Returns the cost of a candidate if the store measured these figures: bytes written for each
    /// byte put, number of runs, and peak bytes.
    pub fn cost_of_measured(
        &self,
        q: &StoreProfile,
        candidate: usize,
        [written, runs, peak]: [f64; 3],
    ) -> PolicyCost {
        let (of, o) = &self.simulated[candidate];
        let o = ExtrapolatedOutcome { written, runs, peak: peak / q.held, ..o.clone() };
        PolicyCost::of(q, of, &o)
    }
}

/// Recommends a policy for a store.
///
/// # Errors
/// Errors of the simulator.
pub fn recommend(q: &StoreProfile) -> Done<Advice> {
    let candidates = candidates(q);
    let scales = q.scales();
    let mut cases: Vec<(String, Setup)> = vec![];
    for c in &candidates {
        for &scale in &scales {
            cases.push((c.policy.to_string(), q.setup(c.named(), c.table, scale)?));
        }
    }
    let found = simulate_all("advise", &cases)?;
    let outcomes = found.chunks(scales.len()).map(|all| q.extrapolate(all));
    let simulated: Vec<(PolicyCandidate, ExtrapolatedOutcome)> =
        candidates.into_iter().zip(outcomes).collect();
    let mut costs: Vec<PolicyCost> =
        simulated.iter().map(|(c, o)| PolicyCost::of(q, c, o)).collect();
    simulate_wear(q, &simulated, scales[0], &mut costs)?;
    let beaten: Vec<bool> = costs.iter().map(|c| is_beaten(c, &costs, q)).collect();
    let front = beaten.iter().filter(|b| !**b).count();
    let mut all: Vec<_> = beaten.into_iter().zip(costs.into_iter().zip(simulated)).collect();
    all.sort_by(|(is_beaten, (a, _)), (other, (b, _))| {
        let written = a.write_amplification.total_cmp(&b.write_amplification);
        is_beaten.cmp(other).then(written)
    });
    let (costs, simulated): (Vec<PolicyCost>, Vec<_>) = all.into_iter().map(|(_, c)| c).unzip();
    let ranked = rank(&costs, q).ok_or_else(|| Failure::new("there is no candidate"))?;
    let Ranked { chosen, second, decided, because } = ranked;
    let (candidate, outcome) = &simulated[chosen];
    let doubled = doubled_text(&PolicyCost::at(q, candidate, outcome, 2.0), q);
    Ok(Advice { costs, front, chosen, second, decided, because, doubled, simulated })
}

/// Simulates the candidates once more with the device, if one is given. A policy whose tables
/// exceed the device at any time does not fit.
fn simulate_wear(
    q: &StoreProfile,
    simulated: &[(PolicyCandidate, ExtrapolatedOutcome)],
    scale: f64,
    costs: &mut [PolicyCost],
) -> Done {
    let Some(ssd) = q.ssd else { return Ok(()) };
    let case = |(c, _): &(PolicyCandidate, ExtrapolatedOutcome)| {
        Ok((c.policy.to_string(), q.setup_on_device(c.named(), c.table, scale)?))
    };
    let cases = simulated.iter().map(case).collect::<Done<Vec<_>>>()?;
    for (cost, found) in costs.iter_mut().zip(simulate_each("device", &cases)?) {
        match found {
            Ok(o) => {
                cost.device_write_amplification = o.wear.map(|w| w.device_write_amplification);
                cost.endurance_seconds =
                    (ssd.endurance > 0.0).then_some(ssd.endurance / cost.written_per_second);
            }
            Err(e) => cost.unfit.push(format!("on the device: {}", e.message())),
        }
    }
    Ok(())
}

/// Reports whether another candidate is no worse in all traded costs, and better in one.
fn is_beaten(c: &PolicyCost, all: &[PolicyCost], q: &StoreProfile) -> bool {
    let mine = c.traded(q);
    all.iter().any(|other| {
        let theirs = other.traded(q);
        let no_worse = mine.iter().zip(&theirs).all(|(m, t)| *t <= *m);
        let better = mine.iter().zip(&theirs).any(|(m, t)| *t < *m * (1.0 - TOLERANCE));
        no_worse && better
    })
}
