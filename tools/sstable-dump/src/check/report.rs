//! The findings of a check, with counts of verified items and with advice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_kv::Error;
use firn_kv::internals::sstable::VerifyReport;
use firn_tools::output::{Done, bytes, things};
use firn_tools::shell;
use firn_wide::internals::store::loss;
use serde_json::{Value, json};

use crate::Screen;
use crate::check::findings::{Finding, FindingKind, FindingTree, print_findings};
use crate::schema::definitions::Definitions;
use crate::store::names::FileRename;

/// Counts of verified items, and all findings.
#[derive(Default)]
pub struct Findings {
    /// Number of tables.
    pub tables: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of entries of tables.
    pub entries: u64,
    /// Number of bytes of files.
    pub bytes: u64,
    /// Number of log records, or of frames of a manifest.
    pub records: u64,
    /// Number of blob files.
    pub blob_files: u64,
    /// Number of values in them.
    pub values: u64,
    /// All findings.
    pub all: Vec<Finding>,
    /// Notes that are not damage.
    pub notes: Vec<String>,
    /// The store, for advice; `None` for a single file.
    pub dir: Option<PathBuf>,
    /// Files to rename to their true names.
    pub renames: Vec<FileRename>,
    /// Whether a manifest lists the store's files.
    pub has_manifest: bool,
    /// Whether the engine opens the store for writing; `None` for a single file.
    pub opens: Option<bool>,
    /// Whether the engine opens the store for reading.
    pub opens_to_read: bool,
    /// Number of entries that the engine read.
    pub read: u64,
    /// The tree that is being checked.
    pub place: Option<FindingTree>,
    /// Definitions of trees as tables and column families.
    pub definitions: Definitions,
}

impl Findings {
    /// Adds an error; its kind follows from the error.
    pub fn add(&mut self, error: Error) {
        self.add_as(FindingKind::of(&error), error);
    }

    /// Adds an error as a finding of this kind.
    pub fn add_as(&mut self, kind: FindingKind, error: Error) {
        let advice = self.advice(kind, &error);
        self.all.push(Finding { kind, error, place: self.place.clone(), advice });
    }

    /// Adds the error of a file that cannot be read, with its path.
    pub fn add_in(&mut self, path: &Path, error: Error) {
        self.add(if error.file().is_some() { error } else { error.in_file(path) });
    }

    /// Sets the tree of the following findings.
    pub fn about(&mut self, tree: Option<&str>) {
        self.place = tree.map(|tree| FindingTree {
            tree: tree.to_owned(),
            defined: self.definitions.of_tree(tree).cloned(),
        });
    }

    /// Returns advice for a finding.
    fn advice(&self, kind: FindingKind, e: &Error) -> String {
        let path = e.file().unwrap_or(Path::new(""));
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let what = self.dir.as_deref().unwrap_or(path);
        let here = shell::path(what);
        let save = format!("save the rest: `sstable-dump salvage {here} --out NEW`");
        let of_manifest = name.starts_with("MANIFEST") || name == "CURRENT";
        match kind {
            FindingKind::Misnamed if self.has_manifest => {
                format!(
                    "`sstable-dump repair {here} --rename` gives all files their names back, and overwrites none"
                )
            }
            FindingKind::Misnamed => format!(
                "`sstable-dump repair {here} --out NEW` takes it for what it holds; --rename needs the manifest"
            ),
            FindingKind::Unreadable => format!(
                "nothing says that it is damaged: make it readable (look at its owner, its permissions and the device) and check again, or {save}"
            ),
            FindingKind::Outdated => format!(
                "put back the newest manifest and CURRENT from a backup, or rebuild them by the tables: `sstable-dump repair {here} --out NEW`"
            ),
            FindingKind::Foreign if of_manifest => format!(
                "choose the one that counts: `sstable-dump repair {here} --out NEW --manifest NAME`, or `--without-manifest`"
            ),
            FindingKind::Undefined => self
                .place
                .as_ref()
                .map_or_else(String::new, |p| loss::words_of_undefined(&p.tree).1),
            FindingKind::Newer => {
                "use the version of Firn that wrote it; this one must not change the store".into()
            }
            FindingKind::Foreign => {
                format!(
                    "put the right file here from a backup, or {save}; this one belongs to another store or time"
                )
            }
            FindingKind::Discarded => format!(
                "save them before a program opens the store for writing, which makes the loss final: `sstable-dump salvage {here} --out NEW`"
            ),
            FindingKind::Refused => {
                format!(
                    "build a store that opens from all existing files: `sstable-dump repair {here} --out NEW`"
                )
            }
            FindingKind::Damaged | FindingKind::Missing if of_manifest => {
                format!(
                    "put back the file from a backup, or rebuild it: `sstable-dump repair {here} --out NEW`"
                )
            }
            FindingKind::Damaged | FindingKind::Missing
                if name.ends_with(".sst") || name.ends_with(".wal") =>
            {
                format!("put back the file of this name from a backup, or {save}")
            }
            FindingKind::Damaged | FindingKind::Missing if e.file().is_none() || path == what => {
                format!(
                    "restore the store from a backup, or rebuild it from what is there: `sstable-dump repair {here} --out NEW`"
                )
            }
            FindingKind::Damaged | FindingKind::Missing => {
                format!("put back the file from a backup, or {save}")
            }
        }
    }

    /// Counts a table of `size` bytes.
    pub fn count(&mut self, size: u64, r: VerifyReport) {
        self.tables += 1;
        self.blocks += r.blocks;
        self.entries += r.entries;
        self.bytes += size;
    }

    /// Returns the findings as JSON.
    pub fn json(&self, path: &Path) -> Value {
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
            "blob_files": self.blob_files, "values": self.values,
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

/// Prints the findings for `path`, and the counts.
///
/// # Errors
/// If the output cannot be written.
pub fn print_report(screen: &mut Screen<'_>, path: &Path, f: &Findings) -> Done {
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
    if f.blob_files > 0 {
        what.push(things(f.blob_files, "blob file", "blob files"));
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
