//! `firn stats`: shows the content and cost of a store, once or periodically. It opens the store
//! for reading only.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use firn_kv::OsEnv;
use firn_kv::stats::{Stats, TreeStats};
use firn_workload::process::disk_bytes;
use serde_json::{Value, json};

use crate::admin::trees::{Options, holds};
use crate::store::Global;
use firn_console::names::StoreNames;
use firn_tools::help::fit_terminal;
use firn_tools::io::{Stopwatch, stdout, stdout_is_terminal};
use firn_tools::output::{
    Done, Failure, Style, bytes, count, listing, print_fitting, print_table, rate, row, table,
    things,
};
use firn_tools::stats::stats_json;

pub const STATS_EXAMPLES: &str = "\
Shows the trees of the store, their runs and tables, sizes, pending compactions, and the memory of this open. A program may write to the
store meanwhile. Only its own statistics have its iterators, snapshots, jobs and latencies.

A run is a sorted sequence of tables that do not overlap. A read searches every run of a tree that may have its key, so fewer runs mean
faster reads. \"Declared\" is the size to which the tree's policy lets tables grow while keys are overwritten. It includes a running
compaction, and assumes that the largest run is one copy of every key.

Examples:
  firn stats
  firn stats --watch                     repeat every two seconds, with the writes in between; Ctrl-C ends it
  firn stats --watch 10 --json           a JSON object on its own line every ten seconds
  firn stats --prometheus                for a scraper, e.g. a textfile collector
  firn stats --json | jq '.trees[].runs | length'
  firn --db /data/orders stats";

/// Arguments of `firn stats`.
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// Repeat every this many seconds, and show the writes in between [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = interval)]
    watch: Option<Duration>,
    /// Print the metrics that are numbers in the Prometheus text format 0.0.4
    #[arg(long, conflicts_with = "watch")]
    prometheus: bool,
    /// Repeat this many times [default: until Ctrl-C]
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    let interval =
        Duration::try_from_secs_f64(seconds).ok().filter(|d| (SHORTEST..=LONGEST).contains(d));
    interval.ok_or_else(|| "an interval is between a millisecond and a day".to_owned())
}

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(86_400);

/// Columns of the table of trees that a narrow terminal does not show.
const DISPENSABLE: [usize; 6] = [6, 7, 9, 11, 10, 2];

/// Sums over the runs of a tree.
pub struct InspectSums {
    pub tables: u64,
    pub bytes: u64,
    pub raw: u64,
    pub entries: u64,
    pub deletes: u64,
}

