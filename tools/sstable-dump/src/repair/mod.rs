//! `sstable-dump repair`: rebuilds a store with a lost or damaged manifest in a new directory, from
//! its tables and its log.
//!
//! Facts of a manifest and their sources, the most trusted first:
//! - everything: from the newest manifest, if only `CURRENT` is lost or damaged;
//! - names and options of trees, flushed positions, obsolete tables: from the readable frames of a
//!   damaged manifest;
//! - names, flushed positions, obsolete tables, sequence numbers of ingested tables: from the event
//!   log;
//! - trees, hooks, sequence numbers: from the tables' properties;
//! - obsolete tables and the order of runs: from the entries ([`ages`]);
//! - names of trees: from the tables' properties too;
//! - log records that are already in tables: from the tables' properties, which contain their log
//!   positions, and from their sequence numbers;
//! - values outside tables: from the blob files to which tables refer, and for lost tables from
//!   values that contain their own key ([`recovered`](crate::salvage::lost_values));
//! - the store's id: from log segments and tables ([`owner`]);
//! - names of trees of the data model: from the definitions and from the content of the trees
//!   ([`matching`](crate::schema::matching)).
//!
//! The report lists the facts that cannot be recovered.

pub mod ages;
pub mod blob_files;
pub mod context;
pub mod log;
pub mod rebuild;
pub mod renames;
pub mod tables;
pub mod trees;

use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::Env as _;
use firn_kv::internals::manifest::{manifest_name, manifest_number};
use firn_tools::output::{Done, Failure};

use crate::Screen;
use crate::history::evidence::other_stores;
use crate::history::gather::{Sources, gather, no_store};
use crate::history::owner;
use crate::repair::rebuild::rebuild;
use crate::salvage::losses::Loss;
use crate::salvage::new_store::{self, make_in};
use crate::salvage::report::{self, NewStoreReport};
use crate::store::names::FileNames;
use crate::store::retry::refuse_open;
use crate::store::target::{TargetKind, kind, table_number};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Builds a new store in a new directory. It never changes the old one, which must not be open in a program. It uses a sound manifest if
there is one. Otherwise it derives names, options and live tables from the remains of manifests, the event log, the tables and the log,
and reports the facts that nothing proves. It ignores a manifest that is older than the tables, or of another store. It saves the
readable part of damaged tables and of a damaged log. Definitions show the hooks of column families and CQL tables. At the end it opens
and reads the new store. Exit code 1 if anything is or may be lost, 2 if the new store is not sound.

With --rename it rebuilds nothing: it renames misnamed files to their true names, in the store itself and under its lock. It moves files
in the way aside (*.aside), and overwrites and removes nothing. To continue an interrupted run, run it again.

Examples:
  sstable-dump repair firn-data --out repaired
  sstable-dump repair firn-data --out repaired --json | jq '.unknown[]'
  sstable-dump repair firn-data --out repaired --manifest MANIFEST-000007   use this one of several
  sstable-dump repair firn-data --out repaired --without-manifest     ignore all manifests
  sstable-dump repair firn-data --out repaired --store 9c1f5a3e07d2b846   rebuild this one of two stores in one directory
  sstable-dump repair firn-data --rename                              rename misnamed files to their true names";

/// Parses an id in the form that `check`, `props` and `wal` print.
fn store_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| {
        "an id is 16 hexadecimal digits, as `sstable-dump props` and `wal` show it".into()
    })
}

/// Arguments of `repair`.
#[derive(Args, Clone, Debug)]
pub struct RepairArgs {
    /// The store
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Write the new store to this directory
    #[arg(long, value_name = "NEW", required_unless_present = "rename")]
    pub out: Option<PathBuf>,
    /// Use only tables, log and event log
    #[arg(long, conflicts_with = "manifest")]
    pub without_manifest: bool,
    /// Use this manifest, not the one that CURRENT names
    #[arg(long, value_name = "NAME")]
    pub manifest: Option<String>,
    /// Only rename misnamed files to their true names, in the store itself
    #[arg(long, conflicts_with_all = ["out", "manifest", "without_manifest"])]
    pub rename: bool,
    /// Use the files of this store and no manifest, if the directory has files of several stores
    #[arg(long, value_name = "ID", value_parser = store_id, conflicts_with_all = ["manifest", "rename"])]
    pub store: Option<u64>,
}

/// Writes the new store to `out`: by a complete manifest of `sources`, or else by the tables.
fn make(
    args: &RepairArgs,
    names: &mut FileNames,
    sources: Sources,
    out: &Path,
    report: &mut NewStoreReport,
) -> Done {
    let mut history = gather(names, sources)?;
    report.notes.append(&mut history.notes);
    if let Some((state, number)) = history.whole.take() {
        let others = other_stores(names, number, &state)?;
        report.notes.extend(others.iter().map(|e| format!("{e}; `--manifest` takes that one")));
        *names = FileNames::with_folders(&args.dir)?;
        return new_store::write(names, out, state, report);
    }
    let owner = owner::find_owner(names, args.store.or(history.partial.as_ref().map(|s| s.id)))?;
    for (name, store) in owner.foreign_segments() {
        report.losses.push(Loss::new("log", args.dir.join(&name), owner::foreign_reason(store)));
        names.hide(name);
    }
    names.apply_manifest(None)?;
    report.add_names(names);
    let state = rebuild(names, out, &mut history, &owner, report)?;
    new_store::finish_store(names, out, state, report)
}

/// Runs `repair`.
pub fn run(screen: &mut Screen<'_>, args: &RepairArgs) -> Done {
    let dir = &args.dir;
    if kind(dir)? != TargetKind::Store {
        return Err(Failure::with_next(
            "this is a file",
            "name the store's directory; `salvage` saves single files",
        ));
    }
    let Some(out) = &args.out else { return renames::run(screen, dir) };
    refuse_open(dir)?;
    let mut names = FileNames::of(dir)?;
    let is_store_file =
        |n: &String| table_number(n).is_some() || n.ends_with(".wal") || n.starts_with("MANIFEST-");
    if !names.list(dir)?.iter().any(is_store_file) {
        return Err(no_store(dir).into());
    }
    let sources = match &args.manifest {
        _ if args.without_manifest || args.store.is_some() => Sources::None,
        None => Sources::All,
        Some(name) => Sources::Only(chosen(&names, name)?),
    };
    let mut report = NewStoreReport::default();
    make_in(out, || make(args, &mut names, sources, out, &mut report))?;
    report::print(screen, dir, out, &report)
}

/// Returns the number of the manifest that the user gave by name or number.
fn chosen(names: &FileNames, name: &str) -> Done<u64> {
    let last = Path::new(name).file_name().and_then(|n| n.to_str()).unwrap_or(name);
    let manifests: Vec<u64> = names.numbers(manifest_number)?;
    let number = manifest_number(last).or(last.parse().ok());
    number.filter(|n| manifests.contains(n)).ok_or_else(|| {
        let all: Vec<String> = manifests.into_iter().map(manifest_name).collect();
        let next = if all.is_empty() {
            "there is none; leave --manifest out".into()
        } else {
            format!("there are: {}", all.join(", "))
        };
        let dir = names.dir().display();
        Failure::with_next(format!("there is no manifest {name} in {dir}"), next)
    })
}
