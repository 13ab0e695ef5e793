//! Findings, as text for people and as JSON: what kind of trouble, in which file, of which
//! tree and table, and what to do.
//!
//! Invariants: numbers in what is printed count everything; only lines are left out, and it says
//! so. An advice never names a command that overwrites or removes a file.

use std::path::Path;

use firn_kv::{Error, ErrorKind};
use firn_tools::escape;
use firn_tools::output::{Done, things};
use serde_json::{Value, json};

use crate::Screen;
use crate::definitions::Defined;

/// Most lines about one file.
pub const MOST: usize = 20;

/// What kind of trouble it is: kinds differ where an operator would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes are not what was written.
    Damaged,
    /// A file that the store needs is not there.
    Missing,
    /// What a file holds is under another name.
    Misnamed,
    /// A file is of another store, or of another time.
    Foreign,
    /// The manifest is of an older time than the tables.
    Outdated,
    /// A file is of a newer version.
    Newer,
    /// The system does not let it be read.
    Unreadable,
    /// Records of the log that the next opening gives up.
    GivenUp,
    /// The engine does not take it, though each file is as it was written.
    Refused,
    /// A table or column family of which only the data is there.
    Undefined,
}

impl FindingKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            FindingKind::Damaged => "damaged",
            FindingKind::Missing => "missing",
            FindingKind::Misnamed => "misnamed",
            FindingKind::Foreign => "foreign",
            FindingKind::Outdated => "outdated",
            FindingKind::Newer => "newer",
            FindingKind::Unreadable => "unreadable",
            FindingKind::GivenUp => "given up",
            FindingKind::Refused => "refused",
            FindingKind::Undefined => "undefined",
        }
    }

    /// That of an error of the engine.
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
pub struct FindingPlace {
    /// Its name.
    pub tree: String,
    /// What it is to users.
    pub defined: Option<Defined>,
}

impl FindingPlace {
    /// In words.
    pub fn words(&self) -> String {
        let tree = format!("tree {:?}", self.tree);
        self.defined.as_ref().map_or(tree.clone(), |d| format!("{} ({tree})", d.words()))
    }

    /// Both ends of a range of keys in the tree's own types; `None` where they have none.
    pub fn typed_keys(&self, keys: (&[u8], &[u8])) -> Option<(String, String)> {
        let defined = self.defined.as_ref()?;
        Some((defined.key(keys.0)?, defined.key(keys.1)?))
    }

    /// Adds its fields to an object.
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

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What kind of trouble it is.
    pub kind: FindingKind,
    /// What, and where.
    pub error: Error,
    /// The tree that it is about, where it is about one.
    pub place: Option<FindingPlace>,
    /// What to do.
    pub advice: String,
}

impl Finding {
    /// As JSON.
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

    /// What it says of which place: the same for two that say the same of the same place.
    pub fn identity(&self) -> String {
        format!("{} {:?} {}", self.kind.word(), self.tree(), self.error)
    }

    fn tree(&self) -> Option<&str> {
        self.place.as_ref().map(|p| p.tree.as_str())
    }
}

/// Findings in a row about blocks that follow each other in one file.
struct FindingRow<'a> {
    first: &'a Finding,
    last: &'a Finding,
    blocks: usize,
}

/// Whether `b` is of the block behind that of `a`, and says the same: its keys begin where those of
/// `a` end.
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

/// Prints what was found in `path`.
///
/// # Errors
/// When the output cannot be written.
pub fn print_findings(screen: &mut Screen<'_>, path: &Path, findings: &[Finding]) -> Done {
    let mut advised = String::new();
    for of_file in
        findings.chunk_by(|a, b| a.error.file() == b.error.file() && a.tree() == b.tree())
    {
        let rows = rows(of_file);
        for r in rows.iter().take(MOST) {
            let word = format!("{}:", r.first.kind.word());
            writeln!(screen.out, "{} {}", screen.style.bad(word), text(r, path))?;
            if r.first.advice != advised {
                writeln!(screen.out, "         {}", r.first.advice)?;
                advised.clone_from(&r.first.advice);
            }
        }
        let rest: usize = rows.iter().skip(MOST).map(|r| r.blocks).sum();
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
