//! A workload on a command line: a description file or a standard workload, and options that
//! replace its values. `firn bench` and `compaction-sim` have the same ones.

use std::path::Path;

use clap::Args;
use firn_kv::{DbOptions, Durability, TreeOptions};
use firn_workload::description::STANDARD;
use firn_workload::phase::parse_count;
use firn_workload::{Distribution, StoreSettings, ValueSize, WorkloadDescription};

use crate::io;
use crate::options::{self, Allocation, Durable, allocation_name, size, size_per_second};
use crate::output::{Done, Failure};

/// Heading of the options in help texts.
pub const HEADING: &str = "Workload and store";

/// A workload, and values that replace its own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = HEADING)]
pub struct WorkloadArgs {
    /// Description of the workload: a TOML file, or the name of a standard one with its parameter
    #[arg(long, value_name = "FILE|NAME[:PARAMETER]")]
    pub workload: Option<String>,
    /// Text of the description, for programs without files. It replaces the file of `workload`.
    #[arg(skip)]
    pub text: Option<String>,
    /// Steps instead of those of the workload, separated by commas: phases as
    /// NAME, NAME@EXTENT or NAME@EXTENT:THREADS, and flush, compact, wait
    #[arg(long, value_name = "STEPS")]
    pub steps: Option<String>,
    /// Number of keys, such as 500k or 5m [default: 1m]
    #[arg(long, value_name = "N", value_parser = keys)]
    pub keys: Option<u64>,
    /// Bytes of a key, 8 to 524287 [default: 16]
    #[arg(long, value_name = "BYTES")]
    pub key_size: Option<usize>,
    /// Bytes of a value: 100, 50-200, pareto, or pareto:THETA:K:SIGMA:MAX [default: 100; 1000 in the
    /// phases of YCSB]
    #[arg(long, value_name = "BYTES", value_parser = text::<ValueSize>)]
    pub value_size: Option<ValueSize>,
    /// Random share of the bytes of a value, 0 to 1; the rest repeats [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    pub random_share: Option<f64>,
    /// Distribution of the keys of phases that choose them by chance: uniform, zipfian:THETA,
    /// latest, hotspot, exponential, prefix-dist [default: the phase's]
    #[arg(long, value_name = "NAME", value_parser = text::<Distribution>)]
    pub distribution: Option<Distribution>,
    /// Operations per second of each phase, open-loop [default: as many as possible]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub rate: Option<u64>,
    /// Threads of phases without their own number [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Random seed [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Memory of one memtable [default: 64m]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memtable_size: Option<u64>,
    /// Target size of tables [default: 64m]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub table_size: Option<u64>,
    /// Compression of blocks [default: lz4]
    #[arg(long, value_name = "NAME", value_parser = ["none", "lz4", "zstd"])]
    pub compression: Option<String>,
    /// Filter of tables [default: fuse8]
    #[arg(long, value_name = "NAME", value_parser = ["none", "fuse8", "fuse16"])]
    pub filter: Option<String>,
    /// Distribution of filter memory between runs [default: by-level]
    #[arg(long, value_enum)]
    pub filter_allocation: Option<Allocation>,
    /// Size of the smallest value that goes to a blob file; 0: none [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub blob_threshold: Option<u64>,
    /// Percent of garbage in blob files from which the worst of them are collected, 1 to 90
    /// [default: 30]
    #[arg(long, value_name = "PERCENT")]
    pub blob_gc_percent: Option<u8>,
    /// Maximum age of a tombstone in seconds; 0: no bound [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub tombstone_age_secs: Option<u64>,
    /// Age in seconds at which puts expire; 0: never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub ttl_secs: Option<u64>,
    /// Background threads, at most 64 [default: 2]
    #[arg(long, value_name = "N")]
    pub background_threads: Option<usize>,
    /// Memory budget for memtables, cache, indexes and filters [default: 256m]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_budget: Option<u64>,
    /// Maximum compaction I/O per second, reads and writes together [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = size_per_second)]
    pub background_rate: Option<u64>,
    /// Maximum bytes of read-triggered compactions, in percent of flushed bytes; 0: none [default:
    /// 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub read_compaction_percent: Option<u32>,
    /// Durability of a write when its call returns [default: process]
    #[arg(long, value_enum)]
    pub durability: Option<Durable>,
}

