//! The description of a workload: a TOML text that says everything about it, for `firn bench`, for
//! the simulator of compactions, and for other engines.
//!
//! ```
//! use firn_workload::{WorkloadDescription, WorkloadStep};
//! let text = r#"
//!     keys = "200k"
//!     value-size = "50-150"
//!     steps = "filluniquerandom, wait, churn@300%"
//!
//!     [phase.churn]
//!     distribution = "zipfian:0.9"
//!     puts = 0.9
//!     deletes = 0.1
//!
//!     [store]
//!     policy = "leveled:8"
//!     memtable-size = "4m"
//! "#;
//! let d: WorkloadDescription = text.parse()?;
//! assert_eq!((d.keys, d.store.memtable_size), (200_000, 4 << 20));
//! let steps = d.steps()?;
//! assert!(matches!(&steps[2], WorkloadStep::Run(churn) if churn.total_ops(d.keys) == 600_000));
//! # Ok::<(), String>(())
//! ```

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::config::Config;
use crate::dist::Distribution;
use crate::outcome::OpKind;
use crate::phase::{Extent, OperationMix, Phase, parse_count};
use crate::values::{NumberOrText, ValueSize};

/// Parses a number of bytes that may end in `k`, `m`, `g` or `t`, which are powers of 1,024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(['k', 'm', 'g', 't']);
    let shift = match &lower[digits.len()..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(format!("{text:?} is no size: give bytes, as 4096, 64k, 16m or 1g")),
    };
    let n: u64 = digits.parse().map_err(|e| format!("{text:?} is no size: {e}"))?;
    n.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

fn count<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let text = NumberOrText::deserialize(input)?.to_string();
    parse_count(&text).map_err(serde::de::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let text = NumberOrText::deserialize(input)?.to_string();
    parse_size(&text).map_err(serde::de::Error::custom)
}

fn optional_size<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    size(input).map(Some)
}

/// Operations a second: a number, or its text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum RateText {
    Number(f64),
    Text(String),
}

fn rate<'de, D: Deserializer<'de>>(input: D) -> Result<Option<f64>, D::Error> {
    match RateText::deserialize(input)? {
        RateText::Number(n) => Ok(Some(n)),
        RateText::Text(text) => {
            parse_count(&text).map(|n| Some(n as f64)).map_err(serde::de::Error::custom)
        }
    }
}

/// Settings of a store of Firn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StoreSettings {
    /// Compaction policy, with its parameters after colons. Default `tiered`.
    pub policy: String,
    /// Bytes of a memtable. Default 64 MiB.
    #[serde(deserialize_with = "size")]
    pub memtable_size: u64,
    /// Target bytes of a table. Default 64 MiB.
    #[serde(deserialize_with = "size")]
    pub table_size: u64,
    /// Compression: `none`, `lz4` or `zstd`. Default `lz4`.
    pub compression: String,
    /// Filter: `none`, `fuse8` or `fuse16`. Default `fuse8`.
    pub filter: String,
    /// Distribution of filter memory between runs: `by-level` or `monkey`. Default `by-level`.
    pub filter_allocation: String,
    /// Bytes of the smallest value in a blob file; 0 (the default) for none.
    #[serde(deserialize_with = "size")]
    pub blob_threshold: u64,
    /// Percent of garbage in blob files from which it is collected, 1 to 90. Default 30.
    pub blob_gc_percent: u8,
    /// Maximum age of a tombstone in seconds; 0 (the default) for no bound.
    pub tombstone_age_secs: u64,
    /// Seconds after which puts expire; 0 (the default) for never.
    pub ttl_secs: u64,
    /// Background threads, 0 to 64. Default 2.
    pub background_threads: usize,
    /// Bytes of memory for memtables, cache, indexes and filters. Default 256 MiB.
    #[serde(deserialize_with = "size")]
    pub memory_budget: u64,
    /// Bytes that compactions read and write per second at most; `None` for no bound.
    #[serde(deserialize_with = "optional_size")]
    pub background_rate: Option<u64>,
    /// Maximum bytes of read-triggered compactions, in percent of flushed bytes. Default 100.
    pub read_compaction_percent: u32,
    /// Durability of a put when its call returns: `process` or `power`. Default `process`.
    pub durability: String,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings {
            policy: "tiered".into(),
            memtable_size: 64 << 20,
            table_size: 64 << 20,
            compression: "lz4".into(),
            filter: "fuse8".into(),
            filter_allocation: "by-level".into(),
            blob_threshold: 0,
            blob_gc_percent: 30,
            tombstone_age_secs: 0,
            ttl_secs: 0,
            background_threads: 2,
            memory_budget: 256 << 20,
            background_rate: None,
            read_compaction_percent: 100,
            durability: "process".into(),
        }
    }
}

