//! Renames misnamed files to their true names: `sstable-dump repair DIR --rename`.
//!
//! Invariants: no file is removed or overwritten; a file in the way is moved aside. Each file is
//! recognised by its content, so running it again continues an interrupted run. The store's lock is
//! held.

use std::path::{Path, PathBuf};

use firn_kv::internals::manifest::Manifest;
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::io;
use firn_tools::output::{Done, Failure, things};
use serde_json::json;

use crate::Screen;
use crate::store::names::{FileNames, FileRename, TEMPORARY};
use crate::store::retry::open_failure;
use crate::store::target::{copy_file, env};

/// Returns an unused name in the same folder: `path` with `suffix`, then with numbers.
fn unused_name(path: &Path, suffix: &str) -> PathBuf {
    let with = |end: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let numbered = (2u64..).map(|n| with(format!(".{suffix}-{n}")));
    // The numbers are unbounded, so one of them is free.
    std::iter::once(with(format!(".{suffix}")))
        .chain(numbered)
        .find(|p| !io::is_taken(p))
        .unwrap_or_default()
}

/// Renames all files to temporary names first, then to their true names. So any permutation works,
/// and after an interruption each file exists under one of the names.
fn rename_all(dir: &Path, renames: &[FileRename]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let env = env();
    let mut waiting = vec![];
    for r in renames {
        let temporary = unused_name(&r.to, TEMPORARY);
        if r.keep {
            let part = unused_name(&r.to, "part");
            copy_file(&r.from, &part)?;
            env.rename(&part, &temporary)?;
        } else {
            env.rename(&r.from, &temporary)?;
        }
        waiting.push((temporary, &r.to));
    }
    env.sync_dir(dir)?;
    let mut aside = vec![];
    for (temporary, to) in waiting {
        if io::is_taken(to) {
            let other = unused_name(to, "aside");
            env.rename(to, &other)?;
            aside.push((to.clone(), other));
        }
        env.rename(&temporary, to)?;
    }
    env.sync_dir(dir)?;
    Ok(aside)
}

/// Runs `repair --rename`.
///
/// # Errors
/// - `Locked` if a program has the store open.
/// - An error if the manifest, which lists the store's files, cannot be read.
/// - I/O errors.
pub fn run(screen: &mut Screen<'_>, dir: &Path) -> Done {
    let env = env();
    let _lock = env.lock(&dir.join("LOCK")).map_err(|e| match e.kind() {
        ErrorKind::Locked => open_failure(&e),
        _ => e.into(),
    })?;
    let mut names = FileNames::with_folders(dir)?;
    let state = match Manifest::load(&names, names.dir()) {
        Ok(Some((state, _))) => state,
        Ok(None) => {
            return Err(no_manifest(
                Error::new(ErrorKind::NotFound, "there is no manifest").in_file(dir),
            ));
        }
        Err(e) if e.kind() == ErrorKind::Corruption => return Err(no_manifest(e)),
        Err(e) => return Err(e.into()),
    };
    names.apply_manifest(Some(&state))?;
    let renames = names.renames();
    let aside = rename_all(dir, &renames)?;
    if screen.json {
        let renamed: Vec<_> = renames
            .iter()
            .map(|r| json!({ "from": r.from.display().to_string(), "to": r.to.display().to_string(), "copied": r.keep }))
            .collect();
        let aside: Vec<_> = aside
            .iter()
            .map(|(a, b)| json!({ "from": a.display().to_string(), "to": b.display().to_string() }))
            .collect();
        writeln!(
            screen.out,
            "{:#}",
            json!({ "dir": dir.display().to_string(), "renamed": renamed, "aside": aside })
        )?;
        return Ok(());
    }
    for r in &renames {
        let how = if r.keep { "copied" } else { "renamed" };
        writeln!(screen.out, "{how}: {} to {}", r.from.display(), r.to.display())?;
    }
    for (from, to) in &aside {
        writeln!(screen.out, "moved aside: {} is now {}", from.display(), to.display())?;
    }
    let files = things(renames.len() as u64, "file has", "files have");
    writeln!(
        screen.out,
        "{}: {files} got their names back; look at the store with `sstable-dump check`",
        dir.display()
    )?;
    Ok(())
}

fn no_manifest(e: Error) -> Failure {
    Failure::with_next(
        format!("only the manifest lists the store's files: {e}"),
        "`sstable-dump repair DIR --out NEW` finds files by what they hold, and makes a new store",
    )
}
