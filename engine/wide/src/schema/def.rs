//! Definitions in the form that clients use: Thrift's `KsDef`, `CfDef` and `ColumnDef` (model 2.6)
//! and cassandra-cli's attributes (model 2.10).
//!
//! Plain data, with types as names. `new` has the defaults of unset Thrift fields: the values that
//! 1.1.12 shows for a family created with only a name. [`super::Schema`] validates definitions and
//! resolves the names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// First id of families and indexes that belong to CQL tables, which have their own records. A
/// compact table also has a family here.
pub const FOREIGN_IDS: u32 = 1 << 31;

/// A keyspace and its families.
#[derive(Clone, Debug, PartialEq)]
pub struct KsDef {
    /// Name: 1 to 48 letters, digits and underscores; unique regardless of case.
    pub name: String,
    /// Class of the replication strategy; a name without a dot is one of Cassandra's own. Stored
    /// for clients only: there is one replica here.
    pub strategy_class: String,
    /// Options of the strategy, such as `replication_factor`.
    pub strategy_options: BTreeMap<String, String>,
    /// Whether writes are logged.
    pub durable_writes: bool,
    /// Column families.
    pub cf_defs: Vec<CfDef>,
}

impl KsDef {
    /// Creates a durable keyspace with one replica, without families.
    pub fn new(name: impl Into<String>) -> KsDef {
        KsDef {
            name: name.into(),
            strategy_class: "org.apache.cassandra.locator.SimpleStrategy".into(),
            strategy_options: BTreeMap::from([("replication_factor".into(), "1".into())]),
            durable_writes: true,
            cf_defs: Vec::new(),
        }
    }
}

/// A column family.
///
/// Its serialised form is part of the stored records ([`super::Schema::records`]): a change of
/// fields is a new version of the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CfDef {
    /// Keyspace of the family. Empty in a [`KsDef`], whose keyspace it then is.
    pub keyspace: String,
    /// Name: 1 to 48 letters, digits and underscores; unique in the keyspace.
    pub name: String,
    /// `Standard` or `Super`.
    pub column_type: String,
    /// Type of the names of columns, or of super columns.
    pub comparator_type: String,
    /// Type of the names in super columns. `None` in a Super family means `BytesType`; a Standard
    /// family must have none.
    pub subcomparator_type: Option<String>,
    /// Comment for users.
    pub comment: String,
    /// Defined columns. If a name occurs twice, the last definition counts.
    pub column_metadata: Vec<ColumnDef>,
    /// Type of values; `CounterColumnType` makes a family of counters.
    pub default_validation_class: String,
    /// Type of row keys.
    pub key_validation_class: String,
    /// Name of the key in CQL 2.
    #[serde(with = "hex_option")]
    pub key_alias: Option<Vec<u8>>,
    /// Id of the family, assigned by the schema and never reused. In an update it must match if it
    /// is set.
    pub id: Option<u32>,
    /// Time in seconds for which tombstones are retained; not negative.
    pub gc_grace_seconds: i32,
    /// 0 to 1. Stored for clients only.
    pub read_repair_chance: f64,
    /// 0 to 1. Stored for clients only.
    pub dclocal_read_repair_chance: f64,
    /// Minimum number of files of similar size for a compaction, at least 2. (4 together with 32
    /// selects the engine's default.)
    pub min_compaction_threshold: i32,
    /// Maximum number of files in a compaction, at least the minimum. 0, which disables automatic
    /// compaction, selects the engine's default too.
    pub max_compaction_threshold: i32,
    /// Stored for clients only: counters here have one replica.
    pub replicate_on_write: bool,
    /// `SizeTieredCompactionStrategy` or `LeveledCompactionStrategy`.
    pub compaction_strategy: String,
    /// Options of the strategy, of which `sstable_size_in_mb` has an effect.
    pub compaction_strategy_options: BTreeMap<String, String>,
    /// `sstable_compression` and its options. Every compressor means LZ4; none means uncompressed
    /// blocks.
    pub compression_options: BTreeMap<String, String>,
    /// Above 0, at most 1. `None`: the engine's default.
    pub bloom_filter_fp_chance: Option<f64>,
    /// `ALL`, `KEYS_ONLY`, `ROWS_ONLY` or `NONE`. Stored for clients only.
    pub caching: String,
    /// TTL in seconds of columns written without one; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub default_time_to_live: i32,
    /// `NONE`, `ALWAYS`, `99PERCENTILE` or `50ms`. Stored for clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_retry: Option<String>,
    /// Milliseconds, not negative. Stored for clients only: the engine flushes by size and by log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memtable_flush_period_in_ms: Option<i32>,
    /// At least 1. Stored for clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_index_interval: Option<i32>,
    /// At least the minimum. Stored for clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_index_interval: Option<i32>,
    /// `ALL`, `NONE` or a number. Stored for clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells_per_row_to_cache: Option<String>,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

