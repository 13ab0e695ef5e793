//! Judges the definitions of a store for a target.

use firn_cql::internals::catalog::{
    Catalog, IndexClass, KeyspaceEntry, TableColumn, TableIndex, TableSchema,
};
use firn_cql::quote_if_needed;
use firn_wide::{Partitioner, Type};

use super::data;
use super::finding::{CheckFinding, FigureUnit, FindingSeverity, beyond};
use super::sizes::full_name;
use super::target::{FeatureSupport, TargetTable};

const DROP_COMPACT: &str = "ALTER TABLE … DROP COMPACT STORAGE here makes it an ordinary table, which is carried as any other";
const AS_TABLE: &str = "create a CQL table for it, and copy its rows with a program or with COPY: `firn cql -e \"SELECT …\"` reads it as a table";
const OWN_TABLE: &str =
    "maintain your own table with that key, which the program writes together with this one";
const OTHER_INDEX: &str = "maintain a table with that column as key, which the program writes together with this one, or create an index that the target supports";
const NO_FUNCTION: &str = "leave it out, and compute in the program";

/// Judges all definitions.
pub fn judge(
    target: &TargetTable,
    catalog: &Catalog,
    partitioner: Partitioner,
    now: u64,
) -> Vec<CheckFinding> {
    let mut all = vec![];
    if partitioner != Partitioner::Murmur3 {
        all.push(CheckFinding::new(
            FindingSeverity::Differs,
            "partitioner",
            "the store",
            format!("its partitioner is {partitioner}, and a new cluster has Murmur3Partitioner: the order of partitions and the values of token() differ"),
            "do not depend on the order of partitions; use clustering columns for an order",
        ));
    }
    let count = catalog.tables().count() as u64;
    if let Some((severity, figure)) = beyond(target.tables, FigureUnit::Things, count) {
        let what = "its tables and views: each takes memory on every node";
        let next = "merge tables with the same columns into one, with a distinguishing column as the first of the partition key";
        let mut finding = CheckFinding::new(severity, "tables", "the store", what, next);
        finding.figure = Some(figure);
        all.push(finding);
    }
    for keyspace in catalog.keyspaces() {
        judge_keyspace(target, keyspace, now, &mut all);
    }
    all
}

fn judge_keyspace(
    target: &TargetTable,
    keyspace: &KeyspaceEntry,
    now: u64,
    all: &mut Vec<CheckFinding>,
) {
    let name = quote_if_needed(&keyspace.name).into_owned();
    let class = keyspace.replication.get("class").map_or("", |c| c.rsplit('.').next().unwrap_or(c));
    let factors: Vec<&String> =
        keyspace.replication.iter().filter(|(k, _)| *k != "class").map(|(_, v)| v).collect();
    if factors.iter().all(|factor| *factor == "1") {
        all.push(CheckFinding::new(
            FindingSeverity::Differs,
            "one-replica",
            &name,
            "its replication has one copy: on a cluster the rows of a node that is down are unavailable",
            "define it there with replication_factor 3, or 2 on two nodes (`--replication` of `firn migrate`)",
        ));
    }
    if class == "NetworkTopologyStrategy" {
        let places: Vec<&str> = keyspace
            .replication
            .keys()
            .filter(|k| *k != "class" && *k != "replication_factor")
            .map(String::as_str)
            .collect();
        if !places.is_empty() {
            all.push(CheckFinding::new(
                FindingSeverity::Differs,
                "datacenters",
                &name,
                format!("its replication names data centres, {}: the target refuses names that it does not have", places.join(", ")),
                "`SELECT data_center FROM system.local` there returns them; give the replication when you migrate",
            ));
        }
    }
    for function in keyspace.functions() {
        let place = format!("{name}.{}", quote_if_needed(&function.name));
        all.push(CheckFinding::new(
            FindingSeverity::Refused,
            "function",
            place,
            format!(
                "a function in {}: {} has functions in other languages",
                function.language, target.title
            ),
            NO_FUNCTION,
        ));
    }
    for aggregate in keyspace.aggregates() {
        let place = format!("{name}.{}", quote_if_needed(&aggregate.name));
        let what = format!(
            "an aggregate over the function {}, which is refused",
            quote_if_needed(&aggregate.state_function)
        );
        all.push(CheckFinding::new(
            FindingSeverity::Refused,
            "aggregate",
            place,
            what,
            NO_FUNCTION,
        ));
    }
    for table in keyspace.tables() {
        judge_table(target, table, all);
        let ttl = table.options.default_ttl().into();
        all.extend(data::judge_ttl(target, now, ttl, &full_name(table)));
    }
}

