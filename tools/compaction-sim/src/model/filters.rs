//! Cost of looking up missing keys by filter memory, as in Monkey (SIGMOD 2017, section 4): the
//! expected number of runs whose filter gives a false positive.
//!
//! A filter with `b` bits per key has a false positive rate of e^(−b ln² 2), as a Bloom filter. The
//! engine's own filters are better: with `b` bits per fingerprint their rate is 2^−b. They take 9/8
//! `b` bits of memory, and more in small tables ([`TableFilters`]).

use std::collections::HashMap;
use std::sync::Arc;

use firn_kv::internals::base::key::head;
use firn_kv::internals::compaction::{
    CompactionJob, RunShape, TableShape, flushed_bits, merged_bits, whole_bits,
};
use firn_kv::{FilterAllocation, TreeOptions};

use crate::model::latency::ReadRun;

/// Fingerprints per key in the filter of a large table.
pub const OVERHEAD: f64 = 9.0 / 8.0;

/// The engine's filters of a simulated tree's tables: sized by the options of their level, or as
/// they were written.
pub struct TableFilters {
    options: Arc<TreeOptions>,
    /// Number of different first 8 bytes of keys.
    span: f64,
    /// Bits of a fingerprint, by table, if runs share memory.
    shared: HashMap<u64, u8>,
}

impl TableFilters {
    /// Creates it without tables.
    pub fn new(options: Arc<TreeOptions>, span: f64) -> TableFilters {
        TableFilters { options, span, shared: HashMap::new() }
    }

    /// Returns the position of a key in the key space, 0 to 1.
    pub fn position(&self, key: &[u8]) -> f64 {
        head(key) as f64 / self.span
    }

    fn usual(&self, level: u8) -> u8 {
        self.options.filter_at(level.into()).bits()
    }

    fn is_shared(&self) -> bool {
        self.options.filter_allocation == FilterAllocation::Monkey
    }

    /// Returns the average bits of a fingerprint in a flush of this many entries, given these runs.
    pub fn flushed(&self, runs: &[Arc<RunShape>], entries: u64) -> f64 {
        match self.is_shared() {
            true => flushed_bits(runs, entries, &|level| self.usual(level).into()),
            false => self.usual(0).into(),
        }
    }

    /// Returns the same for the output of a job.
    pub fn merged(&self, runs: &[Arc<RunShape>], job: &CompactionJob) -> f64 {
        match self.is_shared() {
            true => merged_bits(runs, job, &|level| self.usual(level).into()),
            false => self.usual(job.output_level).into(),
        }
    }

    /// Records the number of bits of new tables.
    pub fn note(&mut self, made: &[TableShape], bits: f64) {
        if self.is_shared() {
            self.shared.extend(made.iter().map(|t| (t.id, whole_bits(bits, t.id))));
        }
    }

    /// Removes these tables.
    pub fn forget(&mut self, tables: impl Iterator<Item = u64>) {
        tables.for_each(|id| _ = self.shared.remove(&id));
    }

    /// Returns the bits of a fingerprint in the filter of a table on a level.
    fn bits(&self, level: u8, table: u64) -> u8 {
        self.shared.get(&table).copied().unwrap_or_else(|| self.usual(level))
    }

    /// Returns the bytes of the fingerprints of a run.
    pub fn bytes(&self, run: &RunShape) -> u64 {
        let of = |t: &TableShape| {
            (fingerprints(t.entries) * u64::from(self.bits(run.level, t.id))).div_ceil(8)
        };
        run.tables.iter().map(of).sum()
    }

    /// Returns the properties of a run that matter for reads.
    pub fn read_run(&self, run: &RunShape) -> ReadRun {
        let none = ReadRun { entries: 0.0, covers: 0.0, errs: 0.0 };
        run.tables.iter().fold(none, |sum, t| {
            let covers = self.position(&t.last) - self.position(&t.first);
            let error = 0.5f64.powi(self.bits(run.level, t.id).into());
            ReadRun {
                entries: sum.entries + t.entries as f64,
                covers: sum.covers + covers,
                errs: sum.errs + covers * error,
            }
        })
    }
}

/// Returns the number of fingerprints of a binary fuse filter with this many keys (Graf and Lemire,
/// "Binary Fuse Filters: Fast and Smaller Than Xor Filters", 2022). Fewer keys need more per key,
/// in segments whose length is a power of two.
pub(crate) fn fingerprints(keys: u64) -> u64 {
    if keys == 0 {
        return 0;
    }
    let ln = (keys as f64).ln();
    let segment = 1 << ((ln / 3.33f64.ln() + 2.25) as u32).min(18);
    let each = if keys > 1 { OVERHEAD.max(0.875 + 0.25 * 1e6f64.ln() / ln) } else { 0.0 };
    // The first and the last two have fewer start positions.
    let segments = ((keys as f64 * each).round() as u64).div_ceil(segment).max(3);
    segments * segment
}

/// Returns the false positive rate of a filter with this many bits per key.
pub fn error_of(bits: f64) -> f64 {
    (-bits.max(0.0) * std::f64::consts::LN_2.powi(2)).exp()
}

/// Returns the runs read for a missing key, if every run's filter has `bits` per key.
pub fn uniform_cost(runs: &[f64], bits: f64) -> f64 {
    runs.len() as f64 * error_of(bits)
}

/// Allocates filter memory so that the cost of a missing key is minimal. The memory is `bits` per
/// key of all `runs` (their numbers of entries) together. The false positive rate is then
/// proportional to a run's entries, and a run with a rate above 1 has no filter. Returns each run's
/// rate.
///
/// ```
/// use compaction_sim::model::filters::{allocate, uniform_cost};
/// let runs = [1e4, 1e5, 1e6];
/// let cost: f64 = allocate(&runs, 10.0).iter().sum();
/// assert!(cost < 0.6 * uniform_cost(&runs, 10.0));
/// ```
pub fn allocate(runs: &[f64], bits: f64) -> Vec<f64> {
    let memory = bits.max(0.0) * runs.iter().sum::<f64>() * std::f64::consts::LN_2.powi(2);
    let mut filtered: Vec<usize> = (0..runs.len()).filter(|&r| runs[r] > 0.0).collect();
    let mut errors = vec![1.0; runs.len()];
    // For runs with a filter, Σ −n ln(λ n) is the memory.
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
            // Moving a little memory from one run to another makes it no better.
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
