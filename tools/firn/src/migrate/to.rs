//! `firn migrate --to`: copies tables of CQL to a cluster of Apache Cassandra or ScyllaDB. It also
//! has the arguments of all directions of `firn migrate`.
//!
//! Invariant: definitions, and objects that cannot be migrated, are shown before any change or
//! transfer.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use firn_cluster::{ClusterUrl, Session};
use firn_cql::internals::catalog::TableSchema;
use firn_kv::{ChangeFeed, ErrorKind, OsEnv};
use firn_migrate::cluster_export::{ClusterExport, OutgoingTable, TableSurvey};
use firn_migrate::definitions::{self, CarriedDefinition, DefinitionPhase, full_name};
use firn_migrate::follow::{self, Follower};
use firn_migrate::journal::MigrateJournal;
use firn_migrate::replication::{
    ReplicationMap, ReplicationVerdict, judge, replication_map, replication_there,
};
use firn_migrate::report::MOST_SHOWN;
use firn_migrate::target::MigrateTarget;
use firn_server::{Options, Server};
use firn_table_events::cql_trouble;
use firn_tools::io::{Stopwatch, stdout};
use firn_tools::options;
use firn_tools::output::{self, Done, Failure, Progress, things};
use firn_workload::phase::parse_count;
use serde_json::json;

use crate::shell::connect::not_connected;
use crate::shell::interrupt;
use crate::store::Global;

pub const EXAMPLES: &str = "\
First, keyspaces, types and tables are shown and created. Then every cell is sent with its timestamp and remaining time to live, row
markers, static columns, and deletions of partitions, ranges, rows, columns and elements. Then indexes and views are created. Existing
data at the cluster remains; timestamps decide. Lists are written whole. Counters are added once, into empty tables. The copy reads a
snapshot of the store, which a writer may have open. With --follow this process is the writer, and continues until the switch. A
journal records the progress: after any interruption, continue with --resume.

Examples:
  firn --db shop migrate --to cassandra://10.0.0.1,10.0.0.2 --dry-run            what would be created, and what CQL can't migrate
  firn --db shop migrate --to cassandra://10.0.0.1,10.0.0.2 --replication 3
  firn --db shop migrate --to cassandra://10.0.0.1,10.0.0.2 --resume             continues after an interruption
  firn --db shop migrate --to cassandra://10.0.0.1 --follow --listen 127.0.0.1:9042    serves the store meanwhile, and sends new writes
  firn --db shop migrate --to cassandra://10.0.0.1 --tables shop.items,shop.orders --rate 20k
  firn --db shop migrate --to cassandra://10.0.0.1 --tables shop.orders --where \"day >= '2026-01-01'\"
  firn --db shop migrate --from cassandra://10.0.0.1,10.0.0.2                    the reverse: from the cluster into the store
  firn --db shop migrate --to cassandra://10.0.0.1,10.0.0.2 --verify             compares both sides";

