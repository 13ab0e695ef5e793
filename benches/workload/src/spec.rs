//! The workloads and their parameters.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::dist::Distribution;
use crate::keys::{MAX_KEY_SIZE, MIN_KEY_SIZE};
use crate::mixgraph::MixParams;
use crate::values::{MAX_VALUE_SIZE, ValueSize};

/// A workload, named as in db_bench or YCSB. `n` is [`Config::num`], the number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// n puts in key order.
    FillSeq,
    /// n puts of keys drawn with replacement: 63 % of all keys exist afterwards.
    FillRandom,
    /// n puts, each key once, in random order.
    FillUniqueRandom,
    /// n / 1000 puts of random keys, each on the device before it returns.
    FillSync,
    /// n puts of random keys in batches of [`Config::batch`].
    FillBatch,
    /// n puts of random keys into existing data.
    Overwrite,
    /// n point reads of random keys.
    ReadRandom,
    /// n point reads of missing keys between existing ones.
    ReadMissing,
    /// One scan of n entries in key order, by each thread.
    ReadSeq,
    /// One scan of n entries against key order, by each thread.
    ReadReverse,
    /// n / 10 cursors opened at a random key and advanced over [`Config::seek_nexts`] entries.
    SeekRandom,
    /// n / 5 point reads beside one thread that writes random keys.
    ReadWhileWriting,
    /// n deletes of random keys.
    DeleteRandom,
    /// n deletes in key order.
    DeleteSeq,
    /// n merges into random keys.
    MergeRandom,
    /// n / 1000 deletions of ranges, each of [`Config::range`] keys from a random one on.
    DeleteRange,
    /// n inserts of records with scrambled keys.
    YcsbLoad,
    /// n operations: 50 % reads, 50 % updates, zipfian.
    YcsbA,
    /// n operations: 95 % reads, 5 % updates, zipfian.
    YcsbB,
    /// n reads, zipfian.
    YcsbC,
    /// n operations: 95 % reads of the latest, 5 % inserts.
    YcsbD,
    /// n / 10 operations: 95 % scans of 1 to 100 records from a zipfian key, 5 % inserts.
    YcsbE,
    /// n operations: 50 % reads, 50 % read-modify-writes, zipfian.
    YcsbF,
    /// n operations of a production store's model: see [`crate::mixgraph`].
    Mixgraph,
}

