//! `firn backup`: incremental backups of a store.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use firn_backup::{
    BackupHead, BackupRepository, BackupSummary, BackupVerdict, KeepRule, Pacing, PruneReport,
    open_storage,
};
use firn_kv::{Error, ErrorKind};
use serde_json::{Value, json};

use crate::store::Global;
use firn_tools::io::{Stopwatch, stdout};
use firn_tools::options;
use firn_tools::output::{self, Done, Failure, Progress, things};

pub const EXAMPLES: &str = "\
A backup has all writes before one point in time. Tables never change, so each table is copied once, for any number of backups; it is
checked before the copy. PLACE is a folder of any file system, or s3://bucket/prefix if firn was built with `--features s3`: keys, region
and address of the service are read from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT and AWS_ALLOW_HTTP. If a
server has the store open, the server must make its backups: `firn serve --backup PLACE`.

Examples:
  firn --db shop backup create /mnt/backups
  firn --db shop backup create /mnt/backups --rate 50m     at most 50 MiB a second
  firn backup list /mnt/backups
  firn backup verify /mnt/backups                          reads all of it
  firn backup restore /mnt/backups --into shop-again       the newest one
  firn backup prune /mnt/backups --keep 7 --keep-days 30   keeps backups that satisfy either
  firn --db shop backup create s3://attic/shop";

pub const CREATE_EXAMPLES: &str = "\
Flushes the memtables, makes a checkpoint by hard links in the store's directory, copies the tables that PLACE lacks, and removes the
checkpoint. An interrupted run leaves no backup; a later run does not copy its tables again.

Examples:
  firn --db shop backup create /mnt/backups
  firn --db shop backup create /mnt/backups --dry-run      what would be copied; also while a server runs";

pub const LIST_EXAMPLES: &str = "\
Exit code 1 if a record is damaged.

Examples:
  firn backup list /mnt/backups
  firn backup list /mnt/backups --json | jq -r '.backups[-1].id'";

pub const VERIFY_EXAMPLES: &str = "\
Reads every table of the backups once and compares it with its hash; the engine reads the manifest of each backup. Nothing is written.
Exit code 1 if a problem is found: the report lists each one, the affected backups and what to do.

Examples:
  firn backup verify /mnt/backups
  firn backup verify /mnt/backups 20261126T044501-000007-3fa9c1d2";

pub const RESTORE_EXAMPLES: &str = "\
Creates an independent store. Each table is compared with its hash during the copy, and the engine verifies the store at the end.

Examples:
  firn backup restore /mnt/backups --into shop-again
  firn backup restore /mnt/backups 20261126T044501-000007-3fa9c1d2 --into shop-then";

pub const PRUNE_EXAMPLES: &str = "\
A backup remains if either rule retains it. The rules apply to each store separately, and its newest backup always remains (except with
--keep 0). Then all files that no backup needs are removed, including leftovers of interrupted runs; without a rule, only these.

Examples:
  firn backup prune /mnt/backups --keep 7 --keep-days 30
  firn backup prune /mnt/backups --keep 7 --dry-run
  firn backup prune /mnt/backups                           leftovers only";

/// Arguments of `firn backup`.
#[derive(Args, Clone, Debug)]
pub struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum BackupCommand {
    /// Make a backup of the store
    #[command(after_help = CREATE_EXAMPLES)]
    Create(BackupCreateArgs),
    /// List backups
    #[command(after_help = LIST_EXAMPLES)]
    List(BackupListArgs),
    /// Read backups and check all of their data
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(BackupVerifyArgs),
    /// Create a store from a backup
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(BackupRestoreArgs),
    /// Remove old backups, and files that no backup needs
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(BackupPruneArgs),
}

/// Parses a rate in bytes per second, at least one.
fn parse_rate(text: &str) -> Result<u64, String> {
    match options::size_per_second(text)? {
        0 => Err("nothing would ever be copied: leave --rate out for no limit".to_owned()),
        rate => Ok(rate),
    }
}

