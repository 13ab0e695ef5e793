//! Shared parts of the micro-benchmarks: criterion settings, data, and directories.
//!
//! The data are those of `results/`: random keys of 16 bytes, and values of 100 bytes that LZ4
//! compresses to about 55. All data derives from fixed seeds, so two runs do the same work. Tables
//! are in an in-memory environment unless a benchmark measures the device.

// A benchmark needs a clock and a directory of its own.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion};
use firn_kv::Env;
use firn_kv::Result;
use firn_kv::internals::base::facts::TableFacts;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::TableMeta;
use firn_kv::internals::sstable::{TableWriter, WriterOptions};
use firn_testkit::rng::Rng;

pub mod layers;
pub mod pieces;
pub mod valgrind;

/// A key of the benchmarks.
pub type BenchKey = [u8; 16];
/// Length of a value in bytes.
pub const VALUE: usize = 100;
/// Size of a key and its value in bytes.
pub const ENTRY: usize = size_of::<BenchKey>() + VALUE;

/// Returns criterion settings with short runs, so that all benchmarks take a few minutes.
pub fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .nresamples(10_000)
}

/// Returns `n` distinct random keys, in random order.
pub fn keys(n: usize, seed: u64) -> Vec<BenchKey> {
    let mut rng = Rng::new(seed);
    let mut key = || {
        let mut k = [0; size_of::<BenchKey>()];
        rng.fill(&mut k);
        k
    };
    (0..n).map(|_| key()).collect()
}

/// Returns the same keys in sorted order.
pub fn sorted(n: usize, seed: u64) -> Vec<BenchKey> {
    let mut keys = keys(n, seed);
    keys.sort_unstable();
    keys
}

/// Values, as slices of a pool that is created once.
pub struct BenchValues(Vec<u8>);

impl Default for BenchValues {
    fn default() -> Self {
        BenchValues::new()
    }
}

impl BenchValues {
    /// Creates a pool of 1 MiB. In each part, one half is random and the other half repeats it.
    pub fn new() -> BenchValues {
        let mut rng = Rng::new(7);
        let mut pool = vec![0; 1 << 20];
        for piece in pool.chunks_mut(VALUE) {
            let half = piece.len() / 2;
            rng.fill(&mut piece[..half]);
            piece.copy_within(..half, half);
        }
        BenchValues(pool)
    }

    /// Returns the `i`th value.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let start = i % (self.0.len() / VALUE) * VALUE;
        &self.0[start..start + VALUE]
    }
}

/// A directory that is removed on drop.
pub struct BenchDir(PathBuf);

impl Default for BenchDir {
    fn default() -> Self {
        BenchDir::new()
    }
}

impl BenchDir {
    /// Creates a new directory in the system's temporary directory.
    pub fn new() -> BenchDir {
        static N: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("firn-micro-{}-{}", std::process::id(), N.fetch_add(1, Ordering::Relaxed));
        BenchDir(std::env::temp_dir().join(name))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BenchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes puts of `keys`, which must be sorted, into table `id` of `dir`. Each value depends on the
/// key's position, and `trailer` returns the trailers.
///
/// # Errors
/// Errors of the environment.
pub fn write_table(
    env: &dyn Env,
    dir: &Path,
    id: u64,
    options: WriterOptions,
    keys: &[BenchKey],
    trailer: impl Fn(usize) -> Trailer,
) -> Result<TableFacts> {
    let values = BenchValues::new();
    env.create_dir_all(dir)?;
    let path = table_path(dir, id);
    let mut writer = TableWriter::new(env.create(&path)?, &path, id, options);
    for (i, key) in keys.iter().enumerate() {
        let trailer = trailer(i);
        let value = if trailer.kind() == Some(Kind::Delete) { &[] } else { values.get(i) };
        writer.add(key, trailer, value)?;
    }
    writer.finish()
}

/// Returns the metadata of a table as the manifest would record it.
pub fn meta(facts: &TableFacts) -> TableMeta {
    TableMeta { facts: facts.clone(), ..TableMeta::default() }
}

/// Cyclic counter of the numbers below `n`.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    at: usize,
    n: usize,
}

impl Round {
    /// Creates a counter that starts at 0. `n` must be at least 1.
    pub fn new(n: usize) -> Round {
        Round { at: 0, n }
    }

    /// Returns the next number.
    #[inline]
    pub fn step(&mut self) -> usize {
        let i = self.at;
        self.at = if i + 1 == self.n { 0 } else { i + 1 };
        i
    }
}

/// State that steps fill up, such as a memtable or a log. A fresh state replaces it after every `n`
/// steps. Only the steps are timed, so the result is the mean over all fill levels. The state
/// outlives one sample. The first fill is not timed at all.
pub struct BenchFill<T> {
    state: Option<T>,
    at: usize,
    n: usize,
}

impl<T> BenchFill<T> {
    /// Creates a state that `n` steps fill.
    pub fn new(n: usize) -> BenchFill<T> {
        BenchFill { state: None, at: 0, n }
    }

    /// Times `step`, which receives the state and the number of the step since the state was fresh.
    /// `fresh` receives the full state to recycle.
    pub fn run(
        &mut self,
        b: &mut Bencher,
        mut fresh: impl FnMut(Option<T>) -> T,
        mut step: impl FnMut(&mut T, usize),
    ) {
        // This must be here, because criterion plans its samples by the total time of the calls
        // below.
        if self.state.is_none() {
            let mut state = fresh(None);
            (0..self.n).for_each(|i| step(&mut state, i));
            self.state = Some(fresh(Some(state)));
        }
        b.iter_custom(|iterations| {
            let (mut time, mut left) = (Duration::ZERO, iterations);
            while left > 0 {
                if self.at == self.n {
                    self.at = 0;
                    self.state = Some(fresh(self.state.take()));
                }
                let state = self.state.get_or_insert_with(|| fresh(None));
                let until = self.n.min(self.at.saturating_add(left as usize));
                let start = Instant::now();
                for i in self.at..until {
                    step(state, i);
                }
                time += start.elapsed();
                left -= (until - self.at) as u64;
                self.at = until;
            }
            time
        });
    }
}

/// Returns an in-memory environment.
pub fn memory() -> Arc<dyn Env> {
    Arc::new(firn_kv::MemEnv::new(1))
}
