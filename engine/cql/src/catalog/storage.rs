//! Converts the storage options of a table in `WITH` to options of the engine (model 5.2).
//!
//! | class | policy of the tree |
//! |---|---|
//! | `SizeTieredCompactionStrategy` | `Tiered`: `min_threshold`, `max_threshold`, `bucket_high`; with Cassandra's defaults (4, 32, 1.5) the engine's own |
//! | `LeveledCompactionStrategy` | `Leveled`: `fanout_size`; tables of `sstable_size_in_mb`, `fanout_size` of them in level 1 |
//! | `TimeWindowCompactionStrategy` | `TimeWindow`: `compaction_window_unit` times `compaction_window_size`, `min_threshold` |
//! | `UnifiedCompactionStrategy` | `Unified`: `scaling_parameters`, `target_sstable_size`, `base_shard_count` |
//! | `IncrementalCompactionStrategy`, ScyllaDB's | `Incremental`: `min_threshold`, `max_threshold`, `bucket_high`, `space_amplification_goal`; tables of `sstable_size_in_mb` |
//! | others | the engine's default |
//!
//! Disabled compression, or `NoopCompressor`, stores blocks uncompressed; every other compressor
//! means LZ4. A `bloom_filter_fp_chance` of 1 means no filter, below 0.0039 the larger one.
//! `gc_grace_seconds` is used by the store. Other options are only stored and shown.
//!
//! Invariant: for any stored options, the resulting engine options are within the engine's bounds.

use std::collections::BTreeMap;

use firn_kv::policy::{Incremental, TimeWindow, Unified};
use firn_kv::{Policy, TreeOptions};
use firn_wide::internals::schema;

use crate::error::{Error, Result, configuration};

type OptionMap = BTreeMap<String, String>;

/// Options that every strategy accepts.
const COMMON: [&str; 12] = [
    "class",
    "enabled",
    "tombstone_threshold",
    "tombstone_compaction_interval",
    "unchecked_tombstone_compaction",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "log_all",
    "log",
    "min_threshold",
    "max_threshold",
    "parallelize_output_subranges",
];
const SIZE_TIERED: [&str; 3] = ["min_sstable_size", "bucket_low", "bucket_high"];
/// Options of 2.x strategies that later releases do not support.
const OLD_COMPACTION: [&str; 1] = ["cold_reads_to_omit"];
const LEVELED: [&str; 3] = ["sstable_size_in_mb", "fanout_size", "single_sstable_uplevel"];
const INCREMENTAL: [&str; 5] = [
    "sstable_size_in_mb",
    "space_amplification_goal",
    "min_sstable_size",
    "bucket_low",
    "bucket_high",
];
const TIME_WINDOW: [&str; 5] = [
    "compaction_window_unit",
    "compaction_window_size",
    "timestamp_resolution",
    "expired_sstable_check_frequency_seconds",
    "unsafe_aggressive_sstable_expiration",
];
const UNIFIED: [&str; 10] = [
    "scaling_parameters",
    "target_sstable_size",
    "min_sstable_size",
    "base_shard_count",
    "sstable_growth",
    "max_sstables_to_compact",
    "overlap_inclusion_method",
    "expired_sstable_check_frequency_seconds",
    "unsafe_aggressive_sstable_expiration",
    "flush_size_override",
];

pub(super) fn class(map: &OptionMap) -> &str {
    map.get("class").and_then(|c| c.rsplit('.').next()).unwrap_or_default()
}

/// Returns the integer value of an option, or the default if it is not set. Refuses values that are
/// not integers or out of bounds.
fn number(map: &OptionMap, name: &str, default: u64, least: u64) -> Result<u64> {
    let Some(text) = map.get(name) else { return Ok(default) };
    let n: i64 = text
        .parse()
        .map_err(|_| configuration!("{text} is not a parsable int (base10) for {name}"))?;
    match u64::try_from(n) {
        Ok(n) if n >= least => Ok(n),
        _ => Err(configuration!("{name} must be at least {least}, but was {n}")),
    }
}

