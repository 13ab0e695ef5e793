//! Plan of a cycle: options, threads, end and disk failures, drawn from the seed and the cycle's
//! number.

use std::fmt;

use clap::ValueEnum;
use firn_crash::{Fault, OpClass};
use firn_kv::{
    Compression, DbOptions, Durability, FilterAllocation, FilterKind, OpenFiles, Policy, ReadMode,
    TreeOptions,
};
use firn_workload::rng::{Rng, mix};
use serde_json::{Value, json};

use super::layout::{TREES, merge_of};
use super::steps::StepSpace;

/// Injected failures of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Faults {
    /// None
    None,
    /// The disk is temporarily full
    Full,
    /// The disk is temporarily full, or an operation or a sync fails
    All,
}

/// Settings of all cycles of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TortureSettings {
    /// Random seed.
    pub seed: u64,
    /// Number of shards.
    pub shards: u32,
    /// Keys of a shard in each tree.
    pub keys: u32,
    /// Maximum number of threads of a cycle.
    pub threads: u64,
    /// Maximum duration of a cycle, in milliseconds.
    pub millis: u64,
    /// Injected failures.
    pub faults: Faults,
}

/// End of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanEnd {
    /// The threads stop after this many milliseconds, and the store is closed.
    Close { millis: u64 },
    /// SIGKILL this many milliseconds after the start of the threads, or after the start of the
    /// process, so that opens are killed too.
    Kill { millis: u64, opening: bool },
    /// The process dies at the begin of its nth file operation.
    DieAt { operation: u64 },
}

/// A failing disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Kind of failure.
    pub fault: Fault,
    /// Number of the first operation that fails.
    pub from: u64,
    /// Time in which all later operations fail too, in milliseconds; 0 if only one fails.
    pub millis: u64,
}

/// A server over the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPlan {
    /// Whether clients must log in.
    pub login: bool,
    /// Threads for requests.
    pub workers: usize,
    /// Time for a client to read an answer, in milliseconds.
    pub write_millis: u64,
    /// Time for a client to log in, in milliseconds.
    pub login_millis: u64,
    /// Size of the cache of prepared statements, in bytes of text.
    pub prepared_bytes: usize,
    /// If the store is closed: whether the server stops and closes it while all threads work.
    pub stops_at_work: bool,
}

/// Plan of a cycle.
#[derive(Clone, Debug)]
pub struct TorturePlan {
    /// Number of the cycle, from 1.
    pub cycle: u64,
    /// Number of threads.
    pub threads: u64,
    /// Options of the store.
    pub db: DbOptions,
    /// Options of each tree.
    pub trees: Vec<TreeOptions>,
    /// End of the cycle.
    pub end: PlanEnd,
    /// Injected failure.
    pub failing: Option<Failing>,
    /// Operations that count for `DieAt` and `failing`; all if empty.
    pub counted: Vec<OpClass>,
    /// Whether a cycle that closes the store makes a checkpoint at its end, with which the next
    /// cycle continues.
    pub restore: bool,
    /// Server for most CQL statements, if there is one.
    pub served: Option<ServedPlan>,
}

/// Draws a number from a log-uniform distribution.
fn sized(rng: &mut Rng, from: u64, to: u64) -> u64 {
    let (lo, hi) = ((from as f64).ln(), (to as f64).ln());
    ((lo + (hi - lo) * rng.unit()).exp() as u64).clamp(from, to)
}

/// Draws a policy that drops no live data: such a drop could not be distinguished from a loss.
fn policy(rng: &mut Rng) -> Policy {
    let kept =
        |rng: &mut Rng| Some(Policy::draw(&mut |n| rng.below(n))).filter(|p| !p.drops_live_data());
    (0..64).find_map(|_| kept(rng)).unwrap_or_default()
}

fn list<T: Copy>(rng: &mut Rng, all: &[T]) -> Vec<T> {
    (0..1 + rng.below(3)).map(|_| all[rng.below(all.len() as u64) as usize]).collect()
}

