//! `firn export --cassandra`: writes tables of CQL as SSTable files of Cassandra, with all
//! timestamps, times to live and deletions.
//!
//! Invariants:
//! - All tables are exported from one snapshot.
//! - The target directory does not exist until all files are written and synced. They are written
//!   to a temporary directory, which is renamed at the end.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use firn_cassandra::{NodeEvent, NodeFolder, NodeHeader, NodeTableWriter, WriteOptions};
use firn_cql::Session;
use firn_cql::internals::catalog::TableSchema;
use firn_cql::quote_if_needed;
use firn_table_events::{ExportTotals, ExportedTable, LeastFound, cql_trouble};
use firn_tools::io::{self, Stopwatch};
use firn_tools::options;
use firn_tools::output::{self, Done, Failure, Progress, things};
use firn_tools::shell;
use firn_wide::internals::ring::murmur3;
use firn_wide::internals::store::Partitions;
use serde_json::json;

use super::source::trouble;
use crate::store::Global;

/// File of the statements that define the exported tables.
const SCHEMA: &str = "schema.cql";
/// Maximum number of partitions of a file; the hashes of their keys are in memory until it is
/// complete.
const MOST_PARTITIONS: u64 = 4 << 20;
/// Progress interval, in partitions.
const TOLD: u64 = 256;

/// Versions of the files that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NodeVersion {
    /// Version of Cassandra 4.0 to 5.0
    Nb,
}

/// Parses the size of files: 1 MiB to 1 TiB.
fn max_size(text: &str) -> Result<u64, String> {
    let size = options::size(text)?;
    let is_allowed = (1 << 20..=1 << 40).contains(&size);
    is_allowed.then_some(size).ok_or_else(|| format!("{text} is not between 1m and 1t"))
}

/// Arguments of `firn export` for Cassandra's files.
#[derive(Args, Clone, Debug)]
pub struct NodeExportArgs {
    /// Write the tables of CQL as files of Apache Cassandra, of this version, into DIR
    #[arg(
        long,
        value_name = "VERSION",
        value_enum,
        requires = "file",
        conflicts_with_all = ["family", "notation", "raw_times"],
        help_heading = "Cassandra's files"
    )]
    pub cassandra: Option<NodeVersion>,
    /// Export only these tables: TABLE with --keyspace, or KEYSPACE.TABLE [default: all]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "cassandra",
        help_heading = "Cassandra's files"
    )]
    tables: Vec<String>,
    /// Start a new file after the partition with which the content reaches this size
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1g",
        value_parser = max_size,
        requires = "cassandra",
        help_heading = "Cassandra's files"
    )]
    max_size: u64,
}

/// Settings of an export that other exports have too.
#[derive(Clone, Copy, Debug)]
pub struct NodeExportTarget<'a> {
    /// Directory to create, with KEYSPACE/TABLE-ID and schema.cql.
    pub into: &'a Path,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Whether the files are compressed with LZ4, in chunks of 16 KiB.
    pub compressed: bool,
}

/// Result of the export of a table.
struct DoneTable {
    schema: Arc<TableSchema>,
    folder: PathBuf,
    files: u64,
    totals: ExportTotals,
}

/// Tables that are not exported.
#[derive(Default)]
struct OmittedTables {
    /// Number of views. A node fills them from their tables.
    views: u64,
    /// Compact tables, and families of the older interface.
    compact: Vec<String>,
}

fn full_name(table: &TableSchema) -> String {
    format!("{}.{}", quote_if_needed(&table.keyspace), quote_if_needed(&table.name))
}

/// Reports whether the rows of the table have the CQL layout, without compact storage or families.
fn is_plain(table: &TableSchema) -> bool {
    table.form().is_none() && !table.is_compact() && table.family().is_none()
}

