//! The store and tree options of a command line, and their text form.
//!
//! Invariant: [`set`] reads the output of [`list`] back unchanged.
//!
//! | option | values |
//! |---|---|
//!  `policy` | a policy's text, see [`Policy`](firn_kv::Policy) |
//! | `compression` | `none`, `lz4`, `zstd`; for each level, separated by commas; the last repeats |
//! | `filter` | `none`, `fuse8`, `fuse16`; in the same way |
//! | `filter_allocation` | `by-level`, `monkey` |
//! | `block_size`, `table_size`, `memtable_size` | bytes, as `64m` |
//! | `tombstone_age_secs` | seconds; 0 for no bound |
//! | `blob_threshold` | size of the smallest value in a blob file, as `4k`; 0 for none |
//! | `blob_gc_percent` | percent |

use std::fmt::Display;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
pub use firn_kv::policy::{size, size_text};
use firn_kv::{Compression, Durability, FilterAllocation, FilterKind, TreeOptions};

use crate::output::{Color, Style};

/// Parses a size per second, as `50m` or `50m/s`.
///
/// # Errors
/// A sentence about the text.
pub fn size_per_second(text: &str) -> Result<u64, String> {
    size(text.strip_suffix("/s").unwrap_or(text))
}

/// Heading of such options in help texts.
pub const EVERYWHERE: &str = "Options of every command";

/// Arguments of every command on a store.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// Directory of the store
    #[arg(long, visible_alias = "dir", global = true, help_heading = EVERYWHERE, value_name = "DIR", default_value = DEFAULT_STORE)]
    pub db: PathBuf,
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: Color,
}

/// Default directory of the store.
pub const DEFAULT_STORE: &str = "firn-data";

impl StoreArgs {
    /// Returns the colours to use.
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

/// Names of the options for [`set`].
pub const NAMES: [&str; 10] = [
    "policy",
    "compression",
    "filter",
    "filter_allocation",
    "block_size",
    "table_size",
    "memtable_size",
    "tombstone_age_secs",
    "blob_threshold",
    "blob_gc_percent",
];

const CODECS: [(Compression, &str); 3] =
    [(Compression::None, "none"), (Compression::Lz4, "lz4"), (Compression::Zstd, "zstd")];

const FILTERS: [(FilterKind, &str); 3] =
    [(FilterKind::None, "none"), (FilterKind::Fuse8, "fuse8"), (FilterKind::Fuse16, "fuse16")];

/// [`FilterAllocation`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allocation {
    /// Same filter for each table of a level
    ByLevel,
    /// More bits per key for small runs, fewer for the largest, with the same memory
    Monkey,
}

impl From<Allocation> for FilterAllocation {
    fn from(a: Allocation) -> FilterAllocation {
        match a {
            Allocation::ByLevel => FilterAllocation::ByLevel,
            Allocation::Monkey => FilterAllocation::Monkey,
        }
    }
}

const ALLOCATIONS: [(FilterAllocation, &str); 2] =
    [(FilterAllocation::ByLevel, "by-level"), (FilterAllocation::Monkey, "monkey")];