/// A step of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadStep {
    /// Run a phase.
    Run(Phase),
    /// Flush the memtable.
    Flush,
    /// Compact everything into one run.
    Compact,
    /// Wait until background work is done.
    Wait,
}

impl fmt::Display for WorkloadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadStep::Run(phase) => phase.fmt(f),
            WorkloadStep::Flush => f.write_str("flush"),
            WorkloadStep::Compact => f.write_str("compact"),
            WorkloadStep::Wait => f.write_str("wait"),
        }
    }
}

/// See the [module](self). Sizes of a file may have units: counts end in `k` or `m` (thousands and
/// millions), bytes in `k`, `m`, `g` or `t` (powers of 1,024).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct WorkloadDescription {
    /// The meaning, for people.
    pub about: String,
    /// Number of keys, at least 1. Default 1,000,000.
    #[serde(deserialize_with = "count")]
    pub keys: u64,
    /// Bytes of a key, 8 to 524,287. Default 16.
    pub key_size: usize,
    /// Bytes of a value in all phases; without it those of each phase, which are 100 by default.
    pub value_size: Option<ValueSize>,
    /// Fraction of a value's bytes that are random, 0 to 1; the rest repeats. Default 0.5.
    pub random_share: f64,
    /// Random seed. Default 1.
    pub seed: u64,
    /// Threads of phases that do not give their own number, 1 to 1024. Default 1.
    pub threads: usize,
    /// Operations per second of phases without a rate of their own; without it, as fast as
    /// possible.
    #[serde(deserialize_with = "rate")]
    pub rate: Option<f64>,
    /// Distribution of the keys of phases that choose them by chance, instead of their own.
    pub distribution: Option<Distribution>,
    /// The steps in their order, separated by commas: phases with their extent and their threads,
    /// and `flush`, `compact` and `wait`.
    pub steps: String,
    /// The phases that are not standard ones.
    pub phase: BTreeMap<String, OperationMix>,
    /// Settings of the store. Other engines use those that they know.
    pub store: StoreSettings,
}

impl Default for WorkloadDescription {
    fn default() -> Self {
        let Config { keys, key_size, random_share, seed, .. } = Config::default();
        WorkloadDescription {
            about: String::new(),
            keys,
            key_size,
            value_size: None,
            random_share,
            seed,
            threads: 1,
            rate: None,
            distribution: None,
            steps: String::new(),
            phase: BTreeMap::new(),
            store: StoreSettings::default(),
        }
    }
}

impl FromStr for WorkloadDescription {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let d: WorkloadDescription = toml::from_str(text).map_err(|e| e.to_string())?;
        d.check()?;
        Ok(d)
    }
}

impl fmt::Display for WorkloadDescription {
    /// Writes the text of a description file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&toml::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Standard workloads: name and description.
pub const STANDARD: &[(&str, &str)] = &[
    ("insert", include_str!("../workloads/insert.toml")),
    ("sequential", include_str!("../workloads/sequential.toml")),
    ("uniform", include_str!("../workloads/uniform.toml")),
    ("zipfian", include_str!("../workloads/zipfian.toml")),
    ("deletes", include_str!("../workloads/deletes.toml")),
    ("timeseries", include_str!("../workloads/timeseries.toml")),
    ("queue", include_str!("../workloads/queue.toml")),
    ("massdelete", include_str!("../workloads/massdelete.toml")),
    ("db_bench", include_str!("../workloads/db_bench.toml")),
    ("ycsb", include_str!("../workloads/ycsb.toml")),
    ("mixgraph", include_str!("../workloads/mixgraph.toml")),
    ("cdn", include_str!("../workloads/cdn.toml")),
];

/// Parameters of standard workloads: the workload, the name of the parameter, and its bound, which
/// it does not reach.
const PARAMETERS: [(&str, &str, f64); 5] = [
    ("zipfian", "SKEW", 1.0),
    ("deletes", "SHARE", 1.0),
    ("timeseries", "SERIES", 1e12),
    ("queue", "SHARE", 1.0),
    ("massdelete", "SHARE", 1.0),
];

impl WorkloadDescription {
    /// Returns the standard workload of this name, which may have a parameter, as in
    /// `zipfian:0.9`.
    ///
    /// # Errors
    /// The names, if there is none; a parameter out of bounds.
    pub fn standard(text: &str) -> Result<WorkloadDescription, String> {
        let (name, parameter) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
        let Some((_, found)) = STANDARD.iter().find(|(n, _)| *n == name) else {
            let names: Vec<String> = STANDARD.iter().map(|(n, _)| Self::syntax(n)).collect();
            return Err(format!("no workload is called {name:?}; there are {}", names.join(", ")));
        };
        let mut d: WorkloadDescription = found.parse()?;
        if let Some(parameter) = parameter {
            d.set_parameter(text, name, parameter)?;
        }
        Ok(d)
    }