/// Arguments of `firn migrate`.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// Copy the tables to this cluster
    #[arg(long, value_name = "URL", required_unless_present = "from", conflicts_with = "from")]
    pub to: Option<String>,
    /// Copy the tables from this cluster, through CQL alone; the store is created if there is none
    #[arg(long, value_name = "URL", conflicts_with_all = ["replication", "counter_wait", "follow"])]
    pub from: Option<String>,
    /// Copy nothing; compare the store with the cluster of --to or --from, cell by cell: values,
    /// write times, times to live
    #[arg(long, conflicts_with_all = ["dry_run", "resume", "journal", "rate", "replication", "counter_wait", "follow"])]
    pub verify: bool,
    /// Accept this difference of remaining times to live
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "verify")]
    pub drift: u32,
    /// Show at most this many differences of each table
    #[arg(long, value_name = "N", default_value_t = 20, requires = "verify")]
    pub show: usize,
    /// Log in as this role; its password is asked for, or read from --password-file or
    /// $FIRN_PASSWORD
    #[arg(short, long, value_name = "NAME")]
    pub user: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Copy only these tables: KEYSPACE.TABLE, or KEYSPACE for all of its tables [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub tables: Vec<String>,
    /// Set the replication of created keyspaces: a number of replicas in each data centre, or a map
    /// of CQL [default: as in the store]
    #[arg(long, value_name = "N|MAP")]
    replication: Option<String>,
    /// Copy only rows that match this WHERE condition on columns of the primary key; static columns
    /// follow their partitions
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Read all data, show what would be created and what cannot be migrated, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Continue an interrupted migration, from its journal
    #[arg(long)]
    pub resume: bool,
    /// Record progress in this file [default: the store's name followed by .migration]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Send at most this many cells per second [default: as many as the cluster accepts]
    #[arg(long, value_name = "CELLS", value_parser = parse_count)]
    pub rate: Option<u64>,
    /// Run this many statements at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = parse_parallel)]
    pub parallel: usize,
    /// After the copy, send new writes to the store until Ctrl-C; this process has the store open
    /// exclusively
    #[arg(long)]
    follow: bool,
    /// Serve the store meanwhile, like `firn serve`, so that clients can continue to write
    #[arg(long, value_name = "ADDRESS:PORT", requires = "follow")]
    listen: Option<SocketAddr>,
    /// End after this many seconds without a write
    #[arg(long, value_name = "SECONDS", requires = "follow")]
    until_idle: Option<u64>,
    /// Retain at most this much of the store's log for unsent writes
    #[arg(long, value_name = "SIZE", default_value = "16g", requires = "follow", value_parser = options::size)]
    hold_log: u64,
    /// Check counter updates without an answer only after this many seconds
    #[arg(long, value_name = "SECONDS", alias = "settle", default_value_t = 15, value_parser = clap::value_parser!(u64).range(..=3600))]
    counter_wait: u64,
}

fn parse_parallel(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=1024).contains(n));
    number.ok_or_else(|| "it is a number from 1 to 1024".to_owned())
}

/// Tables that are not migrated, by their kinds; views are migrated as definitions.
#[derive(Default)]
pub struct UnmigratedTables {
    compact: Vec<String>,
    families: Vec<String>,
    tables: Vec<(String, String)>,
}

impl UnmigratedTables {
    /// Returns all of them, each as a keyspace and a name.
    pub fn tables(&self) -> &[(String, String)] {
        &self.tables
    }

    /// Returns their names, as CQL writes them.
    fn names(&self) -> Vec<String> {
        self.tables.iter().map(|(keyspace, table)| full_name(keyspace, table)).collect()
    }

    /// Describes each kind: its number, its treatment, and advice.
    fn describe(&self) -> Vec<String> {
        let mut all = vec![];
        let mut say = |names: &[String], one: &str, many: &str, next: &str| {
            if !names.is_empty() {
                let count = things(names.len() as u64, one, many);
                all.push(format!("{count} left out: {}; {next}", names.join(", ")));
            }
        };
        let next = "ALTER TABLE … DROP COMPACT STORAGE makes a compact table one that is carried";
        say(&self.compact, "compact table", "compact tables", next);
        let next = "no cluster has their interface: COPY exports their rows to a file, and imports them into a CQL table, which can be migrated";
        say(&self.families, "column family", "column families", next);
        all
    }
}

/// Reports whether the rows of the table have the CQL layout, without compact storage or families.
fn is_plain(table: &TableSchema) -> bool {
    table.form().is_none() && !table.is_compact() && table.family().is_none()
}

/// Returns the selected tables, in order.
pub fn chosen(
    session: &firn_cql::Session,
    names: &[String],
) -> Done<(Vec<(String, String)>, UnmigratedTables)> {
    let catalog = session.engine().fresh_catalog().map_err(|e| cql_trouble(&e))?;
    let (mut all, mut left) = (vec![], UnmigratedTables::default());
    for name in names {
        let (keyspace, table) = name.split_once('.').map_or((&**name, None), |n| (n.0, Some(n.1)));
        let known = catalog.keyspace(keyspace);
        if known.is_none_or(|k| table.is_some_and(|t| k.table(t).is_none())) {
            let next = "`firn cql -e \"DESCRIBE TABLES\"` lists tables";
            return Err(Failure::with_next(format!("there is no {name}"), next));
        }
    }
    for table in catalog.keyspaces().flat_map(|k| k.tables()) {
        let of = |name: &String| match name.split_once('.') {
            Some((keyspace, name)) => keyspace == &*table.keyspace && name == &*table.name,
            None => **name == *table.keyspace,
        };
        let is_wanted = names.is_empty() || names.iter().any(of);
        if !is_wanted || table.view().is_some() {
            continue;
        }
        let name = (table.keyspace.to_string(), table.name.to_string());
        if is_plain(table) {
            all.push(name);
            continue;
        }
        let of_kind = if table.family().is_some() { &mut left.families } else { &mut left.compact };
        of_kind.push(full_name(&name.0, &name.1));
        left.tables.push(name);
    }
    all.sort();
    Ok((all, left))
}

