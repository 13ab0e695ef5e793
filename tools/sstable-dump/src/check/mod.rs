//! `sstable-dump check`: verifies a file or a whole store, and reports all errors, not only the
//! first.
//!
//! For a store it checks, in this order:
//! - `CURRENT` and the manifest;
//! - each live table and blob file, by itself and against the manifest;
//! - that each reference to a blob leads to its value;
//! - that newer runs have newer versions;
//! - the log, from the position from which it is needed;
//! - that the engine opens the store, as for writing, and reads every entry.
//!
//! The check writes nothing and takes no lock. It reads a store that a program is writing to again,
//! and reports only findings that two consecutive readings share.
//!
//! Invariant: a store is reported as sound only if the engine opened it for writing by its own
//! rules and read all of it.

pub mod findings;
mod log;
pub mod opening;
pub mod shadow;
mod store;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::Env;
use firn_kv::internals::manifest::{self, manifest_number};
use firn_kv::internals::wal::segment_number;
use firn_kv::{Error, ErrorKind};
use firn_tools::output::{Done, Failure, bytes, things};
use firn_tools::shell;
use firn_wide::internals::store::loss;
use serde_json::json;

use crate::Screen;
use crate::check::findings::{Finding, FindingKind as Trouble, FindingPlace, print_findings};
use crate::schema::definitions::Definitions;
use crate::store::names::{Rename, TreeNames, holds, own_name};
use crate::store::target::{TargetKind, dir_of, env, kind, table_number};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Verifies checksums and positions of all blocks, the order of keys, index, filter, counts and bounds. For a store it also verifies the
manifest, its description of each table and blob file, references to blobs, that newer runs have newer versions, and the log. Finally
the engine opens the store as for writing (its writes stay in memory) and reads every entry: only then is the store sound.
Each finding has a kind (damaged, missing, misnamed, foreign, outdated, newer, unreadable, discarded, refused, undefined). It names
tree, table, file, offset, block and keys, and advises what to do. A file under a wrong name is recognised by its content.
Exit code 1 if there are findings. If a program is writing to the store, check reads it again until two consecutive readings agree, and
prints only findings that both have.

Examples:
  sstable-dump check firn-data
  sstable-dump check firn-data/00000012.sst
  sstable-dump check firn-data --json | jq '.errors[] | .finding, .file, .table, .typed_keys'
  sstable-dump check *.sst && echo all sound";

/// Arguments of `check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Stores, tables, blob files, log segments, manifests
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// Counts of verified items, and all findings.
#[derive(Default)]
pub struct Findings {
    tables: u64,
    blocks: u64,
    entries: u64,
    bytes: u64,
    records: u64,
    value_files: u64,
    values: u64,
    /// All findings.
    pub all: Vec<Finding>,
    /// Notes that are not damage.
    pub notes: Vec<String>,
    /// The store, for advice; `None` for a single file.
    dir: Option<PathBuf>,
    /// Files to rename to their true names.
    renames: Vec<Rename>,
    /// Whether a manifest lists the store's files.
    has_manifest: bool,
    /// Whether the engine opens the store for writing; `None` for a single file.
    pub opens: Option<bool>,
    /// Whether the engine opens the store for reading.
    opens_to_read: bool,
    /// Number of entries that the engine read.
    pub read: u64,
    /// The tree that is being checked.
    place: Option<FindingPlace>,
    /// Definitions of trees as tables and column families.
    definitions: Definitions,
}

impl Findings {
    /// Adds an error; its kind follows from the error.
    fn add(&mut self, error: Error) {
        self.add_as(Trouble::of(&error), error);
    }

    fn add_as(&mut self, kind: Trouble, error: Error) {
        let advice = self.advice(kind, &error);
        self.all.push(Finding { kind, error, place: self.place.clone(), advice });
    }

    fn about(&mut self, tree: Option<&str>) {
        self.place = tree.map(|tree| FindingPlace {
            tree: tree.to_owned(),
            defined: self.definitions.of_tree(tree).cloned(),
        });
    }

