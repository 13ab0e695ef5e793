//! Commands for keyspaces and column families: `firn export`, `firn import`, and `firn load
//! --family`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firn_cql::Session;
use firn_table_events::model_trouble;
use firn_wide::{ColumnFamily, Keyspace, Wide};
use firn_wide_text::json::{self, ImportOptions, Notation, Times};
use serde_json::json;

use crate::cassandra::{self, NodeExportArgs, NodeExportTarget, NodeFileArgs, NodeImport};
use crate::families::model::{counted, open, open_to_write};
use crate::store::Global;
use crate::transfer::{self, ExportTarget, RowExportArgs, RowImportArgs};
use firn_tools::io::{self, Input, Stopwatch};
use firn_tools::options::Durable;
use firn_tools::output::{self, Done, Failure, Progress};
use firn_transfer::export::ExportCompression;

pub const EXPORT_EXAMPLES: &str = "\
With --tree, --table or --query it writes rows to FILE: Parquet, Arrow IPC, CSV, TSV or JSON lines, by the end of its name or --format.
Values have the types of the format that correspond to CQL's; docs/transfer.md lists them. FILE gets its name when it is complete.

  firn export --table shop.orders orders.parquet
  firn export --table shop.orders orders.csv --columns id,total --limit 1000
  firn export --query \"SELECT id, total FROM shop.orders WHERE id = 7\" - --format jsonl
  firn export --tree default pairs.parquet --key-as utf8 --value-as utf8
  firn export --table shop.orders orders.parquet --dry-run     counts the rows, and prints the columns

Without these it prints column families as JSON.

Notations:
  full         names, values and timestamps, times to live, tombstones and deletions: `firn import` restores the same family
  short        names and values of live columns
  sstabledump  the format of Cassandra's sstabledump (one family)
Texts are unchanged, other types have the notation of CQL; bytes that are not text are 0x and hexadecimal digits. All families are
exported from one snapshot.

Examples:
  firn export --keyspace Music > music.json
  firn cli -e \"show schema Music;\" > music.txt      the definitions: run `firn --db copy cli -f music.txt`, then import
  firn export --keyspace Music --family users --notation short
  firn export --keyspace Music --family likes --notation sstabledump --raw-times

With --cassandra it writes the tables of CQL as SSTable files of Apache Cassandra 4.0 to 5.0, for `sstableloader` and `nodetool import`:
every cell with its timestamp and time to live, every remaining deletion with its time, counters as sums. DIR gets a folder
KEYSPACE/TABLE-ID for each table, and the definitions in schema.cql. It is created when all files are complete; an interrupted export
leaves DIR.unfinished. Data without a place in the files is reported with its amount. Everything is read twice: first for the minimum
times, to which the encoding of other times is relative.

  firn export --cassandra nb way-out
  firn export --cassandra nb way-out --tables shop.orders,shop.items --max-size 160m
  firn export --cassandra nb way-out --keyspace shop --dry-run
  cqlsh -f way-out/schema.cql && sstableloader -d HOST way-out/shop/orders-*/      each table; or copy it into the node's data folder";

pub const IMPORT_EXAMPLES: &str = "\
With --tree or --table it reads rows of FILE: Parquet, Arrow IPC, CSV, TSV, JSON lines, a SQLite database, or a directory of LevelDB, LMDB
or RocksDB. Columns of a table are found by name, and values are converted if their type has an equal one. The position is stored in the
same batch as the rows: after a kill, the same command with --resume continues without losing or doubling a row.

  firn import orders.parquet --table shop.orders                          into an existing table
  firn import orders.parquet --table shop.orders --create --key id        the table is created with the file's columns
  firn import app.sqlite --table shop.users --part users --create --key id
  firn import leveldb-dir --tree pairs
  firn import events.jsonl --table log.events --create --key '(day,host),at' --type day=date
  firn import orders.parquet --table shop.orders --resume                 after an interruption
  firn import orders.csv --table shop.orders --dry-run                    checks every row, and writes nothing

Without these it imports column families from JSON. It reads the full and short notations of `firn export`, also mixed, and hand-written forms: quotes may be missing, extra commas are ignored,
= is a colon, // and /* */ are comments. Columns without a timestamp get the current time. A column is
{name: …, value: …, timestamp: …, ttl: …} or just a value, and a row may be a list of the former: [ {name: …}, … ]. A column that the
family refuses is an error with its line; chunks before it are imported. The keyspace and its families must exist; counters add to their
current values.