/// Reports whether a type, or a type in it, satisfies `is_like`.
fn has_type(of: &Type, is_like: &dyn Fn(&Type) -> bool) -> bool {
    let within = |of: &Type| has_type(of, is_like);
    is_like(of)
        || match of {
            Type::List(of) | Type::Set(of) | Type::Vector(of, _) | Type::Reversed(of) => within(of),
            Type::Map(kv) => within(&kv.0) || within(&kv.1),
            Type::Tuple(parts) | Type::Composite(parts) => parts.iter().any(within),
            Type::Udt(user) => user.fields.iter().any(|(_, of)| within(of)),
            _ => false,
        }
}

fn judge_table(target: &TargetTable, table: &TableSchema, all: &mut Vec<CheckFinding>) {
    let place = full_name(table);
    if let Some(family) = table.family() {
        let (rule, what) = match family.is_super() {
            true => ("super-columns", "a family of super columns, which CQL can't define"),
            false => {
                ("family", "a column family of the Thrift interface, which no target supports")
            }
        };
        let what = format!("{what}; `firn migrate` and `firn export --cassandra` leave it out");
        all.push(CheckFinding::new(FindingSeverity::Refused, rule, &place, what, AS_TABLE));
    } else if table.is_compact() {
        // The migration tools leave compact tables out for every target.
        let what = match target.compact_storage {
            FeatureSupport::There => {
                "a compact table: deprecated there, and `firn migrate` and `firn export --cassandra` leave it out"
            }
            _ => {
                "a compact table: the target refuses it, and `firn migrate` and `firn export --cassandra` leave it out"
            }
        };
        let (severity, rule) = (FindingSeverity::Refused, "compact-storage");
        all.push(CheckFinding::new(severity, rule, &place, what, DROP_COMPACT));
    }
    let columns = table.columns().len() as u64;
    if let Some((severity, figure)) = beyond(target.columns, FigureUnit::Things, columns) {
        let next = "put columns that are read together into a map or a user type";
        let mut finding = CheckFinding::new(severity, "columns", &place, "its columns", next);
        finding.figure = Some(figure);
        all.push(finding);
    }
    if table.is_counter() {
        let next = "a keyspace WITH tablets = {'enabled': false} has counters in every version";
        let what = "a table of counters: older versions have none in keyspaces with tablets";
        all.extend(CheckFinding::of_feature(
            target,
            target.counters,
            "counters",
            &place,
            what,
            next,
        ));
    }
    if let Some(view) = table.view() {
        let what = format!("a materialized view of {}", quote_if_needed(&view.base_name));
        all.extend(CheckFinding::of_feature(
            target,
            target.views,
            "view",
            &place,
            &what,
            OWN_TABLE,
        ));
        if target.views != FeatureSupport::Missing {
            let what = format!(
                "{what}: there it is updated asynchronously, and may remain inconsistent after a failure"
            );
            let next = "don't read your own writes from it; a table that the program writes itself is more reliable";
            all.push(CheckFinding::new(
                FindingSeverity::Differs,
                "view-follows",
                &place,
                what,
                next,
            ));
        }
    }
    for column in table.columns() {
        judge_column(target, &place, column, all);
    }
    for index in table.indexes() {
        judge_index(target, table, index, all);
    }
    let strategy = table.options.map("compaction").and_then(|map| map.get("class"));
    let next =
        "ALTER TABLE … WITH compaction = {'class': 'LeveledCompactionStrategy'}, or size-tiered";
    for (class, support) in [
        ("UnifiedCompactionStrategy", target.unified),
        ("IncrementalCompactionStrategy", target.incremental),
    ] {
        if strategy.is_some_and(|name| name.ends_with(class)) {
            let what = format!("its compaction is {class}");
            all.extend(CheckFinding::of_feature(
                target,
                support,
                "compaction",
                &place,
                &what,
                next,
            ));
        }
    }
}

