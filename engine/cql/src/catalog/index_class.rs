//! Index classes: names, options, and types that can be indexed.
//!
//! Every index is a tree of the store, with entries sorted by value. The class determines which
//! queries it answers.

use firn_wide::Type;

use super::analyzer::{TextAnalyzer, TextCase, TextSplit};
use super::{ColumnKind, IndexTarget, TableColumn, TableIndex};
use crate::error::{Result, bail, bail_if, configuration, invalid};

/// Class name of storage-attached indexes.
const SAI: &str = "org.apache.cassandra.index.sai.StorageAttachedIndex";
const SASI: &str = "org.apache.cassandra.index.sasi.SASIIndex";
const SASI_ANALYZERS: &str = "org.apache.cassandra.index.sasi.analyzer.";
/// Name for an index without a class.
const LOCAL: &str = "legacy_local_table";

/// Class of an index, which determines the queries that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexClass {
    /// Equality with a value, or with one element. Recorded classes that are unknown are treated
    /// like this one.
    Local,
    /// Equality, ranges, several indexes of a table together, nearest vectors.
    StorageAttached,
    /// Equality, ranges, patterns in texts.
    Sasi,
}

/// Patterns that a SASI index finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SasiMode {
    Prefix,
    Contains,
    Sparse,
}

impl IndexClass {
    /// Returns the class that a statement names; `None` if it is unknown.
    pub fn named(class: &str) -> Option<IndexClass> {
        let is = |word: &str| class.eq_ignore_ascii_case(word);
        if class == SAI || is("sai") || is("StorageAttachedIndex") {
            return Some(IndexClass::StorageAttached);
        }
        (class == SASI).then_some(IndexClass::Sasi)
    }

    /// Returns the class of `CREATE [CUSTOM] INDEX … [USING class]`, as it is recorded; `None` for
    /// an index without a class.
    ///
    /// # Errors
    /// `Unable to find custom indexer class …`.
    pub fn checked(is_custom: bool, class: Option<&str>) -> Result<Option<String>> {
        match class {
            None if is_custom => IndexClass::checked(is_custom, Some(LOCAL)),
            None => Ok(None),
            Some(LOCAL) if !is_custom => Ok(None),
            Some(class) if IndexClass::named(class).is_some() => Ok(Some(class.to_owned())),
            Some(class) => Err(configuration!("Unable to find custom indexer class '{class}'")),
        }
    }
}

/// Reports whether indexes treat values of the type as texts.
fn is_text(of: &Type) -> bool {
    matches!(of, Type::Utf8 | Type::Ascii)
}

/// Reports whether a storage-attached index finds values of the type by equality only.
fn has_no_ranges(of: &Type) -> bool {
    !matches!(
        of,
        Type::Int32
            | Type::Long
            | Type::Short
            | Type::Byte
            | Type::Integer
            | Type::Decimal
            | Type::Float
            | Type::Double
            | Type::Timestamp
            | Type::Date
            | Type::SimpleDate
            | Type::Time
            | Type::Inet
            | Type::TimeUuid
    )
}