Examples:
  firn import --keyspace Music music.json
  firn export --keyspace Music --family users | firn --db copy import --keyspace Music -
  firn import --keyspace Music --family users2 users.json         into another family
  echo 'users: {ann: {email: ann@example.com}}' | firn import --keyspace Music -
  echo '{name: 123, value: hello}, {name: 3, value: there}' | firn import --keyspace Music --family numbers --row r -

With --cassandra it reads the tables of a node of Apache Cassandra 3.0 to 5.0, or of ScyllaDB (versions ma to me, na, nb, oa, da): every
cell with its timestamp and time to live, every deletion with its time. Several files, and existing data of the table, are merged as on a
node. The folder names keyspace and table, and the files contain the types. Only the names of key columns are not in the files, so pass a
snapshot's schema.cql if possible. Counters go into an empty table, all files at once; deletions of counters are applied and then
discarded.

  firn --db here import --cassandra data/shop/orders-*/ --schema data/shop/orders-*/snapshots/before/schema.cql
  firn --db here import --cassandra nb-1-big-Data.db nb-2-big-Data.db --keyspace shop --family orders
  firn --db here purge-report --keyspace shop";

/// Arguments of `firn export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// Write this file, or directory with --cassandra; - is standard output
    #[arg(value_name = "FILE|DIR")]
    file: Option<PathBuf>,
    /// Export this keyspace [default with --cassandra: all]
    #[arg(long, value_name = "NAME", required_unless_present_any = ["cassandra", "tree", "table", "query"])]
    keyspace: Option<String>,
    /// Export this family; may be repeated [default: all of the keyspace's]
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// Select the notation of the output
    #[arg(long, value_enum, default_value = "full")]
    notation: WideShape,
    /// Print times as numbers instead of dates, in the notation sstabledump
    #[arg(long)]
    raw_times: bool,
    /// Select the compression of Parquet (default zstd), Arrow (none) and Cassandra's files (lz4)
    #[arg(long, value_enum)]
    compression: Option<ExportCompression>,
    /// Read all data and print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    rows: RowExportArgs,
    #[command(flatten)]
    cassandra: NodeExportArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WideShape {
    /// Everything
    Full,
    /// Names and values
    Short,
    /// As sstabledump prints tables
    Sstabledump,
}

/// Arguments of `firn import`.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// Import this file, or directory of another store; - is standard input
    #[arg(
        value_name = "FILE",
        required_unless_present = "cassandra",
        conflicts_with = "cassandra"
    )]
    file: Option<PathBuf>,
    /// Import into this keyspace [default with --cassandra: the folder's]
    #[arg(long, value_name = "NAME", required_unless_present_any = ["cassandra", "tree", "table"])]
    keyspace: Option<String>,
    /// Import into this family or table, whatever its name in the document or folder
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Read the file as columns, or super columns, of this row of --family
    #[arg(long, value_name = "KEY", requires = "family")]
    row: Option<String>,
    /// Set the timestamp of columns without one, in microseconds [default: now]
    #[arg(long, value_name = "MICROS", allow_negative_numbers = true)]
    timestamp: Option<i64>,
    /// Write this many columns or rows atomically at once
    #[arg(long, value_name = "COLUMNS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    chunk: u32,
    /// Select the durability of each chunk before the next: in the operating system, or on the
    /// device
    #[arg(long, value_enum, default_value = "process")]
    durability: Durable,
    #[command(flatten)]
    rows: RowImportArgs,
    #[command(flatten)]
    cassandra: NodeFileArgs,
}

/// Reports whether an import into the family `only`, or into any family, may add to counters.
fn may_count(keyspace: &Keyspace, only: Option<&str>) -> bool {
    let schema = keyspace.wide().schema();
    schema.keyspace(keyspace.name()).is_ok_and(|k| {
        k.families().any(|f| f.is_counter() && only.is_none_or(|name| f.name() == name))
    })
}

fn json_failure(e: json::JsonFailure, file: &Path, counts: bool) -> Failure {
    match e {
        json::JsonFailure::Syntax { .. } => {
            let counters = if counts {
                ", remove the imported counters, which would be added again (`firn export` shows them),"
            } else {
                ""
            };
            let next = format!(
                "the import ends with a whole chunk before it; correct it{counters} and import the file again"
            );
            Failure::with_next(format!("{}, {e}", file.display()), next)
        }
        json::JsonFailure::Io(e) => Failure::file("read", file, &e),
        json::JsonFailure::Data(e) => model_trouble(e),
        other => Failure::new(other.to_string()),
    }
}

