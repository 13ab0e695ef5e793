//! `sstable-dump props`: prints the properties of tables and blob files.

use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::internals::base::blob_ref::BlobFileMeta;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::sstable::Properties;
use firn_tools::escape;
use firn_tools::output::{Done, bytes, count};
use firn_wide_text::files::DescribedFile;
use serde_json::{Value, json};

use crate::Screen;
use crate::dump::text;
use crate::schema::typed::{self, Families};
use crate::store::blobs;
use crate::store::target::{is_of_values, open_table, open_values, table_file};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  sstable-dump props firn-data/00000012.sst
  sstable-dump props *.sst --json | jq '.[].entries'";

/// Arguments of `props`.
#[derive(Args, Clone, Debug)]
pub struct PropsArgs {
    /// Tables and blob files
    #[arg(required = true, value_name = "TABLE")]
    pub tables: Vec<PathBuf>,
}

/// Returns the name of a filter with this number of bits per fingerprint.
pub fn filter_name(bits: u8) -> String {
    if bits == 0 { "none".to_owned() } else { format!("fuse{bits}") }
}

/// Returns all properties as JSON.
pub fn props_json(id: u64, identity: TableIdentity, size: u64, p: &Properties) -> Value {
    json!({
        "id": id, "store": identity.store, "unique": identity.unique, "size": size, "tree": p.tree, "tree_name": p.tree_name,
        "log_end": p.log_end, "log_writer": p.log_writer, "level": p.level, "writer": p.writer, "created_micros": p.created_micros,
        "entries": p.entries, "deletes": p.deletes, "merges": p.merges, "range_deletes": p.range_deletes,
        "min_seq": p.min_seq, "max_seq": p.max_seq, "first_key": escape::words(&p.first_key), "last_key": escape::words(&p.last_key),
        "raw_key_bytes": p.raw_key_bytes, "raw_value_bytes": p.raw_value_bytes, "largest_entry": p.largest_entry,
        "data_blocks": p.data_blocks, "block_size": p.block_size, "compression": p.compression.name(),
        "filter": filter_name(p.filter_bits()), "filter_keys": p.filter_keys, "oldest_tombstone_micros": p.oldest_tombstone_micros,
        "hooks": {"filter_prefix": p.filter_prefix, "merge_operator": p.merge_operator, "compaction_filter": p.compaction_filter, "summary": p.summary},
        "summary_hex": escape::hex(&p.summary_bytes), "blobs": blobs::uses_json(&p.values),
    })
}

/// Returns the properties of a blob file as JSON.
fn values_json(v: &BlobFileMeta, p: &Properties) -> Value {
    let mut all = blobs::facts_json(v);
    let own = json!({
        "what": "blob file", "tree": p.tree, "level": p.level, "writer": p.writer, "created_micros": p.created_micros,
        "min_seq": p.min_seq, "max_seq": p.max_seq, "first_key": escape::words(&p.first_key), "last_key": escape::words(&p.last_key),
        "raw_key_bytes": p.raw_key_bytes, "largest_entry": p.largest_entry, "compression": p.compression.name(),
    });
    if let (Some(all), Value::Object(own)) = (all.as_object_mut(), own) {
        all.extend(own);
    }
    all
}

/// Returns the name of a tree, to print after its number, if known.
fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" {name:?}") }
}

/// Returns the position up to which the table has the log.
fn log_words(p: &Properties) -> String {
    match p.log_end {
        0 => "not known".into(),
        end => format!("below position {end} of writer {:016x}", p.log_writer),
    }
}

fn value_lines(v: &BlobFileMeta, p: &Properties) -> Vec<(&'static str, String)> {
    vec![
        ("blob file", v.id.to_string()),
        ("identity", v.identity.to_string()),
        ("size", bytes(v.size)),
        (
            "values",
            format!("{} ({}, {} in the file)", count(v.values), bytes(v.raw_bytes), bytes(v.bytes)),
        ),
        ("largest", format!("{} with its key", bytes(p.largest_entry))),
        ("first key", text::key(&p.first_key)),
        ("last key", text::key(&p.last_key)),
        ("sequence", format!("{} to {}", p.min_seq, p.max_seq)),
        ("tree, level", format!("{}, {}", p.tree, p.level)),
        ("compression", p.compression.name().to_owned()),
        ("created", text::moment(p.created_micros)),
        ("writer", p.writer.clone()),
    ]
}

