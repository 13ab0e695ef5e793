//! The fields of a manifest, edit by edit, and of `CURRENT`.

use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::base::blob_ref::{BlobFileMeta, encode_uses};
use firn_kv::internals::base::identity::LogWriter;
use firn_kv::internals::manifest::{
    self, AddedTable, CurrentFile, Edit, ManifestFrame, ManifestState, PersistedOptions,
    SubscriptionState, TableMeta, TreeState, manifest_name,
};
use firn_kv::internals::util::coding::u32_at;
use firn_kv::policy::{self, ParameterKind, Policy};
use firn_kv::{Env, Result, TreeOptions};
use serde_json::{Map, Value, json};

use crate::dump::text::hex_json;
/// Returns the fields of `CURRENT`.
pub fn current(env: &dyn Env, path: &Path) -> Result<Map<String, Value>> {
    let c = CurrentFile::decode(&env.read_all(path, 4096)?)
        .map_err(|e| e.at(path, 0).block("current"))?;
    Ok(Map::from_iter([
        ("version".into(), c.version.to_string().into()),
        ("manifest".into(), manifest_name(c.manifest).into()),
        ("checksum".into(), format!("{:08x}", c.checksum).into()),
    ]))
}

/// Returns the fields of manifest `number` in `dir`. Omits a torn last frame: `end` is the end of
/// the sound frames.
pub fn fields(env: &dyn Env, dir: &Path, number: u64) -> Result<Map<String, Value>> {
    let log = manifest::read(env, dir, number)?;
    log.replay()?;
    let mut header = [0; 16];
    env.open_read(&log.path, false)?.read_at(0, &mut header)?;
    let frame = |f: &ManifestFrame| {
        let edits = f.edits.iter().map(edit).collect::<Vec<_>>();
        json!({"at": f.offset, "len_payload": f.len - 8, "checksum": f.checksum, "edits": edits})
    };
    let mut frames: Vec<&ManifestFrame> = log.frames.iter().chain(&log.marks).collect();
    frames.sort_by_key(|f| f.offset);
    Ok(Map::from_iter([
        (
            "header".into(),
            json!({"version": log.version.number(), "checksum": u32_at(&header, 12)}),
        ),
        ("frames".into(), frames.into_iter().map(frame).collect()),
        ("end".into(), log.end.into()),
    ]))
}

fn edit(e: &Edit) -> Value {
    match e {
        Edit::Snapshot(s) => json!({"snapshot": state(s)}),
        Edit::CreateTree { id, name, options: o, flushed } => {
            json!({"create_tree": {"id": id, "name": name, "options": options(o), "flushed": flushed}})
        }
        Edit::DropTree { id } => json!({"drop_tree": {"id": id}}),
        Edit::SetOptions { id, options: o } => {
            json!({"set_options": {"id": id, "options": options(o)}})
        }
        Edit::Tables { tree, removed, added, flushed, values: all } => {
            let added = added.iter().map(
                |a: &AddedTable| json!({"level": a.level, "run": a.run, "table": table(&a.table)}),
            );
            let mut out = json!({"tree": tree, "removed": removed, "added": added.collect::<Vec<_>>(), "blob_files": values(all.iter())});
            flushed.iter().for_each(|f| out["flushed"] = (*f).into());
            json!({"tables": out})
        }
        Edit::Counters { next_file, last_seq, wal_floor } => {
            json!({"counters": {"next_file": next_file, "last_seq": last_seq, "wal_floor": wal_floor}})
        }
        Edit::LogWriters { writers: all } => json!({"log_writers": {"writers": writers(all)}}),
        Edit::SetSubscription(s) => json!({"set_subscription": subscription(s)}),
        Edit::DropSubscription { name } => json!({"drop_subscription": {"name": name}}),
    }
}

fn state(s: &ManifestState) -> Value {
    let mut out = json!({
        "store_id": s.id, "created": s.created_micros, "next_file": s.next_file, "last_seq": s.last_seq, "wal_floor": s.wal_floor,
        "next_tree": s.next_tree, "trees": s.trees.values().map(tree).collect::<Vec<_>>(),
        "writers": writers(&s.writers), "subscriptions": s.subscriptions.values().map(subscription).collect::<Vec<_>>(),
    });
    s.parent.iter().for_each(|id| out["parent"] = (*id).into());
    out
}

