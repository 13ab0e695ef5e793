//! `system_views`: what the engine does and holds. What only a server knows, a source adds.

use super::view::SystemView;
use crate::error::Result;
use crate::exec::source::SystemRows;

const MEBIBYTE: u64 = 1 << 20;

pub(super) fn fill(view: &SystemView<'_>, rows: &mut SystemRows<'_>) -> Result<()> {
    match rows.table() {
        "caches" => caches(view, rows),
        "disk_usage" => sizes(view, rows, |files| files.sum())?,
        "max_sstable_size" => sizes(view, rows, |files| files.max().unwrap_or(0))?,
        "settings" => settings(view, rows),
        "system_properties" => {
            rows.add(&[("name", &"firn.version"), ("value", &env!("CARGO_PKG_VERSION"))]);
        }
        _ => {}
    }
    Ok(())
}

/// The cache of blocks.
fn caches(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    let stats = view.engine.store().db().stats();
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let reads = &stats.reads;
    rows.add(&[
        ("name", &"chunks"),
        ("capacity_bytes", &whole(stats.cache.capacity as u64)),
        ("entry_count", &i32::try_from(stats.cache.resident).unwrap_or(i32::MAX)),
        ("hit_count", &whole(reads.blocks_cached)),
        ("hit_ratio", &reads.hit_rate()),
        ("request_count", &whole(reads.blocks_cached + reads.blocks_read)),
        ("size_bytes", &whole(stats.memory.cache)),
    ]);
}

/// Of each table, what `of` makes of the sizes of its files, in mebibytes.
fn sizes(
    view: &SystemView<'_>,
    rows: &mut SystemRows<'_>,
    of: impl Fn(&mut dyn Iterator<Item = u64>) -> u64,
) -> Result<()> {
    for table in view.catalog.tables() {
        let files = view.engine.family(table)?.tree().tables()?;
        let bytes = of(&mut files.iter().map(|f| f.bytes));
        rows.add(&[
            ("keyspace_name", &table.keyspace),
            ("table_name", &table.name),
            ("mebibytes", &((bytes / MEBIBYTE) as i64)),
        ]);
    }
    Ok(())
}

fn settings(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    let wide = view.engine.wide();
    let durability = format!("{:?}", wide.durability()).to_lowercase();
    let memory = view.engine.store().db().stats().memory;
    let all = [
        ("cluster_name", wide.describe_cluster_name().to_owned()),
        ("durability", durability),
        ("endpoint_snitch", wide.describe_snitch().to_owned()),
        ("memory_budget_bytes", memory.budget.to_string()),
        ("partitioner", view.engine.partitioner().full_name()),
    ];
    all.iter().for_each(|(name, value)| rows.add(&[("name", name), ("value", value)]));
}
