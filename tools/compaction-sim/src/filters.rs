//! What lookups of keys that are not there cost by the memory of filters, as Monkey (SIGMOD 2017,
//! section 4) has it: the expected number of runs whose filter errs.
//!
//! A filter of `b` bits for each key errs with a chance of e^(−b ln² 2), as a Bloom filter does. The
//! engine's own filters are better than that: with `b` bits of a fingerprint, which take 9/8 `b` bits
//! of memory and more in small tables, they err with a chance of 2^−b ([`TableFilters`]).

use std::collections::HashMap;
use std::sync::Arc;

use firn_kv::internals::base::key::head;
use firn_kv::internals::compaction::{
    CompactionJob, RunShape, TableShape, flushed_bits, merged_bits, whole_bits,
};
use firn_kv::{FilterAllocation, TreeOptions};

use crate::latency::ReadRun;

/// Fingerprints for each key in the filter of a large table.
pub const OVERHEAD: f64 = 9.0 / 8.0;

/// The engine's filters of a simulated tree's tables: what options give their level, or what they
/// got when they were written.
pub struct TableFilters {
    options: Arc<TreeOptions>,
    /// Bits of a fingerprint where runs share memory, by table.
    shared: HashMap<u64, u8>,
}

impl TableFilters {
    /// Of no tables yet.
    pub fn new(options: Arc<TreeOptions>) -> TableFilters {
        TableFilters { options, shared: HashMap::new() }
    }

    fn usual(&self, level: u8) -> u8 {
        self.options.filter_at(level.into()).bits()
    }

    fn is_shared(&self) -> bool {
        self.options.filter_allocation == FilterAllocation::Monkey
    }

    /// Bits of a fingerprint, on average, in what a flush of so many entries makes beside these runs.
    pub fn flushed(&self, runs: &[Arc<RunShape>], entries: u64) -> f64 {
        match self.is_shared() {
            true => flushed_bits(runs, entries, &|level| self.usual(level).into()),
            false => self.usual(0).into(),
        }
    }

    /// The same in what a job makes.
    pub fn merged(&self, runs: &[Arc<RunShape>], job: &CompactionJob) -> f64 {
        match self.is_shared() {
            true => merged_bits(runs, job, &|level| self.usual(level).into()),
            false => self.usual(job.output_level).into(),
        }
    }

    /// These tables have been made with so many.
    pub fn note(&mut self, made: &[TableShape], bits: f64) {
        if self.is_shared() {
            self.shared.extend(made.iter().map(|t| (t.id, whole_bits(bits, t.id))));
        }
    }

    /// These tables are no more.
    pub fn forget(&mut self, tables: impl Iterator<Item = u64>) {
        tables.for_each(|id| _ = self.shared.remove(&id));
    }

    /// Bits of a fingerprint in the filter of a table of a level.
    fn bits(&self, level: u8, table: u64) -> u8 {
        self.shared.get(&table).copied().unwrap_or_else(|| self.usual(level))
    }

    /// Bytes of the fingerprints of a run.
    pub fn bytes(&self, run: &RunShape) -> u64 {
        let of = |t: &TableShape| {
            (fingerprints(t.entries) * u64::from(self.bits(run.level, t.id))).div_ceil(8)
        };
        run.tables.iter().map(of).sum()
    }

    /// What a read sees of a run.
    pub fn read_run(&self, run: &RunShape) -> ReadRun {
        let none = ReadRun { entries: 0.0, covers: 0.0, errs: 0.0 };
        run.tables.iter().fold(none, |sum, t| {
            let covers = (head(&t.last) - head(&t.first)) as f64 / 2f64.powi(64);
            let error = 0.5f64.powi(self.bits(run.level, t.id).into());
            ReadRun {
                entries: sum.entries + t.entries as f64,
                covers: sum.covers + covers,
                errs: sum.errs + covers * error,
            }
        })
    }
}

/// How many fingerprints a binary fuse filter of so many keys has (Graf and Lemire, "Binary Fuse
/// Filters: Fast and Smaller Than Xor Filters", 2022): more for each key the fewer there are, in
/// segments whose length is a power of two.
fn fingerprints(keys: u64) -> u64 {
    if keys == 0 {
        return 0;
    }
    let ln = (keys as f64).ln();
    let segment = 1 << ((ln / 3.33f64.ln() + 2.25) as u32).min(18);
    let each = if keys > 1 { OVERHEAD.max(0.875 + 0.25 * 1e6f64.ln() / ln) } else { 0.0 };
    // The first and the last two are begun in fewer places.
    let segments = ((keys as f64 * each).round() as u64).div_ceil(segment).max(3);
    segments * segment
}

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
