//! Opens a Db: takes the lock, reads the manifest, replays the log, removes garbage.
//!
//! Order, and why:
//! 1. The lock, so that no other process changes the files.
//! 2. The manifest, which alone defines the live files.
//! 3. The log is replayed into memtables, except for records that a tree already has in tables.
//!    Memtables beyond the memory budget are flushed ([`replay`](crate::db::open::replay)).
//! 4. Files that the manifest does not name are removed; a crash left them.
//! 5. A new log segment and a new manifest are started, so that nothing is appended after a torn
//!    end.
//!
//! If a store was closed cleanly and has no garbage, the last step waits for the first write. It
//! then continues the existing manifest ([`CleanEnd`](crate::manifest::CleanEnd)). So to open, read
//! and close such a store writes nothing.
//!
//! A Db opened read-only takes no lock and writes nothing. It opens all needed files before it
//! reads any ([`reader`]), and replays the log into its own memtables. A damaged live table does
//! not prevent reads of other tables.
//!
//! [`reader`]: crate::db::open::reader

pub mod checkpoint;
pub mod close;
pub mod create_dir;
pub mod reader;
pub mod replay;
pub mod trees;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::options::{DbOptions, TreeOptions};
use crate::db::jobs::background;
use crate::db::write::durable;
use crate::db::write::reserve;
use crate::env::{Env, FileLock, FileTerms};
use crate::iterator::opener::{TableOpener, missing_blobs, table_path};
use crate::iterator::table_handle::{TableHandle, missing_table};
use crate::manifest::{
    CURRENT, CURRENT_NEW, FoundManifest, Manifest, ManifestState, TreeState, manifest_name,
    manifest_number,
};
use crate::memtable::{ArenaPool, Memtable};
use crate::sstable::format::{FOOTER, Footer};
use crate::wal::{Unneeded, segment_number};

use crate::db::commit::CommitPipeline;
use crate::db::commit::mem_handle::MemHandle;
use crate::db::inner::DbInner;
use crate::db::jobs::outputs::table_number;
use crate::db::key_locks::KeyLocks;
use crate::db::memory::budget::Budget;
use crate::db::observe::Observer;
use crate::db::observe::events::Events;
use crate::db::observe::meters::Meters;
use crate::db::observe::pins::Pins;
use crate::db::open::create_dir::{create_dir, new_id};
use crate::db::open::reader::HeldReader;
use crate::db::open::replay::{Replayed, replay};
use crate::db::open::trees::tree_of;
use crate::db::scheduler::Scheduler;
use crate::db::scheduler::gate::CloseGate;
use crate::db::versions::VersionSet;
use crate::db::versions::catalog::TreeCatalog;
use crate::db::versions::open_trees::OpenTrees;
use crate::db::versions::tree::{TreeInner, TreeParts};
use crate::db::write::reserve::RESERVE;
use crate::db::write::tombstone_probe::probe_trees;

const LOCK: &str = "LOCK";

/// Opens the store in `dir`.
pub fn open_store(env: Arc<dyn Env>, dir: &Path, options: DbOptions) -> Result<Arc<DbInner>> {
    let is_file =
        |e: &Error| e.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotADirectory);
    let DbOptions { file_mode, unsynced_dirs, .. } = options;
    let terms = FileTerms { file_mode, unsynced_dirs };
    let env = env.with_terms(terms).unwrap_or(env);
    let names = env.list(dir);
    if names.as_ref().is_err_and(is_file) {
        return Err(Error::invalid(
            "this is a file, or is below one; a store is a directory: name a new one or that of a store",
        )
        .in_file(dir));
    }
    let budget = match &options.shared {
        Some(shared) => shared.inside(Budget::new),
        None => Arc::new(Budget::new(options.memory_budget)),
    };
    if options.read_only {
        let env = if names.is_ok() { hold(env, dir)? } else { env };
        let held = HeldReader::new(new_opener(&env, dir, &options, &budget));
        return open_reader(&env, dir, &options, &budget, held);
    }
    if !names.is_ok_and(|names| names.iter().any(|n| n == CURRENT)) {
        if options.create {
            create_dir(&*env, dir)?;
        }
        check_directory(&*env, dir, options.create)?;
    }
    let env = hold(env, dir)?;
    let lock = env.lock(&dir.join(LOCK))?;
    open_once(env, dir, options, &budget, Some(lock), None)
}

