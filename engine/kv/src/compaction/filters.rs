//! Distributes the filter memory of a tree among its runs, as Monkey does (Dayan, Athanassoulis and
//! Idreos, SIGMOD '17). This minimizes the false positives of a lookup of a missing key.
//!
//! A fingerprint of `b` bits has a false positive rate of 2^−b and costs memory for each key of its
//! run. For the same memory, the sum of the rates is minimal if each run's rate is proportional to
//! its number of keys: `b = c − log2 keys`, within the valid range of fingerprint sizes.
//!
//! Invariant: the assigned bits use the same total memory as the usual bits. Exceptions: all runs
//! have [`MOST_BITS`], or none has any.

use std::collections::HashSet;
use std::sync::Arc;

use super::job::{CompactionJob, CompactionReason};
use super::shape::{RunShape, ShapePlace, TableShape};

/// Maximum bits of a fingerprint.
const MOST_BITS: f64 = 16.0;

/// Number of bisection steps for `c`: more than enough for a double.
const HALVINGS: usize = 64;

/// Filter parameters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilteredRun {
    /// Number of entries, one for each key.
    pub entries: f64,
    /// Fingerprint bits by the tree's options; 0 if the run has no filter.
    pub usual: f64,
}

/// Returns the fingerprint bits for each run, 0 to 16 and rarely whole. In total they use the
/// memory of the usual bits of all runs. A run with usual bits of 0 gets none.
/// ```
/// use firn_kv::internals::compaction::{FilteredRun, share_bits};
/// let run = |entries| FilteredRun { entries, usual: 8.0 };
/// let bits = share_bits(&[run(1e4), run(1e5), run(1e6)]);
/// let errors = |bits: &[f64]| bits.iter().map(|b| 0.5f64.powf(*b)).sum::<f64>();
/// assert!(errors(&bits) < 0.55 * errors(&[8.0; 3]));
/// ```
pub fn share_bits(runs: &[FilteredRun]) -> Vec<f64> {
    let takes_part = |r: &&FilteredRun| r.usual > 0.0 && r.entries > 0.0;
    let bits_of = |r: &FilteredRun, c: f64| (c - r.entries.log2()).clamp(0.0, MOST_BITS);
    let memory: f64 = runs.iter().filter(takes_part).map(|r| r.entries * r.usual).sum();
    let most = runs.iter().filter(takes_part).map(|r| r.entries).fold(1.0, f64::max);
    let (mut low, mut high) = (0.0, most.log2() + MOST_BITS);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let takes = runs.iter().filter(takes_part).map(|r| r.entries * bits_of(r, middle));
        if takes.sum::<f64>() > memory {
            high = middle;
        } else {
            low = middle;
        }
    }
    runs.iter().map(|r| if takes_part(&r) { bits_of(r, high) } else { r.usual }).collect()
}

/// Returns the fingerprint bits for a new run of level 0 with `entries` entries, in addition to
/// `runs`. `usual` returns the bits that the tree's options give a level.
pub fn flushed_bits(runs: &[Arc<RunShape>], entries: u64, usual: &dyn Fn(u8) -> f64) -> f64 {
    let own = FilteredRun { entries: entries as f64, usual: usual(0) };
    let of = |r: &Arc<RunShape>| FilteredRun { entries: entries_of(r), usual: usual(r.level) };
    last_share(runs.iter().map(of).chain([own]).collect())
}

/// Returns the fingerprint bits for the output of a merge, relative to the runs that remain. Counts
/// every input entry for the output, although some will be dropped.
///
/// The output outlives the gap that the merge leaves in newer runs, because ongoing writes refill
/// them. So half of the entries taken from other runs count as if they stayed. This does not apply
/// to manual and read-triggered compactions, because those trees are idle.
pub fn merged_bits(runs: &[Arc<RunShape>], job: &CompactionJob, usual: &dyn Fn(u8) -> f64) -> f64 {
    let comes_again = match job.reason {
        CompactionReason::Manual | CompactionReason::ReadTriggered => 0.0,
        _ => 0.5,
    };
    let to: ShapePlace = job.output();
    let mut own = FilteredRun { entries: 0.0, usual: usual(to.level) };
    let mut all = vec![];
    for r in runs {
        let input = job.inputs.iter().find(|i| i.level == r.level && i.run == r.number);
        let taken: HashSet<u64> = input.iter().flat_map(|i| &i.tables).copied().collect();
        let of = |t: &&TableShape| taken.contains(&t.id);
        let moved = r.tables.iter().filter(of).map(|t| t.entries).sum::<u64>() as f64;
        let stays = entries_of(r) - moved;
        own.entries += moved;
        if r.place() == to {
            own.entries += stays;
        } else {
            let entries = stays + comes_again * moved;
            all.push(FilteredRun { entries, usual: usual(r.level) });
        }
    }
    all.push(own);
    last_share(all)
}

fn entries_of(r: &RunShape) -> f64 {
    r.tables.iter().map(|t| t.entries).sum::<u64>() as f64
}

