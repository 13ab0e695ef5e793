//! The write path: appends to the log, inserts into the memtable, then publishes the new state.
//!
//! ```text
//! lock            room in each memtable concerned (else seal it and start another)
//!                 sequence numbers; append to the log
//! unlock          insert into the memtables, in parallel with other writers
//! publish         in log order: everything up to here is visible
//! sync            for Durability::Power: one sync serves all waiting writers
//! ```
//! Invariants:
//! - W1: sequence numbers are consecutive and in log order.
//! - W2: `visible` advances only over writes that are completely in their memtables. So a reader
//!   sees whole batches, unless a failure has made the Db read-only in the middle of one.
//! - W3: a memtable is sealed under the write lock. Writers with a position in the log finish their
//!   insertion into the memtable that they were assigned.
//! - W4: a failed write has written nothing, or the Db is read-only. This includes panics, for
//!   example of the hook that returns the filter prefix of a key. Without background threads a
//!   write also returns the error of a flush or compaction that it ran; that write itself is done.

pub mod batch;
pub mod durable;
pub mod limits;
pub mod reserve;
pub mod room;
pub mod seal;
pub mod slowdown;
pub mod tombstone_probe;

use std::sync::Arc;

use scopeguard::ScopeGuard;

use crate::base::cursor::Cursor as _;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::ops::{Op, OpReader, TreeId};
use crate::base::options::Durability;
use crate::db::commit::CommitPipeline;
use crate::db::jobs::background;
use crate::db::scheduler::gate::CloseGate;
use crate::env::LogSlice;
use crate::iterator::empty_range_cache::Writers;
use crate::memtable::{LONG_VALUE, Memtable};
use crate::range_del::tombstone::RangeTombstone;
use crate::util::coding::write_varint;
use crate::util::sync::epoch::{self, Guard};
use crate::wal::Lsn;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::commit::write_state::Writing;
use crate::db::inner::DbInner;
use crate::db::observe::meters::{LatencyOp, SampleToken};
use crate::db::versions::tree::TreeInner;
use crate::db::versions::view::TreeView;
use crate::db::write::batch::Batch;
use crate::db::write::limits::{check_key, check_value};

/// Fills the batch, or checks that it may be written. Runs under the write lock, with every earlier
/// write visible. It is called again if the lock was released. An empty batch writes nothing.
pub type Make<'a> = &'a mut dyn FnMut(&mut Batch) -> Result<()>;
type Entered<'a> = Vec<(&'a TreeInner, Arc<MemHandle>)>;

/// Encodes the head of a point operation: kind, tree, key length.
fn op_head(buf: &mut [u8; 16], kind: Kind, tree: u32, key_len: usize) -> &[u8] {
    buf[0] = kind as u8;
    let mut n = 1;
    n += write_varint(&mut buf[n..], tree as u64);
    n += write_varint(&mut buf[n..], key_len as u64);
    &buf[..n]
}

impl Writers for DbInner {
    fn hold(&self, f: &mut dyn FnMut(Seq)) {
        if let Some(w) = self.commit.try_lock() {
            f(w.newest());
        }
    }
}

