//! `sstable-dump manifest`: prints a manifest's edits in order, and the state at its end.

use std::path::PathBuf;

use clap::Args;
use firn_kv::internals::base::identity::LogWriter;
use firn_kv::internals::manifest::{
    self, Edit, ManifestGap, ManifestState, PersistedOptions, SnapshotDue, SubscriptionState,
    TableMeta, manifest_name,
};
use firn_kv::{Error, ErrorKind, FilterAllocation};
use firn_tools::escape;
use firn_tools::options::allocation_name;
use firn_tools::output::{Done, Failure, bytes, count, listing, print_table, things};
use serde_json::{Value, json};

use crate::Screen;
use crate::dump::text;
use crate::history::evidence::replay_around;
use crate::store::blobs;
use crate::store::target::{TargetKind, dir_of, env, kind};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
For a store, prints the manifest that CURRENT names. Damage is skipped and reported; the state then comes from the edits that still fit.

Examples:
  sstable-dump manifest firn-data
  sstable-dump manifest firn-data --state
  sstable-dump manifest firn-data/MANIFEST-000003 --json | jq '.state.trees[].name'";

/// Arguments of `manifest`.
#[derive(Args, Clone, Debug)]
pub struct ManifestArgs {
    /// A store or a manifest
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Print only the state at the end, without the edits
    #[arg(long)]
    pub state: bool,
}

/// Returns the metadata of a table as JSON.
pub fn meta_json(t: &TableMeta) -> Value {
    json!({
        "id": t.id, "store": t.identity.store, "unique": t.identity.unique, "size": t.size, "entries": t.entries, "deletes": t.deletes, "merges": t.merges,
        "range_deletes": t.range_deletes, "raw_bytes": t.raw_bytes, "first_key": escape::words(&t.first_key),
        "last_key": escape::words(&t.last_key), "min_seq": t.min_seq, "max_seq": t.max_seq, "created_micros": t.created_micros,
        "newest_micros": t.newest_micros, "ingested_seq": t.ingested_seq, "oldest_tombstone_micros": t.oldest_tombstone_micros,
        "blobs": blobs::uses_json(&t.values),
    })
}

fn options_json(o: &PersistedOptions) -> Value {
    let codecs: Vec<_> = o.compression.iter().map(|c| c.name()).collect();
    let filters: Vec<_> =
        o.filter.iter().map(|&f| crate::dump::props::filter_name(f.bits())).collect();
    json!({
        "compression": codecs, "filter": filters, "block_size": o.block_size, "table_size": o.table_size,
        "memtable_size": o.memtable_size, "policy": o.policy.to_string(), "tombstone_age_secs": o.tombstone_age_secs,
        "merge_operator": o.merge_operator, "compaction_filter": o.compaction_filter, "summary": o.summary, "filter_prefix": o.filter_prefix,
        "blob_threshold": o.blob_threshold, "blob_gc_percent": o.blob_gc_percent,
        "filter_allocation": allocation_name(o.filter_allocation),
    })
}

fn writer_json(w: &LogWriter) -> Value {
    json!({"first_segment": w.from, "base": w.base, "id": w.id})
}

fn writer_text(w: &LogWriter) -> String {
    format!("log from segment {} on, position {}: writer {:016x}", w.from, w.base, w.id)
}

fn subscription_json(s: &SubscriptionState) -> Value {
    let due = match s.snapshot_due {
        SnapshotDue::No => "no",
        SnapshotDue::New => "new",
        SnapshotDue::Lost => "lost",
    };
    json!({
        "name": s.name, "seq": s.seq, "position": s.position, "max_log_bytes": s.max_log_bytes,
        "snapshot_due": due,
    })
}

fn subscription_text(s: &SubscriptionState) -> String {
    let due = match s.snapshot_due {
        SnapshotDue::No => "",
        SnapshotDue::New => "; its consumer has acknowledged nothing yet",
        SnapshotDue::Lost => "; the log has lost changes, so its consumer needs a snapshot",
    };
    format!(
        "subscription {:?}: acknowledged to sequence number {}, retains at most {} of log from position {}{due}",
        s.name,
        s.seq,
        bytes(s.max_log_bytes),
        s.position
    )
}

fn state_json(s: &ManifestState) -> Value {
    let run = |r: &std::sync::Arc<manifest::RunState>| json!({"level": r.level, "number": r.number, "tables": r.tables.iter().map(|t| meta_json(t)).collect::<Vec<_>>()});
    let tree = |t: &manifest::TreeState| {
        json!({
            "id": t.id, "name": t.name, "flushed": t.flushed, "options": options_json(&t.options),
            "runs": t.runs.iter().map(run).collect::<Vec<_>>(),
            "blob_files": t.values.values().map(|v| blobs::facts_json(v)).collect::<Vec<_>>(),
        })
    };
    json!({
        "id": s.id, "created_micros": s.created_micros, "next_file": s.next_file, "last_seq": s.last_seq, "wal_floor": s.wal_floor,
        "next_tree": s.next_tree, "trees": s.trees.values().map(tree).collect::<Vec<_>>(), "parent": s.parent,
        "log_writers": s.writers.iter().map(writer_json).collect::<Vec<_>>(),
        "subscriptions": s.subscriptions.values().map(subscription_json).collect::<Vec<_>>(),
    })
}

