//! The store, sizes, policies and options of trees as a command line gives them, and as it shows them.
//!
//! Invariant: what [`policy_text`] and [`list`] write is read back to the same by [`policy`] and [`set`].
//!
//! | option | values |
//! |---|---|
//! | `policy` | [`POLICIES`] |
//! | `compression` | `none`, `lz4`; for each level, separated by commas, of which the last repeats |
//! | `filter` | `none`, `fuse8`, `fuse16`; in the same way |
//! | `block_size`, `table_size`, `memtable_size` | bytes, as `64m` |
//! | `tombstone_age_secs` | seconds; 0 for no bound |

use std::fmt::Display;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use firn_kv::{Compression, Durability, FilterKind, Movement, Policy, TreeOptions};

use crate::output::{Color, Style};

/// The heading of such options in help texts.
pub const EVERYWHERE: &str = "Options of every command";

/// What every command on a store takes.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// Directory of the store
    #[arg(long, visible_alias = "dir", global = true, help_heading = EVERYWHERE, value_name = "DIR", default_value = "firn-data")]
    pub db: PathBuf,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: Color,
}

impl StoreArgs {
    /// The colours to use.
    pub fn style(&self) -> Style {
        Style::new(self.color)
    }
}

/// [`Durability`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durable {
    /// Survives a crash of the process
    Process,
    /// Survives a power cut
    Power,
}

impl From<Durable> for Durability {
    fn from(d: Durable) -> Durability {
        match d {
            Durable::Process => Durability::Process,
            Durable::Power => Durability::Power,
        }
    }
}

/// Policies, for help texts.
pub const POLICIES: &str = "\
tiered[:MIN_RUNS[:MAX_RUNS[:BUCKET]]]  leveled[:RATIO[:LEVEL0_RUNS[:MOVEMENT]]][:base=BYTES]  lazy[:RATIO]
  unified[:W…][:table=BYTES][:shards=N]  window[:SECONDS[:MIN_RUNS]]  fifo[:BYTES[:SECONDS]]
  where MOVEMENT is lo+1, lo+2, rr, cold, old or tsd";

/// The names of the options that can be [`set`].
pub const NAMES: [&str; 7] =
    ["policy", "compression", "filter", "block_size", "table_size", "memtable_size", "tombstone_age_secs"];

/// Names of movements.
const MOVEMENTS: [(Movement, &str); 6] = [
    (Movement::LeastOverlap, "lo+1"),
    (Movement::LeastOverlapBelow, "lo+2"),
    (Movement::RoundRobin, "rr"),
    (Movement::Coldest, "cold"),
    (Movement::Oldest, "old"),
    (Movement::Tombstones, "tsd"),
];

const CODECS: [(Compression, &str); 2] = [(Compression::None, "none"), (Compression::Lz4, "lz4")];

const FILTERS: [(FilterKind, &str); 3] =
    [(FilterKind::None, "none"), (FilterKind::Fuse8, "fuse8"), (FilterKind::Fuse16, "fuse16")];

/// A size with an optional unit, as `64m`, `1.5T` or `256MiB`: units are powers of 1,024.
///
/// # Errors
/// A sentence about the text.
pub fn size(text: &str) -> Result<u64, String> {
    let t = text.trim().trim_end_matches(['B', 'b', 'i']);
    let split = t.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(t.len());
    let (number, unit) = t.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return Err(format!("{text:?} has no unit that is known: k, m, g, t, p")),
    };
    let n: f64 = number.parse().map_err(|_| format!("{text:?} is no size; 64m and 1g are"))?;
    let bytes = n * (1u64 << shift) as f64;
    if (0.0..9e18).contains(&bytes) { Ok(bytes as u64) } else { Err(format!("{text:?} is too large, or below 0")) }
}

/// A size as [`size`] reads it, to the byte.
pub fn size_text(bytes: u64) -> String {
    let unit = (1..=5).rev().find(|unit| bytes > 0 && bytes.is_multiple_of(1 << (10 * unit)));
    unit.map_or_else(|| bytes.to_string(), |unit| format!("{}{}", bytes >> (10 * unit), ["k", "m", "g", "t", "p"][unit - 1]))
}

