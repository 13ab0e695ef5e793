//! `firn purge-report`: reports what retains the tombstones and expired cells of column families
//! and of CQL tables.

use std::io::Write;

use clap::Args;
use firn_table_events::model_trouble;
use firn_tools::io::stdout;
use firn_tools::output::{Done, Failure, bytes, count, print_table, row, table, things};
use firn_tools::shell;
use firn_wide::{Blocker, Grace, PurgeReport, TablePurge, Type, Wording};
use serde_json::{Value, json};

use crate::families::json::{family, keyspace};
use crate::store::Global;

pub const EXAMPLES: &str = "\
A compaction drops a tombstone or an expired cell of its table when two conditions hold: its grace period (gc_grace of the family) is
over, and no older data can be in another table with keys in the same range, or in a snapshot. \"Could go\" counts tombstones, deletions
and cells with a time to live from the metadata of each table; no table is read. Memtables are newer than all tables and block nothing. A
program may write to the store meanwhile; snapshots of other processes are not shown.

Examples:
  firn purge-report --keyspace Music
  firn purge-report --keyspace Music --family comments --json
  firn compact --tree cf-3                      compacts all tables of the family into one run";

/// Arguments of `firn purge-report`.
#[derive(Args, Clone, Debug)]
pub struct PurgeArgs {
    /// Report on this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: String,
    /// Report on this family or table; may be repeated [default: all of the keyspace's]
    #[arg(short, long, visible_alias = "table", value_name = "NAME")]
    family: Vec<String>,
}

/// Runs `firn purge-report`.
pub fn run(global: &Global, args: &PurgeArgs) -> Done {
    global.check_model()?;
    let session = global.model(global.to_read())?;
    let engine = session.engine();
    let (keyspace, catalog) = (keyspace(engine.wide(), &args.keyspace)?, engine.catalog());
    let tables: Vec<_> =
        catalog.keyspace(&args.keyspace).iter().flat_map(|k| k.tables()).cloned().collect();
    let mut names = args.family.clone();
    if names.is_empty() {
        names.extend(tables.iter().map(|t| t.name.clone()));
    }
    let mut reports = vec![];
    for name in names {
        let report = match tables.iter().find(|t| t.name == name) {
            Some(t) => {
                let cells = engine.family(t).map_err(|e| Failure::new(e.to_string()))?;
                engine.store().purge_report(&cells, t.options.gc_grace().into())
            }
            None => family(&keyspace, &name, tables.iter().map(|t| &*t.name))?.purge_report(),
        };
        reports.push((name, report.map_err(model_trouble)?));
    }
    let mut out = stdout();
    if global.store.json {
        let all: Vec<Value> =
            reports.iter().map(|(name, report)| report_json(name, report)).collect();
        writeln!(out, "{}", Value::from(all))?;
        return Ok(out.flush()?);
    }
    for (i, (name, report)) in reports.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        print(global, &mut out, name, report)?;
    }
    Ok(out.flush()?)
}

fn date(second: i64) -> String {
    Type::Timestamp.to_text(&second.saturating_mul(1000).to_be_bytes(), Wording::Cli)
}

fn file(id: u64) -> String {
    format!("{id:08}.sst")
}

fn report_json(name: &str, r: &PurgeReport) -> Value {
    let blocker = |b: &Blocker| match b {
        Blocker::Table { id, min_timestamp } => {
            json!({"table": file(*id), "min_timestamp": min_timestamp})
        }
        Blocker::Snapshot(s) => json!({"snapshot": s.name, "since_micros": s.since_micros}),
        _ => json!({}),
    };
    let table = |t: &TablePurge| {
        let (state, until) = match t.grace {
            Grace::Nothing => ("nothing", None),
            Grace::Until(second) => ("waits", Some(second)),
            Grace::Some => ("some", None),
            Grace::Whole => ("whole", None),
        };
        json!({
            "table": file(t.id), "level": t.level, "bytes": t.bytes, "entries": t.facts.map(|f| f.entries),
            "droppable": t.facts.map(|f| f.droppable), "droppable_ratio": t.facts.map(|_| t.droppable_ratio()),
            "min_timestamp": t.facts.map(|f| f.min_timestamp), "max_timestamp": t.facts.map(|f| f.max_timestamp),
            "past_grace": state, "not_before": until, "blocked_by": t.blocked_by.iter().map(blocker).collect::<Vec<_>>(),
        })
    };
    let holder = |p: &firn_kv::stats::Pin| json!({"kind": p.kind.name(), "name": p.name, "bytes": p.bytes, "since_micros": p.since_micros});
    json!({
        "family": name, "tree": r.tree, "now": r.now, "gc_grace": r.gc_grace, "memtable_bytes": r.memtable_bytes,
        "tables": r.tables.iter().map(table).collect::<Vec<_>>(), "holders": r.holders.iter().map(holder).collect::<Vec<_>>(),
    })
}