/// Parses a number of keys, as `500k` or `1e12`.
fn keys(text: &str) -> Result<u64, String> {
    let exponential = text.parse::<f64>().ok().filter(|n| (1.0..1e18).contains(n));
    exponential.map_or_else(|| parse_count(text), |n| Ok(n as u64))
}

fn text<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// Lists the standard workloads, a line each.
pub fn standard_workloads() -> String {
    let line = |(name, _): &(&str, &str)| {
        let d = WorkloadDescription::standard(name).unwrap_or_default();
        format!("  {:20}{}\n", WorkloadDescription::syntax(name), d.about)
    };
    STANDARD.iter().map(line).collect()
}

/// Lists the standard phases, a line each.
pub fn standard_phases() -> String {
    let phases = firn_workload::phase::standard().iter();
    phases.map(|(name, mix)| format!("  {name:20}{}\n", mix.about)).collect()
}

impl WorkloadArgs {
    /// Reports whether a description is given, as a file or as its text.
    pub fn is_file(&self) -> bool {
        self.text.is_some()
            || self.workload.as_deref().is_some_and(|name| {
                name.ends_with(".toml")
                    || name.contains(['/', '\\'])
                    || io::is_file(Path::new(name))
            })
    }

    /// Returns the description: that of `--workload`, or `usual`, with the given values.
    ///
    /// # Errors
    /// A file that cannot be read, and values that are out of bounds.
    pub fn description(&self, usual: &WorkloadDescription) -> Done<WorkloadDescription> {
        let mut d = match (self.workload.as_deref(), &self.text) {
            (name, Some(text)) => parse(text, name.unwrap_or("the text"))?,
            (None, None) => usual.clone(),
            (Some(name), None) if self.is_file() => read(Path::new(name))?,
            (Some(name), None) => WorkloadDescription::standard(name).map_err(|why| {
                Failure::with_next(why, "or name a description file, which ends in .toml")
            })?,
        };
        fn set<T: Clone>(to: &mut T, given: &Option<T>) {
            if let Some(given) = given {
                *to = given.clone();
            }
        }
        set(&mut d.steps, &self.steps);
        set(&mut d.keys, &self.keys);
        set(&mut d.key_size, &self.key_size);
        set(&mut d.random_share, &self.random_share);
        set(&mut d.seed, &self.seed);
        set(&mut d.threads, &self.threads.map(usize::from));
        d.value_size = self.value_size.or(d.value_size);
        d.distribution = self.distribution.or(d.distribution);
        d.rate = self.rate.map(|n| n as f64).or(d.rate);
        let s = &mut d.store;
        set(&mut s.memtable_size, &self.memtable_size);
        set(&mut s.table_size, &self.table_size);
        set(&mut s.compression, &self.compression);
        set(&mut s.filter, &self.filter);
        let allocation = self.filter_allocation.map(|a| allocation_name(a.into()).to_owned());
        set(&mut s.filter_allocation, &allocation);
        set(&mut s.blob_threshold, &self.blob_threshold);
        set(&mut s.blob_gc_percent, &self.blob_gc_percent);
        set(&mut s.tombstone_age_secs, &self.tombstone_age_secs);
        set(&mut s.ttl_secs, &self.ttl_secs);
        set(&mut s.background_threads, &self.background_threads);
        set(&mut s.memory_budget, &self.memory_budget);
        set(&mut s.read_compaction_percent, &self.read_compaction_percent);
        s.background_rate = self.background_rate.or(s.background_rate);
        let durability = self.durability.map(|d| match d {
            Durable::Process => "process".to_owned(),
            Durable::Power => "power".to_owned(),
        });
        set(&mut s.durability, &durability);
        d.check().map_err(Failure::new)?;
        Ok(d)
    }
}

/// Reads a description from a file.
///
/// # Errors
/// Why it cannot be read, with the line of a mistake.
pub fn read(path: &Path) -> Done<WorkloadDescription> {
    let mut text = String::new();
    let mut input = io::Input::open(path).map_err(|e| Failure::file("read", path, &e))?;
    std::io::Read::read_to_string(&mut input, &mut text)
        .map_err(|e| Failure::file("read", path, &e))?;
    parse(&text, &path.display().to_string())
}

