//! Table options in `WITH`: names, defaults and valid values.

use std::collections::BTreeMap;

use firn_kv::{Compression, TreeOptions};
use firn_wide::CfDef;
use firn_wide::internals::schema;
use serde::{Deserialize, Serialize};

use super::foreign::{foreign_option, old_caching};
use super::storage::{check_compaction, check_compression, class, compaction, drop_old_compaction};
use crate::error::{Error, ErrorClass, Result, configuration};
use crate::syntax::ast::{PropertyValue, TableProperty};

/// Maximum TTL in seconds: 20 years.
pub const MAX_TTL: i64 = 630_720_000;

/// Options of a table. Those not set in `WITH` have their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableOptions {
    /// Options with one value, by name, as `DESCRIBE` writes them.
    values: BTreeMap<String, String>,
    /// Options that are maps.
    maps: BTreeMap<String, BTreeMap<String, String>>,
}

/// Name, default, whether it is text.
const VALUES: [(&str, &str, bool); 15] = [
    ("additional_write_policy", "99p", true),
    ("bloom_filter_fp_chance", "0.01", false),
    ("cdc", "false", false),
    ("comment", "", true),
    ("crc_check_chance", "1.0", false),
    ("dclocal_read_repair_chance", "0.0", false),
    ("default_time_to_live", "0", false),
    ("gc_grace_seconds", "864000", false),
    ("max_index_interval", "2048", false),
    ("memtable", "default", true),
    ("memtable_flush_period_in_ms", "0", false),
    ("min_index_interval", "128", false),
    ("read_repair", "BLOCKING", true),
    ("read_repair_chance", "0.0", false),
    ("speculative_retry", "99p", true),
];
/// Options that `DESCRIBE` shows only if they are set.
const SILENT: [&str; 2] = ["dclocal_read_repair_chance", "read_repair_chance"];
/// Lowest false-positive rate of Cassandra's filters.
const LEAST_FP_CHANCE: f64 = 6.71e-5;
/// Options that have an effect. All others are only stored and shown.
const EFFECTIVE: [&str; 7] = [
    "bloom_filter_fp_chance",
    "comment",
    "compaction",
    "compression",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
];
const COMPACTIONS: [&str; 7] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "IncrementalCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "DateTieredCompactionStrategy",
    "UnifiedCompactionStrategy",
    "AbstractCompactionStrategy",
];
/// Strategies that show their thresholds.
const WITH_THRESHOLDS: [&str; 3] = [
    "SizeTieredCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "DateTieredCompactionStrategy",
];
/// Strategies that families support.
const FAMILY_COMPACTIONS: [&str; 2] = ["SizeTieredCompactionStrategy", "LeveledCompactionStrategy"];
/// Compressors that families support.
const FAMILY_COMPRESSORS: [&str; 3] = ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor"];
/// Each compressor with its own options.
const COMPRESSORS: [(&str, &[&str]); 5] = [
    ("LZ4Compressor", &["lz4_compressor_type", "lz4_high_compressor_level"]),
    ("SnappyCompressor", &[]),
    ("DeflateCompressor", &[]),
    ("ZstdCompressor", &["compression_level"]),
    ("NoopCompressor", &[]),
];
/// Options of all compressors.
const OF_COMPRESSORS: [&str; 4] = ["class", "enabled", "chunk_length_in_kb", "min_compress_ratio"];
/// Option names of 2.x with their current names.
const OLD_COMPRESSION: [(&str, &str); 2] =
    [("sstable_compression", "class"), ("chunk_length_kb", "chunk_length_in_kb")];