fn judge_column(
    target: &TargetTable,
    place: &str,
    column: &TableColumn,
    all: &mut Vec<CheckFinding>,
) {
    let name = quote_if_needed(&column.name);
    let is = |is_like: &dyn Fn(&Type) -> bool| has_type(&column.of.value_type, is_like);
    if is(&|of| matches!(of, Type::Vector(..))) {
        let what = format!("the column {name} has vectors");
        let next = "keep them as frozen<list<float>>, and search elsewhere";
        all.extend(CheckFinding::of_feature(target, target.vectors, "vector", place, &what, next));
    }
    if is(&|of| matches!(of, Type::Custom(_))) {
        let what = format!("the column {name} has a custom comparator, {}", column.of);
        let next =
            "use a column of a CQL type with the desired order, such as a computed number or blob";
        all.push(CheckFinding::new(FindingSeverity::Refused, "comparator", place, what, next));
    }
    if is(&|of| matches!(of, Type::Composite(_) | Type::Dynamic(_))) {
        let what = format!("the column {name} has a composite type from before CQL, {}", column.of);
        let next = "use a frozen tuple, or separate columns";
        let severity = FindingSeverity::Differs;
        all.push(CheckFinding::new(
            severity,
            "composite",
            place,
            format!("{what}: drivers read it as bytes"),
            next,
        ));
    }
    if let Some(mask) = &column.mask {
        let what = format!("the column {name} is masked with {}", mask.name);
        let next = "leave out MASKED WITH; give readers without that permission a table without the column";
        all.extend(CheckFinding::of_feature(target, target.masks, "mask", place, &what, next));
    }
}

fn judge_index(
    target: &TargetTable,
    table: &TableSchema,
    index: &TableIndex,
    all: &mut Vec<CheckFinding>,
) {
    let place = full_name(table);
    let name = format!("the index {} on {}", quote_if_needed(&index.name), index.target_text());
    let class = index.class.as_deref().and_then(IndexClass::named);
    let of_vectors =
        table.column(&index.column).is_some_and(|c| matches!(c.of.value_type, Type::Vector(..)));
    let (rule, support, word) = match class {
        Some(IndexClass::Sasi) => ("sasi", target.sasi, "is of the class SASI"),
        Some(IndexClass::StorageAttached) if of_vectors => {
            ("vector-index", target.vector_indexes, "is a storage-attached one of vectors")
        }
        Some(IndexClass::StorageAttached) => {
            ("storage-attached", target.storage_attached, "is storage-attached")
        }
        _ => ("index", FeatureSupport::There, ""),
    };
    all.extend(CheckFinding::of_feature(
        target,
        support,
        rule,
        &place,
        &format!("{name} {word}"),
        OTHER_INDEX,
    ));
    let local = target.indexes_ask_every_node;
    if support == FeatureSupport::There {
        let what = match local {
            true => {
                "each node indexes its own rows: a query without a partition goes to many nodes"
            }
            false => {
                "there it is a global view, which costs time at each write and is updated asynchronously"
            }
        };
        let next = match local {
            true => {
                "name the partition together with the indexed column, or maintain a table with that column as key"
            }
            false => {
                "use it only for queries that need it; with the partition key in the query, a local index is cheaper"
            }
        };
        let what = format!("{name}: {what}");
        all.push(CheckFinding::new(FindingSeverity::Differs, "index-cost", &place, what, next));
    }
}