/// Returns the selected tables, in order.
fn chosen(
    session: &Session,
    keyspace: Option<&str>,
    args: &NodeExportArgs,
) -> Done<(Vec<Arc<TableSchema>>, OmittedTables)> {
    let catalog = session.engine().fresh_catalog().map_err(|e| cql_trouble(&e))?;
    let names = catalog.keyspaces().map(|k| &*k.name).collect::<Vec<_>>().join(", ");
    if let Some(missing) = keyspace.filter(|k| catalog.keyspace(k).is_none()) {
        let what = format!("there is no keyspace {missing:?}");
        return Err(Failure::with_next(what, format!("the store has {names}")));
    }
    let mut left = OmittedTables::default();
    let mut all: Vec<Arc<TableSchema>> = vec![];
    if args.tables.is_empty() {
        let of = catalog.keyspaces().filter(|k| keyspace.is_none_or(|name| *k.name == *name));
        for table in of.flat_map(|k| k.tables()) {
            match (table.view().is_some(), is_plain(table)) {
                (true, _) => left.views += 1,
                (false, true) => all.push(table.clone()),
                (false, false) => left.compact.push(full_name(table)),
            }
        }
    }
    for name in &args.tables {
        let split = name.split_once('.').or_else(|| Some((keyspace?, name)));
        let Some((keyspace, table)) = split else {
            let what = format!("the keyspace of the table {name:?} is not known");
            return Err(Failure::with_next(what, "name KEYSPACE.TABLE, or give --keyspace"));
        };
        let found = catalog.keyspace(keyspace).and_then(|k| k.table(table));
        let Some(found) = found.filter(|t| t.view().is_none() && is_plain(t)) else {
            let what = format!("there is no table {keyspace}.{table} that can be exported");
            let next = "views, compact tables and column families can't be; `firn cql -e \"DESCRIBE TABLES\"` lists tables";
            return Err(Failure::with_next(what, next));
        };
        all.push(found.clone());
    }
    all.sort_by_key(|t| (t.keyspace.clone(), t.name.clone()));
    all.dedup_by_key(|t| t.id);
    if all.is_empty() {
        let next = "`firn cql -e \"DESCRIBE TABLES\"` lists tables";
        return Err(Failure::with_next("there are no tables to export", next));
    }
    Ok((all, left))
}

/// Returns the statements that create keyspaces, types, tables, indexes and views.
fn schema_text(session: &Session, tables: &[Arc<TableSchema>]) -> Done<String> {
    let mut out = String::new();
    let mut add = |statement: String, kinds: &[&str]| -> Done {
        let rows = session.execute(&statement, ()).map_err(|e| cql_trouble(&e))?;
        let rows: Vec<(String, String, String, String)> =
            rows.typed().map_err(|e| cql_trouble(&e))?;
        for (_, kind, _, text) in rows {
            if kinds.contains(&&*kind) {
                out.push_str(&text);
                out.push_str("\n\n");
            }
        }
        Ok(())
    };
    let mut keyspaces: Vec<&str> = tables.iter().map(|t| &*t.keyspace).collect();
    keyspaces.dedup();
    for keyspace in keyspaces {
        let describe = format!("DESCRIBE KEYSPACE {}", quote_if_needed(keyspace));
        add(describe, &["keyspace", "type"])?;
    }
    for table in tables {
        let describe = format!("DESCRIBE TABLE {} WITH INTERNALS", full_name(table));
        add(describe, &["table", "index", "materialized_view"])?;
    }
    Ok(out)
}

/// Returns the temporary directory of an export.
fn unfinished(into: &Path) -> PathBuf {
    let mut name: OsString = into.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    into.with_file_name(name)
}

/// Fails if the target or the temporary directory exists and is not empty.
fn check_place(into: &Path, stage: &Path) -> Done {
    if into.file_name().is_none() {
        return Err(Failure::new(format!("{} is no name of a directory", into.display())));
    }
    let is_new = match io::is_dir(into) {
        true => io::list(into).map_err(|e| Failure::file("read", into, &e))?.is_empty(),
        false => !io::is_taken(into),
    };
    if !is_new {
        let what = format!("{} is there already", into.display());
        return Err(Failure::with_next(what, "name a directory that is new or empty"));
    }
    if io::is_taken(stage) {
        let what = format!("{} exists, left by an interrupted export", stage.display());
        return Err(Failure::with_next(what, "remove it: its files are incomplete"));
    }
    Ok(())
}