/// Returns the sums of a tree.
pub fn sums(t: &TreeStats) -> InspectSums {
    let sum = |of: fn(&firn_kv::stats::RunStats) -> u64| t.runs.iter().map(of).sum();
    InspectSums {
        tables: sum(|r| r.tables as u64),
        bytes: sum(|r| r.bytes),
        raw: sum(|r| r.raw_bytes),
        entries: sum(|r| r.entries),
        deletes: sum(|r| r.deletes),
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// Returns the total size of the table files in a directory.
fn files_of_tables(dir: &std::path::Path) -> u64 {
    let env = OsEnv::new();
    let names = env.list(dir).unwrap_or_default();
    let tables = names.iter().filter(|n| n.ends_with(".sst"));
    // A file that a writer has just removed counts as empty.
    tables.filter_map(|n| env.file_len(&dir.join(n)).ok()).sum()
}

/// State of the store at one moment.
struct InspectLook {
    stats: Stats,
    names: StoreNames,
    options: Options,
    on_disk: u64,
    /// Size of the table files that the manifest does not name.
    unlisted: u64,
    at: Stopwatch,
}

impl InspectLook {
    fn new(global: &Global) -> Done<InspectLook> {
        let (db, names) = global.open_named()?;
        let stats = db.stats();
        let unlisted = files_of_tables(&global.store.db).saturating_sub(stats.table_bytes());
        let on_disk = disk_bytes(&global.store.db).unwrap_or(0);
        Ok(InspectLook {
            stats,
            names,
            options: Options::of(global),
            on_disk,
            unlisted,
            at: Stopwatch::start(),
        })
    }

    /// Returns the number of operations written since an earlier state, and the seconds between.
    fn since(&self, before: &InspectLook) -> (u64, f64) {
        (
            self.stats.seq.saturating_sub(before.stats.seq),
            (before.at.seconds() - self.at.seconds()).max(0.0),
        )
    }
}

/// Runs `firn stats`.
pub fn stats(global: &Global, args: &StatsArgs) -> Done {
    if args.prometheus {
        if global.store.json {
            return Err(Failure::with_next(
                "--json and --prometheus exclude each other",
                "leave one of them out",
            ));
        }
        let (db, _) = global.open_named()?;
        write!(stdout(), "{}", db.stats().prometheus())?;
        return Ok(());
    }
    let mut before: Option<InspectLook> = None;
    let times = if args.watch.is_none() { Some(1) } else { args.times };
    let mut seen = 0;
    loop {
        let now = InspectLook::new(global)?;
        match global.store.json {
            true => print_json(global, args, &now, before.as_ref())?,
            false => print_text(global, args, &now, before.as_ref())?,
        }
        seen += 1;
        if times.is_some_and(|times| seen >= times) {
            return Ok(());
        }
        OsEnv::new().sleep(args.watch.unwrap_or_default());
        before = Some(now);
    }
}

fn print_json(
    global: &Global,
    args: &StatsArgs,
    now: &InspectLook,
    before: Option<&InspectLook>,
) -> Done {
    let mut v = stats_json(&now.stats);
    for tree in v["trees"].as_array_mut().into_iter().flatten() {
        let name = tree["name"].as_str().unwrap_or_default().to_owned();
        tree["holds"] = now.names.json(&name);
        tree["options"] = now.options.json(&name);
    }
    v["dir"] = global.store.db.display().to_string().into();
    v["disk_bytes"] = now.on_disk.into();
    v["unlisted_table_bytes"] = now.unlisted.into();
    if args.watch.is_none() {
        writeln!(stdout(), "{v}")?;
        return Ok(());
    }
    v["since_last"] = before.map_or(Value::Null, |before| {
        let (operations, seconds) = now.since(before);
        json!({"seconds": seconds, "operations": operations})
    });
    writeln!(stdout(), "{v}")?;
    Ok(())
}

fn print_text(
    global: &Global,
    args: &StatsArgs,
    now: &InspectLook,
    before: Option<&InspectLook>,
) -> Done {
    let mut out = stdout();
    match (args.watch.is_some() && stdout_is_terminal(), before) {
        (true, _) => write!(out, "\x1b[2J\x1b[H")?,
        (false, Some(_)) => writeln!(out)?,
        (false, None) => {}
    }
    print_totals(&mut out, global, now, before)?;
    print_trees(&mut out, global.style(), now)?;
    for tree in now.stats.trees.iter().filter(|t| !t.runs.is_empty()) {
        print_runs(&mut out, global.style(), now, tree)?;
    }
    print_memory(&mut out, &now.stats)?;
    Ok(out.flush()?)
}

/// Prints the sums of the store, and the operations since the look `before`.
fn print_totals(
    out: &mut impl Write,
    global: &Global,
    now: &InspectLook,
    before: Option<&InspectLook>,
) -> Done {
    let s = &now.stats;
    let tables: u64 = s.trees.iter().map(|t| sums(t).tables).sum();
    writeln!(
        out,
        "{}: {} on disk, {} of it in {}; {} so far",
        global.store.db.display(),
        bytes(now.on_disk),
        bytes(s.table_bytes()),
        things(tables, "table", "tables"),
        things(s.seq, "operation", "operations"),
    )?;
    if let Some(before) = before {
        let (operations, seconds) = now.since(before);
        let a_second = rate(operations as f64 / seconds.max(1e-9));
        writeln!(
            out,
            "{} in the last {seconds:.1} s: {a_second} a second",
            things(operations, "operation", "operations")
        )?;
    }
    if now.unlisted > 0 {
        let held = bytes(now.unlisted);
        let words = format!(
            "{held} more in tables that are not listed: being written, or retained for readers, by a program that has the store open, or left \
             by one that was killed (the next opening for writing removes those)\n"
        );
        write!(out, "{}", fit_terminal(&words))?;
    }
    Ok(writeln!(out)?)
}

/// Prints a table with a line for each tree.
fn print_trees(out: &mut impl Write, style: Style, now: &InspectLook) -> Done {
    let head = [
        "tree",
        "holds",
        "policy",
        "runs",
        "tables",
        "on disk",
        "declared",
        "of raw",
        "entries",
        "deletes",
        "in memory",
        "to compact",
    ];
    let mut t = listing(&head, "lllrrrrrrrrr");
    for tree in &now.stats.trees {
        let m = sums(tree);
        t.add_row([
            tree.name.clone(),
            holds(&now.names, &tree.name).to_owned(),
            now.options.policy(&tree.name).unwrap_or_default(),
            count(tree.runs.len() as u64),
            count(m.tables),
            bytes(m.bytes + tree.blobs.bytes),
            tree.bound_bytes().map_or_else(|| "no bound".into(), bytes),
            share(m.bytes + tree.blobs.live_bytes, m.raw),
            count(m.entries),
            count(m.deletes),
            bytes(tree.memtable_bytes),
            bytes(tree.debt),
        ]);
    }
    Ok(write!(out, "{}", print_fitting(&mut t, &DISPENSABLE, style))?)
}

/// Prints the runs and the blob files of a tree.
fn print_runs(out: &mut impl Write, style: Style, now: &InspectLook, tree: &TreeStats) -> Done {
    let mut t = table(&["run", "level", "tables", "on disk", "of raw", "entries", "deletes"]);
    for r in &tree.runs {
        let cells = [
            r.number.to_string(),
            r.level.to_string(),
            count(r.tables as u64),
            bytes(r.bytes),
            share(r.bytes, r.raw_bytes),
            count(r.entries),
            count(r.deletes),
        ];
        row(&mut t, cells);
    }
    let words = [now.names.of_tree(&tree.name).map(str::to_owned)].into_iter().flatten();
    let words: Vec<String> = words.chain(now.options.unusual(&tree.name)).collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    write!(out, "\nruns of {:?}{words}, newest first\n{}", tree.name, print_table(&t, style))?;
    let v = &tree.blobs;
    if v.files > 0 {
        writeln!(
            out,
            "blobs: {} in {}, of which tables refer to {}",
            bytes(v.bytes),
            things(v.files, "file", "files"),
            bytes(v.live_bytes)
        )?;
    }
    Ok(())
}

/// Prints the memory and the open files of this process.
fn print_memory(out: &mut impl Write, s: &Stats) -> Done {
    let memory = format!(
        "\nmemory of this command: memtables {}, indexes and filters {}, block cache {} of {}\n",
        bytes(s.memory.memtables),
        bytes(s.memory.tables),
        bytes(s.memory.cache),
        bytes(s.memory.cache_capacity)
    );
    write!(out, "{}", fit_terminal(&memory))?;
    let bound = if s.files.limit == u64::MAX {
        "without a bound".into()
    } else {
        format!("of at most {}", count(s.files.limit))
    };
    let again = things(s.files.reopened, "file", "files");
    writeln!(
        out,
        "open files of tables of this command: {} {bound}; {again} opened again",
        count(s.files.open)
    )?;
    Ok(())
}