fn thresholds(map: &OptionMap) -> Result<(u32, u32)> {
    let threshold = |name: &str, default: i32| match map.get(name) {
        None => Ok(default),
        Some(text) => text.parse::<i32>().map_err(|_| {
            configuration!(
                "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
            )
        }),
    };
    let (min, max) = (threshold("min_threshold", 4)?, threshold("max_threshold", 32)?);
    if min <= 0 || max <= 0 {
        return Err(configuration(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option 'enabled' to \
             false instead.",
        ));
    }
    if min < 2 {
        return Err(configuration!("Min compaction threshold cannot be less than 2 (got {min})"));
    }
    if min > max {
        let words = "cannot be greater than max compaction threshold";
        return Err(configuration!("Min compaction threshold (got {min}) {words} (got {max})"));
    }
    Ok((min.unsigned_abs(), max.unsigned_abs()))
}

/// Returns the fractional value of an option, or the default if it is not set.
fn factor(map: &OptionMap, name: &str, default: f64) -> Result<f64> {
    match map.get(name).map(|t| (t, t.parse::<f64>())) {
        None => Ok(default),
        Some((_, Ok(n))) if n.is_finite() => Ok(n),
        Some((text, _)) => Err(configuration!("{text} is not a parsable double for {name}")),
    }
}

/// Returns the factor over the average size up to which a table belongs to a bucket.
fn bucket_high(map: &OptionMap) -> Result<f64> {
    let (low, high) = (factor(map, "bucket_low", 0.5)?, factor(map, "bucket_high", 1.5)?);
    if high <= low {
        let words = "is less than or equal to the bucket_low value";
        return Err(configuration!("bucket_high value ({high}) {words} ({low})"));
    }
    Ok(high)
}

fn size_tiered(map: &OptionMap) -> Result<Policy> {
    let (min, max) = thresholds(map)?;
    Ok(schema::size_tiered(min, max, bucket_high(map)?))
}

/// Returns the policy, and the table size in bytes.
fn incremental(map: &OptionMap) -> Result<(Policy, u64)> {
    let (min_runs, max_runs) = thresholds(map)?;
    let usual = Incremental::default();
    // The engine's own default is better than Cassandra's.
    let high = bucket_high(map)?;
    let bucket = if map.contains_key("bucket_high") { high } else { usual.bucket };
    let goal = factor(map, "space_amplification_goal", usual.goal)?;
    if map.contains_key("space_amplification_goal") && !(goal > 1.0 && goal <= 2.0) {
        return Err(configuration!(
            "space_amplification_goal must be greater than 1 and at most 2, but was {goal}"
        ));
    }
    let size = number(map, "sstable_size_in_mb", 1000, 1)?.saturating_mul(1 << 20);
    let policy = Incremental { min_runs, max_runs, bucket, goal, ..Incremental::default() };
    Ok((Policy::from(policy).clamped(), size.min(1 << 40)))
}

/// Returns the policy, and the table size in bytes.
fn leveled(map: &OptionMap) -> Result<(Policy, u64)> {
    thresholds(map)?;
    Ok(schema::leveled(
        number(map, "sstable_size_in_mb", 160, 1)?,
        number(map, "fanout_size", 10, 1)?,
    ))
}

fn time_window(map: &OptionMap) -> Result<Policy> {
    let (min, _) = thresholds(map)?;
    let unit = map.get("compaction_window_unit").map_or("DAYS", String::as_str);
    let secs = match unit {
        "MINUTES" => 60,
        "HOURS" => 3600,
        "DAYS" => 86_400,
        _ => return Err(configuration!("{unit} is not valid for compaction_window_unit")),
    };
    let size = number(map, "compaction_window_size", 1, 1)?;
    Ok(Policy::from(TimeWindow {
        window_secs: size.saturating_mul(secs),
        min_runs: min,
        ..TimeWindow::default()
    })
    .clamped())
}

