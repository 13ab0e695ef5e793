//! Converts Thrift's structures to those of the data model, and back. Unknown fields are ignored; a
//! missing required field is refused with the message of Thrift's servers.

use std::collections::BTreeMap;

use firn_wide::{
    CfDef, Column, ColumnDef, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn,
    CounterSuperColumn, Deletion, IndexClause, IndexExpression, IndexOperator, IndexType, KeyBound,
    KeyRange, KeySlice, KsDef, Mutation, PredicateParts, RowMutation, SlicePredicate, SliceRange,
    SuperColumn, TokenRange,
};

use super::binary::{ThriftValue, element};
use super::fault::{ThriftFault, invalid};

type Result<T> = std::result::Result<T, ThriftFault>;
type TextMap = BTreeMap<String, String>;

/// Fields of a structure, or arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct ThriftFields<'v> {
    /// Name of the structure, for messages.
    name: &'static str,
    fields: &'v [(i16, ThriftValue<'v>)],
}

fn text_of(value: &ThriftValue<'_>) -> Option<String> {
    match value {
        ThriftValue::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    }
}

impl<'v> ThriftFields<'v> {
    /// Returns the fields of a structure.
    ///
    /// # Errors
    /// A value of another type.
    pub fn of(name: &'static str, value: &'v ThriftValue<'v>) -> Result<ThriftFields<'v>> {
        match value {
            ThriftValue::Struct(fields) => Ok(ThriftFields { name, fields }),
            _ => Err(ThriftFault::protocol(format!("{name} is no structure"))),
        }
    }

    fn find(&self, number: i16) -> Option<&'v ThriftValue<'v>> {
        self.fields.iter().find(|(n, _)| *n == number).map(|(_, value)| value)
    }

    /// Returns the unconverted value of a field.
    pub fn value(&self, number: i16) -> Option<&'v ThriftValue<'v>> {
        self.find(number)
    }

    fn wrong(&self, field: &str) -> ThriftFault {
        ThriftFault::protocol(format!("{}.{field} has another type", self.name))
    }

    fn missing(&self, field: &str) -> ThriftFault {
        ThriftFault::protocol(format!(
            "Required field '{field}' was not present! Struct: {}",
            self.name
        ))
    }

    fn get<T>(
        &self,
        number: i16,
        field: &str,
        read: impl FnOnce(&'v ThriftValue<'v>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.find(number) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(field))
    }

    /// Reads an optional structure.
    pub fn struct_of(&self, number: i16, field: &'static str) -> Result<Option<ThriftFields<'v>>> {
        self.find(number).map(|value| ThriftFields::of(field, value)).transpose()
    }

    /// Reads a required structure.
    pub fn need_struct(&self, number: i16, field: &'static str) -> Result<ThriftFields<'v>> {
        self.struct_of(number, field)?.ok_or_else(|| self.missing(field))
    }

    /// Reads optional bytes.
    pub fn bytes(&self, number: i16, field: &str) -> Result<Option<Vec<u8>>> {
        self.get(number, field, |value| match value {
            ThriftValue::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
    }

    /// Reads required bytes.
    pub fn need_bytes(&self, number: i16, field: &str) -> Result<Vec<u8>> {
        self.bytes(number, field)?.ok_or_else(|| self.missing(field))
    }

    /// Reads an optional text.
    pub fn text(&self, number: i16, field: &str) -> Result<Option<String>> {
        self.get(number, field, text_of)
    }

    /// Reads a required text.
    pub fn need_text(&self, number: i16, field: &str) -> Result<String> {
        self.text(number, field)?.ok_or_else(|| self.missing(field))
    }

    /// Reads an optional 32-bit integer.
    pub fn int(&self, number: i16, field: &str) -> Result<Option<i32>> {
        self.get(number, field, |value| match value {
            ThriftValue::I32(n) => Some(*n),
            _ => None,
        })
    }

    /// Reads an optional 64-bit integer.
    pub fn long(&self, number: i16, field: &str) -> Result<Option<i64>> {
        self.get(number, field, |value| match value {
            ThriftValue::I64(n) => Some(*n),
            _ => None,
        })
    }

    /// Reads an optional flag.
    pub fn flag(&self, number: i16, field: &str) -> Result<Option<bool>> {
        self.get(number, field, |value| match value {
            ThriftValue::Bool(on) => Some(*on),
            _ => None,
        })
    }

    fn double(&self, number: i16, field: &str) -> Result<Option<f64>> {
        self.get(number, field, |value| match value {
            ThriftValue::Double(n) => Some(*n),
            _ => None,
        })
    }

    /// Reads an optional list and converts each element.
    pub fn list<T>(
        &self,
        number: i16,
        field: &str,
        mut each: impl FnMut(&'v ThriftValue<'v>) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let all = self.get(number, field, |value| match value {
            ThriftValue::List(all) => Some(all),
            _ => None,
        })?;
        all.map(|all| all.iter().map(&mut each).collect()).transpose()
    }

    /// Reads an optional list of bytes.
    pub fn bytes_list(&self, number: i16, field: &'static str) -> Result<Option<Vec<Vec<u8>>>> {
        self.list(number, field, |value| match value {
            ThriftValue::Bytes(bytes) => Ok(bytes.to_vec()),
            _ => Err(self.wrong(field)),
        })
    }

    /// Reads an optional map of texts.
    pub fn texts(&self, number: i16, field: &str) -> Result<Option<TextMap>> {
        self.get(number, field, |value| match value {
            ThriftValue::Map(pairs) => {
                pairs.iter().map(|(key, value)| Some((text_of(key)?, text_of(value)?))).collect()
            }
            _ => None,
        })
    }
}

/// Conversion from the fields of a structure.
pub trait FromThrift: Sized {
    /// Name of the structure.
    const NAME: &'static str;

    /// Converts these fields.
    ///
    /// # Errors
    /// A missing required field, or an invalid value.
    fn from_fields(fields: ThriftFields<'_>) -> Result<Self>;

    /// Converts this value.
    ///
    /// # Errors
    /// As [`from_fields`](FromThrift::from_fields).
    fn from_value(value: &ThriftValue<'_>) -> Result<Self> {
        Self::from_fields(ThriftFields::of(Self::NAME, value)?)
    }
}

impl ThriftFields<'_> {
    /// Reads an optional structure and converts it.
    ///
    /// # Errors
    /// As [`FromThrift::from_fields`].
    pub fn find_made<T: FromThrift>(&self, number: i16) -> Result<Option<T>> {
        self.find(number).map(T::from_value).transpose()
    }

    /// Reads a required structure and converts it.
    ///
    /// # Errors
    /// As [`FromThrift::from_fields`].
    pub fn made<T: FromThrift>(&self, number: i16, field: &str) -> Result<T> {
        self.find_made(number)?.ok_or_else(|| self.missing(field))
    }
}

impl FromThrift for Column {
    const NAME: &'static str = "Column";

    fn from_fields(f: ThriftFields<'_>) -> Result<Column> {
        let (value, timestamp) = (f.bytes(2, "value")?, f.long(3, "timestamp")?);
        Ok(Column::from_parts(f.need_bytes(1, "name")?, value, timestamp, f.int(4, "ttl")?)?)
    }
}

impl FromThrift for SuperColumn {
    const NAME: &'static str = "SuperColumn";

    fn from_fields(f: ThriftFields<'_>) -> Result<SuperColumn> {
        let columns = f.list(2, "columns", Column::from_value)?;
        let columns = columns.ok_or_else(|| f.missing("columns"))?;
        Ok(SuperColumn { name: f.need_bytes(1, "name")?, columns })
    }
}

impl FromThrift for CounterColumn {
    const NAME: &'static str = "CounterColumn";

    fn from_fields(f: ThriftFields<'_>) -> Result<CounterColumn> {
        let value = f.long(2, "value")?.ok_or_else(|| f.missing("value"))?;
        Ok(CounterColumn { name: f.need_bytes(1, "name")?, value })
    }
}

impl FromThrift for CounterSuperColumn {
    const NAME: &'static str = "CounterSuperColumn";

    fn from_fields(f: ThriftFields<'_>) -> Result<CounterSuperColumn> {
        let columns = f.list(2, "columns", CounterColumn::from_value)?;
        let columns = columns.ok_or_else(|| f.missing("columns"))?;
        Ok(CounterSuperColumn { name: f.need_bytes(1, "name")?, columns })
    }
}

impl FromThrift for ColumnOrSuperColumn {
    const NAME: &'static str = "ColumnOrSuperColumn";

    fn from_fields(f: ThriftFields<'_>) -> Result<ColumnOrSuperColumn> {
        Ok(ColumnOrSuperColumn::from_parts(
            f.find_made(1)?,
            f.find_made(2)?,
            f.find_made(3)?,
            f.find_made(4)?,
        )?)
    }
}

impl FromThrift for KeySlice {
    const NAME: &'static str = "KeySlice";

    fn from_fields(f: ThriftFields<'_>) -> Result<KeySlice> {
        let columns = f.list(2, "columns", ColumnOrSuperColumn::from_value)?;
        let columns = columns.ok_or_else(|| f.missing("columns"))?;
        Ok(KeySlice { key: f.need_bytes(1, "key")?, columns })
    }
}

impl FromThrift for ColumnParent {
    const NAME: &'static str = "ColumnParent";

    fn from_fields(f: ThriftFields<'_>) -> Result<ColumnParent> {
        let column_family = f.need_text(3, "column_family")?;
        Ok(ColumnParent { column_family, super_column: f.bytes(4, "super_column")? })
    }
}

impl FromThrift for ColumnPath {
    const NAME: &'static str = "ColumnPath";

    fn from_fields(f: ThriftFields<'_>) -> Result<ColumnPath> {
        let column_family = f.need_text(3, "column_family")?;
        let (super_column, column) = (f.bytes(4, "super_column")?, f.bytes(5, "column")?);
        Ok(ColumnPath { column_family, super_column, column })
    }
}

impl FromThrift for SliceRange {
    const NAME: &'static str = "SliceRange";

    fn from_fields(f: ThriftFields<'_>) -> Result<SliceRange> {
        Ok(SliceRange {
            start: f.need_bytes(1, "start")?,
            finish: f.need_bytes(2, "finish")?,
            reversed: f.flag(3, "reversed")?.unwrap_or(false),
            count: f.int(4, "count")?.unwrap_or(100),
        })
    }
}

/// Reads the parts of a predicate; both, one or none may be present.
fn predicate_parts(f: ThriftFields<'_>) -> Result<PredicateParts> {
    Ok((f.bytes_list(1, "column_names")?, f.find_made(2)?))
}

impl FromThrift for SlicePredicate {
    const NAME: &'static str = "SlicePredicate";

    fn from_fields(f: ThriftFields<'_>) -> Result<SlicePredicate> {
        let (names, range) = predicate_parts(f)?;
        Ok(SlicePredicate::from_parts(names, range)?)
    }
}

impl FromThrift for IndexExpression {
    const NAME: &'static str = "IndexExpression";

    fn from_fields(f: ThriftFields<'_>) -> Result<IndexExpression> {
        let op = f.int(2, "op")?.ok_or_else(|| f.missing("op"))?;
        let unknown = || invalid(format!("{op} is no operator of an index"));
        Ok(IndexExpression {
            column_name: f.need_bytes(1, "column_name")?,
            op: IndexOperator::from_number(op).ok_or_else(unknown)?,
            value: f.need_bytes(3, "value")?,
        })
    }
}

impl FromThrift for IndexClause {
    const NAME: &'static str = "IndexClause";

    fn from_fields(f: ThriftFields<'_>) -> Result<IndexClause> {
        let expressions = f.list(1, "expressions", IndexExpression::from_value)?;
        Ok(IndexClause {
            expressions: expressions.ok_or_else(|| f.missing("expressions"))?,
            start_key: f.need_bytes(2, "start_key")?,
            count: f.int(3, "count")?.unwrap_or(100),
        })
    }
}

impl FromThrift for KeyRange {
    const NAME: &'static str = "KeyRange";

    fn from_fields(f: ThriftFields<'_>) -> Result<KeyRange> {
        Ok(KeyRange::from_parts(
            f.bytes(1, "start_key")?,
            f.bytes(2, "end_key")?,
            f.text(3, "start_token")?,
            f.text(4, "end_token")?,
            f.int(5, "count")?.unwrap_or(100),
            f.list(6, "row_filter", IndexExpression::from_value)?.unwrap_or_default(),
        )?)
    }
}

impl FromThrift for Deletion {
    const NAME: &'static str = "Deletion";

    fn from_fields(f: ThriftFields<'_>) -> Result<Deletion> {
        let (timestamp, super_column) = (f.long(1, "timestamp")?, f.bytes(2, "super_column")?);
        let predicate = f.struct_of(3, SlicePredicate::NAME)?.map(predicate_parts).transpose()?;
        Ok(Deletion::from_parts(timestamp, super_column, predicate)?)
    }
}

impl FromThrift for Mutation {
    const NAME: &'static str = "Mutation";

    fn from_fields(f: ThriftFields<'_>) -> Result<Mutation> {
        Ok(Mutation::from_parts(f.find_made(1)?, f.find_made(2)?)?)
    }
}

/// Reads the argument of `batch_mutate`: the mutations by row and column family.
///
/// # Errors
/// As [`FromThrift::from_fields`].
pub fn mutations(f: ThriftFields<'_>) -> Result<Vec<RowMutation>> {
    let wrong = || f.wrong("mutation_map");
    let rows = f.get(1, "mutation_map", |value| match value {
        ThriftValue::Map(rows) => Some(rows),
        _ => None,
    })?;
    let mut out = vec![];
    for (key, families) in rows.ok_or_else(|| f.missing("mutation_map"))? {
        let (ThriftValue::Bytes(key), ThriftValue::Map(families)) = (key, families) else {
            return Err(wrong());
        };
        for (family, mutations) in families {
            let (Some(family), ThriftValue::List(mutations)) = (text_of(family), mutations) else {
                return Err(wrong());
            };
            let all: Vec<Mutation> =
                mutations.iter().map(Mutation::from_value).collect::<Result<_>>()?;
            out.push(RowMutation::new(key.to_vec(), family, all));
        }
    }
    Ok(out)
}

impl FromThrift for ColumnDef {
    const NAME: &'static str = "ColumnDef";

    fn from_fields(f: ThriftFields<'_>) -> Result<ColumnDef> {
        let index_type = match f.int(3, "index_type")? {
            None => None,
            Some(0) => Some(IndexType::Keys),
            Some(1) => Some(IndexType::Custom),
            Some(2) => Some(IndexType::Composites),
            Some(other) => return Err(invalid(format!("{other} is no type of an index"))),
        };
        Ok(ColumnDef {
            index_type,
            index_name: f.text(4, "index_name")?,
            index_options: f.texts(5, "index_options")?.unwrap_or_default(),
            ..ColumnDef::new(f.need_bytes(1, "name")?, f.need_text(2, "validation_class")?)
        })
    }
}

impl FromThrift for CfDef {
    const NAME: &'static str = "CfDef";

    fn from_fields(f: ThriftFields<'_>) -> Result<CfDef> {
        let usual = CfDef::new(f.need_text(1, "keyspace")?, f.need_text(2, "name")?);
        let text = |number, field: &str, usual: String| -> Result<String> {
            Ok(f.text(number, field)?.unwrap_or(usual))
        };
        let int = |number, field: &str, usual: i32| -> Result<i32> {
            Ok(f.int(number, field)?.unwrap_or(usual))
        };
        if f.list(43, "triggers", |_| Ok(()))?.is_some_and(|all| !all.is_empty()) {
            return Err(invalid("triggers are not supported: leave the field `triggers` out"));
        }
        let id = f.int(16, "id")?.and_then(|id| u32::try_from(id).ok()).filter(|id| *id > 0);
        Ok(CfDef {
            column_type: text(3, "column_type", usual.column_type)?,
            comparator_type: text(5, "comparator_type", usual.comparator_type)?,
            subcomparator_type: f.text(6, "subcomparator_type")?.filter(|t| !t.is_empty()),
            comment: text(8, "comment", usual.comment)?,
            read_repair_chance: f
                .double(12, "read_repair_chance")?
                .unwrap_or(usual.read_repair_chance),
            column_metadata: f
                .list(13, "column_metadata", ColumnDef::from_value)?
                .unwrap_or_default(),
            gc_grace_seconds: int(14, "gc_grace_seconds", usual.gc_grace_seconds)?,
            default_validation_class: text(
                15,
                "default_validation_class",
                usual.default_validation_class,
            )?,
            id,
            min_compaction_threshold: int(
                17,
                "min_compaction_threshold",
                usual.min_compaction_threshold,
            )?,
            max_compaction_threshold: int(
                18,
                "max_compaction_threshold",
                usual.max_compaction_threshold,
            )?,
            replicate_on_write: f
                .flag(24, "replicate_on_write")?
                .unwrap_or(usual.replicate_on_write),
            key_validation_class: text(26, "key_validation_class", usual.key_validation_class)?,
            key_alias: f.bytes(28, "key_alias")?,
            compaction_strategy: text(29, "compaction_strategy", usual.compaction_strategy)?,
            compaction_strategy_options: f
                .texts(30, "compaction_strategy_options")?
                .unwrap_or_default(),
            compression_options: f
                .texts(32, "compression_options")?
                .unwrap_or(usual.compression_options),
            bloom_filter_fp_chance: f.double(33, "bloom_filter_fp_chance")?,
            caching: text(34, "caching", usual.caching)?.to_ascii_uppercase(),
            dclocal_read_repair_chance: f
                .double(37, "dclocal_read_repair_chance")?
                .unwrap_or(usual.dclocal_read_repair_chance),
            memtable_flush_period_in_ms: f.int(39, "memtable_flush_period_in_ms")?,
            default_time_to_live: int(40, "default_time_to_live", usual.default_time_to_live)?,
            speculative_retry: f.text(42, "speculative_retry")?,
            cells_per_row_to_cache: f.text(44, "cells_per_row_to_cache")?,
            min_index_interval: f.int(45, "min_index_interval")?.or(f.int(41, "index_interval")?),
            max_index_interval: f.int(46, "max_index_interval")?,
            keyspace: usual.keyspace,
            name: usual.name,
        })
    }
}

impl FromThrift for KsDef {
    const NAME: &'static str = "KsDef";

    fn from_fields(f: ThriftFields<'_>) -> Result<KsDef> {
        let mut strategy_options = f.texts(3, "strategy_options")?.unwrap_or_default();
        // Before 1.0 it was a separate field.
        if let Some(factor) = f.int(4, "replication_factor")? {
            strategy_options.entry("replication_factor".into()).or_insert(factor.to_string());
        }
        Ok(KsDef {
            strategy_class: f.need_text(2, "strategy_class")?,
            strategy_options,
            durable_writes: f.flag(6, "durable_writes")?.unwrap_or(true),
            cf_defs: f.list(5, "cf_defs", CfDef::from_value)?.unwrap_or_default(),
            ..KsDef::new(f.need_text(1, "name")?)
        })
    }
}

/// Conversion to the fields of a structure.
pub trait ToThrift {
    /// Returns the value.
    fn to_thrift(&self) -> ThriftValue<'static>;
}

fn bytes(bytes: &[u8]) -> ThriftValue<'static> {
    ThriftValue::bytes(bytes.to_vec())
}

fn all<T: ToThrift>(all: &[T]) -> ThriftValue<'static> {
    ThriftValue::list(element::STRUCT, all.iter().map(ToThrift::to_thrift))
}

/// Converts a map of texts.
pub fn texts(all: &TextMap) -> ThriftValue<'static> {
    let pair = |(key, value): (&String, &String)| {
        (ThriftValue::text(key.clone()), ThriftValue::text(value.clone()))
    };
    ThriftValue::map(element::BYTES, element::BYTES, all.iter().map(pair))
}

impl ToThrift for Column {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let mut fields = vec![
            (1, bytes(&self.name)),
            (2, bytes(&self.value)),
            (3, ThriftValue::I64(self.timestamp)),
        ];
        fields.extend(self.ttl.map(|ttl| (4, ThriftValue::I32(ttl))));
        ThriftValue::Struct(fields)
    }
}

impl ToThrift for SuperColumn {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![(1, bytes(&self.name)), (2, all(&self.columns))])
    }
}