fn last_share(runs: Vec<FilteredRun>) -> f64 {
    share_bits(&runs).last().copied().unwrap_or_default()
}

/// Returns a whole number of bits for table `id`, so that tables with consecutive ids have `bits`
/// on average. The fractional parts of multiples of the golden ratio are evenly distributed.
///
/// ```
/// use firn_kv::internals::compaction::whole_bits;
/// let sum: u64 = (500..600).map(|id| u64::from(whole_bits(7.3, id))).sum();
/// assert!((728..=732).contains(&sum));
/// ```
pub fn whole_bits(bits: f64, id: u64) -> u8 {
    let turn = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64;
    (bits + turn).floor().clamp(0.0, MOST_BITS) as u8
}

#[cfg(test)]
mod tests {
    use super::super::job::{Action, CompactionInput, OutputSplits};
    use super::*;
    use proptest::prelude::*;

    fn errors(bits: &[f64]) -> f64 {
        bits.iter().map(|b| 0.5f64.powf(*b)).sum()
    }

    fn memory(runs: &[FilteredRun], bits: &[f64]) -> f64 {
        runs.iter().zip(bits).map(|(r, b)| r.entries * b).sum()
    }

    proptest! {
        #[test]
        fn memory_is_spent_and_no_other_share_is_better(
            runs in prop::collection::vec((1u64..1_000_000_000, prop::sample::select(vec![0, 8, 16])), 1..12),
            usual in prop::sample::select(vec![1.0, 4.0, 8.0]),
            (from, to) in (0usize..12, 0usize..12),
        ) {
            let runs: Vec<_> = runs.iter().map(|&(n, u)| FilteredRun {
                entries: n as f64, usual: f64::from(u) * usual / 8.0,
            }).collect();
            let bits = share_bits(&runs);
            let usual: Vec<_> = runs.iter().map(|r| r.usual).collect();
            let spent = memory(&runs, &usual);
            prop_assert!((memory(&runs, &bits) - spent).abs() <= spent * 1e-9 + 1e-6);
            prop_assert!(errors(&bits) <= errors(&usual) + 1e-12);
            prop_assert!(runs.iter().zip(&bits).all(|(r, b)| (r.usual > 0.0) || *b == 0.0));
            // Shifting a little memory from one run to another does not improve the result.
            let (from, to) = (from % runs.len(), to % runs.len());
            let moved = 0.01 * runs[from].entries.min(runs[to].entries);
            let mut other = bits.clone();
            other[from] -= moved / runs[from].entries;
            other[to] += moved / runs[to].entries;
            let possible = usual[from] > 0.0 && usual[to] > 0.0
                && other.iter().all(|b| (0.0..=MOST_BITS).contains(b));
            prop_assert!(!possible || errors(&other) >= errors(&bits) - 1e-12);
        }
    }

    #[test]
    fn a_run_by_itself_has_the_usual_bits() {
        let own = share_bits(&[FilteredRun { entries: 1e7, usual: 8.0 }]);
        assert!((own[0] - 8.0).abs() < 1e-9, "{own:?}");
        assert!((0..1000).all(|id| whole_bits(own[0].round(), id) == 8));
        assert_eq!(share_bits(&[]), Vec::<f64>::new());
    }

    #[test]
    fn a_run_is_what_stays_of_it_and_what_comes() {
        let table = |id, entries| TableShape { id, entries, ..TableShape::default() };
        let run = |level, number, tables: Vec<TableShape>| {
            Arc::new(RunShape { level, number, tables: tables.into() })
        };
        let runs = [
            run(0, 9, vec![table(4, 600), table(5, 400)]),
            run(1, 1, vec![table(1, 1000), table(2, 1000)]),
            run(2, 1, vec![table(3, 20_000)]),
        ];
        let usual = |_: u8| 8.0;
        let shared = |entries: [f64; 3]| {
            share_bits(&entries.map(|entries| FilteredRun { entries, usual: 8.0 }))[2]
        };
        let bits = flushed_bits(&runs[1..], 100, &usual);
        assert!((bits - shared([2000.0, 20_000.0, 100.0])).abs() < 1e-9 && bits > 13.0, "{bits}");

        let input = |level, run, tables| CompactionInput { level, run, tables };
        let mut job = CompactionJob {
            reason: CompactionReason::LevelSize,
            action: Action::Merge,
            inputs: vec![input(0, 9, vec![4]), input(1, 1, vec![2])],
            adopted: vec![],
            output_level: 1,
            output_run: 1,
            cuts: OutputSplits { size: 1, at: vec![] },
            score: 1.0,
        };
        let bits = merged_bits(&runs, &job, &usual);
        assert!((bits - shared([700.0, 20_000.0, 2600.0])).abs() < 1e-9, "{bits}");
        job.reason = CompactionReason::Manual;
        let bits = merged_bits(&runs, &job, &usual);
        assert!((bits - shared([400.0, 20_000.0, 2600.0])).abs() < 1e-9, "{bits}");
    }
}
