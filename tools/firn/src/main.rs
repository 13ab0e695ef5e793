//! The `firn` command: load, read, measure and verify Firn stores.
//!
//! Conventions of every subcommand:
//! - Data goes to standard output, messages go to standard error; `--json` is for programs.
//! - Exit code 0 means success, 1 means that the command found a problem, 2 means that it could not
//!   run.
//! - Only commands whose name says so write to a store.

mod admin;
mod bench;
mod cassandra;
mod check;
mod console;
mod cql;
mod explain;
mod families;
mod follow;
mod inspect;
mod keys;
mod listen;
#[cfg(feature = "cluster")]
mod migrate;
#[cfg(feature = "otel")]
mod otlp;
mod replication;
mod serve;
mod serve_backups;
mod shell;
mod store;
mod transfer;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind as ClapErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use firn_kv::{Error, ErrorKind};
use firn_tools::io::stdout;
use firn_tools::output::Failure;
use firn_tools::{install, output};

use admin::{advise, backup, trees, verify, whole};
use families::{define, demo, json, purge};
use keys::{edit, load, read};
use shell::cassandra_cli;

const EXAMPLES: &str = "\
Exit codes: 0 success, 1 a problem was found (damage, a bad line that stops a load, a missing key), 2 the command could not run.
Data goes to standard output, messages to standard error. Commands that read never write, and a writer may have the store open.

Examples:
  firn bench                                a short standard measurement in ./firn-data
  firn --db fruit load fruit.tsv            create the store \"fruit\" from lines of key, tab, value
  firn --db fruit put cherry red
  firn --db fruit get apple
  firn --db fruit scan --prefix a
  firn --db fruit verify
  firn --db blog define storage-conf.xml    the keyspaces and column families of a storage-conf.xml
  firn --db blog demo bloggy                the article's blog: its data, and its queries step by step
  firn --db shop cql                        a shell for CQL
  firn --db shop serve                      a server for Cassandra's drivers and cqlsh
  firn --db music cli                       a shell for keyspaces and column families, as cassandra-cli was
  firn stats fruit                          the store may also be an argument: of a command without others, or
  firn fruit scan                           the first one
  firn load --help                          the options of a command, with examples";

/// Load, read, measure and verify Firn stores: embedded, ordered, durable key-value stores.
#[derive(Parser, Debug)]
#[command(name = "firn", version, after_help = EXAMPLES, max_term_width = 120)]
struct FirnCli {
    #[command(flatten)]
    global: store::Global,
    #[command(subcommand)]
    command: FirnCommand,
}

