//! Simulates the candidates and chooses one.

use firn_tools::output::{Done, Failure};
use serde::Serialize;

use crate::advise::candidates::{PolicyCandidate, candidates};
use crate::advise::cost::PolicyCost;
use crate::advise::profile::{ExtrapolatedOutcome, StoreProfile};
use crate::advise::reason::{because, doubled_text};
use crate::cli::batch::{simulate_all, simulate_each};
use crate::model::sim::Setup;
use crate::policy::NamedPolicy;

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
    /// Reason, as text.
    pub because: String,
    /// First limit that breaks at twice the load.
    pub doubled: String,
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
            cases.push((c.policy.to_string(), q.setup(named(c), c.table, scale)?));
        }
    }
    let found = simulate_all("advise", &cases)?;
    let extrapolated: Vec<ExtrapolatedOutcome> =
        found.chunks(scales.len()).map(|all| q.extrapolate(all)).collect();
    let mut costs: Vec<(usize, PolicyCost)> = candidates
        .iter()
        .zip(&extrapolated)
        .map(|(c, o)| PolicyCost::of(q, c, o))
        .enumerate()
        .collect();
    simulate_wear(q, &candidates, scales[0], &mut costs)?;
    let beaten: Vec<bool> = costs.iter().map(|(_, c)| is_beaten(c, &costs, q)).collect();
    costs.sort_by(|(i, a), (j, b)| {
        let key = |i: usize, c: &PolicyCost| (beaten[i], c.write_amplification);
        let (a, b) = (key(*i, a), key(*j, b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let front = beaten.iter().filter(|b| !**b).count();
    let best = (0..costs.len()).min_by(|&a, &b| {
        let key = |i: usize| (costs[i].1.unfit.len(), costs[i].1.strain(q));
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let chosen = best.ok_or_else(|| Failure::new("there is no candidate"))?;
    let of = costs[chosen].0;
    let doubled = PolicyCost::at(q, &candidates[of], &extrapolated[of], 2.0);
    let doubled = doubled_text(&doubled, q);
    let costs: Vec<PolicyCost> = costs.into_iter().map(|(_, c)| c).collect();
    let because = because(&costs, chosen, q);
    Ok(Advice { costs, front, chosen, because, doubled })
}

fn named(c: &PolicyCandidate) -> NamedPolicy {
    NamedPolicy { name: c.policy.to_string(), policy: c.policy.clone(), custom: None, ages: false }
}

/// Simulates the candidates once more with the device, if one is given. A policy whose tables
/// exceed the device at any time does not fit.
fn simulate_wear(
    q: &StoreProfile,
    candidates: &[PolicyCandidate],
    scale: f64,
    costs: &mut [(usize, PolicyCost)],
) -> Done {
    let Some(ssd) = q.ssd else { return Ok(()) };
    let case = |c: &PolicyCandidate| {
        Ok((c.policy.to_string(), q.setup_on_device(named(c), c.table, scale)?))
    };
    let cases = candidates.iter().map(case).collect::<Done<Vec<_>>>()?;
    for ((_, cost), found) in costs.iter_mut().zip(simulate_each("device", &cases)?) {
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
fn is_beaten(c: &PolicyCost, all: &[(usize, PolicyCost)], q: &StoreProfile) -> bool {
    let mine = c.traded(q);
    all.iter().any(|(_, other)| {
        let theirs = other.traded(q);
        let no_worse = mine.iter().zip(&theirs).all(|(m, t)| *t <= *m);
        let better = mine.iter().zip(&theirs).any(|(m, t)| *t < *m * (1.0 - TOLERANCE));
        no_worse && better
    })
}
