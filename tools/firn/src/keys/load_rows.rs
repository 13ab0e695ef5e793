//! `firn load --family`: loads records as rows of columns, in atomic chunks.

use clap::Args;
use firn_kv::ErrorKind;
use firn_table_events::model_trouble;
use firn_wide::internals::api::Chunks;
use firn_wide::{CfDef, ColumnDef, Error, KsDef, Wide};
use firn_wide_text::json::bytes_of;
use serde_json::json;

use crate::families::model::{counted, open_to_write};
use crate::keys::load::{self, LoadArgs, LoadTarget, Loaded, RecordRead};
use crate::store::Global;
use firn_tools::io::{Input, Stopwatch};
use firn_tools::output::{self, Done, Failure};
use firn_transfer::text::Format;
use firn_transfer::text::{FieldReader, Fields};

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
    let (input, progress) = load::open_input(args)?;
    let size = input.len.unwrap_or(8 << 20);
    let reader = FieldReader::new(input, format, header, args.is_raw())
        .map_err(|t| load::head_failure(t, args))?;
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
    let mut target = RowTarget {
        args,
        reader,
        fields: Fields::default(),
        key,
        chunks,
        watch: Stopwatch::start(),
    };
    let mut loaded = Loaded::default();
    let end = load::load_all(&mut target, args, &progress, &mut loaded);
    drop(progress);
    let end = end?;
    wide.store().db().sync()?;
    // Without the incomplete last chunk.
    let (counts, seconds) = (target.chunks.written(), target.watch.seconds());
    let what = format!(
        "loaded {} into {keyspace}.{family} of {} in {seconds:.2} s, {} columns/s",
        counted(counts),
        global.store.db.display(),
        output::rate(counts.columns as f64 / seconds.max(1e-9)),
        keyspace = keyspace.name(),
        family = family.name(),
    );
    let fields = [
        ("loaded", json!(counts.rows)),
        ("columns", json!(counts.columns)),
        ("bytes", json!(0)),
        ("seconds", json!(seconds)),
    ];
    loaded.report(global, args, end, &fields, &what)
}

/// A family of a keyspace.
struct RowTarget<'a> {
    args: &'a LoadArgs,
    reader: FieldReader<Input>,
    fields: Fields,
    key: Vec<u8>,
    chunks: Chunks,
    watch: Stopwatch,
}

impl LoadTarget for RowTarget<'_> {
    fn next_record(&mut self) -> Done<RecordRead> {
        match self.reader.next(&mut self.fields) {
            Ok(true) => {}
            Ok(false) => return Ok(RecordRead::End),
            Err(trouble) => return load::bad_line(trouble, self.args),
        }
        let (added, line) = (self.add(), self.fields.line);
        match added {
            Ok(()) => {
                let is_full = self.chunks.pending() >= self.args.chunk() || self.chunks.is_full();
                Ok(RecordRead::Added { line, is_full })
            }
            Err(Error::InvalidRequest(why)) => Ok(RecordRead::Bad { line, why }),
            Err(Error::Store(e)) if e.kind() == ErrorKind::InvalidArgument => {
                Ok(RecordRead::Bad { line, why: e.message().to_owned() })
            }
            Err(e) => Err(model_trouble(e)),
        }
    }

    fn write_chunk(&mut self) -> Done<String> {
        self.chunks.flush().map_err(model_trouble)?;
        let written = self.chunks.written();
        let rate = written.columns as f64 / self.watch.seconds().max(1e-9);
        Ok(format!("{} at {} columns/s", counted(written), output::rate(rate)))
    }
}

impl RowTarget<'_> {
    /// Adds the record to the current chunk.
    fn add(&mut self) -> Result<(), Error> {
        let RowTarget { args, fields, key, chunks, .. } = self;
        let missing = |name: &[u8]| {
            Error::InvalidRequest(format!("it has no field {:?}", String::from_utf8_lossy(name)))
        };
        // In the order of names, the store need not sort them.
        fields.sort();
        let row = fields.get(key).ok_or_else(|| missing(key))?;
        let super_field = args.rows().super_field.as_ref().map(|s| s.as_bytes());
        let super_column =
            super_field.map(|name| fields.get(name).ok_or_else(|| missing(name))).transpose()?;
        let columns = fields.iter().filter(|(name, _)| *name != *key && Some(*name) != super_field);
        let family = chunks.family().clone();
        let row = bytes_of(family.key_validator(), row)?;
        let super_column = super_column.map(|s| bytes_of(family.comparator(), s)).transpose()?;
        let columns = columns.map(|(name, value)| {
            let name = bytes_of(family.cell_comparator(), name)?;
            let value = bytes_of(family.validator(&name), value)?;
            Ok((name, value))
        });
        chunks.record(&row, super_column.as_deref(), columns)
    }
}