fn subscription(s: &SubscriptionState) -> Value {
    json!({
        "name": s.name, "seq": s.seq, "position": s.position, "max_log_bytes": s.max_log_bytes,
        "snapshot_due": s.snapshot_due as u8,
    })
}

fn writers(all: &[LogWriter]) -> Value {
    all.iter().map(|w| json!({"first_segment": w.from, "base": w.base, "id": w.id})).collect()
}

fn tree(t: &TreeState) -> Value {
    let run = |r: &Arc<manifest::RunState>| json!({"level": r.level, "number": r.number, "tables": r.tables.iter().map(|t| table(t)).collect::<Vec<_>>()});
    let runs: Vec<_> = t.runs.iter().map(run).collect();
    json!({"id": t.id, "name": t.name, "options": options(&t.options), "flushed": t.flushed, "runs": runs, "blob_files": values(t.values.values())})
}

fn values<'a>(all: impl Iterator<Item = &'a Arc<BlobFileMeta>>) -> Value {
    let one = |v: &Arc<BlobFileMeta>| {
        json!({
            "id": v.id, "size": v.size, "values": v.values, "bytes": v.bytes, "raw_bytes": v.raw_bytes,
            "identity": {"store": v.identity.store, "unique": v.identity.unique},
        })
    };
    all.map(one).collect()
}

fn table(t: &TableMeta) -> Value {
    let mut out = json!({
        "id": t.id, "size": t.size, "entries": t.entries, "deletes": t.deletes, "merges": t.merges,
        "range_deletes": t.range_deletes, "raw_bytes": t.raw_bytes, "first_key": hex_json(&t.first_key), "last_key": hex_json(&t.last_key),
        "min_seq": t.min_seq, "max_seq": t.max_seq, "created": t.created_micros, "newest": t.newest_micros,
        "identity": {"store": t.identity.store, "unique": t.identity.unique},
    });
    if let Some(micros) = t.oldest_tombstone_micros {
        out["oldest_tombstone"] = micros.into();
    }
    if t.ingested_seq > 0 {
        out["ingested_seq"] = t.ingested_seq.into();
    }
    if !t.values.is_empty() {
        out["blob_uses"] = hex_json(&encode_uses(&t.values));
    }
    out
}

fn options(o: &PersistedOptions) -> Value {
    let mut out = json!({
        "compression": hex_json(&o.compression.iter().map(|&c| c as u8).collect::<Vec<_>>()),
        "filter": hex_json(&o.filter.iter().map(|&f| f as u8).collect::<Vec<_>>()),
        "block_size": o.block_size, "table_size": o.table_size, "memtable_size": o.memtable_size, "policy": policy(&o.policy),
        "tombstone_age_secs": o.tombstone_age_secs,
    });
    let hooks = [
        ("merge_operator", &o.merge_operator),
        ("compaction_filter", &o.compaction_filter),
        ("summary", &o.summary),
        ("filter_prefix", &o.filter_prefix),
    ];
    for (hook, name) in hooks {
        name.iter().for_each(|name| out[hook] = name.clone().into());
    }
    if o.blob_threshold > 0 {
        out["blob_threshold"] = o.blob_threshold.into();
    }
    // As in the file, which omits the default.
    if o.blob_gc_percent != TreeOptions::default().blob_gc_percent {
        out["blob_gc_percent"] = o.blob_gc_percent.into();
    }
    if o.filter_allocation != TreeOptions::default().filter_allocation {
        out["filter_allocation"] = (o.filter_allocation as u8).into();
    }
    out
}

fn policy(p: &Policy) -> Value {
    let description = p.description();
    let mut parameters = Map::new();
    for (param, value) in description.params.iter().zip(p.values()) {
        let value = match value {
            // As in the file, which omits 0.
            policy::ParameterValue::Number(0) if matches!(param.kind, ParameterKind::Choice(_)) => {
                continue;
            }
            policy::ParameterValue::Number(n) => n.into(),
            policy::ParameterValue::Double(x) => x.into(),
            policy::ParameterValue::List(list) => list.into(),
        };
        parameters.insert(param.name.to_owned(), value);
    }
    json!({"name": description.name, "parameters": parameters})
}