/// Location of backups.
#[derive(Args, Clone, Debug)]
pub struct BackupLocationArgs {
    /// Use this folder, or s3://bucket/prefix
    #[arg(value_name = "PLACE")]
    place: String,
}

/// Arguments of `firn backup create`.
#[derive(Args, Clone, Debug)]
pub struct BackupCreateArgs {
    #[command(flatten)]
    at: BackupLocationArgs,
    /// Copy at most this much per second, e.g. 50m
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Print what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `firn backup list`.
#[derive(Args, Clone, Debug)]
pub struct BackupListArgs {
    #[command(flatten)]
    at: BackupLocationArgs,
}

/// Arguments of `firn backup verify`.
#[derive(Args, Clone, Debug)]
pub struct BackupVerifyArgs {
    #[command(flatten)]
    at: BackupLocationArgs,
    /// Verify this backup [default: all]
    #[arg(value_name = "BACKUP")]
    id: Option<String>,
    /// Read at most this much per second, e.g. 50m
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
}

/// Arguments of `firn backup restore`.
#[derive(Args, Clone, Debug)]
pub struct BackupRestoreArgs {
    #[command(flatten)]
    at: BackupLocationArgs,
    /// Restore this backup [default: the newest]
    #[arg(value_name = "BACKUP")]
    id: Option<String>,
    /// Create the new store in this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Copy at most this much per second, e.g. 50m
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Print what would be restored, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `firn backup prune`.
#[derive(Args, Clone, Debug)]
pub struct BackupPruneArgs {
    #[command(flatten)]
    at: BackupLocationArgs,
    /// Keep this many of the newest backups of each store
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// Keep backups that are younger than this many days
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u64>,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Assume that nothing else uses this place: remove leftovers of interrupted runs at once
    #[arg(long)]
    alone: bool,
}

/// Runs `firn backup`.
pub fn run(global: &Global, args: &BackupArgs) -> Done {
    match &args.command {
        BackupCommand::Create(args) => create(global, args),
        BackupCommand::List(args) => list(global, args),
        BackupCommand::Verify(args) => verify(global, args),
        BackupCommand::Restore(args) => restore(global, args),
        BackupCommand::Prune(args) => prune(global, args),
    }
}

/// Returns the backups at a place.
pub fn repository(global: &Global, place: &str) -> Done<BackupRepository> {
    let env = global.env();
    let at = open_storage(&env, place).map_err(failure)?;
    Ok(BackupRepository::new(env, at))
}

/// Converts an error about backups, whose text has the advice.
fn failure(e: Error) -> Failure {
    Failure::new(e.to_string())
}

/// Adds advice to the error of a store that another process has open.
fn locked(failure: Failure) -> Failure {
    match failure {
        Failure::Engine(e) if e.kind() == ErrorKind::Locked => Failure::with_next(
            e.to_string(),
            "only the process that has the store open can back it up: a server with `firn serve --backup PLACE`, a program with `firn_backup`; or end it first",
        ),
        other => other,
    }
}

/// Returns the rate limit and progress bar of a run.
fn paced(progress: &Progress, rate: Option<u64>) -> Pacing<'_> {
    Pacing::default().with_rate_limit(rate).with_progress(|done, _| progress.at(done))
}

fn head_json(head: &BackupHead) -> Value {
    json!({
        "id": head.id, "made_micros": head.made_micros, "store": head.store, "seq": head.seq, "trees": head.trees,
        "tables": head.tables, "bytes": head.bytes,
    })
}

/// Returns the description of a new backup as a JSON object.
fn made_json(made: &BackupSummary) -> Value {
    let mut all = head_json(&made.head);
    all["copied_tables"] = made.copied_tables.into();
    all["copied_bytes"] = made.copied_bytes.into();
    all
}

/// Returns the description of a new backup as text.
pub fn made_words(made: &BackupSummary) -> String {
    format!(
        "{} of {} in {}; {} copied",
        output::bytes(made.head.bytes),
        things(made.head.trees, "tree", "trees"),
        things(made.head.tables, "table", "tables"),
        match made.copied_tables {
            0 => "none was".to_owned(),
            1 => format!("1 ({}) was", output::bytes(made.copied_bytes)),
            n => format!("{} ({}) were", output::count(n), output::bytes(made.copied_bytes)),
        }
    )
}

fn create(global: &Global, args: &BackupCreateArgs) -> Done {
    let backups = repository(global, &args.at.place)?;
    let (dir, mut out) = (&global.store.db, stdout());
    if args.dry_run {
        let plan = backups.plan(dir)?;
        if global.store.json {
            let all = json!({
                "dry_run": true, "tables": plan.tables, "bytes": plan.bytes, "new_tables": plan.new_tables, "new_bytes": plan.new_bytes,
            });
            writeln!(out, "{all}")?;
        } else {
            writeln!(
                out,
                "would copy {} ({}) of {} ({}), and the writes that are not in a table yet",
                output::count(plan.new_tables),
                output::bytes(plan.new_bytes),
                things(plan.tables, "table", "tables"),
                output::bytes(plan.bytes)
            )?;
        }
        return Ok(out.flush()?);
    }
    let plan = backups.plan(dir)?;
    let db = global.open_to_write(false, 0).map_err(locked)?;
    let watch = Stopwatch::start();
    let progress = Progress::bytes("backup", Some(plan.new_bytes));
    let made = backups.create(&db, &mut paced(&progress, args.rate)).map_err(failure)?;
    drop(progress);
    if global.store.json {
        let mut all = made_json(&made);
        all["seconds"] = watch.seconds().into();
        writeln!(out, "{all}")?;
    } else {
        writeln!(out, "{}", made.id)?;
    }
    out.flush()?;
    eprintln!("backed up {}, in {:.2} s", made_words(&made), watch.seconds());
    Ok(())
}

fn list(global: &Global, args: &BackupListArgs) -> Done {
    let listed = repository(global, &args.at.place)?.list().map_err(failure)?;
    let mut out = stdout();
    let damaged = listed.iter().any(|b| b.record.is_err());
    if global.store.json {
        let all: Vec<Value> = listed
            .iter()
            .map(|b| match &b.record {
                Ok(record) => head_json(&record.head),
                Err(e) => json!({"id": b.id, "error": e.to_string()}),
            })
            .collect();
        writeln!(out, "{}", json!({"backups": all}))?;
    } else if listed.is_empty() {
        eprintln!("there is no backup at {}; `firn backup create` makes one", args.at.place);
    } else {
        let mut table =
            output::listing(&["backup", "made", "store", "trees", "tables", "size"], "lllrrr");
        for b in &listed {
            let cells = match &b.record {
                Ok(r) => [
                    b.id.clone(),
                    firn_backup::shown_time(r.head.made_micros),
                    r.head.store.clone(),
                    output::count(r.head.trees),
                    output::count(r.head.tables),
                    output::bytes(r.head.bytes),
                ],
                Err(_) => [&b.id, "damaged", "", "", "", ""].map(str::to_owned),
            };
            table.add_row(cells);
        }
        write!(out, "{}", output::print_table(&table, global.style()))?;
    }
    out.flush()?;
    for e in listed.iter().filter_map(|b| b.record.as_ref().err()) {
        eprintln!("{} {e}", global.style().error("damaged:"));
    }
    if damaged { Err(Failure::Found) } else { Ok(()) }
}

fn verify(global: &Global, args: &BackupVerifyArgs) -> Done {
    let backups = repository(global, &args.at.place)?;
    let watch = Stopwatch::start();
    let progress = Progress::bytes("verify", None);
    let verdict =
        backups.verify(args.id.as_deref(), &mut paced(&progress, args.rate)).map_err(failure)?;
    drop(progress);
    output::judged(print_verdict(global, args, &verdict, watch.seconds()), verdict.is_sound())
}

fn print_verdict(
    global: &Global,
    args: &BackupVerifyArgs,
    verdict: &BackupVerdict,
    seconds: f64,
) -> Done {
    let mut out = stdout();
    if global.store.json {
        let findings: Vec<Value> = verdict
            .findings
            .iter()
            .map(|f| {
                let mut all = firn_tools::json::error(&f.error, f.advice);
                all["backups"] = f.backups.clone().into();
                all
            })
            .collect();
        let all = json!({
            "sound": verdict.is_sound(), "backups": verdict.backups, "tables": verdict.tables, "bytes": verdict.bytes,
            "seconds": seconds, "errors": findings,
        });
        writeln!(out, "{all:#}")?;
    } else {
        for f in &verdict.findings {
            writeln!(out, "{} {}", global.style().bad("damaged:"), f.error)?;
            writeln!(out, "         of {}", f.backups.join(", "))?;
            writeln!(out, "         {}", f.advice)?;
        }
        let word = match verdict.findings.len() as u64 {
            0 => global.style().good("sound"),
            n => global.style().bad(things(n, "error", "errors")),
        };
        writeln!(
            out,
            "{}: {word} ({}, {}, {} read in {:.2} s)",
            args.at.place,
            things(verdict.backups, "backup", "backups"),
            things(verdict.tables, "table", "tables"),
            output::bytes(verdict.bytes),
            seconds
        )?;
    }
    Ok(out.flush()?)
}

fn restore(global: &Global, args: &BackupRestoreArgs) -> Done {
    let backups = repository(global, &args.at.place)?;
    let head = match &args.id {
        Some(id) => backups.record(id),
        None => backups.newest(),
    }
    .map_err(failure)?
    .head;
    let (into, mut out) = (args.into.display(), stdout());
    if args.dry_run {
        if global.store.json {
            let mut all = head_json(&head);
            all["dry_run"] = true.into();
            writeln!(out, "{all}")?;
        } else {
            let (bytes, tables) =
                (output::bytes(head.bytes), things(head.tables, "table", "tables"));
            writeln!(out, "would restore {} into {into}: {bytes} in {tables}", head.id)?;
        }
        return Ok(out.flush()?);
    }
    let watch = Stopwatch::start();
    let progress = Progress::bytes("restore", Some(head.bytes));
    let mut pacing = paced(&progress, args.rate);
    let report = backups.restore(&head.id, &args.into, &mut pacing).map_err(failure)?;
    drop(pacing);
    drop(progress);
    if global.store.json {
        let mut all = head_json(&report.head);
        all["into"] = into.to_string().into();
        all["entries"] = report.entries.into();
        all["seconds"] = watch.seconds().into();
        writeln!(out, "{all}")?;
    }
    out.flush()?;
    eprintln!(
        "restored {} into {into}: {} in {}, {}, verified, in {:.2} s",
        head.id,
        output::bytes(head.bytes),
        things(head.tables, "table", "tables"),
        things(report.entries, "entry", "entries"),
        watch.seconds()
    );
    Ok(())
}

/// Returns the report of a prune, or of a dry run, as text.
pub fn pruned_words(report: &PruneReport) -> String {
    format!(
        "{} and {} ({}) that no backup needs; {} remaining",
        things(report.removed.len() as u64, "backup", "backups"),
        things(report.files, "file", "files"),
        output::bytes(report.bytes),
        output::count(report.kept.len() as u64)
    )
}

fn prune(global: &Global, args: &BackupPruneArgs) -> Done {
    let backups = repository(global, &args.at.place)?;
    let rule = KeepRule { newest: args.keep, days: args.keep_days, ..KeepRule::default() };
    let report =
        if args.dry_run { backups.plan_prune(rule) } else { backups.prune(rule, args.alone) }
            .map_err(failure)?;
    let mut out = stdout();
    if global.store.json {
        let all = json!({
            "dry_run": args.dry_run, "removed": report.removed, "kept": report.kept, "files": report.files, "bytes": report.bytes,
        });
        writeln!(out, "{all}")?;
    } else {
        for id in &report.removed {
            writeln!(out, "{id}")?;
        }
    }
    out.flush()?;
    let did = if args.dry_run { "would remove" } else { "removed" };
    eprintln!("{did} {}", pruned_words(&report));
    Ok(())
}
