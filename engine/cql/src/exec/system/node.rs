//! `system.local` and other tables of `system`: the single node.

use firn_wide::Partitioner;

use super::view::SystemView;
use crate::catalog::{CQL_VERSION, DATACENTER, RELEASE_VERSION};
use crate::error::Result;
use crate::exec::source::SystemRows;
use crate::values::Value;

/// Port between nodes of a cluster.
const STORAGE_PORT: i32 = 7000;
/// Number of token ranges that the node reports, by which clients split a scan.
const TOKENS: i64 = 16;

pub(super) fn fill(view: &SystemView<'_>, rows: &mut SystemRows<'_>) -> Result<()> {
    match rows.table() {
        "local" => local(view, rows),
        "IndexInfo" => built_indexes(view, rows),
        "size_estimates" => estimates(view, rows, None)?,
        "built_views" => built_views(view, rows),
        "table_estimates" => estimates(view, rows, Some("primary"))?,
        // There are no other nodes and no pending batches.
        _ => {}
    }
    Ok(())
}

/// Returns the ends of the node's token ranges, which have equal sizes.
fn tokens(partitioner: Partitioner) -> Vec<String> {
    let nth = |n: i64| match partitioner {
        Partitioner::Murmur3 => (i64::MIN + (1 << 59)).wrapping_add(n << 60).to_string(),
        Partitioner::Random => (n as u128 * (1 << 123)).to_string(),
        // In these partitioners the tokens are the keys, as bytes or as text.
        _ => format!("{:02x}", n * 16),
    };
    (0..TOKENS).map(nth).collect()
}

fn local(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    let (engine, ip) = (view.engine, view.endpoint.ip());
    let tokens: std::collections::BTreeSet<String> =
        tokens(engine.partitioner()).into_iter().collect();
    let now = engine.store().timestamp() / 1_000_000;
    rows.add(&[
        ("key", &"local"),
        ("bootstrapped", &"COMPLETED"),
        ("broadcast_address", &ip),
        ("broadcast_port", &STORAGE_PORT),
        ("cluster_name", &engine.wide().describe_cluster_name()),
        ("cql_version", &CQL_VERSION),
        ("data_center", &DATACENTER),
        ("gossip_generation", &i32::try_from(now).unwrap_or(i32::MAX)),
        ("host_id", &engine.host_id()),
        ("listen_address", &ip),
        ("listen_port", &STORAGE_PORT),
        ("native_protocol_version", &"5"),
        ("partitioner", &engine.partitioner().full_name()),
        ("rack", &"rack1"),
        ("release_version", &RELEASE_VERSION),
        ("rpc_address", &ip),
        ("rpc_port", &i32::from(view.endpoint.port())),
        ("schema_version", &engine.schema_version()),
        ("tokens", &tokens),
        ("truncated_at", &Value::Null),
    ]);
}

fn built_indexes(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    for table in
        view.catalog.tables().filter(|t| rows.wants(&t.keyspace)).cloned().collect::<Vec<_>>()
    {
        for index in table.indexes() {
            let (keyspace, name) = (&*table.keyspace, &*index.name);
            rows.add(&[("table_name", &keyspace), ("index_name", &name), ("value", &Value::Null)]);
        }
    }
}

/// Lists all views: a view is built before it becomes visible.
fn built_views(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    for table in view.catalog.tables().filter(|t| t.view().is_some()) {
        rows.add(&[
            ("keyspace_name", &table.keyspace),
            ("view_name", &table.name),
            ("status_replicated", &true),
        ]);
    }
}

/// Fills `system_distributed`, in which tools look up whether a view is built.
pub(super) fn fill_distributed(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    if rows.table() != "view_build_status" {
        return;
    }
    for table in view.catalog.tables().filter(|t| t.view().is_some()) {
        rows.add(&[
            ("keyspace_name", &table.keyspace),
            ("view_name", &table.name),
            ("host_id", &view.engine.host_id()),
            ("status", &"SUCCESS"),
        ]);
    }
}

/// Fills the estimated content of each token range for each table. It is nearly the same for all
/// ranges.
fn estimates(view: &SystemView<'_>, rows: &mut SystemRows<'_>, kind: Option<&str>) -> Result<()> {
    let engine = view.engine;
    let ends = tokens(engine.partitioner());
    let mut from = ends.last().cloned().unwrap_or_default();
    let tables: Vec<_> =
        view.catalog.tables().filter(|t| rows.wants(&t.keyspace)).cloned().collect();
    let mut sizes = vec![];
    for table in &tables {
        let tree = engine.family(table)?;
        let (mut bytes, mut entries) = (0, 0);
        for file in tree.tree().tables()? {
            bytes += file.bytes;
            entries += file.entries;
        }
        // A row has a marker and its columns.
        let columns = table.columns().len() as u64;
        let rows = entries / columns.max(1);
        let mean = bytes.checked_div(rows).unwrap_or(0);
        sizes.push((rows / ends.len() as u64, mean));
    }
    for until in &ends {
        for (table, (count, mean)) in tables.iter().zip(&sizes) {
            let (keyspace, name) = (&*table.keyspace, &*table.name);
            let (count, mean) = (*count as i64, *mean as i64);
            let mut values: Vec<(&str, &dyn crate::values::ToValue)> = vec![
                ("keyspace_name", &keyspace),
                ("table_name", &name),
                ("range_start", &from),
                ("range_end", until),
                ("mean_partition_size", &mean),
                ("partitions_count", &count),
            ];
            if let Some(kind) = &kind {
                values.push(("range_type", kind));
            }
            rows.add(&values);
        }
        from.clone_from(until);
    }
    Ok(())
}
