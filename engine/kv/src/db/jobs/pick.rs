//! Runs each tree's compaction picker on its current shape.
//!
//! Invariant: a job that drops tables that snapshots may see waits, as a whole, until these
//! snapshots are released.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::base::error::Error;
use crate::base::events::Event;
use crate::base::options::TreeOptions;
use crate::compaction::{
    Action, CompactionJob, CompactionReason, LsmShape, TableShape, pick, pressure, run_limits,
};
use crate::db::observe::Observer;
use crate::db::versions::VersionSet;
use crate::db::write::slowdown;
use crate::iterator::table_handle::TableHandle;
use crate::util::nested::nested;

use crate::db::inner::DbInner;
use crate::db::versions::tree::{TreeFiles, TreeInner};
use crate::db::versions::view::TreeView;

/// Returns the shape of a tree as its policy sees it. Without background threads, writers would
/// do read-triggered compactions. They are disabled there, so that equal histories give equal
/// directories, independent of reads.
pub fn tree_shape(db: &DbInner, view: &TreeView, files: &TreeFiles) -> LsmShape {
    let (version, options) = (&view.version, &view.options);
    let read_debt = if db.scheduler.workers() > 0 { view.read_debt.paid() } else { 0 };
    let mut shape = LsmShape {
        now_micros: db.env.wall_micros(),
        memtable_size: options.memtable_size as u64,
        table_size: options.table_size,
        tombstone_age_secs: options.tombstone_age_secs,
        has_compaction_filter: options.compaction_filter.is_some(),
        read_debt,
        read_compaction_bytes: view.read_debt.allowance(db.options.read_compaction_percent),
        runs: version.shapes.clone(),
        next_run: u64::MAX,
        _non_exhaustive: (),
    };
    if !files.busy.is_empty() {
        shape.change(|t| files.busy.contains_key(&t.id), |t| t.busy = true);
    }
    if options.tombstone_age_secs > 0
        && !files.held_back.is_empty()
        && let Some(oldest) = db.versions.snapshots().oldest()
    {
        let is_held_back = |t: &TableShape| files.held_back.get(&t.id) == Some(&oldest);
        shape.change(is_held_back, |t| t.held_back = true);
    }
    let gc_files = &version.values.gc_files;
    if !gc_files.is_empty() {
        // Skip unreadable blobs, or their table is picked again forever.
        let stale = |t: &Arc<TableHandle>| {
            let spoiled = |file| t.values().iter().any(|v| v.facts.id == file && v.is_spoiled());
            let uses = t.meta.values.iter();
            let uses = uses.filter(|u| gc_files.contains(&u.file) && !spoiled(u.file));
            Some((t.meta.id, uses.map(|u| u.bytes).sum::<u64>())).filter(|(_, bytes)| *bytes > 0)
        };
        let stale: HashMap<u64, u64> = version.tables().filter_map(stale).collect();
        shape.change(
            |t| stale.contains_key(&t.id),
            |t| t.blob_relocation_bytes = stale.get(&t.id).copied().unwrap_or(0),
        );
    }
    if options.compaction_filter.is_some() && options.summary.is_some() {
        let gone = |t: &Arc<TableHandle>| Some((t.meta.id, expires_at(t, options)?));
        let gone: HashMap<u64, u64> = version.tables().filter_map(gone).collect();
        shape.change(|t| gone.contains_key(&t.id), |t| t.expires_micros = gone.get(&t.id).copied());
    }
    shape
}

/// Picks a compaction by the policy. A job that drops tables that snapshots may see waits, as a
/// whole, until these are released. A part of it could drop newer tables that hide entries of
/// older tables which stay. While expired tables wait, other compactions of the tree run.
pub fn pick_compaction(
    versions: &VersionSet,
    options: &TreeOptions,
    shape: &LsmShape,
) -> Option<CompactionJob> {
    let is_seen = |job: &CompactionJob| {
        let ids: HashSet<u64> = nested(&job.inputs, |i| &i.tables).copied().collect();
        let tables = shape.tables().filter(|t| ids.contains(&t.id));
        job.action == Action::Drop
            && versions.snapshots().may_be_seen(tables.map(|t| t.min_seq).min())
    };
    let job = pick(options.active_policy(), shape)?;
    if !is_seen(&job) {
        return Some(job);
    }
    if job.reason != CompactionReason::Expired {
        return None;
    }
    let mut unexpired = shape.clone();
    unexpired.change(|t| t.expires_micros.is_some(), |t| t.expires_micros = None);
    pick(options.active_policy(), &unexpired).filter(|job| !is_seen(job))
}

