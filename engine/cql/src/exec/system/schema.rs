//! `system_schema` and `system_virtual_schema`: the definitions, including those of system tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_wide::internals::types::hex;
use firn_wide::{Type, Wording};

use super::view::SystemView;
use crate::catalog::{
    ColumnKind, ColumnType, KeyspaceEntry, TableColumn, TableSchema, system_keyspaces,
};
use crate::exec::functions::initial_text;
use crate::exec::source::SystemRows;
use crate::values::{ToValue, Value};

pub(super) fn fill(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    let is_virtual = rows.is("system_virtual_schema", rows.table());
    let all = view.catalog.keyspaces().cloned().chain(system_keyspaces().cloned());
    let wanted: Vec<Arc<KeyspaceEntry>> =
        all.filter(|k| k.is_virtual() == is_virtual && rows.wants(&k.name)).collect();
    match rows.table() {
        "keyspaces" if is_virtual => {
            wanted.iter().for_each(|k| rows.add(&[("keyspace_name", &k.name)]));
        }
        "keyspaces" => wanted.iter().for_each(|k| {
            rows.add(&[
                ("keyspace_name", &k.name),
                ("durable_writes", &k.durable_writes),
                ("replication", &k.replication),
            ]);
        }),
        "tables" if is_virtual => tables(&wanted, |t| {
            let comment = t.options.comment();
            rows.add_of(t, &[("comment", &comment)]);
        }),
        "tables" => tables(&wanted, |t| {
            if t.view().is_none() {
                table(t, rows, "table_name", &[("flags", &flags(t))]);
            }
        }),
        "views" => tables(&wanted, |t| {
            if let Some((of, base)) = t.view().zip(view.catalog.base_of(t)) {
                let own: [(&str, &dyn ToValue); 4] = [
                    ("base_table_id", &base.uuid),
                    ("base_table_name", &base.name),
                    ("include_all_columns", &of.all_columns),
                    ("where_clause", &of.where_clause),
                ];
                table(t, rows, "view_name", &own);
            }
        }),
        "columns" => tables(&wanted, |t| t.columns().iter().for_each(|c| column(t, c, rows))),
        "dropped_columns" => tables(&wanted, |t| dropped(t, rows)),
        "indexes" => tables(&wanted, |t| indexes(t, rows)),
        "types" => wanted.iter().for_each(|k| types(k, rows)),
        "functions" => wanted.iter().for_each(|k| functions(k, rows)),
        "aggregates" => wanted.iter().for_each(|k| aggregates(k, rows)),
        "column_masks" => tables(&wanted, |t| masks(t, rows)),
        // Triggers are not supported.
        _ => {}
    }
}

fn tables(keyspaces: &[Arc<KeyspaceEntry>], each: impl FnMut(&Arc<TableSchema>)) {
    keyspaces.iter().flat_map(|k| k.tables()).for_each(each);
}

/// Returns the flags of a table's kind.
fn flags(table: &TableSchema) -> BTreeSet<&'static str> {
    let mut flags = BTreeSet::new();
    let is_super = table.form().is_some_and(|form| form.is_super);
    if !is_super && (!table.is_compact() || table.clustering().len() > 1) {
        flags.insert("compound");
    }
    if table.rows_are_cells() {
        flags.insert("dense");
    }
    if is_super {
        flags.insert("super");
    }
    if table.is_counter() {
        flags.insert("counter");
    }
    flags
}

/// Adds a table or view with its options, and with the columns for its kind.
fn table(table: &TableSchema, rows: &mut SystemRows<'_>, name: &str, own: &[(&str, &dyn ToValue)]) {
    let options = &table.options;
    let text = |name: &str| options.value(name).unwrap_or_default().to_owned();
    let double = |name: &str| options.value(name).and_then(|v| v.parse::<f64>().ok());
    let int = |name: &str| options.value(name).and_then(|v| v.parse::<i32>().ok());
    // Null if it has the default value.
    let unusual = |name: &str, usual: &str| options.value(name).filter(|v| *v != usual);
    let flag = |name: &str, usual: &str| unusual(name, usual).map(|v| v == "true");
    let map = |name: &str| options.shown_map(name).unwrap_or_default();
    let extensions: BTreeMap<String, Vec<u8>> =
        map("extensions").into_iter().map(|(k, v)| (k, v.into_bytes())).collect();
    let all: [(&str, &dyn ToValue); 24] = [
        ("keyspace_name", &table.keyspace),
        (name, &table.name),
        ("additional_write_policy", &text("additional_write_policy")),
        ("allow_auto_snapshot", &flag("allow_auto_snapshot", "true")),
        ("bloom_filter_fp_chance", &double("bloom_filter_fp_chance")),
        ("caching", &map("caching")),
        ("cdc", &flag("cdc", "false")),
        ("comment", &options.comment()),
        ("compaction", &map("compaction")),
        ("compression", &map("compression")),
        ("crc_check_chance", &double("crc_check_chance")),
        ("dclocal_read_repair_chance", &double("dclocal_read_repair_chance")),
        ("default_time_to_live", &int("default_time_to_live")),
        ("extensions", &extensions),
        ("gc_grace_seconds", &int("gc_grace_seconds")),
        ("id", &table.uuid),
        ("incremental_backups", &flag("incremental_backups", "true")),
        ("max_index_interval", &int("max_index_interval")),
        ("memtable", &unusual("memtable", "default")),
        ("memtable_flush_period_in_ms", &int("memtable_flush_period_in_ms")),
        ("min_index_interval", &int("min_index_interval")),
        ("read_repair", &text("read_repair")),
        ("read_repair_chance", &double("read_repair_chance")),
        ("speculative_retry", &text("speculative_retry")),
    ];
    rows.add(&[&all[..], own].concat());
}