    /// Returns advice for a finding.
    fn advice(&self, kind: Trouble, e: &Error) -> String {
        let path = e.file().unwrap_or(Path::new(""));
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let what = self.dir.as_deref().unwrap_or(path);
        let here = shell::path(what);
        let save = format!("save the rest: `sstable-dump salvage {here} --out NEW`");
        let of_manifest = name.starts_with("MANIFEST") || name == "CURRENT";
        match kind {
            Trouble::Misnamed if self.has_manifest => {
                format!(
                    "`sstable-dump repair {here} --rename` gives all files their names back, and overwrites none"
                )
            }
            Trouble::Misnamed => format!(
                "`sstable-dump repair {here} --out NEW` takes it for what it holds; --rename needs the manifest"
            ),
            Trouble::Unreadable => format!(
                "nothing says that it is damaged: make it readable (look at its owner, its permissions and the device) and check again, or {save}"
            ),
            Trouble::Outdated => format!(
                "put back the newest manifest and CURRENT from a backup, or rebuild them by the tables: `sstable-dump repair {here} --out NEW`"
            ),
            Trouble::Foreign if of_manifest => format!(
                "choose the one that counts: `sstable-dump repair {here} --out NEW --manifest NAME`, or `--without-manifest`"
            ),
            Trouble::Undefined => self
                .place
                .as_ref()
                .map_or_else(String::new, |p| loss::words_of_undefined(&p.tree).1),
            Trouble::Newer => {
                "use the version of Firn that wrote it; this one must not change the store".into()
            }
            Trouble::Foreign => {
                format!(
                    "put the right file here from a backup, or {save}; this one belongs to another store or time"
                )
            }
            Trouble::GivenUp => format!(
                "save them before a program opens the store for writing, which makes the loss final: `sstable-dump salvage {here} --out NEW`"
            ),
            Trouble::Refused => {
                format!(
                    "build a store that opens from all existing files: `sstable-dump repair {here} --out NEW`"
                )
            }
            Trouble::Damaged | Trouble::Missing if of_manifest => {
                format!(
                    "put back the file from a backup, or rebuild it: `sstable-dump repair {here} --out NEW`"
                )
            }
            Trouble::Damaged | Trouble::Missing
                if name.ends_with(".sst") || name.ends_with(".wal") =>
            {
                format!("put back the file of this name from a backup, or {save}")
            }
            Trouble::Damaged | Trouble::Missing if e.file().is_none() || path == what => format!(
                "restore the store from a backup, or rebuild it from what is there: `sstable-dump repair {here} --out NEW`"
            ),
            Trouble::Damaged | Trouble::Missing => {
                format!("put back the file from a backup, or {save}")
            }
        }
    }

    fn count(&mut self, size: u64, r: firn_kv::internals::sstable::VerifyReport) {
        self.tables += 1;
        self.blocks += r.blocks;
        self.entries += r.entries;
        self.bytes += size;
    }
}

fn check_manifest(env: &dyn Env, path: &Path, number: u64, mut f: Findings) -> Done<Findings> {
    f.bytes = env.file_len(path)?;
    match manifest::read(env, &dir_of(path), number).and_then(|log| log.replay().map(|_| log)) {
        Ok(log) => {
            f.records = log.frames.len() as u64;
            if log.end < f.bytes {
                f.notes.push(format!("{}: torn end at offset {}", path.display(), log.end));
            }
        }
        Err(e) if e.kind() == ErrorKind::Corruption => f.add(e),
        Err(e) => return Err(e.into()),
    }
    Ok(f)
}

/// Checks the file or store at `path`.
///
/// # Errors
/// Errors that prevent reading it. Damage is a finding.
pub fn check(path: &Path) -> Done<Findings> {
    let kind = kind(path)?;
    if kind == TargetKind::Store {
        return store::check(path);
    }
    let mut f = Findings::default();
    let own = own_name(path)?.filter(|own| path.file_name() != Some(own.as_ref()));
    if let Some(own) = &own {
        let words =
            format!("{}: this file holds {}, and is checked as that", path.display(), holds(own));
        match kind {
            // It may be an intended copy, or a recycled segment that still has its former header.
            TargetKind::Table(None) | TargetKind::Wal(_) => f.notes.push(words),
            _ => {
                let error =
                    Error::corruption(format!("this file holds {}", holds(own))).in_file(path);
                let advice = format!("rename it to {own}, or put back the original file");
                f.all.push(Finding { kind: Trouble::Misnamed, error, place: None, advice });
            }
        }
    }
    let alone = own.as_deref().map(|own| TreeNames::alone(path, own));
    let env: &dyn Env = match &alone {
        Some(names) => names,
        None => &*env(),
    };
    let own = own.unwrap_or_default();
    match (kind, segment_number(&own), manifest_number(&own)) {
        (_, Some(number), _) | (TargetKind::Wal(number), _, None)
            if table_number(&own).is_none() =>
        {
            log::check_segment(env, path, number, f)
        }
        (_, _, Some(number)) | (TargetKind::Manifest(number), ..)
            if table_number(&own).is_none() =>
        {
            check_manifest(env, path, number, f)
        }
        _ => {
            table::check(path, 0, None, &mut f)?;
            Ok(f)
        }
    }
}

