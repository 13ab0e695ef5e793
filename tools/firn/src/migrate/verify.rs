//! `firn migrate --verify`: compares the store with a cluster, cell by cell.
//!
//! Invariant: the report counts the data that is not compared.

use std::io::Write;
use std::sync::Arc;

use firn_cluster::{ClusterUrl, Session};
use firn_cql::internals::catalog::TableSchema;
use firn_kv::OsEnv;
use firn_migrate::comparison::{TableComparison, verify_table};
use firn_migrate::condition::KeyCondition;
use firn_migrate::definitions::{check_columns, full_name};
use firn_migrate::source::{partitioner, source_schema};
use firn_migrate::token_ranges::token_spans;
use firn_migrate::verify::{CellDifference, DifferenceKind, VerifyCounts};
use firn_tools::io::{Stopwatch, stdout};
use firn_tools::output::{Done, Failure, Progress, judged, things};
use serde_json::json;

use crate::migrate::from::tables_in;
use crate::migrate::to::{MigrateArgs, chosen, note};
use crate::shell::connect::not_connected;
use crate::shell::interrupt;
use crate::store::Global;

/// A compared table.
struct ComparedTable {
    name: String,
    counts: VerifyCounts,
    found: Vec<CellDifference>,
}

/// Tables of both sides, tables of one side only, and tables of both sides that are not compared.
struct ComparedNames {
    both: Vec<(String, String)>,
    only: Vec<CellDifference>,
    uncompared: Vec<String>,
}

/// Returns the names of the selected tables.
fn names(
    session: &firn_cql::Session,
    cluster: &Session,
    args: &MigrateArgs,
) -> Done<ComparedNames> {
    let (ours, left) = chosen(session, &args.tables)?;
    let theirs = source_schema(cluster, &[])?;
    // Families and compact tables have different forms on the two sides.
    let (ours_left, theirs_left) = (left.tables(), theirs.tables_left);
    let theirs = theirs.tables;
    let is_named = |(keyspace, table): &&(String, String)| {
        let full = format!("{keyspace}.{table}");
        args.tables.iter().any(|n| n == keyspace || *n == full)
            || args.tables.is_empty() && ours.iter().chain(ours_left).any(|t| t.0 == *keyspace)
    };
    let there = |table: &&(String, String)| theirs.contains(table) || theirs_left.contains(table);
    let mut only = vec![];
    let mut lonely = |(keyspace, table): &(String, String), kind| {
        only.push(CellDifference::of_table(full_name(keyspace, table), kind));
    };
    for table in ours.iter().filter(|t| !there(t)) {
        lonely(table, DifferenceKind::TableOnlyInFirn);
    }
    for table in
        theirs.iter().filter(is_named).filter(|t| !ours.contains(t) && !ours_left.contains(t))
    {
        lonely(table, DifferenceKind::TableOnlyInCluster);
    }
    for table in ours_left.iter().filter(|t| !there(t)) {
        lonely(table, DifferenceKind::TableOnlyInFirn);
    }
    let here = |table: &&(String, String)| ours.contains(table) || ours_left.contains(table);
    for table in theirs_left.iter().filter(is_named).filter(|t| !here(t)) {
        lonely(table, DifferenceKind::TableOnlyInCluster);
    }
    let both = ours.iter().filter(|t| theirs.contains(t)).cloned().collect();
    // Tables of both sides with a form on one of them that is not migrated.
    let ours_too = ours.iter().filter(|t| theirs_left.contains(t));
    let uncompared = ours_left.iter().filter(there).chain(ours_too);
    let uncompared = uncompared.map(|(k, t)| full_name(k, t)).collect();
    Ok(ComparedNames { both, only, uncompared })
}

