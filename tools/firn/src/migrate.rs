//! `firn migrate`: tables of CQL to a cluster of Apache Cassandra or ScyllaDB.
//!
//! Invariant: definitions are shown before anything is made or sent.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use firn_cluster::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_migrate::definitions::{self, DefinitionPhase};
use firn_tools::io::stdout;
use firn_tools::output::{Done, Failure};

use crate::connect::{cluster_url, not_connected};
use crate::store::Global;

pub const EXAMPLES: &str = "\
Examples:
  firn --db shop migrate --to cassandra://10.0.0.1,10.0.0.2 --dry-run
  firn --db shop migrate --to cassandra://10.0.0.1,10.0.0.2 --replication 3
  firn --db shop migrate --to cassandra://10.0.0.1 --tables shop.items,shop.orders";

/// What `firn migrate` takes.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// The cluster that takes the tables
    #[arg(long, value_name = "URL")]
    to: String,
    /// Log in as this role; its password is asked for, or read from --password-file or $FIRN_PASSWORD
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// The file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Tables: KEYSPACE.TABLE, or KEYSPACE for all of its tables [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tables: Vec<String>,
    /// Replication of keyspaces that are made: a number of replicas in each data centre, or a map of CQL [default: as the store has it]
    #[arg(long, value_name = "N|MAP")]
    replication: Option<String>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Whether its rows are those of a table without a history before CQL.
fn is_plain(table: &TableSchema) -> bool {
    table.form().is_none() && !table.is_compact() && table.family().is_none()
}

/// The tables that are meant, in order.
fn chosen(session: &firn_cql::Session, names: &[String]) -> Done<Vec<(String, String)>> {
    let catalog = session.engine().fresh_catalog().map_err(|e| firn_migrate::failed(&e))?;
    let mut all: Vec<(String, String)> = vec![];
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
        if is_wanted && table.view().is_none() && is_plain(table) {
            all.push((table.keyspace.to_string(), table.name.to_string()));
        }
    }
    all.sort();
    Ok(all)
}

/// Runs `firn migrate`.
pub fn run(global: &Global, args: &MigrateArgs) -> Done {
    let url = cluster_url(&args.to, args.user.as_deref(), args.password_file.as_deref())?;
    let replication = args.replication.as_deref().map(definitions::replication).transpose()?;
    global.check_model()?;
    let session = global.model(global.to_read())?;
    let tables = chosen(&session, &args.tables)?;
    let source = Session::from(session);
    let all = definitions::definitions(&source, &tables, replication.as_deref())?;
    for definition in &all {
        let mark = if definition.phase == DefinitionPhase::Never { "-- not carried: " } else { "" };
        writeln!(stdout(), "{mark}{}\n", definition.text)?;
    }
    if args.dry_run {
        return Ok(());
    }
    let target = Session::connect_to(url).map_err(|e| not_connected(&e))?;
    for phase in [DefinitionPhase::Before, DefinitionPhase::After] {
        all.iter()
            .filter(|d| d.phase == phase)
            .try_for_each(|d| definitions::define(&target, d))?;
    }
    tables.iter().try_for_each(|(k, t)| definitions::check_columns(&source, &target, k, t))
}