/// Runs `firn export --cassandra`.
pub fn export(
    global: &Global,
    keyspace: Option<&str>,
    args: &NodeExportArgs,
    target: NodeExportTarget<'_>,
) -> Done {
    let into = target.into;
    let stage = unfinished(into);
    check_place(into, &stage)?;
    global.check_model()?;
    let session = global.model(global.to_read())?;
    let (tables, left) = chosen(&session, keyspace, args)?;
    let watch = Stopwatch::start();
    let export = TableExport { session: &session, args, target, stage: &stage };
    let mut done = vec![];
    let all = export.all(&tables, &mut done).and_then(|()| match target.dry_run {
        true => Ok(()),
        false => io::put_in_place(&stage, into).map_err(|e| Failure::file("make", into, &e)),
    });
    if all.is_err() {
        // An incomplete export is useless. If the removal fails, the next export reports the
        // directory.
        io::remove_tree(&stage).ok();
    }
    all?;
    print_result(global, target, &done, &left, watch.seconds())
}

fn print_result(
    global: &Global,
    target: NodeExportTarget<'_>,
    done: &[DoneTable],
    left: &OmittedTables,
    seconds: f64,
) -> Done {
    let NodeExportTarget { into, dry_run, .. } = target;
    if global.store.json {
        let table = |t: &DoneTable| {
            let mut entry = t.totals.json();
            entry["keyspace"] = (*t.schema.keyspace).into();
            entry["table"] = (*t.schema.name).into();
            entry["files"] = t.files.into();
            entry["folder"] = into.join(&t.folder).display().to_string().into();
            entry
        };
        let all = json!({
            "dir": into.display().to_string(), "written": !dry_run, "tables": done.iter().map(table).collect::<Vec<_>>(),
            "views_left_to_the_node": left.views, "tables_left_out": left.compact, "seconds": seconds,
        });
        writeln!(io::stdout(), "{all}")?;
    }
    let note = |words: String| eprintln!("{} {words}", global.style().bold("note:"));
    for t in done {
        let name = full_name(&t.schema);
        match dry_run {
            true => eprintln!("{name} has {}", t.totals.told()),
            false => eprintln!(
                "exported {} of {name} into {}",
                t.totals.told(),
                things(t.files, "file", "files")
            ),
        }
        t.totals.losses().into_iter().for_each(|loss| note(format!("{name}: {loss}")));
        if t.schema.is_counter() && t.totals.cells > 0 {
            note(format!("{name}: load counters only into a table that does not have them yet"));
        }
    }
    if left.views > 0 {
        let views = things(left.views, "view", "views");
        note(format!("{views} left to the node, which fills views from their tables"));
    }
    if !left.compact.is_empty() {
        let count = left.compact.len() as u64;
        let tables = things(count, "compact table or family", "compact tables and families");
        note(format!("{tables} left out: {}", left.compact.join(", ")));
    }
    let cells = done.iter().map(|t| t.totals.cells).sum::<u64>();
    let rate = output::rate(cells as f64 / seconds.max(1e-9));
    match (dry_run, done.iter().find(|t| t.files > 0)) {
        (false, Some(first)) => eprintln!(
            "{seconds:.2} s, {rate} cells/s; run {} on the cluster, then `sstableloader -d HOST {}` for each table",
            shell::path(&into.join(SCHEMA)),
            shell::path(&into.join(&first.folder))
        ),
        _ => eprintln!("{seconds:.2} s, {rate} cells/s"),
    }
    Ok(())
}

/// Exports tables one after the other.
struct TableExport<'a> {
    session: &'a Session,
    args: &'a NodeExportArgs,
    target: NodeExportTarget<'a>,
    stage: &'a Path,
}

