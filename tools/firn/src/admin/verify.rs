//! `firn verify`: reads and checks all data of a store, for reading only. It reports each problem
//! with its location and advice.
//!
//! The engine opens and verifies a sound store. If a store cannot be opened (damaged table footer,
//! missing file, corrupt log), the command verifies the tables one by one. So one report names all
//! problems.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use firn_kv::OsEnv;
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::iterator::opener::TableOpener;
use firn_kv::internals::iterator::table_handle::TableHandle;
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::wal::{KnownSegments, TornTail, recover_known};
use firn_kv::{DbOptions, Error, ErrorKind, ReadMode};
use firn_wide::internals::store::loss;
use serde_json::json;

use crate::store::Global;
use firn_console::names::StoreNames;
use firn_tools::io::{self, Stopwatch, stdout};
use firn_tools::output::{self, Done, Progress, things};

pub const EXAMPLES: &str = "\
Reads every live table and every referenced blob, bypassing the caches. Checks the checksum and position of each block, the order and
bounds of keys, filters and counts; the open of the store has checked the manifest and the log. Nothing is written. Exit code 1 if a
problem is found: the report lists each damaged block with its tree (and the table or family in it), file, offset and key range, and
advice. A log with the end that a crash leaves is sound; a note reports the discarded writes.

Examples:
  firn verify
  firn verify --json | jq '.errors[] | .file, .offset'
  firn --db backup-monday verify && echo sound";

/// Arguments of `firn verify`: none of its own.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {}

/// Amount of verified data, and the problems found.
#[derive(Default)]
struct VerifySummary {
    tables: u64,
    blocks: u64,
    entries: u64,
    values: u64,
    bytes: u64,
    /// Records of the log that the opening read.
    log_records: u64,
    errors: Vec<Error>,
    /// Trees of tables and families whose definitions were lost.
    undefined: Vec<String>,
    /// Remarks that are not damage.
    notes: Vec<String>,
    names: StoreNames,
}

impl VerifySummary {
    fn is_sound(&self) -> bool {
        self.errors.is_empty() && self.undefined.is_empty()
    }

    /// Adds the state of the log's end.
    fn log(&mut self, torn: &TornTail) {
        if torn.records_beyond == 0 {
            if torn.cut > 0 {
                let words = format!(
                    "the file has been cut off: {} missing from its allocated length; writes after this point are lost",
                    things(torn.cut, "byte is", "bytes are")
                );
                self.errors.push(
                    Error::corruption(words).at(&torn.file, torn.offset).block("wal segment"),
                );
            }
            return;
        }
        let beyond = format!(
            "{} with {} after it",
            things(torn.records_beyond, "sound record", "sound records"),
            things(torn.operations_beyond, "operation", "operations")
        );
        match &torn.proof {
            Some(proof) => {
                let words = format!("the log is damaged here, and not by a crash ({proof}): {beyond} are cut off, and are not read");
                self.errors.push(Error::corruption(words).at(&torn.file, torn.offset).block("wal record"));
            }
            None => self.notes.push(format!(
                "the log ends at offset {} of {} ({}), {beyond}: writes in progress when the machine stopped, not acknowledged as \
                 durable; they are discarded when the store is next opened for writing, and `sstable-dump salvage` would save them",
                torn.offset,
                torn.file.display(),
                torn.reason
            )),
        }
    }
}

/// Runs `firn verify`.
pub fn run(global: &Global, _: &VerifyArgs) -> Done {
    let watch = Stopwatch::start();
    let report = match global.open_named_quietly() {
        Ok((db, names)) => {
            let progress = Progress::bytes("verify", Some(db.stats().table_bytes()));
            let v = db.verify(|done, _| progress.at(done))?;
            let mut report = VerifySummary {
                tables: v.tables,
                blocks: v.blocks,
                entries: v.entries,
                values: v.values,
                bytes: v.bytes,
                log_records: log_records(&global.store.db).unwrap_or(0),
                ..VerifySummary::default()
            };
            report.errors = v.errors;
            report.undefined = names.undefined(&db);
            report.names = names;
            if let Some(torn) = db.torn_log() {
                report.log(torn);
            }
            report
        }
        // Damage that prevents the open is a finding too; a missing store is an error.
        Err(e) if is_damage(&global.store.db, &e) => from_below(&global.store.db, e),
        Err(other) => return Err(other.into()),
    };
    let mut report = report;
    let lock = global.store.db.join("LOCK");
    if let Some(other) = io::not_a_file(&lock) {
        let words =
            format!("there is {other} of this name: nothing can open the store for writing");
        report.errors.push(Error::new(ErrorKind::Io, words).in_file(lock));
    }
    output::judged(print(global, &report, watch.seconds()), report.is_sound())
}

