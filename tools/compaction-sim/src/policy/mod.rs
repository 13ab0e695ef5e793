//! Policies by name: the engine's own in its notation, and the ten strategies of the VLDB'21 paper
//! on the design space of compactions (Sarkar, Staratzis, Zhu, Athanassoulis), expressed in the
//! engine's policies.
//!
//! | strategy | trigger | layout | granularity | movement | here |
//! |---|---|---|---|---|---|
//! | `full` | level size | leveled | levels | - | `Leveled` by whole levels |
//! | `lo+1` | level size | leveled | a table | least overlap one level down | `Leveled` |
//! | `lo+2` | level size | leveled | a table | least overlap two levels down | `Leveled` |
//! | `rr` | level size | leveled | a table | round robin | `Leveled` |
//! | `cold` | level size | leveled | a table | newest entry the oldest | `Leveled` |
//! | `old` | level size | leveled | a table | oldest entry the oldest | `Leveled` |
//! | `tsd` | level size | leveled | a table | share of deletes | `Leveled` |
//! | `tsa` | level size, age of deletes | leveled | a table | expired deletes, then least overlap | `Leveled`, `tombstone_age_secs` |
//! | `tier` | runs of a level | tiered | levels | - | `Unified`, all levels tiered |
//! | `1-lvl` | runs of level 0, level size | one tiered level, then leveled | level 0; a table | least overlap | `Leveled`, level 0 of as many runs as the ratio |
//!
//! A flush is merged with level 1 at once, as in the experiments of the paper: the authors'
//! published code sets RocksDB's trigger of level 0 to one file. With more runs there, as in
//! RocksDB's own setting of four, all leveled strategies are cheaper, and `full` no more expensive
//! than the others. `compaction-sim reproduce vldb21` shows both.
//!
//! *Coldest* uses writes: the engine does not count reads per table. Round robin stores no cursor:
//! it continues after the last written range of the next level.

pub mod script;

use std::path::Path;

use firn_kv::policy::{CustomPolicy, Leveled, Movement, Unified};
use firn_kv::{Policy, TreeOptions};

use crate::policy::script::ScriptPolicy;

/// The ten strategies, in the paper's order.
pub const STRATEGIES: [&str; 10] =
    ["full", "lo+1", "cold", "old", "tsd", "rr", "lo+2", "tsa", "tier", "1-lvl"];

/// A policy with the settings that it implies.
#[derive(Clone, Debug)]
pub struct NamedPolicy {
    /// As the user wrote it.
    pub name: String,
    /// The engine's policy.
    pub policy: Policy,
    /// A custom policy, used instead.
    pub custom: Option<CustomPolicy>,
    /// Whether to bound the age of deletes although the tree's options do not.
    pub ages: bool,
}

impl NamedPolicy {
    /// Returns these options with the policy.
    pub fn set_in(&self, options: TreeOptions) -> TreeOptions {
        TreeOptions { policy: self.policy.clone(), custom_policy: self.custom.clone(), ..options }
    }
}

/// Parses a policy, a strategy or, as `script:FILE`, a script. `of` has the sizes that a strategy
/// needs.
///
/// # Errors
/// A sentence about the text.
pub fn parse(text: &str, of: &TreeOptions) -> Result<NamedPolicy, String> {
    let (name, ratio) =
        text.split_once(':').map_or((text, None), |(name, ratio)| (name, Some(ratio)));
    if let ("script", Some(path)) = (name, ratio) {
        let custom = Some(CustomPolicy::new(ScriptPolicy::of_file(Path::new(path))?));
        return Ok(NamedPolicy {
            name: text.to_owned(),
            policy: of.policy.clone(),
            custom,
            ages: false,
        });
    }
    let policy = if STRATEGIES.contains(&name) {
        strategy(name, ratio, of)?
    } else {
        text.parse().map_err(|e| {
            let strategies = STRATEGIES.join(", ");
            format!("{e}; there are the strategies {strategies} too, and script:FILE")
        })?
    };
    policy.check().map_err(|e| e.to_string())?;
    Ok(NamedPolicy { name: text.to_owned(), policy, custom: None, ages: name == "tsa" })
}

