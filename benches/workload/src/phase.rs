//! Phases of a workload: mixes of operations, with the choice of their keys.
//!
//! The standard phases, those of db_bench, YCSB and mixgraph, are in `phases.toml`, in the form in
//! which a [`WorkloadDescription`](crate::WorkloadDescription) defines its own.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::dist::Distribution;
use crate::outcome::OpKind;
use crate::store::Direction;
use crate::values::{MAX_VALUE_SIZE, NumberOrText, ValueSize};

/// Extent of a phase.
///
/// As text: a number of operations (`5000`, `500k`, `2m`), a share of the number of keys (`10%`,
/// `300%`), or a time (`60s`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub enum Extent {
    /// This many operations of all threads.
    Operations(u64),
    /// This many operations for each key.
    PerKey(f64),
    /// This many seconds.
    Seconds(f64),
}

impl Extent {
    /// Returns the operations over `keys` keys, at least 1; `None` for a time.
    pub fn operations(self, keys: u64) -> Option<u64> {
        match self {
            Extent::Operations(n) => Some(n),
            Extent::PerKey(share) => Some(((keys as f64 * share).round() as u64).max(1)),
            Extent::Seconds(_) => None,
        }
    }
}

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| t.trim().parse::<f64>().ok().filter(|n| *n > 0.0 && *n < 1e15);
        let bad = || {
            format!("{text:?} is no extent: give operations (500k), a share (10%), or a time (60s)")
        };
        if let Some(percent) = text.strip_suffix('%') {
            return number(percent).map(|p| Extent::PerKey(p / 100.0)).ok_or_else(bad);
        }
        if let Some(seconds) = text.strip_suffix('s') {
            return number(seconds).map(Extent::Seconds).ok_or_else(bad);
        }
        parse_count(text).ok().filter(|n| *n > 0).map(Extent::Operations).ok_or_else(bad)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Operations(n) => n.fmt(f),
            Extent::PerKey(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Extent::Seconds(seconds) => write!(f, "{seconds}s"),
        }
    }
}

impl TryFrom<NumberOrText> for Extent {
    type Error = String;

    fn try_from(text: NumberOrText) -> Result<Self, String> {
        text.to_string().parse()
    }
}

impl From<Extent> for String {
    fn from(extent: Extent) -> String {
        extent.to_string()
    }
}

/// A mix of operations. Each share is the part of the operations of that type; they need not add up
/// to 1. The default mix has no operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct OperationMix {
    /// The meaning, for people.
    pub about: String,
    /// Extent, unless the step gives one. Default one operation for each key.
    pub operations: Extent,
    /// Choice of keys. Default uniform.
    pub distribution: Distribution,
    /// Whether keys are hashes of their numbers, so that neighbouring numbers are far from each
    /// other in key order (YCSB's `insertorder=hashed`). Default false.
    pub hashed: bool,
    /// Bytes of a value, unless the workload sets one for all phases.
    pub value_size: Option<ValueSize>,
    /// Share of gets of existing keys.
    pub gets: f64,
    /// Share of gets of keys that do not exist, directly after existing ones.
    pub missing_gets: f64,
    /// Share of puts.
    pub puts: f64,
    /// Share of puts of new keys, which follow those of the workload and of earlier phases.
    pub inserts: f64,
    /// Share of gets followed by a put of the same key.
    pub read_modify_writes: f64,
    /// Share of deletes. [`Distribution::Queue`] adds its own.
    pub deletes: f64,
    /// Share of merges of a counter.
    pub merges: f64,
    /// Share of deletions of a range.
    pub range_deletes: f64,
    /// Share of scans.
    pub scans: f64,
    /// Entries of a scan. Default 10.
    pub scan_length: ValueSize,
    /// Keys of a range deletion, whether they exist or not. Default 100.
    pub range: u64,
    /// Puts that are written as one batch. Default 1, which is no batch.
    pub batch: usize,
    /// Whether a put is on the device before it returns. Default false.
    pub sync: bool,
    /// Whether one more thread puts random keys meanwhile. Default false.
    pub writer: bool,
    /// Each thread scans all entries, instead of the mix.
    pub full_scan: Option<Direction>,
    /// Operations per second of all threads, open-loop; `None` for the maximum.
    pub rate: Option<f64>,
}

