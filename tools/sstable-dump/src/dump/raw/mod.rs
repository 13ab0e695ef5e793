//! `raw`: prints every field of a file under its name in `format-spec/*.ksy`, using the engine's
//! own decoders.
//!
//! Constants (magic bytes, zeros) are checked but not shown. Bytes are hexadecimal. `at` is the
//! offset in the file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::Env;
use firn_kv::internals::manifest::{CURRENT, manifest_number};
use firn_kv::internals::wal::segment_number;
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::output::{Done, Failure};
use serde_json::{Map, Value, json};

use crate::Screen;
use crate::store::target::{dir_of, env};

mod log;
mod manifest;
mod table;

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Fields have the names in format-spec/*.ksy. Bytes are hexadecimal, `at` is an offset in the file. A damaged file is rejected; damage
between the records of a log is listed. With --json each file is one object on one line, with `path`.

Examples:
  sstable-dump raw firn-data/00000012.sst
  sstable-dump raw firn-data/MANIFEST-000001 --json | jq '.frames[].edits'
  sstable-dump raw firn-data/*.wal --json | jq -r '.records[].operations[].op' | sort | uniq -c";

/// Arguments of `raw`.
#[derive(Args, Clone, Debug)]
pub struct RawArgs {
    /// Tables, blob files, log segments, manifests, CURRENT
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Runs `raw`.
pub fn run(screen: &mut Screen<'_>, args: &RawArgs) -> Done {
    let env = env();
    let mut found = false;
    for path in &args.files {
        let fields = match fields(&*env, path) {
            Err(e) if !matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Incompatible) => {
                return Err(e.into());
            }
            fields => fields,
        };
        found |=
            fields.as_ref().map_or(true, |f| f["damage"].as_array().is_some_and(|d| !d.is_empty()));
        let file = path.display().to_string();
        if screen.json {
            let mut out = fields
                .unwrap_or_else(|e| json!({"error": e.to_string(), "error_kind": e.kind().name()}));
            out["path"] = file.into();
            writeln!(screen.out, "{out}")?;
            continue;
        }
        writeln!(screen.out, "{}", screen.style.heading(file))?;
        match fields {
            Ok(fields) => {
                let mut text = String::new();
                lines(&fields, 2, &mut text);
                screen.out.write_all(text.as_bytes())?;
            }
            Err(e) => writeln!(screen.out, "  {}", screen.style.bad(e))?,
        }
    }
    if found { Err(Failure::Found) } else { Ok(()) }
}

/// Returns the fields of a file; its name shows its kind. The first field is `kind`.
///
/// # Errors
/// `InvalidArgument` for a name that no file of a store has; `Corruption` and `Incompatible` with
/// the position; I/O errors.
fn fields(env: &dyn Env, path: &Path) -> Result<Value> {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let dir = &dir_of(path);
    let (kind, fields) = if name == CURRENT {
        ("current", manifest::current(env, path)?)
    } else if let Some(number) = manifest_number(name) {
        ("manifest", manifest::fields(env, dir, number)?)
    } else if let Some(number) = segment_number(name) {
        ("log", log::fields(env, dir, number)?)
    } else if name.ends_with(".sst") {
        ("table", table::fields(path)?)
    } else {
        let names = "a table (*.sst), a log segment (nnnnnnnn.wal), a manifest (MANIFEST-nnnnnn) or CURRENT";
        return Err(Error::invalid(format!("the name must be that of {names}")).in_file(path));
    };
    let mut all =
        Map::from_iter([("kind".into(), kind.into()), ("len".into(), env.file_len(path)?.into())]);
    all.extend(fields);
    Ok(all.into())
}

/// Maximum length of a value in text output.
const SHOWN: usize = 72;

fn scalar(v: &Value) -> Option<String> {
    let text = match v {
        Value::Object(_) => return None,
        Value::Array(a) if a.iter().any(|v| v.is_object() || v.is_array()) => return None,
        Value::Array(a) => a.iter().filter_map(scalar).collect::<Vec<_>>().join(" "),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    };
    let cut = text.char_indices().nth(SHOWN).map(|(i, _)| i);
    Some(
        cut.map_or(text.clone(), |i| {
            format!("{}… ({} characters)", &text[..i], text.chars().count())
        }),
    )
}

/// Returns an item of a list on one line, if it contains no lists.
fn item(v: &Value) -> Option<String> {
    let fields = v.as_object()?.iter().map(|(k, v)| Some(format!("{k}: {}", scalar(v)?)));
    Some(fields.collect::<Option<Vec<_>>>()?.join(", "))
}

/// Appends the fields as indented lines of text.
fn lines(v: &Value, indent: usize, out: &mut String) {
    let named: Vec<(String, &Value)> = match v {
        Value::Object(o) => o.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(a) => a.iter().enumerate().map(|(i, v)| (format!("[{i}]"), v)).collect(),
        _ => vec![],
    };
    for (name, v) in named {
        match scalar(v).or_else(|| item(v).filter(|_| name.starts_with('['))) {
            Some(text) => {
                let _ = writeln!(out, "{:indent$}{name}: {text}", "");
            }
            None => {
                let _ = writeln!(out, "{:indent$}{name}", "");
                lines(v, indent + 2, out);
            }
        }
    }
}