/// Returns the position of a tree between the soft and hard limits of runs of its policy: 0 is at
/// or below the soft limit, 1 at the hard limit.
pub fn tree_pressure(db: &DbInner, tree: &TreeInner) -> f64 {
    let files = tree.files.lock();
    let view = tree.view.load_full();
    let shape = tree_shape(db, &view, &files);
    pressure(run_limits(view.options.active_policy(), &shape), shape.runs.len())
}

/// Called after the tables or the options of a tree have changed. Its policy may pick a job,
/// and the slowdown of writers follows the tree with the highest pressure.
pub fn tables_changed(db: &DbInner, tree: &TreeInner) {
    db.scheduler.queue().recheck([tree.id]);
    // Computed under the lock. Otherwise a caller with an older view of the tables, or of a
    // tree that was dropped or closed since, could overwrite a newer value.
    let mut pressed = db.scheduler.queue().pressed();
    let pressure = if tree.check_live().is_err() { 0.0 } else { tree_pressure(db, tree) };
    if pressure > 0.0 {
        pressed.insert(tree.id, pressure);
    } else {
        pressed.remove(&tree.id);
    }
    // Under the lock, so that begin and end events are reported in order.
    slowdown::set_slowdown(&db.scheduler, tree, pressed.values().copied().fold(0.0, f64::max));
    drop(pressed);
    report_policy(&db.observer, tree);
}

/// Reports the failure of the tree's custom policy as an event, once.
pub fn report_policy(observer: &Observer, tree: &TreeInner) {
    let options = tree.view.load_full().options.clone();
    if let Some(custom) = &options.custom_policy
        && let Some(reason) = custom.take_failure()
    {
        observer.note(|| Event::PolicyFailed {
            tree: tree.name.clone(),
            policy: custom.name().to_owned(),
            reason: reason.to_owned(),
        });
    }
}

/// Calls workers if one of these trees needs a compaction, or will need one as time passes.
/// Takes locks of trees.
pub fn call_workers_for<'t>(db: &DbInner, trees: impl IntoIterator<Item = &'t TreeInner>) {
    let is_due = |t: &TreeInner| can_age(db, t) || is_due(db, t);
    if !db.scheduler.has_all_workers() && trees.into_iter().any(is_due) {
        db.scheduler.queue().start_workers();
    }
}

/// Calls workers as [`call_workers_for`](crate::db::jobs::pick::call_workers_for) does, for all
/// trees.
pub fn call_workers_for_any(db: &DbInner) {
    if !db.scheduler.has_all_workers() {
        let trees = db.versions.trees().to_vec();
        call_workers_for(db, trees.iter().map(|t| &**t));
    }
}

/// Reports whether this tree can need a compaction as time passes, without writes.
pub fn can_age(_db: &DbInner, tree: &TreeInner) -> bool {
    let view = tree.view.load_full();
    let o = &view.options;
    (o.active_policy().ages() || o.tombstone_age_secs > 0 || o.compaction_filter.is_some())
        && !view.version.runs.is_empty()
}

/// Reports whether any job runs, or this tree needs one. Both are checked under the lock under
/// which jobs are claimed. Otherwise a job claimed between the two checks would be missed.
pub fn is_compacting_or_due(db: &DbInner, t: &TreeInner) -> bool {
    let files = t.files.lock();
    db.scheduler.queue().is_compacting() || is_due_with(db, t, &files)
}

pub fn is_due(db: &DbInner, t: &TreeInner) -> bool {
    is_due_with(db, t, &t.files.lock())
}

pub fn is_due_with(db: &DbInner, t: &TreeInner, files: &TreeFiles) -> bool {
    let view = t.view.load_full();
    let shape = tree_shape(db, &view, files);
    !t.is_dropped()
        && t.is_hooked()
        && pick_compaction(&db.versions, &view.options, &shape).is_some()
}

/// Returns the time from which all entries of a table may be dropped, by the compaction filter. An
/// unopened table is opened for it only if the policy drops whole time windows.
fn expires_at(t: &TableHandle, options: &TreeOptions) -> Option<u64> {
    let (Some(purge), Some(_)) = (&options.compaction_filter, &options.summary) else {
        return None;
    };
    if t.opened().is_none() && !options.active_policy().expires() {
        return None;
    }
    // An unreadable table is not dropped; reads report the error. Neither is a table whose hook
    // panics: this code runs where a job is picked or has been installed.
    let table = t.table().ok()?;
    let summary = &table.properties().summary_bytes;
    Error::catch("a compaction filter", || Ok(purge.expires_at(summary))).ok()?
}
