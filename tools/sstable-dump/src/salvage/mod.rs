//! `sstable-dump salvage`: writes the readable content of a damaged table, log segment or store
//! into a sound one.

pub mod finish;
pub mod losses;
pub mod lost_values;
pub mod new_store;
pub mod report;
pub mod table;
pub mod unlisted;

use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::ErrorKind;
use firn_tools::io::{is_dir, remove};
use firn_tools::output::{Done, Failure, bytes, things};
use firn_tools::shell;
use serde_json::json;

use crate::Screen;
use crate::dump::from_json::refuse_existing;
use crate::history::current::{CurrentManifest, current};
use crate::history::evidence::other_stores;
use crate::salvage::losses::{Loss, print_losses};
use crate::salvage::new_store::make_in;
use crate::salvage::report::NewStoreReport;
use crate::salvage::table::salvage_table;
use crate::store::blobs::uses_text;
use crate::store::log_copy;
use crate::store::names::{describe_content, true_name};
use crate::store::retry::refuse_open;
use crate::store::target::{
    TargetKind, env, is_of_values, kind, misnamed, table_file, table_number,
};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Writes the readable data into a new file or directory and reports the exact losses: position, number of entries, range of keys. It
never changes the old one, which must not be open in a program. For a store it copies sound tables and blob files, saves the readable
part of damaged ones, and reads the log past its damage. Readable values of a damaged blob file move into the tables. Values of a lost
table are recovered from blob files, which contain their keys, if no newer entry is known. Misnamed files are recognised by their
content. So are sound copies (*.bak) of damaged tables, also in the store's folders (lost+found) and in further given directories.
The next opening rebuilds indexes that may lack entries. At the end salvage opens and reads the new store. If the manifest is damaged
too, use `sstable-dump repair`. Exit code 1 if anything is or may be lost, 2 if the new store is not sound.

Examples:
  sstable-dump salvage firn-data --out saved
  sstable-dump salvage firn-data backup-monday /lost+found --out saved      also with tables from these directories
  sstable-dump salvage firn-data/00000012.sst --out saved/00000012.sst
  sstable-dump salvage firn-data/00000003.wal --out saved/00000003.wal
  sstable-dump salvage firn-data --out saved --json | jq '.losses[].keys'";

/// Arguments of `salvage`.
#[derive(Args, Clone, Debug)]
pub struct SalvageArgs {
    /// A table, a log segment or a store
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Directories with more of the store's files
    #[arg(value_name = "MORE")]
    pub more: Vec<PathBuf>,
    /// Write to this new file or directory
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
}

