//! `raw`: every field of a file under the names that `format-spec/*.ksy` give them, read with the engine's own decoders.
//!
//! Constants (magic bytes, zeros) are checked and not shown. Bytes are hexadecimal. `at` is the offset in the file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use firn_kv::env::Env;
use firn_kv::manifest::{CURRENT, manifest_number};
use firn_kv::wal::segment_number;
use firn_kv::{Error, Result};
use serde_json::{Map, Value};

mod log;
mod manifest;
mod table;

/// Bytes as text.
fn hex(bytes: &[u8]) -> Value {
    let mut out = String::with_capacity(2 * bytes.len());
    for b in bytes {
        let _ = write!(out, "{b:02x}"); // a string takes everything
    }
    out.into()
}

/// The fields of a file, whose kind its name tells. `kind` is the first of them.
///
/// # Errors
/// `InvalidArgument` for a name that is none of a store's, `Corruption` and `Incompatible` with the place, what the system says.
pub fn fields(env: &dyn Env, path: &Path) -> Result<Value> {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (kind, fields) = if name == CURRENT {
        ("current", manifest::current(env, path)?)
    } else if let Some(number) = manifest_number(name) {
        ("manifest", manifest::fields(env, dir, number)?)
    } else if let Some(number) = segment_number(name) {
        ("log", log::fields(env, dir, number)?)
    } else if name.ends_with(".sst") {
        ("table", table::fields(env, path)?)
    } else {
        let names = "a table (*.sst), a log segment (nnnnnnnn.wal), a manifest (MANIFEST-nnnnnn) or CURRENT";
        return Err(Error::invalid(format!("the name must be that of {names}")).in_file(path));
    };
    let mut all = Map::from_iter([("kind".into(), kind.into()), ("len".into(), env.file_len(path)?.into())]);
    all.extend(fields);
    Ok(all.into())
}

/// What was found in one of several files.
pub struct Outcome {
    /// The file.
    pub path: PathBuf,
    /// Its fields, or why there are none.
    pub fields: Result<Value>,
}

impl Outcome {
    /// Whether anything is wrong with the file: it was refused, or parts of it are no records.
    pub fn is_bad(&self) -> bool {
        self.fields.as_ref().map_or(true, |f| f["damage"].as_array().is_some_and(|d| !d.is_empty()))
    }

    /// As one JSON object: the fields with the path, or the path with `error` and its `error_kind`.
    pub fn json(&self) -> Value {
        let mut out = match &self.fields {
            Ok(fields) => fields.clone(),
            Err(e) => serde_json::json!({"error": e.to_string(), "error_kind": e.kind().name()}),
        };
        out["path"] = self.path.display().to_string().into();
        out
    }
}

/// Longest value shown to people.
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
    Some(cut.map_or(text.clone(), |i| format!("{}… ({} characters)", &text[..i], text.chars().count())))
}

/// The fields as indented lines, for people.
pub fn lines(v: &Value, indent: usize, out: &mut String) {
    let named: Vec<(String, &Value)> = match v {
        Value::Object(o) => o.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(a) => a.iter().enumerate().map(|(i, v)| (format!("[{i}]"), v)).collect(),
        _ => vec![],
    };
    for (name, v) in named {
        match scalar(v) {
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