fn column(table: &TableSchema, column: &TableColumn, rows: &mut SystemRows<'_>) {
    let kind = match column.kind {
        ColumnKind::Partition => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    };
    let order = match column.kind {
        ColumnKind::Clustering if column.descending => "desc",
        ColumnKind::Clustering => "asc",
        _ => "none",
    };
    let position =
        if column.is_primary_key() { i32::try_from(column.position).unwrap_or(-1) } else { -1 };
    rows.add_of(
        table,
        &[
            ("column_name", &column.name),
            ("clustering_order", &order),
            ("column_name_bytes", &column.name.as_bytes()),
            ("kind", &kind),
            ("position", &position),
            ("type", &column.of.to_string()),
        ],
    );
}

fn masks(table: &TableSchema, rows: &mut SystemRows<'_>) {
    for (column, mask) in table.columns().iter().filter_map(|c| Some((c, c.mask.as_ref()?))) {
        let (types, values): (Vec<_>, Vec<_>) = mask.arguments().unzip();
        let nulls: Vec<bool> = values.iter().map(Option::is_none).collect();
        let types_text: Vec<String> = types.iter().map(ToString::to_string).collect();
        let shown = |(of, value): (&&ColumnType, &Option<&[u8]>)| match (&of.value_type, value) {
            (_, None) => String::new(),
            (Type::List(_) | Type::Set(_) | Type::Map(_), Some(bytes)) => hex(bytes),
            (of @ Type::Timestamp, Some(bytes)) => {
                of.to_text(bytes, Wording::Cql).replacen(' ', "T", 1)
            }
            (of, Some(bytes)) => of.to_text(bytes, Wording::Cql),
        };
        let values_text: Vec<String> = types.iter().zip(&values).map(shown).collect();
        rows.add_of(
            table,
            &[
                ("column_name", &column.name),
                ("function_argument_nulls", &nulls),
                ("function_argument_types", &types_text),
                ("function_argument_values", &values_text),
                ("function_keyspace", &mask.keyspace),
                ("function_name", &mask.name),
            ],
        );
    }
}

fn dropped(table: &TableSchema, rows: &mut SystemRows<'_>) {
    let gone = table.dropped().iter().filter(|d| table.column(&d.name).is_none());
    for column in gone {
        rows.add_of(
            table,
            &[
                ("column_name", &column.name),
                ("dropped_time", &Value::Timestamp(column.dropped.div_euclid(1000))),
                ("kind", &if column.is_static { "static" } else { "regular" }),
                ("type", &column.of.to_string()),
            ],
        );
    }
}

fn indexes(table: &TableSchema, rows: &mut SystemRows<'_>) {
    for index in table.indexes() {
        let kind = match (&index.class, table.family()) {
            (Some(_), _) => "CUSTOM",
            (None, Some(_)) => "KEYS",
            (None, None) => "COMPOSITES",
        };
        let mut options = index.options.clone();
        options.insert("target".into(), index.target_text());
        if let Some(class) = &index.class {
            options.insert("class_name".into(), class.clone());
        }
        rows.add_of(table, &[("index_name", &index.name), ("kind", &kind), ("options", &options)]);
    }
}

fn functions(keyspace: &KeyspaceEntry, rows: &mut SystemRows<'_>) {
    for function in keyspace.functions() {
        rows.add(&[
            ("keyspace_name", &keyspace.name),
            ("function_name", &function.name),
            ("argument_types", &type_names(&function.arguments)),
            ("argument_names", &function.program.arguments().to_vec()),
            ("body", &function.program.body()),
            ("called_on_null_input", &function.called_on_null),
            ("language", &function.language),
            ("return_type", &function.result.to_string()),
        ]);
    }
}

fn aggregates(keyspace: &KeyspaceEntry, rows: &mut SystemRows<'_>) {
    for aggregate in keyspace.aggregates() {
        rows.add(&[
            ("keyspace_name", &keyspace.name),
            ("aggregate_name", &aggregate.name),
            ("argument_types", &type_names(&aggregate.arguments)),
            ("final_func", &aggregate.final_function),
            ("initcond", &initial_text(aggregate)),
            ("return_type", &aggregate.result.to_string()),
            ("state_func", &aggregate.state_function),
            ("state_type", &aggregate.state.to_string()),
        ]);
    }
}

fn type_names(all: &[ColumnType]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

fn types(keyspace: &KeyspaceEntry, rows: &mut SystemRows<'_>) {
    for def in keyspace.types() {
        let names: Vec<String> = def.fields.iter().map(|(name, _)| name.clone()).collect();
        let types: Vec<String> = def.fields.iter().map(|(_, of)| of.to_string()).collect();
        rows.add(&[
            ("keyspace_name", &keyspace.name),
            ("type_name", &def.name),
            ("field_names", &names),
            ("field_types", &types),
        ]);
    }
}
