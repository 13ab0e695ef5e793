//! The last word on a store: the engine opens it for writing by its own rules, and every entry of
//! every tree is read.
//!
//! Invariants: what the opening writes goes into memory ([`ShadowStore`]), so that the store stays
//! as it is and no lock is taken; "sound" is said of no store that did not come through here
//! without an error.

use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::manifest::{Manifest, PersistedOptions};
use firn_kv::{Db, DbOptions, Error, ErrorKind, Tree, TreeOptions};
use firn_tools::output::Progress;
use firn_wide::internals::cell::{CounterMerge, PartitionPrefix, StoredFacts};
use firn_wide::internals::store::{SCHEMA_TREE, TreeName, hooks, loss};

use crate::definitions::{Definitions, NEVER};
use crate::mend::TreeWitnesses;
use crate::shadow::ShadowStore;
use crate::target::env;

/// What came of it.
#[derive(Default)]
pub struct OpeningOutcome {
    /// Whether the engine opens the store for writing.
    pub opens: bool,
    /// Whether it opens it for reading: what it refuses to write to may be readable in part.
    pub opens_to_read: bool,
    /// Entries read, as users see them.
    pub entries: u64,
    /// What is wrong: what the engine says on opening, then of each tree what ends its reading.
    pub errors: Vec<(Option<String>, Error)>,
    /// Trees of tables or column families whose definitions were lost.
    pub undefined: Vec<String>,
    /// What could not be read here, and is no damage.
    pub notes: Vec<String>,
    /// What the store's trees are to users.
    pub definitions: Definitions,
}

/// The hooks of these names; `None` when only the program knows one of them that wrote the store.
pub fn known_hooks(o: &PersistedOptions) -> Option<TreeOptions> {
    let mut hooks = TreeOptions::default();
    match o.merge.as_deref() {
        Some("firn.counters") => hooks.merge_operator = Some(Arc::new(CounterMerge)),
        Some(_) => return None,
        None => {}
    }
    match o.summary.as_deref() {
        Some("firn.facts") => hooks.summary = Some(Arc::new(StoredFacts)),
        Some(_) => return None,
        None => {}
    }
    let mut token_len = 0;
    if let Some(prefix) = &o.filter_prefix {
        token_len = prefix.strip_prefix("firn.partition.")?.parse().ok().filter(|n| *n <= 64)?;
        hooks.filter_prefix = Some(Arc::new(PartitionPrefix::new(token_len)));
    }
    match o.purge.as_deref() {
        Some("firn.cells") => {
            hooks.compaction_filter =
                hooks::family(TreeOptions::default(), false, token_len, NEVER).compaction_filter
        }
        Some(_) => return None,
        None => {}
    }
    Some(o.with_hooks_of(&hooks))
}

/// How often an opening begins again, because a program that has the store open changes files under
/// it.
const TRIES: usize = 50;

/// Opens the store in `dir` for reading, as the engine does it.
///
/// # Errors
/// What the engine says.
pub fn open(dir: &Path) -> firn_kv::Result<Db> {
    let options =
        DbOptions { create: false, read_only: true, background_threads: 0, ..DbOptions::default() };
    Db::open_in(env(), dir, options)
}

/// Opens the store in `dir` for writing, as the engine does it, with all that is written kept in
/// memory. What the store's own user may do is not asked: a directory that only somebody else may
/// write to is opened all the same.
///
/// # Errors
/// What the engine says.
pub fn open_to_write(dir: &Path) -> firn_kv::Result<Db> {
    // A log of any length stays as it is: nothing has to be flushed.
    let wal_segment = 1 << 30;
    let options = DbOptions {
        create: false,
        event_log: false,
        background_threads: 0,
        wal_segment,
        ..DbOptions::default()
    };
    let mut tries = 1;
    loop {
        let before = env().list(dir)?;
        match Db::open_in(Arc::new(ShadowStore::of(dir)), dir, options.clone()) {
            Err(_) if tries < TRIES && env().list(dir)? != before => tries += 1,
            done => return done,
        }
    }
}

/// All pairs of a tree.
///
/// # Errors
/// What the engine says.
pub fn pairs(tree: &Tree) -> firn_kv::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    tree.iter().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect()
}

/// The records of the tree of definitions; none where there is no such tree.
///
/// # Errors
/// What the engine says.
pub fn records(db: &Db) -> firn_kv::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    match db.existing_tree(SCHEMA_TREE) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(vec![]),
        schema => pairs(&schema?),
    }
}

/// The trees that hold data of a table or column family, and are not among these definitions.
///
/// # Errors
/// Errors of the engine.
pub fn undefined(db: &Db, definitions: &Definitions) -> firn_wide::Result<Vec<String>> {
    loss::undefined(db, |id| definitions.of_tree(&TreeName::Family(id).to_string()).is_some())
}

/// Opens the store in `dir` and reads all of it, also where it can only be opened for reading.
pub fn open_and_read(dir: &Path) -> OpeningOutcome {
    let mut o = OpeningOutcome::default();
    let opened = open_to_write(dir).inspect(|_| o.opens = true).or_else(|e| {
        o.errors.push((None, e));
        open(dir)
    });
    // Why it is not read either follows from why it is not opened for writing.
    let Ok((db, Some((state, _)))) = opened.and_then(|db| Ok((db, Manifest::load(&*env(), dir)?)))
    else {
        return o;
    };
    o.opens_to_read = true;
    let unread = match records(&db) {
        Ok(records) => {
            o.definitions = Definitions::read(records, &TreeWitnesses::of_store(&state, Some(&db)));
            None
        }
        Err(e) => Some(firn_wide::Error::from(e)),
    };
    for r in &o.definitions.lacking {
        let words = format!(
            "the record {} is missing, without which others cannot be used; what a new store gets in its place is {}",
            r.name(),
            r.words()
        );
        o.errors.push((Some(SCHEMA_TREE.into()), Error::corruption(words)));
    }
    let is_model = state
        .trees
        .values()
        .any(|t| t.name == SCHEMA_TREE || t.options.summary.as_deref() == Some("firn.facts"));
    if is_model {
        match unread.map_or_else(|| undefined(&db, &o.definitions), Err) {
            Ok(all) => o.undefined = all,
            // It is an error of the tree of definitions, which is read below.
            Err(e) => {
                o.notes.push(format!("whether each table has its definition is not known: {e}"))
            }
        }
    }
    let progress = Progress::operations("read", Some(db.tree_names().len() as u64));
    for (i, name) in db.tree_names().into_iter().enumerate() {
        progress.at(i as u64);
        progress.say(name.clone());
        let persisted = state.tree_named(&name).map(|t| &t.options);
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
        let read =
            tree.and_then(|tree| tree.iter().try_fold(0, |n: u64, pair| pair.map(|_| n + 1)));
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
    o.notes.extend(o.definitions.unknown.iter().map(|u| format!("not known: {u}")));
    o
}
