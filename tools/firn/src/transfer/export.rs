//! `firn export --tree`, `--table` and `--query`.

use std::path::Path;

use clap::Args;
use firn_cql::quote_if_needed;
use firn_tools::keys::RangeArgs;
use firn_tools::output::{self, Done, Failure, things};
use firn_transfer::convert;
use firn_transfer::export::{
    self, ExportColumn, ExportCompression, ExportReport, ExportRun, ExportSettings, RowSink,
};
use firn_transfer::form::ByteForm;
use firn_transfer::format::TransferFormat;
use serde_json::json;

use super::TableName;
use crate::keys::load::YesNo;
use crate::shell::interrupt;
use crate::store::Global;

const HEADING: &str = "Rows of trees and tables";

/// Arguments of `firn export` for rows.
#[derive(Args, Clone, Debug)]
#[group(id = "row_export")]
pub struct RowExportArgs {
    /// Export the keys and values of this tree
    #[arg(long, value_name = "NAME", conflicts_with_all = ["table", "query", "keyspace", "cassandra"], help_heading = HEADING)]
    tree: Option<String>,
    /// Export this table of CQL
    #[arg(long, value_name = "KEYSPACE.TABLE", value_parser = TableName::parse, conflicts_with_all = ["query", "keyspace", "cassandra"], help_heading = HEADING)]
    table: Option<TableName>,
    /// Export the rows of this SELECT of CQL
    #[arg(long, value_name = "CQL", conflicts_with_all = ["keyspace", "cassandra"], help_heading = HEADING)]
    query: Option<String>,
    /// Write this format [default: by the file's name]
    #[arg(long, value_enum, help_heading = HEADING)]
    format: Option<TransferFormat>,
    /// Export only these columns of the table, in this order [default: all]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', requires = "table", help_heading = HEADING)]
    columns: Vec<String>,
    /// Write at most this many rows
    #[arg(long, value_name = "ROWS", help_heading = HEADING)]
    limit: Option<u64>,
    /// Write keys of a tree in this form
    #[arg(long, value_enum, value_name = "FORM", default_value = "binary", help_heading = HEADING)]
    key_as: ByteForm,
    /// Write values of a tree in this form
    #[arg(long, value_enum, value_name = "FORM", default_value = "binary", help_heading = HEADING)]
    value_as: ByteForm,
    #[command(flatten)]
    range: RangeArgs,
    /// Write this text for null in CSV and TSV
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = HEADING)]
    null: String,
    /// Set whether the first line of CSV and TSV names the columns [default: yes, no for TSV of a
    /// tree]
    #[arg(long, value_enum, value_name = "YES|NO", help_heading = HEADING)]
    header: Option<YesNo>,
    /// Write decimals and varints to Parquet and Arrow as decimal128 with this many digits after
    /// the point [default: as text, which has any number of digits]
    #[arg(long, value_name = "DIGITS", value_parser = clap::value_parser!(i8).range(0..=38), help_heading = HEADING)]
    decimal_scale: Option<i8>,
}

impl RowExportArgs {
    /// Reports whether rows are exported.
    pub fn is_chosen(&self) -> bool {
        self.tree.is_some() || self.table.is_some() || self.query.is_some()
    }
}

/// Settings of an export that other exports have too.
pub struct ExportTarget<'a> {
    /// File to write.
    pub file: Option<&'a Path>,
    /// Compression of the file.
    pub compression: Option<ExportCompression>,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// Runs `firn export` of a tree, a table or a query.
pub fn export(global: &Global, args: &RowExportArgs, target: &ExportTarget<'_>) -> Done {
    interrupt::watch_first()?;
    match (&args.tree, &args.table, &args.query) {
        (Some(name), ..) => export_tree(global, args, target, name),
        (None, Some(table), _) => {
            let columns: Vec<_> = args.columns.iter().map(|c| quote_if_needed(c)).collect();
            let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
            export_query(global, args, target, &format!("SELECT {columns} FROM {table}"))
        }
        (None, None, query) => {
            export_query(global, args, target, query.as_deref().unwrap_or_default())
        }
    }
}