#[derive(Subcommand, Debug)]
enum FirnCommand {
    /// Load TSV, CSV or JSON lines into a tree or a column family
    #[command(after_help = load::EXAMPLES)]
    Load(load::LoadArgs),
    /// Write trees and tables as Parquet, Arrow, CSV, JSON or Cassandra's files
    #[command(after_help = json::EXPORT_EXAMPLES)]
    Export(Box<json::ExportArgs>),
    /// Import Parquet, Arrow, CSV, JSON, SQLite, LevelDB or Cassandra's files
    #[command(after_help = json::IMPORT_EXAMPLES)]
    Import(Box<json::ImportArgs>),
    /// Print the values of keys
    #[command(after_help = read::GET_EXAMPLES)]
    Get(read::GetArgs),
    /// Print keys and values in order
    #[command(after_help = read::SCAN_EXAMPLES)]
    Scan(read::ScanArgs),
    /// Put keys with their values
    #[command(after_help = edit::PUT_EXAMPLES)]
    Put(edit::PutArgs),
    /// Delete keys, or a range of them
    #[command(after_help = edit::DELETE_EXAMPLES)]
    Delete(edit::DeleteArgs),
    /// Show the cost of one read, step by step
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArgs),
    /// Show the content of the store and its cost
    #[command(after_help = inspect::STATS_EXAMPLES)]
    Stats(inspect::StatsArgs),
    /// Print the changes of a store since the last time, as JSON
    #[command(after_help = follow::EXAMPLES)]
    Follow(follow::FollowArgs),
    /// Follow the store of a primary, and apply its changes to a copy
    #[command(after_help = replication::REPLICATE_EXAMPLES)]
    Replicate(replication::ReplicateArgs),
    /// Make a replica an independent store, which can be written to
    #[command(after_help = replication::PROMOTE_EXAMPLES)]
    Promote(replication::PromoteArgs),
    /// Show a store in a browser: charts, the shape of its trees, CQL
    #[command(after_help = console::EXAMPLES)]
    Console(console::ConsoleArgs),
    /// List the trees with their content, policy, size and options
    #[command(after_help = trees::TREES_EXAMPLES)]
    Trees(trees::TreesArgs),
    /// Change the policy and other options of a tree
    #[command(after_help = trees::set_options_help())]
    SetOptions(trees::SetOptionsArgs),
    /// Drop a tree with all its keys
    #[command(after_help = trees::DROP_EXAMPLES)]
    DropTree(trees::DropTreeArgs),
    /// Recommend a policy for a tree, from the store's recorded load
    #[command(after_help = advise::EXAMPLES)]
    Advise(Box<advise::StoreAdviseArgs>),
    /// Read all data and check it
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Report what Cassandra or ScyllaDB would refuse, or handle badly
    #[command(after_help = check::EXAMPLES)]
    Check(check::OutgrowCheckArgs),
    /// Create a second store with the same content, from one point in time
    #[command(after_help = whole::CHECKPOINT_EXAMPLES)]
    Checkpoint(whole::CheckpointArgs),
    /// Create, list, verify, restore and prune incremental backups
    #[command(after_help = backup::EXAMPLES)]
    Backup(backup::BackupArgs),
    /// Compact trees down to one run
    #[command(after_help = whole::COMPACT_EXAMPLES)]
    Compact(whole::CompactArgs),
    /// Raise the store to the newest format version that this program writes
    #[command(after_help = whole::UPGRADE_EXAMPLES)]
    Upgrade(whole::UpgradeArgs),
    /// Run cassandra-cli statements against a store of keyspaces and column families
    #[command(after_help = cassandra_cli::EXAMPLES)]
    Cli(cassandra_cli::CliArgs),
    /// Run CQL against a store: a shell, scripts, COPY
    #[command(after_help = cql::EXAMPLES)]
    Cql(cql::CqlArgs),
    /// Serve a store to Cassandra clients: any driver, cqlsh
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<serve::ServeArgs>),
    /// Copy tables of CQL to or from a cluster of Cassandra or ScyllaDB, or compare them
    #[cfg(feature = "cluster")]
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(migrate::MigrateArgs),
    /// Names the feature that this build lacks.
    #[cfg(not(feature = "cluster"))]
    #[command(hide = true)]
    Migrate {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _args: Vec<String>,
    },
    /// Create the keyspaces and column families of a storage-conf.xml
    #[command(after_help = define::EXAMPLES)]
    Define(define::DefineArgs),
    /// Report what retains tombstones and expired cells of column families and tables
    #[command(after_help = purge::EXAMPLES)]
    PurgeReport(purge::PurgeArgs),
    /// Create an example store, and explain its content and its queries
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoArgs),
    /// Measure a fresh store under the workloads of db_bench, YCSB and mixgraph
    #[command(after_help = bench::examples())]
    Bench(Box<bench::BenchCommandArgs>),
    /// Stress a store, kill it repeatedly, and check that no data is lost or wrong
    #[command(after_help = firn_torture::EXAMPLES)]
    Torture(firn_torture::TortureArgs),
    /// Print completions for a shell
    #[command(after_help = install::completions_examples("firn"))]
    Completions(install::CompletionsArgs),
    /// Print or write manual pages
    #[command(after_help = install::man_examples("firn", "load"))]
    Man(install::ManArgs),
}

/// Name of the positional argument that [`command`] adds.
const STORE: &str = "store";

/// Returns the command line. Commands without arguments of their own also take the store as their
/// argument.
fn command() -> clap::Command {
    let command = firn_tools::help::wrapped(FirnCli::command());
    command.mut_subcommands(|sub| {
        if sub.has_subcommands() || sub.get_positionals().next().is_some() {
            return sub;
        }
        let store = Arg::new(STORE).value_name("DIR").value_parser(value_parser!(PathBuf));
        sub.arg(store.help("Directory of the store, instead of --db"))
    })
}

/// Returns the store that a command has as its argument.
fn store_argument(matches: &ArgMatches) -> Option<PathBuf> {
    let (_, matches) = matches.subcommand()?;
    matches.try_get_one(STORE).ok().flatten().cloned()
}

