//! Attributes of keyspaces and column families in `create` and `update`: their syntax and meaning.

use std::collections::BTreeMap;

use firn_wide::IndexType;

use super::syntax::{ExpectedKind, SyntaxFailure};

/// `name = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The name, as written.
    pub name: String,
    /// The value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A word, a number or a string.
    Text(String),
    /// `{a: b, …}`
    Map(Vec<(String, AttributeValue)>),
    /// `[{…}, …]`
    List(Vec<AttributeValue>),
}

/// The attributes of keyspaces, with the types of their values.
pub const KEYSPACE: [(&str, ExpectedKind); 3] = [
    ("placement_strategy", ExpectedKind::PlacementStrategy),
    ("strategy_options", ExpectedKind::Options),
    ("durable_writes", ExpectedKind::Boolean),
];

/// The attributes of column families, with the types of their values. Those about memtables have no
/// effect any more. The last ones came with servers after 1.1 ([`AFTER_1_1`]).
pub const FAMILY: [(&str, ExpectedKind); 26] = [
    ("column_type", ExpectedKind::ColumnType),
    ("comparator", ExpectedKind::Class),
    ("subcomparator", ExpectedKind::Class),
    ("comment", ExpectedKind::AttributeValue),
    ("read_repair_chance", ExpectedKind::AttributeValue),
    ("dclocal_read_repair_chance", ExpectedKind::AttributeValue),
    ("gc_grace", ExpectedKind::AttributeValue),
    ("column_metadata", ExpectedKind::Columns),
    ("memtable_operations", ExpectedKind::AttributeValue),
    ("memtable_throughput", ExpectedKind::AttributeValue),
    ("default_validation_class", ExpectedKind::Class),
    ("min_compaction_threshold", ExpectedKind::AttributeValue),
    ("max_compaction_threshold", ExpectedKind::AttributeValue),
    ("replicate_on_write", ExpectedKind::Boolean),
    ("key_validation_class", ExpectedKind::Class),
    ("compaction_strategy", ExpectedKind::CompactionStrategy),
    ("compaction_strategy_options", ExpectedKind::Options),
    ("compression_options", ExpectedKind::Options),
    ("bloom_filter_fp_chance", ExpectedKind::AttributeValue),
    ("caching", ExpectedKind::Caching),
    ("default_time_to_live", ExpectedKind::AttributeValue),
    ("speculative_retry", ExpectedKind::AttributeValue),
    ("memtable_flush_period_in_ms", ExpectedKind::AttributeValue),
    ("min_index_interval", ExpectedKind::AttributeValue),
    ("max_index_interval", ExpectedKind::AttributeValue),
    ("cells_per_row_to_cache", ExpectedKind::AttributeValue),
];

/// Number of column family attributes that cassandra-cli of 1.1 does not know.
pub const AFTER_1_1: usize = 6;

/// The keys of `column_metadata`, with the types of their values.
pub const METADATA: [(&str, ExpectedKind); 5] = [
    ("column_name", ExpectedKind::Column),
    ("validation_class", ExpectedKind::Class),
    ("index_type", ExpectedKind::IndexType),
    ("index_name", ExpectedKind::AttributeValue),
    ("index_options", ExpectedKind::Options),
];

/// Returns the value type of a name in `table`; [`ExpectedKind::AttributeValue`] for an unknown
/// name.
pub(super) fn value_of(table: &[(&str, ExpectedKind)], name: &str) -> ExpectedKind {
    table
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map_or(ExpectedKind::AttributeValue, |(_, what)| *what)
}

/// Changes to a keyspace; `None` for an attribute that the statement does not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceChange {
    /// The replication strategy class, as written.
    pub placement_strategy: Option<String>,
    /// Its options.
    pub strategy_options: Option<BTreeMap<String, String>>,
    /// Whether writes go through the log.
    pub durable_writes: Option<bool>,
}