/// Returns one of the ten strategies. It uses the table size of the tree. Level 1 has as many
/// memtables as the ratio, or as level 0 has: then every level has its share.
fn strategy(name: &str, ratio: Option<&str>, of: &TreeOptions) -> Result<Policy, String> {
    let number = |t: &str| {
        t.parse::<u32>()
            .ok()
            .filter(|r| *r <= 64)
            .ok_or_else(|| format!("{t:?} is no fitting number"))
    };
    let ratio = ratio.map_or(Ok(10), number)?;
    let target_table = of.table_size.max(64 << 10);
    let movement = match name {
        "full" => Movement::WholeLevel,
        "tier" => {
            let scaling = vec![ratio as i32 - 2];
            return Ok(
                Unified { scaling, target_table, base_shards: 1, ..Unified::default() }.into()
            );
        }
        "lo+2" => Movement::LeastOverlapBelow,
        "rr" => Movement::RoundRobin,
        "cold" => Movement::Coldest,
        "old" => Movement::Oldest,
        "tsd" => Movement::Tombstones,
        _ => Movement::LeastOverlap,
    };
    let base = (of.memtable_size as u64).saturating_mul(u64::from(ratio)).max(64 << 10);
    Ok(Leveled {
        ratio,
        level0_runs: if name == "1-lvl" { ratio } else { 1 },
        base,
        movement,
        ..Leveled::default()
    }
    .into())
}

/// Reports whether a policy with this name has a size ratio: a script has none.
pub(crate) fn has_ratio(text: &str) -> bool {
    !text.starts_with("script:")
}

/// Inserts the size ratio as the first parameter of a policy: `leveled:base=1m` at 4 is
/// `leveled:4:base=1m`.
///
/// # Errors
/// If that parameter is already given by position.
pub(crate) fn at_ratio(text: &str, ratio: u32) -> Result<String, String> {
    match text.split_once(':') {
        None => Ok(format!("{text}:{ratio}")),
        Some((name, rest)) if rest.split(':').all(|parameter| parameter.contains('=')) => {
            Ok(format!("{name}:{ratio}:{rest}"))
        }
        Some(_) => Err(format!(
            "the policy {text} has its first parameter already, and the ratios are another one; \
             give later ones by name, as in leveled:base=1m"
        )),
    }
}

/// Parses a number with an optional decimal unit, as `5M` or `1e9`.
///
/// # Errors
/// A sentence about the text.
pub fn number(text: &str) -> Result<u64, String> {
    let units = [('k', 1e3), ('K', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
    let (digits, factor) = match units.iter().find(|(c, _)| text.ends_with(*c)) {
        Some((_, factor)) => (&text[..text.len() - 1], *factor),
        None => (text, 1.0),
    };
    let n: f64 = digits.parse().map_err(|_| format!("{text:?} is no number"))?;
    let n = n * factor;
    if (0.0..9e18).contains(&n) { Ok(n as u64) } else { Err(format!("{text:?} is out of bounds")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_and_the_engines_policies_have_names() {
        let options = TreeOptions::default();
        for name in STRATEGIES.into_iter().chain(Policy::ALL.iter().map(|d| d.name)) {
            let named = parse(name, &options).unwrap();
            assert_eq!(
                parse(&named.policy.to_string(), &options).unwrap().policy,
                named.policy,
                "{name}"
            );
        }
        for wrong in ["", "lo+3", "tier:x", "full:65", "rr:1"] {
            assert!(parse(wrong, &options).is_err(), "{wrong}");
        }
        assert!(
            parse("lo+3", &options).unwrap_err().contains("there are the strategies full, lo+1,")
        );
    }

    #[test]
    fn a_ratio_is_the_first_parameter_whatever_else_is_said() {
        assert_eq!(at_ratio("tiered", 4).unwrap(), "tiered:4");
        let options = TreeOptions::default();
        let text = at_ratio("leveled:base=1m:level0_runs=2", 6).unwrap();
        let Policy::Leveled(policy) = parse(&text, &options).unwrap().policy else {
            panic!("{text}")
        };
        assert_eq!((policy.ratio, policy.base, policy.level0_runs), (6, 1 << 20, 2));
        for taken in ["tiered:3", "leveled:10:base=1m", "full:4"] {
            assert!(at_ratio(taken, 4).unwrap_err().contains(taken));
        }
        assert!(!has_ratio("script:a") && has_ratio("lo+1"));
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(
            [number("5M"), number("1e12"), number("7")],
            [Ok(5_000_000), Ok(1_000_000_000_000), Ok(7)]
        );
        assert!(number("").is_err() && number("-1").is_err());
    }
}
