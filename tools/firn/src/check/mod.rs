//! `firn check`: reports what a distributed database would refuse, or handle badly, of a store: its
//! definitions, its data, and the statements of an application.
//!
//! The check writes nothing. A program may write to the store meanwhile.

mod batches;
mod clauses;
mod data;
mod finding;
mod functions;
mod judged;
mod opening;
mod schema;
mod sizes;
mod statements;
mod target;

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::OsEnv;
use firn_tools::io::stdout;
use firn_tools::output::{Done, Failure, Progress, bytes, count, things};
use serde_json::json;

use crate::store::{Global, StoreContent};
use finding::{CheckFinding, FindingSeverity};
use sizes::TableSizes;
use statements::StatementJudge;
use target::CheckTarget;

pub const EXAMPLES: &str = "\
Reports what the target would refuse, handle badly or handle differently. Each finding has its location, the measured figure, the bound
and its source, and advice. The check examines the definitions, reads all tables (or a part of them with --sample), and judges the
statements of --statements: the log of an application (firn_cql::StatementLog), of `firn serve --log-statements`, of `firn cql --log`,
or a CQL script. Such a log has the texts of statements and the sizes of values, never the values. Nothing is written, and a program may
write to the store meanwhile. Exit code 1 if a finding is refused, handled badly, or could not be judged.

The bounds are those of the targets' releases with default settings; a cluster may have other settings.

Examples:
  firn check --for cassandra-5 shop
  firn check --for scylla shop --sample 5               reads 5 % of each table
  firn check --for cassandra-5 shop --statements shop.statements
  firn check --for cassandra-4 shop --definitions --statements report.cql
  firn check --for cassandra-5 shop --json | jq -r '.findings[] | select(.gravity == \"refused\") | .place'";

/// Arguments of `firn check`.
#[derive(Args, Clone, Debug)]
pub struct OutgrowCheckArgs {
    /// Check against this database
    #[arg(long = "for", value_enum, value_name = "TARGET")]
    target: CheckTarget,
    /// Check the store in this directory [default: that of --db]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Judge these statements too: a log of statements, or a CQL script; may be repeated, - is
    /// standard input
    #[arg(long, value_name = "FILE")]
    statements: Vec<PathBuf>,
    /// Read only this percentage of each table, spread over it
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    sample: Option<f64>,
    /// Check definitions and statements only, and read no table
    #[arg(long, conflicts_with = "sample")]
    definitions: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let good = number.filter(|n: &f64| *n > 0.0 && *n <= 100.0);
    good.ok_or_else(|| "write a number above 0 and up to 100, as 5".to_owned())
}

/// Result of the check.
struct CheckReport {
    findings: Vec<CheckFinding>,
    tables: Vec<(Arc<TableSchema>, TableSizes)>,
    /// Number of defined tables, read or not.
    defined: u64,
    statements: u64,
    /// Number of skipped statements.
    failed: u64,
}

impl CheckReport {
    fn of(&self, severity: FindingSeverity) -> u64 {
        self.findings.iter().filter(|f| f.severity == severity).count() as u64
    }

    fn is_clean(&self) -> bool {
        self.findings.iter().all(|f| f.severity == FindingSeverity::Differs)
    }
}

/// Runs `firn check`.
pub fn run(global: &Global, args: &OutgrowCheckArgs) -> Done {
    let mut global = global.clone();
    if let Some(dir) = &args.dir {
        if global.names_store {
            return Err(Failure::with_next(
                "the store is named twice: with --db and after the options",
                "leave one of them out",
            ));
        }
        global.store.db.clone_from(dir);
    }
    global.check_model()?;
    if global.holding()? != StoreContent::Model {
        return Err(Failure::with_next(
            format!("{} is no store", global.store.db.display()),
            "name the store as `firn check --for TARGET DIR`",
        ));
    }
    let session = opening::open(&global)?;
    let report = examine(&session, args)?;
    print(&global, args, &report)?;
    if report.is_clean() { Ok(()) } else { Err(Failure::Found) }
}

fn examine(session: &Session, args: &OutgrowCheckArgs) -> Done<CheckReport> {
    let target = args.target.table();
    let (engine, now) = (session.engine(), OsEnv::new().wall_micros() / 1_000_000);
    let catalog = engine.fresh_catalog().map_err(|e| Failure::new(e.to_string()))?;
    let mut findings = schema::judge(target, &catalog, engine.partitioner(), now);
    let all: Vec<Arc<TableSchema>> = catalog.tables().cloned().collect();
    let mut tables = vec![];
    if !args.definitions {
        tables = read(session, &all, args.sample)?;
        for (table, sizes) in &tables {
            findings.extend(data::judge(target, table, sizes));
        }
    }
    let mut judge = StatementJudge::new(session, target, now);
    for file in &args.statements {
        judge.file(file)?;
    }
    let (statements, failed) = (judge.judged, judge.failed);
    findings.extend(judge.findings());
    let by_place = |f: &CheckFinding| (f.severity, f.place.clone(), f.rule);
    findings.sort_by_key(by_place);
    Ok(CheckReport { findings, tables, defined: all.len() as u64, statements, failed })
}