/// Changes to a column family; `None` for an attribute that the statement does not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FamilyChange {
    /// `Standard` or `Super`, as written.
    pub column_type: Option<String>,
    /// The type of column names, of super columns in a super column family.
    pub comparator: Option<String>,
    /// The type of the names in super columns.
    pub subcomparator: Option<String>,
    /// Comment.
    pub comment: Option<String>,
    /// Between 0 and 1.
    pub read_repair_chance: Option<f64>,
    /// Between 0 and 1.
    pub dclocal_read_repair_chance: Option<f64>,
    /// Seconds before a tombstone may be purged.
    pub gc_grace: Option<i32>,
    /// Metadata of single columns.
    pub column_metadata: Option<Vec<ColumnChange>>,
    /// The type of values of columns without metadata.
    pub default_validation_class: Option<String>,
    /// Minimum number of SSTables of a size for a compaction.
    pub min_compaction_threshold: Option<i32>,
    /// Maximum number of SSTables of a compaction.
    pub max_compaction_threshold: Option<i32>,
    /// For counters.
    pub replicate_on_write: Option<bool>,
    /// The type of row keys.
    pub key_validation_class: Option<String>,
    /// The compaction strategy class.
    pub compaction_strategy: Option<String>,
    /// Its options.
    pub compaction_strategy_options: Option<BTreeMap<String, String>>,
    /// Compression of SSTables.
    pub compression_options: Option<BTreeMap<String, String>>,
    /// False-positive chance of the SSTables' Bloom filters.
    pub bloom_filter_fp_chance: Option<f64>,
    /// `ALL`, `KEYS_ONLY`, `ROWS_ONLY` or `NONE`, as written.
    pub caching: Option<String>,
    /// Default TTL in seconds.
    pub default_time_to_live: Option<i32>,
    /// When to query another replica speculatively.
    pub speculative_retry: Option<String>,
    /// Interval of memtable flushes.
    pub memtable_flush_period_in_ms: Option<i32>,
    /// Minimum interval of index samples.
    pub min_index_interval: Option<i32>,
    /// Maximum interval of index samples.
    pub max_index_interval: Option<i32>,
    /// Cells of a row that the row cache stores.
    pub cells_per_row_to_cache: Option<String>,
}

/// Changes to a column's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnChange {
    /// Its name, as text of the comparator.
    pub name: String,
    /// The type of its values.
    pub validation_class: Option<String>,
    /// Whether it has an index.
    pub index: Option<IndexType>,
    /// The index's name.
    pub index_name: Option<String>,
    /// Options of the index.
    pub index_options: Option<BTreeMap<String, String>>,
}

impl KeyspaceChange {
    /// Interprets attributes.
    ///
    /// # Errors
    /// An attribute that is none of a keyspace, or an invalid value.
    pub fn new(attributes: &[Attribute]) -> Result<KeyspaceChange, SyntaxFailure> {
        let mut change = KeyspaceChange::default();
        for a in attributes {
            match a.name.to_ascii_lowercase().as_str() {
                "placement_strategy" => change.placement_strategy = Some(a.text()?.to_owned()),
                "strategy_options" => change.strategy_options = Some(a.options()?),
                "durable_writes" => change.durable_writes = Some(a.boolean()?),
                _ => return Err(a.unknown("AddKeyspaceArgument", &KEYSPACE)),
            }
        }
        Ok(change)
    }
}