fn edit_json(e: &Edit) -> Value {
    match e {
        Edit::Snapshot(s) => json!({"edit": "snapshot", "trees": s.trees.len()}),
        Edit::CreateTree { id, name, options, flushed } => {
            json!({"edit": "create tree", "id": id, "name": name, "flushed": flushed, "options": options_json(options)})
        }
        Edit::DropTree { id } => json!({"edit": "drop tree", "id": id}),
        Edit::SetOptions { id, options } => {
            json!({"edit": "set options", "id": id, "options": options_json(options)})
        }
        Edit::Tables { tree, removed, added, flushed, values } => {
            let added: Vec<_> = added
                .iter()
                .map(|a| json!({"level": a.level, "run": a.run, "table": meta_json(&a.table)}))
                .collect();
            let values: Vec<_> = values.iter().map(|v| blobs::facts_json(v)).collect();
            json!({"edit": "tables", "tree": tree, "removed": removed, "added": added, "flushed": flushed, "blob_files": values})
        }
        Edit::Counters { next_file, last_seq, wal_floor } => {
            json!({"edit": "counters", "next_file": next_file, "last_seq": last_seq, "wal_floor": wal_floor})
        }
        Edit::LogWriters { writers } => {
            json!({"edit": "log writers", "log_writers": writers.iter().map(writer_json).collect::<Vec<_>>()})
        }
        Edit::SetSubscription(s) => {
            json!({"edit": "set subscription", "subscription": subscription_json(s)})
        }
        Edit::DropSubscription { name } => json!({"edit": "drop subscription", "name": name}),
    }
}

fn edit_text(e: &Edit) -> String {
    match e {
        Edit::Snapshot(s) => {
            let tables: usize = s.trees.values().map(|t| t.tables().count()).sum();
            let values: usize = s.trees.values().map(|t| t.values.len()).sum();
            let values = if values > 0 { format!(", {values} blob files") } else { String::new() };
            format!("snapshot of {} trees, {tables} tables{values}", s.trees.len())
        }
        Edit::CreateTree { id, name, .. } => format!("create tree {id} {name:?}"),
        Edit::DropTree { id } => format!("drop tree {id}"),
        Edit::SetOptions { id, options } => format!("options of tree {id}: {}", options.policy),
        Edit::Tables { tree, removed, added, flushed, values } => {
            let mut parts = vec![];
            if !removed.is_empty() {
                parts.push(format!(
                    "- {}",
                    removed.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
                ));
            }
            for a in added {
                parts.push(format!(
                    "+ {} to L{}#{} ({})",
                    a.table.id,
                    a.level,
                    a.run,
                    bytes(a.table.size)
                ));
            }
            for v in values {
                parts.push(format!("+ blob file {} ({})", v.id, bytes(v.size)));
            }
            if let Some(f) = flushed {
                parts.push(format!("flushed to {f}"));
            }
            format!("tables of tree {tree}: {}", parts.join(", "))
        }
        Edit::Counters { next_file, last_seq, wal_floor } => {
            format!(
                "counters: next file {next_file}, last sequence number {last_seq}, log needed from {wal_floor}"
            )
        }
        Edit::LogWriters { writers } => match writers.split_last() {
            Some((new, before)) => format!(
                "opened: {}; segments of {} before it",
                writer_text(new),
                things(before.len() as u64, "writer", "writers")
            ),
            None => "no log writers".to_owned(),
        },
        Edit::SetSubscription(s) => subscription_text(s),
        Edit::DropSubscription { name } => format!("drop subscription {name:?}"),
    }
}