/// Writes one point operation.
#[inline]
pub fn write_point(
    db: &DbInner,
    tree: &TreeInner,
    kind: Kind,
    key: &[u8],
    value: &[u8],
    durability: Durability,
) -> Result<()> {
    db.gate.check_process()?;
    check_key(key)?;
    check_value(value)?;
    let mut head = [0; 16];
    let head = op_head(&mut head, kind, tree.id, key.len());
    let mut len = [0; 10];
    let len = match kind {
        Kind::Delete => &[][..],
        _ => {
            let n = write_varint(&mut len, value.len() as u64);
            &len[..n]
        }
    };
    let turn = db.observer.meters().begin();
    let cost = Memtable::cost(key.len(), value.len());
    slowdown::slow_writer(db, tree, cost);
    let mut guard = epoch::pin();
    let (seq, lsn, mem, payload) = {
        let mut w = db.commit.lock();
        let mem = loop {
            let view = writable_view(&db.gate, tree, &guard)?;
            if !w.has_begun() {
                w = guard.repin_after(|| background::begin_log(db, w))?;
                continue;
            }
            if view.active.mem.reserve(cost) {
                break &view.active;
            }
            w = guard.repin_after(|| room::make_room(db, w, tree, cost))?;
        };
        let seq = w.next_seq(1)?;
        let place = w
            .append(seq, 1, key.len() + value.len(), &[head, key, len, value])
            .map_err(|e| db.commit.append_failed(e))?;
        w.enter(tree.id, mem, place.begin);
        let payload = (value.len() >= LONG_VALUE)
            .then(|| w.last_payload(head.len() + key.len() + len.len() + value.len()))
            .flatten();
        (seq, place.end, mem, payload)
    };
    let panicked = scopeguard::guard((), |()| {
        end_partial_write(&db.gate, &db.commit, (seq, 1), cut_off());
        mem.leave();
    });
    match &payload {
        // The value is the end of the payload.
        Some(payload) => {
            let end = payload.bytes().len();
            let place = end - value.len()..end;
            mem.mem.add_reference(key, Trailer::new(seq, kind), payload, place);
        }
        None => mem.mem.add(key, Trailer::new(seq, kind), value),
    }
    if kind != Kind::Delete {
        tree.empty_ranges.cut(key);
    }
    ScopeGuard::into_inner(panicked);
    db.commit.visible().publish(seq, 1);
    mem.leave();
    if kind == Kind::Delete {
        tombstone_probe::probe_after_delete(db, tree, mem, key);
    }
    drop(guard);
    finish_write(db, lsn, durability, turn)
}

/// Writes a batch and returns the sequence number of its first operation. For an empty batch it
/// returns the newest visible sequence number. A batch that only deletes may use the space
/// reserve.
pub fn write_batch(db: &DbInner, batch: &Batch, durability: Durability) -> Result<Seq> {
    match try_batch(db, batch, durability) {
        Err(e) if e.kind() == ErrorKind::NoSpace && batch.frees_space() => {
            reserve::with_reserve(db, || try_batch(db, batch, durability))
        }
        done => done,
    }
}

fn try_batch(db: &DbInner, batch: &Batch, durability: Durability) -> Result<Seq> {
    if batch.is_open() {
        return write_computed(db, Batch::new(), durability, &mut |closed| {
            batch.closed(greatest).map(|b| *closed = b)
        });
    }
    if batch.is_empty() {
        return Ok(db.commit.read_point());
    }
    let turn = begin_batch(db, batch)?;
    let mut w = db.commit.lock();
    loop {
        if !w.has_begun() {
            w = background::begin_log(db, w)?;
        }
        match reserve_all(db, w, batch)? {
            (w, Some(mems)) => return commit_batch(db, w, batch, mems, durability, turn),
            (given_back, None) => w = given_back,
        }
    }
}

/// Runs the steps before the write lock is taken. Returns the sample token of the batch's
/// latency.
fn begin_batch(db: &DbInner, batch: &Batch) -> Result<SampleToken> {
    db.gate.check_process()?;
    let turn = db.observer.meters().begin();
    for (tree, cost) in &batch.trees {
        slowdown::slow_writer(db, tree, *cost);
    }
    Ok(turn)
}

/// Writes a batch if `check` allows it. `check` runs under the write lock, with every earlier
/// write visible.
pub fn write_checked(
    db: &DbInner,
    mut batch: Batch,
    durability: Durability,
    check: &dyn Fn() -> Result<()>,
) -> Result<Seq> {
    let open = batch.is_open().then(|| std::mem::take(&mut batch));
    write_computed(db, batch, durability, &mut |batch| {
        // Closed again on each call: other threads may have written greater keys while the lock
        // was released.
        if let Some(open) = &open {
            *batch = open.closed(greatest)?;
        }
        check()
    })
}