/// What a policy's text leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Unsaid {
    /// Level 1 of `Leveled` holds so many memtables of this size as the ratio or level 0 has; `None`: 256 MiB.
    pub memtable: Option<u64>,
    /// The aim for a table under `Unified`.
    pub target_table: u64,
    /// Shards under `Unified`.
    pub base_shards: u32,
}

const LEVEL_1: u64 = 256 << 20;

impl Default for Unsaid {
    fn default() -> Unsaid {
        Unsaid { memtable: None, target_table: 64 << 20, base_shards: 4 }
    }
}

/// The parameters of a policy: by place, and by name.
struct Given<'a> {
    of: &'a str,
    placed: Vec<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> Given<'a> {
    /// At most so many by place, and these by name.
    fn check(&self, most: usize, names: &[&str]) -> Result<(), String> {
        if self.placed.len() > most {
            return Err(format!("{} takes at most {most} parameters", self.of));
        }
        match self.named.iter().find(|(name, _)| !names.contains(name)) {
            Some((name, _)) => Err(format!("{} has no parameter {name:?}", self.of)),
            None => Ok(()),
        }
    }

    fn at<T: std::str::FromStr>(&self, i: usize, default: T) -> Result<T, String> {
        self.placed.get(i).map_or(Ok(default), |p| p.parse().map_err(|_| format!("{p:?} is no fitting number")))
    }

    fn named(&self, name: &str) -> Option<&'a str> {
        self.named.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
}

/// The movement of this name.
pub fn movement(name: &str) -> Option<Movement> {
    MOVEMENTS.iter().find(|(_, n)| *n == name).map(|(m, _)| *m)
}

/// A policy with its parameters behind colons; `None` where no policy has the name. Bounds are not checked.
///
/// # Errors
/// A sentence about the parameters.
pub fn policy(text: &str, unsaid: &Unsaid) -> Result<Option<Policy>, String> {
    let mut parts = text.split([':', ',']);
    let of = parts.next().unwrap_or_default();
    let (named, placed): (Vec<&str>, Vec<&str>) = parts.partition(|p| p.contains('='));
    let given = Given { of, placed, named: named.iter().filter_map(|p| p.split_once('=')).collect() };
    Ok(Some(match of {
        "tiered" => {
            given.check(3, &[])?;
            let min_runs = given.at(0, 3)?;
            Policy::Tiered { min_runs, max_runs: given.at(1, 32.max(min_runs))?, bucket: given.at(2, 3.0)? }
        }
        "leveled" => {
            given.check(3, &["base"])?;
            let by = |m: &&str| movement(m).ok_or_else(|| format!("no movement is called {m:?}"));
            let movement = given.placed.get(2).map_or(Ok(Movement::default()), by)?;
            leveled(given.at(0, 10)?, given.at(1, 4)?, movement, given.named("base").map(size).transpose()?, unsaid)
        }
        "lazy" => {
            given.check(1, &[])?;
            Policy::LazyLeveled { ratio: given.at(0, 4)? }
        }
        "unified" => {
            given.check(32, &["table", "shards"])?;
            let scaling: Result<Vec<i32>, String> = (0..given.placed.len()).map(|i| given.at(i, 0)).collect();
            let shards = given.named("shards").map(|n| n.parse().map_err(|_| format!("{n:?} is no fitting number")));
            Policy::Unified {
                scaling: Some(scaling?).filter(|s| !s.is_empty()).unwrap_or_else(|| vec![2]),
                target_table: given.named("table").map_or(Ok(unsaid.target_table), size)?,
                base_shards: shards.transpose()?.unwrap_or(unsaid.base_shards),
            }
        }
        "window" => {
            given.check(2, &[])?;
            Policy::TimeWindow { window_secs: given.at(0, 3600)?, min_runs: given.at(1, 4)? }
        }
        "fifo" => {
            given.check(2, &[])?;
            let max_bytes = given.placed.first().map_or(Ok(1 << 30), |t| size(t))?;
            Policy::Fifo { max_bytes, max_age_secs: given.at(1, 0)? }
        }
        _ => return Ok(None),
    }))
}

