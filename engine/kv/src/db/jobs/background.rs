//! Runs background work in steps: by a worker, or by a caller if there are no workers.
//!
//! Invariants: see [`workers`](crate::db::jobs::workers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::db::jobs::compact;
use crate::db::jobs::flush;
use crate::db::jobs::pick;
use crate::db::memory::budget::MemoryManager;
use crate::db::scheduler::Scheduler;
use crate::db::versions::VersionSet;
use crate::db::write::durable;
use crate::db::write::seal;
use crate::env::Env;
use crate::util::sort::sort_by;

use crate::db::commit::write_state::Writing;
use crate::db::inner::DbInner;
use crate::db::observe::pins::advance_epoch;
use crate::db::versions::tree::TreeInner;

/// Number of trees up to which all are checked for work each time.
const FEW: usize = 16;

/// Size in bytes up to which memtables are flushed together with others. A group has at most
/// `TOGETHER` memtables and at most a sixteenth of the memory.
const SMALL: usize = 256 << 10;

const TOGETHER: usize = 64;

/// Maps the result of work on a tree to success if the tree has been dropped in the meantime. The
/// caller may be a writer of another tree, whose own write is done.
fn unless_dropped(tree: &TreeInner, done: Result<bool>) -> Result<bool> {
    match done {
        Err(e) if e.kind() == ErrorKind::Closed && tree.is_dropped() => Ok(true),
        done => done,
    }
}

/// Does one step of work. Returns false when there is none.
pub fn work_once(db: &DbInner, compacts: bool) -> Result<bool> {
    // To remove a large file takes tens of milliseconds; no flush should wait for that.
    if compacts {
        db.versions.opener().delete_obsolete_files();
    }
    if db.gate.check_writable().is_err() {
        return Ok(false);
    }
    let prepare = db.commit.lock().log().and_then(|w| w.prepare_next());
    // To touch a whole segment takes tens of milliseconds. A single thread stops early for a
    // flush. With several threads another one flushes. Writers touch the rest of the segment.
    let is_alone = db.scheduler.workers() == 1;
    let stop = || db.gate.is_closing() || (is_alone && db.scheduler.queue().has_sealed());
    let prepared = prepare.map_or(Ok(()), |job| job.run(&stop));
    if prepared.as_ref().is_err_and(|e| !e.is_transient()) {
        return prepared.map(|()| false);
    }
    let compacts_first = compacts
        && db.scheduler.workers() != 1
        && has_too_many_small_tables(&db.versions, &db.memory);
    let compacted = if compacts_first { compact_once(db) } else { Ok(false) };
    if compacted.as_ref().map_or_else(|e| !e.is_transient(), |&any| any) {
        return compacted;
    }
    if flush_some(db)? {
        db.signal_work();
        return Ok(true);
    }
    if compacted? || (compacts && !compacts_first && compact_once(db)?) {
        return Ok(true);
    }
    prepared.and_then(|()| seal::seal_for_readers(db))
}

/// Reports whether small tables use more than an eighth of the memory for their handles. Large
/// tables do not count: a store may have any number of them.
fn has_too_many_small_tables(versions: &VersionSet, memory: &MemoryManager) -> bool {
    versions.opener().are_small() && versions.opener().of_handles() > memory.part() / 8
}

