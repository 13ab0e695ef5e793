//! Costs of embedding an engine: many small stores in one process ([`small`]), and many trees in
//! one store ([`trees`]).
//!
//! Costs are per process, so each engine and each number needs its own process: memory retained by
//! an allocator would distort the next one.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::process::{Usage, disk_bytes};
use crate::rng::mix;

/// Bytes of a key.
pub const KEY: usize = 16;
/// Bytes of a value.
pub const VALUE: usize = 100;
/// Number of puts between two readings of the process's memory.
const LOOK: u64 = 4096;
/// A clock tick of the processor's accounting, in nanoseconds.
const TICK: u64 = 10_000_000;

/// An open store with named trees (column families, keyspaces, tables), as embedded by an
/// application.
pub trait Embedded: Sized {
    /// A tree.
    type Tree;
    /// Opens the tree with this name; creates it if missing.
    fn tree(&self, name: &str) -> Result<Self::Tree>;
    /// Opens the trees of these names, as fast as the engine creates several.
    fn trees(&self, names: &[String]) -> Result<Vec<Self::Tree>> {
        names.iter().map(|n| self.tree(n)).collect()
    }
    /// Puts a pair, with the engine's default durability.
    fn put(&self, tree: &Self::Tree, key: &[u8], value: &[u8]) -> Result<()>;
    /// Iterates over the tree and counts its pairs.
    fn count(&self, tree: &Self::Tree) -> Result<u64>;
    /// Closes the store; in most engines dropping it is enough.
    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// Cost of one step of [`small`], divided by the number of stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmbeddingStep {
    /// Name of the step.
    pub name: String,
    /// Nanoseconds.
    pub wall_nanos: u64,
    /// Processor time of all threads in nanoseconds, with a precision of 10 ms, divided.
    pub cpu_nanos: u64,
    /// Increase of resident bytes of the process since before the first step.
    pub memory: u64,
    /// Increase of threads of the process since before the first step.
    pub threads: f64,
    /// Bytes on disk.
    pub disk: u64,
}

fn key(i: u64) -> [u8; KEY] {
    let mut key = [b'k'; KEY];
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// Creates a store of `records` records in each of `dirs`, all open at once, closes them, reopens
/// and reads them, and finally opens each for one put.
pub fn small<S: Embedded>(
    dirs: &[PathBuf],
    records: u64,
    open: impl Fn(&Path) -> Result<S>,
) -> Result<Vec<EmbeddingStep>> {
    let before = Usage::now().unwrap_or_default();
    let mut steps = vec![];
    let n = dirs.len().max(1) as u64;
    let mut step = |name: &str,
                    stores: &mut Vec<S>,
                    work: &mut dyn FnMut(&mut Vec<S>) -> Result<()>|
     -> Result<()> {
        let (from, start) = (Usage::now().unwrap_or_default(), Instant::now());
        work(stores)?;
        let (wall, now) = (start.elapsed().as_nanos() as u64, Usage::now().unwrap_or_default());
        let more = |now: u64, before: u64| now.saturating_sub(before);
        steps.push(EmbeddingStep {
            name: name.to_owned(),
            wall_nanos: wall / n,
            cpu_nanos: more(now.cpu_ticks, from.cpu_ticks) * TICK / n,
            memory: (more(now.rss_anon, before.rss_anon) + more(now.rss_file, before.rss_file)) / n,
            threads: more(now.threads, before.threads) as f64 / n as f64,
            disk: dirs.iter().map(|d| disk_bytes(d).unwrap_or(0)).sum::<u64>() / n,
        });
        Ok(())
    };
    let put = |store: &S, keys: std::ops::Range<u64>| {
        let tree = store.tree("t")?;
        keys.into_iter().try_for_each(|i| store.put(&tree, &key(i), &[b'v'; VALUE]))
    };
    let mut stores = vec![];
    let mut open_all =
        |stores: &mut Vec<S>| dirs.iter().try_for_each(|d| open(d).map(|s| stores.push(s)));
    let mut close_all = |stores: &mut Vec<S>| stores.drain(..).try_for_each(S::close);
    step("make", &mut stores, &mut open_all)?;
    step("fill", &mut stores, &mut |stores| stores.iter().try_for_each(|s| put(s, 0..records)))?;
    step("close", &mut stores, &mut close_all)?;
    step("open", &mut stores, &mut open_all)?;
    step("read all", &mut stores, &mut |stores| {
        stores.iter().try_for_each(|s| match s.count(&s.tree("t")?)? {
            found if found == records => Ok(()),
            found => Err(format!("a store of {records} records shows {found}").into()),
        })
    })?;
    step("close, read only", &mut stores, &mut close_all)?;
    step("open, put one, close", &mut stores, &mut |_| {
        dirs.iter().try_for_each(|d| {
            let store = open(d)?;
            put(&store, records..records + 1)?;
            store.close()
        })
    })?;
    Ok(steps)
}

/// Cost of a number of trees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmbeddingTrees {
    /// Number of trees.
    pub trees: u64,
    /// Seconds to create them all and close the store.
    pub make_seconds: f64,
    /// Seconds to open the store with them.
    pub open_seconds: f64,
    /// Anonymous resident bytes of the open store before any read or write.
    pub idle_bytes: u64,
    /// Peak anonymous resident bytes of the process during the writes.
    pub full_bytes: u64,
    /// The address space afterwards.
    pub address_space_bytes: u64,
    /// Puts per second, scattered over all trees.
    pub puts_per_second: f64,
}

/// Creates `n` trees in `dir`, reopens the store, and puts `puts` pairs scattered over the trees.
/// Returns the open store.
pub fn trees<S: Embedded>(
    dir: &Path,
    n: u64,
    puts: u64,
    seed: u64,
    open: impl Fn(&Path) -> Result<S>,
) -> Result<(EmbeddingTrees, S)> {
    let memory = || Usage::now().map_or((0, 0), |u| (u.rss_anon, u.size));
    let names: Vec<String> = (0..n).map(|i| format!("t{i}")).collect();
    let start = Instant::now();
    let store = open(dir)?;
    store.trees(&names)?;
    store.close()?;
    let make_seconds = start.elapsed().as_secs_f64();

    let before = memory();
    let start = Instant::now();
    let store = open(dir)?;
    let open_seconds = start.elapsed().as_secs_f64();
    let trees = store.trees(&names)?;
    let idle = memory();

    let (mut most, value) = (idle.0, [b'v'; VALUE]);
    let start = Instant::now();
    for i in 0..puts {
        let at = mix(i ^ seed);
        store.put(
            &trees[(at % n) as usize],
            &[at.to_be_bytes(), i.to_be_bytes()].concat(),
            &value,
        )?;
        if i % LOOK == 0 {
            most = most.max(memory().0);
        }
    }
    let filled = start.elapsed().as_secs_f64();
    let full = memory();
    let costs = EmbeddingTrees {
        trees: n,
        make_seconds,
        open_seconds,
        idle_bytes: idle.0.saturating_sub(before.0),
        full_bytes: full.0.max(most),
        address_space_bytes: full.1,
        puts_per_second: puts as f64 / filled.max(1e-9),
    };
    Ok((costs, store))
}