impl Default for TableOptions {
    fn default() -> TableOptions {
        let map = |of: &[(&str, &str)]| {
            of.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let compaction = "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy";
        let maps = [
            ("caching", map(&[("keys", "ALL"), ("rows_per_partition", "NONE")])),
            (
                "compaction",
                map(&[("class", compaction), ("max_threshold", "32"), ("min_threshold", "4")]),
            ),
            (
                "compression",
                map(&[
                    ("chunk_length_in_kb", "16"),
                    ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
                ]),
            ),
            ("extensions", BTreeMap::new()),
        ];
        TableOptions {
            values: VALUES.iter().map(|(n, v, _)| ((*n).to_owned(), (*v).to_owned())).collect(),
            maps: maps.map(|(n, m)| (n.to_owned(), m)).into(),
        }
    }
}

impl TableOptions {
    /// Returns the options of a family's definition, as far as tables have them.
    pub(super) fn of_family(def: &CfDef) -> TableOptions {
        let mut options = TableOptions::default();
        let mut set = |name: &str, value: String| drop(options.values.insert(name.into(), value));
        set("comment", def.comment.clone());
        set("gc_grace_seconds", def.gc_grace_seconds.to_string());
        set("default_time_to_live", def.default_time_to_live.to_string());
        for (name, number) in [
            ("memtable_flush_period_in_ms", def.memtable_flush_period_in_ms),
            ("min_index_interval", def.min_index_interval),
            ("max_index_interval", def.max_index_interval),
        ] {
            number.into_iter().for_each(|n| set(name, n.to_string()));
        }
        if let Some(Ok(policy)) = def.speculative_retry.as_deref().map(retry_policy) {
            set("speculative_retry", policy);
        }
        if let Some(chance) = def.bloom_filter_fp_chance {
            set("bloom_filter_fp_chance", format!("{chance:?}"));
        }
        let cached = |kind: &str| match def.caching.as_str() {
            all if all == "ALL" || all == kind => "ALL",
            _ => "NONE",
        };
        let caching = [("keys", "KEYS_ONLY"), ("rows_per_partition", "ROWS_ONLY")];
        let caching = caching.map(|(name, kind)| (name.to_owned(), cached(kind).to_owned()));
        let mut compaction = def.compaction_strategy_options.clone();
        compaction.insert("class".into(), def.compaction_strategy.clone());
        for (name, threshold) in [
            ("min_threshold", def.min_compaction_threshold),
            ("max_threshold", def.max_compaction_threshold),
        ] {
            compaction.insert(name.into(), threshold.to_string());
        }
        let mut compression = def.compression_options.clone();
        match compression.remove("sstable_compression").filter(|class| !class.is_empty()) {
            Some(class) => drop(compression.insert("class".into(), class)),
            None => drop(compression.insert("enabled".into(), "false".into())),
        }
        options.maps.insert("caching".into(), caching.into());
        options.maps.insert("compaction".into(), compaction);
        options.maps.insert("compression".into(), compression);
        options
    }