/// Draws the options of a tree.
pub fn tree_options(rng: &mut Rng, tree: usize) -> TreeOptions {
    let options = TreeOptions {
        compression: list(rng, &[Compression::None, Compression::Lz4]),
        filter: list(rng, &[FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16]),
        block_size: sized(rng, 512, 65_536) as usize,
        table_size: sized(rng, 64 << 10, 8 << 20),
        memtable_size: sized(rng, 64 << 10, 4 << 20) as usize,
        policy: policy(rng),
        tombstone_age_secs: if rng.below(4) == 0 { 1 + rng.below(20) } else { 0 },
        merge_operator: merge_of(tree),
        ..TreeOptions::default()
    };
    // Drawn from a separate generator, so that the other options of a seed do not change.
    let sizes = options.table_size << 32 ^ (options.memtable_size ^ options.block_size) as u64;
    let mut rng = Rng::new(sizes, 0);
    let options = TreeOptions {
        blob_threshold: [0, 16, 64, 1024][rng.below(4) as usize],
        blob_gc_percent: [1, 30, 90][rng.below(3) as usize],
        filter_allocation: [FilterAllocation::ByLevel, FilterAllocation::Monkey]
            [rng.below(2) as usize],
        ..options
    };
    let zstd = (rng.below(3) == 0 && Compression::Zstd.is_available()).then_some(Compression::Zstd);
    TreeOptions { compression: options.compression.into_iter().chain(zstd).collect(), ..options }
}

fn db_options(rng: &mut Rng) -> DbOptions {
    DbOptions {
        memory_budget: sized(rng, 1 << 20, 128 << 20) as usize,
        background_threads: [0, 1, 2, 2, 3, 4][rng.below(6) as usize],
        durability: if rng.below(12) == 0 { Durability::Power } else { Durability::Process },
        read_mode: [ReadMode::Mmap, ReadMode::Pread][rng.below(2) as usize],
        wal_segment: sized(rng, 64 << 10, 16 << 20),
        event_log: rng.below(2) == 0,
        open_files: (rng.below(2) == 0).then(|| OpenFiles::new(1 + rng.below(32))),
        read_compaction_percent: [0, 100, 1_000_000][rng.below(3) as usize],
        ..DbOptions::default()
    }
}

impl TortureSettings {
    /// Returns the settings as JSON, as stored next to the store.
    pub fn to_json(&self) -> Value {
        let faults =
            self.faults.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        json!({
            "firn_torture": 1, "seed": self.seed, "shards": self.shards, "keys": self.keys, "threads": self.threads,
            "millis": self.millis, "faults": faults,
        })
    }

    /// Parses stored settings; `None` if they are invalid.
    pub fn from_json(v: &Value) -> Option<TortureSettings> {
        let small = |name: &str| u32::try_from(v.get(name)?.as_u64()?).ok();
        Some(TortureSettings {
            seed: v
                .get("seed")
                .filter(|_| v.get("firn_torture").is_some_and(|n| n == 1))?
                .as_u64()?,
            shards: small("shards")?,
            keys: small("keys")?,
            threads: v.get("threads")?.as_u64()?,
            millis: v.get("millis")?.as_u64()?,
            faults: Faults::from_str(v.get("faults")?.as_str()?, false).ok()?,
        })
    }

