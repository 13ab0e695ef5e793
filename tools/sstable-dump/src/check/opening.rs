//! The final check of a store: the engine opens it for writing by its own rules, and every entry of
//! every tree is read.
//!
//! Invariants: the writes of the opening go into memory ([`ShadowStore`]), so the store does not
//! change and no lock is taken. Only a store that passes this check without an error is reported as
//! sound.

use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::manifest::{Manifest, PersistedOptions};
use firn_kv::{Db, DbOptions, Error, ErrorKind, Tree, TreeOptions};
use firn_tools::output::Progress;
use firn_wide::internals::cell::{CounterMerge, PartitionPrefix, StoredFacts};
use firn_wide::internals::store::{SCHEMA_TREE, TreeName, hooks, loss};

use crate::check::shadow::ShadowStore;
use crate::schema::definitions::{Definitions, NEVER};
use crate::schema::lost_records::TreeEvidence;
use crate::store::target::env;

/// Result of opening and reading a store.
#[derive(Default)]
pub struct OpeningOutcome {
    /// Whether the engine opens the store for writing.
    pub opens: bool,
    /// Whether the engine opens it for reading. A store that it refuses to write to may be readable
    /// in part.
    pub opens_to_read: bool,
    /// Number of entries read, as users see them.
    pub entries: u64,
    /// Errors of the opening, then of each tree the error that ends its reading.
    pub errors: Vec<(Option<String>, Error)>,
    /// Trees of tables or column families with lost definitions.
    pub undefined: Vec<String>,
    /// Parts that could not be read here although they are not damaged.
    pub notes: Vec<String>,
    /// Definitions of the store's trees.
    pub definitions: Definitions,
}

/// Returns the hooks with these names; `None` if only the program that wrote the store knows one of
/// them.
pub fn known_hooks(o: &PersistedOptions) -> Option<TreeOptions> {
    let mut hooks = TreeOptions::default();
    match o.merge_operator.as_deref() {
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
    match o.compaction_filter.as_deref() {
        Some("firn.cells") => {
            hooks.compaction_filter =
                hooks::family(TreeOptions::default(), false, token_len, NEVER).compaction_filter
        }
        Some(_) => return None,
        None => {}
    }
    Some(o.with_hooks_of(&hooks))
}

/// Maximum number of attempts to open a store while a program that has it open changes its files.
const TRIES: usize = 50;

/// Opens the store in `dir` for reading, as the engine does.
///
/// # Errors
/// Errors of the engine.
pub fn open(dir: &Path) -> firn_kv::Result<Db> {
    let options =
        DbOptions { create: false, read_only: true, background_threads: 0, ..DbOptions::default() };
    Db::open_in(env(), dir, options)
}

/// Opens the store in `dir` for writing, as the engine does, but keeps all writes in memory. File
/// permissions for writing are not checked: a directory that only another user may write to is
/// opened too.
///
/// # Errors
/// Errors of the engine.
pub fn open_to_write(dir: &Path) -> firn_kv::Result<Db> {
    // With this segment size the log stays as it is: no flush is needed.
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

/// Opens a tree with the hooks that the manifest names, if they are known here.
///
/// # Errors
/// Errors of the engine.
pub fn open_tree(
    db: &Db,
    name: &str,
    persisted: Option<&PersistedOptions>,
) -> firn_kv::Result<Tree> {
    match persisted.and_then(known_hooks) {
        Some(options) => db.tree(name, options),
        None => db.existing_tree(name),
    }
}

/// Returns the records of the tree of definitions; none if the tree does not exist.
///
/// # Errors
/// Errors of the engine.
pub fn records(db: &Db) -> firn_kv::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    match db.existing_tree(SCHEMA_TREE) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(vec![]),
        schema => schema?.iter().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect(),
    }
}

/// Returns the trees with data of a table or column family that is not among these definitions.
///
/// # Errors
/// Errors of the engine.
pub fn undefined(db: &Db, definitions: &Definitions) -> firn_wide::Result<Vec<String>> {
    loss::undefined(db, |id| definitions.of_tree(&TreeName::Family(id).to_string()).is_some())
}

/// Opens the store in `dir` and reads all of it, even if it can only be opened for reading.
pub fn open_and_read(dir: &Path) -> OpeningOutcome {
    let mut o = OpeningOutcome::default();
    let opened = open_to_write(dir).inspect(|_| o.opens = true).or_else(|e| {
        o.errors.push((None, e));
        open(dir)
    });
    // If it cannot be opened for reading either, the reason is the same.
    let Ok((db, Some((state, _)))) = opened.and_then(|db| Ok((db, Manifest::load(&*env(), dir)?)))
    else {
        return o;
    };
    o.opens_to_read = true;
    let unread = match records(&db) {
        Ok(records) => {
            o.definitions = Definitions::read(records, &TreeEvidence::of_store(&state, Some(&db)));
            None
        }
        Err(e) => Some(firn_wide::Error::from(e)),
    };
    for r in &o.definitions.lacking {
        let words = format!(
            "the record {} is missing, without which others cannot be used; a new store gets {} in its place",
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
            // This is an error of the tree of definitions, which is read below.
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
        let read = open_tree(&db, &name, persisted)
            .and_then(|tree| tree.iter().try_fold(0, |n: u64, pair| pair.map(|_| n + 1)));
        match read {
            Ok(n) => o.entries += n,
            // Without its name no hook can be provided.
            Err(e) if e.kind() == ErrorKind::Incompatible && persisted.is_none_or(|o| o.merge_operator.is_some()) => o.notes.push(format!(
                "tree {name:?} has hooks that only the program has that wrote it: its tables have been verified, its entries not merged"
            )),
            // The program that has the store open dropped the tree.
            Err(e) if e.kind() == ErrorKind::Closed => {}
            Err(e) => o.errors.push((Some(name), e)),
        }
    }
    o.notes.extend(o.definitions.problems.iter().map(|p| format!("of the definitions: {p}")));
    o.notes.extend(o.definitions.unknown.iter().map(|u| format!("not known: {u}")));
    o
}
