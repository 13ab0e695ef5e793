//! Room for a bench's store: a directory that is empty, or that an earlier bench has filled.
//!
//! Invariant: nothing is removed from a directory that does not hold a bench's mark, nothing but a
//! store's own files from one that does, and nothing where somebody has made a tree or a keyspace
//! that no bench makes.

use std::path::{Path, PathBuf};

use firn_kv::OsEnv;
use firn_kv::internals::manifest::{CURRENT, Manifest};

use firn_tools::io;
use firn_tools::output::{Done, Failure};
use firn_workload::cliffs::CliffCase;

use crate::{Setting, run};

/// The file that says who made the store.
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

/// Whether a bench has made what is in `dir`, and will replace it.
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

/// The trees of keys and values that benches make, each its own: of workloads; of `cliffs` (which
/// numbers them) and `queue`; of `trees`.
const TREES: [fn(&str) -> bool; 3] = [
    |name| name == run::TREE,
    |name| name == "t" || (name.len() == 6 && is_number(name)),
    |name| name.strip_prefix('t').is_some_and(is_number),
];

/// What benches of the data model make in stores, which the benches of the engine know nothing of.
#[derive(Clone, Copy, Debug)]
pub struct ModelStores {
    /// Whether a tree of this name is one of the data model's.
    pub is_own: fn(&str) -> bool,
    /// Whether a tree of keys and values is one that they compare with.
    pub is_beside: fn(&str) -> bool,
    /// What is in the data model of a store that no bench has made.
    pub foreign: fn(&Path) -> Done<Option<String>>,
    /// Takes stores of the data model through histories of so many operations.
    pub cliffs: ModelCliffs,
}

/// Runs histories of a length. `fresh` makes room in a directory for the next store, which the
/// caller [marks](mark).
pub type ModelCliffs = fn(
    history: u64,
    fresh: &mut dyn FnMut() -> Done<PathBuf>,
    note: &mut dyn FnMut(CliffCase),
) -> Done;

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

impl Setting<'_> {
    /// Room for a bench in `dir`, or the store of an earlier one where that is to be kept.
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

    /// What in the store in `dir` no bench has made.
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

    /// Empties `dir` if a bench made it; refuses what is somebody else's.
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
        // Whoever has the store open keeps it.
        let lock = OsEnv::new().lock(&dir.join("LOCK"))?;
        if let Some(foreign) = if has_store { self.foreign(dir)? } else { None } {
            let what = format!(
                "{} holds {foreign}, which no bench has made; it is left alone",
                dir.display()
            );
            return Err(Failure::with_next(what, elsewhere));
        }
        // Half a removal can be finished by the next bench: what is left is no store without the
        // first, and a bench's until the last.
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