/// Counts the records of the log that an opening reads.
///
/// # Errors
/// A concurrent writer has removed a segment.
fn log_records(dir: &Path) -> firn_kv::Result<u64> {
    let env = OsEnv::new();
    let Some((state, _)) = Manifest::load(&*env, dir)? else { return Ok(0) };
    let durable = state.trees.values().map(|t| t.flushed).max().unwrap_or(0);
    let known = KnownSegments { store: state.id, durable, writers: Some(&state.writers) };
    let mut records = 0;
    recover_known(&*env, dir, state.wal_floor, &known, &mut |_, _, _| {
        records += 1;
        Ok(())
    })?;
    Ok(records)
}

fn is_damage(dir: &Path, e: &Error) -> bool {
    let is_store = || io::list(dir).is_ok_and(|names| names.iter().any(|n| n == "CURRENT"));
    let is_file = matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Io);
    e.kind() == ErrorKind::Corruption || (is_file && is_store())
}

/// Verifies every table that the manifest names; `why` is the error of the open.
fn from_below(dir: &Path, why: Error) -> VerifySummary {
    let mut report = VerifySummary::default();
    let env = OsEnv::new();
    let state = match Manifest::load(&*env, dir) {
        Ok(Some((state, _))) => state,
        Ok(None) => return VerifySummary { errors: vec![why], ..report },
        Err(e) => return VerifySummary { errors: vec![e], ..report },
    };
    let opener = TableOpener::new(
        env.clone(),
        dir,
        Cache::new(1 << 20),
        &DbOptions { read_mode: ReadMode::Pread, ..DbOptions::default() },
    );
    let opener = Arc::new(opener);
    let live: Vec<_> = state.trees.values().flat_map(|t| t.tables().map(move |m| (t, m))).collect();
    let progress =
        Progress::bytes("verify", Some(live.iter().map(|(_, m)| m.size + m.blob_bytes()).sum()));
    let mut done = 0;
    for (tree, meta) in live {
        let handle = TableHandle::new(meta.clone(), opener.clone(), Arc::default(), &tree.values);
        let errors = &mut report.errors;
        let mut note = |e: Error| {
            let e =
                if e.key_range().is_none() { e.keys(&meta.first_key, &meta.last_key) } else { e };
            errors.push(e.of_tree(&tree.name));
            ControlFlow::Continue(())
        };
        match handle.table() {
            Ok(table) => {
                let mut read = done;
                let step = |bytes| {
                    read += bytes;
                    progress.at(read);
                };
                let r = table.verify_each(None, step, &mut note);
                report.tables += 1;
                report.blocks += r.blocks;
                report.entries += r.entries;
                if meta.blob_bytes() > 0 {
                    let step = |bytes| {
                        read += bytes;
                        progress.at(read);
                    };
                    let mut tell = |e| {
                        let _ = note(e);
                    };
                    // Errors of the iteration were already reported with the table's blocks.
                    if let Ok(values) = handle.verify_blobs(step, &mut tell) {
                        report.values += values;
                    }
                }
            }
            Err(e) => drop(note(e)),
        }
        report.bytes += meta.size + meta.blob_bytes();
        done += meta.size + meta.blob_bytes();
        progress.at(done);
    }
    // The error of the open is usually among the findings, unless it is outside of the tables.
    if !report.errors.iter().any(|e| e.file() == why.file()) {
        report.errors.insert(0, why);
    }
    report
}