/// Creates the file of an export; `None` for a dry run.
fn sink(
    args: &RowExportArgs,
    target: &ExportTarget<'_>,
    columns: &[ExportColumn],
) -> Done<Option<Box<dyn RowSink>>> {
    if target.dry_run {
        return Ok(None);
    }
    let file = target.file.ok_or_else(|| {
        Failure::with_next("where to? name a file", "- with --format is standard output")
    })?;
    let format = match args.format {
        Some(format) => format,
        None => TransferFormat::of_target(file)?,
    };
    let is_tsv_tree = args.tree.is_some() && format == TransferFormat::Tsv;
    let settings = ExportSettings {
        null: args.null.clone(),
        header: args.header.map_or(!is_tsv_tree, |h| h == YesNo::Yes),
        decimal_scale: args.decimal_scale,
        compression: target.compression,
        ..ExportSettings::default()
    };
    export::create(file, format, columns, &settings).map(Some)
}

fn export_tree(
    global: &Global,
    args: &RowExportArgs,
    target: &ExportTarget<'_>,
    name: &str,
) -> Done {
    let range = args.range.range(args.key_as == ByteForm::Hex)?;
    let db = global.open_to_read()?;
    let tree = global.tree(&db, Some(name))?;
    let forms = [args.key_as, args.value_as];
    let columns = export::pair_columns(forms);
    let sink = sink(args, target, &columns)?;
    let run = ExportRun::new(sink, args.limit, &interrupt::is_set);
    let report = run.tree(&tree, &range, forms);
    let report = report.map_err(|e| global.of_families(e, tree.name()))?;
    print_report(global, target, &columns, &report)
}

fn export_query(
    global: &Global,
    args: &RowExportArgs,
    target: &ExportTarget<'_>,
    cql: &str,
) -> Done {
    if !args.range.is_empty() {
        return Err(Failure::with_next(
            "--from, --to and --prefix are keys of a tree",
            "select rows with --query \"SELECT … WHERE …\"",
        ));
    }
    global.check_model()?;
    let session = global.model(global.to_read())?;
    if let Some(table) = &args.table
        && table.schema(&session)?.is_none()
    {
        return Err(table.missing(&session, "name one of these"));
    }
    let columns = export::query_columns(&session, cql)?;
    let sink = sink(args, target, &columns)?;
    let run = ExportRun::new(sink, args.limit, &interrupt::is_set);
    let report = run.query(&session, cql)?;
    print_report(global, target, &columns, &report)
}

fn print_report(
    global: &Global,
    target: &ExportTarget<'_>,
    columns: &[ExportColumn],
    report: &ExportReport,
) -> Done {
    let type_text = |c: &ExportColumn| convert::type_name(&c.value_type);
    let is_own_output = target.file == Some(Path::new("-")) && !target.dry_run;
    if !is_own_output {
        let described = columns.iter().map(|c| json!({"name": c.name, "type": type_text(c)}));
        global.print_json(json!({
            "rows": report.rows, "columns": described.collect::<Vec<_>>(),
            "written": !target.dry_run, "seconds": report.seconds,
        }))?;
    }
    if target.dry_run && !global.store.json {
        let mut table = output::listing(&["column", "type"], "ll");
        for column in columns {
            table.add_row([column.name.clone(), type_text(column)]);
        }
        print!("{}", output::print_table(&table, global.style()));
    }
    for note in &report.notes {
        eprintln!("{} {note}", global.style().bold("note:"));
    }
    let rows = things(report.rows, "row", "rows");
    let speed = output::rate(report.rows as f64 / report.seconds.max(1e-9));
    match (target.dry_run, target.file) {
        (false, Some(file)) => eprintln!(
            "exported {rows} to {} in {:.2} s, {speed} rows/s",
            file.display(),
            report.seconds
        ),
        _ => eprintln!("{rows} would be exported"),
    }
    Ok(())
}
