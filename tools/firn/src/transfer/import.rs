//! `firn import --tree` and `--table`.

use std::path::Path;

use clap::Args;
use firn_kv::Durability;
use firn_tools::output::{self, Done, Failure, things};
use firn_transfer::form::ByteForm;
use firn_transfer::format::TransferFormat;
use firn_transfer::import::{ImportEnd, ImportReport, ImportSettings};
use firn_transfer::source::{self, RowPlace, RowSource, SourceColumn, SourceOptions};
use firn_transfer::target::{
    NewTable, PairColumns, RowTarget, TableSettings, TableTarget, TreeTarget, cql_failure,
};
use firn_transfer::text::{Choice, Coding, RecordValues};
use firn_transfer::{convert, import};
use serde_json::json;

use super::TableName;
use crate::keys::load::{OnBad, YesNo};
use crate::shell::interrupt;
use crate::store::{Global, StoreContent};

/// Estimated bytes of an import whose source has no length.
const USUAL_BYTES: u64 = 16 << 20;
const HEADING: &str = "Rows of trees and tables";

/// Arguments of `firn import` for rows.
#[derive(Args, Clone, Debug)]
pub struct RowImportArgs {
    /// Import into this tree, which is created if it does not exist
    #[arg(long, value_name = "NAME", conflicts_with_all = ["table", "keyspace", "cassandra"], help_heading = HEADING)]
    tree: Option<String>,
    /// Import into this table of CQL
    #[arg(long, value_name = "KEYSPACE.TABLE", value_parser = TableName::parse, conflicts_with_all = ["keyspace", "cassandra"], help_heading = HEADING)]
    table: Option<TableName>,
    /// Read this format [default: by the file's name or content]
    #[arg(long, value_enum, help_heading = HEADING)]
    format: Option<TransferFormat>,
    /// Read this table of SQLite, database of LMDB or column family of RocksDB
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    part: Option<String>,
    /// Read the rows of this SELECT from a SQLite database
    #[arg(long, value_name = "SQL", conflicts_with = "part", help_heading = HEADING)]
    query: Option<String>,
    /// Take keys of a tree from this column [default: key, or the first]; with --create, the
    /// primary key of the table: id, or day,hour, or '(a,b),c'
    #[arg(long, value_name = "COLUMN", help_heading = HEADING)]
    key: Option<String>,
    /// Take values of a tree from these columns, several as a JSON object [default: all others]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', conflicts_with = "table", help_heading = HEADING)]
    value: Vec<String>,
    /// Write keys of a tree in this form
    #[arg(long, value_enum, value_name = "FORM", default_value = "binary", help_heading = HEADING)]
    key_as: ByteForm,
    /// Write values of a tree in this form
    #[arg(long, value_enum, value_name = "FORM", default_value = "binary", help_heading = HEADING)]
    value_as: ByteForm,
    /// Create the table, and its keyspace, if they do not exist; needs --key
    #[arg(long, requires = "key", requires = "table", help_heading = HEADING)]
    create: bool,
    /// Create a column with this CQL type instead of the source's; may be repeated
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = column_type, requires = "create", help_heading = HEADING)]
    types: Vec<(String, String)>,
    /// Import only these columns into the table [default: all]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', requires = "table", help_heading = HEADING)]
    columns: Vec<String>,
    /// Read this text of CSV as null
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = HEADING)]
    null: String,
    /// Set whether the first line of CSV and TSV names the columns [default: yes, no for TSV into a
    /// tree]
    #[arg(long, value_enum, value_name = "YES|NO", help_heading = HEADING)]
    header: Option<YesNo>,
    /// Round values that CQL's types cannot represent: times below a millisecond, digits of floats
    #[arg(long, help_heading = HEADING)]
    lossy: bool,
    /// Read at most this many rows
    #[arg(long, value_name = "ROWS", help_heading = HEADING)]
    limit: Option<u64>,
    /// Check every row, print the columns and write nothing
    #[arg(long, conflicts_with = "resume", help_heading = HEADING)]
    dry_run: bool,
    /// Continue an interrupted import of the same file
    #[arg(long, help_heading = HEADING)]
    resume: bool,
    /// Select the reaction to a row that cannot be imported
    #[arg(long, value_enum, default_value = "stop", help_heading = HEADING)]
    bad: OnBad,
}

/// Parses `COLUMN=TYPE`.
fn column_type(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, of)) if !column.is_empty() && !of.is_empty() => {
            Ok((column.to_owned(), of.to_owned()))
        }
        _ => Err("it must be COLUMN=TYPE".to_owned()),
    }
}

impl RowImportArgs {
    /// Reports whether rows are imported.
    pub fn is_chosen(&self) -> bool {
        self.tree.is_some() || self.table.is_some()
    }