impl ToThrift for CounterColumn {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![(1, bytes(&self.name)), (2, ThriftValue::I64(self.value))])
    }
}

impl ToThrift for CounterSuperColumn {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![(1, bytes(&self.name)), (2, all(&self.columns))])
    }
}

impl ToThrift for ColumnOrSuperColumn {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![match self {
            ColumnOrSuperColumn::Column(c) => (1, c.to_thrift()),
            ColumnOrSuperColumn::SuperColumn(c) => (2, c.to_thrift()),
            ColumnOrSuperColumn::CounterColumn(c) => (3, c.to_thrift()),
            ColumnOrSuperColumn::CounterSuperColumn(c) => (4, c.to_thrift()),
        }])
    }
}

impl ToThrift for ColumnParent {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let mut fields = vec![(3, ThriftValue::text(self.column_family.clone()))];
        fields.extend(self.super_column.as_ref().map(|name| (4, bytes(name))));
        ThriftValue::Struct(fields)
    }
}

impl ToThrift for ColumnPath {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let mut fields = vec![(3, ThriftValue::text(self.column_family.clone()))];
        fields.extend(self.super_column.as_ref().map(|name| (4, bytes(name))));
        fields.extend(self.column.as_ref().map(|name| (5, bytes(name))));
        ThriftValue::Struct(fields)
    }
}