impl TableExport<'_> {
    fn all(&self, tables: &[Arc<TableSchema>], done: &mut Vec<DoneTable>) -> Done {
        let engine = self.session.engine();
        let view = engine.store().view();
        let owner = engine.host_id().into_bytes();
        if !self.target.dry_run {
            io::make_dirs(self.stage).map_err(|e| Failure::file("make", self.stage, &e))?;
            let file = self.stage.join(SCHEMA);
            io::write(&file, schema_text(self.session, tables)?.as_bytes())
                .map_err(|e| Failure::file("write", &file, &e))?;
        }
        for schema in tables {
            let family = engine.family(schema).map_err(|e| cql_trouble(&e))?;
            let partitioner = engine.partitioner();
            let table =
                ExportedTable::new(schema.clone(), family, view.clone(), partitioner, owner)?;
            let folder = Path::new(&schema.keyspace).join(format!(
                "{}-{}",
                schema.name,
                schema.uuid.simple()
            ));
            let (files, totals) = self.one(schema, &table, &self.stage.join(&folder))?;
            done.push(DoneTable { schema: schema.clone(), folder, files, totals });
        }
        Ok(())
    }

    /// Exports a table, and returns its number of files. Times are encoded relative to their
    /// minima, so a first pass finds these.
    fn one(
        &self,
        schema: &TableSchema,
        table: &ExportedTable,
        folder: &Path,
    ) -> Done<(u64, ExportTotals)> {
        let mut least = LeastFound::default();
        let progress = Progress::operations(&format!("look at {}", schema.name), None);
        let mut partitions = 0_u64;
        let totals = table.each(&Partitions::all(), &mut |event| {
            least.event(event);
            if let NodeEvent::Partition(_) = event {
                partitions += 1;
                if partitions.is_multiple_of(TOLD) {
                    progress.say(things(partitions, "partition", "partitions"));
                }
            }
            Ok(())
        })?;
        drop(progress);
        if self.target.dry_run || partitions == 0 {
            return Ok((0, totals));
        }
        io::make_dirs(folder).map_err(|e| Failure::file("make", folder, &e))?;
        let progress = Progress::operations(&format!("export {}", schema.name), Some(partitions));
        let header = table.header(least.times());
        let number = |name: &str| schema.options.value(name).and_then(|v| v.parse::<f64>().ok());
        let options = WriteOptions {
            compressed: self.target.compressed,
            filter_chance: number("bloom_filter_fp_chance").filter(|c| *c > 0.0).unwrap_or(0.01),
            index_interval: number("min_index_interval").unwrap_or(128.0) as u32,
            hash: murmur3,
        };
        let most = self.args.max_size;
        let mut files = NodeFileSequence { folder, header, options, most, number: 0, open: None };
        let mut written = 0_u64;
        let again = table.each(&Partitions::all(), &mut |event| {
            files.event(event)?;
            if let NodeEvent::Partition(_) = event {
                written += 1;
                if written.is_multiple_of(TOLD) {
                    progress.at(written);
                }
            }
            Ok(())
        })?;
        files.end()?;
        debug_assert_eq!(again.cells, totals.cells, "both passes read one snapshot");
        Ok((files.number, totals))
    }
}

/// Sequence of a table's files; each ends at a maximum size.
struct NodeFileSequence<'a> {
    folder: &'a Path,
    header: NodeHeader,
    options: WriteOptions,
    /// Maximum content of a file, in bytes.
    most: u64,
    /// Number of the last file.
    number: u64,
    open: Option<NodeTableWriter<NodeFolder>>,
}

impl NodeFileSequence<'_> {
    fn event(&mut self, event: &NodeEvent) -> Done {
        let is_full = |w: &NodeTableWriter<NodeFolder>| {
            w.content_length() >= self.most || w.partitions() >= MOST_PARTITIONS
        };
        if matches!(event, NodeEvent::Partition(_)) && self.open.as_ref().is_some_and(is_full) {
            self.end()?;
        }
        if self.open.is_none() {
            self.number += 1;
            let files = NodeFolder::numbered(self.folder, self.number);
            let writer = NodeTableWriter::create(files, self.header.clone(), self.options);
            self.open = Some(writer.map_err(|e| trouble(&e))?);
        }
        self.open.as_mut().map_or(Ok(()), |w| w.event(event).map_err(|e| trouble(&e)))
    }

    fn end(&mut self) -> Done {
        self.open.take().map_or(Ok(()), |w| w.finish().map_err(|e| trouble(&e)))
    }
}
