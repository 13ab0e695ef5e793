//! Rules for definitions by themselves: names, numbers, classes (model 2.10, 2.11, 6), with
//! Cassandra's texts.

use std::collections::BTreeMap;

use super::def::{CfDef, ColumnDef, IndexType, KsDef};
use crate::base::error::Result;
use crate::base::error::invalid;

/// Maximum bytes of the name of a keyspace, of a family, and of an index named by a client.
pub const MAX_NAME_LEN: usize = 48;
/// Maximum TTL in seconds: 20 years.
pub const MAX_TTL: i32 = 20 * 365 * 24 * 3600;
/// Default of `min_index_interval`.
const MIN_INDEX_INTERVAL: i32 = 128;
/// Cassandra's own keyspace, which is reserved.
const RESERVED: &str = "system";

/// Replication strategies: name, and name before 0.7.
const STRATEGIES: [(&str, Option<&str>); 4] = [
    ("SimpleStrategy", Some("RackUnawareStrategy")),
    ("OldNetworkTopologyStrategy", Some("RackAwareStrategy")),
    ("NetworkTopologyStrategy", Some("DatacenterShardStrategy")),
    ("LocalStrategy", None),
];
const COMPACTIONS: [&str; 2] = ["SizeTieredCompactionStrategy", "LeveledCompactionStrategy"];
const COMPRESSORS: [&str; 3] = ["SnappyCompressor", "DeflateCompressor", "LZ4Compressor"];
const CACHING: [&str; 4] = ["ALL", "KEYS_ONLY", "ROWS_ONLY", "NONE"];

/// Reports whether a name consists of letters, digits and underscores, at least one.
pub fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if is_word(name) && name.len() <= MAX_NAME_LEN {
        return Ok(());
    }
    Err(invalid(format!(
        "{what} name must not be empty, more than {MAX_NAME_LEN} characters long, or contain non-alphanumeric-underscore \
         characters (got \"{name}\")"
    )))
}

/// Refuses changes of Cassandra's own keyspace.
pub fn check_modifiable(keyspace: &str) -> Result<()> {
    if keyspace.eq_ignore_ascii_case(RESERVED) {
        return Err(invalid("system keyspace is not user-modifiable."));
    }
    Ok(())
}

/// Refuses a name that equals one of the `existing` keyspace names, ignoring case.
pub fn check_unique<'a>(keyspace: &str, existing: impl Iterator<Item = &'a str>) -> Result<()> {
    for other in existing.chain([RESERVED]) {
        if other.eq_ignore_ascii_case(keyspace) {
            return Err(invalid(format!(
                "Keyspace names must be case-insensitively unique (\"{keyspace}\" conflicts with \"{other}\")"
            )));
        }
    }
    Ok(())
}

/// Returns the full name of a class of this package, if it is one of the known ones.
fn class(package: &str, known: &[&str], name: &str) -> Option<String> {
    let short = name.strip_prefix(package).unwrap_or(name);
    known.contains(&short).then(|| format!("{package}{short}"))
}

fn full_name(package: &str, name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{package}{name}") }
}

/// Validates the attributes of a keyspace; returns the strategy's full class name.
pub fn check_keyspace(def: &KsDef) -> Result<String> {
    const PACKAGE: &str = "org.apache.cassandra.locator.";
    check_name("Keyspace", &def.name)?;
    let given = def.strategy_class.strip_prefix(PACKAGE).unwrap_or(&def.strategy_class);
    let Some((strategy, _)) =
        STRATEGIES.iter().find(|(name, old)| *name == given || *old == Some(given))
    else {
        let name = full_name(PACKAGE, &def.strategy_class);
        return Err(invalid(format!("Unable to find replication strategy class '{name}'")));
    };
    const FACTOR: &str = "replication_factor";
    match *strategy {
        "NetworkTopologyStrategy" => {
            if def.strategy_options.contains_key(FACTOR) {
                return Err(invalid(
                    "replication_factor is an option for SimpleStrategy, not NetworkTopologyStrategy",
                ));
            }
            def.strategy_options.values().try_for_each(|v| check_factor(v))?;
        }
        "LocalStrategy" => {}
        _ => match def.strategy_options.get(FACTOR) {
            Some(factor) => check_factor(factor)?,
            None => {
                return Err(invalid(format!(
                    "{strategy} requires a replication_factor strategy option."
                )));
            }
        },
    }
    Ok(format!("{PACKAGE}{strategy}"))
}

fn check_factor(text: &str) -> Result<()> {
    match text.trim().parse::<i32>() {
        Ok(factor) if factor >= 0 => Ok(()),
        Ok(factor) => {
            Err(invalid(format!("Replication factor must be non-negative; found {factor}")))
        }
        Err(_) => Err(invalid(format!("Replication factor must be numeric; found {text}"))),
    }
}

/// Refuses the strategy of Cassandra's own keyspaces in a new definition.
pub fn check_strategy_of_clients(def: &KsDef) -> Result<()> {
    if def.strategy_class.rsplit('.').next() == Some("LocalStrategy") {
        return Err(invalid(
            "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
        ));
    }
    Ok(())
}

