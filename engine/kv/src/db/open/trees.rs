//! Opens, creates and drops trees, and changes their options.
//!
//! Invariant: trees that are created together are one frame of the manifest. So after a crash all
//! of them exist, or none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::options::TreeOptions;
use crate::db::jobs::background;
use crate::db::jobs::pick;
use crate::db::observe::Observer;
use crate::db::versions::VersionSet;
use crate::db::write::durable;
use crate::db::write::slowdown;
use crate::iterator::opener::TableOpener;
use crate::iterator::table_handle::TableHandle;
use crate::manifest::{Edit, PersistedOptions, TreeState};
use crate::memtable::Memtable;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::inner::DbInner;
use crate::db::versions::catalog::TreeCatalog;
use crate::db::versions::tree::{TreeFiles, TreeInner, TreeParts};
use crate::db::versions::view::TreeView;

/// Creates a tree from its state in the manifest, without opening its files.
pub fn tree_of(
    state: &TreeState,
    options: TreeOptions,
    hooked: bool,
    active: Arc<MemHandle>,
    opener: &Arc<TableOpener>,
    opened: &HashMap<u64, Arc<TableHandle>>,
    parts: &TreeParts,
) -> Result<Arc<TreeInner>> {
    let mut files = TreeFiles::default();
    let mut held = state.tables().filter_map(|t| opened.get(&t.id));
    if let Some(held) = held.next() {
        files.reads = held.reads().clone();
    }
    for m in state.tables() {
        if let Some(held) = opened.get(&m.id).filter(|h| h.meta == *m) {
            files.handles.insert(m.id, held.clone());
        }
        files.add_table_handle(m.clone(), opener, &state.values);
    }
    if !hooked && state.options.filter_prefix.is_some() {
        files.handles.values().for_each(|h| h.use_filter(false));
    }
    TreeInner::new(state, options, hooked, active, files, parts)
}

/// Reports whether both have equal settings, and hooks that are the same objects.
fn is_same(a: &TreeOptions, b: &TreeOptions) -> bool {
    fn is_one<T: ?Sized>(a: &Option<Arc<T>>, b: &Option<Arc<T>>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
    PersistedOptions::of(a) == PersistedOptions::of(b)
        && a.custom_policy == b.custom_policy
        && is_one(&a.merge_operator, &b.merge_operator)
        && is_one(&a.compaction_filter, &b.compaction_filter)
        && is_one(&a.summary, &b.summary)
        && is_one(&a.filter_prefix, &b.filter_prefix)
}

/// Reports whether both have hooks of the same names.
fn has_hooks_of(a: &TreeOptions, b: &TreeOptions) -> bool {
    PersistedOptions::of(b).check_hooks("", a).is_ok()
}

/// Opens trees of these names, and creates all missing ones atomically, unless `may_create` is an
/// error.
pub fn open_trees(
    db: &DbInner,
    wanted: &[(&str, &TreeOptions)],
    may_create: Result<()>,
) -> Result<Vec<Arc<TreeInner>>> {
    let mut names = HashSet::with_capacity(wanted.len());
    for (name, options) in wanted {
        options.check()?;
        if name.is_empty() || name.len() > 255 {
            return Err(Error::invalid(format!(
                "a tree's name has 1 to 255 bytes, this one {}",
                name.len()
            )));
        }
        if !names.insert(name) {
            return Err(Error::invalid(format!(
                "the tree {name:?} is asked for twice in one call"
            )));
        }
    }
    let mut trees = vec![None; wanted.len()];
    loop {
        let mut missing = vec![];
        for (slot, &(name, options)) in
            trees.iter_mut().zip(wanted).filter(|(slot, _)| slot.is_none())
        {
            let there = db.versions.trees().named(name);
            *slot = there.map_or(Ok(None), |t| reopen_tree(db, t, options))?;
            if slot.is_none() {
                missing.push(NewTree {
                    name,
                    options: (*options).clone(),
                    persisted: PersistedOptions::of(options),
                });
            }
        }
        if missing.is_empty() {
            break;
        }
        may_create.clone()?;
        // `None` when another thread has created one of them in the meantime, with any options.
        if let Some(made) = create_trees(db, &missing)? {
            trees
                .iter_mut()
                .filter(|slot| slot.is_none())
                .zip(made)
                .for_each(|(slot, t)| *slot = Some(t));
            break;
        }
    }
    let trees: Vec<Arc<TreeInner>> = trees.into_iter().flatten().collect();
    trees.iter().for_each(|t| report_options(&db.observer, t));
    Ok(trees)
}

/// Opens an existing tree with its stored options and the given hooks. Returns `None` when another thread has dropped it in the meantime.
fn reopen_tree(
    db: &DbInner,
    t: Arc<TreeInner>,
    options: &TreeOptions,
) -> Result<Option<Arc<TreeInner>>> {
    match attach_hooks(db, &t, options) {
        Ok(()) => {
            background::shorten_log(db, &t)?;
            Ok(Some(t))
        }
        Err(e) if e.kind() == ErrorKind::Closed && !db.gate.is_closing() => Ok(None),
        Err(e) => Err(e),
    }
}

/// A tree to create.
struct NewTree<'a> {
    name: &'a str,
    /// Options with the hooks that are supplied now.
    options: TreeOptions,
    /// Options with the names of all hooks.
    persisted: PersistedOptions,
}