    /// Returns the name of a standard workload with its parameter.
    pub fn syntax(name: &str) -> String {
        match PARAMETERS.iter().find(|(n, ..)| *n == name) {
            Some((_, parameter, _)) => format!("{name}[:{parameter}]"),
            None => name.to_owned(),
        }
    }

    fn set_parameter(&mut self, text: &str, name: &str, parameter: &str) -> Result<(), String> {
        let Some((.., bound)) = PARAMETERS.iter().find(|(n, ..)| *n == name) else {
            return Err(format!("{name:?} has no parameter, and {text:?} gives one"));
        };
        let value: f64 =
            parameter.parse().map_err(|_| format!("{parameter:?} in {text:?} is no number"))?;
        if !(value > 0.0 && value < *bound) {
            return Err(format!("{value} in {text:?} must be between 0 and {bound}"));
        }
        for mix in self.phase.values_mut() {
            match name {
                "zipfian" => mix.distribution = Distribution::Zipfian { theta: value },
                "deletes" => (mix.puts, mix.deletes) = (1.0 - value, value),
                "timeseries" => mix.distribution = Distribution::Series((value as u64).max(1)),
                // All keys are put: those of the filled queue, then one in two operations.
                "queue" => {
                    mix.distribution = Distribution::Queue { share: value };
                    mix.operations = Extent::PerKey(2.0 - value);
                }
                _ => mix.operations = Extent::PerKey(value),
            }
        }
        Ok(())
    }

    /// Checks that every value is within its bounds, and that the steps are known; the error names
    /// the value. The settings of the store are checked by the store.
    pub fn check(&self) -> Result<(), String> {
        self.config().check()?;
        if !(1..=1024).contains(&self.threads) {
            return Err("threads must be 1 to 1024".into());
        }
        for (name, mix) in &self.phase {
            let bad = |why: String| format!("phase {name}: {why}");
            if name.contains([',', '@', ':', ' '])
                || ["flush", "compact", "wait"].contains(&&name[..])
            {
                return Err(bad("a name has no blank, comma, colon or @, and is no step".into()));
            }
            mix.check().map_err(bad)?;
        }
        self.steps().map(|_| ())
    }

    /// Returns the parameters of a run.
    pub fn config(&self) -> Config {
        Config {
            keys: self.keys,
            key_size: self.key_size,
            value_size: self.value_size,
            random_share: self.random_share,
            seed: self.seed,
            rate: self.rate,
            distribution: self.distribution,
            ..Config::default()
        }
    }

    /// Returns the steps.
    ///
    /// # Errors
    /// A name that is unknown.
    pub fn steps(&self) -> Result<Vec<WorkloadStep>, String> {
        let names = self.steps.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| self.step(name)).collect()
    }

    /// Returns the step with this text.
    ///
    /// # Errors
    /// A name that is unknown.
    pub fn step(&self, text: &str) -> Result<WorkloadStep, String> {
        Ok(match text {
            "flush" => WorkloadStep::Flush,
            "compact" => WorkloadStep::Compact,
            "wait" => WorkloadStep::Wait,
            _ => {
                let mut phase = Phase::parse(text, &self.phase)?;
                if !text.contains(':') {
                    phase.threads = self.threads;
                }
                WorkloadStep::Run(phase)
            }
        })
    }

    /// Returns the bytes of keys and values that the steps write with one key more, on average.
    fn written_per_key(&self) -> Result<f64, String> {
        let mut sum = 0.0;
        for step in self.steps()? {
            let WorkloadStep::Run(phase) = step else { continue };
            let puts =
                phase.mix.share_of(&[OpKind::Write, OpKind::Insert, OpKind::ReadModifyWrite]);
            let value = phase.mix.value_size(self.value_size).mean();
            let key = self.key_size as f64;
            let bytes = phase.mix.write_share() * key + puts * value;
            if let Extent::PerKey(share) = phase.extent() {
                sum += share * bytes;
            }
        }
        Ok(sum)
    }

