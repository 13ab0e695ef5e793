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

/// Defines the attributes of a definition: a struct with their values, their table with the types of
/// the values, and the parser.
macro_rules! attributes {
    ($(#[$about:meta])* $change:ident, $(#[$of_table:meta])* $table:ident, $class:literal: {
        $($(#[$doc:meta])? $name:ident $kind:ident $read:ident $(-> $of:ty)?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $change {
            $($(#[$doc] pub $name: Option<$of>,)?)*
        }

        $(#[$of_table])*
        pub const $table: [(&str, ExpectedKind); [$(stringify!($name)),*].len()] =
            [$((stringify!($name), ExpectedKind::$kind)),*];

        impl $change {
            /// Interprets attributes.
            ///
            /// # Errors
            /// An unknown attribute, or an invalid value.
            pub fn new(attributes: &[Attribute]) -> Result<$change, SyntaxFailure> {
                let mut change = $change::default();
                for a in attributes {
                    match &a.name {
                        $(name if name.eq_ignore_ascii_case(stringify!($name)) => {
                            let _value = a.$read()?;
                            $(change.$name = Some::<$of>(_value);)?
                        })*
                        _ => return Err(a.unknown($class, &$table)),
                    }
                }
                Ok(change)
            }
        }
    };
}

attributes! {
    /// Changes to a keyspace; `None` for an attribute that the statement does not set.
    KeyspaceChange,
    /// The attributes of keyspaces, with the types of their values.
    KEYSPACE, "AddKeyspaceArgument": {
        /// The replication strategy class, as written.
        placement_strategy PlacementStrategy string -> String,
        /// Its options.
        strategy_options Options options -> BTreeMap<String, String>,
        /// Whether writes go through the log.
        durable_writes Boolean boolean -> bool,
    }
}

attributes! {
    /// Changes to a column family; `None` for an attribute that the statement does not set.
    FamilyChange,
    /// The attributes of column families, with the types of their values. Those about memtables have
    /// no effect any more. The last ones came with servers after 1.1 ([`AFTER_1_1`]).
    FAMILY, "ColumnFamilyArgument": {
        /// `Standard` or `Super`, as written.
        column_type ColumnType string -> String,
        /// The type of column names, of super columns in a super column family.
        comparator Class string -> String,
        /// The type of the names in super columns.
        subcomparator Class string -> String,
        /// Comment.
        comment AttributeValue string -> String,
        /// Between 0 and 1.
        read_repair_chance AttributeValue chance -> f64,
        /// Between 0 and 1.
        dclocal_read_repair_chance AttributeValue chance -> f64,
        /// Seconds before a tombstone may be purged.
        gc_grace AttributeValue integer -> i32,
        /// Metadata of single columns.
        column_metadata Columns columns -> Vec<ColumnChange>,
        memtable_operations AttributeValue text,
        memtable_throughput AttributeValue text,
        /// The type of values of columns without metadata.
        default_validation_class Class string -> String,
        /// Minimum number of SSTables of a size for a compaction.
        min_compaction_threshold AttributeValue integer -> i32,
        /// Maximum number of SSTables of a compaction.
        max_compaction_threshold AttributeValue integer -> i32,
        /// For counters.
        replicate_on_write Boolean boolean -> bool,
        /// The type of row keys.
        key_validation_class Class string -> String,
        /// The compaction strategy class.
        compaction_strategy CompactionStrategy string -> String,
        /// Its options.
        compaction_strategy_options Options options -> BTreeMap<String, String>,
        /// Compression of SSTables.
        compression_options Options options -> BTreeMap<String, String>,
        /// False-positive chance of the SSTables' Bloom filters.
        bloom_filter_fp_chance AttributeValue chance -> f64,
        /// `ALL`, `KEYS_ONLY`, `ROWS_ONLY` or `NONE`, as written.
        caching Caching string -> String,
        /// Default TTL in seconds.
        default_time_to_live AttributeValue integer -> i32,
        /// When to query another replica speculatively.
        speculative_retry AttributeValue string -> String,
        /// Interval of memtable flushes.
        memtable_flush_period_in_ms AttributeValue integer -> i32,
        /// Minimum interval of index samples.
        min_index_interval AttributeValue integer -> i32,
        /// Maximum interval of index samples.
        max_index_interval AttributeValue integer -> i32,
        /// Cells of a row that the row cache stores.
        cells_per_row_to_cache AttributeValue string -> String,
    }
}

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

    fn string(&self) -> Result<String, SyntaxFailure> {
        self.text().map(str::to_owned)
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
