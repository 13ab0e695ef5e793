//! `firn verify`: reads everything and checks everything, for reading only, and says what is wrong, where, and what to do.
//!
//! A sound store is opened and verified as the engine does it. One that cannot be opened (a table's footer is damaged, a file is
//! missing, the log is rotten) is looked at from below, table by table, so that one report names all that is wrong.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use firn_kv::cache::Cache;
use firn_kv::env::os::OsEnv;
use firn_kv::manifest::Manifest;
use firn_kv::merge::run::{TableHandle, TableOpener};
use firn_kv::{Error, ErrorKind, ReadMode};
use serde_json::json;

use crate::store::Global;
use firn_tools::io::{self, Watch, stdout};
use firn_tools::output::{self, Done, Failure, Progress, things};

pub const EXAMPLES: &str = "\
Reads every live table past the caches and checks each block's checksum and place, the order and bounds of keys, filters and
counts; opening the store has checked the manifest and the log before. Nothing is written. Exit code 1 if anything is wrong; each
finding names its file, offset, block and key range, and what to do.

Examples:
  firn verify
  firn verify --json | jq '.errors[] | .file, .offset'
  firn --db backup-monday verify && echo sound";

/// What `firn verify` takes: nothing of its own.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {}

/// What has been looked at, and what is wrong.
#[derive(Default)]
struct Report {
    tables: u64,
    blocks: u64,
    entries: u64,
    bytes: u64,
    errors: Vec<Error>,
}

/// Runs `firn verify`.
pub fn run(global: &Global, _: &VerifyArgs) -> Done {
    let watch = Watch::start();
    let report = match global.open_to_read() {
        Ok(db) => {
            let progress = Progress::bytes("verify", Some(db.stats().table_bytes()));
            let v = db.verify(|done, _| progress.at(done))?;
            Report { tables: v.tables, blocks: v.blocks, entries: v.entries, bytes: v.bytes, errors: v.errors }
        }
        // Damage that keeps the store from being opened is a finding too, but "no store" is none.
        Err(Failure::Engine(e)) if is_damage(&global.db, &e) => from_below(&global.db, e),
        Err(other) => return Err(other),
    };
    print(global, &report, watch.seconds())?;
    if report.errors.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

fn is_damage(dir: &Path, e: &Error) -> bool {
    let is_store = || io::list(dir).is_ok_and(|names| names.iter().any(|n| n == "CURRENT"));
    e.kind() == ErrorKind::Corruption || (e.kind() == ErrorKind::NotFound && is_store())
}

/// Looks at every table that the manifest names; `why` is what keeps the store from being opened.
fn from_below(dir: &Path, why: Error) -> Report {
    let mut report = Report::default();
    let env = OsEnv::new();
    let state = match Manifest::load(&*env, dir) {
        Ok(Some((state, _))) => state,
        Ok(None) => return Report { errors: vec![why], ..report },
        Err(e) => return Report { errors: vec![e], ..report },
    };
    let opener = TableOpener::new(env.clone(), dir, Cache::new(1 << 20), ReadMode::Pread, false);
    let opener = Arc::new(opener);
    let live: Vec<_> = state.trees.values().flat_map(|t| &t.runs).flat_map(|r| &r.tables).collect();
    let progress = Progress::bytes("verify", Some(live.iter().map(|t| t.size).sum()));
    let mut done = 0;
    for meta in live {
        let handle = TableHandle::new(meta.clone(), opener.clone());
        match handle.table().and_then(|t| t.verify(None, |bytes| progress.at(done + bytes))) {
            Ok(r) => {
                report.tables += 1;
                report.blocks += r.blocks;
                report.entries += r.entries;
                report.bytes += meta.size;
            }
            Err(e) if e.key_range().is_none() => report.errors.push(e.keys(&meta.first_key, &meta.last_key)),
            Err(e) => report.errors.push(e),
        }
        done += meta.size;
        progress.at(done);
    }
    // What kept the store from being opened has been found again, unless it lies outside the tables.
    if !report.errors.iter().any(|e| e.file() == why.file()) {
        report.errors.insert(0, why);
    }
    report
}

/// What to do about a finding.
fn remedy(e: &Error) -> &'static str {
    let name = e.file().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or_default();
    match () {
        () if name.ends_with(".sst") => {
            "tables never change: put back the file of this name from a checkpoint or a backup of this store; only the keys named are \
             concerned; `sstable-dump check` knows whether it is here under another name, `sstable-dump salvage` saves the rest"
        }
        () if name.ends_with(".wal") => {
            "the log holds the newest writes: put back the file, go back to a checkpoint or a backup of the store, or save \
             the rest with `sstable-dump salvage`"
        }
        () => {
            "this file says what belongs to the store: restore the directory from a checkpoint or a backup, or \
             rebuild it with `sstable-dump repair`"
        }
    }
}

fn print(global: &Global, r: &Report, seconds: f64) -> Done {
    let mut out = stdout();
    if global.json {
        let v = json!({
            "sound": r.errors.is_empty(), "tables": r.tables, "blocks": r.blocks, "entries": r.entries, "bytes": r.bytes,
            "seconds": seconds, "errors": r.errors.iter().map(|e| firn_tools::json::error(e, remedy(e))).collect::<Vec<_>>(),
        });
        writeln!(out, "{v:#}")?;
        return Ok(out.flush()?);
    }
    let style = global.style();
    let mut advised = "";
    for e in &r.errors {
        writeln!(out, "{} {e}", style.bad("damaged:"))?;
        if advised != remedy(e) {
            advised = remedy(e);
            writeln!(out, "         {advised}")?;
        }
    }
    let what = format!(
        "{}, {}, {}, {}",
        things(r.tables, "table", "tables"),
        things(r.blocks, "block", "blocks"),
        things(r.entries, "entry", "entries"),
        output::bytes(r.bytes)
    );
    let verdict = match r.errors.len() as u64 {
        0 => style.good("sound"),
        n => style.bad(things(n, "error", "errors")),
    };
    writeln!(out, "{}: {verdict} ({what} read in {seconds:.2} s)", global.db.display())?;
    Ok(out.flush()?)
}