/// Writes the batch that `make` fills, as [`write_batch`](crate::db::write::write_batch) does. No
/// other write happens between the call of `make` and this write.
pub fn write_computed(
    db: &DbInner,
    mut batch: Batch,
    durability: Durability,
    make: Make<'_>,
) -> Result<Seq> {
    let turn = begin_batch(db, &batch)?;
    let mut w = db.commit.lock();
    loop {
        db.gate.check_writable()?;
        if !w.has_begun() {
            w = background::begin_log(db, w)?;
            continue;
        }
        db.commit.visible().wait_below(w.newest() + 1);
        make(&mut batch)?;
        if batch.is_empty() {
            return Ok(db.commit.read_point());
        }
        match reserve_all(db, w, &batch)? {
            (w, Some(mems)) => return commit_batch(db, w, &batch, mems, durability, turn),
            (given_back, None) => w = given_back,
        }
    }
}

/// Reserves room for a batch in the memtables of all its trees. If one has no room, makes room,
/// which releases the lock. Another memtable may be sealed in the meantime, so the caller
/// starts again.
fn reserve_all<'a, 'b>(
    db: &'a DbInner,
    w: Writing<'a>,
    batch: &'b Batch,
) -> Result<(Writing<'a>, Option<Entered<'b>>)> {
    let mut mems: Entered<'b> = vec![];
    for (tree, cost) in &batch.trees {
        db.gate.check_writable()?;
        tree.check_live()?;
        let active = tree.view.load_full().active.clone();
        if !active.mem.reserve(*cost) {
            mems.iter().zip(&batch.trees).for_each(|((_, m), (_, cost))| m.mem.unreserve(*cost));
            return Ok((room::make_room(db, w, tree, *cost)?, None));
        }
        mems.push((tree, active));
    }
    Ok((w, Some(mems)))
}

fn commit_batch(
    db: &DbInner,
    mut w: Writing<'_>,
    batch: &Batch,
    mems: Entered<'_>,
    durability: Durability,
    turn: SampleToken,
) -> Result<Seq> {
    let first = w.next_seq(batch.count)?;
    let place = w
        .append(first, batch.count, batch.bytes.len(), &[&batch.bytes])
        .map_err(|e| db.commit.append_failed(e))?;
    mems.iter().for_each(|(t, m)| w.enter(t.id, m, place.begin));
    let payload = (batch.bytes.len() >= LONG_VALUE).then(|| w.last_payload(batch.bytes.len()));
    let payload = payload.flatten();
    drop(w);
    let leave = || mems.iter().for_each(|(_, m)| m.leave());
    let panicked = scopeguard::guard((), |()| {
        end_partial_write(&db.gate, &db.commit, (first, batch.count), cut_off());
        leave();
    });
    let of = |tree| mems.binary_search_by_key(&tree, |(t, _)| t.id).ok().map(|at| &mems[at]);
    let inserted =
        insert_ops(first, &batch.bytes, payload.as_ref(), |tree| of(tree).map(|(_, m)| &**m.mem));
    if mems.iter().any(|(t, _)| !t.empty_ranges.is_empty()) {
        invalidate_empty_ranges(&batch.bytes, |tree| of(tree).map(|(t, _)| *t));
    }
    debug_assert_eq!(inserted, Some(batch.count), "a batch must decode as it was encoded");
    ScopeGuard::into_inner(panicked);
    if inserted == Some(batch.count) {
        db.commit.visible().publish(first, batch.count);
    } else {
        end_partial_write(
            &db.gate,
            &db.commit,
            (first, batch.count),
            Error::corruption(
                "a batch did not decode as it was encoded and is in memory in part: this build is at fault",
            ),
        );
    }
    leave();
    if mems.iter().any(|(_, m)| m.probes.is_due(m.mem.deletes())) {
        tombstone_probe::probe_after_batch(db, &batch.bytes, |tree| {
            of(tree).map(|(t, m)| (*t, &**m))
        });
    }
    if inserted != Some(batch.count) {
        return Err(db.gate.read_only_cause());
    }
    finish_write(db, place.end, durability, turn)?;
    Ok(first)
}

/// Ends a write of `count` sequence numbers that is not completely in memory. The numbers must
/// become visible, or every later writer would wait forever. No write can follow, because the
/// Db is read-only.
#[cold]
fn end_partial_write(
    gate: &CloseGate,
    commit: &CommitPipeline,
    (first, count): (Seq, u64),
    e: Error,
) {
    gate.fail(e);
    commit.visible().publish(first, count);
}