/// Opens a reader of the store's current state, with the hooks and the open tables of this
/// reader.
pub fn refresh_reader(db: &DbInner) -> Result<Arc<DbInner>> {
    db.gate.check_open()?;
    if !db.options.read_only {
        return Err(Error::invalid(
            "only a read-only handle can be refreshed; this handle sees all writes",
        ));
    }
    // The directory at the path may have been replaced since the last refresh.
    let env = hold(db.env.clone(), db.versions.dir())?;
    let before = db.versions.trees().to_vec();
    let tables =
        before.iter().flat_map(|t| t.files.lock().handles.values().cloned().collect::<Vec<_>>());
    let held = HeldReader::with_tables(db.versions.opener().clone(), tables);
    let fresh = open_reader(&env, db.versions.dir(), &db.options, db.memory.budget(), held)?;
    if fresh.versions.store() != db.versions.store() {
        let words = "the directory now holds another store than the one that was opened; open it as a store of its own";
        return Err(Error::new(ErrorKind::Incompatible, words).in_file(db.versions.dir()));
    }
    for b in before.iter().filter(|b| b.is_hooked()) {
        if let Some(t) = fresh.versions.tree(b.id) {
            trees::attach_hooks(&fresh, &t, &b.view.load_full().options)?;
        }
    }
    Ok(fresh)
}

/// Returns the environment with the directory held open, if the environment supports that.
pub fn hold(env: Arc<dyn Env>, dir: &Path) -> Result<Arc<dyn Env>> {
    Ok(env.hold_dir(dir)?.unwrap_or(env))
}

/// Opens for reading, with the files that are held already; retries while the writer interferes.
fn open_reader(
    env: &Arc<dyn Env>,
    dir: &Path,
    options: &DbOptions,
    budget: &Arc<Budget>,
    mut held: HeldReader,
) -> Result<Arc<DbInner>> {
    loop {
        match open_once(env.clone(), dir, options.clone(), budget, None, Some(&mut held)) {
            Err(e) if held.may_pass(&e) => {}
            done => return done,
        }
    }
}

/// Returns the error for a directory without `CURRENT`: no store, or remains of one.
fn no_store(env: &dyn Env, dir: &Path) -> Error {
    if let Some(n) = env.list(dir).unwrap_or_default().iter().find(|n| table_number(n).is_some()) {
        let words = format!(
            "this file is missing, and there are tables ({n}); restore it from a copy, or let `sstable-dump repair` make one"
        );
        return Error::corruption(words).at(dir.join(CURRENT), 0).block("current");
    }
    Error::new(ErrorKind::NotFound, "there is no store here; check the name").in_file(dir)
}

/// Refuses a directory that holds files other than those of a store.
fn check_directory(env: &dyn Env, dir: &Path, create: bool) -> Result<()> {
    let names = match env.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(no_store(env, dir)),
        names => names?,
    };
    if names.iter().any(|n| n == CURRENT) {
        return Ok(());
    }
    if !create {
        return Err(no_store(env, dir));
    }
    let foreign = |n: &&String| {
        // Ignores files whose names begin with a dot: they belong to other programs, such as a file
        // manager or version control.
        let ours = [LOCK, CURRENT_NEW, RESERVE, "EVENTS.jsonl"].contains(&n.as_str())
            || n.starts_with('.');
        !(ours || self::manifest_number(n).is_some() || segment_number(n).is_some())
    };
    let Some(n) = names.iter().find(foreign) else { return Ok(()) };
    if names.iter().any(|n| table_number(n).is_some()) {
        return Err(no_store(env, dir));
    }
    let words =
        format!("the directory is not empty ({n}) and holds no store: name an empty or a new one");
    Err(Error::invalid(words).in_file(dir))
}

