//! Seals memtables: the active memtable becomes immutable and waits for its flush, and a new one
//! replaces it. Memtables are sealed when they are full, when memory is short, and for other Dbs
//! that share the budget ([`budget`](crate::db::memory::budget), B2 and B4).

use std::sync::Arc;

use crate::base::error::Result;
use crate::compaction::is_paid;
use crate::db::write::slowdown;
use crate::memtable::Memtable;
use crate::util::sort::sort_by_key;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::commit::write_state::WriteState;
use crate::db::inner::DbInner;
use crate::db::memory::budget::MemoryManager;
use crate::db::versions::tree::TreeInner;

/// Seals the active memtable of `tree` and starts another. The caller holds the write lock.
pub fn seal_memtable(db: &DbInner, w: &WriteState, tree: &TreeInner) -> Result<()> {
    let end = w.end();
    let prefix = tree.view.load_full().options.filter_prefix.clone();
    let fresh = MemHandle::new(Memtable::empty(db.memory.arenas(), prefix)?, end);
    let now = db.env.monotonic_nanos();
    let sealed = tree.seal(fresh, end, Some(now));
    let held = sealed.mem.used();
    tree.set_last_sealed_size(held);
    db.memory.seal(&sealed);
    db.scheduler.queue().note_sealed(tree.id);
    slowdown::begin_fill(db, tree, now, held);
    db.memory.rebalance();
    Ok(())
}

/// Seals memtables until active ones use at most 7/8 of their limit, including `more` bytes. If
/// several Dbs share the budget, also stops when this Db uses at most its fair share of that.
/// With `asked`, another Db requested memory, and only the fair share counts. Reports whether
/// it sealed any.
pub fn seal_some(db: &DbInner, w: &WriteState, more: u64, asked: bool) -> Result<bool> {
    let enough = db.memory.seal_goal(more, asked);
    if enough() {
        return Ok(false);
    }
    let end = w.end();
    let mut worth: Vec<(u128, Arc<TreeInner>)> = vec![];
    let trees = db.versions.trees();
    for (start, id) in w.unflushed() {
        let Some(t) = trees.by_id(id) else { continue };
        let view = t.view.load_full();
        let m = &view.active;
        let gain = MemoryManager::gain(m);
        // Other waiting memtables are immutable already, or use only one page.
        if gain > 0
            && m.is_touched()
            && m.start() == start
            && view.sealed.len() < db.memory.max_sealed()
        {
            worth.push((gain as u128 * (end - start).max(1) as u128, t.clone()));
        }
    }
    drop(trees);
    sort_by_key(&mut worth, |(worth, t)| (std::cmp::Reverse(*worth), t.id));
    let mut any = false;
    for (_, t) in worth {
        if enough() {
            break;
        }
        seal_memtable(db, w, &t)?;
        any = true;
    }
    Ok(any)
}

/// Seals memtables whose reads have cost as much as a flush would, if the store has no writes
/// at the moment. Reports whether it sealed any.
pub fn seal_for_readers(db: &DbInner) -> Result<bool> {
    let mut w = db.commit.lock();
    // Checked whenever a worker finds no work, so that the start of the idle time is known.
    let rests = w.rests(db.env.monotonic_nanos());
    let ids = db.scheduler.queue().paid();
    if ids.is_empty() || !rests || db.options.read_compaction_percent == 0 {
        return Ok(false);
    }
    let mut any = false;
    for id in ids {
        let tree = db.versions.tree(id);
        let view = tree.as_ref().map(|t| t.view.load_full());
        if let (Some(t), Some(v)) = (tree, view)
            && v.active.is_touched()
        {
            let entries = v.active.mem.entries();
            if !v.sealed.is_empty() || !is_paid(t.read_debt.paid(), entries) {
                continue;
            }
            seal_memtable(db, &w, &t)?;
            t.read_debt.use_up(entries);
            any = true;
        }
        db.scheduler.queue().forget_paid(id);
    }
    Ok(any)
}

/// Seals memtables that other Dbs have requested, if any.
pub fn make_room_for_others(db: &DbInner) -> Result<()> {
    if db.memory.take_request() {
        seal_some(db, &db.commit.lock(), 0, true)?;
    }
    Ok(())
}
