//! The report about a new store: copied and saved files, losses, unknown facts, the final check.

use std::path::Path;

use firn_tools::output::{Done, Failure, bytes, things};
use firn_tools::shell;
use serde_json::{Value, json};

use crate::Screen;
use crate::check::findings::{Finding, print_findings};
use crate::salvage::losses::{Loss, print_losses};
use crate::salvage::table::TakenTable;
use crate::schema::definitions::Definitions;
use crate::store::names::FileNames;
use firn_kv::internals::base::ops::TreeId;

/// Report about the new store.
#[derive(Default)]
pub struct NewStoreReport {
    /// Number of tables copied unchanged.
    pub copied: u64,
    /// Number of tables that could be saved only in part.
    pub rescued: u64,
    /// Number of blob files copied unchanged.
    pub blob_files: u64,
    /// Number of entries in the new store's tables.
    pub entries: u64,
    /// Number of bytes of the new store's tables.
    pub bytes: u64,
    /// Number of copied log records.
    pub records: u64,
    /// Losses.
    pub losses: Vec<Loss>,
    /// Notes about the steps and about the result.
    pub notes: Vec<String>,
    /// Unknown facts about the data: it may be lost, or deleted data may be back.
    pub unknown: Vec<String>,
    /// Unknown options. Opening a tree with options sets them again.
    pub unset: Vec<String>,
    /// Indexes that the next opening rebuilds, because entries may be missing.
    pub rebuilt: Vec<String>,
    /// Definitions of the new store's trees.
    pub definitions: Definitions,
    /// Lost definitions restored from their copies: keys and values of records.
    pub restored: Vec<(Vec<u8>, Vec<u8>)>,
    /// Findings of the final check of the new store.
    pub verdict: Vec<Finding>,
    /// Number of entries that the engine read in the new store.
    pub read: u64,
}

impl NewStoreReport {
    /// Adds notes about files under wrong names.
    pub fn add_names(&mut self, names: &FileNames) {
        for t in names.findings() {
            let file = t.error.file().unwrap_or(Path::new("")).display();
            let is_segment =
                t.error.file().is_some_and(|f| f.extension().is_some_and(|e| e == "wal"));
            let read = match t.read {
                Some(_) => ": it has been read as such",
                None if t.foreign => {
                    ": left out (`sstable-dump repair --without-manifest` takes it all the same)"
                }
                None => "",
            };
            let words = format!("{file}: {}{read}", t.error.message());
            // If a table should be in this place, it will be reported as lost.
            let says = if t.foreign && is_segment { &mut self.unknown } else { &mut self.notes };
            says.push(words);
        }
        self.notes.extend(names.stray_notes());
    }

    /// Reports whether the new store certainly has all data of the old one.
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.unknown.is_empty()
    }

    /// Reports whether data of this tree may be lost: part of its tables or of the log, or by a
    /// fact that is unknown.
    pub fn may_have_lost(&self, tree: Option<TreeId>) -> bool {
        !self.unknown.is_empty()
            || !self.unset.is_empty()
            || self.losses.iter().any(|l| l.tree.is_none() || l.tree == tree)
    }

    /// Adds the result of taking over a table.
    pub fn note(&mut self, taken: &TakenTable, path: &Path) {
        let (table, part) = match taken {
            TakenTable::Whole(t) => {
                self.copied += 1;
                (Some(t), None)
            }
            TakenTable::Part(t, r) => {
                self.rescued += 1;
                (Some(t), Some(r))
            }
            TakenTable::Nothing(r) => (None, Some(r)),
        };
        if let Some(t) = table {
            self.entries += t.properties().entries;
            self.bytes += t.size();
        }
        if let Some(r) = part {
            self.losses.extend(r.losses.iter().cloned());
            let anew = if r.rebuilt.is_empty() {
                String::new()
            } else {
                format!("; made anew: {}", r.rebuilt.join(", "))
            };
            self.notes.push(format!("{}: {}{anew}", path.display(), r.summary()));
            self.notes.extend(r.notes.iter().map(|n| format!("{}: {n}", path.display())));
        }
    }
}

/// Prints the saved data and the losses. Returns [`Failure::Found`] if there are losses, another
/// failure if the new store is not sound.
///
/// # Errors
/// As described above; errors of the output.
pub fn print(screen: &mut Screen<'_>, dir: &Path, out: &Path, r: &NewStoreReport) -> Done {
    if screen.json {
        let v = json!({
            "from": dir.display().to_string(), "to": out.display().to_string(), "tables_copied": r.copied, "tables_rescued": r.rescued,
            "blob_files": r.blob_files,
            "entries": r.entries, "bytes": r.bytes, "log_records": r.records, "notes": r.notes,
            "unknown": r.unknown.iter().chain(&r.unset).collect::<Vec<_>>(),
            "losses": r.losses.iter().map(Loss::json).collect::<Vec<Value>>(), "indexes_to_rebuild": r.rebuilt,
            "sound": r.verdict.is_empty(), "read": r.read, "errors": r.verdict.iter().map(Finding::json).collect::<Vec<_>>(),
        });
        writeln!(screen.out, "{v:#}")?;
    } else {
        print_text(screen, out, r)?;
    }
    if !r.verdict.is_empty() {
        let here = shell::path(dir);
        return Err(Failure::with_next(
            format!("{}: the new store is NOT sound, see above; keep the old one", out.display()),
            format!(
                "`sstable-dump repair {here} --out OTHER --without-manifest` goes by the tables and the log alone"
            ),
        ));
    }
    if r.is_whole() { Ok(()) } else { Err(Failure::Found) }
}

fn print_text(screen: &mut Screen<'_>, out: &Path, r: &NewStoreReport) -> Done {
    let style = screen.style;
    let log = if r.records > 0 {
        format!(", {} of the log", things(r.records, "record", "records"))
    } else {
        String::new()
    };
    let values = match r.blob_files {
        0 => String::new(),
        n => format!(", {}", things(n, "blob file", "blob files")),
    };
    writeln!(
        screen.out,
        "{}: {} whole and {} in part{values}, {}, {}{log}",
        out.display(),
        things(r.copied, "table", "tables"),
        r.rescued,
        things(r.entries, "entry", "entries"),
        bytes(r.bytes)
    )?;
    print_losses(screen, &r.losses)?;
    for index in &r.rebuilt {
        writeln!(
            screen.out,
            "to be built anew: {index}: it may lack entries, and is built when the store is opened next"
        )?;
    }
    for n in &r.notes {
        writeln!(screen.out, "note: {n}")?;
    }
    for u in r.unknown.iter().chain(&r.unset) {
        writeln!(screen.out, "{} {u}", style.bad("not known:"))?;
    }
    if r.verdict.is_empty() {
        let read = things(r.read, "pair", "pairs");
        writeln!(
            screen.out,
            "the new store has been checked: {}; the engine opened it and read {read}",
            style.good("sound")
        )?;
    } else {
        print_findings(screen, out, &r.verdict)?;
    }
    Ok(())
}