fn main() -> ExitCode {
    firn_tools::start::prepare();
    let built = command();
    let args = with_store_first(&built, std::env::args_os());
    let matches = built.get_matches_from(args);
    let mut cli =
        FirnCli::from_arg_matches(&matches).unwrap_or_else(|e| e.format(&mut command()).exit());
    cli.global.names_store = matches.value_source("db") == Some(ValueSource::CommandLine);
    if let Some(dir) = store_argument(&matches) {
        if cli.global.names_store {
            let twice = "the store is named twice: with --db and as the argument DIR";
            command().error(ClapErrorKind::ArgumentConflict, twice).exit();
        }
        (cli.global.store.db, cli.global.names_store) = (dir, true);
    }
    let global = &cli.global;
    let done = match &cli.command {
        FirnCommand::Load(args) => load::run(global, args),
        FirnCommand::Export(args) => json::export(global, args),
        FirnCommand::Import(args) => json::import(global, args),
        FirnCommand::Get(args) => read::get(global, args),
        FirnCommand::Scan(args) => read::scan(global, args),
        FirnCommand::Put(args) => edit::put(global, args),
        FirnCommand::Delete(args) => edit::delete(global, args),
        FirnCommand::Explain(args) => explain::run(global, args),
        FirnCommand::Stats(args) => inspect::stats(global, args),
        FirnCommand::Follow(args) => follow::run(global, args),
        FirnCommand::Replicate(args) => replication::replicate(global, args),
        FirnCommand::Promote(args) => replication::promote(global, args),
        FirnCommand::Console(args) => console::run(global, args),
        FirnCommand::Trees(args) => trees::trees(global, args),
        FirnCommand::SetOptions(args) => trees::set_options(global, args),
        FirnCommand::DropTree(args) => trees::drop_tree(global, args),
        FirnCommand::Advise(args) => advise::run(global, args),
        FirnCommand::Verify(args) => verify::run(global, args),
        FirnCommand::Check(args) => check::run(global, args),
        FirnCommand::Checkpoint(args) => whole::checkpoint(global, args),
        FirnCommand::Backup(args) => backup::run(global, args),
        FirnCommand::Compact(args) => whole::compact(global, args),
        FirnCommand::Upgrade(args) => whole::upgrade(global, args),
        FirnCommand::Cli(args) => cassandra_cli::run(global, args),
        FirnCommand::Cql(args) => cql::run(global, args),
        FirnCommand::Serve(args) => serve::run(global, args),
        #[cfg(feature = "cluster")]
        FirnCommand::Migrate(args) => migrate::run(global, args),
        #[cfg(not(feature = "cluster"))]
        FirnCommand::Migrate { .. } => Err(shell::connect::without_driver()),
        FirnCommand::Define(args) => define::run(global, args),
        FirnCommand::PurgeReport(args) => purge::run(global, args),
        FirnCommand::Demo(args) => demo::run(global, args),
        FirnCommand::Bench(args) => {
            let command = command();
            let bench = command.find_subcommand("bench").zip(matches.subcommand_matches("bench"));
            bench::run(
                global,
                args,
                &bench.map_or(vec![], |(bench, matches)| bench::given(bench, matches)),
            )
        }
        FirnCommand::Torture(args) => firn_torture::run(&global.store, args),
        FirnCommand::Completions(args) => install::completions(args, command(), &mut stdout()),
        FirnCommand::Man(args) => install::man(args, command(), &mut stdout()),
    };
    let done = done.map_err(|failure| match failure {
        Failure::Engine(e) => {
            let verify = format!("`{} verify`", global.firn());
            let next = advice(&e).map(|words| words.replace("`firn verify`", &verify));
            Failure::Failed { what: e.to_string(), next }
        }
        other => other,
    });
    output::finish(done, global.style(), |_| None)
}

/// Allows `firn DIR COMMAND` for `firn --db DIR COMMAND`.
fn with_store_first(
    command: &clap::Command,
    args: impl Iterator<Item = OsString>,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let is_command = |arg: Option<&OsString>| {
        arg.and_then(|a| a.to_str()).is_some_and(|a| command.find_subcommand(a).is_some())
    };
    let is_option = args.get(1).is_some_and(|a| a.as_encoded_bytes().starts_with(b"-"));
    if !is_option && !is_command(args.get(1)) && is_command(args.get(2)) {
        args.insert(1, "--db".into());
    }
    args
}

/// Returns advice for an error of the engine.
fn advice(e: &Error) -> Option<&'static str> {
    Some(match e.kind() {
        ErrorKind::Corruption => {
            "`firn verify` lists all damage with advice; it does not change the files"
        }
        ErrorKind::Locked => {
            "another program has the store open for writing: end it or wait. If it is `firn serve`, use `firn cql --connect ADDRESS`. Commands that only read work meanwhile, also `firn cql --read-only`"
        }
        ErrorKind::NotFound => {
            "check the directory: `firn --db DIR …` or `firn DIR …`; `firn put`, `firn load` and `firn cql` create a store"
        }
        ErrorKind::NoSpace => {
            "free some space and run the command again: data written before is safe"
        }
        ErrorKind::Incompatible => {
            "use the version of firn, and the hooks, that the store was written with"
        }
        ErrorKind::ReadOnly => {
            "look at the first error above, and at the device; then run the command again"
        }
        _ => return None,
    })
}
