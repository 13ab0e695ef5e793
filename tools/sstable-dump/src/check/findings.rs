//! Findings, as text and as JSON: kind of fault, file, tree and table, and advice.
//!
//! Invariants: printed numbers count all findings; only lines are omitted, and the output says so.
//! Advice never names a command that overwrites or removes a file.

use std::path::Path;

use firn_kv::{Error, ErrorKind};
use firn_tools::escape;
use firn_tools::output::{Done, things};
use serde_json::{Value, json};

use crate::Screen;
use crate::schema::definitions::TreeDefinition;

/// Maximum number of lines per file.
pub const MAX_LINES: usize = 20;

/// Kind of a fault. Kinds differ if an operator would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes differ from those that were written.
    Damaged,
    /// A file that the store needs is missing.
    Missing,
    /// The content of a file belongs to another name.
    Misnamed,
    /// A file belongs to another store or another time.
    Foreign,
    /// The manifest is older than the tables.
    Outdated,
    /// A file has a newer version.
    Newer,
    /// The operating system does not allow reading it.
    Unreadable,
    /// Log records that the next opening discards.
    Discarded,
    /// The engine rejects it, although each file is as it was written.
    Refused,
    /// A table or column family with data but without a definition.
    Undefined,
}

impl FindingKind {
    /// Returns the word for this kind in the output.
    pub fn word(self) -> &'static str {
        match self {
            FindingKind::Damaged => "damaged",
            FindingKind::Missing => "missing",
            FindingKind::Misnamed => "misnamed",
            FindingKind::Foreign => "foreign",
            FindingKind::Outdated => "outdated",
            FindingKind::Newer => "newer",
            FindingKind::Unreadable => "unreadable",
            FindingKind::Discarded => "discarded",
            FindingKind::Refused => "refused",
            FindingKind::Undefined => "undefined",
        }
    }

    /// Returns the kind of an engine error.
    pub fn of(e: &Error) -> FindingKind {
        match e.kind() {
            ErrorKind::Incompatible => FindingKind::Newer,
            ErrorKind::NotFound => FindingKind::Missing,
            ErrorKind::Io => FindingKind::Unreadable,
            _ => FindingKind::Damaged,
        }
    }
}

/// The tree that a finding is about.
#[derive(Clone, Debug)]
pub struct FindingTree {
    /// Name of the tree.
    pub tree: String,
    /// Definition of the tree as a table or column family.
    pub defined: Option<TreeDefinition>,
}

impl FindingTree {
    /// Returns the place as text.
    pub fn words(&self) -> String {
        let tree = format!("tree {:?}", self.tree);
        self.defined.as_ref().map_or(tree.clone(), |d| format!("{} ({tree})", d.words()))
    }

    /// Returns both ends of a range of keys in the types of the tree; `None` if it has no types.
    pub fn typed_keys(&self, keys: (&[u8], &[u8])) -> Option<(String, String)> {
        let defined = self.defined.as_ref()?;
        Some((defined.key(keys.0)?, defined.key(keys.1)?))
    }

    /// Adds the fields of the place to a JSON object.
    pub fn put(&self, object: &mut Value) {
        object["tree"] = self.tree.as_str().into();
        if let Some(d) = &self.defined {
            object["keyspace"] = d.keyspace.as_str().into();
            object[if d.cql { "table" } else { "column_family" }] = d.name.as_str().into();
            if let Some(index) = &d.index {
                object["index"] = index.as_str().into();
            }
        }
    }
}

/// A fault that the check found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Kind of the fault.
    pub kind: FindingKind,
    /// Error with its position.
    pub error: Error,
    /// The tree that it is about, if any.
    pub place: Option<FindingTree>,
    /// Advice for the operator.
    pub advice: String,
}

impl Finding {
    /// Returns the finding as JSON.
    pub fn json(&self) -> Value {
        let mut v = firn_tools::json::error(&self.error, &self.advice);
        v["finding"] = self.kind.word().into();
        if let Some(place) = &self.place {
            place.put(&mut v);
            if let Some((a, b)) = self.error.key_range().and_then(|keys| place.typed_keys(keys)) {
                v["typed_keys"] = json!([a, b]);
            }
        }
        v
    }

    /// Returns a text that is equal for two findings with the same kind, tree and error.
    pub fn identity(&self) -> String {
        format!("{} {:?} {}", self.kind.word(), self.tree(), self.error)
    }

    fn tree(&self) -> Option<&str> {
        self.place.as_ref().map(|p| p.tree.as_str())
    }
}

/// Consecutive findings about adjacent blocks of one file.
struct FindingRow<'a> {
    first: &'a Finding,
    last: &'a Finding,
    blocks: usize,
}

/// Reports whether `b` has the same error as `a` in the next block: its keys begin at the end of
/// those of `a`.
fn follows(a: &Finding, b: &Finding) -> bool {
    let (x, y) = (&a.error, &b.error);
    let same =
        x.block_kind() == y.block_kind() && x.message() == y.message() && x.offset() < y.offset();
    same && a.kind == b.kind
        && x.key_range()
            .is_some_and(|(_, end)| y.key_range().is_some_and(|(start, _)| start == end))
}

fn rows(findings: &[Finding]) -> Vec<FindingRow<'_>> {
    let rows = findings.chunk_by(follows);
    rows.filter_map(|c| Some(FindingRow { first: c.first()?, last: c.last()?, blocks: c.len() }))
        .collect()
}

/// Prints the findings for `path`.
///
/// # Errors
/// If the output cannot be written.
pub fn print_findings(screen: &mut Screen<'_>, path: &Path, findings: &[Finding]) -> Done {
    let mut advised = String::new();
    for of_file in
        findings.chunk_by(|a, b| a.error.file() == b.error.file() && a.tree() == b.tree())
    {
        let rows = rows(of_file);
        for r in rows.iter().take(MAX_LINES) {
            let word = format!("{}:", r.first.kind.word());
            writeln!(screen.out, "{} {}", screen.style.bad(word), text(r, path))?;
            if r.first.advice != advised {
                writeln!(screen.out, "         {}", r.first.advice)?;
                advised.clone_from(&r.first.advice);
            }
        }
        let rest: usize = rows.iter().skip(MAX_LINES).map(|r| r.blocks).sum();
        if rest > 0 {
            writeln!(screen.out, "         and {rest} more in this file (--json lists all)")?;
        }
    }
    Ok(())
}

fn text(r: &FindingRow<'_>, path: &Path) -> String {
    let (first, last) = (&r.first.error, &r.last.error);
    let mut line = first.file().unwrap_or(path).display().to_string();
    if let Some(o) = first.offset() {
        line += &format!(", offset {o}");
        if let Some(to) = last.offset().filter(|_| r.blocks > 1) {
            line += &format!(" to {to}, {}", things(r.blocks as u64, "block", "blocks"));
        }
    }
    if let Some(b) = first.block_kind() {
        line += &format!(", {b}");
    }
    line += &format!(": {}", first.message());
    if let Some(place) = &r.first.place {
        line += &format!("\n         of {}", place.words());
    }
    if let (Some((a, _)), Some((_, b))) = (first.key_range(), last.key_range()) {
        let typed = r.first.place.as_ref().and_then(|p| p.typed_keys((a, b)));
        let (a, b) = typed.unwrap_or_else(|| (escape::words(a), escape::words(b)));
        line += &format!("\n         keys {a} to {b}");
    }
    line
}