/// Runs `firn migrate --verify`.
pub fn run(global: &Global, args: &MigrateArgs, url: ClusterUrl) -> Done {
    global.check_model()?;
    let session = global.model(global.to_read())?;
    let cluster = Session::connect_to(url).map_err(|e| not_connected(&e))?;
    let (here, there) = (session.engine().partitioner(), partitioner(&cluster)?);
    if here.full_name() != there {
        return Err(Failure::with_next(
            format!("the store's partitioner is {here}, the cluster's {there}"),
            "both sides are read in token order, so they can only be compared with the same partitioner",
        ));
    }
    let names = names(&session, &cluster, args)?;
    let firn = Session::from(session.clone());
    for (keyspace, table) in &names.both {
        check_columns(&firn, &cluster, keyspace, table)?;
        check_columns(&cluster, &firn, keyspace, table)?;
    }
    interrupt::watch()?;
    let watch = Stopwatch::start();
    let spans = token_spans(here).len() as u64;
    let mut all = vec![];
    for table in &tables_in(&session, &names.both)? {
        let condition = args.condition.clone();
        let sides = TableComparison {
            firn: firn.clone(),
            cluster: cluster.clone(),
            partitioner: here,
            has_statics: has_statics(&session, table, condition.as_deref()),
            condition,
            threads: args.parallel,
            drift: args.drift,
            most: args.show,
            stop: interrupt::flag(),
            env: OsEnv::new(),
        };
        let name = full_name(&table.keyspace, &table.name);
        if !sides.has_statics && table.has_statics() {
            note(
                global,
                format!("{name}: static columns are not compared, because --where selects rows"),
            );
        }
        let progress = Progress::operations(&table.name, Some(spans));
        let (counts, found) = verify_table(&Arc::new(sides), table, |at| {
            progress.at(at.done as u64);
            progress.say(things(at.cells, "cell", "cells"));
        })?;
        drop(progress);
        let table = ComparedTable { name, counts, found };
        table.print_result(global)?;
        all.push(table);
    }
    finish(global, &names, &all, watch.seconds())
}

/// Reports whether static columns are compared: the condition selects whole partitions.
fn has_statics(
    session: &firn_cql::Session,
    table: &Arc<TableSchema>,
    condition: Option<&str>,
) -> bool {
    let of = condition.map(|text| KeyCondition::new(session, table, text));
    of.is_none_or(|of| of.is_ok_and(|of| of.of_partitions))
}

impl ComparedTable {
    /// Reports the differences.
    fn print_result(&self, global: &Global) -> Done {
        let ComparedTable { name, counts, found } = self;
        if !global.store.json {
            let mut out = stdout();
            found.iter().try_for_each(|difference| writeln!(out, "{}", difference.describe()))?;
        }
        let more = counts.total().saturating_sub(found.len() as u64);
        if more > 0 {
            eprintln!(
                "{name}: {} not shown (--show)",
                things(more, "more difference", "more differences")
            );
        }
        let compared = format!(
            "{} and {}",
            things(counts.rows, "row", "rows"),
            things(counts.cells, "cell", "cells")
        );
        let kinds: Vec<String> =
            counts.differences.iter().map(|(kind, n)| kind.describe(*n)).collect();
        match kinds.is_empty() {
            true => eprintln!("{name}: {compared} are equal"),
            false => eprintln!(
                "{name}: of {compared} at both sides, and those of one, {}",
                kinds.join(", ")
            ),
        }
        counts.uncompared().into_iter().for_each(|words| note(global, format!("{name}: {words}")));
        Ok(())
    }
}

fn finish(global: &Global, names: &ComparedNames, all: &[ComparedTable], seconds: f64) -> Done {
    let only = &*names.only;
    let mut sum = VerifyCounts::default();
    all.iter().for_each(|table| sum.add(&table.counts));
    let total = sum.total() + only.len() as u64;
    let printed = print_differences(global, names, all, total, seconds);
    note(global, "CQL returns no deletions and no row markers, so these are not compared");
    eprintln!(
        "{} in {} and {}, {seconds:.1} s",
        things(total, "difference", "differences"),
        things(sum.rows, "row", "rows"),
        things(sum.cells, "cell", "cells")
    );
    for name in &names.uncompared {
        eprintln!(
            "{} {name}: it is compact or a column family at one side, which is not carried",
            global.style().error("not compared:")
        );
    }
    judged(printed, total == 0 && names.uncompared.is_empty())
}

fn print_differences(
    global: &Global,
    names: &ComparedNames,
    all: &[ComparedTable],
    total: u64,
    seconds: f64,
) -> Done {
    let only = &*names.only;
    if global.store.json {
        let tables = all.iter().map(|table| {
            let mut entry = table.counts.json();
            entry["table"] = table.name.clone().into();
            entry["found"] = table.found.iter().map(CellDifference::json).collect();
            entry
        });
        let report = json!({
            "equal": total == 0 && names.uncompared.is_empty(),
            "tables_not_compared": names.uncompared, "differences": total, "tables": tables.collect::<Vec<_>>(),
            "tables_of_one_side": only.iter().map(CellDifference::json).collect::<Vec<_>>(), "seconds": seconds,
        });
        writeln!(stdout(), "{report}")?;
    } else {
        let mut out = stdout();
        only.iter().try_for_each(|difference| writeln!(out, "{}", difference.describe()))?;
    }
    Ok(())
}