impl ToThrift for SliceRange {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![
            (1, bytes(&self.start)),
            (2, bytes(&self.finish)),
            (3, ThriftValue::Bool(self.reversed)),
            (4, ThriftValue::I32(self.count)),
        ])
    }
}

impl ToThrift for SlicePredicate {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![match self {
            SlicePredicate::Names(names) => {
                (1, ThriftValue::list(element::BYTES, names.iter().map(|name| bytes(name))))
            }
            SlicePredicate::Range(range) => (2, range.to_thrift()),
        }])
    }
}

impl ToThrift for IndexExpression {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let op = ThriftValue::I32(self.op as i32);
        ThriftValue::Struct(vec![(1, bytes(&self.column_name)), (2, op), (3, bytes(&self.value))])
    }
}

impl ToThrift for IndexClause {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let (start, count) = (bytes(&self.start_key), ThriftValue::I32(self.count));
        ThriftValue::Struct(vec![(1, all(&self.expressions)), (2, start), (3, count)])
    }
}

impl ToThrift for KeyRange {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let bound = |key: i16, token: i16, bound: &KeyBound| match bound {
            KeyBound::Key(name) => (key, bytes(name)),
            KeyBound::Token(text) => (token, ThriftValue::text(text.clone())),
        };
        let mut fields = vec![
            bound(1, 3, &self.start),
            bound(2, 4, &self.end),
            (5, ThriftValue::I32(self.count)),
        ];
        if !self.row_filter.is_empty() {
            fields.push((6, all(&self.row_filter)));
        }
        ThriftValue::Struct(fields)
    }
}