/// Flushes one memtable of some tree, or small ones of several. Returns false when none is
/// immutable.
pub fn flush_some(db: &DbInner) -> Result<bool> {
    if db.gate.is_closing() {
        return Ok(false);
    }
    seal::make_room_for_others(db)?;
    let due = trees_to_flush(&db.scheduler, &db.versions);
    let (mut at, mut lacking) = (0, None);
    while at < due.len() {
        let (mut group, mut bytes) = (vec![], 0);
        while let Some(t) = due.get(at) {
            let size = t.view.load_full().sealed.last().map_or(0, |m| m.mem.used());
            let is_small = size <= SMALL;
            bytes += size as u64;
            if !group.is_empty()
                && (!is_small || group.len() == TOGETHER || bytes > db.memory.bytes() / 16)
            {
                break;
            }
            at += 1;
            // Another worker at this tree flushes its memtables in order; this one looks for
            // other work.
            group.extend(t.flushing.try_lock().map(|one| (t, one)));
            if !is_small {
                break;
            }
        }
        let together: Vec<_> = group.iter().map(|(t, one)| (*t, one)).collect();
        match flush::flush_together(db, &together) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(e) if e.is_transient() => {
                for (t, one) in &group {
                    // One flush may find the space that all of them together do not.
                    let alone = if group.len() > 1 {
                        flush::flush_oldest_locked(db, t, one)
                    } else {
                        Err(e.clone())
                    };
                    match alone {
                        Ok(true) => return Ok(true),
                        Ok(false) => {}
                        Err(e) if e.is_transient() => {
                            t.postponed.lock().note(&e);
                        }
                        Err(e) => return Err(e),
                    }
                }
                lacking = lacking.or(Some(e));
            }
            Err(e) => return Err(e),
        }
    }
    lacking.map_or(Ok(false), Err)
}

/// Returns the trees that have immutable memtables, in order of their ids.
fn trees_to_flush(scheduler: &Scheduler, versions: &VersionSet) -> Vec<Arc<TreeInner>> {
    let ids = scheduler.queue().sealed();
    let mut due = Vec::with_capacity(ids.len());
    for id in ids {
        let tree = versions.tree(id);
        scheduler.queue().forget_sealed(id, || {
            let sealed = tree.filter(|t| !t.view.load_full().sealed.is_empty());
            let has_none = sealed.is_none();
            due.extend(sealed);
            has_none
        });
    }
    due
}

/// Runs a compaction of the first tree that has one to run, the trees with the most pressure first.
/// Returns false when no tree needs one.
fn compact_once(db: &DbInner) -> Result<bool> {
    if db.gate.is_closing() {
        return Ok(false);
    }
    let Some(_running) = db.scheduler.throttle().begin() else { return Ok(false) };
    let mut order = trees_to_check(&*db.env, &db.versions, &db.scheduler);
    let mut lacking = None;
    while let Some(t) = order.pop_front() {
        let claimed = match compact::claim(db, &t) {
            Ok(None) => continue,
            // This tree may need more jobs, and the others were not checked.
            other => {
                db.scheduler.queue().recheck(std::iter::once(&t).chain(&order).map(|t| t.id));
                other
            }
        };
        let Some(claimed) = claimed? else { continue };
        let threads = db.scheduler.workers();
        let mut flush = || {
            while threads == 1 && flush_some(db)? {}
            Ok(())
        };
        let ran = compact::run_job(db, claimed, &mut || {
            flush()?;
            if threads > 0 { db.scheduler.wait_during_pause(&mut flush) } else { Ok(()) }
        });
        match unless_dropped(&t, ran.map(|_| true)) {
            // Another tree's job may free space.
            Err(e) if e.is_transient() => lacking = lacking.or(Some(e)),
            ran => {
                ran?;
                db.signal_work();
                return Ok(true);
            }
        }
    }
    lacking.map_or(Ok(false), Err)
}

/// Returns the trees that may need a compaction, the one with the highest pressure first. The
/// caller checks each. Jobs that become due as time passes are found by checking all trees:
/// each time if there are few, once a second otherwise.
fn trees_to_check(
    env: &dyn Env,
    versions: &VersionSet,
    scheduler: &Scheduler,
) -> VecDeque<Arc<TreeInner>> {
    let now = env.wall_micros() / 1_000_000;
    let trees = versions.trees();
    let mut order: Vec<Arc<TreeInner>> =
        match scheduler.queue().take_changed(trees.len() <= FEW, now) {
            Some(ids) => ids.into_iter().filter_map(|id| trees.by_id(id).cloned()).collect(),
            None => trees.to_vec(),
        };
    drop(trees);
    let pressed = scheduler.queue().pressed();
    let pressure = |t: &TreeInner| pressed.get(&t.id).copied().unwrap_or(0.0);
    sort_by(&mut order, |a, b| pressure(b).total_cmp(&pressure(a)));
    order.into()
}