/// Returns advice about a finding.
fn remedy(e: &Error) -> &'static str {
    let name = e.file().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or_default();
    match () {
        () if name.ends_with(".sst") && e.kind() == ErrorKind::Corruption => {
            "tables never change: put back the file of this name from a checkpoint or a backup of this store; only the keys named are \
             concerned; `sstable-dump check` knows whether it is here under another name, `sstable-dump salvage` saves the rest"
        }
        () if e.kind() == ErrorKind::Incompatible => {
            "use the version of Firn that wrote it; this one must not change the store. If no newer one has used the store, \
             `sstable-dump check` knows whether it is only the version that is damaged"
        }
        () if e.file().and_then(io::not_a_file).is_some() => {
            "no file of a store is a link, a directory, a FIFO or a device: move it away and put back the file of this name from a backup, \
             or save the rest with `sstable-dump salvage`"
        }
        () if e.kind() != ErrorKind::Corruption => {
            "the file could not be read, so its content is unknown: look at its permissions and at the device, then verify again"
        }
        () if name.ends_with(".wal") && e.message().contains("are cut off") => {
            "save those records with `sstable-dump salvage`; until then open the store for reading only. To do without them for good, run \
             any command that writes with --accept-log-loss"
        }
        () if name.ends_with(".wal") => {
            "the log holds the newest writes: put back the file, go back to a checkpoint or a backup of the store, or save \
             the rest with `sstable-dump salvage`"
        }
        () => {
            "this file lists the files of the store: restore the directory from a checkpoint or a backup, or \
             rebuild it with `sstable-dump repair`"
        }
    }
}

fn print(global: &Global, r: &VerifySummary, seconds: f64) -> Done {
    let mut out = stdout();
    if global.store.json {
        let v = json!({
            "sound": r.is_sound(), "undefined": r.undefined, "tables": r.tables, "blocks": r.blocks, "entries": r.entries, "values": r.values, "bytes": r.bytes,
            "log_records": r.log_records,
            "seconds": seconds, "notes": r.notes,
            "errors": r.errors.iter().map(|e| {
                let mut error = firn_tools::json::error(e, remedy(e));
                error["of"] = e.tree().and_then(|t| r.names.of_tree(t)).into();
                error
            }).collect::<Vec<_>>(),
        });
        writeln!(out, "{v}")?;
        return Ok(out.flush()?);
    }
    let style = global.style();
    let mut advised = "";
    for e in &r.errors {
        let of = e
            .tree()
            .and_then(|t| r.names.of_tree(t))
            .map_or(String::new(), |name| format!("{name}: "));
        // A file of a newer version must not be called damaged.
        let word = if e.kind() == ErrorKind::Incompatible { "newer:" } else { "damaged:" };
        writeln!(out, "{} {of}{e}", style.bad(word))?;
        if advised != remedy(e) {
            advised = remedy(e);
            writeln!(out, "         {advised}")?;
        }
    }
    for tree in &r.undefined {
        let (words, next) = loss::words_of_undefined(tree);
        writeln!(out, "{} {words}\n         {next}", style.bad("undefined:"))?;
    }
    for note in &r.notes {
        writeln!(out, "note: {note}")?;
    }
    let optional = |n: u64, one: &str, many: &str| match n {
        0 => String::new(),
        n => format!(", {}", things(n, one, many)),
    };
    let what = format!(
        "{}, {}, {}{}, {}{}",
        things(r.tables, "table", "tables"),
        things(r.blocks, "block", "blocks"),
        things(r.entries, "entry", "entries"),
        optional(r.values, "blob", "blobs"),
        output::bytes(r.bytes),
        optional(r.log_records, "log record", "log records"),
    );
    let verdict = match (r.errors.len() + r.undefined.len()) as u64 {
        0 => style.good("sound"),
        n => style.bad(things(n, "error", "errors")),
    };
    writeln!(out, "{}: {verdict} ({what} read in {seconds:.2} s)", global.store.db.display())?;
    Ok(out.flush()?)
}
