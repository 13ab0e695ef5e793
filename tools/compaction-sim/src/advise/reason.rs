//! Why a candidate is recommended, as text. Every figure is one of the table, with its digits.

use firn_tools::output::bytes;
use serde::Serialize;

use crate::advise::cost::{AdvisedResource, PolicyCost, ResourceUse, percent};
use crate::advise::profile::{LEAST_MEMTABLES, StoreProfile};

/// The comparison that decided between the recommended policy and the second best.
#[derive(Clone, Debug, Serialize)]
pub struct DecidingUse {
    /// The resource; `None` if the two policies are short of different ones.
    pub resource: Option<AdvisedResource>,
    /// Its use by the recommended policy.
    pub chosen: ResourceUse,
    /// Its use by the second best.
    pub second: ResourceUse,
}

impl DecidingUse {
    /// Returns the difference with the largest effect on the ranking; `None` if the table shows no
    /// difference.
    pub(super) fn between(
        chosen: &PolicyCost,
        second: &PolicyCost,
        q: &StoreProfile,
    ) -> Option<DecidingUse> {
        let gains = chosen.gains(second, q).into_iter().filter(|g| g.by > 0.0 && g.is_shown());
        let most = gains.max_by(|a, b| a.by.total_cmp(&b.by))?;
        let resource = most.is_of_one().then_some(most.mine.resource);
        Some(DecidingUse { resource, chosen: most.mine, second: most.theirs })
    }

    /// Returns the sentence; `name` is the name of the second best.
    fn sentence(&self, name: &str) -> String {
        let (mine, theirs) = (&self.chosen, &self.second);
        match self.resource {
            Some(resource) => format!(
                "The second best is {name}; {} decided: {} against {}",
                resource.subject(),
                mine.amount,
                theirs.amount
            ),
            None => format!(
                "The second best is {name}; the scarcest resource decided: {} against {}",
                mine.in_table(),
                theirs.in_table()
            ),
        }
    }
}

/// The outcome of the ranking.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    /// Index of the recommended policy.
    pub chosen: usize,
    /// Index of the second best that fits, if the recommended one fits.
    pub second: Option<usize>,
    /// Comparison of both; `None` if the table shows no difference, or if the store is so small
    /// that nothing was compared.
    pub decided: Option<DecidingUse>,
    /// Reason, as text.
    pub because: String,
}

/// Largest difference in the share of the scarcest resource at which a small store has the usual
/// policy.
const LITTLE: f64 = 0.05;

/// Ranks the costs, and returns the reason. `None` if there are none.
pub(super) fn rank(costs: &[PolicyCost], q: &StoreProfile) -> Option<Ranked> {
    let key = |i: usize| (costs[i].unfit.len(), costs[i].strain);
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let best = *order.first()?;
    let usual = q.usual_policy().to_string();
    let is_usual = |&i: &usize| {
        costs[i].policy == usual
            && costs[i].unfit.is_empty()
            && costs[i].scarcest.share <= costs[best].scarcest.share + LITTLE
    };
    let usual = order.iter().copied().find(is_usual).filter(|_| q.is_small());
    let chosen = usual.unwrap_or(best);
    if !costs[chosen].unfit.is_empty() {
        let lacks = costs[chosen].unfit.join("; ");
        let because = format!("no policy fits; this one exceeds the fewest limits: {lacks}");
        return Some(Ranked { chosen, second: None, decided: None, because });
    }
    let fits = |&&i: &&usize| i != chosen && costs[i].unfit.is_empty();
    let second = order.iter().find(fits).copied();
    let decided = second
        .filter(|_| usual.is_none())
        .and_then(|second| DecidingUse::between(&costs[chosen], &costs[second], q));
    let names = names(costs);
    let why = match (usual, second) {
        (Some(_), _) if q.present.is_some() => "The present policy is enough".to_owned(),
        (Some(_), _) => "The default policy is enough".to_owned(),
        (None, None) => {
            let used = &costs[chosen].scarcest;
            format!("Only this one fits. Its scarcest resource: {}", used.in_table())
        }
        (None, Some(second)) => {
            let name = &names[second];
            decided.as_ref().map_or_else(
                || format!("The second best is {name}, and no printed cost decides between them"),
                |decided| decided.sentence(name) + lighter(costs, chosen, &names).as_str(),
            )
        }
    };
    let fit = costs.iter().filter(|c| c.unfit.is_empty()).count();
    let place = |of: fn(&PolicyCost) -> f64, shown: fn(f64) -> String| {
        place_of(costs, chosen, &names, of, shown)
    };
    let because = format!(
        "{fit} of {} policies fit. {}{why}. It writes {:.1} bytes for each byte put{}, takes {} at \
         most{}, has {:.1} runs{}",
        costs.len(),
        if q.is_small() { small_sentence(costs, q) } else { String::new() },
        costs[chosen].write_amplification,
        place(|c| c.write_amplification, |x| format!("{x:.1}")),
        bytes(costs[chosen].peak_bytes as u64),
        place(|c| c.peak_bytes, |x| bytes(x as u64)),
        costs[chosen].runs,
        place(|c| c.runs, |x| format!("{x:.1}")),
    );
    Some(Ranked { chosen, second, decided, because })
}