impl CfDef {
    /// Creates a Standard family of bytes with 1.1.12's defaults.
    pub fn new(keyspace: impl Into<String>, name: impl Into<String>) -> CfDef {
        CfDef {
            keyspace: keyspace.into(),
            name: name.into(),
            column_type: "Standard".into(),
            comparator_type: "BytesType".into(),
            subcomparator_type: None,
            comment: String::new(),
            column_metadata: Vec::new(),
            default_validation_class: "BytesType".into(),
            key_validation_class: "BytesType".into(),
            key_alias: None,
            id: None,
            gc_grace_seconds: 864_000,
            read_repair_chance: 0.1,
            dclocal_read_repair_chance: 0.0,
            min_compaction_threshold: 4,
            max_compaction_threshold: 32,
            replicate_on_write: true,
            compaction_strategy: "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"
                .into(),
            compaction_strategy_options: BTreeMap::new(),
            compression_options: BTreeMap::from([(
                "sstable_compression".into(),
                "org.apache.cassandra.io.compress.SnappyCompressor".into(),
            )]),
            bloom_filter_fp_chance: None,
            caching: "KEYS_ONLY".into(),
            default_time_to_live: 0,
            speculative_retry: None,
            memtable_flush_period_in_ms: None,
            min_index_interval: None,
            max_index_interval: None,
            cells_per_row_to_cache: None,
        }
    }
}

/// Definition of a column: the type of its values, and its index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDef {
    /// Name, in the family's type of cell names (the subcomparator in a Super family).
    #[serde(with = "hex_digits")]
    pub name: Vec<u8>,
    /// Type of its values.
    pub validation_class: String,
    /// Index on its values.
    pub index_type: Option<IndexType>,
    /// Name of the index; `None` means `<family>_<column>_idx`. Unset without an index.
    pub index_name: Option<String>,
    /// Options of the index.
    pub index_options: BTreeMap<String, String>,
}

impl ColumnDef {
    /// Creates a column without an index.
    pub fn new(name: impl Into<Vec<u8>>, validation_class: impl Into<String>) -> ColumnDef {
        ColumnDef {
            name: name.into(),
            validation_class: validation_class.into(),
            index_type: None,
            index_name: None,
            index_options: BTreeMap::new(),
        }
    }

    /// Returns this column with a KEYS index of the default name.
    pub fn indexed(mut self) -> ColumnDef {
        self.index_type = Some(IndexType::Keys);
        self
    }
}

/// Kinds of indexes in Thrift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum IndexType {
    /// Maps values to row keys.
    Keys = 0,
    /// A custom class; none exists here.
    Custom = 1,
    /// Index on a column of a CQL table.
    Composites = 2,
}

impl IndexType {
    const ALL: [IndexType; 3] = [IndexType::Keys, IndexType::Custom, IndexType::Composites];

    /// Returns the kind with this Thrift number.
    pub fn from_number(number: i32) -> Option<IndexType> {
        IndexType::ALL.into_iter().find(|&t| t as i32 == number)
    }

    /// Returns the kind with this name, such as `KEYS`.
    pub fn from_name(name: &str) -> Option<IndexType> {
        IndexType::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Returns its name, such as `KEYS`.
    pub fn name(self) -> &'static str {
        match self {
            IndexType::Keys => "KEYS",
            IndexType::Custom => "CUSTOM",
            IndexType::Composites => "COMPOSITES",
        }
    }
}

/// Serialises bytes as hexadecimal digits.
mod hex_digits {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::types::{hex, hex_to_bytes};

    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&hex(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        hex_to_bytes(&text).map_err(|_| de::Error::custom(format!("not hexadecimal: {text:?}")))
    }
}

/// Serialises optional bytes as hexadecimal digits or null.
mod hex_option {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, s: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::hex_digits::serialize(bytes, s),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<u8>>, D::Error> {
        #[derive(Deserialize)]
        struct Digits(#[serde(with = "super::hex_digits")] Vec<u8>);
        Ok(Option::<Digits>::deserialize(d)?.map(|digits| digits.0))
    }
}
