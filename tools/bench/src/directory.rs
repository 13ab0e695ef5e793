//! Prepares the directory of a bench's store, which must be empty or filled by an earlier bench.
//!
//! Invariant: without a bench's marker file nothing is removed. With it, only a store's own files
//! are removed, and nothing if the store has a tree or keyspace that no bench creates.

use std::path::{Path, PathBuf};

use firn_kv::OsEnv;
use firn_kv::internals::manifest::{CURRENT, Manifest};

use firn_tools::io;
use firn_tools::output::{Done, Failure};
use firn_workload::cliffs::CliffCase;

use crate::{Setting, run};

/// The file that marks a bench's store.
const MARK: &str = "BENCH";
const MARK_TEXT: &[u8] =
    b"This store was made by `firn bench` and will be replaced by the next one.\n";

fn names(dir: &Path) -> Done<Vec<String>> {
    io::list(dir).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotADirectory => Failure::with_next(
            format!("{} is no directory", dir.display()),
            "name a directory for the store with --db DIR",
        ),
        _ => Failure::file("list", dir, &e),
    })
}

fn is_marked(names: &[String]) -> bool {
    names.iter().any(|n| n == MARK)
}

/// Reports whether a bench has created the store in `dir`, which the next one will replace.
pub fn is_of_a_bench(dir: &Path) -> Done<bool> {
    Ok(is_marked(&names(dir)?))
}

/// Marks the store in `dir` as a bench's.
pub fn mark(dir: &Path) -> Done {
    let path = dir.join(MARK);
    Ok(io::write_own(&path, MARK_TEXT)?)
}

fn belongs_to_a_store(name: &str) -> bool {
    let known =
        [CURRENT, "CURRENT.tmp", "LOCK", "RESERVE", "EVENTS.jsonl", "EVENTS.old.jsonl", MARK];
    known.contains(&name)
        || name.starts_with("MANIFEST-")
        || name.ends_with(".wal")
        || name.ends_with(".sst")
        || name.ends_with(".sst.tmp")
}

/// Key-value trees that benches create: by workloads; by `cliffs` (numbered) and `queue`; by
/// `trees`.
const TREES: [fn(&str) -> bool; 3] = [
    |name| name == run::TREE,
    |name| name == "t" || (name.len() == 6 && is_number(name)),
    |name| name.strip_prefix('t').is_some_and(is_number),
];

/// Stores of benches of the data model, which the engine's benches do not know.
#[derive(Clone, Copy, Debug)]
pub struct ModelStores {
    /// Reports whether a tree of this name belongs to the data model.
    pub is_own: fn(&str) -> bool,
    /// Reports whether a key-value tree of this name is used for comparisons.
    pub is_beside: fn(&str) -> bool,
    /// Returns a part of a store's data model that no bench has created.
    pub foreign: fn(&Path) -> Done<Option<String>>,
    /// Runs histories of this number of operations on stores of the data model.
    pub cliffs: ModelCliffs,
}

/// Runs histories of a length. `fresh` prepares a directory for the next store, which the caller
/// [marks](mark).
pub type ModelCliffs = fn(
    history: u64,
    fresh: &mut dyn FnMut() -> Done<PathBuf>,
    note: &mut dyn FnMut(CliffCase),
) -> Done;

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

impl Setting<'_> {
    /// Prepares `dir` for a bench; with `keep`, checks that it has the store of an earlier one.
    pub fn prepare(&self, dir: &Path, keep: bool) -> Done {
        if !keep {
            return self.make_room(dir);
        }
        if is_marked(&names(dir)?) {
            return Ok(());
        }
        let what = format!("there is no store of an earlier bench in {}", dir.display());
        Err(Failure::with_next(what, "run without --keep first"))
    }

    /// Returns a part of the store in `dir` that no bench has created.
    fn foreign(&self, dir: &Path) -> Done<Option<String>> {
        let Some((state, _)) = Manifest::load(&*OsEnv::new(), dir)? else { return Ok(None) };
        let (own, plain): (Vec<_>, Vec<_>) = state
            .trees
            .values()
            .map(|t| t.name.as_str())
            .partition(|name| self.models.is_some_and(|m| (m.is_own)(name)));
        let beside = self.models.map(|m| m.is_beside);
        let others = TREES
            .into_iter()
            .chain(beside)
            .map(|is_of| plain.iter().filter(|name| !is_of(name)).collect::<Vec<_>>());
        if let Some(tree) = others.min_by_key(Vec::len).and_then(|others| others.first().copied()) {
            return Ok(Some(format!("the tree {tree:?}")));
        }
        match self.models {
            Some(models) if !own.is_empty() => (models.foreign)(dir),
            _ => Ok(None),
        }
    }

    /// Empties `dir` if a bench created it; returns an error otherwise.
    pub fn make_room(&self, dir: &Path) -> Done {
        let names = names(dir)?;
        if names.is_empty() {
            return Ok(());
        }
        let elsewhere = "name another directory with --db DIR, or remove this one yourself";
        let has_store = names.iter().any(|n| n == CURRENT);
        if !is_marked(&names) {
            let what = match has_store {
                true => format!(
                    "{} holds a store that no bench has made; it is left alone",
                    dir.display()
                ),
                false => format!(
                    "{} is not empty and holds no store of a bench; it is left alone",
                    dir.display()
                ),
            };
            return Err(Failure::with_next(what, elsewhere));
        }
        if let Some(foreign) = names.iter().find(|n| !belongs_to_a_store(n)) {
            let what = format!(
                "{} holds {foreign}, which no bench has made; it is left alone",
                dir.display()
            );
            return Err(Failure::with_next(what, elsewhere));
        }
        // An open store is locked.
        let lock = OsEnv::new().lock(&dir.join("LOCK"))?;
        if let Some(foreign) = if has_store { self.foreign(dir)? } else { None } {
            let what = format!(
                "{} holds {foreign}, which no bench has made; it is left alone",
                dir.display()
            );
            return Err(Failure::with_next(what, elsewhere));
        }
        // The next bench can finish an interrupted removal: without the first file the rest is no
        // store, and the marker is removed last.
        remove(dir, CURRENT)?;
        for name in names.iter().filter(|n| *n != MARK && *n != "LOCK") {
            remove(dir, name)?;
        }
        drop(lock);
        remove(dir, "LOCK")?;
        remove(dir, MARK)
    }
}

fn remove(dir: &Path, name: &str) -> Done {
    let path = dir.join(name);
    io::remove(&path).map_err(|e| Failure::file("remove", &path, &e))
}
