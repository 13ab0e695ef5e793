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

/// The ten strategies, in the paper's order.
pub const STRATEGIES: [&str; 10] = ["full", "lo+1", "cold", "old", "tsd", "rr", "lo+2", "tsa", "tier", "1-lvl"];

/// For help texts.
pub const SYNTAX: &str = "\
tiered[:MIN[:MAX[:BUCKET]]]  leveled[:RATIO[:LEVEL0[:MOVEMENT]]]  lazy[:RATIO]  unified[:W...]  window[:SECS[:MIN]]
  fifo[:BYTES[:SECS]]; and the strategies of the VLDB'21 design space, each with [:RATIO]:
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

fn movement(name: &str) -> Option<Movement> {
    Some(match name {
        "lo+1" | "tsa" | "1-lvl" => Movement::LeastOverlap,
        "lo+2" => Movement::LeastOverlapBelow,
        "rr" => Movement::RoundRobin,
        "cold" => Movement::Coldest,
        "old" => Movement::Oldest,
        "tsd" => Movement::Tombstones,
        _ => return None,
    })
}

/// Reads a policy; sizes that it needs come from `options`.
///
/// # Errors
/// A sentence about the text.
pub fn parse(text: &str, options: &TreeOptions) -> Result<Named, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let given: Vec<&str> = parts.collect();
    let most = |n: usize| if given.len() > n { Err(format!("{name} takes at most {n} parameters")) } else { Ok(()) };
    fn at<T: std::str::FromStr>(given: &[&str], i: usize, default: T) -> Result<T, String> {
        given.get(i).map_or(Ok(default), |p| p.parse().map_err(|_| format!("{p:?} is no fitting number")))
    }
    let memtable = options.memtable_size as u64;
    let leveled = |level0_runs: u32, ratio: u32, movement| {
        // Level 1 holds what starts it, times the ratio: then every level has its share.
        let base = memtable.saturating_mul(u64::from(level0_runs.max(ratio))).max(64 << 10);
        Policy::Leveled { level0_runs, ratio, base, movement }
    };
    let target_table = options.table_size.max(64 << 10);
    let policy = match name {
        "tiered" => {
            most(3)?;
            let min_runs = at(&given, 0, 3)?;
            Policy::Tiered { min_runs, max_runs: at(&given, 1, 32.max(min_runs))?, bucket: at(&given, 2, 3.0)? }
        }
        "leveled" => {
            most(3)?;
            let by =
                given.get(2).map_or(Ok(Movement::default()), |m| movement(m).ok_or(format!("no movement is called {m:?}")))?;
            leveled(at(&given, 1, 4)?, at(&given, 0, 10)?, by)
        }
        "lazy" => {
            most(1)?;
            Policy::LazyLeveled { ratio: at(&given, 0, 4)? }
        }
        "unified" => {
            let scaling: Result<Vec<i32>, String> = (0..given.len()).map(|i| at(&given, i, 0)).collect();
            let scaling = Some(scaling?).filter(|s| !s.is_empty()).unwrap_or_else(|| vec![2]);
            Policy::Unified { scaling, target_table, base_shards: 1 }
        }
        "window" => {
            most(2)?;
            Policy::TimeWindow { window_secs: at(&given, 0, 3600)?, min_runs: at(&given, 1, 4)? }
        }
        "fifo" => {
            most(2)?;
            let max_bytes = given.first().map_or(Ok(1 << 30), |t| size(t))?;
            Policy::Fifo { max_bytes, max_age_secs: at(&given, 1, 0)? }
        }
        "full" | "tier" => {
            most(1)?;
            let ratio: i32 = at(&given, 0, 10)?;
            let w = if name == "full" { 2 - ratio } else { ratio - 2 };
            Policy::Unified { scaling: vec![w], target_table, base_shards: 1 }
        }
        _ => {
            let by = movement(name).ok_or_else(|| format!("no policy is called {name:?}; there are\n  {SYNTAX}"))?;
            most(1)?;
            let ratio = at(&given, 0, 10)?;
            leveled(if name == "1-lvl" { ratio } else { 1 }, ratio, by)
        }
    };
    let checked = TreeOptions { policy: policy.clone(), ..options.clone() };
    checked.check().map_err(|e| e.message().to_owned())?;
    Ok(Named { name: text.to_owned(), policy, ages: name == "tsa" })
}

/// A size with an optional unit, as `64M` or `1.5T`.
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
        _ => return Err(format!("{text:?} has no unit that is known: K, M, G, T, P")),
    };
    let n: f64 = number.parse().map_err(|_| format!("{text:?} is no size"))?;
    let bytes = n * (1u64 << shift) as f64;
    if (0.0..9e18).contains(&bytes) { Ok(bytes as u64) } else { Err(format!("{text:?} is out of bounds")) }
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
    fn sizes_and_numbers_have_units() {
        assert_eq!([size("1"), size("64M"), size("1.5KiB"), size("1P")], [Ok(1), Ok(64 << 20), Ok(1536), Ok(1 << 50)]);
        assert_eq!([number("5M"), number("1e12"), number("7")], [Ok(5_000_000), Ok(1_000_000_000_000), Ok(7)]);
        assert!(size("x").is_err() && size("1X").is_err() && number("").is_err() && number("-1").is_err());
    }
}