/// Returns the keyspace of this name.
pub fn keyspace(wide: &Wide, name: &str) -> Done<Keyspace> {
    wide.keyspace(name).map_err(|e| {
        let names: Vec<String> = wide.describe_keyspaces().into_iter().map(|k| k.name).collect();
        let has = if names.is_empty() {
            "it has no keyspaces: `firn define` and `firn cli` make them".into()
        } else {
            format!("it has {}", names.join(", "))
        };
        Failure::with_next(e.to_string(), has)
    })
}

/// Returns the names of a keyspace's families.
pub fn families(keyspace: &Keyspace) -> Vec<String> {
    let schema = keyspace.wide().schema();
    schema
        .keyspace(keyspace.name())
        .map(|k| k.families().map(|f| f.name().to_owned()).collect())
        .unwrap_or_default()
}

/// Returns the family of this name. `others` are alternatives for the error message.
pub fn family<'a>(
    keyspace: &Keyspace,
    name: &str,
    others: impl Iterator<Item = &'a str>,
) -> Done<ColumnFamily> {
    keyspace.family(name).map_err(|e| {
        let names = families(keyspace)
            .into_iter()
            .chain(others.map(str::to_owned))
            .collect::<Vec<_>>()
            .join(", ");
        let has = if names.is_empty() {
            "has no families: `firn define` and `firn cli` make them".into()
        } else {
            format!("has {names}")
        };
        Failure::with_next(e.to_string(), format!("{} {has}", keyspace.name()))
    })
}

/// Runs `firn export`.
pub fn export(global: &Global, args: &ExportArgs) -> Done {
    if args.rows.is_chosen() {
        let target = ExportTarget {
            file: args.file.as_deref(),
            compression: args.compression,
            dry_run: args.dry_run,
        };
        return transfer::export(global, &args.rows, &target);
    }
    match (&args.keyspace, args.cassandra.cassandra) {
        (Some(name), None) => export_json(global, args, name),
        (name, _) => {
            let into = args.file.as_deref();
            let into = into.ok_or_else(|| Failure::new("where to? name a directory"))?;
            let compressed = match args.compression {
                None | Some(ExportCompression::Lz4) => true,
                Some(ExportCompression::None) => false,
                Some(_) => {
                    return Err(Failure::with_next(
                        "Cassandra's files are written with LZ4, or without compression",
                        "choose --compression lz4 or none",
                    ));
                }
            };
            let target = NodeExportTarget { into, dry_run: args.dry_run, compressed };
            cassandra::export(global, name.as_deref(), &args.cassandra, target)
        }
    }
}

fn export_json(global: &Global, args: &ExportArgs, name: &str) -> Done {
    if args.file.is_some() || args.dry_run || args.compression.is_some() {
        return Err(Failure::with_next(
            "families are exported to standard output",
            "redirect it to a file: firn export --keyspace NAME > FILE",
        ));
    }
    let wide = open(global, global.to_read())?;
    let keyspace = keyspace(&wide, name)?;
    let tables = tables_left_out(global, &wide, args, name);
    let has_families = wide.schema().families().any(|f| f.keyspace() == name);
    if let Some((what, next)) =
        tables.as_ref().filter(|_| !(has_families && args.family.is_empty()))
    {
        return Err(Failure::with_next(format!("{what}: nothing was exported"), next));
    }
    args.family
        .iter()
        .try_for_each(|name| family(&keyspace, name, std::iter::empty()).map(drop))?;
    let out = &mut io::stdout();
    let done = match (args.notation, &args.family[..]) {
        (WideShape::Full, families) => json::export(&wide, name, families, Notation::Full, out),
        (WideShape::Short, families) => json::export(&wide, name, families, Notation::Short, out),
        (WideShape::Sstabledump, [family]) => {
            let times = if args.raw_times { Times::Raw } else { Times::Dates };
            json::dump(&wide, name, family, times, out)
        }
        (WideShape::Sstabledump, _) => {
            return Err(Failure::new("sstabledump shows one family: name it with --family"));
        }
    };
    let counts = done.map_err(|e| match e {
        json::JsonFailure::Io(e) => Failure::from(e),
        json::JsonFailure::Data(e) => model_trouble(e),
        other => Failure::new(other.to_string()),
    })?;
    out.flush()?;
    if args.family.is_empty() {
        let schema = wide.schema();
        let all = schema.keyspace(name).into_iter().flat_map(|k| k.families());
        for e in all.filter_map(|def| def.check_registered().err()) {
            eprintln!("left out: {e}");
        }
    }
    eprintln!("exported {}", counted(counts));
    match tables {
        Some((what, next)) => {
            eprintln!(
                "{} {what}: they are left out\n next: {next}",
                global.style().bad("incomplete:")
            );
            Err(Failure::Found)
        }
        None => Ok(()),
    }
}