fn new_opener(
    env: &Arc<dyn Env>,
    dir: &Path,
    options: &DbOptions,
    budget: &Budget,
) -> Arc<TableOpener> {
    Arc::new(TableOpener::new(env.clone(), dir, budget.cache.clone(), options))
}

/// Opens the store once. `held` has the files that a reader holds; it is `None` for a writer.
fn open_once(
    env: Arc<dyn Env>,
    dir: &Path,
    options: DbOptions,
    budget: &Arc<Budget>,
    lock: Option<Box<dyn FileLock>>,
    mut held: Option<&mut HeldReader>,
) -> Result<Arc<DbInner>> {
    held.as_mut().map_or(Ok(()), |h| h.hold_log())?;
    let found = Manifest::find(&*env, dir)?;
    if found.is_none() && options.read_only {
        return Err(no_store(&*env, dir));
    }
    let found =
        found.unwrap_or_else(|| FoundManifest { state: new_state(&*env), number: 0, end: None });
    let state = &found.state;
    if !options.read_only {
        check_live(&*env, dir, state)?;
    }
    let events = Arc::new(Events::open(
        env.clone(),
        dir,
        options.event_log && !options.read_only,
        options.listener.clone(),
    ));
    let arenas = budget.arenas.clone();
    let tree_parts = TreeParts {
        env: env.clone(),
        meters: Meters::new(env.clone()),
        pins: Pins::new(env.clone()),
        empty_ranges: budget.empty_ranges.clone(),
        work: Arc::default(),
    };
    let opener =
        held.as_ref().map_or_else(|| new_opener(&env, dir, &options, budget), |h| h.opener.clone());
    let opened = held.as_ref().map(|h| h.tables.clone()).unwrap_or_default();
    let manifest = dir.join(manifest_name(found.number));
    let trees = trees_in(state, &manifest, &arenas, &opener, &opened, &tree_parts)?;
    if let Some(h) = &mut held {
        h.hold_tables(
            trees
                .iter()
                .flat_map(|t| t.files.lock().handles.values().cloned().collect::<Vec<_>>())
                .collect(),
        )?;
    }
    let names = if options.read_only { vec![] } else { env.list(dir)? };
    let largest =
        trees.iter().map(|t| t.view.load_full().options.memtable_size).max().unwrap_or(64 << 20);
    let work = tree_parts.work.clone();
    let memory = budget.share(&opener, &work, largest);
    memory.set_trees(trees.len());
    let last_seq = state.last_seq;
    let mut catalog = TreeCatalog::new(env.clone(), dir.to_path_buf(), found);
    // A replay writes tables before the remains of a crash are removed.
    names.iter().filter_map(|n| table_number(n)).for_each(|n| catalog.pass_file(n));
    let (meters, pins) = (tree_parts.meters.clone(), tree_parts.pins.clone());
    let gate = Arc::new(CloseGate::new(env.clone(), events.clone(), work.clone()));
    let inner = Arc::new(DbInner {
        commit: CommitPipeline::new(gate.clone(), last_seq),
        versions: VersionSet::new(
            dir.to_path_buf(),
            opener,
            catalog,
            OpenTrees::new(trees),
            tree_parts,
            lock,
        ),
        key_locks: KeyLocks::default(),
        scheduler: Scheduler::new(
            env.clone(),
            gate.clone(),
            events.clone(),
            work,
            options.background_threads,
            options.read_only,
            options.background_rate,
        ),
        observer: Observer::new(meters, pins, events),
        memory,
        gate,
        env,
        options,
        me: OnceLock::new(),
    });
    let log = held.as_ref().map_or(&*inner.env, |h| h.log());
    let replayed = replay(&inner, log)?;
    check_replayed(&replayed, held.as_deref())?;
    finish_open(&inner, replayed, names)?;
    Ok(inner)
}