/// Validates a family's name, numbers and classes, and writes the classes in full.
pub fn check_attributes(def: &mut CfDef) -> Result<()> {
    check_name("ColumnFamily", &def.name)?;
    if def.gc_grace_seconds < 0 {
        return Err(invalid(format!(
            "gc_grace_seconds must not be negative (got {})",
            def.gc_grace_seconds
        )));
    }
    check_chance("read_repair_chance", def.read_repair_chance)?;
    check_chance("dclocal_read_repair_chance", def.dclocal_read_repair_chance)?;
    if let Some(chance) = def.bloom_filter_fp_chance
        && !(chance > 0.0 && chance <= 1.0)
    {
        return Err(invalid(format!(
            "bloom_filter_fp_chance must be larger than 0 and at most 1 (got {chance})"
        )));
    }
    if !CACHING.contains(&&*def.caching) {
        return Err(invalid(format!(
            "{} not found, available types: {}.",
            def.caching,
            CACHING.join(", ")
        )));
    }
    if let Some(alias) = &def.key_alias
        && std::str::from_utf8(alias).is_err()
    {
        return Err(invalid("Key alias must be UTF8"));
    }
    check_thresholds(def)?;
    check_times(def)?;
    check_notes(def)?;
    const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
    def.compaction_strategy =
        class(PACKAGE, &COMPACTIONS, &def.compaction_strategy).ok_or_else(|| {
            invalid(format!(
                "Unable to find compaction strategy class '{}'",
                full_name(PACKAGE, &def.compaction_strategy)
            ))
        })?;
    check_compression(&mut def.compression_options)
}

fn check_chance(what: &str, chance: f64) -> Result<()> {
    if (0.0..=1.0).contains(&chance) {
        return Ok(());
    }
    Err(invalid(format!("{what} must be between 0 and 1 (got {chance})")))
}

fn check_thresholds(def: &CfDef) -> Result<()> {
    let (min, max) = (def.min_compaction_threshold, def.max_compaction_threshold);
    if max == 0 {
        return Ok(());
    }
    if min <= 1 {
        return Err(invalid(format!(
            "Min compaction threshold cannot be less than 2 (got {min})."
        )));
    }
    if min > max {
        return Err(invalid(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        )));
    }
    Ok(())
}

/// Class names of indexes of the kind `KEYS`.
const KEYS_INDEXES: [&str; 2] = [
    "org.apache.cassandra.db.index.keys.KeysIndex",
    "org.apache.cassandra.index.internal.keys.KeysIndex",
];

/// Converts an index with the class of a built-in kind to that kind.
pub fn name_built_in_index(column: &mut ColumnDef) {
    const CLASS: &str = "class_name";
    let class = column.index_options.get(CLASS);
    if column.index_type == Some(IndexType::Custom)
        && class.is_some_and(|class| KEYS_INDEXES.contains(&&**class))
    {
        column.index_type = Some(IndexType::Keys);
        column.index_options.remove(CLASS);
    }
}

fn check_least(what: &str, least: i32, n: i32) -> Result<()> {
    if n >= least {
        return Ok(());
    }
    Err(invalid(format!("{what} must be greater than or equal to {least} (got {n})")))
}

/// Validates TTLs and periods.
fn check_times(def: &CfDef) -> Result<()> {
    let ttl = def.default_time_to_live;
    check_least("default_time_to_live", 0, ttl)?;
    if ttl > MAX_TTL {
        return Err(invalid(format!(
            "default_time_to_live must be less than or equal to {MAX_TTL} (got {ttl})"
        )));
    }
    check_least("memtable_flush_period_in_ms", 0, def.memtable_flush_period_in_ms.unwrap_or(0))
}

/// Validates attributes that are only stored.
fn check_notes(def: &CfDef) -> Result<()> {
    let min = def.min_index_interval.unwrap_or(MIN_INDEX_INTERVAL);
    check_least("min_index_interval", 1, min)?;
    if let Some(max) = def.max_index_interval
        && max < min
    {
        return Err(invalid(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({min}) (got {max})"
        )));
    }
    if let Some(text) = &def.speculative_retry
        && !is_retry_policy(text)
    {
        return Err(invalid(format!("Invalid value {text} for option 'speculative_retry'")));
    }
    match &def.cells_per_row_to_cache {
        Some(text)
            if !["ALL", "NONE"].iter().any(|word| text.eq_ignore_ascii_case(word))
                && text.parse::<u32>().is_err() =>
        {
            Err(invalid(format!("Invalid value {text} for option 'cells_per_row_to_cache'")))
        }
        _ => Ok(()),
    }
}

/// Reports whether a text is a retry policy, in the form of Thrift or of CQL.
fn is_retry_policy(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let number = |unit: &str| text.strip_suffix(unit)?.parse::<f64>().ok();
    let percents = number("percentile").or_else(|| number("p"));
    matches!(&*text, "none" | "never" | "always")
        || percents.is_some_and(|n| (0.0..=100.0).contains(&n))
        || number("ms").is_some_and(|n| n.is_finite() && n >= 0.0)
        || (text.starts_with("min(") || text.starts_with("max(")) && text.ends_with(')')
}

/// Writes the compressor's name in full; an empty or missing name means none.
fn check_compression(options: &mut BTreeMap<String, String>) -> Result<()> {
    const PACKAGE: &str = "org.apache.cassandra.io.compress.";
    let Some(name) = options.get_mut("sstable_compression") else { return Ok(()) };
    if !name.is_empty() {
        *name = class(PACKAGE, &COMPRESSORS, name).ok_or_else(|| {
            invalid(format!("Could not create Compression for type {}", full_name(PACKAGE, name)))
        })?;
    }
    Ok(())
}
