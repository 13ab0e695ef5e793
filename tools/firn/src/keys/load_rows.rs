//! `firn load --family`: loads records as rows of columns, in atomic chunks.

use std::io::Write;

use clap::Args;
use firn_kv::ErrorKind;
use firn_table_events::model_trouble;
use firn_wide::{CfDef, Chunks, ColumnDef, Counts, Error, KsDef, Wide};
use firn_wide_text::json::bytes_of;
use serde_json::json;

use crate::families::json::{open_to_write, told};
use crate::keys::fields::{FieldReader, Fields};
use crate::keys::load::{LoadArgs, Loaded, OnBad, SHOWN};
use crate::keys::record::{Format, RecordTrouble};
use crate::store::Global;
use firn_tools::io::{self, Input, Stopwatch};
use firn_tools::output::{self, Done, Failure, Progress};

/// Arguments of `firn load` for rows.
#[derive(Args, Clone, Debug)]
pub struct RowArgs {
    /// Load rows of columns into a family of this keyspace
    #[arg(long, value_name = "NAME", requires = "family", help_heading = "Rows of columns")]
    keyspace: Option<String>,
    /// Load into this family; missing definitions are created, with UTF8Type for keys, names and
    /// values
    #[arg(long, value_name = "NAME", requires = "keyspace", help_heading = "Rows of columns")]
    family: Option<String>,
    /// Create a super column from each record, named by this field
    #[arg(
        long = "super",
        value_name = "FIELD",
        requires = "family",
        help_heading = "Rows of columns"
    )]
    super_field: Option<String>,
    /// Create an index on this field if there is none; may be repeated
    #[arg(long, value_name = "FIELD", requires = "family", help_heading = "Rows of columns")]
    index: Vec<String>,
}

impl RowArgs {
    /// Returns the keyspace and the family, if rows are loaded.
    pub fn target(&self) -> Option<(&str, &str)> {
        self.keyspace.as_deref().zip(self.family.as_deref())
    }
}

/// Creates the missing keyspace, family and indexes.
fn define(wide: &Wide, (keyspace, family): (&str, &str), args: &RowArgs) -> Result<(), Error> {
    if wide.keyspace(keyspace).is_err() {
        wide.system_add_keyspace(&KsDef::new(keyspace))?;
    }
    let indexed = |name: &String| ColumnDef::new(name.as_bytes(), "UTF8Type").indexed();
    let schema = wide.schema();
    let Some(there) = schema.keyspace(keyspace)?.family(family) else {
        let utf8 = || "UTF8Type".to_owned();
        let is_super = args.super_field.is_some();
        wide.system_add_column_family(&CfDef {
            column_type: if is_super { "Super".into() } else { "Standard".into() },
            comparator_type: utf8(),
            subcomparator_type: is_super.then(utf8),
            default_validation_class: utf8(),
            key_validation_class: utf8(),
            column_metadata: args.index.iter().map(indexed).collect(),
            ..CfDef::new(keyspace, family)
        })?;
        return Ok(());
    };
    let mut def = there.def().clone();
    for name in &args.index {
        match def.column_metadata.iter_mut().find(|c| c.name == name.as_bytes()) {
            Some(column) if column.index_type.is_some() => {}
            Some(column) => {
                *column = ColumnDef { index_type: indexed(name).index_type, ..column.clone() }
            }
            None => {
                let validator = def.default_validation_class.clone();
                def.column_metadata
                    .push(ColumnDef { validation_class: validator, ..indexed(name) });
            }
        }
    }
    if def != *there.def() {
        wide.system_update_column_family(&def)?;
    }
    Ok(())
}

/// Runs `firn load --keyspace --family`.
pub fn run(
    global: &Global,
    args: &LoadArgs,
    target: (&str, &str),
    format: Format,
    header: bool,
) -> Done {
    let input = Input::open(args.file()).map_err(|e| Failure::file("open", args.file(), &e))?;
    let progress = Progress::bytes("load", input.len);
    let read = input.counter();
    let size = input.len.unwrap_or(8 << 20);
    let reader = FieldReader::new(input, format, header, args.is_raw()).map_err(|t| match t {
        RecordTrouble::Bad { line, why } => {
            Failure::new(format!("{}, line {line}: {why}", args.file().display()))
        }
        RecordTrouble::Io(e) => Failure::file("read", args.file(), &e),
    })?;
    let key = match (args.key(), format, reader.first_name()) {
        (Some(name), ..) => name.as_bytes().to_vec(),
        (None, Format::Deb822, _) => b"Package".to_vec(),
        (None, _, Some(first)) => first,
        (None, ..) => b"key".to_vec(),
    };
    let wide = open_to_write(global, true, size)?;
    define(&wide, target, args.rows()).map_err(model_trouble)?;
    let keyspace = wide.keyspace(target.0).map_err(model_trouble)?;
    let family = wide.schema().family(target.0, target.1).map_err(model_trouble)?.clone();
    if family.is_super() != args.rows().super_field.is_some() {
        let next = if family.is_super() {
            "name the field of the super columns with --super"
        } else {
            "leave out --super"
        };
        return Err(Failure::with_next(
            format!("{} is a {} family", target.1, family.def().column_type),
            next,
        ));
    }
    let chunks =
        Chunks::new(&keyspace, target.1, usize::MAX, args.durability()).map_err(model_trouble)?;
    let watch = Stopwatch::start();
    let mut loading =
        RowLoading { args, key, chunks, loaded: Loaded::default(), progress, last_line: 0, watch };
    let done = loading.take(reader, &|| read.get());
    let done = done.and_then(|all| Ok(wide.store().db().sync().map(|()| all)?));
    let seconds = watch.seconds();
    let RowLoading { loaded, chunks, progress, .. } = loading;
    drop(progress);
    report(global, args, &loaded, written(&chunks), seconds, matches!(done, Ok(true)))?;
    if done? { Ok(()) } else { Err(Failure::Found) }
}