/// Returns the place of a figure of the chosen policy among those that fit, in parentheses.
fn place_of(
    costs: &[PolicyCost],
    chosen: usize,
    names: &[String],
    of: fn(&PolicyCost) -> f64,
    shown: fn(f64) -> String,
) -> String {
    let mine = of(&costs[chosen]);
    let others = (0..costs.len()).filter(|&i| i != chosen && costs[i].unfit.is_empty());
    let least = others.min_by(|&a, &b| of(&costs[a]).total_cmp(&of(&costs[b])));
    let Some(least) = least else { return String::new() };
    let (name, other) = (&names[least], of(&costs[least]));
    match () {
        () if shown(other) == shown(mine) => format!(" (as {name} does)"),
        () if other < mine => format!(" ({name}: {})", shown(other)),
        () => " (the least)".to_owned(),
    }
}

/// Returns the addition for a policy that uses its scarcest resource less than the chosen one: it
/// uses more of the others.
fn lighter(costs: &[PolicyCost], chosen: usize, names: &[String]) -> String {
    let mine = &costs[chosen].scarcest;
    let fit = (0..costs.len()).filter(|&i| costs[i].unfit.is_empty());
    let least = fit.min_by(|&a, &b| costs[a].scarcest.share.total_cmp(&costs[b].scarcest.share));
    match least {
        Some(i)
            if costs[i].scarcest.share < mine.share
                && percent(costs[i].scarcest.share) != percent(mine.share) =>
        {
            format!(
                ". The scarcest resource of {} is used less ({}, here {}), and all resources \
                 together more",
                names[i],
                costs[i].scarcest.in_table(),
                mine.in_table()
            )
        }
        _ => String::new(),
    }
}

/// Returns the sentence about a store of few memtables.
fn small_sentence(costs: &[PolicyCost], q: &StoreProfile) -> String {
    let fit = || costs.iter().filter(|c| c.unfit.is_empty());
    let span = |of: fn(&PolicyCost) -> f64| {
        let [least, most] = [f64::min as fn(f64, f64) -> f64, f64::max]
            .map(|pick| fit().map(of).reduce(pick).unwrap_or(0.0));
        let [least, most] = [least, most].map(|x| format!("{x:.1}"));
        if least == most { least } else { format!("{least} to {most}") }
    };
    format!(
        "The live data is less than {LEAST_MEMTABLES:.0} memtables of {}, so little is compacted: \
         the policies that fit write {} bytes for each byte put and have {} runs. ",
        bytes(q.memtable as u64),
        span(|c| c.write_amplification),
        span(|c| c.runs),
    )
}

/// Returns the names of the policies, as in the table: with the first parameter, or in full if two
/// would be equal.
pub(super) fn names(costs: &[PolicyCost]) -> Vec<String> {
    let short = |c: &PolicyCost| c.policy.split(':').take(2).collect::<Vec<_>>().join(":");
    let is_unique = |name: &str| costs.iter().filter(|c| short(c) == name).count() == 1;
    let name = |c| Some(short(c)).filter(|name| is_unique(name));
    costs.iter().map(|c| name(c).unwrap_or_else(|| c.policy.clone())).collect()
}

/// Returns the first limit that breaks at twice the load, with this cost.
pub(super) fn doubled_text(cost: &PolicyCost, q: &StoreProfile) -> String {
    match cost.first_limit(q, 2.0) {
        Some((used, limit)) if used > 1.0 => format!("breaks: {limit}"),
        Some((used, limit)) => {
            format!("holds; the scarcest resource is {} used: {limit}", percent(used))
        }
        None => "holds".to_owned(),
    }
}