/// Parses `T4`, `L10`, `N` or an integer.
fn scaling(text: &str) -> Result<i32> {
    let wrong = || {
        configuration!(
            "Scaling parameter {text} must be an integer, N, or L or T followed by a fan-out of at least 2"
        )
    };
    let fanout = |digits: &str| digits.parse::<i32>().ok().filter(|f| *f >= 2).ok_or_else(wrong);
    let w = match text.as_bytes().first() {
        Some(b'N') if text.len() == 1 => 0,
        Some(b'T') => fanout(&text[1..])? - 2,
        Some(b'L') => 2 - fanout(&text[1..])?,
        _ => text.parse().map_err(|_| wrong())?,
    };
    Ok(w)
}

/// Parses a size such as `512MiB` to bytes.
fn bytes(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit: u64 = match text[at..].trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let n: f64 = text[..at].parse().ok()?;
    Some((n * unit as f64) as u64)
}

fn unified(map: &OptionMap) -> Result<Policy> {
    let all = map.get("scaling_parameters").map_or("T4", String::as_str);
    let scaling = all.split(',').map(|t| scaling(t.trim())).collect::<Result<Vec<i32>>>()?;
    let target = match map.get("target_sstable_size") {
        None => 1 << 30,
        Some(text) => bytes(text).filter(|n| *n >= 1 << 20).ok_or_else(|| {
            configuration!("target_sstable_size {text} is not a size of at least 1MiB")
        })?,
    };
    let base_shards = u32::try_from(number(map, "base_shard_count", 4, 1)?).unwrap_or(u32::MAX);
    Ok(Policy::from(Unified { scaling, target_table: target, base_shards, ..Unified::default() })
        .clamped())
}

/// Sets the engine options of a compaction map.
pub(super) fn compaction(map: &OptionMap, options: &mut TreeOptions) -> Result<()> {
    match class(map) {
        "SizeTieredCompactionStrategy" => options.policy = size_tiered(map)?,
        "LeveledCompactionStrategy" => (options.policy, options.table_size) = leveled(map)?,
        "IncrementalCompactionStrategy" => (options.policy, options.table_size) = incremental(map)?,
        "TimeWindowCompactionStrategy" => options.policy = time_window(map)?,
        "UnifiedCompactionStrategy" => options.policy = unified(map)?,
        _ => {}
    }
    Ok(())
}

/// Checks a compaction map.
///
/// # Errors
/// `Configuration` for an option that its class does not accept, and for an invalid value.
pub(super) fn check_compaction(map: &OptionMap) -> Result<()> {
    let class = class(map);
    let own: &[&str] = match class {
        "SizeTieredCompactionStrategy" => &SIZE_TIERED,
        "LeveledCompactionStrategy" => &LEVELED,
        "IncrementalCompactionStrategy" => &INCREMENTAL,
        "TimeWindowCompactionStrategy" => &TIME_WINDOW,
        "UnifiedCompactionStrategy" => &UNIFIED,
        _ => return Ok(()),
    };
    let size_tiered_too =
        matches!(class, "LeveledCompactionStrategy" | "TimeWindowCompactionStrategy");
    let is_known = |name: &str| {
        COMMON.contains(&name)
            || own.contains(&name)
            || (size_tiered_too && SIZE_TIERED.contains(&name))
    };
    let unknown: Vec<&str> =
        map.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        return Err(configuration!("Properties specified [{names}] are not understood by {class}"));
    }
    check_common(map)?;
    compaction(map, &mut TreeOptions::default())
}

/// Removes the options that only 2.x had.
pub(super) fn drop_old_compaction(map: &mut OptionMap) {
    map.retain(|name, _| !OLD_COMPACTION.contains(&name.as_str()));
}

