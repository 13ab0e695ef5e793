//! Prints cells of a wide-column store's tables in the types of their families. Used by commands
//! that get a file or a store and find its schema (the tree `system.schema`).
//!
//! Cells that cannot be decoded are printed as bytes; that is never an error. Reasons are a missing
//! or damaged schema, types that only the writing program knows, and damaged entries.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::sstable::Properties;
use firn_tools::escape::{self, Show};
use firn_tools::output::{Done, count};
use firn_wide::Registry;
use firn_wide::internals::cell::CellFacts;
use firn_wide::internals::store::SCHEMA_TREE;
use firn_wide_text::files::{DescribedFile, FileCatalog, TypedText};
use serde_json::{Map, Value, json};

use crate::check::opening;
use crate::dump::text;
use crate::store::target::{dir_of, env};

/// Name of the summary hook that collects [`CellFacts`].
const FACTS: &str = "firn.facts";
/// Number of entries that are printed at once, with columns as wide as the widest cell so far.
const BLOCK: usize = 1000;

/// The families of a store, by the numbers of their trees.
#[derive(Default)]
pub struct Families {
    by_tree: BTreeMap<u32, DescribedFile>,
    catalog: FileCatalog,
}

impl Families {
    /// Reads the families of the store in `dir`; none without a schema. Prints the reason to
    /// standard error if the schema cannot be read.
    pub fn of_store(dir: &Path) -> Families {
        let Ok(Some((state, _))) = Manifest::load(&*env(), dir) else { return Families::default() };
        if state.tree_named(SCHEMA_TREE).is_none() {
            return Families::default();
        }
        let catalog = match opening::open(dir).and_then(|db| opening::records(&db)) {
            Ok(records) => FileCatalog::read(&records, &Arc::new(Registry::new())),
            Err(e) => {
                eprintln!("note: the schema can't be read, so everything is shown as bytes: {e}");
                return Families::default();
            }
        };
        for problem in catalog.problems() {
            eprintln!("note: shown as bytes: {problem}");
        }
        let named =
            state.trees.values().filter_map(|t| Some((t.id, catalog.of_tree(&t.name)?.clone())));
        Families { by_tree: named.collect(), catalog }
    }

    /// Returns the family of a table, from the store that contains the table.
    pub fn of_table(path: &Path, p: &Properties) -> Option<DescribedFile> {
        // Only tables of families have this summary. Reading a schema costs a replay of the log.
        if p.summary != FACTS {
            return None;
        }
        Families::of_store(&dir_of(path)).by_tree.remove(&p.tree)
    }

    /// Returns the family in the tree with this name.
    pub fn of_tree(&self, name: &str) -> Option<&DescribedFile> {
        self.catalog.of_tree(name)
    }

    /// Returns the family with this name, `keyspace.family`.
    pub fn named(&self, name: &str) -> Option<&DescribedFile> {
        self.catalog.families().find(|d| full_name(d) == name)
    }

    /// Returns the names of all families.
    pub fn names(&self) -> Vec<String> {
        self.catalog.families().map(full_name).collect()
    }
}

/// Returns `keyspace.family`.
pub fn full_name(family: &DescribedFile) -> String {
    format!("{}.{}", family.def.keyspace(), family.def.name())
}

/// Returns text that a terminal can print on one line.
fn line(text: &str) -> String {
    escape::words(text.as_bytes())
}

fn second(s: i64) -> String {
    match u64::try_from(s).ok().and_then(|s| s.checked_mul(1_000_000)) {
        Some(micros) if (1..=253_402_300_799_000_000).contains(&micros) => text::moment(micros),
        _ => format!("second {s}"),
    }
}

/// Returns a key of a family's tree as typed text, or as bytes.
pub fn key(family: Option<&DescribedFile>, bytes: &[u8]) -> String {
    family
        .and_then(|f| f.key_words(bytes))
        .map_or_else(|| text::key(bytes), |words| text::short(words.as_bytes(), 60))
}

/// Returns the value of a cell as text.
pub fn value(typed: &TypedText) -> String {
    let gone = typed.deleted.map(|s| format!("({}, {})", typed.what, second(s)));
    gone.or_else(|| typed.value.clone()).unwrap_or_default()
}

/// Returns the time to live as text.
fn ttl(typed: &TypedText) -> String {
    typed
        .ttl
        .map_or_else(|| "-".into(), |(ttl, expires)| format!("{ttl} s, to {}", second(expires)))
}

