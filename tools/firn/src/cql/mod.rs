//! `firn cql`: CQL against a local store, a server or a cluster, as a shell or as a script.
//!
//! Invariants:
//! - A script continues after a failed statement, except with `--stop-on-error`. Its exit code is
//!   then 1.
//! - Rows go to standard output page by page. Errors go to standard error, with the position of the
//!   statement.

mod backend;
mod cell;
#[cfg(feature = "cluster")]
mod cluster;
mod command;
mod command_words;
mod complete;
mod copy;
mod help;
mod local;
mod logged;
mod other_shells;
mod refusal;
mod remote;
mod schema;
mod shell;
mod show;
mod splitter;
mod tally;
mod trace;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use firn_cql::{StatementLog, quote_if_needed};
use firn_kv::DbOptions;
use firn_tools::output::{Done, Failure};

use crate::shell::connect::{ConnectArgs, ConnectTarget};
use crate::shell::statements::{StatementOrigin, Statements};
use crate::store::Global;
use backend::{PageRequest, ShellBackend, ShellRefusal};
use local::LocalBackend;
use logged::LoggedBackend;
use remote::RemoteBackend;
use shell::{Shell, ShellOutcome};

pub const EXAMPLES: &str = "\
Statements end with ';', comments are //, -- and /* */. HELP lists the topics, HELP UPDATE explains one. Without -f and -e, statements
come from the terminal (with completion by tab, and a history) or from a pipe. The shell has its own commands: DESCRIBE, SOURCE, COPY,
CAPTURE, EXPAND, PAGING, SHOW, LOGIN, CLEAR, CONSISTENCY, TRACING, ELAPSED, EXIT.

With --connect the statements go to a server: Firn, or Cassandra 3.0 and newer. The password of --user is asked for, or read from
--password-file or from $FIRN_PASSWORD. After a lost connection, the next statement reconnects. A URL names a cluster:
cassandra://[USER@]HOST[:PORT][,HOST…][/KEYSPACE][?OPTION=VALUE&…], with the options consistency, serial_consistency, request_timeout,
connect_timeout, compression, page_size and datacenter. Statements go to any available node. The URL must not contain a password.

On a terminal, results are shown a screen at a time: by the program in $PAGER, or with space, Enter and q. Wider rows are cut, or shown
as lists of their columns; EXPAND ON shows all values. Ctrl-C stops a statement in the shell, and ends a script (130). A store that
cannot be written (on a read-only file system, with files of another user, with a damaged table, a replica) is opened for reading, with a
notice.
With --json every row is a JSON object on its own line. The history is in $FIRN_HISTORY, else in ~/.firn_history, without statements that
contain a password.

Examples:
  firn --db shop cql                              a shell
  firn --db shop cql -f schema.cql                a script; it continues after failed statements, and then exits with 1
  firn --db shop cql -f schema.cql --stop-on-error
  firn --db shop cql -k shop -e \"SELECT * FROM items;\"
  firn --db shop cql -k shop --json -e \"SELECT * FROM items;\" | jq .id
  firn --db shop cql -f report.cql --log report.statements
  firn --db shop cql -e \"COPY shop.items FROM 'items.csv' WITH HEADER = true\"
  firn cql --connect localhost                    a shell on a server at port 9042
  firn cql --connect db.example:9142 --user ann --password-file secret.txt -f report.cql --json
  firn cql --connect 'cassandra://ann@10.0.0.1,10.0.0.2/shop?consistency=QUORUM'";

/// Arguments of `firn cql`.
#[derive(Args, Clone, Debug)]
pub struct CqlArgs {
    #[command(flatten)]
    statements: Statements,
    #[command(flatten)]
    connect: ConnectArgs,
    /// End a script at the first failed statement
    #[arg(long)]
    stop_on_error: bool,
    /// Open the store for reading only: without its lock and without writing; a writer may have it
    /// open
    #[arg(long)]
    read_only: bool,
    /// Print each statement of a script before its answer
    #[arg(long)]
    echo: bool,
    /// Log every executed statement to this file, with its time and the sizes of its values (see
    /// `firn check --help`)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Returns the size of log segments. Each open begins a new segment: small for a few statements,
/// large for commands that may load many rows.
fn wal_segment(args: &CqlArgs) -> u64 {
    let loads = |text: &str| {
        text.split_whitespace()
            .any(|w| w.eq_ignore_ascii_case("copy") || w.eq_ignore_ascii_case("source"))
    };
    if args.statements.execute.as_deref().is_some_and(|text| !loads(text)) {
        1 << 20
    } else {
        16 << 20
    }
}

/// Runs `firn cql`.
pub fn run(global: &Global, args: &CqlArgs) -> Done {
    match args.connect.target(global, remote::PORT)? {
        None => {
            let db = DbOptions {
                wal_segment: wal_segment(args),
                read_only: args.read_only,
                create: !args.read_only,
                ..global.defaults()
            };
            with(global, args, LocalBackend::open(global, db)?, None)
        }
        #[cfg(feature = "cluster")]
        Some(ConnectTarget::Cluster(url)) => {
            let mut backend = cluster::ClusterBackend::connect(url)?;
            let version = backend.version().map_err(refused)?;
            let greeting = format!("{version} at {}", backend.address());
            with(global, args, backend, Some(greeting))
        }
        Some(ConnectTarget::Server(options)) => {
            let mut backend = RemoteBackend::connect(options, global.style())?;
            let version = backend.version().map_err(refused)?;
            let greeting = format!("{version} at {}", backend.address());
            with(global, args, backend, Some(greeting))
        }
    }
}

/// Converts the error of a statement of the command itself.
fn refused(e: ShellRefusal) -> Failure {
    match e {
        ShellRefusal::Fatal(failure) => failure,
        other => Failure::new(other.text()),
    }
}

fn with<B: ShellBackend>(
    global: &Global,
    args: &CqlArgs,
    backend: B,
    greeting: Option<String>,
) -> Done {
    let failed = |e: firn_cql::Error| Failure::new(e.to_string());
    let log = args.log.as_ref().map(StatementLog::append).transpose().map_err(failed)?;
    let log = log.map(Arc::new);
    let done = run_with(global, args, LoggedBackend { backend, log: log.clone() }, greeting);
    // An error of the shell takes precedence over an error of its log.
    done.and(log.map_or(Ok(()), |log| log.flush().map_err(failed)))
}

fn run_with<B: ShellBackend>(
    global: &Global,
    args: &CqlArgs,
    mut backend: B,
    greeting: Option<String>,
) -> Done {
    if let Some(name) = &args.statements.keyspace {
        let statement = format!("USE {}", quote_if_needed(name));
        let next = "`DESCRIBE KEYSPACES` lists them, `CREATE KEYSPACE` makes one";
        backend.execute(&statement, &PageRequest::default()).map_err(|e| match e {
            ShellRefusal::Refused { .. } => Failure::with_next(e.text(), next),
            other => refused(other),
        })?;
    }
    let shell = |typed: bool| Shell::new(backend, global, typed, !args.stop_on_error, args.echo);
    let (name, input) = match args.statements.origin()? {
        StatementOrigin::Terminal => {
            greeting.iter().for_each(|greeting| println!("{greeting}"));
            return shell(true).converse();
        }
        StatementOrigin::Text(name, input) => (name, input),
    };
    let mut shell = shell(false);
    let outcome = shell.script(&name.display().to_string(), input)?;
    let tally = shell.tally();
    tally.report(global.store.json, global.style());
    if outcome == ShellOutcome::Failed || tally.has_failed() {
        return Err(Failure::Found);
    }
    Ok(())
}
