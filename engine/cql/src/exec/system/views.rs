//! `system_views`: state and activity of the engine. Servers add their own rows through a source.

use firn_kv::stats::PinKind;
use firn_wide::internals::store::TreeName;
use firn_wide::uuids::time_uuid;
use md5::{Digest, Md5};
use uuid::Uuid;

use super::view::SystemView;
use crate::catalog::{Catalog, TableSchema};
use crate::error::Result;
use crate::exec::engine::Engine;
use crate::exec::source::SystemRows;

const MEBIBYTE: u64 = 1 << 20;

pub(super) fn fill(view: &SystemView<'_>, rows: &mut SystemRows<'_>) -> Result<()> {
    match rows.table() {
        "caches" => caches(view, rows),
        "disk_usage" => sizes(view, rows, |files| files.sum())?,
        "max_sstable_size" => sizes(view, rows, |files| files.max().unwrap_or(0))?,
        "settings" => settings(view, rows),
        "sstable_tasks" => tasks(view, rows),
        "system_properties" => {
            rows.add(&[("name", &"firn.version"), ("value", &env!("CARGO_PKG_VERSION"))]);
        }
        _ => {}
    }
    Ok(())
}

/// Adds the block cache.
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

impl Engine {
    /// Returns the keyspace and the name of the table or family to which a tree, or index tree,
    /// belongs. `None`: the table was dropped, or the tree belongs to the store itself.
    pub fn owner_of(&self, tree: &str) -> Option<(String, String)> {
        owner(&self.catalog(), self, tree)
    }
}

/// Like [`Engine::owner_of`], by this catalog.
fn owner(catalog: &Catalog, engine: &Engine, tree: &str) -> Option<(String, String)> {
    let (family, index) = match TreeName::parse(tree)? {
        TreeName::Family(id) => (Some(id), None),
        TreeName::Index(id) => (None, Some(id)),
        TreeName::Schema => return Some(("system".to_owned(), "schema".to_owned())),
    };
    let is_it =
        |t: &TableSchema| Some(t.id) == family || t.indexes().iter().any(|i| Some(i.id) == index);
    if let Some(table) = catalog.tables().find(|t| is_it(t)) {
        return Some((table.keyspace.clone(), table.name.clone()));
    }
    let schema = engine.wide().schema();
    let found = schema
        .families()
        .find(|f| Some(f.id()) == family || f.indexes().any(|(_, i)| Some(i.id) == index))?;
    Some((found.keyspace().to_owned(), found.name().to_owned()))
}

/// Adds the running compactions. The id of each is derived from its start time and its tree.
fn tasks(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for pin in view.engine.store().db().stats().pins {
        if pin.kind != PinKind::Compaction {
            continue;
        }
        // The table was dropped, or the tree belongs to the store itself.
        let Some((keyspace, table)) = owner(&view.catalog, view.engine, &pin.tree) else {
            continue;
        };
        let digest: [u8; 16] = Md5::digest(format!("{} {}", pin.tree, pin.name)).into();
        let (head, tail) = digest.split_at(8);
        let clock = u16::from_be_bytes([head[0], head[1]]);
        let node = tail.iter().fold(0, |all, b| all << 8 | u64::from(*b));
        let id = Uuid::from_bytes(time_uuid(pin.since_micros as i64, 0, clock, node));
        let ratio = pin.done as f64 / pin.total.max(1) as f64;
        rows.add(&[
            ("keyspace_name", &keyspace),
            ("table_name", &table),
            ("task_id", &id),
            ("completion_ratio", &ratio),
            ("kind", &"compaction"),
            ("progress", &whole(pin.done)),
            ("sstables", &i32::try_from(pin.tables).unwrap_or(i32::MAX)),
            ("total", &whole(pin.total)),
            ("total_compressed", &whole(pin.total)),
            ("unit", &"bytes"),
        ]);
    }
}

/// Adds, for each table, the result of `of` on the sizes of its files, in mebibytes.
fn sizes(
    view: &SystemView<'_>,
    rows: &mut SystemRows<'_>,
    of: impl Fn(&mut dyn Iterator<Item = u64>) -> u64,
) -> Result<()> {
    for table in view.catalog.tables() {
        let files = view.engine.family(table)?.tree().tables()?;
        let bytes = of(&mut files.iter().map(|f| f.bytes));
        rows.add_of(table, &[("mebibytes", &((bytes / MEBIBYTE) as i64))]);
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