/// Returns the rows and columns in the family, without the incomplete last chunk.
fn written(chunks: &Chunks) -> Counts {
    chunks.written()
}

struct RowLoading<'a> {
    args: &'a LoadArgs,
    key: Vec<u8>,
    chunks: Chunks,
    loaded: Loaded,
    progress: Progress,
    last_line: u64,
    watch: Stopwatch,
}

impl RowLoading<'_> {
    /// Loads all records; returns `false` if a bad one stopped it.
    fn take(&mut self, mut reader: FieldReader<Input>, read: &dyn Fn() -> u64) -> Done<bool> {
        let mut fields = Fields::default();
        loop {
            let (line, why) = match reader.next(&mut fields) {
                Ok(false) => {
                    self.flush(read())?;
                    return Ok(true);
                }
                Ok(true) => match self.record(&mut fields) {
                    Ok(()) => {
                        self.last_line = fields.line;
                        if self.chunks.pending() >= self.args.chunk() || self.chunks.is_full() {
                            self.flush(read())?;
                        }
                        continue;
                    }
                    Err(Error::InvalidRequest(why)) => (fields.line, why),
                    Err(Error::Store(e)) if e.kind() == ErrorKind::InvalidArgument => {
                        (fields.line, e.message().to_owned())
                    }
                    Err(e) => return Err(model_trouble(e)),
                },
                Err(RecordTrouble::Bad { line, why }) => (line, why),
                Err(RecordTrouble::Io(e)) => {
                    return Err(Failure::file("read", self.args.file(), &e));
                }
            };
            self.loaded.bad(line, why.clone());
            if self.args.on_bad() == OnBad::Stop {
                return Ok(false);
            }
            self.loaded.skipped += 1;
            if self.loaded.skipped <= SHOWN as u64 {
                self.progress.line(&format!("line {line}: {why}"));
            }
        }
    }

    fn record(&mut self, fields: &mut Fields) -> Result<(), Error> {
        let missing = |name: &[u8]| {
            Error::InvalidRequest(format!("it has no field {:?}", String::from_utf8_lossy(name)))
        };
        // In the order of names, the store need not sort them.
        fields.sort();
        let key = fields.get(&self.key).ok_or_else(|| missing(&self.key))?;
        let super_field = self.args.rows().super_field.as_ref().map(|s| s.as_bytes());
        let super_column =
            super_field.map(|name| fields.get(name).ok_or_else(|| missing(name))).transpose()?;
        let columns =
            fields.iter().filter(|(name, _)| *name != self.key && Some(*name) != super_field);
        let family = self.chunks.family().clone();
        let key = bytes_of(family.key_validator(), key)?;
        let super_column = super_column.map(|s| bytes_of(family.comparator(), s)).transpose()?;
        let columns = columns.map(|(name, value)| {
            let name = bytes_of(family.cell_comparator(), name)?;
            let value = bytes_of(family.validator(&name), value)?;
            Ok((name, value))
        });
        self.chunks.record(&key, super_column.as_deref(), columns)
    }

    fn flush(&mut self, read: u64) -> Done {
        self.chunks.flush().map_err(model_trouble)?;
        self.loaded.last_line = self.last_line;
        self.progress.at(read);
        let columns = self.chunks.written().columns;
        let rate = columns as f64 / self.watch.seconds().max(1e-9);
        self.progress.say(format!(
            "{} at {} columns/s",
            told(self.chunks.written()),
            output::rate(rate)
        ));
        Ok(())
    }
}

fn report(
    global: &Global,
    args: &LoadArgs,
    loaded: &Loaded,
    counts: Counts,
    seconds: f64,
    complete: bool,
) -> Done {
    if global.store.json {
        let mut v = loaded.json(seconds, complete);
        (v["loaded"], v["columns"]) = (json!(counts.rows), json!(counts.columns));
        writeln!(io::stdout(), "{v}")?;
    }
    let (keyspace, family) = args.rows().target().unwrap_or_default();
    let rate = output::rate(counts.columns as f64 / seconds.max(1e-9));
    crate::keys::load::report_bad_line(global, args, loaded, complete);
    eprintln!(
        "loaded {} into {keyspace}.{family} of {} in {seconds:.2} s, {rate} columns/s",
        told(counts),
        global.store.db.display()
    );
    crate::keys::load::report_rest(global, loaded, complete);
    Ok(())
}
