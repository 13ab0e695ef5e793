//! Policies by name: the engine's own, as `firn bench` names them, and the ten strategies of the VLDB'21 paper on the design space of
//! compactions (Sarkar, Staratzis, Zhu, Athanassoulis), expressed in the engine's policies.
//!
//! | strategy | trigger | layout | granularity | movement | here |
//! |---|---|---|---|---|---|
//! | `full` | level size | leveled | levels | - | `Unified`, all levels leveled |
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
//! *Coldest* goes by writes: the engine keeps no count of reads per table. Round robin keeps no cursor: it goes on behind what was written
//! last in the next level.

use firn_kv::{Movement, Policy, TreeOptions};
use firn_tools::options::{self, Unsaid};

/// The ten strategies, in the paper's order.
pub const STRATEGIES: [&str; 10] = ["full", "lo+1", "cold", "old", "tsd", "rr", "lo+2", "tsa", "tier", "1-lvl"];

/// For help texts.
pub const SYNTAX: &str = "\
tiered[:MIN[:MAX[:BUCKET]]]  leveled[:RATIO[:LEVEL0[:MOVEMENT]]][:base=BYTES]  lazy[:RATIO]  window[:SECS[:MIN]]
  unified[:W...][:table=BYTES][:shards=N]  fifo[:BYTES[:SECS]]; and the strategies of the VLDB'21 design space, each with [:RATIO]:
  full lo+1 cold old tsd rr lo+2 tsa tier 1-lvl. MOVEMENT is one of lo+1, lo+2, rr, cold, old, tsd";

/// A policy with what else it sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// As the user wrote it.
    pub name: String,
    /// The engine's policy.
    pub policy: Policy,
    /// Whether the age of deletes is to be bounded though the tree does not say so.
    pub ages: bool,
}

/// Reads a policy; sizes that it needs come from `of`.
///
/// # Errors
/// A sentence about the text.
pub fn parse(text: &str, of: &TreeOptions) -> Result<Named, String> {
    let unsaid = Unsaid { memtable: Some(of.memtable_size as u64), target_table: of.table_size.max(64 << 10), base_shards: 1 };
    let policy = match options::policy(text, &unsaid)? {
        Some(policy) => policy,
        None => strategy(text, &unsaid)?,
    };
    let checked = TreeOptions { policy: policy.clone(), ..of.clone() };
    checked.check().map_err(|e| e.message().to_owned())?;
    Ok(Named { name: text.to_owned(), policy, ages: text.split(':').next() == Some("tsa") })
}

/// One of the ten, with its ratio behind a colon.
fn strategy(text: &str, unsaid: &Unsaid) -> Result<Policy, String> {
    let (name, ratio) = text.split_once(':').map_or((text, None), |(name, ratio)| (name, Some(ratio)));
    let number = |t: &str| t.parse::<u32>().ok().filter(|r| *r <= 64).ok_or_else(|| format!("{t:?} is no fitting number"));
    let ratio = ratio.map_or(Ok(10), number)?;
    let scaling =
        |w: i32| Policy::Unified { scaling: vec![w], target_table: unsaid.target_table, base_shards: unsaid.base_shards };
    let movement = match name {
        "full" => return Ok(scaling(2 - ratio as i32)),
        "tier" => return Ok(scaling(ratio as i32 - 2)),
        "tsa" | "1-lvl" => Some(Movement::LeastOverlap),
        other => options::movement(other),
    };
    let movement = movement.ok_or_else(|| format!("no policy is called {name:?}; there are\n  {SYNTAX}"))?;
    Ok(options::leveled(ratio, if name == "1-lvl" { ratio } else { 1 }, movement, None, unsaid))
}

/// A number with an optional unit of thousands, as `5M` or `1e9`.
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

/// Reads a policy from the words of the event log, which are the engine's own for debugging: a name and `field: value` pairs.
pub fn from_log(text: &str) -> Option<Policy> {
    let (name, rest) = text.split_once(" {")?;
    let field = |key: &str| -> Option<&str> {
        let from = rest.find(&format!(" {key}: "))? + key.len() + 3;
        let value = &rest[from..];
        let end = if value.starts_with('[') { value.find(']')? + 1 } else { value.find([',', '}'])? };
        Some(value[..end].trim())
    };
    fn get<T: std::str::FromStr>(v: Option<&str>) -> Option<T> {
        v?.parse().ok()
    }
    Some(match name {
        "Tiered" => Policy::Tiered {
            min_runs: get(field("min_runs"))?,
            max_runs: get(field("max_runs"))?,
            bucket: get(field("bucket"))?,
        },
        "Leveled" => Policy::Leveled {
            level0_runs: get(field("level0_runs"))?,
            ratio: get(field("ratio"))?,
            base: get(field("base"))?,
            movement: Movement::ALL.into_iter().find(|m| Some(format!("{m:?}").as_str()) == field("movement"))?,
        },
        "LazyLeveled" => Policy::LazyLeveled { ratio: get(field("ratio"))? },
        "Unified" => {
            let list = field("scaling")?.trim_matches(['[', ']']);
            Policy::Unified {
                scaling: list.split(',').map(|w| w.trim().parse().ok()).collect::<Option<_>>()?,
                target_table: get(field("target_table"))?,
                base_shards: get(field("base_shards"))?,
            }
        }
        "TimeWindow" => Policy::TimeWindow { window_secs: get(field("window_secs"))?, min_runs: get(field("min_runs"))? },
        "Fifo" => Policy::Fifo { max_bytes: get(field("max_bytes"))?, max_age_secs: get(field("max_age_secs"))? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_policy_and_comes_back_from_the_log() {
        let options = TreeOptions::default();
        let others = ["tiered:4:8:1.5", "leveled:8:2:old", "lazy", "unified:2:-8:0", "window:60:4", "fifo:1G:60"];
        for name in STRATEGIES.iter().chain(&others) {
            let named = parse(name, &options).unwrap();
            assert_eq!(from_log(&format!("{:?}", named.policy)), Some(named.policy), "{name}");
        }
        for wrong in ["", "lo+3", "lazy:1", "lazy:2:2", "leveled:4:4:up", "tier:x"] {
            assert!(parse(wrong, &options).is_err(), "{wrong}");
        }
        assert_eq!(from_log("Nothing { a: 1 }"), None);
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!([number("5M"), number("1e12"), number("7")], [Ok(5_000_000), Ok(1_000_000_000_000), Ok(7)]);
        assert!(number("").is_err() && number("-1").is_err());
    }
}
