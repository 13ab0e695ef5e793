//! What it costs to embed an engine: many small stores in one process ([`small`]), and many trees
//! in one store ([`trees`]).
//!
//! Costs are of the process, so whoever measures several engines or several numbers gives each a
//! process of its own: memory that an allocator keeps would count for the next one.

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
/// How many puts lie between two looks at the process's memory.
const LOOK: u64 = 4096;
/// A clock tick of the processor's accounting, in nanoseconds.
const TICK: u64 = 10_000_000;

/// An open store with named trees (column families, keyspaces, tables), as an application embeds
/// it.
pub trait Embedded: Sized {
    /// A tree of it.
    type Tree;
    /// The tree with this name, which is made if there is none.
    fn tree(&self, name: &str) -> Result<Self::Tree>;
    /// The trees of these names, made as fast as the engine makes several.
    fn trees(&self, names: &[String]) -> Result<Vec<Self::Tree>> {
        names.iter().map(|n| self.tree(n)).collect()
    }
    /// Puts a pair. When it returns, the pair survives as long as the engine lets it survive by
    /// default.
    fn put(&self, tree: &Self::Tree, key: &[u8], value: &[u8]) -> Result<()>;
    /// Walks through the tree and counts its pairs.
    fn count(&self, tree: &Self::Tree) -> Result<u64>;
    /// Closes the store; dropping it does, in most engines.
    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// What one step of [`small`] has cost, divided by the number of stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmbeddingStep {
    /// What was done.
    pub name: String,
    /// Nanoseconds.
    pub wall_nanos: u64,
    /// Processor time of all threads in nanoseconds, to the 10 ms that the system counts in,
    /// divided.
    pub cpu_nanos: u64,
    /// Resident bytes that the process has more than before the first step.
    pub memory: u64,
    /// Threads that the process has more than before the first step.
    pub threads: f64,
    /// Bytes on disk.
    pub disk: u64,
}

fn key(i: u64) -> [u8; KEY] {
    let mut key = [b'k'; KEY];
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// Makes a store of `records` records in each of `dirs`, all open at once, closes them, opens them
/// again and reads, and at last opens each for one put.
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

/// What a number of trees has cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmbeddingTrees {
    /// How many.
    pub trees: u64,
    /// To make them all, and to close the store.
    pub make_seconds: f64,
    /// To open the store with them again.
    pub open_seconds: f64,
    /// Anonymous resident bytes of the open store, in which nothing was read or written yet.
    pub idle_bytes: u64,
    /// The most anonymous resident bytes of the process while it was written to.
    pub full_bytes: u64,
    /// The address space afterwards.
    pub address_space_bytes: u64,
    /// Puts, scattered over all trees.
    pub puts_per_second: f64,
}

/// Makes `n` trees in `dir`, opens the store again, and puts `puts` pairs scattered over the trees.
/// Gives the open store back.
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