    fn source_options(&self, format: TransferFormat) -> SourceOptions {
        let is_pairs = self.tree.is_some() && format.text().is_some();
        let header = match self.header {
            Some(header) => header == YesNo::Yes,
            None => !(is_pairs && format == TransferFormat::Tsv),
        };
        let value = match &self.value[..] {
            [] => RecordValues::Rest,
            [one] => RecordValues::One(one.clone()),
            many => RecordValues::Many(many.to_vec()),
        };
        let choice = Choice { key: self.key.clone(), value, header, coding: Coding::Text };
        SourceOptions {
            part: self.part.clone(),
            query: self.query.clone(),
            header,
            null: self.null.clone(),
            fields: None,
            pairs: is_pairs.then_some(choice),
            lossy: self.lossy,
        }
    }
}

/// A run of `firn import`.
struct ImportCommand<'a> {
    global: &'a Global,
    file: &'a Path,
    args: &'a RowImportArgs,
    format: TransferFormat,
    chunk: usize,
    durability: Durability,
}

/// Runs `firn import` into a tree or a table.
pub fn import(
    global: &Global,
    file: &Path,
    args: &RowImportArgs,
    chunk: usize,
    durability: Durability,
) -> Done {
    let format = match args.format {
        Some(format) => format,
        None if file == Path::new("-") => {
            return Err(Failure::with_next(
                "the format of standard input is unknown",
                "name it with --format csv, tsv or jsonl",
            ));
        }
        None => TransferFormat::of_source(file)?,
    };
    let command = ImportCommand { global, file, args, format, chunk, durability };
    match (&args.tree, &args.table) {
        (Some(tree), _) => command.import_tree(tree),
        (None, Some(table)) => command.import_table(table),
        (None, None) => Err(Failure::new("name the target with --tree or --table")),
    }
}