fn salvage_file(screen: &mut Screen<'_>, path: &Path, out: &Path) -> Done {
    refuse_existing(out)?;
    let (file, id) = table_file(path)?;
    let new_id = out.file_name().and_then(|n| n.to_str()).and_then(table_number).unwrap_or(id);
    if is_of_values(&*file)? {
        return Err(Failure::with_next(
            "this is a blob file: only tables know which of its values are still needed",
            "salvage the store that it is of; `layout FILE --blocks` lists what is in it",
        ));
    }
    let mut r = match salvage_table(path, id, out, new_id, &Default::default(), None) {
        Ok(r) => r,
        Err(e) => {
            let _ = remove(out);
            return Err(e.into());
        }
    };
    if let Some(facts) = r.facts.as_ref().filter(|f| !f.values.is_empty()) {
        r.notes.push(format!(
            "it refers to values in blob files, which stay there: {}; salvage of the store checks them",
            uses_text(&facts.values)
        ));
    }
    let size = r.facts.as_ref().map(|f| f.size);
    if screen.json {
        let v = json!({
            "from": path.display().to_string(), "to": size.map(|_| out.display().to_string()), "id": new_id, "size": size,
            "entries": r.facts.as_ref().map_or(0, |f| f.entries), "entries_once": r.once, "blocks": r.blocks, "rebuilt": r.rebuilt,
            "notes": r.notes, "losses": r.losses.iter().map(Loss::json).collect::<Vec<_>>(),
        });
        writeln!(screen.out, "{v:#}")?;
    } else {
        let to = size
            .map_or("nothing written".to_owned(), |s| format!("{}, {}", out.display(), bytes(s)));
        writeln!(screen.out, "{}: {to}", r.summary())?;
        print_losses(screen, &r.losses)?;
        if !r.rebuilt.is_empty() && size.is_some() {
            writeln!(screen.out, "made anew: {}", r.rebuilt.join(", "))?;
        }
        for n in r.notes.iter().cloned().chain(misnamed(path, id)) {
            writeln!(screen.out, "note: {n}")?;
        }
    }
    if r.losses.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

fn salvage_segment(screen: &mut Screen<'_>, path: &Path, number: u64, out: &Path) -> Done {
    refuse_existing(out)?;
    let c = log_copy::copy_one(path, number, out)?;
    if screen.json {
        let v = json!({
            "from": path.display().to_string(), "to": out.display().to_string(), "records": c.records, "notes": c.notes,
            "losses": c.losses.iter().map(Loss::json).collect::<Vec<_>>(),
        });
        writeln!(screen.out, "{v:#}")?;
    } else {
        writeln!(
            screen.out,
            "saved {} in {}",
            things(c.records, "record", "records"),
            out.display()
        )?;
        print_losses(screen, &c.losses)?;
        for n in &c.notes {
            writeln!(screen.out, "note: {n}")?;
        }
    }
    if c.losses.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

fn salvage_store(screen: &mut Screen<'_>, dir: &Path, more: &[PathBuf], out: &Path) -> Done {
    refuse_open(dir)?;
    let (mut names, manifest) = current(&env(), dir, more)?;
    let repair = format!(
        "`sstable-dump repair {} --out NEW` goes by the tables and the log",
        shell::path(dir)
    );
    let (state, number) = match manifest {
        Ok(Some(CurrentManifest { state, number, against: None })) => (state, number),
        Ok(Some(CurrentManifest { against: Some((_, words)), .. })) => {
            return Err(Failure::with_next(words, repair));
        }
        Ok(None) => return Err(Failure::with_next("there is no manifest", repair)),
        Err(e)
            if matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Io | ErrorKind::NotFound) =>
        {
            return Err(Failure::with_next(e.to_string(), format!("{repair}, and salvages too")));
        }
        Err(e) => return Err(e.into()),
    };
    let mut report = NewStoreReport::default();
    make_in(out, || {
        let others = other_stores(&names, number, &state)?;
        report.notes.extend(
            others.iter().map(|e| format!("{e}; `sstable-dump repair --manifest` takes that one")),
        );
        new_store::write(&mut names, out, state, &mut report)
    })?;
    report::print(screen, dir, out, &report)
}

/// Runs `salvage`.
pub fn run(screen: &mut Screen<'_>, args: &SalvageArgs) -> Done {
    let kind = kind(&args.path)?;
    let own = if kind == TargetKind::Store { None } else { true_name(&args.path)? };
    if let Some(own) =
        own.filter(|own| table_number(own).is_none() && args.path.file_name() != Some(own.as_ref()))
    {
        return Err(Failure::with_next(
            format!("{}: this file holds {}", args.path.display(), describe_content(&own)),
            format!("copy it under its own name, {own}, and salvage that"),
        ));
    }
    if let Some(more) = args.more.iter().find(|p| kind != TargetKind::Store || !is_dir(p)) {
        let next = "name the store's directory first, then directories with more of its files";
        return Err(Failure::with_next(
            format!("{}: only a store takes more, and only directories", more.display()),
            next,
        ));
    }
    match kind {
        TargetKind::Table(_) => salvage_file(screen, &args.path, &args.out),
        TargetKind::Wal(number) => salvage_segment(screen, &args.path, number, &args.out),
        TargetKind::Manifest(_) => Err(Failure::with_next(
            "a manifest is saved by rebuilding it",
            "`sstable-dump repair DIR --out NEW`, DIR being the store",
        )),
        TargetKind::Store => salvage_store(screen, &args.path, &args.more, &args.out),
    }
}