/// Runs `check`.
pub fn run(screen: &mut Screen<'_>, args: &CheckArgs) -> Done {
    let (mut wrong, mut all) = (false, vec![]);
    for path in &args.paths {
        let f = check(path)?;
        wrong |= !f.all.is_empty();
        if screen.json {
            all.push(f.json(path));
            continue;
        }
        print(screen, path, &f)?;
    }
    if screen.json {
        let v = if all.len() == 1 { all.remove(0) } else { all.into() };
        writeln!(screen.out, "{v:#}")?;
    }
    if wrong { Err(Failure::Found) } else { Ok(()) }
}

impl Findings {
    /// Returns the findings as JSON.
    fn json(&self, path: &Path) -> serde_json::Value {
        let counts: BTreeMap<&str, u64> = self.counts().into_iter().collect();
        let renames: Vec<_> = self
            .renames
            .iter()
            .map(|r| json!({ "from": r.from.display().to_string(), "to": r.to.display().to_string() }))
            .collect();
        json!({
            "path": path.display().to_string(), "sound": self.all.is_empty(), "opens": self.opens,
            "opens_to_read": self.opens.map(|_| self.opens_to_read), "read": self.read,
            "tables": self.tables, "blocks": self.blocks, "entries": self.entries, "bytes": self.bytes, "records": self.records,
            "value_files": self.value_files, "values": self.values,
            "found": counts, "notes": self.notes, "renames": renames,
            "errors": self.all.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }

    /// Returns the number of findings by kind.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts: Vec<(&'static str, u64)> = vec![];
        for finding in &self.all {
            let word = finding.kind.word();
            match counts.iter_mut().find(|c| c.0 == word) {
                Some(c) => c.1 += 1,
                None => counts.push((word, 1)),
            }
        }
        counts
    }
}

fn print(screen: &mut Screen<'_>, path: &Path, f: &Findings) -> Done {
    let style = screen.style;
    print_findings(screen, path, &f.all)?;
    for r in &f.renames {
        writeln!(screen.out, "to be renamed: {} to {}", r.from.display(), r.to.display())?;
    }
    for n in &f.notes {
        writeln!(screen.out, "note: {n}")?;
    }
    let mut what = vec![];
    if f.tables > 0 {
        what.push(things(f.tables, "table", "tables"));
        what.push(things(f.blocks, "block", "blocks"));
        what.push(things(f.entries, "entry", "entries"));
    }
    if f.value_files > 0 {
        what.push(things(f.value_files, "blob file", "blob files"));
        what.push(things(f.values, "value", "values"));
    }
    if f.records > 0 {
        what.push(things(f.records, "record", "records"));
    }
    what.push(bytes(f.bytes));
    let verdict = match f.all.len() as u64 {
        0 => style.good("sound"),
        n => {
            let counts = f.counts();
            let kinds =
                counts.iter().map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", ");
            style.bad(format!("{}: {kinds}", things(n, "finding", "findings")))
        }
    };
    let opened = match f.opens {
        Some(true) => {
            format!("; the engine opens it, and read {}", things(f.read, "pair", "pairs"))
        }
        Some(false) if f.opens_to_read => {
            format!(
                "; the engine opens it for reading only, and read {}",
                things(f.read, "pair", "pairs")
            )
        }
        Some(false) => "; the engine does not open it".into(),
        None => String::new(),
    };
    Ok(writeln!(screen.out, "{}: {verdict} ({}{opened})", path.display(), what.join(", "))?)
}