impl Default for OperationMix {
    fn default() -> Self {
        OperationMix {
            about: String::new(),
            operations: Extent::PerKey(1.0),
            distribution: Distribution::Uniform,
            hashed: false,
            value_size: None,
            gets: 0.0,
            missing_gets: 0.0,
            puts: 0.0,
            inserts: 0.0,
            read_modify_writes: 0.0,
            deletes: 0.0,
            merges: 0.0,
            range_deletes: 0.0,
            scans: 0.0,
            scan_length: ValueSize::Fixed(10),
            range: 100,
            batch: 1,
            sync: false,
            writer: false,
            full_scan: None,
            rate: None,
        }
    }
}

impl OperationMix {
    /// Returns the shares of all types, which need not add up to 1. Those that write come last.
    pub fn shares(&self) -> [(OpKind, f64); 9] {
        [
            (OpKind::Read, self.gets),
            (OpKind::MissingRead, self.missing_gets),
            (OpKind::Scan, self.scans),
            (OpKind::Insert, self.inserts),
            (OpKind::Write, self.puts),
            (OpKind::ReadModifyWrite, self.read_modify_writes),
            (OpKind::Delete, self.deletes),
            (OpKind::Merge, self.merges),
            (OpKind::DeleteRange, self.range_deletes),
        ]
    }

    /// Returns the part of the operations that are of one of these types, 0 to 1.
    pub fn share_of(&self, kinds: &[OpKind]) -> f64 {
        let shares = self.shares();
        let all: f64 = shares.iter().map(|(_, share)| share).sum();
        let these = shares.iter().filter(|(kind, _)| kinds.contains(kind));
        these.map(|(_, share)| share).sum::<f64>() / all.max(f64::MIN_POSITIVE)
    }

    /// Returns the part of the operations that change the store, 0 to 1.
    pub fn write_share(&self) -> f64 {
        1.0 - self.share_of(&[OpKind::Read, OpKind::MissingRead, OpKind::Scan])
    }

    /// Reports whether it leaves the data as it is.
    pub fn only_reads(&self) -> bool {
        !self.writer && (self.full_scan.is_some() || self.write_share() < 1e-12)
    }

    /// Reports whether it is meant for a store that has its keys.
    pub fn reads(&self) -> bool {
        self.full_scan.is_some()
            || self.writer
            || self.write_share() < 1.0
            || self.read_modify_writes > 0.0
    }

    /// Returns the size of values: `all`, the size that the workload sets for all phases, or that of
    /// the mix, or 100 bytes.
    pub fn value_size(&self, all: Option<ValueSize>) -> ValueSize {
        all.or(self.value_size).unwrap_or(ValueSize::Fixed(100))
    }

    /// Checks that every field is within its bounds; the error names the field.
    pub fn check(&self) -> Result<(), String> {
        let shares = self.shares();
        if shares.iter().any(|(_, share)| !(0.0..=1e9).contains(share)) {
            return Err("a share is negative, or no number".to_owned());
        }
        let any = shares.iter().any(|(_, share)| *share > 0.0);
        match (self.full_scan, any) {
            (None, false) => return Err("there is no operation: give a share, as gets = 1".into()),
            (Some(_), true) => return Err("full-scan takes no other operation".into()),
            _ => {}
        }
        if self.batch > 1 && self.share_of(&[OpKind::Write]) < 1.0 {
            return Err("batch takes puts only".into());
        }
        if self.batch == 0 || self.range == 0 {
            return Err("batch and range must be at least 1".into());
        }
        if self.value_size.is_some_and(|v| v.max() > MAX_VALUE_SIZE) {
            return Err("value-size is out of bounds".into());
        }
        if self.rate.is_some_and(|r| !r.is_finite() || r <= 0.0) {
            return Err("rate is out of bounds".into());
        }
        self.distribution.check()
    }
}

/// Returns the standard phases by name.
pub fn standard() -> &'static BTreeMap<String, OperationMix> {
    static PHASES: OnceLock<BTreeMap<String, OperationMix>> = OnceLock::new();
    PHASES.get_or_init(|| {
        // A test reads the same text, so it parses.
        toml::from_str(include_str!("../phases.toml")).unwrap_or_default()
    })
}