/// Creates the trees of a manifest, with empty memtables and without their hooks.
fn trees_in(
    state: &ManifestState,
    manifest: &Path,
    arenas: &Arc<ArenaPool>,
    opener: &Arc<TableOpener>,
    opened: &HashMap<u64, Arc<TableHandle>>,
    parts: &TreeParts,
) -> Result<Vec<Arc<TreeInner>>> {
    let open = |t: &TreeState| {
        let options = t.options.with_hooks_of(&TreeOptions::default());
        options.check().map_err(|e| {
            let words = format!(
                "the manifest has options of the tree {:?} that this build does not take: {e}",
                t.name
            );
            Error::new(ErrorKind::Incompatible, words).in_file(manifest)
        })?;
        let mem = Memtable::empty(arenas, options.filter_prefix.clone())?;
        let hooked = t.options.check_hooks(&t.name, &options).is_ok();
        tree_of(t, options, hooked, MemHandle::new(mem, state.wal_floor), opener, opened, parts)
    };
    state.trees.values().map(open).collect()
}

/// Returns an error if a reader's replay of the log stopped before records that it does not know to
/// be unneeded: the segment with the missing records may have been released. Then the next manifest
/// does not need it.
fn check_replayed(replayed: &Replayed, held: Option<&HeldReader>) -> Result<()> {
    let torn = replayed.recovered.torn.as_ref().filter(|t| t.records_beyond > 0);
    let (Some(held), Some(t)) = (held, torn) else { return Ok(()) };
    let e = Error::corruption(t.reason).at(&t.file, t.offset).block("wal record");
    if held.is_known(&e) { Ok(()) } else { Err(e) }
}

/// Returns the state of a Db that is being created.
fn new_state(env: &dyn Env) -> ManifestState {
    ManifestState {
        id: new_id(env),
        created_micros: env.wall_micros(),
        next_file: 1,
        next_tree: 1,
        ..ManifestState::default()
    }
}

/// Continues from the end that was found of the log. `names` lists the directory before.
fn finish_open(db: &DbInner, replayed: Replayed, names: Vec<String>) -> Result<()> {
    let Replayed { recovered, last_seq } = replayed;
    if let Some(t) = &recovered.torn {
        db.observer.note(|| Event::LogEndedEarly {
            file: t.file.clone(),
            offset: t.offset,
            reason: t.reason.to_owned(),
            bytes_beyond: t.bytes_beyond,
            records_beyond: t.records_beyond,
        });
        db.commit.set_torn(t.clone());
    }
    let mut c = db.versions.lock_catalog();
    let last_seq = last_seq.max(c.state().last_seq);
    c.end_replay(last_seq);
    db.commit.visible().start(last_seq);
    let trees = db.versions.trees().to_vec();
    trees.iter().for_each(|t| probe_trees(t, last_seq));
    let (records, closed) = (recovered.records, recovered.closed);
    let mut w = db.commit.lock();
    w.go_on_from(last_seq, (!db.options.read_only).then_some(recovered));
    for t in &trees {
        let view = t.view.load_full();
        for m in view.memtables() {
            db.memory.count(m);
            w.note_unflushed(t.id, m);
        }
        if !view.sealed.is_empty() {
            db.scheduler.queue().note_sealed(t.id);
        }
    }
    let floor = w.wal_floor(&[]);
    drop(w);
    db.memory.rebalance();
    let has_flushed = db.observer.counters().sums().flushes > 0;
    let garbage = if db.options.read_only { vec![] } else { garbage(names, c.state(), c.number()) };
    if db.options.read_only {
        db.gate.set_read_only();
    } else if !closed || has_flushed || !garbage.is_empty() {
        remove_torn_current(&*db.env, db.versions.dir())?;
        if has_flushed {
            let before = c.state().wal_floor;
            c.set_wal_floor(before.max(floor));
        }
        // Its last edits may not be durable, and the tables flushed by the replay are not in a
        // manifest yet.
        c.discard_clean_end();
        reserve::with_reserve(db, || durable::begin_writing(db, &mut c))?;
        // Only now is the manifest durable together with these files. Under an older manifest
        // live tables would look like garbage. The last edits of the found manifest may not be
        // durable.
        let own = manifest_name(c.number());
        let mut gone = garbage.iter().filter(|n| *n != CURRENT_NEW && **n != own);
        gone.try_for_each(|n| remove_if_there(&*db.env, &db.versions.dir().join(n)))?;
        if has_flushed {
            // Segments that cannot be removed now are removed after the next opening.
            let unneeded = db.commit.lock().log().map(|wal| wal.retire(floor));
            let _ = unneeded.map(Unneeded::remove);
        }
    }
    db.observer.note(|| Event::Opened {
        store: c.state().id,
        seq: last_seq,
        records_replayed: records,
        max_sealed: db.memory.max_sealed(),
        background_threads: db.scheduler.workers(),
    });
    let has_begun = c.has_begun();
    drop(c);
    if has_begun { background::shorten_inherited_log(db) } else { Ok(()) }
}

