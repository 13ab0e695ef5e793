//! `firn import --cassandra`: imports the files of a node's tables into tables of CQL, with all
//! timestamps, times to live and deletions. `export` is the reverse.
//!
//! Invariants:
//! - All files are opened, and their headers compared, before any table is defined.
//! - All tables are defined, and compared with the files, before any data is written.
//! - The import writes through the store's own mutations. So cells in several files, or already in
//!   the store, are merged by timestamp; the order of the files has no effect.
//! - A repeated import changes nothing. Counters are an exception, so they are only imported into
//!   empty tables.
//! - Each file is flushed into its own table files. So `purge-report` shows which files block the
//!   deletions of others.

mod counters;
mod define;
mod export;
mod rows;
mod source;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_cassandra::{NodeFolder, NodeTable, table_of_folder};
use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_tools::io::{self, Stopwatch};
use firn_tools::output::{self, Done, Failure, Progress, things};
use serde_json::json;

pub use export::{NodeExportArgs, NodeExportTarget, export};

use crate::store::Global;
use counters::CounterFiles;
use rows::{NodeTotals, NodeWriter};
use source::{NodeSource, trouble};

/// Maximum size of a file of statements, in bytes.
const MOST_SCHEMA: u64 = 16 << 20;

/// Arguments of `firn import` for a node's files.
#[derive(Args, Clone, Debug)]
pub struct NodeFileArgs {
    /// Import tables of Cassandra: folders of tables or snapshots, or single Data.db files
    #[arg(
        long,
        value_name = "PATH",
        num_args = 1..,
        conflicts_with_all = ["row", "timestamp"],
        help_heading = "Cassandra's files"
    )]
    pub cassandra: Vec<PathBuf>,
    /// Define the tables by this CQL: a snapshot's schema.cql, or output of DESCRIBE [default: from
    /// the files alone, with key, key2, …, column1, … as the names of key columns]
    #[arg(long, value_name = "FILE", requires = "cassandra", help_heading = "Cassandra's files")]
    schema: Option<PathBuf>,
}

/// Settings of an import.
pub struct NodeImport<'a> {
    /// Arguments on the command line.
    pub args: &'a NodeFileArgs,
    /// Target keyspace instead of the folder's.
    pub keyspace: Option<&'a str>,
    /// Target table instead of the folder's.
    pub table: Option<&'a str>,
    /// Cells per atomic write.
    pub chunk: usize,
    /// Durability of a chunk before the next is written.
    pub durability: firn_kv::Durability,
}

/// Returns the selected `Data.db` files, each once, in order.
fn data_files(paths: &[PathBuf]) -> Done<Vec<PathBuf>> {
    let mut all = vec![];
    for path in paths {
        if !io::is_dir(path) {
            all.push(path.clone());
            continue;
        }
        let names = io::list(path).map_err(|e| Failure::file("read", path, &e))?;
        let before = all.len();
        all.extend(names.iter().map(|n| path.join(n)).filter(|f| NodeFolder::is_data(f)));
        if all.len() == before {
            return Err(Failure::with_next(
                format!(
                    "{} has no tables of Cassandra, whose names end in -Data.db",
                    path.display()
                ),
                "name the folder of a table, KEYSPACE/TABLE-ID, or of one of its snapshots; `nodetool flush` or `nodetool snapshot` writes what is still in memory",
            ));
        }
    }
    // Sorts by the increasing numbers of files: 10 after 9.
    all.sort_by_key(|f| (f.parent().map(Path::to_path_buf), f.as_os_str().len(), f.clone()));
    all.dedup();
    Ok(all)
}

/// Groups the files by their target table.
fn sources(import: &NodeImport<'_>) -> Done<BTreeMap<(String, String), Vec<NodeSource>>> {
    let mut all: BTreeMap<_, Vec<NodeSource>> = BTreeMap::new();
    for file in data_files(&import.args.cassandra)? {
        // `KEYSPACE/TABLE-ID` may be parents of the current directory.
        let found = table_of_folder(&std::path::absolute(&file).unwrap_or_else(|_| file.clone()));
        let (keyspace, table) = found.unzip();
        let keyspace = import.keyspace.map(str::to_owned).or(keyspace);
        let table = import.table.map(str::to_owned).or(table);
        let Some(place) = keyspace.zip(table) else {
            return Err(Failure::with_next(
                format!("the folder of {} does not name a table", file.display()),
                "name it with --keyspace and --family",
            ));
        };
        let folder = NodeFolder::of(&file).map_err(|e| trouble(&e))?;
        let table = NodeTable::open(&folder).map_err(|e| trouble(&e))?;
        all.entry(place).or_default().push(NodeSource { folder, table });
    }
    Ok(all)
}

