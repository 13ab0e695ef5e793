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
pub mod report;
pub mod shadow;
mod store;
mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::Env;
use firn_kv::internals::manifest;
use firn_kv::{Error, ErrorKind};
use firn_tools::output::{Done, Failure};

use crate::Screen;
use crate::check::findings::{Finding, FindingKind};
use crate::check::report::{Findings, print_report};
use crate::store::names::{FileNames, describe_content, true_name};
use crate::store::target::{TargetKind, dir_of, env, kind};

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
    let own = true_name(path)?.filter(|own| path.file_name() != Some(own.as_ref()));
    if let Some(own) = &own {
        let words = format!(
            "{}: this file holds {}, and is checked as that",
            path.display(),
            describe_content(own)
        );
        match kind {
            // It may be an intended copy, or a recycled segment that still has its former header.
            TargetKind::Table(None) | TargetKind::Wal(_) => f.notes.push(words),
            _ => {
                let error = Error::corruption(format!("this file holds {}", describe_content(own)))
                    .in_file(path);
                let advice = format!("rename it to {own}, or put back the original file");
                f.all.push(Finding { kind: FindingKind::Misnamed, error, place: None, advice });
            }
        }
    }
    let alone = own.as_deref().map(|own| FileNames::single_file(path, own));
    let env: &dyn Env = match &alone {
        Some(names) => names,
        None => &*env(),
    };
    match own.as_deref().map_or(kind, TargetKind::of_name) {
        TargetKind::Wal(number) => log::check_segment(env, path, number, f),
        TargetKind::Manifest(number) => check_manifest(env, path, number, f),
        TargetKind::Table(_) | TargetKind::Store => {
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
        print_report(screen, path, &f)?;
    }
    if screen.json {
        let v = if all.len() == 1 { all.remove(0) } else { all.into() };
        writeln!(screen.out, "{v:#}")?;
    }
    if wrong { Err(Failure::Found) } else { Ok(()) }
}