impl ToThrift for KeySlice {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![(1, bytes(&self.key)), (2, all(&self.columns))])
    }
}

impl ToThrift for TokenRange {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let ends = self.endpoints.iter().map(|e| ThriftValue::text(e.clone()));
        let endpoints = ThriftValue::list(element::BYTES, ends);
        let detail = |host: &String| {
            ThriftValue::Struct(vec![
                (1, ThriftValue::text(host.clone())),
                (2, ThriftValue::text("datacenter1")),
                (3, ThriftValue::text("rack1")),
            ])
        };
        ThriftValue::Struct(vec![
            (1, ThriftValue::text(self.start_token.clone())),
            (2, ThriftValue::text(self.end_token.clone())),
            (3, endpoints.clone()),
            (4, endpoints),
            (5, ThriftValue::list(element::STRUCT, self.endpoints.iter().map(detail))),
        ])
    }
}

impl ToThrift for ColumnDef {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let mut fields =
            vec![(1, bytes(&self.name)), (2, ThriftValue::text(self.validation_class.clone()))];
        if let Some(of) = self.index_type {
            fields.push((3, ThriftValue::I32(of as i32)));
        }
        if let Some(name) = &self.index_name {
            fields.push((4, ThriftValue::text(name.clone())));
        }
        if !self.index_options.is_empty() {
            fields.push((5, texts(&self.index_options)));
        }
        ThriftValue::Struct(fields)
    }
}