/// Prints a note on standard error.
pub fn note(global: &Global, words: impl Display) {
    eprintln!("{} {words}", global.style().bold("note:"));
}

/// Fails if tables were left out that the user did not exclude, so that the exit code shows it.
pub fn whole(global: &Global, left: &[String]) -> Done {
    if left.is_empty() {
        return Ok(());
    }
    eprintln!(
        "{} {}: {}; select the others with --tables to avoid this failure",
        global.style().error("not carried:"),
        things(left.len() as u64, "table", "tables"),
        left.join(", ")
    );
    Err(Failure::Found)
}

impl MigrateArgs {
    /// Returns the path of the journal.
    pub fn journal_path(&self, global: &Global) -> PathBuf {
        self.journal.clone().unwrap_or_else(|| {
            let mut name = global.store.db.as_os_str().to_owned();
            name.push(".migration");
            PathBuf::from(name)
        })
    }
}

/// Runs `firn migrate --to`.
pub fn run(global: &Global, args: &MigrateArgs, url: ClusterUrl) -> Done {
    let replication = args.replication.as_deref().map(definitions::replication).transpose()?;
    global.check_model()?;
    let session = open(global, args)?;
    let (tables, left) = chosen(&session, &args.tables)?;
    if tables.is_empty() {
        left.describe().into_iter().for_each(|words| note(global, words));
        let next = "`firn cql -e \"DESCRIBE TABLES\"` lists tables";
        return Err(Failure::with_next("there are no tables to carry", next));
    }
    let source = Session::from(session.clone());
    let definitions = definitions::definitions(&source, &tables, replication.as_deref())?;
    interrupt::watch()?;
    let stop = interrupt::flag();
    signal_hook::flag::register(signal_hook::consts::SIGTERM, stop.clone())?;
    let nodes = url.nodes().to_vec();
    let target = connect(global, args, url)?;
    if let Some(target) = &target {
        let asked = replication.as_deref().map(replication_map).transpose()?;
        judge_replication(global, &session, target, &tables, asked.as_ref())?;
        for (keyspace, table) in &tables {
            if definitions::has_table(target, keyspace, table)? {
                definitions::check_columns(&source, target, keyspace, table)?;
            }
        }
    }
    // The feed begins before the first read, so that it misses no write.
    let feed = match args.follow && !args.dry_run {
        true => Some(follow::feed(&session, None, args.hold_log)?),
        false => None,
    };
    let outward =
        Arc::new(ClusterExport::new(OsEnv::new(), &session, &tables, args.condition.as_deref())?);
    if let Some(target) = target.as_ref().filter(|_| !args.resume) {
        if !args.dry_run {
            let path = args.journal_path(global);
            MigrateJournal::check(&OsEnv::new(), &path, &outward.head(&nodes), false)?;
        }
        outward.check_empty(target)?;
    }
    let server = match args.listen.filter(|_| !args.dry_run) {
        Some(address) => Some(listen(global, &session, address)?),
        None => None,
    };
    let migration = Migration { global, args, definitions, left, outward, stop };
    migration.print_definitions()?;
    let progress = Progress::operations("look", Some(migration.outward.ranges()));
    let looks = migration.outward.look(args.parallel, &migration.stop, &progress)?;
    drop(progress);
    migration.print_surveys(&looks);
    if args.dry_run {
        return migration.finish(&looks, None);
    }
    let Some(target) = target else { return Ok(()) };
    migration.define(&target, DefinitionPhase::Before)?;
    for (keyspace, table) in &tables {
        definitions::check_columns(&source, &target, keyspace, table)?;
    }
    let copied = migration.copy(target, &nodes)?;
    migration.define(copied.target.session(), DefinitionPhase::After)?;
    let behind = match feed {
        Some(feed) => migration.follow(&session, &copied, feed)?,
        None => 0,
    };
    if let Some(server) = server {
        server.stop().map_err(|e| Failure::new(e.to_string()))?;
    }
    if behind == 0 && migration.is_there(&copied) {
        copied.journal.complete()?;
    }
    migration.finish(&looks, Some(&copied))
}