#[cfg(feature = "internals")]
/// Creates a tree with these stored options and without its hooks, or gives an existing tree of
/// this name the options.
pub fn define_tree(
    db: &DbInner,
    name: &str,
    persisted: &PersistedOptions,
) -> Result<Arc<TreeInner>> {
    loop {
        let there = db.versions.trees().named(name);
        if let Some(t) = there {
            let now = t.view.load_full().options.clone();
            set_options(db, &t, persisted.with_hooks_of(&now))?;
            return Ok(t);
        }
        let options = persisted.with_hooks_of(&TreeOptions::default());
        options.check()?;
        let missing = [NewTree { name, options, persisted: persisted.clone() }];
        if let Some(mut made) = create_trees(db, &missing)?
            && let Some(t) = made.pop()
        {
            report_options(&db.observer, &t);
            return Ok(t);
        }
    }
}

/// Creates trees with one group of edits. Returns `None`, and creates none, when a tree with
/// one of the names exists already.
fn create_trees(db: &DbInner, missing: &[NewTree<'_>]) -> Result<Option<Vec<Arc<TreeInner>>>> {
    let start = db.commit.sync_log()?;
    let mut c = db.versions.lock_catalog();
    {
        let there = db.versions.trees();
        if missing.iter().any(|new| there.named(new.name).is_some()) {
            return Ok(None);
        }
    }
    let first = c.state().next_tree;
    let ids = (0..).map(|n| first.saturating_add(n));
    // First runs every step that can fail: a tree in the manifest must also exist in memory.
    let memtables = missing
        .iter()
        .map(|n| Memtable::empty(db.memory.arenas(), n.options.filter_prefix.clone()));
    let memtables = memtables.collect::<Result<Vec<_>>>()?;
    let edits = ids.clone().zip(missing).map(|(id, new)| Edit::CreateTree {
        id,
        name: new.name.to_owned(),
        options: new.persisted.clone(),
        flushed: start,
    });
    durable::log_edits(db, &mut c, edits.collect())?;
    let mut made = vec![];
    for ((id, NewTree { name, options, .. }), memtable) in ids.zip(missing).zip(memtables) {
        let state = c.state().trees.get(&id);
        let state = state
            .ok_or_else(|| Error::invalid(format!("the tree {name:?} could not be created")))?;
        let tree = new_tree(&db.versions, state, options.clone(), MemHandle::new(memtable, start))
            .map_err(|e| db.gate.fail(e))?;
        made.push(tree);
    }
    {
        let mut trees = db.versions.trees_mut();
        made.iter().for_each(|t| trees.add(t.clone()));
        db.memory.set_trees(trees.len());
    }
    made.iter()
        .for_each(|t| db.observer.note(|| Event::TreeCreated { tree: t.name.clone(), id: t.id }));
    drop(c);
    db.memory.rebalance();
    Ok(Some(made))
}

/// Reports the current options of a tree as an event.
pub fn report_options(observer: &Observer, t: &TreeInner) {
    let options = t.view.load_full().options.clone();
    observer
        .note(|| Event::TreeOpened { tree: t.name.clone(), options: Box::new((*options).clone()) });
}

/// Opens a tree with the hooks of `hooks`, with which it must have been written, and with its stored
/// options. A custom policy in force stays unless `hooks` has another one.
pub fn attach_hooks(db: &DbInner, t: &TreeInner, hooks: &TreeOptions) -> Result<()> {
    let change = |stored: &PersistedOptions| {
        let mut options = stored.with_hooks_of(hooks);
        let current = || t.view.load_full().options.custom_policy.clone();
        options.custom_policy = options.custom_policy.or_else(current);
        options
    };
    change_options(db, t, change, false)
}

/// Applies the options that `change` returns for the stored ones. The hooks must be those with which
/// the tree was written. With `keep`, a tree that was opened without its hooks continues without
/// them.
fn change_options(
    db: &DbInner,
    t: &TreeInner,
    change: impl FnOnce(&PersistedOptions) -> TreeOptions,
    keep: bool,
) -> Result<()> {
    let mut c = db.versions.lock_catalog();
    db.gate.check_open()?;
    let Some(state) = c.state().trees.get(&t.id) else { return Err(t.dropped()) };
    let options = change(&state.options);
    let hooked = match state.options.check_hooks(&t.name, &options) {
        Ok(()) => true,
        Err(_) if keep && !t.is_hooked() && has_hooks_of(&options, &t.view.load_full().options) => {
            false
        }
        Err(e) => return Err(e),
    };
    let persisted = PersistedOptions::of(&options).with_names_of(&state.options);
    if persisted != state.options && !db.options.read_only {
        durable::log_edits(db, &mut c, vec![Edit::SetOptions { id: t.id, options: persisted }])?;
    }
    // The catalogue's lock is still held: with two concurrent callers, the options in the
    // manifest are those in force. The write lock prevents writes to a memtable that is being
    // replaced.
    let files = t.files.lock();
    let w = db.commit.lock();
    t.set_options(options, hooked, &files)?;
    if let Some(state) = c.state().trees.get(&t.id) {
        t.update_gc_files(state);
    }
    drop((w, files, c));
    pick::tables_changed(db, t);
    db.signal_work();
    pick::call_workers_for(db, [t]);
    Ok(())
}

pub fn set_options(db: &DbInner, t: &TreeInner, options: TreeOptions) -> Result<()> {
    db.gate.check_writable()?;
    t.check_live()?;
    if is_same(&options, &t.view.load_full().options) {
        return Ok(());
    }
    change_options(db, t, |_| options, true)?;
    report_options(&db.observer, t);
    Ok(())
}

pub fn drop_tree(db: &DbInner, name: &str) -> Result<()> {
    let there = db.versions.trees().named(name);
    let t = there
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name:?}")))?;
    let _one = t.flushing.lock();
    db.commit.sync_log()?;
    let mut c = db.versions.lock_catalog();
    if !c.state().trees.contains_key(&t.id) {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no tree {name:?}: another thread has dropped it"),
        ));
    }
    log_drop(db, &mut c, &t)?;
    db.observer.note(|| Event::TreeDropped { tree: t.name.clone(), id: t.id });
    {
        // In one step, for callers that see that the tree is dropped and then list the names.
        let mut trees = db.versions.trees_mut();
        t.mark_dropped();
        trees.remove(&t);
        db.memory.set_trees(trees.len());
    }
    // Before the catalogue is unlocked: a close ends only the slowdowns of trees that still
    // exist.
    slowdown::end_fill(db, &t);
    drop(c);
    {
        // No writer enters a memtable of a dropped tree from now on.
        let mut w = db.commit.lock();
        t.view.load_full().memtables().for_each(|m| {
            w.release(t.id, m);
            db.memory.release(m);
        });
    }
    pick::tables_changed(db, &t);
    db.observer.counters().dropped_tree(&t.view.load_full().reads.report());
    let handles = std::mem::take(&mut t.files.lock().handles);
    db.observer.pins().retire(t.id, handles.values());
    t.view.load_full().sealed.iter().for_each(|m| m.set_flushed());
    // Handles of the tree may live for long, but its memtable is released now.
    let active = Memtable::empty(db.memory.arenas(), None)
        .map_or_else(|_| t.view.load_full().active.clone(), |m| MemHandle::new(m, 0));
    t.change_view(|v| {
        let version = Arc::default();
        TreeView { active, sealed: vec![], version, ..v.clone() }
    });
    db.memory.rebalance();
    db.scheduler.queue().signal_done();
    Ok(())
}

