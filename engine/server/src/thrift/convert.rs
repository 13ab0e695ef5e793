//! Converts Thrift's structures to those of the data model, and back: the fields of each with their
//! numbers in the interface.

use std::collections::BTreeMap;

use firn_wide::{
    CfDef, Column, ColumnDef, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn,
    CounterSuperColumn, Deletion, IndexClause, IndexExpression, KeyBound, KeyRange, KeySlice,
    KsDef, Mutation, PredicateParts, RowMutation, SlicePredicate, SliceRange, SuperColumn,
    TokenRange,
};

use super::binary::element;
use super::fault::invalid;
use super::fields::{FromThrift, Result, ThriftFields};
use super::writer::{Elements, Pairs, ThriftWriter, WriteField, structure};

/// Implements both conversions of structures whose fields have the same names here. A field without
/// a default is required, unless it is an `Option`. `with` names the value that has the defaults,
/// and `then` a function that completes the structure.
macro_rules! structures {
    ($($name:ident $(with $defaults:ident = $new:expr;)? $(then $finish:ident;)? {
        $($number:literal $field:ident $(= $default:expr)?),+ $(,)?
    })+) => {$(
        impl FromThrift for $name {
            const NAME: &'static str = stringify!($name);

            fn from_fields(f: &ThriftFields<'_>) -> Result<$name> {
                $(let $defaults = $new;)?
                let read = $name { $($field: structures!(@read f $number $field $($default)?)),+ };
                $(let read = $finish(f, read)?;)?
                Ok(read)
            }
        }

        impl WriteField for $name {
            const CODE: u8 = element::STRUCT;

            fn put(&self, w: &mut ThriftWriter<'_>) {
                $(w.field($number, &self.$field);)+
                w.stop();
            }
        }
    )+};
    (@read $f:ident $number:literal $field:ident) => {
        $f.read($number, stringify!($field))?
    };
    (@read $f:ident $number:literal $field:ident $default:expr) => {
        $f.read_or($number, stringify!($field), $default)?
    };
}

structures! {
    SuperColumn { 1 name, 2 columns }
    CounterColumn { 1 name, 2 value }
    CounterSuperColumn { 1 name, 2 columns }
    KeySlice { 1 key, 2 columns }
    ColumnParent { 3 column_family, 4 super_column }
    ColumnPath { 3 column_family, 4 super_column, 5 column }
    SliceRange { 1 start, 2 finish, 3 reversed = false, 4 count = 100 }
    IndexExpression { 1 column_name, 2 op, 3 value }
    IndexClause { 1 expressions, 2 start_key, 3 count = 100 }
    CfDef with usual = CfDef::new("", ""); then complete_cf_def; {
        1 keyspace,
        2 name,
        3 column_type = usual.column_type,
        5 comparator_type = usual.comparator_type,
        6 subcomparator_type,
        8 comment = usual.comment,
        12 read_repair_chance = usual.read_repair_chance,
        13 column_metadata = vec![],
        14 gc_grace_seconds = usual.gc_grace_seconds,
        15 default_validation_class = usual.default_validation_class,
        16 id,
        17 min_compaction_threshold = usual.min_compaction_threshold,
        18 max_compaction_threshold = usual.max_compaction_threshold,
        24 replicate_on_write = usual.replicate_on_write,
        26 key_validation_class = usual.key_validation_class,
        28 key_alias,
        29 compaction_strategy = usual.compaction_strategy,
        30 compaction_strategy_options = BTreeMap::new(),
        32 compression_options = usual.compression_options,
        33 bloom_filter_fp_chance,
        34 caching = usual.caching,
        37 dclocal_read_repair_chance = usual.dclocal_read_repair_chance,
        39 memtable_flush_period_in_ms,
        40 default_time_to_live = usual.default_time_to_live,
        42 speculative_retry,
        44 cells_per_row_to_cache,
        45 min_index_interval,
        46 max_index_interval,
    }
    KsDef then complete_ks_def; {
        1 name,
        2 strategy_class,
        3 strategy_options = BTreeMap::new(),
        5 cf_defs = vec![],
        6 durable_writes = true,
    }
}