/// Does all pending work on the calling thread. Returns false when there was none. A panic
/// makes the store read-only, as in a worker, because every write would run into it again.
pub fn work_inline(db: &DbInner) -> Result<bool> {
    let work = || {
        let mut any = false;
        while flush_some(db)? || compact_once(db)? {
            any = true;
        }
        Ok(any)
    };
    work().map_err(|e: Error| if e.kind() == ErrorKind::Panicked { db.gate.fail(e) } else { e })
}

/// Waits until the workers have made progress since `generation`, or for 20 ms.
pub fn wait_for_change(db: &DbInner, generation: u64) -> Result<()> {
    db.gate.check_writable()?;
    // Without workers, the awaited work may be done by another caller.
    let inline = db.scheduler.workers() == 0;
    if inline && work_inline(db)? {
        return Ok(());
    }
    let mut signals = db.scheduler.queue().hold();
    if inline || signals.generation() == generation {
        signals.wait_done(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits until no memtable is immutable and no policy needs a compaction.
pub fn wait_idle(db: &DbInner) -> Result<()> {
    db.gate.check_process()?;
    let since = db.scheduler.queue().postponed().lock().times();
    loop {
        db.gate.check_writable()?;
        db.scheduler.queue().postponed().lock().check(since)?;
        // Before the generation is read: otherwise its own signal would count as progress and
        // it would never wait.
        db.signal_work();
        let generation = db.scheduler.queue().generation();
        let trees = db.versions.trees().to_vec();
        let flushing = trees.iter().any(|t| !t.view.load_full().sealed.is_empty());
        if !flushing
            && (db.scheduler.throttle().is_paused()
                || !trees.iter().any(|t| pick::is_compacting_or_due(db, t)))
        {
            // Removes the files of replaced tables before it returns, unless readers hold them.
            advance_epoch();
            db.versions.opener().delete_obsolete_files();
            return Ok(());
        }
        db.scheduler.queue().start_workers();
        wait_for_change(db, generation)?;
    }
}

/// Flushes a tree's replayed memtable if the log has too many segments or is longer than its
/// limit. Every opening that writes begins a segment, full or not. A store that is opened often
/// for a few writes must not accumulate them. It runs only after the tree has got its hooks.
pub fn shorten_log(db: &DbInner, tree: &Arc<TreeInner>) -> Result<()> {
    {
        let w = db.commit.lock();
        if !w.is_log_long(db.options.log_limit())
            || !tree.view.load_full().active.is_touched()
            || db.gate.check_writable().is_err()
        {
            return Ok(());
        }
        seal::seal_memtable(db, &w, tree)?;
    }
    if db.scheduler.workers() == 0 {
        while flush::flush_oldest(db, tree)? {}
    }
    db.signal_work();
    Ok(())
}

/// Flushes records of earlier openings when an opening begins to write. This bounds the number of
/// segments as [`shorten_log`](crate::db::jobs::background::shorten_log) does. It holds regardless
/// of the trees that are opened, and of how soon the store is closed again.
pub fn shorten_inherited_log(db: &DbInner) -> Result<()> {
    let shorten = || {
        if flush::bound_log(db)? {
            while flush_some(db)? {}
        }
        Ok(())
    };
    shorten().or_else(|e| db.gate.postpone(e))
}

/// Begins the log for a writer that holds the write lock. The lock is released in the meantime,
/// so callers check everything again.
#[cold]
pub fn begin_log<'a>(db: &'a DbInner, w: Writing<'a>) -> Result<Writing<'a>> {
    drop(w);
    durable::begin_writing(db, &mut db.versions.lock_catalog())?;
    shorten_inherited_log(db)?;
    Ok(db.commit.lock())
}