impl FamilyChange {
    /// Interprets attributes.
    ///
    /// # Errors
    /// An attribute that is none of a column family, or an invalid value.
    pub fn new(attributes: &[Attribute]) -> Result<FamilyChange, SyntaxFailure> {
        let mut change = FamilyChange::default();
        for a in attributes {
            match a.name.to_ascii_lowercase().as_str() {
                "column_type" => change.column_type = Some(a.text()?.to_owned()),
                "comparator" => change.comparator = Some(a.text()?.to_owned()),
                "subcomparator" => change.subcomparator = Some(a.text()?.to_owned()),
                "comment" => change.comment = Some(a.text()?.to_owned()),
                "read_repair_chance" => change.read_repair_chance = Some(a.chance()?),
                "dclocal_read_repair_chance" => {
                    change.dclocal_read_repair_chance = Some(a.chance()?)
                }
                "gc_grace" => change.gc_grace = Some(a.integer()?),
                "column_metadata" => change.column_metadata = Some(a.columns()?),
                "default_validation_class" => {
                    change.default_validation_class = Some(a.text()?.to_owned())
                }
                "min_compaction_threshold" => change.min_compaction_threshold = Some(a.integer()?),
                "max_compaction_threshold" => change.max_compaction_threshold = Some(a.integer()?),
                "replicate_on_write" => change.replicate_on_write = Some(a.boolean()?),
                "key_validation_class" => change.key_validation_class = Some(a.text()?.to_owned()),
                "compaction_strategy" => change.compaction_strategy = Some(a.text()?.to_owned()),
                "compaction_strategy_options" => {
                    change.compaction_strategy_options = Some(a.options()?)
                }
                "compression_options" => change.compression_options = Some(a.options()?),
                "bloom_filter_fp_chance" => change.bloom_filter_fp_chance = Some(a.chance()?),
                "caching" => change.caching = Some(a.text()?.to_owned()),
                "default_time_to_live" => change.default_time_to_live = Some(a.integer()?),
                "speculative_retry" => change.speculative_retry = Some(a.text()?.to_owned()),
                "memtable_flush_period_in_ms" => {
                    change.memtable_flush_period_in_ms = Some(a.integer()?)
                }
                "min_index_interval" => change.min_index_interval = Some(a.integer()?),
                "max_index_interval" => change.max_index_interval = Some(a.integer()?),
                "cells_per_row_to_cache" => {
                    change.cells_per_row_to_cache = Some(a.text()?.to_owned())
                }
                "memtable_operations" | "memtable_throughput" => {
                    a.text()?;
                }
                _ => return Err(a.unknown("ColumnFamilyArgument", &FAMILY)),
            }
        }
        Ok(change)
    }
}

/// Refuses attributes that cassandra-cli of 1.1 does not know.
///
/// # Errors
/// The first newer attribute of a column family.
pub(super) fn check_known_in_1_1(attributes: &[Attribute]) -> Result<(), SyntaxFailure> {
    let (known, younger) = FAMILY.split_at(FAMILY.len() - AFTER_1_1);
    let is_younger =
        |a: &&Attribute| younger.iter().any(|(name, _)| a.name.eq_ignore_ascii_case(name));
    match attributes.iter().find(is_younger) {
        Some(a) => Err(a.unknown("ColumnFamilyArgument", known)),
        None => Ok(()),
    }
}

impl Attribute {
    fn unknown(&self, class: &str, table: &[(&str, ExpectedKind)]) -> SyntaxFailure {
        let known: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        SyntaxFailure::new(
            format!("'{}' is not an attribute; there are {}", self.name, known.join(", ")),
            format!(
                "java.lang.IllegalArgumentException: No enum constant org.apache.cassandra.cli.CliClient.{class}.{}",
                self.name.to_ascii_uppercase()
            ),
        )
    }

    fn wrong(&self, expected: &str) -> SyntaxFailure {
        SyntaxFailure::same(format!("{} takes {expected}", self.name))
    }

    fn text(&self) -> Result<&str, SyntaxFailure> {
        self.value.text().ok_or_else(|| self.wrong("a word, a number or a string"))
    }