/// Removes a `CURRENT.tmp` that a crash left, before another is written. A power cut during the
/// rename may have left it as a second name of `CURRENT`.
fn remove_torn_current(env: &dyn Env, dir: &Path) -> Result<()> {
    remove_if_there(env, &dir.join(CURRENT_NEW))
}

/// Removes a file if it exists. A handle of an earlier opening in this process may remove it at the
/// same time.
fn remove_if_there(env: &dyn Env, file: &Path) -> Result<()> {
    match env.remove(file) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Selects the names of files that a crash left: tables that the manifest does not name, other
/// manifests, and a `CURRENT.tmp`. Only names that a Db gives its own files are considered; all
/// other files stay.
fn garbage(mut names: Vec<String>, state: &ManifestState, manifest: u64) -> Vec<String> {
    let live: HashSet<u64> = state.trees.values().flat_map(TreeState::files).collect();
    names.retain(|name| match (table_number(name), manifest_number(name)) {
        (Some(id), _) => !live.contains(&id),
        (_, Some(number)) => number != manifest,
        _ => name == CURRENT_NEW,
    });
    names
}

/// Checks that every live table exists, has the length in the manifest, and has no newer format
/// version. A build must not change files that it cannot read (spec, "Unknown versions"). Reads
/// detect other damage of a table later.
fn check_live(env: &dyn Env, dir: &Path, state: &ManifestState) -> Result<()> {
    for t in state.trees.values().flat_map(|t| &t.runs).flat_map(|r| &r.tables) {
        let path = table_path(dir, t.id);
        match env.file_len(&path) {
            Ok(n) if n == t.size => check_version(env, &path, t.id)?,
            Ok(n) => {
                let words = format!(
                    "the manifest says {} bytes, the file has {n}; look at it with `sstable-dump check`, save what can be read with `sstable-dump salvage`",
                    t.size
                );
                return Err(Error::corruption(words).at(path, n).keys(&t.first_key, &t.last_key));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(missing_table(dir, t)),
            Err(e) => return Err(e),
        }
    }
    for v in state.trees.values().flat_map(|t| t.values.values()) {
        let path = table_path(dir, v.id);
        match env.file_len(&path) {
            Ok(n) if n == v.size => check_version(env, &path, v.id)?,
            Ok(n) => {
                let words = format!(
                    "the manifest says {} bytes of this blob file, the file has {n}; save what can be read with `sstable-dump salvage`",
                    v.size
                );
                return Err(Error::corruption(words).at(path, n));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(missing_blobs(dir, v)),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Refuses a table of a newer version. It reads only the footer of the table.
fn check_version(env: &dyn Env, path: &Path, id: u64) -> Result<()> {
    let footer = env.open_read(path, false).and_then(|file| {
        let (mut f, at) = ([0; FOOTER], file.len().saturating_sub(FOOTER as u64));
        file.read_at(at, &mut f)?;
        Footer::decode(&f, path, id, at)
    });
    match footer {
        Err(e) if e.kind() == ErrorKind::Incompatible => Err(e),
        _ => Ok(()),
    }
}