fn print(
    global: &Global,
    out: &mut impl Write,
    name: &str,
    r: &PurgeReport,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{name}: {} in the tree {}, {} in memory, grace {} s",
        things(r.tables.len() as u64, "table", "tables"),
        r.tree,
        bytes(r.memtable_bytes),
        count(r.gc_grace.max(0) as u64)
    )?;
    if !r.tables.is_empty() {
        let mut t = table(&[
            "table",
            "level",
            "size",
            "entries",
            "could go",
            "past grace",
            "older data may be in",
        ]);
        for entry in &r.tables {
            let cells = [
                file(entry.id),
                entry.level.to_string(),
                bytes(entry.bytes),
                entry.facts.map_or("not known".into(), |f| count(f.entries)),
                entry.facts.map_or("not known".into(), |f| count(f.droppable)),
                match entry.grace {
                    _ if entry.facts.is_none() => "not known".into(),
                    Grace::Nothing => "-".into(),
                    Grace::Until(second) => format!("not before {}", date(second)),
                    Grace::Some => "some".into(),
                    Grace::Whole => "all".into(),
                },
                beneath(entry),
            ];
            row(&mut t, cells);
        }
        write!(out, "{}", print_table(&t, global.style()))?;
    }
    for p in &r.holders {
        writeln!(
            out,
            "{} of compacted tables are retained by a {} {}",
            bytes(p.bytes),
            p.kind.name(),
            p.name
        )?;
    }
    writeln!(out, "{}", advice(&global.firn(), r))
}

fn beneath(t: &TablePurge) -> String {
    if t.grace == Grace::Nothing {
        return "-".into();
    }
    let name = |b: &Blocker| match b {
        Blocker::Table { id, .. } => file(*id),
        Blocker::Snapshot(s) => {
            format!("snapshot {:?} since {}", s.name, date((s.since_micros / 1_000_000) as i64))
        }
        _ => "another reason".into(),
    };
    let names: Vec<String> = t.blocked_by.iter().take(3).map(name).collect();
    let more = t.blocked_by.len().saturating_sub(names.len());
    match (names.is_empty(), more) {
        (true, _) => "nothing".into(),
        (false, 0) => names.join(", "),
        (false, n) => format!("{} and {n} more", names.join(", ")),
    }
}

/// Returns advice, in one line.
fn advice(firn: &str, r: &PurgeReport) -> String {
    let due: Vec<&TablePurge> =
        r.tables.iter().filter(|t| matches!(t.grace, Grace::Some | Grace::Whole)).collect();
    let is_snapshot = |b: &Blocker| matches!(b, Blocker::Snapshot(_));
    if due.is_empty() {
        let first = r
            .tables
            .iter()
            .filter_map(|t| if let Grace::Until(second) = t.grace { Some(second) } else { None })
            .min();
        return first.map_or("There is nothing to purge.".into(), |s| {
            format!("Nothing is past grace before {}.", date(s))
        });
    }
    if due.iter().any(|t| t.blocked_by.iter().any(is_snapshot)) {
        return "Snapshots retain data that is past grace: drop them first.".into();
    }
    format!(
        "`{firn} compact --tree {}` purges the data that is past grace now.",
        shell::quote(&r.tree)
    )
}