/// Connects to the cluster; `None` if it does not answer and this is a dry run.
fn connect(global: &Global, args: &MigrateArgs, url: ClusterUrl) -> Done<Option<Session>> {
    match Session::connect_to(url) {
        Ok(session) => Ok(Some(session)),
        Err(e) if args.dry_run => {
            let why = e.text();
            note(global, format!("{why}: what the cluster has was not looked at"));
            Ok(None)
        }
        Err(e) => Err(not_connected(&e)),
    }
}

/// Fails if the cluster has too few nodes for a replication; notes existing keyspaces with a
/// different replication.
fn judge_replication(
    global: &Global,
    session: &firn_cql::Session,
    target: &Session,
    tables: &[(String, String)],
    asked: Option<&ReplicationMap>,
) -> Done {
    let catalog = session.engine().fresh_catalog().map_err(|e| cql_trouble(&e))?;
    let nodes = target.nodes_by_datacenter().map_err(|e| not_connected(&e))?.unwrap_or_default();
    let names: BTreeSet<&str> = tables.iter().map(|(keyspace, _)| &**keyspace).collect();
    for name in names {
        let Some(keyspace) = catalog.keyspace(name) else { continue };
        let wanted = asked.unwrap_or(&keyspace.replication);
        let there = replication_there(target, name)?;
        let judged = judge(name, wanted, asked.is_some(), there.as_ref(), &nodes)?;
        if let ReplicationVerdict::ThereWithTooMany(why) = judged {
            note(
                global,
                format!(
                    "the keyspace {name} is at the cluster already, and {why}: statements fail where their level needs more; \
                     ALTER KEYSPACE there changes it"
                ),
            );
        }
    }
    Ok(())
}

/// Opens the store: for reading only, or as its writer with `--follow`.
fn open(global: &Global, args: &MigrateArgs) -> Done<firn_cql::Session> {
    if !args.follow || args.dry_run {
        return global.model(global.to_read());
    }
    global.model(global.to_write(false, 16 << 20)).map_err(|e| match e {
        Failure::Engine(e) if e.kind() == ErrorKind::Locked => Failure::with_next(
            e.to_string(),
            "only the process that has the store open can follow it: end the server, and let this one serve by --listen ADDRESS:PORT; \
             a program of yours that has it open calls firn-migrate itself",
        ),
        other => other,
    })
}

/// Serves the store meanwhile.
fn listen(global: &Global, session: &firn_cql::Session, address: SocketAddr) -> Done<Server> {
    let mut options = Options::directory(&global.store.db);
    options.address = address;
    let server = Server::start_with_session(session.clone(), options);
    let server = server.map_err(|e| Failure::new(format!("cannot serve at {address}: {e}")))?;
    eprintln!("serving {} at {}", global.store.db.display(), server.address());
    Ok(server)
}

/// A migration in progress.
struct Migration<'a> {
    global: &'a Global,
    args: &'a MigrateArgs,
    definitions: Vec<CarriedDefinition>,
    left: UnmigratedTables,
    outward: Arc<ClusterExport>,
    stop: Arc<AtomicBool>,
}

/// Result of the copy.
struct CopiedTables {
    target: Arc<MigrateTarget>,
    journal: Arc<MigrateJournal>,
    /// Cells and deletions sent by the copy, and its duration; without the followed writes.
    cells: u64,
    seconds: f64,
}