    /// Sets the options that families support in a family's definition.
    pub(super) fn put_into(&self, def: &mut CfDef) {
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        def.comment = self.comment().to_owned();
        def.gc_grace_seconds = number(self.gc_grace());
        def.default_time_to_live = number(self.default_ttl());
        let usual = TableOptions::default();
        let said = |name: &str| self.value(name).filter(|text| usual.value(name) != Some(text));
        let said_number = |name: &str| said(name)?.parse().ok();
        def.memtable_flush_period_in_ms = said_number("memtable_flush_period_in_ms");
        def.speculative_retry = said("speculative_retry").map(str::to_owned);
        let (min, max) = (self.number("min_index_interval"), self.number("max_index_interval"));
        if min <= max {
            def.min_index_interval = said_number("min_index_interval");
            def.max_index_interval = said_number("max_index_interval");
        }
        def.read_repair_chance = 0.0;
        def.bloom_filter_fp_chance = self.fp_chance();
        let says = |map: &str, name: &str| self.map(map)?.get(name).cloned();
        let is_cached = |what| says("caching", what).is_some_and(|all| all != "NONE");
        def.caching = match (is_cached("keys"), is_cached("rows_per_partition")) {
            (true, true) => "ALL",
            (true, false) => "KEYS_ONLY",
            (false, true) => "ROWS_ONLY",
            (false, false) => "NONE",
        }
        .to_owned();
        let mut compaction = self.map("compaction").cloned().unwrap_or_default();
        if let Some(class) = compaction
            .remove("class")
            .filter(|class| FAMILY_COMPACTIONS.iter().any(|known| class.ends_with(known)))
        {
            def.compaction_strategy = class;
        }
        let mut threshold = |name: &str, usual: i32| {
            compaction.remove(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
        };
        // For classes without thresholds any values are valid.
        def.min_compaction_threshold = threshold("min_threshold", 4).max(2);
        def.max_compaction_threshold =
            threshold("max_threshold", 32).max(def.min_compaction_threshold);
        def.compaction_strategy_options = compaction;
        let is_off = says("compression", "enabled").is_some_and(|on| on == "false");
        let class = says("compression", "class").filter(|_| !is_off);
        match class.filter(|class| !class.ends_with("NoopCompressor")) {
            None => def.compression_options.clear(),
            Some(class) if FAMILY_COMPRESSORS.iter().any(|known| class.ends_with(known)) => {
                def.compression_options = [("sstable_compression".to_owned(), class)].into();
            }
            // For options that families do not support, the definition has the default.
            Some(_) => {}
        }
    }

    /// Returns the time for which tombstones are retained, in seconds.
    pub fn gc_grace(&self) -> u32 {
        self.number("gc_grace_seconds")
    }

    /// Returns the TTL of writes that specify none, in seconds; 0 for none.
    pub fn default_ttl(&self) -> u32 {
        self.number("default_time_to_live")
    }

    /// Returns the table's comment.
    pub fn comment(&self) -> &str {
        self.values.get("comment").map_or("", String::as_str)
    }

    /// Returns the value of an option that is not a map.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns the value of an option that is a map.
    pub fn map(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        self.maps.get(name)
    }

    /// Returns the value of an option that is a map as Cassandra shows it, completed with defaults.
    pub fn shown_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let mut map = self.map(name)?.clone();
        let mut default = |name: &str, value: &str| {
            map.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        };
        match name {
            "compaction" if WITH_THRESHOLDS.contains(&class(self.map(name)?)) => {
                default("max_threshold", "32");
                default("min_threshold", "4");
            }
            "compression" if self.map(name)?.contains_key("class") => {
                default("chunk_length_in_kb", "16");
            }
            _ => {}
        }
        Some(map)
    }

    /// Returns the false-positive rate for filters.
    pub(super) fn fp_chance(&self) -> Option<f64> {
        self.values.get("bloom_filter_fp_chance")?.parse().ok()
    }