/// `Leveled` with what was said of it.
pub fn leveled(ratio: u32, level0_runs: u32, movement: Movement, base: Option<u64>, unsaid: &Unsaid) -> Policy {
    // Level 1 holds what starts it, times the ratio: then every level has its share.
    let share = |memtable: u64| memtable.saturating_mul(u64::from(level0_runs.max(ratio))).max(64 << 10);
    let base = base.unwrap_or_else(|| unsaid.memtable.map_or(LEVEL_1, share));
    Policy::Leveled { level0_runs, ratio, base, movement }
}

/// A policy whose bounds hold, as `firn` takes it.
///
/// # Errors
/// A sentence about the text.
pub fn checked_policy(text: &str) -> Result<Policy, String> {
    let policy = policy(text, &Unsaid::default())?
        .ok_or_else(|| format!("no policy is called {text:?}; there are tiered, leveled, lazy, unified, window and fifo"))?;
    let options = TreeOptions { policy: policy.clone(), ..TreeOptions::default() };
    options.check().map_err(|e| e.message().to_owned())?;
    Ok(policy)
}

fn name_of<T: PartialEq>(names: &[(T, &'static str)], of: &T) -> &'static str {
    names.iter().find(|(t, _)| t == of).map_or("?", |(_, name)| name)
}

/// A policy as [`checked_policy`] reads it.
pub fn policy_text(policy: &Policy) -> String {
    let unsaid = Unsaid::default();
    fn unless<T: PartialEq + Copy>(value: T, default: T, show: impl Fn(T) -> String) -> String {
        if value == default { String::new() } else { show(value) }
    }
    match policy {
        Policy::Tiered { min_runs, max_runs, bucket } => format!("tiered:{min_runs}:{max_runs}:{bucket}"),
        Policy::Leveled { ratio, level0_runs, base, movement } => {
            let movement = unless(*movement, Movement::default(), |m| format!(":{}", name_of(&MOVEMENTS, &m)));
            let base = unless(*base, LEVEL_1, |b| format!(":base={}", size_text(b)));
            format!("leveled:{ratio}:{level0_runs}{movement}{base}")
        }
        Policy::LazyLeveled { ratio } => format!("lazy:{ratio}"),
        Policy::Unified { scaling, target_table, base_shards } => {
            let scaling: Vec<String> = scaling.iter().map(i32::to_string).collect();
            let table = unless(*target_table, unsaid.target_table, |t| format!(":table={}", size_text(t)));
            let shards = unless(*base_shards, unsaid.base_shards, |s| format!(":shards={s}"));
            format!("unified:{}{table}{shards}", scaling.join(":"))
        }
        Policy::TimeWindow { window_secs, min_runs } => format!("window:{window_secs}:{min_runs}"),
        Policy::Fifo { max_bytes, max_age_secs } => format!("fifo:{}:{max_age_secs}", size_text(*max_bytes)),
        other => format!("{other:?}"),
    }
}

/// The options of a tree but for its hooks, by name.
pub fn list(options: &TreeOptions) -> Vec<(&'static str, String)> {
    fn levels<T: PartialEq>(names: &[(T, &'static str)], of: &[T]) -> String {
        of.iter().map(|t| name_of(names, t)).collect::<Vec<_>>().join(",")
    }
    let values = [
        policy_text(&options.policy),
        levels(&CODECS, &options.compression),
        levels(&FILTERS, &options.filter),
        size_text(options.block_size as u64),
        size_text(options.table_size),
        size_text(options.memtable_size as u64),
        options.tombstone_age_secs.to_string(),
    ];
    NAMES.into_iter().zip(values).collect()
}

/// Of [`list`] what is not as it is by default, policies aside.
pub fn unusual(options: &TreeOptions) -> Vec<(&'static str, String)> {
    let default = list(&TreeOptions::default());
    let pairs = list(options).into_iter().zip(default);
    pairs.filter(|(one, usual)| one.0 != "policy" && one.1 != usual.1).map(|(one, _)| one).collect()
}

/// Puts the value of a text into the option of this name. Bounds are those of [`TreeOptions::check`].
///
/// # Errors
/// A sentence about the name or the text.
pub fn set(options: &mut TreeOptions, name: &str, text: &str) -> Result<(), String> {
    fn levels<T: Copy>(names: &[(T, &'static str)], text: &str) -> Result<Vec<T>, String> {
        let one = |word: &str| {
            let found = names.iter().find(|(_, name)| name.eq_ignore_ascii_case(word.trim()));
            let all = || names.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
            found.map(|(t, _)| *t).ok_or_else(|| format!("{word:?} is none of {}", all()))
        };
        text.split(',').map(one).collect()
    }
    let told = |why: &dyn Display| format!("{name}: {why}");
    let in_memory = |text: &str| size(text).and_then(|n| usize::try_from(n).map_err(|_| format!("{text:?} is too large")));
    match name {
        "policy" => options.policy = checked_policy(text).map_err(|e| told(&e))?,
        "compression" => options.compression = levels(&CODECS, text).map_err(|e| told(&e))?,
        "filter" => options.filter = levels(&FILTERS, text).map_err(|e| told(&e))?,
        "block_size" => options.block_size = in_memory(text).map_err(|e| told(&e))?,
        "table_size" => options.table_size = size(text).map_err(|e| told(&e))?,
        "memtable_size" => options.memtable_size = in_memory(text).map_err(|e| told(&e))?,
        "tombstone_age_secs" => options.tombstone_age_secs = text.trim().parse().map_err(|e| told(&e))?,
        _ => return Err(format!("no option is called {name:?}; there are {}", NAMES.join(", "))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_or_say_why_not() {
        let sizes = ["64m", "1GiB", "512", "4kb", "1.5KiB", "1P", "64M"].map(|t| size(t).unwrap());
        assert_eq!(sizes, [64 << 20, 1 << 30, 512, 4096, 1536, 1 << 50, 64 << 20]);
        for bad in ["m", "1x", "99999999t", "", "-1", "1.2.3"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bytes in [0, 1, 1023, 1024, 4032, 64 << 20, 3 << 40, 5 << 50, u64::from(u32::MAX)] {
            assert_eq!(size(&size_text(bytes)), Ok(bytes), "{}", size_text(bytes));
        }
    }

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        assert_eq!(checked_policy("tiered"), Ok(Policy::default()));
        assert_eq!(checked_policy("lazy:6"), Ok(Policy::LazyLeveled { ratio: 6 }));
        assert_eq!(checked_policy("fifo:1m:60"), Ok(Policy::Fifo { max_bytes: 1 << 20, max_age_secs: 60 }));
        let texts = [
            "tiered:3:9:1.5",
            "leveled:8:2",
            "leveled:8:2:cold",
            "leveled:8:2:base=64m",
            "leveled:8:2:tsd:base=1g",
            "lazy:5",
            "unified:4:-2",
            "unified:0:table=16m:shards=1",
            "window:60:4",
            "fifo:1m:60",
        ];
        for text in texts {
            assert_eq!(policy_text(&checked_policy(text).unwrap()), text);
        }
        for bad in ["", "tired", "lazy:1", "lazy:2:3", "unified:x", "window:0", "lazy:2:base=1", "leveled:4:4:up"] {
            assert!(checked_policy(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_are_set_as_they_are_listed() {
        let mut options = TreeOptions::default();
        assert_eq!(unusual(&options), []);
        let values = ["lazy:8", "none,lz4", "fuse16,fuse8,none", "8k", "32m", "1m", "3600"].into_iter().map(str::to_owned);
        let all: Vec<_> = NAMES.into_iter().zip(values).collect();
        for (name, value) in &all {
            set(&mut options, name, value).unwrap();
        }
        assert_eq!(list(&options), all);
        assert_eq!(unusual(&options), all[1..]);
        for (name, value, why) in [
            ("policy", "lazy:1", "ratio"),
            ("compression", "zip", "none, lz4"),
            ("filter", "fuse9", "fuse8"),
            ("block_size", "big", "no unit"),
            ("tombstone_age_secs", "1h", "tombstone_age_secs"),
            ("size", "1", "block_size"),
        ] {
            let refused = set(&mut options, name, value).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
