//! Definitions as clients give and get them: Thrift's `KsDef`, `CfDef` and `ColumnDef` (model 2.6)
//! and cassandra-cli's attributes (model 2.10).
//!
//! Plain data, types by their names. What an unset Thrift field means is what `new` gives: the
//! values that 1.1.12 shows for a family that was created with nothing but a name.
//! [`super::Schema`] checks them and resolves the names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Families and indexes with this number or a larger one are tables of CQL, which keep their own
/// records. Of a compact table there is a family here, too.
pub const FOREIGN_IDS: u32 = 1 << 31;

/// A keyspace and its families.
#[derive(Clone, Debug, PartialEq)]
pub struct KsDef {
    /// 1 to 48 letters, digits and underscores; unique whatever the case.
    pub name: String,
    /// The class that places replicas; a name without a dot is one of Cassandra's own. Kept for
    /// clients: there is one copy here.
    pub strategy_class: String,
    /// Its options, such as `replication_factor`.
    pub strategy_options: BTreeMap<String, String>,
    /// Whether writes go through the log.
    pub durable_writes: bool,
    /// The column families.
    pub cf_defs: Vec<CfDef>,
}

impl KsDef {
    /// A keyspace of one replica, durable, without families.
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
    /// The keyspace it is in. Empty inside of a [`KsDef`] means that one.
    pub keyspace: String,
    /// 1 to 48 letters, digits and underscores; unique in the keyspace.
    pub name: String,
    /// `Standard` or `Super`.
    pub column_type: String,
    /// The type of the names of columns, or of super columns.
    pub comparator_type: String,
    /// The type of the names within super columns; `None` in a super family means `BytesType`, a
    /// standard family must have none.
    pub subcomparator_type: Option<String>,
    /// For people.
    pub comment: String,
    /// The columns about which something is known. A name that stands twice counts as it stands
    /// last.
    pub column_metadata: Vec<ColumnDef>,
    /// The type of values; `CounterColumnType` makes a family of counters.
    pub default_validation_class: String,
    /// The type of row keys.
    pub key_validation_class: String,
    /// The key's name in CQL 2.
    #[serde(with = "hex_option")]
    pub key_alias: Option<Vec<u8>>,
    /// The family's number: given by the schema, never reused. On an update it must be the
    /// family's, where it is set.
    pub id: Option<u32>,
    /// Seconds for which deletions are remembered; not negative.
    pub gc_grace_seconds: i32,
    /// 0 to 1. Kept for clients.
    pub read_repair_chance: f64,
    /// 0 to 1. Kept for clients.
    pub dclocal_read_repair_chance: f64,
    /// At least 2: files of about a size that make a merge. (4 with the other's 32 means what the
    /// engine finds best.)
    pub min_compaction_threshold: i32,
    /// At least the smaller one: files in one merge at most. 0, no automatic compaction, is what
    /// the engine finds best too.
    pub max_compaction_threshold: i32,
    /// Kept for clients: counters here have one copy.
    pub replicate_on_write: bool,
    /// `SizeTieredCompactionStrategy` or `LeveledCompactionStrategy`.
    pub compaction_strategy: String,
    /// Its options, of which `sstable_size_in_mb` has an effect.
    pub compaction_strategy_options: BTreeMap<String, String>,
    /// `sstable_compression` and its options: every compressor means LZ4, none that blocks are
    /// stored as they are.
    pub compression_options: BTreeMap<String, String>,
    /// Above 0, at most 1. `None`: as the engine finds best.
    pub bloom_filter_fp_chance: Option<f64>,
    /// `ALL`, `KEYS_ONLY`, `ROWS_ONLY` or `NONE`. Kept for clients.
    pub caching: String,
    /// Seconds that a column lives where its writer names no time to live; 0 is for ever.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub default_time_to_live: i32,
    /// `NONE`, `ALWAYS`, `99PERCENTILE` or `50ms`. Kept for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_retry: Option<String>,
    /// Milliseconds, not negative. Kept for clients: the engine flushes by size and by log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memtable_flush_period_in_ms: Option<i32>,
    /// At least 1. Kept for clients, as the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_index_interval: Option<i32>,
    /// At least the smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_index_interval: Option<i32>,
    /// `ALL`, `NONE` or a number. Kept for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells_per_row_to_cache: Option<String>,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

impl CfDef {
    /// A standard family of bytes with 1.1.12's defaults.
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

/// One column's definition: the type of its values, and its index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDef {
    /// The name, in the family's type of cell names (of a super family: the subcomparator's).
    #[serde(with = "hex")]
    pub name: Vec<u8>,
    /// The type of its values.
    pub validation_class: String,
    /// An index on its values.
    pub index_type: Option<IndexType>,
    /// The index's name; `None` means `<family>_<column>_idx`. Without an index there is none.
    pub index_name: Option<String>,
    /// The index's options.
    pub index_options: BTreeMap<String, String>,
}

impl ColumnDef {
    /// A column without an index.
    pub fn new(name: impl Into<Vec<u8>>, validation_class: impl Into<String>) -> ColumnDef {
        ColumnDef {
            name: name.into(),
            validation_class: validation_class.into(),
            index_type: None,
            index_name: None,
            index_options: BTreeMap::new(),
        }
    }

    /// The same with a KEYS index of the default name.
    pub fn indexed(mut self) -> ColumnDef {
        self.index_type = Some(IndexType::Keys);
        self
    }
}

/// The kinds of index that Thrift knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum IndexType {
    /// From value to row keys.
    Keys = 0,
    /// A class of the server's owner; none exists here.
    Custom = 1,
    /// On the columns of CQL tables.
    Composites = 2,
}

impl IndexType {
    const ALL: [IndexType; 3] = [IndexType::Keys, IndexType::Custom, IndexType::Composites];

    /// By Thrift's number.
    pub fn from_number(number: i32) -> Option<IndexType> {
        IndexType::ALL.into_iter().find(|&t| t as i32 == number)
    }

    /// By its name, as `KEYS`.
    pub fn from_name(name: &str) -> Option<IndexType> {
        IndexType::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Its name, as `KEYS`.
    pub fn name(self) -> &'static str {
        match self {
            IndexType::Keys => "KEYS",
            IndexType::Custom => "CUSTOM",
            IndexType::Composites => "COMPOSITES",
        }
    }
}

/// Bytes as hexadecimal digits.
pub(super) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn to_text(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    pub fn from_text(text: &str) -> Option<Vec<u8>> {
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        let digits = digits.filter(|d| d.len() % 2 == 0)?;
        Some(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
    }

    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&to_text(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        from_text(&text).ok_or_else(|| de::Error::custom(format!("not hexadecimal: {text:?}")))
    }
}

/// The same, or null.
mod hex_option {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, s: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::hex::serialize(bytes, s),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<u8>>, D::Error> {
        let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
        let bytes = super::hex::from_text(&text)
            .ok_or_else(|| de::Error::custom(format!("not hexadecimal: {text:?}")))?;
        Ok(Some(bytes))
    }
}