    fn number(&self, name: &str) -> u32 {
        self.values.get(name).and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    /// Returns these options, overridden by those of a statement.
    ///
    /// # Errors
    /// `Syntax` for a value of another kind, `Configuration` for an invalid value.
    pub fn with(&self, properties: &[TableProperty<'_>]) -> Result<TableOptions> {
        let mut out = self.clone();
        for property in properties {
            let name = &*property.name.text;
            match &property.value {
                PropertyValue::Map(_) if foreign_option(name).is_some() => {}
                // ScyllaDB's `cdc = {'enabled': …}`.
                PropertyValue::Map(pairs) if name == "cdc" => {
                    let enabled = pairs.iter().find(|(k, _)| k.text == "enabled");
                    out.set(name, enabled.map_or("false", |(_, v)| &v.text))?;
                }
                PropertyValue::Map(pairs) => {
                    let mut map: BTreeMap<String, String> = pairs
                        .iter()
                        .map(|(k, v)| (k.text.to_string(), v.text.to_string()))
                        .collect();
                    // In 2.x it was a compression option.
                    if name == "compression"
                        && let Some(chance) = map.remove("crc_check_chance")
                    {
                        out.set("crc_check_chance", &chance)?;
                    }
                    out.maps.insert(name.to_owned(), check_map(name, map)?);
                }
                PropertyValue::Constant(c) if name == "caching" => {
                    let map = old_caching(&c.text).ok_or_else(|| {
                        syntax(format!("Invalid value for property '{name}'. It should be a map."))
                    })?;
                    out.maps.insert(name.to_owned(), check_caching(&map)?);
                }
                PropertyValue::Constant(c) => out.set(name, &c.text)?,
                PropertyValue::Word(w) => out.set(name, w)?,
            }
        }
        Ok(out)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let name = if name == "index_interval" { "min_index_interval" } else { name };
        if name != "id" && foreign_option(name).is_none() {
            self.values.insert(name.to_owned(), check_value(name, text)?);
        }
        Ok(())
    }

    /// Returns the uuid in `WITH id = …`.
    pub(super) fn given_id(properties: &[TableProperty<'_>]) -> Result<Option<uuid::Uuid>> {
        let Some(property) = properties.iter().find(|p| p.name.text == "id") else {
            return Ok(None);
        };
        match &property.value {
            PropertyValue::Constant(c) => {
                c.text.parse().map(Some).map_err(|_| configuration("Invalid table id"))
            }
            _ => Err(configuration("Invalid table id")),
        }
    }

    /// Returns the options that differ from their defaults but have no effect: they are only stored
    /// and shown.
    pub fn without_effect(&self) -> Vec<&str> {
        let default = TableOptions::default();
        let differs = |name: &&str| {
            self.value(name) != default.value(name) || self.map(name) != default.map(name)
        };
        let names = self.values.keys().chain(self.maps.keys()).map(String::as_str);
        names.filter(|name| !EFFECTIVE.contains(name)).filter(differs).collect()
    }

    /// Returns `name = value` for each option, as `DESCRIBE` shows it.
    pub fn clauses(&self) -> Vec<String> {
        let mut all: Vec<(&str, String)> = vec![];
        for (name, value) in &self.values {
            let known = VALUES.iter().find(|v| v.0 == name);
            let silent = SILENT.contains(&name.as_str()) && known.is_some_and(|k| k.1 == value);
            let text = known.is_some_and(|k| k.2);
            if !silent {
                all.push((
                    name,
                    if text { format!("'{}'", value.replace('\'', "''")) } else { value.clone() },
                ));
            }
        }
        let maps = self.maps.keys().filter_map(|name| Some((name, self.shown_map(name)?)));
        all.extend(maps.map(|(name, map)| (name.as_str(), quoted_map(&map))));
        all.sort();
        all.into_iter().map(|(name, value)| format!("{name} = {value}")).collect()
    }
}

/// Returns `{'key': 'value', …}`, with the class first.
pub fn quoted_map(map: &BTreeMap<String, String>) -> String {
    let quote = |s: &str| format!("'{}'", s.replace('\'', "''"));
    let class = map.get_key_value("class");
    let others = map.iter().filter(|(k, _)| *k != "class");
    let pairs: Vec<_> = class
        .into_iter()
        .chain(others)
        .map(|(k, v)| format!("{}: {}", quote(k), quote(v)))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

fn syntax(text: String) -> Error {
    Error::refused(ErrorClass::Syntax, text)
}

fn check_value(name: &str, text: &str) -> Result<String> {
    let int = || {
        text.parse::<i32>()
            .map_err(|_| syntax(format!("Invalid integer value {text} for '{name}'")))
    };
    let double = || match text.parse::<f64>() {
        Ok(n) if n.is_finite() => Ok(n),
        _ => Err(syntax(format!("Invalid double value {text} for '{name}'"))),
    };
    match name {
        "default_time_to_live" | "gc_grace_seconds" | "memtable_flush_period_in_ms" => {
            let n = int()?;
            if n < 0 {
                return Err(configuration!("{name} must be greater than or equal to 0 (got {n})"));
            }
            if name == "default_time_to_live" && i64::from(n) > MAX_TTL {
                return Err(configuration!(
                    "{name} must be less than or equal to {MAX_TTL} (got {n})"
                ));
            }
            Ok(n.to_string())
        }
        "min_index_interval" | "max_index_interval" => match int()? {
            n if n < 1 => {
                Err(configuration!("{name} must be greater than or equal to 1 (got {n})"))
            }
            n => Ok(n.to_string()),
        },
        "bloom_filter_fp_chance" => match double()? {
            n if n > 0.0 && n <= LEAST_FP_CHANCE => {
                let (digits, exponent) = match format!("{n:E}").split_once('E') {
                    Some((digits, exponent)) => (digits.to_owned(), exponent.to_owned()),
                    None => (n.to_string(), "0".to_owned()),
                };
                let point = if digits.contains('.') { "" } else { ".0" };
                Err(configuration!(
                    "{name} must be larger than 6.71E-5 and less than or equal to 1.0 (got {digits}{point}E{exponent})"
                ))
            }
            n if n > 0.0 && n <= 1.0 => Ok(format!("{n:?}")),
            n => Err(configuration!(
                "{name} must be larger than 0.0 and less than or equal to 1.0 (got {n:?})"
            )),
        },
        "crc_check_chance" | "read_repair_chance" | "dclocal_read_repair_chance" => match double()?
        {
            n if (0.0..=1.0).contains(&n) => Ok(format!("{n:?}")),
            n => Err(configuration!(
                "{name} must be larger than or equal to 0 and smaller than or equal to 1.0 (got {n:?})"
            )),
        },
        "cdc" | "allow_auto_snapshot" | "incremental_backups" => {
            match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Ok("true".into()),
                "false" | "no" | "0" => Ok("false".into()),
                _ => Err(syntax(format!(
                    "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'."
                ))),
            }
        }
        "speculative_retry" | "additional_write_policy" => retry_policy(text),
        "memtable" if text != "default" => {
            Err(configuration!("Memtable configuration \"{text}\" not found."))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Parses a speculative retry policy: `99p`, `10ms`, `MIN(99p,10ms)`, `ALWAYS`, `NEVER`.
fn retry_policy(text: &str) -> Result<String> {
    let wrong = || configuration!("Invalid value {text} for option 'speculative_retry'");
    let upper = text.to_ascii_uppercase();
    match &*upper {
        "ALWAYS" => return Ok(upper),
        "NEVER" | "NONE" => return Ok("NEVER".to_owned()),
        _ => {}
    }
    let both = |name: &str| upper.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    for name in ["MIN", "MAX"] {
        let Some(inner) = both(name) else { continue };
        let (first, second) = inner.split_once(',').ok_or_else(wrong)?;
        let (first, second) = (first.trim(), second.trim());
        let shown =
            format!("{name}({},{})", simple_retry(text, first)?, simple_retry(text, second)?);
        // One of each kind.
        return if first.ends_with("MS") != second.ends_with("MS") {
            Ok(shown)
        } else {
            Err(wrong())
        };
    }
    simple_retry(text, &upper)
}

/// Parses a percentile or a time. `whole` is the policy for the error message.
fn simple_retry(whole: &str, upper: &str) -> Result<String> {
    let wrong = || configuration!("Invalid value {whole} for option 'speculative_retry'");
    let number = |digits: &str| digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    if let Some(digits) = upper.strip_suffix("MS") {
        return number(digits).map(|_| format!("{digits}ms")).ok_or_else(wrong);
    }
    let percent = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P'));
    let digits = percent.ok_or_else(wrong)?;
    match number(digits) {
        Some(n) if n > 0.0 && n < 100.0 => Ok(format!("{digits}p")),
        Some(_) => Err(configuration!(
            "Invalid value {whole} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
        )),
        None => Err(wrong()),
    }
}

/// Returns `caching` with both of its options.
fn check_caching(map: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let is_known = |name: &str| matches!(name, "keys" | "rows_per_partition");
    let others: Vec<&str> = map.keys().map(String::as_str).filter(|n| !is_known(n)).collect();
    if !others.is_empty() {
        return Err(configuration!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            others.join(", ")
        ));
    }
    let value = |name: &str, default: &str| {
        map.get(name).map_or_else(|| default.to_owned(), |v| v.to_ascii_uppercase())
    };
    let wrong = |name: &str, allowed: &str| {
        let given = map.get(name).map_or("", String::as_str);
        configuration!(
            "Invalid value '{given}' for caching sub-option '{name}': only {allowed} are allowed"
        )
    };
    let keys = value("keys", "NONE");
    if !matches!(&*keys, "ALL" | "NONE") {
        return Err(wrong("keys", "'ALL' and 'NONE'"));
    }
    let rows = value("rows_per_partition", "NONE");
    let is_count = !rows.is_empty() && rows.bytes().all(|b| b.is_ascii_digit());
    if !is_count && !matches!(&*rows, "ALL" | "NONE") {
        return Err(wrong("rows_per_partition", "'ALL', 'NONE', and integer values"));
    }
    Ok([("keys".to_owned(), keys), ("rows_per_partition".to_owned(), rows)].into())
}

fn check_map(name: &str, mut map: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let (known, package, missing, unknown): (Vec<&str>, _, _, fn(&str) -> String) = match name {
        "compaction" => (
            COMPACTIONS.to_vec(),
            "org.apache.cassandra.db.compaction.",
            "Missing sub-option 'class' for the 'compaction' option",
            |c| format!("Unable to find compaction strategy class '{c}'"),
        ),
        "compression" => (
            COMPRESSORS.map(|c| c.0).to_vec(),
            "org.apache.cassandra.io.compress.",
            "Missing sub-option 'class' for the 'compression' option.",
            |c| format!("Could not create Compression for type {c}"),
        ),
        "caching" => return check_caching(&map),
        _ => return Ok(map),
    };
    if name == "compression" {
        if map.is_empty() {
            return Ok([("enabled".to_owned(), "false".to_owned())].into());
        }
        // Any value other than true is false.
        let is_off = map.get("enabled").is_some_and(|e| !e.eq_ignore_ascii_case("true"));
        if is_off && map.len() > 1 {
            return Err(configuration(
                "If the 'enabled' option is set to false no other options must be specified",
            ));
        }
        let old_class = map.get("sstable_compression").filter(|_| !map.contains_key("class"));
        if is_off || old_class.is_some_and(String::is_empty) {
            return Ok([("enabled".to_owned(), "false".to_owned())].into());
        }
        for (old, new) in OLD_COMPRESSION {
            if !map.contains_key(new)
                && let Some(value) = map.remove(old)
            {
                map.insert(new.into(), value);
            }
        }
        if map.get("class").is_some_and(String::is_empty) {
            return Err(configuration(
                "The 'class' option must not be empty. To disable compression use 'enabled' : false",
            ));
        }
    }
    let class = map.get("class").ok_or_else(|| configuration(missing))?;
    let full = if class.contains('.') { class.clone() } else { format!("{package}{class}") };
    let short = full.strip_prefix(package).filter(|c| known.contains(c));
    let short = short.ok_or_else(|| configuration(unknown(&full)))?;
    if name == "compaction" {
        drop_old_compaction(&mut map);
        check_compaction(&map)?
    } else {
        let own = COMPRESSORS.iter().find(|c| c.0 == short).map_or(&[][..], |c| c.1);
        let is_known = |name: &str| OF_COMPRESSORS.contains(&name) || own.contains(&name);
        if let Some(odd) = map.keys().find(|name| !is_known(name)) {
            return Err(configuration!("Unknown compression options {odd}"));
        }
        map.remove("enabled");
        check_compression(&map)?
    }
    map.insert("class".into(), full.clone());
    Ok(map)
}

impl TableOptions {
    /// Returns the engine's options for the table.
    pub fn tree(&self) -> TreeOptions {
        let mut options = TreeOptions::default();
        if let Some(map) = self.map("compaction")
            && compaction(map, &mut options).is_err()
        {
            // Written by a version with weaker checks.
            options = TreeOptions::default();
        }
        if let Some(map) = self.map("compression")
            && (map.get("enabled").is_some_and(|e| e.eq_ignore_ascii_case("false"))
                || class(map) == "NoopCompressor")
        {
            options.compression = vec![Compression::None];
        }
        options.filter = self
            .fp_chance()
            .map_or(options.filter, |chance| vec![schema::filter_of_chance(chance)]);
        options
    }
}
