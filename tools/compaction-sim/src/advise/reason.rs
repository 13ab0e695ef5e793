//! Why a candidate is recommended, as text.

use firn_tools::output::bytes;

use crate::advise::cost::{PolicyCost, percent};
use crate::advise::profile::StoreProfile;

/// Returns the reason why a candidate is the recommended one.
pub(super) fn because(costs: &[PolicyCost], chosen: usize, q: &StoreProfile) -> String {
    let c = &costs[chosen];
    if !c.unfit.is_empty() {
        return format!("no policy fits; this one lacks the least: {}", c.unfit.join("; "));
    }
    let fit: Vec<&PolicyCost> = costs.iter().filter(|c| c.unfit.is_empty()).collect();
    // Put it next to the least of all, because the table has both.
    let beside = |of: fn(&PolicyCost) -> f64, shown: fn(f64) -> String| {
        let least = costs.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
        let mine = shown(of(c));
        match least.map(|l| (l, shown(of(l)))) {
            Some((l, other)) if other != mine => format!("{mine} ({}: {other})", short(&l.policy)),
            _ => format!("{mine} (the least of all)"),
        }
    };
    format!(
        "{} of {} policies fit{}; it writes {} bytes for each byte put, takes {} at most, has {} runs",
        fit.len(),
        costs.len(),
        decided(c, &fit, q),
        beside(|c| c.write_amplification, |x| format!("{x:.1}")),
        beside(|c| c.peak_bytes, |x| bytes(x as u64)),
        beside(|c| c.runs, |x| format!("{x:.1}")),
    )
}

/// Returns the reason why `c` was chosen among the fitting candidates.
fn decided(c: &PolicyCost, fit: &[&PolicyCost], q: &StoreProfile) -> String {
    let (words, mine) = c.scarcest(q);
    let others = fit.iter().filter(|o| o.policy != c.policy);
    let Some(next) = others.clone().min_by(|a, b| a.strain(q).total_cmp(&b.strain(q))) else {
        return format!(", and only this one: {words}");
    };
    let Some(least) = others.min_by(|a, b| a.scarcest(q).1.total_cmp(&b.scarcest(q).1)) else {
        return String::new();
    };
    let (other_words, other) = least.scarcest(q);
    if percent(mine) != percent(other) && mine < other {
        return format!(
            ". Among the policies that fit, it uses its scarcest resource the least: {words}"
        );
    }
    // Others use theirs as little, or less: name the difference to the nearest of them.
    let rival = if percent(mine) == percent(other) { next } else { least };
    let gains = c.shares(q).into_iter().zip(rival.shares(q));
    let gain = gains.max_by(|(a, b), (c, d)| (b.1 - a.1).total_cmp(&(d.1 - c.1)));
    let gain =
        gain.filter(|(mine, theirs)| theirs.1 > mine.1).map_or_else(String::new, |(m, t)| {
            format!("; compared with {} it {}, which {}", short(&rival.policy), m.0, t.0)
        });
    if percent(mine) == percent(other) {
        format!(". None that fits uses its scarcest resource less: {words}{gain}")
    } else {
        let least = short(&least.policy);
        format!(". Its scarcest resource: {words}; that of {least}: {other_words}{gain}")
    }
}

/// Returns a policy's name with its first parameter, as in the table.
pub(super) fn short(policy: &str) -> String {
    policy.split(':').take(2).collect::<Vec<_>>().join(":")
}

/// Returns the first limit that breaks at twice the load, which this cost has.
pub(super) fn doubled_text(cost: &PolicyCost, q: &StoreProfile) -> String {
    let mut limits = cost.limits(q, 2.0);
    limits.sort_by(|a, b| b.1.total_cmp(&a.1));
    match limits.first() {
        Some((what, used)) if *used > 1.0 => format!("breaks: {what}"),
        Some((what, used)) => {
            format!("holds; the scarcest resource is {:.0} % used: {what}", 100.0 * used)
        }
        None => "holds".to_owned(),
    }
}