/// Describes the requested CQL tables, which this notation cannot represent, and the commands that
/// can export them.
fn tables_left_out(
    global: &Global,
    wide: &Wide,
    args: &ExportArgs,
    keyspace: &str,
) -> Option<(String, String)> {
    let firn = global.firn();
    let session = Session::new(wide.clone()).ok()?;
    let catalog = session.engine().catalog();
    let tables: Vec<&str> = catalog
        .own_tables()
        .filter(|t| t.keyspace == keyspace && !t.is_own_family())
        .map(|t| &*t.name)
        .filter(|name| args.family.is_empty() || args.family.iter().any(|f| f == name))
        .collect();
    let first = tables.first()?;
    let what = match &tables[..] {
        [only] => format!("{keyspace}.{only} is a table of CQL"),
        all => format!("{keyspace} has {} tables of CQL: {}", all.len(), all.join(", ")),
    };
    Some((
        format!("{what}, but this command exports column families only"),
        format!(
            "`{firn} cql -e \"COPY {keyspace}.{first} TO '{first}.csv' WITH HEADER = true\"` writes a table, `{firn} export --cassandra nb DIR` all \
             tables as Cassandra's files; --family exports a column family by its name"
        ),
    ))
}

/// Runs `firn import`.
pub fn import(global: &Global, args: &ImportArgs) -> Done {
    let (keyspace, family) = (args.keyspace.as_deref(), args.family.as_deref());
    let (chunk, durability) = (args.chunk as usize, args.durability.into());
    if let (Some(file), true) = (&args.file, args.rows.is_chosen()) {
        return transfer::import(global, file, &args.rows, chunk, durability);
    }
    match (&args.file, keyspace) {
        (Some(file), Some(keyspace)) => import_json(global, args, file, keyspace),
        (_, keyspace) => {
            let cassandra = &args.cassandra;
            let import = NodeImport { args: cassandra, keyspace, table: family, chunk, durability };
            cassandra::import(global, &import)
        }
    }
}

fn import_json(global: &Global, args: &ImportArgs, file: &Path, name: &str) -> Done {
    let input = Input::open(file).map_err(|e| Failure::file("open", file, &e))?;
    let progress = Progress::bytes("import", input.len);
    let wide = open_to_write(global, false, input.len.unwrap_or(8 << 20))?;
    let keyspace = keyspace(&wide, name)?;
    let options = ImportOptions {
        family: args.family.clone(),
        row: args.row.clone(),
        timestamp: args.timestamp,
        chunk: args.chunk as usize,
        durability: args.durability.into(),
    };
    let watch = Stopwatch::start();
    let mut rows = 0u64;
    let report = json::import(&keyspace, input, &options, &mut |read, counts| {
        rows += 1;
        if rows.is_multiple_of(256) {
            progress.at(read);
            progress.say(counted(counts));
        }
    })
    .map_err(|e| json_failure(e, file, may_count(&keyspace, args.family.as_deref())))?;
    drop(progress);
    wide.store().db().sync()?;
    let seconds = watch.seconds();
    let counts = report.counts;
    if global.store.json {
        let pair = |(text, id): &(String, _)| json!({"text": text, "uuid": format!("{id}")});
        let stand_ins: Vec<_> = report.stand_ins.iter().map(pair).collect();
        let mut figures =
            json!({"rows": counts.rows, "columns": counts.columns, "seconds": seconds});
        if !stand_ins.is_empty() {
            figures["stand_ins"] = json!(stand_ins);
        }
        if !report.repeated.is_empty() {
            figures["repeated"] = json!(report.repeated);
        }
        writeln!(io::stdout(), "{figures}")?;
    }
    for (text, id) in &report.stand_ins {
        eprintln!("{text} stands for the new UUID {id}");
    }
    for note in &report.repeated {
        eprintln!("{}: {note}", file.display());
    }
    if report.left_out > 0 {
        eprintln!("{} more notes of this kind", report.left_out);
    }
    let rate = output::rate(counts.columns as f64 / seconds.max(1e-9));
    eprintln!("imported {} into {} in {seconds:.2} s, {rate} columns/s", counted(counts), name);
    Ok(())
}