fn print_state(screen: &mut Screen<'_>, s: &ManifestState) -> Done {
    let style = screen.style;
    let parent = s.parent.map_or(String::new(), |id| format!(", a copy of store {id:016x}"));
    writeln!(screen.out, "store {:016x}{parent}", s.id)?;
    for w in &s.writers {
        writeln!(screen.out, "{}", writer_text(w))?;
    }
    writeln!(
        screen.out,
        "created {}, next file {}, last sequence number {}, log needed from position {}",
        text::moment(s.created_micros),
        s.next_file,
        s.last_seq,
        s.wal_floor
    )?;
    for subscription in s.subscriptions.values() {
        writeln!(screen.out, "{}", subscription_text(subscription))?;
    }
    for t in s.trees.values() {
        writeln!(
            screen.out,
            "\n{}",
            style.heading(format!("tree {} {:?}, flushed to {}", t.id, t.name, t.flushed))
        )?;
        let o = &t.options;
        writeln!(
            screen.out,
            "  {}, blocks of {}, tables of {}",
            o.policy,
            bytes(o.block_size),
            bytes(o.table_size)
        )?;
        if o.filter_allocation != FilterAllocation::ByLevel {
            let name = allocation_name(o.filter_allocation);
            writeln!(screen.out, "  memory of filters is shared out as {name}")?;
        }
        if o.blob_threshold > 0 {
            writeln!(
                screen.out,
                "  values of at least {} are in blob files, of which at most {} % are garbage",
                bytes(o.blob_threshold),
                o.blob_gc_percent
            )?;
        }
        let hooks = [
            ("merge operator", &o.merge_operator),
            ("compaction filter", &o.compaction_filter),
            ("summary", &o.summary),
            ("filter prefix", &o.filter_prefix),
        ];
        for (what, name) in hooks {
            if let Some(name) = name {
                writeln!(screen.out, "  {what} hook {name:?}")?;
            }
        }
        if t.runs.is_empty() {
            continue;
        }
        let mut out = listing(
            &["  run", "table", "size", "entries", "deletes", "sequence", "keys"],
            "lrrrrll",
        );
        for (r, m) in t.runs.iter().flat_map(|r| r.tables.iter().map(move |m| (r, m))) {
            let cells = [
                format!("  L{}#{}", r.level, r.number),
                m.id.to_string(),
                bytes(m.size),
                count(m.entries),
                count(m.deletes + m.range_deletes),
                format!("{}..{}", m.min_seq, m.max_seq),
                text::keys(&(m.first_key.clone(), m.last_key.clone())),
            ];
            out.add_row(cells);
        }
        write!(screen.out, "{}", print_table(&out, style))?;
        print_values(screen, t)?;
    }
    Ok(())
}

/// Prints the blob files of a tree, and how much of each its tables refer to.
fn print_values(screen: &mut Screen<'_>, t: &manifest::TreeState) -> Done {
    if t.values.is_empty() {
        return Ok(());
    }
    let uses = t.uses();
    let mut out = listing(&["  blob file", "size", "values", "in use", "of it"], "lrrrr");
    for v in t.values.values() {
        let used = uses.get(&v.id).copied().unwrap_or_default();
        out.add_row([
            format!("  {}", v.id),
            bytes(v.size),
            count(v.values),
            count(used.values),
            text::share(used.bytes, v.bytes),
        ]);
    }
    Ok(write!(screen.out, "{}", print_table(&out, screen.style))?)
}

/// Runs `manifest`.
pub fn run(screen: &mut Screen<'_>, args: &ManifestArgs) -> Done {
    let env = env();
    let (dir, number) = match kind(&args.path)? {
        TargetKind::Manifest(number) => (dir_of(&args.path), number),
        TargetKind::Store => {
            let none = || {
                Error::new(ErrorKind::NotFound, "there is no CURRENT file in this directory")
                    .in_file(&args.path)
            };
            (args.path.clone(), manifest::current(&*env, &args.path)?.ok_or_else(none)?.manifest)
        }
        _ => {
            return Err(Failure::with_next(
                "this is no manifest",
                "name a store's directory, or a file MANIFEST-nnnnnn",
            ));
        }
    };
    let (log, gaps) = manifest::read_around(&*env, &dir, number)?;
    let torn = manifest::read(&*env, &dir, number).is_ok();
    let (state, unfit) = replay_around(&log.frames);
    if screen.json {
        let frames: Vec<Value> = log
            .frames
            .iter()
            .map(|f| json!({"offset": f.offset, "len": f.len, "edits": f.edits.iter().map(edit_json).collect::<Vec<_>>()}))
            .collect();
        let gap = |g: &ManifestGap| json!({"offset": g.offset, "len": g.len, "torn_end": torn});
        let v = json!({
            "manifest": manifest_name(number), "frames": frames, "damage": gaps.iter().map(gap).collect::<Vec<_>>(),
            "unfit": unfit, "state": state_json(&state),
        });
        writeln!(screen.out, "{v:#}")?;
    } else {
        if !args.state {
            writeln!(screen.out, "{}", screen.style.heading(manifest_name(number)))?;
            for f in &log.frames {
                for (i, e) in f.edits.iter().enumerate() {
                    let at = if i == 0 { f.offset.to_string() } else { String::new() };
                    writeln!(screen.out, "  {at:>8}  {}", edit_text(e))?;
                }
            }
            writeln!(screen.out)?;
        }
        for g in &gaps {
            let what = if torn { "a torn end" } else { "damage" };
            writeln!(
                screen.out,
                "{} {} bytes at offset {}",
                screen.style.bad(format!("{what}:")),
                count(g.len),
                g.offset
            )?;
        }
        for u in &unfit {
            writeln!(screen.out, "{} {u}", screen.style.bad("does not fit:"))?;
        }
        print_state(screen, &state)?;
    }
    if (gaps.is_empty() || torn) && unfit.is_empty() { Ok(()) } else { Err(Failure::Found) }
}
