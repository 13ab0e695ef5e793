//! Makes room in memtables for a writer, or waits for it ([`budget`](crate::db::memory::budget),
//! B3).
//!
//! Invariant: a wait ends with the next flush, or with the error of a flush that lacks space. A
//! flush never waits for writers or compactions. So no history leads to a Db that cannot be
//! written, or to a writer that waits for a full disk.

use std::time::Duration;

use crate::base::error::Result;
use crate::base::events::Event;
use crate::db::jobs::background;
use crate::db::scheduler::Scheduler;
use crate::db::scheduler::gate::CloseGate;
use crate::db::write::seal;
use crate::memtable::MemtableRoom;
use crate::util::sync::Mutex;
use crate::util::sync::epoch::{self};

use crate::db::commit::write_state::Writing;
use crate::db::inner::DbInner;
use crate::db::observe::meters::LatencyOp;
use crate::db::scheduler::gate::closed;
use crate::db::scheduler::queue::Postponed;
use crate::db::versions::tree::TreeInner;

/// Makes room in the active memtable of `tree` for adds of this cost, or seals it; waits if no
/// memory is available. The write lock may be released in the meantime, so callers check
/// everything again.
#[cold]
pub fn make_room<'a>(
    db: &'a DbInner,
    w: Writing<'a>,
    tree: &TreeInner,
    cost: usize,
) -> Result<Writing<'a>> {
    let view = tree.view.load_full();
    let mut room = tree.room_for(&view, cost);
    if room == MemtableRoom::Full {
        if view.sealed.len() >= db.memory.max_sealed() {
            drop(w);
            wait_for_flush(db, tree, "memtables full", &|| {
                tree.view.load_full().sealed.len() >= db.memory.max_sealed()
            })?;
            return Ok(db.commit.lock());
        }
        seal::seal_memtable(db, &w, tree)?;
        db.signal_work();
        return Ok(w);
    }
    let (memory, mem) = (&db.memory, &view.active.mem);
    // A memtable that was filled this far last time gets its full size at once, and the memory
    // of one that has been flushed.
    let mut whole = matches!(room, MemtableRoom::Grow(n) if tree.is_usual(n as u64 / 2))
        && memory.may_grow(mem.price(room, cost, true) as u64);
    let mut price = mem.price(room, cost, whole) as u64;
    if !memory.may_grow_beside_pages(price) {
        // Ignores the size of the previous memtable: only single pages could be flushed to make
        // room for it.
        (room, whole) = (mem.room_for(cost, view.options.memtable_size, 0), false);
        price = mem.price(room, cost, whole) as u64;
    }
    if !memory.may_grow(price) {
        if seal::seal_some(db, &w, price, false)? {
            db.signal_work();
        }
        memory.request_from_others();
        if view.active.end.get().is_some() {
            return Ok(w);
        }
    }
    if !whole {
        memory.trim_for(price);
    }
    let is_short = || memory.is_short(price);
    if is_short() {
        drop(w);
        wait_for_flush(db, tree, "memory", &is_short)?;
        return Ok(db.commit.lock());
    }
    tree.widen(&view, room, cost, whole)?;
    if !matches!(room, MemtableRoom::Extend(_)) {
        memory.release(&view.active);
        epoch::pin().flush();
    }
    memory.count(&tree.view.load_full().active);
    memory.rebalance();
    Ok(w)
}

/// Waits for flushes that a writer of `tree` needs, as long as `is_full` returns true. `reason`
/// is reported in events.
pub fn wait_for_flush(
    db: &DbInner,
    tree: &TreeInner,
    reason: &str,
    is_full: &dyn Fn() -> bool,
) -> Result<()> {
    let from = db.observer.meters().now();
    db.signal_work();
    if db.scheduler.workers() == 0 {
        match background::work_inline(db) {
            Ok(true) => {}
            Ok(false) => {
                // Another caller is flushing this tree; polling would only delay it by taking
                // the lock.
                let mut signals = db.scheduler.queue().hold();
                if is_full() {
                    signals.wait_done(Duration::from_millis(20));
                }
            }
            // The work that lacks space belongs to another tree.
            Err(e) if e.is_transient() && !is_full() => db.gate.postpone(e)?,
            Err(e) => return Err(e),
        }
        return Ok(());
    }
    // If the tree's own memtables are all flushed, another tree may hold the memory.
    let postponed = if tree.view.load_full().sealed.is_empty() {
        db.scheduler.queue().postponed()
    } else {
        &tree.postponed
    };
    let since = postponed.lock().times();
    let report = || (tree.name.clone(), reason.to_owned());
    db.observer.note(|| {
        let (tree, reason) = report();
        Event::StallBegun { tree, reason }
    });
    let done = wait_while(&db.scheduler, &db.gate, tree, postponed, since, is_full);
    let waited = db.observer.meters().since(LatencyOp::Stall, from);
    db.scheduler.writes().stall(waited);
    db.observer.note(|| {
        let (tree, reason) = report();
        Event::StallEnded { tree, reason, micros: waited / 1000 }
    });
    done
}

/// Waits as long as `is_full` returns true, unless there is an error or work was postponed
/// since.
fn wait_while(
    scheduler: &Scheduler,
    gate: &CloseGate,
    tree: &TreeInner,
    postponed: &Mutex<Postponed>,
    since: u64,
    is_full: &dyn Fn() -> bool,
) -> Result<()> {
    let mut signals = scheduler.queue().hold();
    while is_full() {
        gate.check_writable()?;
        tree.check_live()?;
        postponed.lock().check(since)?;
        if gate.is_closing() {
            return Err(closed());
        }
        signals.wait_done(Duration::from_millis(50));
        if !scheduler.has_all_workers() {
            drop(signals);
            scheduler.queue().start_workers();
            signals = scheduler.queue().hold();
        }
    }
    Ok(())
}