impl ImportCommand<'_> {
    /// Returns the name of the source in the stored position.
    fn source_name(&self) -> String {
        let path = std::path::absolute(self.file).unwrap_or_else(|_| self.file.to_path_buf());
        let part = self.args.part.as_ref().map_or(String::new(), |p| format!(", part {p}"));
        let query = self.args.query.as_ref().map_or(String::new(), |q| format!(", query {q}"));
        format!("{} {}{part}{query}", self.format.name(), path.display())
    }

    fn import_tree(&self, name: &str) -> Done {
        let (args, global) = (self.args, self.global);
        let options = args.source_options(self.format);
        let mut source = source::open(self.file, self.format, &options)?;
        let (key, value) = match options.pairs {
            // The records have keys and values already.
            Some(_) => (None, &[][..]),
            None => (args.key.as_deref(), &args.value[..]),
        };
        let forms = [args.key_as, args.value_as];
        let pairs = PairColumns::new(source.columns(), key, value, forms)?;
        global.check_own_tree(&global.path_to_tree(name))?;
        let db = match args.dry_run {
            true => None,
            false => Some(global.open_to_write(true, USUAL_BYTES)?),
        };
        let target = self.source_name();
        let mut target = TreeTarget::new(db.as_ref(), name, &target, pairs, self.durability)?;
        let what = format!("the tree {name:?}");
        self.run(&mut *source, &mut target, &what)
    }

    fn import_table(&self, table: &TableName) -> Done {
        let (args, global) = (self.args, self.global);
        let mut options = args.source_options(self.format);
        let session = match args.dry_run {
            true if global.holding()? != StoreContent::Model => None,
            true => Some(global.model(global.to_read())?),
            false => {
                let is_there = global.holding()? == StoreContent::Model;
                if !is_there && !args.create {
                    return Err(Failure::with_next(
                        format!("{} has no tables", global.store.db.display()),
                        "create the table with --create and --key COLUMN, or with `firn cql`",
                    ));
                }
                Some(global.model(global.to_write(args.create, USUAL_BYTES))?)
            }
        };
        let found = session.as_ref().map(|session| table.schema(session)).transpose()?.flatten();
        if let Some(schema) = &found {
            options.fields = Some(schema.columns().iter().map(|c| c.name.clone()).collect());
        }
        let mut source = source::open(self.file, self.format, &options)?;
        let columns = self.chosen_columns(&*source)?;
        let key = args.key.as_deref().unwrap_or_default();
        let new = match (args.create, &found) {
            (true, None) => {
                let new = NewTable::parse_key(key);
                let mut new = new.map_err(|why| Failure::new(format!("--key {key}: {why}")))?;
                new.types = args.types.clone();
                let chosen: Vec<SourceColumn> = columns.iter().flatten().cloned().collect();
                Some(new.statements(&table.keyspace, &table.table, &chosen)?)
            }
            _ => None,
        };
        let schema = match (found, new, &session) {
            (Some(schema), ..) => schema,
            (None, Some(statements), _) if args.dry_run => {
                // The table exists only in memory.
                let session = firn_cql::Session::in_memory().map_err(|e| cql_failure(&e))?;
                self.create(&session, &statements, table)?
            }
            (None, Some(statements), Some(session)) => self.create(session, &statements, table)?,
            (None, _, Some(session)) => {
                return Err(table.missing(session, "--create and --key COLUMN create it"));
            }
            (None, _, None) => {
                let what = format!("{} has no tables", global.store.db.display());
                return Err(Failure::with_next(what, "--create and --key COLUMN create one"));
            }
        };
        let settings = TableSettings {
            columns: &columns,
            source: &self.source_name(),
            lossy: args.lossy,
            skips_bad: args.bad == OnBad::Skip,
            durability: self.durability,
        };
        let session = session.as_ref().filter(|_| !args.dry_run);
        let mut target = TableTarget::new(session, &schema, &settings)?;
        self.run(&mut *source, &mut target, &table.to_string())
    }

    /// Returns the columns of the source, with `None` for those that are not imported.
    fn chosen_columns(&self, source: &dyn RowSource) -> Done<Vec<Option<SourceColumn>>> {
        let (wanted, all) = (&self.args.columns, source.columns());
        if let Some(unknown) = wanted.iter().find(|n| all.iter().all(|c| c.name != **n)) {
            let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
            let what = format!("{} has no column {unknown:?}", self.file.display());
            return Err(Failure::with_next(what, format!("it has {}", names.join(", "))));
        }
        let is_wanted = |c: &&SourceColumn| wanted.is_empty() || wanted.contains(&c.name);
        Ok(all.iter().map(|c| Some(c).filter(is_wanted).cloned()).collect())
    }

    /// Creates a table, and returns its definition.
    fn create(
        &self,
        session: &firn_cql::Session,
        statements: &[String],
        table: &TableName,
    ) -> Done<std::sync::Arc<firn_cql::internals::catalog::TableSchema>> {
        for statement in statements {
            session.execute(statement, ()).map_err(|e| match cql_failure(&e) {
                Failure::Failed { what, next } => {
                    Failure::Failed { what: format!("{what} ({statement})"), next }
                }
                other => other,
            })?;
        }
        let schema = table.schema(session)?;
        schema.ok_or_else(|| table.missing(session, "run the command again"))
    }

    fn run(&self, source: &mut dyn RowSource, target: &mut dyn RowTarget, into: &str) -> Done {
        let args = self.args;
        interrupt::watch_first()?;
        let settings = ImportSettings {
            chunk: self.chunk,
            limit: args.limit,
            skips_bad: args.bad == OnBad::Skip,
            resume: args.resume,
        };
        let columns = source.columns().to_vec();
        let report = import::import(source, target, settings, &interrupt::is_set)?;
        if args.dry_run && !self.global.store.json {
            let mut table = output::listing(&["column", "type"], "ll");
            for column in &columns {
                table.add_row([column.name.clone(), self.type_text(column)]);
            }
            print!("{}", output::print_table(&table, self.global.style()));
        }
        self.report(&report, &columns, into)
    }

    /// Returns the type of a column as CQL writes it.
    fn type_text(&self, column: &SourceColumn) -> String {
        let own = self.args.types.iter().find(|(name, _)| *name == column.name);
        let of = || column.value_type.as_ref().map_or("text".to_owned(), convert::type_name);
        own.map_or_else(of, |(_, of)| of.clone())
    }

    fn report(&self, report: &ImportReport, columns: &[SourceColumn], into: &str) -> Done {
        let (args, global) = (self.args, self.global);
        let place = |place: &RowPlace| match place {
            RowPlace::Line(n) => ("line", *n),
            RowPlace::Row(n) => ("row", *n),
        };
        let refused = report.refused.iter().map(|(at, why)| {
            let (word, n) = place(at);
            json!({word: n, "why": why})
        });
        let described = columns.iter().map(|c| json!({"name": c.name, "type": self.type_text(c)}));
        global.print_json(json!({
            "rows": report.rows, "resumed": report.resumed, "skipped": report.skipped,
            "refused": refused.collect::<Vec<_>>(), "complete": report.end == ImportEnd::Complete,
            "dry_run": args.dry_run, "columns": described.collect::<Vec<_>>(), "format": self.format.name(),
            "seconds": report.seconds,
        }))?;
        let file = self.file.display();
        if let (ImportEnd::BadRow, Some((at, why))) = (report.end, report.refused.last()) {
            eprintln!("{} {file}, {at}: {why}", global.style().error("error:"));
        }
        let rows = things(report.rows, "row", "rows");
        let speed = output::rate(report.rows as f64 / report.seconds.max(1e-9));
        let (seconds, store) = (report.seconds, global.store.db.display());
        match args.dry_run {
            true => eprintln!("{rows} of {file} can be imported into {into}; nothing was written"),
            false => eprintln!(
                "imported {rows} of {file} into {into} of {store} in {seconds:.2} s, {speed} rows/s"
            ),
        }
        if report.resumed > 0 {
            let before = things(report.resumed, "row", "rows");
            eprintln!("the interrupted import had read {before}");
        }
        if report.skipped > 0 {
            eprintln!("left out {}", things(report.skipped, "bad row", "bad rows"));
        }
        let (failure, next) = match report.end {
            ImportEnd::Complete => return Ok(()),
            ImportEnd::BadRow if args.dry_run => {
                (Failure::Found, "correct the row, or use --bad skip")
            }
            ImportEnd::BadRow => (
                Failure::Found,
                "correct the row and continue with --resume, or leave such rows out with --bad skip",
            ),
            ImportEnd::Interrupted => (Failure::Interrupted, "continue with --resume"),
        };
        let bold = global.style().bold(" next:");
        eprintln!("{bold} all rows before are imported; {next}");
        Err(failure)
    }
}