/// Drops a tree from the manifest. The drop takes a sequence number. A concurrent reader whose
/// manifest still has the tree finds this number missing in the log, and shows no write after
/// it.
fn log_drop(db: &DbInner, c: &mut TreeCatalog, t: &TreeInner) -> Result<()> {
    durable::begin_writing(db, c)?;
    let mut w = db.commit.lock();
    let seq = w.newest() + 1;
    db.commit.visible().wait_below(seq);
    // A power cut that loses an earlier write must also lose the drop.
    db.commit.sync_to(w.end())?;
    let (next_file, wal_floor) = (c.state().next_file, c.state().wal_floor);
    let counters = Edit::Counters { next_file, last_seq: seq, wal_floor };
    durable::log_edits(db, c, vec![Edit::DropTree { id: t.id }, counters])?;
    w.take_seq();
    c.note_drop(seq);
    db.commit.visible().publish(seq, 1);
    Ok(())
}

/// Creates a tree that was just added to the manifest.
fn new_tree(
    versions: &VersionSet,
    state: &TreeState,
    options: TreeOptions,
    active: Arc<MemHandle>,
) -> Result<Arc<TreeInner>> {
    let hooked = state.options.check_hooks(&state.name, &options).is_ok();
    tree_of(
        state,
        options,
        hooked,
        active,
        versions.opener(),
        &HashMap::new(),
        versions.tree_parts(),
    )
}