impl Workload {
    /// All workloads with their names.
    pub const ALL: [(Workload, &'static str); 24] = [
        (Workload::FillSeq, "fillseq"),
        (Workload::FillRandom, "fillrandom"),
        (Workload::FillUniqueRandom, "filluniquerandom"),
        (Workload::FillSync, "fillsync"),
        (Workload::FillBatch, "fillbatch"),
        (Workload::Overwrite, "overwrite"),
        (Workload::ReadRandom, "readrandom"),
        (Workload::ReadMissing, "readmissing"),
        (Workload::ReadSeq, "readseq"),
        (Workload::ReadReverse, "readreverse"),
        (Workload::SeekRandom, "seekrandom"),
        (Workload::ReadWhileWriting, "readwhilewriting"),
        (Workload::DeleteRandom, "deleterandom"),
        (Workload::DeleteSeq, "deleteseq"),
        (Workload::MergeRandom, "mergerandom"),
        (Workload::DeleteRange, "deleterange"),
        (Workload::YcsbLoad, "ycsb-load"),
        (Workload::YcsbA, "ycsb-a"),
        (Workload::YcsbB, "ycsb-b"),
        (Workload::YcsbC, "ycsb-c"),
        (Workload::YcsbD, "ycsb-d"),
        (Workload::YcsbE, "ycsb-e"),
        (Workload::YcsbF, "ycsb-f"),
        (Workload::Mixgraph, "mixgraph"),
    ];

    /// Returns the default number of operations of a run over `num` keys.
    pub fn default_ops(self, num: u64) -> u64 {
        let divisor = match self {
            Workload::FillSync | Workload::DeleteRange => 1000,
            Workload::SeekRandom | Workload::YcsbE => 10,
            Workload::ReadWhileWriting => 5,
            _ => 1,
        };
        (num / divisor).max(1)
    }

    /// Reports whether it leaves the data as it is.
    pub fn only_reads(self) -> bool {
        matches!(
            self,
            Workload::ReadRandom
                | Workload::ReadMissing
                | Workload::ReadSeq
                | Workload::ReadReverse
                | Workload::SeekRandom
                | Workload::YcsbC
        )
    }

    /// Returns the default distribution of its keys.
    pub fn distribution(self) -> Distribution {
        match self {
            Workload::YcsbA
            | Workload::YcsbB
            | Workload::YcsbC
            | Workload::YcsbE
            | Workload::YcsbF => Distribution::ZIPFIAN,
            Workload::YcsbD => Distribution::LATEST,
            _ => Distribution::Uniform,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Workload::ALL
            .iter()
            .find(|(w, _)| w == self)
            .map_or(Err(fmt::Error), |(_, name)| f.write_str(name))
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Workload::ALL.iter().find(|(_, name)| *name == text).map(|(w, _)| *w).ok_or_else(|| {
            let names: Vec<&str> = Workload::ALL.iter().map(|(_, name)| *name).collect();
            format!("no workload is called {text:?}; there are {}", names.join(", "))
        })
    }
}

/// One workload to run. As text: `name`, `name@operations`, `name:threads` or
/// `name@operations:threads`; operations may end in `k` or `m`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The workload.
    pub workload: Workload,
    /// Total operations of all threads; `None` for [`Workload::default_ops`].
    pub ops: Option<u64>,
    /// Threads, 1 to 1024.
    pub threads: usize,
}

/// Parses a number that may end in `k` (thousands) or `m` (millions).
pub fn parse_count(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) if lower.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (&lower[..], 1),
    };
    let n: u64 = digits.parse().map_err(|e| format!("{text:?} is not a number: {e}"))?;
    n.checked_mul(unit).ok_or_else(|| format!("{text:?} is too large"))
}

impl Phase {
    /// Parses phases separated by commas.
    pub fn parse_list(text: &str) -> Result<Vec<Phase>, String> {
        text.split(',').map(|t| t.trim().parse()).collect()
    }

    /// Returns the operations of this phase over `num` keys.
    pub fn total_ops(&self, num: u64) -> u64 {
        self.ops.unwrap_or_else(|| self.workload.default_ops(num))
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, threads) = match text.split_once(':') {
            None => (text, 1),
            Some((rest, t)) => (rest, t.parse().map_err(|e| format!("{text:?}: threads: {e}"))?),
        };
        let (name, ops) = match rest.split_once('@') {
            None => (rest, None),
            Some((name, ops)) => (name, Some(parse_count(ops)?)),
        };
        if !(1..=1024).contains(&threads) || ops == Some(0) {
            return Err(format!("{text:?}: threads must be 1 to 1024 and operations at least 1"));
        }
        Ok(Phase { workload: name.parse()?, ops, threads })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.workload)?;
        if let Some(ops) = self.ops {
            write!(f, "@{ops}")?;
        }
        if self.threads != 1 {
            write!(f, ":{}", self.threads)?;
        }
        Ok(())
    }
}

