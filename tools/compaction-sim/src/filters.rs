//! What lookups of keys that are not there cost by the memory of filters, as Monkey (SIGMOD 2017,
//! section 4) has it: the expected number of runs whose filter errs.
//!
//! A filter of `b` bits for each key errs with a chance of e^(−b ln² 2), as a Bloom filter does. The
//! engine's own filters are of 9 and 18 bits and better than that; they can be chosen by level.

/// The chance that a filter with so many bits for each key errs.
pub fn error_of(bits: f64) -> f64 {
    (-bits.max(0.0) * std::f64::consts::LN_2.powi(2)).exp()
}

/// Runs read for a key that is not there, when every run's filter has `bits` for each key.
pub fn uniform_cost(runs: &[f64], bits: f64) -> f64 {
    runs.len() as f64 * error_of(bits)
}

/// The same when the filters' memory, `bits` for each key of all `runs` (their numbers of entries)
/// together, is shared out so that this is least: the chance to err is proportional to a run's
/// entries, and a run for which that would be above 1 has no filter. Gives each run's chance.
///
/// ```
/// use compaction_sim::filters::{allocate, uniform_cost};
/// let runs = [1e4, 1e5, 1e6];
/// let cost: f64 = allocate(&runs, 10.0).iter().sum();
/// assert!(cost < 0.6 * uniform_cost(&runs, 10.0));
/// ```
pub fn allocate(runs: &[f64], bits: f64) -> Vec<f64> {
    let memory = bits.max(0.0) * runs.iter().sum::<f64>() * std::f64::consts::LN_2.powi(2);
    let mut filtered: Vec<usize> = (0..runs.len()).filter(|&r| runs[r] > 0.0).collect();
    let mut errors = vec![1.0; runs.len()];
    // Of runs with a filter: Σ −n ln(λ n) is the memory.
    while !filtered.is_empty() {
        let keys: f64 = filtered.iter().map(|&r| runs[r]).sum();
        let spread: f64 = filtered.iter().map(|&r| runs[r] * runs[r].ln()).sum();
        let scale = (-(memory + spread) / keys).exp();
        let before = filtered.len();
        filtered.retain(|&r| scale * runs[r] < 1.0);
        if filtered.len() == before {
            filtered.iter().for_each(|&r| errors[r] = scale * runs[r]);
            break;
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_spent_and_no_other_share_is_better() {
        let runs = [1e3, 1e4, 3e4, 1e6];
        let memory = |errors: &[f64]| {
            let of = |(n, p): (&f64, &f64)| -n * p.ln() / std::f64::consts::LN_2.powi(2);
            runs.iter().zip(errors).map(of).sum::<f64>()
        };
        let total: f64 = runs.iter().sum();
        for bits in [0.5, 5.0, 10.0] {
            let errors = allocate(&runs, bits);
            assert!((memory(&errors) / (bits * total) - 1.0).abs() < 1e-9, "{bits}");
            let best: f64 = errors.iter().sum();
            assert!(best <= uniform_cost(&runs, bits) + 1e-12);
            // A little memory from one run to another makes it no better.
            for (a, b) in [(0, 3), (3, 0), (1, 2)] {
                let moved = 0.01 * bits * runs[a].min(runs[b]);
                let mut other = errors.clone();
                let ln2 = std::f64::consts::LN_2.powi(2);
                other[a] *= (moved / runs[a] * ln2).exp();
                other[b] *= (-moved / runs[b] * ln2).exp();
                let possible = other.iter().all(|p| *p <= 1.0);
                assert!(!possible || other.iter().sum::<f64>() >= best - 1e-12, "{bits} {a} {b}");
            }
        }
        assert_eq!(allocate(&[], 10.0), Vec::<f64>::new());
        assert_eq!(allocate(&[5.0], 0.0), [1.0]);
    }
}