fn parse(text: &str, name: &str) -> Done<WorkloadDescription> {
    text.parse().map_err(|why: String| {
        Failure::with_next(
            format!("{name} is no description of a workload: {}", why.trim_end()),
            "docs/workloads.md explains its fields",
        )
    })
}

/// Returns the options of a tree with these settings, except the policy.
///
/// # Errors
/// Values that are out of bounds.
pub fn tree_options(s: &StoreSettings) -> Done<TreeOptions> {
    let mut tree = TreeOptions::default();
    for (name, text) in [
        ("compression", s.compression.clone()),
        ("filter", s.filter.clone()),
        ("filter_allocation", s.filter_allocation.clone()),
        ("table_size", s.table_size.to_string()),
        ("memtable_size", s.memtable_size.to_string()),
        ("tombstone_age_secs", s.tombstone_age_secs.to_string()),
        ("blob_threshold", s.blob_threshold.to_string()),
        ("blob_gc_percent", s.blob_gc_percent.to_string()),
    ] {
        options::set(&mut tree, name, &text).map_err(Failure::new)?;
    }
    tree.check()?;
    Ok(tree)
}

/// Returns the options of a store with these settings.
///
/// # Errors
/// Values that are out of bounds.
pub fn db_options(s: &StoreSettings) -> Done<DbOptions> {
    let durability = match s.durability.as_str() {
        "process" => Durability::Process,
        "power" => Durability::Power,
        other => {
            return Err(Failure::new(format!("durability: {other:?} is none of process, power")));
        }
    };
    let db = DbOptions {
        memory_budget: usize::try_from(s.memory_budget).unwrap_or(usize::MAX),
        background_threads: s.background_threads,
        durability,
        wal_segment: s.memtable_size.clamp(1 << 20, 64 << 20),
        background_rate: s.background_rate,
        read_compaction_percent: s.read_compaction_percent,
        ..DbOptions::default()
    };
    db.check()?;
    Ok(db)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_engine_by_default() {
        let s = StoreSettings::default();
        assert_eq!(
            options::list(&tree_options(&s).unwrap()),
            options::list(&TreeOptions::default())
        );
        let (db, usual) = (db_options(&s).unwrap(), DbOptions::default());
        assert_eq!(db.background_threads, usual.background_threads);
        assert_eq!(db.durability, usual.durability);
        assert_eq!(db.read_compaction_percent, usual.read_compaction_percent);
        assert!(tree_options(&StoreSettings { filter: "x".into(), ..s.clone() }).is_err());
        assert!(db_options(&StoreSettings { durability: "x".into(), ..s }).is_err());
    }

    #[test]
    fn options_replace_values() {
        let args = WorkloadArgs {
            workload: Some("zipfian:0.5".into()),
            keys: Some(7),
            table_size: Some(1 << 20),
            ..WorkloadArgs::default()
        };
        let d = args.description(&WorkloadDescription::default()).unwrap();
        assert_eq!((d.keys, d.store.table_size, d.key_size), (7, 1 << 20, 16));
        assert_eq!(d.phase["update"].distribution, Distribution::Zipfian { theta: 0.5 });
        assert_eq!((keys("1e12"), keys("3k")), (Ok(1_000_000_000_000), Ok(3000)));
        let text = WorkloadArgs {
            workload: Some("a.toml".into()),
            text: Some("keys = 9\nsteps = \"fillrandom\"".into()),
            ..args
        };
        let d = text.description(&WorkloadDescription::default()).unwrap();
        assert!(text.is_file());
        assert_eq!((d.keys, d.steps.as_str()), (7, "fillrandom"));
        let unknown = WorkloadArgs { workload: Some("no".into()), ..WorkloadArgs::default() };
        assert!(unknown.description(&WorkloadDescription::default()).is_err());
        assert!(standard_workloads().contains("zipfian[:SKEW]"));
        assert!(standard_phases().contains("mixgraph"));
    }
}