impl Migration<'_> {
    fn note(&self, words: impl Display) {
        note(self.global, words);
    }

    /// Prints the statements on standard output, and the omitted ones on standard error.
    fn print_definitions(&self) -> Done {
        let mut never = vec![];
        for definition in &self.definitions {
            match definition.phase {
                DefinitionPhase::Never => {
                    never.push(format!("{} {}", definition.kind, definition.name))
                }
                _ if self.global.store.json => {}
                _ => writeln!(stdout(), "{}\n", definition.text)?,
            }
        }
        if !never.is_empty() {
            let count = things(never.len() as u64, "definition", "definitions");
            self.note(format!(
                "{count} in a language that the cluster does not have left out: {}",
                never.join(", ")
            ));
        }
        self.left.describe().into_iter().for_each(|words| self.note(words));
        Ok(())
    }

    fn print_surveys(&self, looks: &[TableSurvey]) {
        for (table, look) in self.outward.tables.iter().zip(looks) {
            let name = table.statements.name();
            eprintln!("{name} has {}", look.totals.told());
            look.describe().into_iter().for_each(|loss| self.note(format!("{name}: {loss}")));
            if table.exported.schema().is_counter() && look.totals.cells > 0 {
                self.note(format!(
                    "{name}: counters are added once, with the cluster's own timestamps, into an empty table"
                ));
            }
        }
    }

    fn define(&self, target: &Session, phase: DefinitionPhase) -> Done {
        let of_phase = self.definitions.iter().filter(|d| d.phase == phase);
        of_phase.into_iter().try_for_each(|d| definitions::define(target, d))
    }

    fn copy(&self, session: Session, nodes: &[String]) -> Done<CopiedTables> {
        let (args, outward) = (self.args, &self.outward);
        let (env, watch) = (OsEnv::new(), Stopwatch::start());
        let head = outward.head(nodes);
        let target = MigrateTarget::new(session, env.clone(), args.rate, self.stop.clone());
        let target = Arc::new(target);
        let journal =
            MigrateJournal::open(&env, &self.args.journal_path(self.global), &head, args.resume)?;
        let before = journal.oldest().filter(|seq| *seq != outward.seq && !args.follow);
        if let Some(before) = before {
            let changes = things(outward.seq.saturating_sub(before), "change", "changes");
            self.note(format!(
                "the store's log has {changes} since the begin of the copy: changes in ranges already copied are not migrated"
            ));
        }
        let (target, journal) = (target, Arc::new(journal));
        let counter_wait = Duration::from_secs(args.counter_wait);
        let progress = Progress::operations("migrate", Some(outward.ranges()));
        outward.send_all(&target, &journal, args.parallel, counter_wait, &self.stop, &progress)?;
        drop(progress);
        let cells = target.counts.cells.load(Ordering::Relaxed);
        Ok(CopiedTables { target, journal, cells, seconds: watch.seconds() })
    }

    /// Reports whether all data is at the cluster.
    fn is_there(&self, copied: &CopiedTables) -> bool {
        copied.target.counts.refused.load(Ordering::Relaxed) == 0
            && self.outward.unknown(&copied.journal).is_empty()
            && self.outward.missing(&copied.journal).is_empty()
    }

    /// Sends the writes since the begin of the copy, from `feed`, and returns the number of unsent
    /// changes.
    fn follow(
        &self,
        session: &firn_cql::Session,
        copied: &CopiedTables,
        feed: ChangeFeed,
    ) -> Done<u64> {
        let args = self.args;
        let from = copied.journal.follows_from().filter(|from| *from < feed.seq());
        let feed = match from {
            Some(from) => follow::feed(session, Some(from), args.hold_log)?,
            None => feed,
        };
        let mut follower =
            Follower::new(self.outward.clone(), session.clone(), feed, &copied.journal)?;
        eprintln!(
            "the copy is complete, {} still to send; new writes follow, until Ctrl-C",
            things(follower.behind(), "change", "changes")
        );
        let progress = Progress::operations("follow", None);
        let idle = args.until_idle.map(Duration::from_secs);
        follower.run(&copied.target, &copied.journal, idle, &progress)?;
        drop(progress);
        let sent = copied.target.counts.cells.load(Ordering::Relaxed) - copied.cells;
        eprintln!("{}", follow::follow_words(follower.followed(), sent, None));
        match follower.behind() {
            0 if copied.target.counts.refused.load(Ordering::Relaxed) > 0 => {}
            0 => eprintln!("all changes of the store's log are at the cluster"),
            n => self.note(format!(
                "{} of the store's log not at the cluster yet: --resume --follow sends them",
                things(n, "change", "changes")
            )),
        }
        follower
            .losses
            .describe()
            .into_iter()
            .for_each(|loss| self.note(format!("written meanwhile: {loss}")));
        if follower.deleted_counters > 0 {
            let count = things(follower.deleted_counters, "deletion", "deletions");
            self.note(format!(
                "{count} of counters sent: a cluster may not continue to count from these"
            ));
        }
        Ok(follower.behind())
    }

    /// Reports the result; fails if data was refused, or if its state is unknown.
    fn finish(&self, looks: &[TableSurvey], copied: Option<&CopiedTables>) -> Done {
        let refused = copied.map_or(vec![], |c| c.target.refused());
        let all_refused = copied.map_or(0, |c| c.target.counts.refused.load(Ordering::Relaxed));
        let unknown = copied.map_or(vec![], |c| self.outward.unknown(&c.journal));
        let missing = copied.map_or(vec![], |c| self.outward.missing(&c.journal));
        let for_good = copied.map_or(0, |c| c.target.counts.missing.load(Ordering::Relaxed));
        let cells = copied.map_or(0, |c| c.target.counts.cells.load(Ordering::Relaxed));
        let seconds = copied.map_or(0.0, |c| c.seconds);
        let retries = copied.map_or(0, |c| c.target.counts.retries.load(Ordering::Relaxed));
        if self.global.store.json {
            let table = |(t, look): (&OutgoingTable, &TableSurvey)| {
                json!({
                    "table": t.statements.name(), "found": look.totals.json(), "changed": look.losses.json(),
                })
            };
            let tables = self.outward.tables.iter().zip(looks).map(table);
            let refused =
                refused.iter().map(|r| json!({"table": r.table, "key": r.key, "why": r.why}));
            let of_kind = |never: bool| {
                let all = self.definitions.iter();
                let all = all.filter(move |d| (d.phase == DefinitionPhase::Never) == never);
                all.map(|d| json!({"kind": d.kind, "keyspace": d.keyspace, "name": d.name, "statement": d.text}))
                    .collect::<Vec<_>>()
            };
            let left_out = [&*self.left.compact, &*self.left.families].concat();
            let all = json!({
                "sent": copied.is_some(), "definitions": of_kind(false), "definitions_left_out": of_kind(true),
                "tables": tables.collect::<Vec<_>>(), "tables_left_out": left_out, "cells_sent": cells,
                "refused": all_refused, "refused_statements": refused.collect::<Vec<_>>(),
                "unknown_counters": unknown, "missing_counters": missing, "sent_again": retries, "seconds": seconds,
            });
            writeln!(stdout(), "{all}")?;
        }
        let Some(copied) = copied else { return whole(self.global, &self.left.names()) };
        for (table, look) in self.outward.tables.iter().zip(looks) {
            let name = table.statements.name();
            look.describe().into_iter().for_each(|loss| self.note(format!("{name}: {loss}")));
        }
        let again = match retries {
            0 => String::new(),
            n => format!(", {} sent again", things(n, "batch", "batches")),
        };
        let what = |n| things(n, "cell and deletion", "cells and deletions");
        eprintln!(
            "sent {} in {seconds:.1} s, {} a second{again}",
            what(copied.cells),
            output::rate(copied.cells as f64 / seconds.max(1e-3))
        );
        for r in refused.iter().take(MOST_SHOWN) {
            eprintln!(
                "{} {} WHERE {}: {}",
                self.global.style().error("refused:"),
                r.table,
                r.key,
                r.why
            );
        }
        for words in unknown.iter().take(MOST_SHOWN) {
            eprintln!("{} {words}", self.global.style().error("not known:"));
        }
        for words in missing.iter().take(MOST_SHOWN) {
            eprintln!("{} {words}", self.global.style().error("not there:"));
        }
        if all_refused > for_good {
            eprintln!(
                "{} refused; --resume{} sends them again",
                things(all_refused - for_good, "statement was", "statements were"),
                if self.args.follow { " --follow" } else { "" }
            );
        }
        if !missing.is_empty() {
            eprintln!(
                "{} of the followed writes refused, and not sent again: add them by hand",
                things(missing.len() as u64, "row of counters", "rows of counters")
            );
        }
        if !unknown.is_empty() {
            eprintln!(
                "it is unknown whether {} were added: compare them by hand",
                things(unknown.len() as u64, "row of counters", "rows of counters")
            );
        }
        eprintln!("the journal is {}", copied.journal.path().display());
        let carried = whole(self.global, &self.left.names());
        if all_refused == 0 && unknown.is_empty() && missing.is_empty() {
            carried
        } else {
            Err(Failure::Found)
        }
    }
}