fn complete_cf_def(f: &ThriftFields<'_>, def: CfDef) -> Result<CfDef> {
    if let Some(triggers) = f.value(43) {
        let mut triggers = triggers.elements().ok_or_else(|| f.wrong_type("triggers"))?;
        if triggers.next().is_some() {
            return Err(invalid("triggers are not supported: leave the field `triggers` out"));
        }
    }
    Ok(CfDef {
        id: def.id.filter(|id| *id > 0),
        caching: def.caching.to_ascii_uppercase(),
        subcomparator_type: def.subcomparator_type.filter(|of| !of.is_empty()),
        min_index_interval: def.min_index_interval.or(f.read(41, "index_interval")?),
        ..def
    })
}

fn complete_ks_def(f: &ThriftFields<'_>, mut def: KsDef) -> Result<KsDef> {
    // Before 1.0 it was a separate field.
    if let Some(factor) = f.read::<Option<i32>>(4, "replication_factor")? {
        def.strategy_options.entry("replication_factor".into()).or_insert(factor.to_string());
    }
    Ok(def)
}

impl FromThrift for Column {
    const NAME: &'static str = "Column";

    fn from_fields(f: &ThriftFields<'_>) -> Result<Column> {
        let (value, timestamp) = (f.read(2, "value")?, f.read(3, "timestamp")?);
        Ok(Column::from_parts(f.read(1, "name")?, value, timestamp, f.read(4, "ttl")?)?)
    }
}

impl WriteField for Column {
    const CODE: u8 = element::STRUCT;

    fn put(&self, w: &mut ThriftWriter<'_>) {
        w.field(1, &self.name);
        w.field(2, &self.value);
        w.field(3, &self.timestamp);
        w.field(4, &self.ttl);
        w.stop();
    }
}

impl FromThrift for ColumnOrSuperColumn {
    const NAME: &'static str = "ColumnOrSuperColumn";

    fn from_fields(f: &ThriftFields<'_>) -> Result<ColumnOrSuperColumn> {
        Ok(ColumnOrSuperColumn::from_parts(
            f.read(1, "column")?,
            f.read(2, "super_column")?,
            f.read(3, "counter_column")?,
            f.read(4, "counter_super_column")?,
        )?)
    }
}

impl WriteField for ColumnOrSuperColumn {
    const CODE: u8 = element::STRUCT;

    fn put(&self, w: &mut ThriftWriter<'_>) {
        match self {
            ColumnOrSuperColumn::Column(c) => w.field(1, c),
            ColumnOrSuperColumn::SuperColumn(c) => w.field(2, c),
            ColumnOrSuperColumn::CounterColumn(c) => w.field(3, c),
            ColumnOrSuperColumn::CounterSuperColumn(c) => w.field(4, c),
        }
        w.stop();
    }
}

/// The parts of a predicate; both, one or none may be present.
impl FromThrift for PredicateParts {
    const NAME: &'static str = "SlicePredicate";

    fn from_fields(f: &ThriftFields<'_>) -> Result<PredicateParts> {
        Ok((f.read(1, "column_names")?, f.read(2, "slice_range")?))
    }
}

impl FromThrift for SlicePredicate {
    const NAME: &'static str = "SlicePredicate";

    fn from_fields(f: &ThriftFields<'_>) -> Result<SlicePredicate> {
        let (names, range) = PredicateParts::from_fields(f)?;
        Ok(SlicePredicate::from_parts(names, range)?)
    }
}

impl WriteField for SlicePredicate {
    const CODE: u8 = element::STRUCT;

    fn put(&self, w: &mut ThriftWriter<'_>) {
        match self {
            SlicePredicate::Names(names) => w.field(1, names),
            SlicePredicate::Range(range) => w.field(2, range),
        }
        w.stop();
    }
}