/// A phase to run. As text: `name`, `name@extent`, `name:threads` or `name@extent:threads`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the mix.
    pub name: String,
    /// The mix.
    pub mix: Box<OperationMix>,
    /// Extent; `None` for that of the mix.
    pub extent: Option<Extent>,
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
    /// Parses a phase. `own` has the mixes of a description; standard mixes are known by name.
    pub fn parse(text: &str, own: &BTreeMap<String, OperationMix>) -> Result<Phase, String> {
        let (rest, threads) = match text.split_once(':') {
            None => (text, 1),
            Some((rest, t)) => (rest, t.parse().map_err(|e| format!("{text:?}: threads: {e}"))?),
        };
        let (name, extent) = match rest.split_once('@') {
            None => (rest, None),
            Some((name, extent)) => (name, Some(extent.parse()?)),
        };
        if !(1..=1024).contains(&threads) {
            return Err(format!("{text:?}: threads must be 1 to 1024"));
        }
        let mix = own.get(name).or_else(|| standard().get(name)).ok_or_else(|| {
            let names: Vec<&str> =
                own.keys().chain(standard().keys()).map(String::as_str).collect();
            format!("no phase is called {name:?}; there are {}", names.join(", "))
        })?;
        Ok(Phase { name: name.to_owned(), mix: Box::new(mix.clone()), extent, threads })
    }

    /// Parses standard phases separated by commas.
    pub fn parse_list(text: &str) -> Result<Vec<Phase>, String> {
        text.split(',').map(|t| t.trim().parse()).collect()
    }

    /// Returns the extent of this phase.
    pub fn extent(&self) -> Extent {
        self.extent.unwrap_or(self.mix.operations)
    }

    /// Returns the operations of this phase over `keys` keys; as many as there are numbers if its
    /// extent is a time.
    pub fn total_ops(&self, keys: u64) -> u64 {
        self.extent().operations(keys).unwrap_or(u64::MAX / 2)
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Phase::parse(text, &BTreeMap::new())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(extent) = self.extent {
            write!(f, "@{extent}")?;
        }
        if self.threads != 1 {
            write!(f, ":{}", self.threads)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_phases_are_sound() {
        let parsed: BTreeMap<String, OperationMix> =
            toml::from_str(include_str!("../phases.toml")).unwrap();
        assert_eq!(&parsed, standard());
        assert_eq!(parsed.len(), 24);
        for (name, mix) in &parsed {
            assert_eq!(mix.check(), Ok(()), "{name}");
            assert!(!mix.about.is_empty(), "{name}");
            let text = toml::to_string(mix).unwrap();
            assert_eq!(toml::from_str::<OperationMix>(&text).unwrap(), *mix, "{name}");
        }
        let only = |p: fn(&OperationMix) -> bool| {
            let names = parsed.iter().filter(|(_, m)| p(m)).map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>()
        };
        let reading =
            ["readmissing", "readrandom", "readreverse", "readseq", "seekrandom", "ycsb-c"];
        assert_eq!(only(OperationMix::only_reads), reading);
        assert_eq!(only(|m| m.sync || m.batch > 1), ["fillbatch", "fillsync"]);
    }

    #[test]
    fn phases_parse_and_print() {
        let phases =
            Phase::parse_list("fillrandom, readrandom:2,seekrandom@500k,ycsb-e@3:4,overwrite@250%")
                .unwrap();
        let text: Vec<String> = phases.iter().map(Phase::to_string).collect();
        let expected =
            ["fillrandom", "readrandom:2", "seekrandom@500000", "ycsb-e@3:4", "overwrite@250%"];
        assert_eq!(text, expected);
        assert_eq!(phases[2].total_ops(1), 500_000);
        assert_eq!((phases[3].total_ops(1), phases[3].threads), (3, 4));
        assert_eq!(phases[4].total_ops(1000), 2500);
        assert_eq!("fillsync".parse::<Phase>().unwrap().total_ops(5_000_000), 5000);
        assert_eq!("overwrite@1.5s".parse::<Phase>().unwrap().extent(), Extent::Seconds(1.5));
        for bad in [
            "",
            "fill",
            "readrandom:0",
            "readrandom@0",
            "readrandom@x",
            "readrandom@-1%",
            "readrandom:2@5",
            "readrandom@99999999999999m",
        ] {
            assert!(bad.parse::<Phase>().is_err(), "{bad}");
        }
    }

    #[test]
    fn mixes_are_checked() {
        let puts = OperationMix { puts: 1.0, ..OperationMix::default() };
        assert_eq!(puts.check(), Ok(()));
        let wrong: [fn(&mut OperationMix); 7] = [
            |m| m.puts = 0.0,
            |m| m.deletes = -1.0,
            |m| m.full_scan = Some(Direction::Forward),
            |m| (m.batch, m.gets) = (10, 1.0),
            |m| m.range = 0,
            |m| m.rate = Some(0.0),
            |m| m.distribution = Distribution::Series(0),
        ];
        for set in wrong {
            let mut mix = puts.clone();
            set(&mut mix);
            assert!(mix.check().is_err(), "{mix:?}");
        }
    }
}