fn writable_view<'g>(gate: &CloseGate, tree: &TreeInner, guard: &'g Guard) -> Result<&'g TreeView> {
    gate.check_writable()?;
    tree.check_live()?;
    Ok(tree.view.load(guard))
}

#[inline]
fn finish_write(db: &DbInner, lsn: Lsn, durability: Durability, turn: SampleToken) -> Result<()> {
    if durability == Durability::Power {
        let from = db.observer.meters().now();
        db.commit.sync_to(lsn)?;
        db.observer.meters().since(LatencyOp::Sync, from);
    }
    db.observer.meters().end(LatencyOp::Write, turn);
    if db.scheduler.workers() == 0 {
        // The write is done. Work that lacks space is retried with the next write, which is
        // refused when all memtables are full.
        background::work_inline(db).map(|_| ()).or_else(|e| {
            let is_cut_short = e.kind() == ErrorKind::Closed && db.gate.is_closing();
            if is_cut_short { Ok(()) } else { db.gate.postpone(e) }
        })?;
    }
    Ok(())
}

/// Returns the error that makes the Db read-only when an insertion panics.
fn cut_off() -> Error {
    Error::new(
        ErrorKind::Panicked,
        "a write panicked that is in the log, and is in memory in part: correct the hook, and open the store again",
    )
}

/// Returns a key that is at least as large as every key with an entry in the tree; `None` if the
/// tree has no entries. It is called under the write lock, with every earlier write in its
/// memtable. It reads no table.
fn greatest(tree: &TreeInner) -> Result<Option<Vec<u8>>> {
    let view = tree.view.load_full();
    let tables =
        view.version.runs.iter().filter_map(|r| r.tables.last()).map(|t| t.meta.last_key.clone());
    let mut last = tables.max();
    for m in view.memtables() {
        let mut c = m.mem.cursor();
        c.last()?;
        if c.valid() && last.as_deref().is_none_or(|l| l < c.key()) {
            last = Some(c.key().to_vec());
        }
    }
    Ok(last)
}

/// Invalidates empty ranges at the keys of encoded operations that were inserted.
fn invalidate_empty_ranges<'t>(bytes: &[u8], of: impl Fn(TreeId) -> Option<&'t TreeInner>) {
    for (tree, op) in OpReader::new(bytes).flatten() {
        if let (Op::Point { kind: Kind::Put | Kind::Merge, key, .. }, Some(t)) = (op, of(tree)) {
            t.empty_ranges.cut(key);
        }
    }
}

/// Inserts an operation, for which room has been reserved.
pub fn insert_op(mem: &Memtable, seq: Seq, op: Op<'_>) {
    match op {
        Op::Point { kind, key, value } => mem.add(key, Trailer::new(seq, kind), value),
        Op::DeleteRange { start, end } => {
            mem.add_tombstone(&RangeTombstone { start: start.to_vec(), end: end.to_vec(), seq })
        }
    }
}

/// Inserts encoded operations into the memtables that `of` returns, numbered from `first`. Long
/// values stay in `payload`, if there is one: the same bytes in the memory of the log. Returns the
/// number of operations.
pub fn insert_ops<'m>(
    first: Seq,
    bytes: &[u8],
    payload: Option<&LogSlice>,
    of: impl Fn(u32) -> Option<&'m Memtable>,
) -> Option<u64> {
    let mut seq = first;
    for op in OpReader::new(bytes) {
        let (tree, op) = op?;
        if let Some(mem) = of(tree) {
            match (op, payload) {
                (Op::Point { kind, key, value }, Some(payload)) if value.len() >= LONG_VALUE => {
                    let start = value.as_ptr().addr() - bytes.as_ptr().addr();
                    let place = start..start + value.len();
                    mem.add_reference(key, Trailer::new(seq, kind), payload, place);
                }
                _ => insert_op(mem, seq, op),
            }
        }
        seq += 1;
    }
    Some(seq - first)
}