/// Returns an entry as JSON.
pub fn cell_json(family: &DescribedFile, typed: &TypedText) -> Value {
    let mut o = Map::new();
    o.insert("family".into(), full_name(family).into());
    o.insert("what".into(), typed.what.into());
    o.insert("key".into(), typed.key.as_str().into());
    let texts =
        [("super_column", &typed.super_column), ("column", &typed.column), ("value", &typed.value)];
    for (name, text) in texts {
        if let Some(text) = text {
            o.insert(name.into(), text.as_str().into());
        }
    }
    o.insert("timestamp".into(), typed.timestamp.into());
    if let Some((ttl, expires)) = typed.ttl {
        o.insert("ttl".into(), ttl.into());
        o.insert("expires".into(), expires.into());
    }
    if let Some(deleted) = typed.deleted {
        o.insert("deleted".into(), deleted.into());
    }
    o.into()
}

/// Entries as lines with columns.
pub struct TypedLines {
    family: DescribedFile,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
    begun: bool,
}

impl TypedLines {
    /// Creates a printer for entries of a family.
    pub fn new(family: DescribedFile) -> TypedLines {
        TypedLines { family, rows: vec![], widths: vec![], begun: false }
    }

    fn header(&self) -> Vec<&'static str> {
        let mut all =
            vec!["seq", "kind", "key", "super column", "column", "timestamp", "ttl", "value"];
        if !self.family.def.is_super() {
            all.retain(|h| *h != "super column");
        }
        all
    }

    /// Adds an entry: its key and value in the tree, its sequence number and kind. Without a value
    /// only the key is printed.
    pub fn entry(&mut self, tree_key: &[u8], stored: Option<&[u8]>, seq: u64, kind: &str) {
        let typed = stored.and_then(|v| self.family.typed(tree_key, v).ok());
        let mut row = vec![seq.to_string(), kind.to_owned()];
        match typed {
            Some(t) => {
                row.push(line(&t.key));
                if self.family.def.is_super() {
                    row.push(t.super_column.as_deref().map_or_else(|| "-".into(), line));
                }
                row.push(t.column.as_deref().map_or_else(|| "-".into(), line));
                row.extend([t.timestamp.to_string(), ttl(&t), line(&value(&t))]);
            }
            None => {
                let words = self
                    .family
                    .key_words(tree_key)
                    .map_or_else(|| escape::words(tree_key), |w| line(&w));
                row.push(words);
                let columns = self.header().len();
                row.resize(columns - 1, "-".into());
                let mut bytes = vec![];
                escape::encode(stored.unwrap_or_default(), Show::Terminal, &mut bytes);
                row.push(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        self.rows.push(row);
    }

    /// Reports whether [`flush`](TypedLines::flush) is due.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= BLOCK
    }

    /// Prints the added entries.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn flush(&mut self, out: &mut dyn Write) -> Done {
        let header = self.header();
        let mut lines: Vec<Vec<String>> = vec![];
        if !std::mem::replace(&mut self.begun, true) {
            self.widths = vec![0; header.len()];
            lines.push(header.iter().map(|h| (*h).to_owned()).collect());
        }
        lines.append(&mut self.rows);
        for row in &lines {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &lines {
            let cells = row.iter().zip(&self.widths).zip(&header);
            let padded = cells.map(|((cell, &width), h)| match *h {
                "seq" | "timestamp" => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
            writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Returns the cell facts in a table's summary; `None` without such a summary.
pub fn facts(p: &Properties) -> Option<CellFacts> {
    (p.summary == FACTS).then(|| CellFacts::decode(&p.summary_bytes)).flatten()
}

/// Returns [`facts`] as lines of text.
pub fn fact_lines(f: &CellFacts) -> Vec<(&'static str, String)> {
    if f.entries == 0 {
        return vec![("cells", "0".into())];
    }
    let mut out = vec![
        (
            "cells",
            format!(
                "{}, of them {} tombstones, deletions or with a ttl",
                count(f.entries),
                count(f.droppable)
            ),
        ),
        ("timestamps", format!("{} to {}", f.min_timestamp, f.max_timestamp)),
    ];
    let last = if f.max_local == i64::MAX { "never".into() } else { second(f.max_local) };
    if f.min_local != i64::MAX {
        out.push(("expiry", format!("first {}, last {last}", second(f.min_local))));
    }
    out
}

/// Returns [`facts`] as JSON.
pub fn facts_json(f: &CellFacts) -> Value {
    let local = |s: i64| (s != i64::MAX).then_some(s);
    json!({
        "cells": f.entries, "droppable": f.droppable, "min_timestamp": f.min_timestamp, "max_timestamp": f.max_timestamp,
        "first_expiry": local(f.min_local), "last_expiry": local(f.max_local),
    })
}