impl ToThrift for CfDef {
    fn to_thrift(&self) -> ThriftValue<'static> {
        let text = |text: &String| ThriftValue::text(text.clone());
        let mut fields = vec![
            (1, text(&self.keyspace)),
            (2, text(&self.name)),
            (3, text(&self.column_type)),
            (5, text(&self.comparator_type)),
            (8, text(&self.comment)),
            (12, ThriftValue::Double(self.read_repair_chance)),
            (13, all(&self.column_metadata)),
            (14, ThriftValue::I32(self.gc_grace_seconds)),
            (15, text(&self.default_validation_class)),
            (17, ThriftValue::I32(self.min_compaction_threshold)),
            (18, ThriftValue::I32(self.max_compaction_threshold)),
            (24, ThriftValue::Bool(self.replicate_on_write)),
            (26, text(&self.key_validation_class)),
            (29, text(&self.compaction_strategy)),
            (30, texts(&self.compaction_strategy_options)),
            (32, texts(&self.compression_options)),
            (34, text(&self.caching)),
            (37, ThriftValue::Double(self.dclocal_read_repair_chance)),
            (40, ThriftValue::I32(self.default_time_to_live)),
        ];
        for (field, number) in [
            (39, self.memtable_flush_period_in_ms),
            (45, self.min_index_interval),
            (46, self.max_index_interval),
        ] {
            fields.extend(number.map(|n| (field, ThriftValue::I32(n))));
        }
        fields.extend(self.speculative_retry.as_ref().map(|of| (42, text(of))));
        fields.extend(self.cells_per_row_to_cache.as_ref().map(|of| (44, text(of))));
        fields.extend(self.subcomparator_type.as_ref().map(|of| (6, text(of))));
        fields.extend(self.id.map(|id| (16, ThriftValue::I32(id as i32))));
        fields.extend(self.key_alias.as_ref().map(|alias| (28, bytes(alias))));
        fields.extend(self.bloom_filter_fp_chance.map(|n| (33, ThriftValue::Double(n))));
        fields.sort_by_key(|(number, _)| *number);
        ThriftValue::Struct(fields)
    }
}

impl ToThrift for KsDef {
    fn to_thrift(&self) -> ThriftValue<'static> {
        ThriftValue::Struct(vec![
            (1, ThriftValue::text(self.name.clone())),
            (2, ThriftValue::text(self.strategy_class.clone())),
            (3, texts(&self.strategy_options)),
            (5, all(&self.cf_defs)),
            (6, ThriftValue::Bool(self.durable_writes)),
        ])
    }
}

/// Converts a list of structures.
pub fn list_of<T: ToThrift>(values: &[T]) -> ThriftValue<'static> {
    all(values)
}