fn lines(
    p: &Properties,
    identity: TableIdentity,
    size: u64,
    family: Option<&DescribedFile>,
) -> Vec<(&'static str, String)> {
    let raw = p.raw_key_bytes + p.raw_value_bytes;
    let mut v = vec![
        ("identity", identity.to_string()),
        ("size", bytes(size)),
        (
            "raw",
            format!(
                "{} ({} of keys, {} of values)",
                bytes(raw),
                bytes(p.raw_key_bytes),
                bytes(p.raw_value_bytes)
            ),
        ),
        (
            "entries",
            format!(
                "{} ({} deletes, {} merge operands)",
                count(p.entries),
                count(p.deletes),
                count(p.merges)
            ),
        ),
        ("range deletes", count(p.range_deletes)),
        ("largest entry", bytes(p.largest_entry)),
        ("first key", typed::key(family, &p.first_key)),
        ("last key", typed::key(family, &p.last_key)),
        ("sequence", format!("{} to {}", p.min_seq, p.max_seq)),
        ("tree, level", format!("{}{}, {}", p.tree, named(&p.tree_name), p.level)),
        ("log", log_words(p)),
        (
            "blocks",
            format!(
                "{} of {}, {}",
                count(p.data_blocks),
                bytes(p.block_size),
                p.compression.name()
            ),
        ),
        ("filter", format!("{}, {} hashes", filter_name(p.filter_bits()), count(p.filter_keys))),
        ("created", text::moment(p.created_micros)),
        ("writer", p.writer.clone()),
    ];
    let hooks = [
        ("merge operator", &p.merge_operator),
        ("compaction filter", &p.compaction_filter),
        ("summary", &p.summary),
        ("filter prefix", &p.filter_prefix),
    ];
    let named: Vec<String> =
        hooks.iter().filter(|h| !h.1.is_empty()).map(|h| format!("{} {:?}", h.0, h.1)).collect();
    if !p.values.is_empty() {
        v.push(("in blob files", blobs::uses_text(&p.values)));
    }
    if !named.is_empty() {
        v.push(("hooks", named.join(", ")));
    }
    if let Some(family) = family {
        v.push(("family", typed::full_name(family)));
    }
    if let Some(facts) = typed::facts(p) {
        v.extend(typed::fact_lines(&facts));
    }
    v
}

fn print_lines(screen: &mut Screen<'_>, path: &Path, lines: Vec<(&'static str, String)>) -> Done {
    writeln!(screen.out, "{}", screen.style.heading(path.display()))?;
    for (name, value) in lines {
        writeln!(screen.out, "  {name:<14} {value}")?;
    }
    Ok(())
}

/// Runs `props`.
pub fn run(screen: &mut Screen<'_>, args: &PropsArgs) -> Done {
    let mut all = vec![];
    for path in &args.tables {
        let (file, id) = table_file(path)?;
        if is_of_values(&*file)? {
            let values = open_values(file, path, id)?;
            let (facts, p) = (values.facts(), values.properties());
            if screen.json {
                let mut v = values_json(&facts, p);
                v["file"] = path.display().to_string().into();
                all.push(v);
                continue;
            }
            print_lines(screen, path, value_lines(&facts, p))?;
            continue;
        }
        let t = open_table(path)?;
        let family = Families::of_table(path, t.properties());
        if screen.json {
            let mut v = props_json(t.id(), t.identity(), t.size(), t.properties());
            if let Some(family) = &family {
                v["family"] = typed::full_name(family).into();
            }
            if let Some(facts) = typed::facts(t.properties()) {
                v["facts"] = typed::facts_json(&facts);
            }
            v["file"] = path.display().to_string().into();
            all.push(v);
            continue;
        }
        let lines = lines(t.properties(), t.identity(), t.size(), family.as_ref());
        print_lines(screen, path, lines)?;
    }
    if screen.json {
        writeln!(screen.out, "{:#}", Value::from(all))?;
    }
    Ok(())
}