/// Parameters common to all phases of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Number of keys, at least 1. Default 1,000,000.
    pub num: u64,
    /// Bytes of a key, 8 to 4,096. Default 16.
    pub key_size: usize,
    /// Bytes of a value, for db_bench's workloads. Default 100.
    pub value: ValueSize,
    /// Bytes of a record's value, for YCSB's. Default 1,000.
    pub ycsb_value: ValueSize,
    /// Fraction of a value's bytes that are random, 0 to 1; the rest repeats. Default 0.5, which
    /// LZ4 compresses to 0.55.
    pub random_share: f64,
    /// Random seed. Default 1.
    pub seed: u64,
    /// Times one operation in this many, at least 1. Default 16.
    pub sample_every: u64,
    /// Length of an interval of [`Outcome::series`](crate::Outcome::series). Default 1 s.
    pub interval: Duration,
    /// Maximum time of a phase; a full scan ignores it. Default none.
    pub max_time: Option<Duration>,
    /// Operations per second of all threads of a phase, open-loop; `None` for the maximum.
    pub rate: Option<f64>,
    /// Operations per second of the writer of readwhilewriting; `None` for the maximum.
    pub write_rate: Option<f64>,
    /// Entries of a batch of fillbatch, at least 1. Default 1,000.
    pub batch: usize,
    /// Entries that a cursor of seekrandom reads, at least 1. Default 10.
    pub seek_nexts: u64,
    /// Keys of a range of deleterange, whether they exist or not; at least 1. Default 100.
    pub range: u64,
    /// Longest scan of YCSB E, at least 1. Default 100.
    pub scan_max: u64,
    /// Distribution of keys instead of the workload's.
    pub distribution: Option<Distribution>,
    /// Parameters of mixgraph.
    pub mix: MixParams,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            num: 1_000_000,
            key_size: 16,
            value: ValueSize::Fixed(100),
            ycsb_value: ValueSize::Fixed(1000),
            random_share: 0.5,
            seed: 1,
            sample_every: 16,
            interval: Duration::from_secs(1),
            max_time: None,
            rate: None,
            write_rate: None,
            batch: 1000,
            seek_nexts: 10,
            range: 100,
            scan_max: 100,
            distribution: None,
            mix: MixParams::default(),
        }
    }
}

impl Config {
    /// Checks that every value is within its bounds; the error names the value.
    pub fn check(&self) -> Result<(), String> {
        let bad = |what: &str| Err(format!("{what} is out of bounds"));
        if self.num == 0 || self.num > 1 << 48 {
            return bad("num");
        }
        if !(MIN_KEY_SIZE..=MAX_KEY_SIZE).contains(&self.key_size) {
            return bad("key_size");
        }
        if self.value.max() > MAX_VALUE_SIZE || self.ycsb_value.max() > MAX_VALUE_SIZE {
            return bad("a value size");
        }
        if !(0.0..=1.0).contains(&self.random_share) {
            return bad("random_share");
        }
        if self.sample_every == 0
            || self.batch == 0
            || self.seek_nexts == 0
            || self.scan_max == 0
            || self.range == 0
        {
            return bad("one of sample_every, batch, seek_nexts, range and scan_max");
        }
        if self.interval < Duration::from_millis(1) {
            return bad("interval");
        }
        if [self.rate, self.write_rate].iter().flatten().any(|r| !r.is_finite() || *r <= 0.0) {
            return bad("a rate");
        }
        self.distribution.iter().try_for_each(Distribution::check)?;
        self.mix.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_phases_parse_and_print() {
        for (workload, name) in Workload::ALL {
            assert_eq!(name.parse(), Ok(workload));
            assert_eq!(workload.to_string(), name);
        }
        let phases =
            Phase::parse_list("fillrandom, readrandom:2,seekrandom@500k,ycsb-e@3:4").unwrap();
        let text: Vec<String> = phases.iter().map(Phase::to_string).collect();
        assert_eq!(text, ["fillrandom", "readrandom:2", "seekrandom@500000", "ycsb-e@3:4"]);
        assert_eq!(phases[2].total_ops(1), 500_000);
        assert_eq!((phases[3].total_ops(1), phases[3].threads), (3, 4));
        assert_eq!(Workload::FillSync.default_ops(5_000_000), 5000);
        for bad in [
            "",
            "fill",
            "readrandom:0",
            "readrandom@0",
            "readrandom@x",
            "readrandom:2@5",
            "readrandom@99999999999999m",
        ] {
            assert!(bad.parse::<Phase>().is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_are_checked() {
        assert_eq!(Config::default().check(), Ok(()));
        let off: [fn(&mut Config); 7] = [
            |c| c.num = 0,
            |c| c.key_size = 7,
            |c| c.value = ValueSize::Fixed(usize::MAX),
            |c| c.random_share = 1.5,
            |c| c.sample_every = 0,
            |c| c.rate = Some(0.0),
            |c| c.distribution = Some(Distribution::Zipfian { theta: 1.0 }),
        ];
        for change in off {
            let mut config = Config::default();
            change(&mut config);
            assert!(config.check().is_err(), "{config:?}");
        }
    }

    #[test]
    fn settings_survive_json() {
        let config = Config { distribution: Some(Distribution::ZIPFIAN), ..Config::default() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
}