fn schema_text(file: &Path) -> Done<String> {
    use std::io::Read;
    let input = io::Input::open(file).map_err(|e| Failure::file("open", file, &e))?;
    let mut text = String::new();
    let read = input.take(MOST_SCHEMA).read_to_string(&mut text);
    read.map_err(|e| Failure::file("read", file, &e))?;
    Ok(text)
}

/// Runs `firn import --cassandra`.
pub fn import(global: &Global, import: &NodeImport<'_>) -> Done {
    let all = sources(import)?;
    let schema = import.args.schema.as_deref().map(schema_text).transpose()?;
    let plans = all.iter().map(|((keyspace, table), files)| {
        define::TablePlan::new(keyspace, table, files).map(|plan| (plan, files))
    });
    let plans = plans.collect::<Done<Vec<_>>>()?;
    let partitioner = partitioner(&plans)?;
    let session = global.model_as(partitioner, "the files")?;
    let watch = Stopwatch::start();
    let (keyspaces, with_schema) = (all.keys().map(|k| &*k.0), schema.is_some());
    define::keyspaces(&session, keyspaces)?;
    if let Some(text) = &schema {
        let file = import.args.schema.as_deref().unwrap_or(Path::new(""));
        define::run_schema(&session, file, text)?;
    }
    let tables = plans.iter().map(|(plan, _)| plan.table_in(&session, with_schema));
    let tables = tables.collect::<Done<Vec<_>>>()?;
    let mut done = vec![];
    for ((plan, files), table) in plans.iter().zip(&tables) {
        done.push((plan, files.len(), one(&session, import, plan, files, table)?));
    }
    session.engine().store().db().sync()?;
    let seconds = watch.seconds();
    if global.store.json {
        let tables = done.iter().map(|(plan, files, totals)| totals.json(plan, *files));
        let all = json!({"tables": tables.collect::<Vec<_>>(), "seconds": seconds});
        writeln!(io::stdout(), "{all}")?;
    }
    for (plan, files, totals) in &done {
        eprintln!(
            "imported {} of {} into {}.{}",
            totals.describe(),
            things(*files as u64, "file", "files"),
            plan.keyspace,
            plan.table
        );
        if totals.left_out > 0 {
            eprintln!(
                "{} {} of columns that the schema does not have left out",
                global.style().bold("note:"),
                things(totals.left_out, "cell", "cells")
            );
        }
    }
    let overflowed = done.iter().map(|d| d.2.overflowed).sum::<u64>();
    if overflowed > 0 {
        eprintln!(
            "{} {} with a time to live whose end overflowed at the node: they live until 7 February 2106, as Cassandra 5.0 reads them",
            global.style().bold("note:"),
            things(overflowed, "cell or row", "cells and rows")
        );
    }
    let cells = done.iter().map(|d| d.2.cells).sum::<u64>();
    let rate = output::rate(cells as f64 / seconds.max(1e-9));
    eprintln!("{seconds:.2} s, {rate} cells/s; `{} cql` reads them", global.firn());
    Ok(())
}

/// Returns the partitioner of all files.
fn partitioner(plans: &[(define::TablePlan, &Vec<NodeSource>)]) -> Done<String> {
    let mut names: Vec<&str> = plans.iter().map(|(plan, _)| &*plan.partitioner).collect();
    names.dedup();
    match names[..] {
        [one] => Ok(one.to_owned()),
        _ => Err(Failure::with_next(
            format!("these tables were written with several partitioners: {}", names.join(", ")),
            "import those of one cluster at a time, each into a store of its own",
        )),
    }
}

fn one(
    session: &Session,
    import: &NodeImport<'_>,
    plan: &define::TablePlan,
    files: &[NodeSource],
    table: &TableSchema,
) -> Done<NodeTotals> {
    let engine = session.engine();
    let family = engine.family(table).map_err(|e| Failure::new(e.to_string()))?;
    let open = |file: &NodeSource| file.table.read(&file.folder).map_err(|e| trouble(&e));
    let mut length = 0;
    for file in files {
        length += open(file)?.data_length();
    }
    let progress = Progress::bytes(&format!("import {}", plan.table), Some(length));
    let store = engine.store();
    let mut writer = NodeWriter::new(store, family, table, import.chunk, import.durability);
    if table.is_counter() {
        writer.check_empty(&plan.keyspace, &plan.table)?;
        let readers = files.iter().map(|file| Ok((file, open(file)?)));
        CounterFiles::new(readers.collect::<Done<_>>()?, &mut writer)?.run(&progress)?;
        return writer.finish();
    }
    let mut before = 0;
    for file in files {
        let mut reader = open(file)?;
        writer.file(file);
        while let Some(event) = reader.advance().map_err(|e| trouble(&e))? {
            writer.event(&event)?;
            if writer.has_flushed() {
                progress.at(before + reader.position());
                progress.say(writer.totals.describe());
            }
        }
        writer.end_of_file()?;
        before += reader.data_length();
    }
    writer.finish()
}