impl TableIndex {
    /// Returns its class.
    pub fn answers_as(&self) -> IndexClass {
        self.class.as_deref().and_then(IndexClass::named).unwrap_or(IndexClass::Local)
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    fn says(&self, name: &str, word: &str) -> bool {
        self.option(name).is_some_and(|value| value.eq_ignore_ascii_case(word))
    }

    fn mode(&self) -> Option<SasiMode> {
        match self.option("mode").unwrap_or("PREFIX").to_ascii_uppercase().as_str() {
            "PREFIX" => Some(SasiMode::Prefix),
            "CONTAINS" => Some(SasiMode::Contains),
            "SPARSE" => Some(SasiMode::Sparse),
            _ => None,
        }
    }

    /// Returns its text analyzer.
    pub fn analyzer(&self) -> TextAnalyzer {
        let mut analyzer = TextAnalyzer::default();
        match self.answers_as() {
            IndexClass::Local => {}
            IndexClass::StorageAttached => {
                if self.says("case_sensitive", "false") {
                    analyzer.case = TextCase::Lower;
                }
            }
            IndexClass::Sasi => {
                let class = self.option("analyzer_class").unwrap_or_default();
                let is = |name: &str| class.strip_prefix(SASI_ANALYZERS) == Some(name);
                let on = |name: &str| self.says(name, "true");
                if is("StandardAnalyzer") {
                    analyzer.split = TextSplit::Words;
                    if on("tokenization_normalize_lowercase") {
                        analyzer.case = TextCase::Lower;
                    } else if on("tokenization_normalize_uppercase") {
                        analyzer.case = TextCase::Upper;
                    }
                } else if is("DelimiterAnalyzer") {
                    let delimiter = self.option("delimiter").and_then(|d| d.chars().next());
                    analyzer.split = TextSplit::At(delimiter.unwrap_or(','));
                } else if is("NonTokenizingAnalyzer") {
                    if self.says("case_sensitive", "false") || on("normalize_lowercase") {
                        analyzer.case = TextCase::Lower;
                    } else if on("normalize_uppercase") {
                        analyzer.case = TextCase::Upper;
                    }
                }
            }
        }
        analyzer
    }

    /// Returns the name of its vector similarity function.
    pub fn similarity(&self) -> &str {
        self.option("similarity_function").unwrap_or("cosine")
    }

    /// Reports whether it finds nearest vectors.
    pub fn is_of_vectors(&self, column: &TableColumn) -> bool {
        self.answers_as() == IndexClass::StorageAttached
            && matches!(column.of.value_type, Type::Vector(..))
    }

    /// Reports whether it finds a value of its column by equality.
    pub fn finds_equal(&self, column: &TableColumn) -> bool {
        match (self.answers_as(), self.target) {
            _ if self.is_of_vectors(column) => false,
            (IndexClass::Sasi, _) => !self.analyzer().is_tokenizing(),
            (_, IndexTarget::Full) => true,
            (_, IndexTarget::Simple) => !column.of.is_collection() || !column.of.multicell,
            _ => false,
        }
    }

    /// Reports whether it finds ranges of values of its column.
    pub fn finds_ranges(&self, column: &TableColumn) -> bool {
        let of = &column.of.value_type;
        let by_class = match self.answers_as() {
            IndexClass::Local => false,
            IndexClass::StorageAttached => !has_no_ranges(of),
            IndexClass::Sasi => {
                let is_one_value = !is_text(of) && !column.of.is_collection();
                is_one_value && self.mode() != Some(SasiMode::Contains)
            }
        };
        by_class && self.target == IndexTarget::Simple
    }

    /// Reports whether `LIKE` is allowed on its column.
    pub fn knows_like(&self, column: &TableColumn) -> bool {
        self.answers_as() == IndexClass::Sasi && is_text(&column.of.value_type)
    }

    /// Reports whether it finds this kind of pattern.
    pub fn finds_like(&self, place: super::TextMatch) -> bool {
        use super::TextMatch as M;
        match self.mode() {
            Some(SasiMode::Prefix) => matches!(place, M::Whole | M::Prefix),
            Some(SasiMode::Contains) => place != M::Prefix || !self.analyzer().is_tokenizing(),
            _ => false,
        }
    }

    /// Checks its options against its class and column.
    ///
    /// # Errors
    /// `Configuration` or `Invalid` with Cassandra's texts.
    pub(super) fn check_options(&self, column: &TableColumn) -> Result<()> {
        match self.answers_as() {
            IndexClass::Local => Ok(()),
            IndexClass::StorageAttached => self.check_storage_attached(column),
            IndexClass::Sasi => self.check_sasi(column),
        }
    }

    fn check_storage_attached(&self, column: &TableColumn) -> Result<()> {
        const KNOWN: [&str; 10] = [
            "case_sensitive",
            "normalize",
            "ascii",
            "enable_segment_compaction",
            "bkd_postings_min_leaves",
            "bkd_postings_skip",
            "maximum_node_connections",
            "construction_beam_width",
            "similarity_function",
            "optimize_for",
        ];
        let unknown: Vec<&str> =
            self.options.keys().map(String::as_str).filter(|o| !KNOWN.contains(o)).collect();
        if !unknown.is_empty() {
            return Err(configuration!(
                "Properties specified [{}] are not understood by StorageAttachedIndex",
                unknown.join(", ")
            ));
        }
        let analyzed = ["case_sensitive", "normalize", "ascii"];
        let is_analyzed = analyzed.iter().any(|o| self.options.contains_key(*o));
        if is_analyzed && column.is_primary_key() {
            bail!("Cannot specify index analyzer on primary key column: {}", column.name);
        }
        let value = self.indexed_type(column);
        let is_frozen = matches!(
            value,
            Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Tuple(_) | Type::Udt(_)
        );
        let is_known = is_text(&value)
            || !has_no_ranges(&value)
            || matches!(value, Type::Boolean | Type::Uuid | Type::Vector(..));
        bail_if!(!is_known && !is_frozen, "Unsupported type: {}", value.cql_name());
        if is_analyzed && !is_text(&value) {
            bail!("CQL type {} cannot be analyzed.", value.cql_name());
        }
        if let Some(option) = ["normalize", "ascii"].into_iter().find(|o| self.says(o, "true")) {
            return Err(configuration!("{option} is not supported"));
        }
        self.check_vector_options(&value)
    }

    fn check_vector_options(&self, value: &Type) -> Result<()> {
        let of_vectors = [
            "maximum_node_connections",
            "construction_beam_width",
            "similarity_function",
            "optimize_for",
        ];
        let Type::Vector(element, count) = value else {
            return match of_vectors.iter().any(|o| self.options.contains_key(*o)) {
                true => Err(invalid!("CQL type {} cannot have vector options", value.cql_name())),
                false => Ok(()),
            };
        };
        for (option, words) in [
            ("maximum_node_connections", "Maximum node connections"),
            ("construction_beam_width", "Construction beam width"),
        ] {
            if self.options.contains_key(option) {
                bail!("{words} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS");
            }
        }
        let similarity = self.similarity().to_ascii_uppercase();
        bail_if!(
            !["EUCLIDEAN", "DOT_PRODUCT", "COSINE"].contains(&&*similarity),
            "Similarity function {similarity} was not recognized for index null. Valid values are: EUCLIDEAN, DOT_PRODUCT, COSINE"
        );
        if **element != Type::Float {
            bail!("SAI ANN indexes are only allowed on vector columns with float elements");
        }
        if *count == 1 && similarity == "COSINE" {
            bail!("Cosine similarity is not supported for single-dimension vectors");
        }
        Ok(())
    }

    fn check_sasi(&self, column: &TableColumn) -> Result<()> {
        if column.of.multicell {
            return Err(configuration("complex columns are not yet supported by SASI"));
        }
        if column.kind == ColumnKind::Partition {
            return Err(configuration("partition key columns are not yet supported by SASI"));
        }
        let Some(mode) = self.mode() else {
            let mode = self.option("mode").unwrap_or_default().to_ascii_uppercase();
            return Err(configuration!("Incorrect index mode: {mode}"));
        };
        if mode == SasiMode::Sparse
            && (is_text(&column.of.value_type) || self.options.contains_key("analyzer_class"))
        {
            return Err(configuration("SPARSE mode is only supported on non-literal columns."));
        }
        let Some(class) = self.option("analyzer_class") else { return Ok(()) };
        match class.strip_prefix(SASI_ANALYZERS) {
            Some("NoOpAnalyzer") => Ok(()),
            Some("NonTokenizingAnalyzer") => {
                let normal = ["normalize_lowercase", "normalize_uppercase"];
                let both = self.options.contains_key("case_sensitive")
                    && normal.iter().any(|o| self.options.contains_key(*o));
                match both {
                    true => Err(configuration(
                        "case_sensitive option cannot be specified together with either normalize_lowercase or normalize_uppercase",
                    )),
                    false => Ok(()),
                }
            }
            Some("StandardAnalyzer") => {
                let wrong = ["tokenization_enable_stemming", "tokenization_skip_stop_words"];
                match wrong.into_iter().find(|o| self.says(o, "true")) {
                    Some(option) => Err(configuration!("{option} is not supported")),
                    None => Ok(()),
                }
            }
            Some("DelimiterAnalyzer") => match self.option("delimiter") {
                Some(delimiter) if delimiter.chars().count() != 1 => Err(configuration!(
                    "Only single character delimiters supported, was {delimiter}"
                )),
                _ => Ok(()),
            },
            _ => Err(configuration!("Unable to find analyzer class '{class}'")),
        }
    }

    /// Returns the type of the indexed values.
    fn indexed_type(&self, column: &TableColumn) -> Type {
        match (&column.of.value_type, self.target) {
            (Type::List(of) | Type::Set(of), IndexTarget::Values) => (**of).clone(),
            (Type::Map(of), IndexTarget::Keys) => of.0.clone(),
            (Type::Map(of), IndexTarget::Values | IndexTarget::Entries) => of.1.clone(),
            (of, _) => of.clone(),
        }
    }
}