    fn parsed<T: std::str::FromStr>(&self, expected: &str) -> Result<T, SyntaxFailure> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| {
            let historical =
                format!("java.lang.NumberFormatException: For input string: \"{text}\"");
            SyntaxFailure::new(
                format!("{} takes {expected}, and '{text}' is none", self.name),
                historical,
            )
        })
    }

    fn integer(&self) -> Result<i32, SyntaxFailure> {
        self.parsed("a whole number")
    }

    /// Parses a number from 0 to 1.
    fn chance(&self) -> Result<f64, SyntaxFailure> {
        let chance: f64 = self.parsed("a number")?;
        if (0.0..=1.0).contains(&chance) {
            return Ok(chance);
        }
        let historical = format!(
            "java.lang.RuntimeException: Error: {} must be between 0 and 1.",
            self.name.to_ascii_lowercase()
        );
        Err(SyntaxFailure::new(format!("{} must be between 0 and 1", self.name), historical))
    }

    fn boolean(&self) -> Result<bool, SyntaxFailure> {
        match self.text()? {
            t if t.eq_ignore_ascii_case("true") => Ok(true),
            t if t.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn options(&self) -> Result<BTreeMap<String, String>, SyntaxFailure> {
        self.value.options().ok_or_else(|| self.wrong("a map such as {name: value}"))
    }

    fn columns(&self) -> Result<Vec<ColumnChange>, SyntaxFailure> {
        let AttributeValue::List(list) = &self.value else {
            return Err(self.wrong("a list such as [{column_name: a}]"));
        };
        list.iter().map(|v| self.column(v)).collect()
    }

    fn column(&self, value: &AttributeValue) -> Result<ColumnChange, SyntaxFailure> {
        let AttributeValue::Map(pairs) = value else {
            return Err(self.wrong("a list of maps such as [{column_name: a}]"));
        };
        let (mut column, mut named) = (ColumnChange::default(), false);
        for (key, value) in pairs {
            let text = || {
                value
                    .text()
                    .map(str::to_owned)
                    .ok_or_else(|| SyntaxFailure::same(format!("{key} takes a word or a string")))
            };
            match key.to_ascii_lowercase().as_str() {
                "column_name" => (column.name, named) = (text()?, true),
                "validation_class" => column.validation_class = Some(text()?),
                "index_type" => column.index = Some(index_type(&text()?)?),
                "index_name" => column.index_name = Some(text()?),
                "index_options" => {
                    let options = value
                        .options()
                        .ok_or_else(|| SyntaxFailure::same(format!("{key} takes a map")))?;
                    column.index_options = Some(options);
                }
                _ => return Err(unsupported(key, value)),
            }
        }
        if named {
            return Ok(column);
        }
        let class = column.validation_class.as_deref().unwrap_or("null");
        Err(SyntaxFailure::new(
            "column_metadata: a column has no column_name",
            format!(
                "java.lang.RuntimeException: org.apache.thrift.protocol.TProtocolException: Required field 'name' was not present! \
                 Struct: ColumnDef(name:null, validation_class:{class})"
            ),
        ))
    }
}

fn unsupported(key: &str, value: &AttributeValue) -> SyntaxFailure {
    let text = format!(
        "Unsupported column_metadata pair given => {key}: {}",
        value.text().unwrap_or("{…}")
    );
    SyntaxFailure::new(text.clone(), format!("java.lang.RuntimeException: {text}"))
}

fn index_type(text: &str) -> Result<IndexType, SyntaxFailure> {
    let by_number = text.parse().ok().and_then(IndexType::from_number);
    by_number.or_else(|| IndexType::from_name(&text.to_ascii_uppercase())).ok_or_else(|| {
        let text = format!("IndexType '{text}' is unsupported.");
        SyntaxFailure::new(text.clone(), format!("java.lang.RuntimeException: {text}"))
    })
}

impl AttributeValue {
    /// Returns the text of a word, a number or a string.
    pub fn text(&self) -> Option<&str> {
        if let AttributeValue::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the entries of a map, or of all maps of a list; `null` means no options.
    fn options(&self) -> Option<BTreeMap<String, String>> {
        match self {
            AttributeValue::Text(text) => text.eq_ignore_ascii_case("null").then(BTreeMap::new),
            AttributeValue::Map(pairs) => {
                pairs.iter().map(|(k, v)| Some((k.clone(), v.text()?.to_owned()))).collect()
            }
            AttributeValue::List(maps) => {
                let maps: Option<Vec<_>> = maps.iter().map(AttributeValue::options).collect();
                Some(maps?.into_iter().flatten().collect())
            }
        }
    }
}
