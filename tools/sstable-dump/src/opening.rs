//! The last word on a store: the engine opens it by its own rules, for reading only, and every entry of every tree is read.
//!
//! Invariants: nothing is written and no lock taken; "sound" is said of no store that did not come through here without an error.

use std::path::Path;

use firn_kv::manifest::{Manifest, PersistedOptions};
use firn_kv::{Db, DbOptions, Error, ErrorKind, Tree, TreeOptions};
use firn_tools::output::{Progress, things};
use firn_wide::cell::{CounterMerge, PartitionPrefix, StoredFacts};
use firn_wide::store::SCHEMA_TREE;

use crate::definitions::{self, Definitions};
use crate::target::env;

/// What came of it.
#[derive(Default)]
pub struct Opened {
    /// Whether the engine opens the store.
    pub opens: bool,
    /// Entries read, as users see them.
    pub entries: u64,
    /// What is wrong: what the engine says on opening, then of each tree what ends its reading.
    pub errors: Vec<(Option<String>, Error)>,
    /// What could not be read here, and is no damage.
    pub notes: Vec<String>,
    /// What the store's trees are to users.
    pub definitions: Definitions,
}

/// The hooks of these names; `None` when only the program knows one of them that wrote the store.
pub fn known_hooks(o: &PersistedOptions) -> Option<TreeOptions> {
    let mut hooks = TreeOptions::default();
    match o.merge.as_deref() {
        Some("firn.counters") => hooks.merge = Some(std::sync::Arc::new(CounterMerge)),
        Some(_) => return None,
        None => {}
    }
    match o.summary.as_deref() {
        Some("firn.facts") => hooks.summary = Some(std::sync::Arc::new(StoredFacts)),
        Some(_) => return None,
        None => {}
    }
    let mut token_len = 0;
    if let Some(prefix) = &o.filter_prefix {
        token_len = prefix.strip_prefix("firn.partition.")?.parse().ok().filter(|n| *n <= 64)?;
        hooks.filter_prefix = Some(std::sync::Arc::new(PartitionPrefix::new(token_len)));
    }
    match o.purge.as_deref() {
        Some("firn.cells") => hooks.purge = definitions::family_hooks(false, token_len).purge,
        Some(_) => return None,
        None => {}
    }
    Some(o.with_hooks_of(&hooks))
}

/// Opens the store in `dir` for reading, as the engine does it.
///
/// # Errors
/// What the engine says.
pub fn open(dir: &Path) -> firn_kv::Result<Db> {
    let options = DbOptions { create: false, read_only: true, background_threads: 0, ..DbOptions::default() };
    Db::open_in(env(), dir, options)
}

/// All pairs of a tree.
///
/// # Errors
/// What the engine says.
pub fn pairs(tree: &Tree) -> firn_kv::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    tree.iter().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect()
}

/// Opens the store in `dir` and reads all of it.
pub fn open_and_read(dir: &Path) -> Opened {
    let mut o = Opened::default();
    let (db, state) = match open(dir).and_then(|db| Ok((db, Manifest::load(&*env(), dir)?))) {
        Ok((db, Some((state, _)))) => (db, state),
        Ok((_, None)) => return o,
        Err(e) => {
            o.errors.push((None, e));
            return o;
        }
    };
    o.opens = true;
    if let Ok(schema) = db.existing_tree(SCHEMA_TREE)
        && let Ok(records) = pairs(&schema)
    {
        o.definitions = Definitions::read(&records);
    }
    let progress = Progress::operations("read", Some(db.tree_names().len() as u64));
    for (i, name) in db.tree_names().into_iter().enumerate() {
        progress.at(i as u64);
        progress.say(name.clone());
        let persisted = state.trees.values().find(|t| t.name == name).map(|t| &t.options);
        if let Some((defined, has)) = o.definitions.of_tree(&name).zip(persisted)
            && let Err(e) = has.check_hooks(&name, &defined.hooks())
        {
            let words = format!("{} cannot be used: {}", defined.words(), e.message());
            o.errors.push((Some(name.clone()), Error::new(ErrorKind::Incompatible, words)));
        }
        let tree = match persisted.and_then(known_hooks) {
            Some(options) => db.tree(&name, options),
            None => db.existing_tree(&name),
        };
        let read = tree.and_then(|tree| tree.iter().try_fold(0, |n: u64, pair| pair.map(|_| n + 1)));
        match read {
            Ok(n) => o.entries += n,
            // Without the name of a hook nobody can hand it in.
            Err(e) if e.kind() == ErrorKind::Incompatible && persisted.is_none_or(|o| o.merge.is_some()) => o.notes.push(format!(
                "tree {name:?} has hooks that only the program has that wrote it: its tables have been verified, its entries not merged"
            )),
            // Dropped by the program that has the store open.
            Err(e) if e.kind() == ErrorKind::Closed => {}
            Err(e) => o.errors.push((Some(name), e)),
        }
    }
    o.notes.extend(o.definitions.problems.iter().map(|p| format!("of the definitions: {p}")));
    o
}

/// What was read, in words.
pub fn words(o: &Opened) -> String {
    format!("the engine opened it and read {}", things(o.entries, "entry", "entries"))
}