    /// Returns the plan of a cycle.
    pub fn plan(&self, cycle: u64) -> TorturePlan {
        let mut rng = Rng::new(mix(self.seed) ^ 0x706c_616e, cycle);
        let millis = sized(&mut rng, 20, self.millis.max(21));
        let end = match rng.below(10) {
            0..2 => PlanEnd::Close { millis },
            2..4 => PlanEnd::DieAt { operation: sized(&mut rng, 1, 30_000) },
            n => PlanEnd::Kill { millis, opening: n == 9 },
        };
        let threads = 1 + rng.below(self.threads);
        let db = db_options(&mut rng);
        let trees = (0..TREES).map(|t| tree_options(&mut rng, t)).collect();
        let failing = self.failing(&mut rng, millis);
        // The effects of failures show only if the process survives.
        let end =
            if failing.is_some() && rng.below(3) > 0 { PlanEnd::Close { millis } } else { end };
        let counted = match rng.below(3) {
            0 => vec![OpClass::Dir, OpClass::Sync],
            1 => vec![OpClass::Dir, OpClass::Sync, OpClass::Write],
            _ => vec![],
        };
        let restore = rng.below(3) == 0;
        let served = (rng.below(2) == 0).then(|| ServedPlan {
            login: rng.below(2) == 0,
            workers: 1 + rng.below(8) as usize,
            write_millis: sized(&mut rng, 50, 10_000),
            // On a busy machine an honest client is slow, too.
            login_millis: sized(&mut rng, 5_000, 30_000),
            // Enough for the plan of the largest statement.
            prepared_bytes: sized(&mut rng, 64 << 10, 1 << 20) as usize,
            stops_at_work: rng.below(2) == 0 && failing.is_none(),
        });
        TorturePlan { cycle, threads, db, trees, end, failing, counted, restore, served }
    }

    fn failing(&self, rng: &mut Rng, millis: u64) -> Option<Failing> {
        let kinds: &[Fault] = match self.faults {
            Faults::None => &[],
            Faults::Full => &[Fault::Enospc],
            Faults::All => {
                &[Fault::Enospc, Fault::Enospc, Fault::Eio, Fault::ShortWrite, Fault::SyncFails]
            }
        };
        let (dice, from, lasting) = (rng.below(4), sized(rng, 1, 5000), rng.below(millis.max(1)));
        let fault = *kinds.get(rng.below(kinds.len().max(1) as u64) as usize)?;
        (dice == 0).then_some(Failing {
            fault,
            from,
            millis: if fault == Fault::Enospc { lasting } else { 0 },
        })
    }

    /// Returns the parameters from which the steps of a cycle are drawn.
    pub fn space(&self, plan: &TorturePlan) -> StepSpace {
        StepSpace {
            seed: self.seed,
            cycle: plan.cycle,
            threads: plan.threads,
            shards: self.shards,
            keys: self.keys,
            served: plan.served.is_some(),
        }
    }
}

impl fmt::Display for PlanEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanEnd::Close { millis } => write!(f, "closed after {millis} ms"),
            PlanEnd::Kill { millis, opening } => {
                write!(
                    f,
                    "killed after {millis} ms{}",
                    if *opening { " of opening and working" } else { "" }
                )
            }
            PlanEnd::DieAt { operation } => write!(f, "dies at operation {operation} on files"),
        }
    }
}

impl fmt::Display for TorturePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cycle {}: {} threads, {}", self.cycle, self.threads, self.end)?;
        if let Some(x) = &self.served {
            writeln!(f, "  {x:?}")?;
        }
        if let Some(x) = &self.failing {
            writeln!(f, "  fails: {:?} from operation {} for {} ms", x.fault, x.from, x.millis)?;
        }
        if !self.counted.is_empty() {
            writeln!(f, "  operations that count: {:?}", self.counted)?;
        }
        writeln!(f, "  {:?}", self.db)?;
        for (name, options) in super::layout::NAMES.iter().zip(&self.trees) {
            writeln!(f, "  {name}: {options:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_repeat_and_are_within_bounds() {
        let s = TortureSettings {
            seed: 9,
            shards: 16,
            keys: 100,
            threads: 4,
            millis: 1000,
            faults: Faults::All,
        };
        for cycle in 1..3000 {
            let plan = s.plan(cycle);
            plan.db.check().unwrap();
            plan.trees.iter().for_each(|t| t.check().unwrap());
            assert!((1..=4).contains(&plan.threads));
            assert_eq!(plan.to_string(), s.plan(cycle).to_string());
        }
        assert_eq!(TortureSettings::from_json(&s.to_json()), Some(s.clone()));
        let plain = TortureSettings { faults: Faults::None, ..s };
        assert!((1..1000).all(|c| plain.plan(c).failing.is_none()));
        let served = (1..1000).filter(|c| plain.plan(*c).served.is_some()).count();
        assert!((400..600).contains(&served), "{served}");
    }
}