impl FromThrift for KeyRange {
    const NAME: &'static str = "KeyRange";

    fn from_fields(f: &ThriftFields<'_>) -> Result<KeyRange> {
        Ok(KeyRange::from_parts(
            f.read(1, "start_key")?,
            f.read(2, "end_key")?,
            f.read(3, "start_token")?,
            f.read(4, "end_token")?,
            f.read_or(5, "count", 100)?,
            f.read_or(6, "row_filter", vec![])?,
        )?)
    }
}

impl WriteField for KeyRange {
    const CODE: u8 = element::STRUCT;

    fn put(&self, w: &mut ThriftWriter<'_>) {
        for (key, token, bound) in [(1, 3, &self.start), (2, 4, &self.end)] {
            match bound {
                KeyBound::Key(name) => w.field(key, name),
                KeyBound::Token(text) => w.field(token, text),
            }
        }
        w.field(5, &self.count);
        w.field(6, &Some(&self.row_filter).filter(|all| !all.is_empty()));
        w.stop();
    }
}

impl FromThrift for Deletion {
    const NAME: &'static str = "Deletion";

    fn from_fields(f: &ThriftFields<'_>) -> Result<Deletion> {
        let (timestamp, super_column) = (f.read(1, "timestamp")?, f.read(2, "super_column")?);
        Ok(Deletion::from_parts(timestamp, super_column, f.read(3, "predicate")?)?)
    }
}

impl FromThrift for Mutation {
    const NAME: &'static str = "Mutation";

    fn from_fields(f: &ThriftFields<'_>) -> Result<Mutation> {
        Ok(Mutation::from_parts(f.read(1, "column_or_supercolumn")?, f.read(2, "deletion")?)?)
    }
}

/// Reads the argument of `batch_mutate`: the mutations by row and column family.
///
/// # Errors
/// As [`ThriftFields::read`].
pub fn mutations(f: &ThriftFields<'_>) -> Result<Vec<RowMutation>> {
    let Pairs(rows): Pairs<&[u8], Pairs<String, Vec<Mutation>>> = f.read(1, "mutation_map")?;
    let of_row = |(key, Pairs(families)): (_, Pairs<_, _>)| {
        families.into_iter().map(move |(family, all)| RowMutation::new(key, family, all))
    };
    Ok(rows.into_iter().flat_map(of_row).collect())
}

impl FromThrift for ColumnDef {
    const NAME: &'static str = "ColumnDef";

    fn from_fields(f: &ThriftFields<'_>) -> Result<ColumnDef> {
        Ok(ColumnDef {
            name: f.read(1, "name")?,
            validation_class: f.read(2, "validation_class")?,
            index_type: f.read(3, "index_type")?,
            index_name: f.read(4, "index_name")?,
            index_options: f.read_or(5, "index_options", BTreeMap::new())?,
        })
    }
}

impl WriteField for ColumnDef {
    const CODE: u8 = element::STRUCT;

    fn put(&self, w: &mut ThriftWriter<'_>) {
        w.field(1, &self.name);
        w.field(2, &self.validation_class);
        w.field(3, &self.index_type);
        w.field(4, &self.index_name);
        w.field(5, &Some(&self.index_options).filter(|all| !all.is_empty()));
        w.stop();
    }
}

impl WriteField for TokenRange {
    const CODE: u8 = element::STRUCT;

    fn put(&self, w: &mut ThriftWriter<'_>) {
        let detail = |host| {
            structure(move |w| {
                w.field::<String>(1, host);
                w.field(2, "datacenter1");
                w.field(3, "rack1");
            })
        };
        w.field(1, &self.start_token);
        w.field(2, &self.end_token);
        w.field(3, &self.endpoints);
        w.field(4, &self.endpoints);
        w.field(5, &Elements(|| self.endpoints.iter().map(detail)));
        w.stop();
    }
}