/// Measures tables, with a progress bar over the bytes of their files.
fn read(
    session: &Session,
    tables: &[Arc<TableSchema>],
    sample: Option<f64>,
) -> Done<Vec<(Arc<TableSchema>, TableSizes)>> {
    let engine = session.engine();
    let token_ranges = sizes::token_ranges(engine.partitioner(), sample)?;
    let stats = engine.store().db().stats();
    let sizes_of: HashMap<&str, u64> = stats
        .trees
        .iter()
        .map(|t| (t.name.as_str(), t.live_bytes.max(1) + t.memtable_bytes))
        .collect();
    let mut all = vec![];
    for table in tables {
        let family = engine.family(table).map_err(|e| Failure::new(e.to_string()))?;
        all.push((table.clone(), sizes_of.get(family.tree().name()).copied().unwrap_or(1)));
    }
    let progress = Progress::bytes("read", Some(all.iter().map(|(_, size)| size).sum()));
    let (mut done, mut measured) = (0, vec![]);
    for (table, size) in all {
        progress.say(sizes::full_name(&table));
        let mut on_progress = |part: f64| progress.at(done + (size as f64 * part) as u64);
        let sizes = sizes::measure(session, &table, &token_ranges, &mut on_progress)?;
        done += size;
        progress.at(done);
        measured.push((table, sizes));
    }
    Ok(measured)
}

fn print(global: &Global, args: &OutgrowCheckArgs, report: &CheckReport) -> Done {
    let mut out = stdout();
    let (target, style) = (args.target.table(), global.style());
    let sum = |of: fn(&TableSizes) -> u64| report.tables.iter().map(|(_, sizes)| of(sizes)).sum();
    let (partitions, read): (u64, u64) = (sum(|s| s.partitions), sum(|s| s.bytes));
    if global.store.json {
        let tables = report.tables.iter().map(|(table, sizes)| sizes.json(table));
        let counts =
            FindingSeverity::ALL.map(|g| (g.word().replace(' ', "_"), report.of(g).into()));
        let all = json!({
            "target": target.title, "store": global.store.db, "counts": serde_json::Map::from_iter(counts),
            "findings": report.findings.iter().map(CheckFinding::json).collect::<Vec<_>>(),
            "tables": tables.collect::<Vec<_>>(), "tables_defined": report.defined,
            "sample_percent": args.sample, "statements": report.statements, "statements_failed": report.failed,
        });
        writeln!(out, "{all:#}")?;
        return Ok(out.flush()?);
    }
    for finding in &report.findings {
        write!(out, "{}", finding.text(style))?;
    }
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    let counts = FindingSeverity::ALL.map(|g| format!("{} {}", count(report.of(g)), g.summary()));
    let how = match (args.definitions, args.sample) {
        (true, _) => "no table was read".to_owned(),
        (false, None) => format!(
            "{} with {} of keys and values read",
            things(partitions, "partition", "partitions"),
            bytes(read)
        ),
        (false, Some(percent)) => format!(
            "{} with {} read, {percent} % of each table: about {} in all; the largest may be outside the sample",
            things(partitions, "partition", "partitions"),
            bytes(read),
            bytes((read as f64 * 100.0 / percent) as u64)
        ),
    };
    let mut asked = match report.statements {
        0 => String::new(),
        n => format!("; {} judged", things(n, "statement", "statements")),
    };
    if report.failed > 0 {
        asked.push_str(&format!("; {} skipped that had been refused", count(report.failed)));
    }
    let verdict = match report.is_clean() {
        true => style.good("nothing stands in the way"),
        false => counts.join(", "),
    };
    let differ = match (report.is_clean(), report.of(FindingSeverity::Differs)) {
        (false, _) | (_, 0) => String::new(),
        (true, n) => format!(", {} {}", count(n), FindingSeverity::Differs.summary()),
    };
    writeln!(
        out,
        "{} for {}: {verdict}{differ} ({}; {how}{asked})",
        global.store.db.display(),
        target.title,
        things(report.defined, "table", "tables")
    )?;
    Ok(out.flush()?)
}