/// Checks the options common to all strategies, which have no effect here.
fn check_common(map: &OptionMap) -> Result<()> {
    let double = |name: &str| -> Result<Option<f64>> {
        let Some(text) = map.get(name) else { return Ok(None) };
        let wrong = |_| configuration!("{text} is not a parsable int (base10) for {name}");
        text.parse::<f64>().map_err(wrong).map(Some)
    };
    let must_be_positive = |name: &str, shown: String| {
        configuration!("{name} must be greater than 0, but was {shown}")
    };
    if let Some(n) = double("tombstone_threshold")?.filter(|n| *n <= 0.0) {
        return Err(must_be_positive("tombstone_threshold", format!("{n:.6}")));
    }
    if let Some(n) = double("tombstone_compaction_interval")?.filter(|n| *n < 0.0) {
        return Err(must_be_positive("tombstone_compaction_interval", format!("{n:.0}")));
    }
    let flag = |name: &str| {
        let known = |text: &&String| ["true", "false"].iter().any(|f| text.eq_ignore_ascii_case(f));
        map.get(name).filter(|text| !known(text))
    };
    for name in ["unchecked_tombstone_compaction", "only_purge_repaired_tombstones"] {
        if let Some(text) = flag(name) {
            return Err(configuration!(
                "'{name}' should be either 'true' or 'false', not '{text}'"
            ));
        }
    }
    if let Some(text) = flag("enabled") {
        return Err(configuration!("enabled should either be 'true' or 'false', not {text}"));
    }
    if let Some(n) = double("min_sstable_size")?.filter(|n| *n < 0.0)
        && class(map) == "SizeTieredCompactionStrategy"
    {
        return Err(configuration!("min_sstable_size must be non negative: {n:.0}"));
    }
    Ok(())
}

/// Checks a compression map.
///
/// # Errors
/// `Configuration` for an invalid chunk length or ratio.
pub(super) fn check_compression(map: &OptionMap) -> Result<()> {
    if let Some(ratio) = map.get("min_compress_ratio") {
        let wrong = |_| configuration("Invalid value for min_compress_ratio: it must be a number");
        match ratio.parse::<f64>().map_err(wrong)? {
            n if n < 0.0 => return Err(configuration("Invalid negative min_compress_ratio")),
            n if n > 0.0 && n < 1.0 => {
                return Err(configuration(
                    "min_compress_ratio can either be 0 or greater than or equal to 1",
                ));
            }
            _ => {}
        }
    }
    if let Some(kind) = map.get("lz4_compressor_type")
        && !matches!(&**kind, "fast" | "high")
    {
        return Err(configuration!(
            "Invalid compressor type '{kind}' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are [high, fast]."
        ));
    }
    let Some(text) = map.get("chunk_length_in_kb") else { return Ok(()) };
    let wrong = |_| -> Error {
        configuration("Invalid value for chunk_length_in_kb: it must be an integer")
    };
    match text.parse::<i32>().map_err(wrong)? {
        n if n <= 0 => Err(configuration!("Invalid negative or null chunk_length_in_kb: {n}")),
        n if n & (n - 1) != 0 => Err(configuration("chunk_length_in_kb must be a power of 2")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> OptionMap {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn whatever_is_written_is_refused_or_within_the_engines_bounds() {
        let values = [
            "0",
            "1",
            "2",
            "4",
            "33",
            "-1",
            "2147483647",
            "9223372036854775807",
            "1e9",
            "NaN",
            "x",
            "",
            "T4, L8,N,-3",
            "L1",
        ];
        let sizes = ["1MiB", "0.5GiB", "999999TiB", "1KiB", "MiB", "9", "DAYS", "MINUTES", "..MiB"];
        let classes =
            ["SizeTiered", "Leveled", "Incremental", "TimeWindow", "Unified", "DateTiered"];
        let mut taken = 0;
        for class in
            classes.map(|c| format!("org.apache.cassandra.db.compaction.{c}CompactionStrategy"))
        {
            for name in [&COMMON[..], &SIZE_TIERED, &LEVELED, &INCREMENTAL, &TIME_WINDOW, &UNIFIED]
                .concat()
                .into_iter()
                .skip(1)
            {
                for value in values.iter().chain(&sizes) {
                    let map = map(&[("class", &class), (name, value)]);
                    let mut options = TreeOptions::default();
                    if check_compaction(&map).is_ok() && compaction(&map, &mut options).is_ok() {
                        options.check().unwrap_or_else(|e| panic!("{map:?}: {e}"));
                        taken += 1;
                    }
                }
            }
        }
        assert!(taken > 500, "{taken}");
    }
}
