//! Room for a bench's store: a directory that is empty, or that an earlier bench has filled.
//!
//! Invariant: nothing is removed from a directory that does not hold a bench's mark, and nothing but a store's own files from one
//! that does.

use std::path::Path;

use firn_kv::env::os::OsEnv;

use firn_tools::io;
use firn_tools::output::{Done, Failure};

/// The file that says who made the store.
const MARK: &str = "BENCH";
const MARK_TEXT: &[u8] = b"This store was made by `firn bench` and will be replaced by the next one.\n";

/// Room for a bench in `dir`, or the store of an earlier one where that is to be kept.
pub fn prepare(dir: &Path, keep: bool) -> Done {
    if !keep {
        return make_room(dir);
    }
    if names(dir)?.iter().any(|n| n == MARK) {
        return Ok(());
    }
    let what = format!("there is no store of an earlier bench in {}", dir.display());
    Err(Failure::with_next(what, "run without --keep first"))
}

fn names(dir: &Path) -> Done<Vec<String>> {
    io::list(dir).map_err(|e| Failure::file("list", dir, &e))
}

/// Marks the store in `dir` as a bench's.
pub fn mark(dir: &Path) -> Done {
    let path = dir.join(MARK);
    io::write(&path, MARK_TEXT).map_err(|e| Failure::file("write", &path, &e))
}

fn belongs_to_a_store(name: &str) -> bool {
    let known = ["CURRENT", "CURRENT.tmp", "LOCK", "EVENTS.jsonl", "EVENTS.old.jsonl", MARK];
    known.contains(&name)
        || name.starts_with("MANIFEST-")
        || name.ends_with(".wal")
        || name.ends_with(".sst")
        || name.ends_with(".sst.tmp")
}

/// Empties `dir` if a bench made it; refuses what is somebody else's.
pub fn make_room(dir: &Path) -> Done {
    let names = names(dir)?;
    if names.is_empty() {
        return Ok(());
    }
    let elsewhere = "name another directory with --db DIR, or remove this one yourself";
    if !names.iter().any(|n| n == MARK) {
        let what = match names.iter().any(|n| n == "CURRENT") {
            true => format!("{} holds a store that no bench has made; it is left alone", dir.display()),
            false => format!("{} is not empty and holds no store of a bench; it is left alone", dir.display()),
        };
        return Err(Failure::with_next(what, elsewhere));
    }
    if let Some(foreign) = names.iter().find(|n| !belongs_to_a_store(n)) {
        let what = format!("{} holds {foreign}, which no bench has made; it is left alone", dir.display());
        return Err(Failure::with_next(what, elsewhere));
    }
    // Whoever has the store open keeps it. The mark goes last, so that half a removal can be finished by the next bench.
    let lock = OsEnv::new().lock(&dir.join("LOCK"))?;
    for name in names.iter().filter(|n| *n != MARK && *n != "LOCK") {
        remove(dir, name)?;
    }
    drop(lock);
    remove(dir, "LOCK")?;
    remove(dir, MARK)
}

fn remove(dir: &Path, name: &str) -> Done {
    let path = dir.join(name);
    io::remove(&path).map_err(|e| Failure::file("remove", &path, &e))
}