fn name_of<T: PartialEq>(names: &[(T, &'static str)], of: &T) -> &'static str {
    names.iter().find(|(t, _)| t == of).map_or("?", |(_, name)| name)
}

/// Returns the name of an allocation for [`set`].
pub fn allocation_name(of: FilterAllocation) -> &'static str {
    name_of(&ALLOCATIONS, &of)
}

/// Returns the options of a tree, except its hooks, by name.
pub fn list(options: &TreeOptions) -> Vec<(&'static str, String)> {
    fn levels<T: PartialEq>(names: &[(T, &'static str)], of: &[T]) -> String {
        of.iter().map(|t| name_of(names, t)).collect::<Vec<_>>().join(",")
    }
    let values = [
        options.policy.to_string(),
        levels(&CODECS, &options.compression),
        levels(&FILTERS, &options.filter),
        allocation_name(options.filter_allocation).to_owned(),
        size_text(options.block_size as u64),
        size_text(options.table_size),
        size_text(options.memtable_size as u64),
        options.tombstone_age_secs.to_string(),
        size_text(options.blob_threshold as u64),
        options.blob_gc_percent.to_string(),
    ];
    NAMES.into_iter().zip(values).collect()
}

/// Returns the options of [`list`] that differ from the default, except the policy.
pub fn unusual(options: &TreeOptions) -> Vec<(&'static str, String)> {
    let default = list(&TreeOptions::default());
    let pairs = list(options).into_iter().zip(default);
    pairs.filter(|(one, usual)| one.0 != "policy" && one.1 != usual.1).map(|(one, _)| one).collect()
}

/// Sets the option of this name from a text. [`TreeOptions::check`] checks the bounds.
///
/// # Errors
/// A sentence about the name or the text.
pub fn set(options: &mut TreeOptions, name: &str, text: &str) -> Result<(), String> {
    fn named<T: Copy>(names: &[(T, &'static str)], word: &str) -> Result<T, String> {
        let found = names.iter().find(|(_, name)| name.eq_ignore_ascii_case(word.trim()));
        let all = || names.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        found.map(|(t, _)| *t).ok_or_else(|| format!("{word:?} is none of {}", all()))
    }
    fn levels<T: Copy>(names: &[(T, &'static str)], text: &str) -> Result<Vec<T>, String> {
        text.split(',').map(|word| named(names, word)).collect()
    }
    let told = |why: &dyn Display| format!("{name}: {why}");
    let in_memory = |text: &str| {
        size(text).and_then(|n| usize::try_from(n).map_err(|_| format!("{text:?} is too large")))
    };
    match name {
        "policy" => options.policy = text.parse().map_err(|e| told(&e))?,
        "compression" => options.compression = levels(&CODECS, text).map_err(|e| told(&e))?,
        "filter" => options.filter = levels(&FILTERS, text).map_err(|e| told(&e))?,
        "filter_allocation" => {
            options.filter_allocation = named(&ALLOCATIONS, text).map_err(|e| told(&e))?
        }
        "block_size" => options.block_size = in_memory(text).map_err(|e| told(&e))?,
        "table_size" => options.table_size = size(text).map_err(|e| told(&e))?,
        "memtable_size" => options.memtable_size = in_memory(text).map_err(|e| told(&e))?,
        "tombstone_age_secs" => {
            options.tombstone_age_secs = text.trim().parse().map_err(|e| told(&e))?
        }
        "blob_threshold" => options.blob_threshold = in_memory(text).map_err(|e| told(&e))?,
        "blob_gc_percent" => options.blob_gc_percent = text.trim().parse().map_err(|e| told(&e))?,
        _ => return Err(format!("no option is called {name:?}; there are {}", NAMES.join(", "))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_several_spellings_and_one_printed_form() {
        for text in ["256m", "256M", "256MB", "256MiB", "268435456"] {
            assert_eq!(size(text), Ok(256 << 20), "{text}");
        }
        assert_eq!((size_text(256 << 20).as_str(), size_per_second("1k/s")), ("256m", Ok(1024)));
    }

    #[test]
    fn options_are_set_as_they_are_listed() {
        let mut options = TreeOptions::default();
        assert_eq!(unusual(&options), []);
        let values = [
            "lazy-leveled:ratio=8",
            "none,lz4",
            "fuse16,fuse8,none",
            "monkey",
            "8k",
            "32m",
            "1m",
            "3600",
            "4k",
            "50",
        ]
        .into_iter()
        .map(str::to_owned);
        let all: Vec<_> = NAMES.into_iter().zip(values).collect();
        for (name, value) in &all {
            set(&mut options, name, value).unwrap();
        }
        assert_eq!(list(&options), all);
        assert_eq!(unusual(&options), all[1..]);
        for (name, value, why) in [
            ("policy", "lazy-leveled:1", "ratio is 1; it must be 2 to 64"),
            ("compression", "zip", "none, lz4, zstd"),
            ("filter", "fuse9", "fuse8"),
            ("filter_allocation", "fair", "monkey"),
            ("block_size", "big", "no unit"),
            ("tombstone_age_secs", "1h", "tombstone_age_secs"),
            ("size", "1", "block_size"),
        ] {
            let refused = set(&mut options, name, value).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
