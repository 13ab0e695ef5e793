//! `firn cql`: CQL against a store of this machine, as a shell or as a script.
//!
//! Invariants: a script stops at the first statement that fails unless told otherwise; rows go to
//! standard output page by page, why a statement failed to standard error, with its place.

mod cell;
mod command;
mod complete;
mod copy;
mod cut;
mod help;
mod shell;
mod show;

use clap::Args;
use firn_cql::{Session, quote_if_needed};
use firn_kv::DbOptions;
use firn_tools::output::{Done, Failure};

use crate::statements::{StatementOrigin, Statements};
use crate::store::{Global, empty};
use shell::{Shell, ShellOutcome};

pub const EXAMPLES: &str = "\
Statements end with ';', comments are //, -- and /* */. HELP lists what there is, HELP UPDATE explains one. Without -f and -e, statements come
from the terminal (with completion by tab, and a history), or from whatever is piped in. The shell has commands of its own: DESCRIBE, SOURCE,
COPY, EXPAND, PAGING, SHOW VERSION, CLEAR, CONSISTENCY, EXIT.

On a terminal, results are shown a screen at a time: by the program that $PAGER names, or with space, Enter and q. Rows that are
wider are cut, or shown as lists of their columns; EXPAND ON shows all of them. Ctrl-C stops a statement in the shell, and ends a
script (130). With --json every row is an object on a line of its own. The history is kept in $FIRN_HISTORY, else in
~/.firn_history.

Examples:
  firn --db shop cql                              a shell
  firn --db shop cql -f schema.cql                a script; it stops at the first statement that fails
  firn --db shop cql -k shop -e \"SELECT * FROM items;\"
  firn --db shop cql -k shop --json -e \"SELECT * FROM items;\" | jq .id
  firn --db shop cql -e \"COPY shop.items FROM 'items.csv' WITH HEADER = true\"";

/// What `firn cql` takes.
#[derive(Args, Clone, Debug)]
pub struct CqlArgs {
    #[command(flatten)]
    statements: Statements,
    /// In a script: go on after a statement that failed
    #[arg(long, alias = "go-on")]
    continue_on_error: bool,
    /// In a script: print each statement before its answer
    #[arg(long)]
    echo: bool,
}

/// The size of a log segment. Each open begins a new one: a few statements get a small one, what
/// may load much does not.
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
    let db = DbOptions { wal_segment: wal_segment(args), ..global.defaults() };
    let awaited = global.begins_empty()?.then(|| db.clone());
    let session = match awaited {
        None => global.model(db)?,
        Some(_) => Session::new(empty()?).map_err(|e| Failure::new(e.to_string()))?,
    };
    if let Some(name) = &args.statements.keyspace {
        let failed = |e: firn_cql::Error| {
            if awaited.is_some() {
                global.tell_empty();
            }
            Failure::with_next(
                e.to_string(),
                "`DESCRIBE KEYSPACES` lists them, `CREATE KEYSPACE` makes one",
            )
        };
        session.execute(&format!("USE {}", quote_if_needed(name)), ()).map_err(failed)?;
    }
    let shell = |typed: bool| {
        Shell::new(session, global, awaited, typed, args.continue_on_error, args.echo)
    };
    let (name, input) = match args.statements.origin()? {
        StatementOrigin::Terminal => return shell(true).converse(),
        StatementOrigin::Text(name, input) => (name, input),
    };
    let mut shell = shell(false);
    match shell.script(&name.display().to_string(), input)? {
        ShellOutcome::Failed => Err(Failure::Found),
        _ if shell.has_failed() => Err(Failure::Found),
        _ => Ok(()),
    }
}