    /// Changes the extents of all phases after the first so that the steps write about this many
    /// bytes of keys and values, with the same number of keys. If the first phase alone writes more,
    /// it is shortened.
    ///
    /// # Errors
    /// If no step has an extent in proportion to the keys.
    pub fn stretch_to(&mut self, bytes: u64) -> Result<(), String> {
        let mut steps = self.steps()?;
        let all = self.written_per_key()? * self.keys as f64;
        let is_writing =
            |step: &WorkloadStep| matches!(step, WorkloadStep::Run(p) if !p.mix.only_reads());
        let load = WorkloadDescription {
            steps: steps
                .iter()
                .find(|s| is_writing(s))
                .map_or_else(String::new, WorkloadStep::to_string),
            ..self.clone()
        };
        let load = load.written_per_key()? * self.keys as f64;
        if all <= 0.0 {
            return Err("no phase writes in proportion to the number of keys".into());
        }
        let bytes = bytes as f64;
        let (first, later) = match bytes - load {
            rest if rest < 0.0 || all <= load => (bytes / load.max(1.0), 0.0),
            rest => (1.0, rest / (all - load)),
        };
        let mut factor = Some(first);
        for step in &mut steps {
            if let WorkloadStep::Run(phase) = step
                && let Extent::PerKey(share) = phase.extent()
                && !phase.mix.only_reads()
            {
                let factor = factor.take().unwrap_or(later);
                phase.extent = Some(Extent::PerKey(share * factor));
            }
        }
        steps.retain(
            |step| !matches!(step, WorkloadStep::Run(p) if p.extent == Some(Extent::PerKey(0.0))),
        );
        let texts: Vec<String> = steps.iter().map(WorkloadStep::to_string).collect();
        self.steps = texts.join(", ");
        Ok(())
    }

    /// Returns the operations per second of all phases that write; `None` for the maximum.
    ///
    /// # Errors
    /// If phases have different ones.
    pub fn rate_of_all(&self) -> Result<Option<f64>, String> {
        let mut rates = vec![];
        for step in self.steps()? {
            if let WorkloadStep::Run(phase) = step
                && !phase.mix.only_reads()
            {
                rates.push(phase.mix.rate.or(self.rate));
            }
        }
        match rates.first() {
            Some(first) if rates.iter().any(|rate| rate != first) => {
                Err("phases have different rates: give one rate for all".into())
            }
            first => Ok(first.copied().flatten()),
        }
    }

    /// Sets the number of keys so that the steps write about this many bytes of keys and values.
    ///
    /// # Errors
    /// If no step has an extent in proportion to the keys.
    pub fn scale_to(&mut self, bytes: u64) -> Result<(), String> {
        let per_key = self.written_per_key()?;
        if per_key <= 0.0 {
            return Err("no phase writes in proportion to the number of keys".into());
        }
        self.keys = ((bytes as f64 / per_key) as u64).max(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_workloads_are_sound() {
        for (name, _) in STANDARD {
            let mut d =
                WorkloadDescription::standard(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!d.about.is_empty() && !d.steps().unwrap().is_empty(), "{name}");
            let text = toml::to_string(&d).unwrap();
            assert_eq!(text.parse(), Ok(d.clone()), "{name}");
            d.scale_to(100 << 20).unwrap();
            let per_key = d.written_per_key().unwrap();
            assert!((d.keys as f64 * per_key / 104_857_600.0 - 1.0).abs() < 0.01, "{name}");
        }
        for bad in ["nothing", "zipfian:1", "zipfian:x", "insert:3", "queue:0"] {
            assert!(WorkloadDescription::standard(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn written_bytes_change_with_the_same_keys() {
        let mut d = WorkloadDescription::standard("uniform").unwrap();
        d.keys = 1000;
        d.stretch_to(1000 * 116 * 9).unwrap();
        assert_eq!(d.steps, "filluniquerandom@100%, overwrite@800%");
        assert_eq!(d.keys, 1000);
        d.stretch_to(500 * 116).unwrap();
        assert_eq!(d.steps, "filluniquerandom@50%");
    }

    #[test]
    fn sizes_have_units() {
        let d: WorkloadDescription =
            "keys = '2k'\nrate = '1m'\n[store]\nbackground-rate = '3m'".parse().unwrap();
        assert_eq!((d.keys, d.rate, d.store.background_rate), (2000, Some(1e6), Some(3 << 20)));
        assert_eq!(parse_size("1g"), Ok(1 << 30));
        for bad in ["", "x", "1kk", "-1", "99999999999t"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_names_its_place() {
        for (text, why) in [
            ("kyes = 3", "kyes"),
            ("keys = 0", "keys"),
            ("steps = 'fill'", "fill"),
            ("[phase.a]\nputs = -1", "phase a"),
            ("[phase.a]\ngets = 1\ndistribution = 'zipf'", "zipf"),
            ("[phase.'a b']\ngets = 1", "blank"),
            ("value-size = '9-1'", "9-1"),
            ("[store]\nmemtable-size = 'big'", "big"),
        ] {
            let e = text.parse::<WorkloadDescription>().unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
