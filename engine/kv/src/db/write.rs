//! The write path: a place in the log, then the memtable, then the new state becomes visible.
//!
//! ```text
//! lock            room in each memtable concerned (else seal it and start another)
//!                 sequence numbers; append to the log
//! unlock          insert into the memtables, in parallel with other writers
//! publish         in log order: everything up to here may be seen
//! sync            for Durability::Power: one sync serves all who wait
//! ```
//! Invariants:
//! - W1: sequence numbers are consecutive and in log order.
//! - W2: `visible` only moves over writes that are wholly in their memtables, so a reader sees
//!   whole batches.
//! - W3: a memtable is sealed under the write lock; writers that have a place in the log finish
//!   into the one they were given.
//! - W4: what failed has written nothing, or the Db is latched read-only.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::coding::write_varint;
use crate::base::cursor::Cursor as _;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{Kind, MAX_SEQ, Seq, Trailer};
use crate::base::ops::{Op, OpReader, TreeId};
use crate::base::options::Durability;
use crate::base::sync::epoch::{self, Guard};
use crate::base::sync::{MutexGuard, Ordering, rank};
use crate::base::tombstone::RangeTombstone;
use crate::memtable::Memtable;
use crate::merge::gaps::Writers;
use crate::wal::{self, Lsn, RecoveredLog, Wal};

use super::batch::{Batch, check_key, check_value};
use super::close::closed;
use super::core::Core;
use super::meters::{TimedCall, Turn};
use super::tree::TreeCore;
use super::view::{MemHandle, TreeView};

/// More segments of the log are too many: each costs an opening a file to be opened.
const MANY_SEGMENTS: usize = 16;

/// What the write lock protects.
pub struct WriteState {
    /// The log; `None` when the Db was opened read-only, and as long as it has not begun to write.
    pub wal: Option<Wal>,
    /// Until it has: the log as opening found it.
    pub found: Option<RecoveredLog>,
    /// The next sequence number.
    pub next_seq: Seq,
    /// Operations written since the Db was opened.
    pub ops: u64,
    /// Bytes of keys and values (or of encoded batches) written since the Db was opened.
    pub bytes: u64,
    /// The memtables that need the log, by where they do from: each that was written to and is not
    /// in tables yet.
    pub waiting: BTreeSet<(Lsn, TreeId)>,
}

/// The write lock, held.
pub type Writing<'a> = MutexGuard<'a, WriteState, rank::Write>;

/// Makes what is to be written, or looks whether it may be, under the write lock and with every
/// earlier write visible. Called again when the lock had to be given up; an empty batch writes
/// nothing.
pub type Make<'a> = &'a mut dyn FnMut(&mut Batch) -> Result<()>;
type Entered<'a> = Vec<(&'a TreeCore, Arc<MemHandle>)>;

impl WriteState {
    /// Sends a writer, whose record begins at this place in the log, into a memtable.
    #[inline]
    fn enter(&mut self, tree: TreeId, mem: &MemHandle, begin: Lsn) {
        if mem.enter(begin) {
            self.waiting.insert((mem.start(), tree));
        }
    }

    /// Says that a memtable is in tables, or that its tree is gone.
    pub fn release(&mut self, tree: TreeId, mem: &MemHandle) {
        // The one behind an untouched memtable may begin where that was made.
        if mem.is_touched() {
            self.waiting.remove(&(mem.start(), tree));
        }
    }

    /// The position below which no tree needs the log any more, once these memtables are in tables.
    /// Under the write lock, because a writer has its place in the log before its entry is in the
    /// memtable.
    pub fn wal_floor(&self, flushed: &[(TreeId, &MemHandle)]) -> Lsn {
        let done = |&&(start, tree): &&(Lsn, TreeId)| {
            flushed.iter().any(|(t, m)| *t == tree && m.is_touched() && m.start() == start)
        };
        self.waiting.iter().find(|w| !done(w)).map_or(self.end(), |w| w.0)
    }

    /// Where the log ends.
    pub fn end(&self) -> Lsn {
        match (&self.wal, &self.found) {
            (Some(wal), _) => wal.end(),
            (None, found) => found.as_ref().map_or(0, |f| f.end),
        }
    }

    /// Bytes of log that are kept.
    pub fn log_bytes(&self) -> u64 {
        match (&self.wal, &self.found) {
            (Some(wal), _) => wal.live_bytes(),
            (None, found) => found.as_ref().map_or(0, |f| wal::live_bytes(&f.segments)),
        }
    }

    /// Whether the segments of the log are many, or take more than `limit` bytes, full or not.
    pub fn is_log_long(&self, limit: u64) -> bool {
        let (bytes, segments) = match (&self.wal, &self.found) {
            (Some(wal), _) => wal.kept(),
            (None, found) => found.as_ref().map_or((0, 0), |f| wal::kept(&f.segments)),
        };
        bytes > limit || segments > MANY_SEGMENTS
    }

    /// Where the segments end that earlier openings have left, when there are twice as many of them
    /// as an opening should find; else 0.
    pub fn inherited_too_many(&self) -> Lsn {
        let (segments, end) = self.wal.as_ref().map_or((0, 0), Wal::inherited);
        if segments > 2 * MANY_SEGMENTS { end } else { 0 }
    }

    #[inline]
    fn append(&mut self, seq: Seq, parts: &[&[u8]]) -> Result<Lsn> {
        match &mut self.wal {
            Some(wal) => wal.append(seq, parts),
            None => Err(closed()),
        }
    }
}

/// Memtable bytes that an operation may take.
pub fn cost_of(op: &Op<'_>) -> usize {
    match op {
        Op::Point { key, value, .. } => Memtable::cost(key.len(), value.len()),
        Op::DeleteRange { start, end } => Memtable::cost(start.len(), end.len()),
    }
}

/// The head of an encoded point operation: kind, tree, key length.
fn op_head(buf: &mut [u8; 16], kind: Kind, tree: u32, key_len: usize) -> &[u8] {
    buf[0] = kind as u8;
    let mut n = 1;
    n += write_varint(&mut buf[n..], tree as u64);
    n += write_varint(&mut buf[n..], key_len as u64);
    &buf[..n]
}

impl Writers for Core {
    fn hold(&self, f: &mut dyn FnMut(Seq)) {
        if let Some(w) = self.write.try_lock() {
            f(w.next_seq - 1);
        }
    }
}

impl Core {
    /// Writes one point operation.
    #[inline]
    pub fn write_point(
        &self,
        tree: &TreeCore,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<()> {
        self.check_process()?;
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
        let turn = self.watch.meters.begin();
        let cost = Memtable::cost(key.len(), value.len());
        self.pace(tree, cost);
        let mut guard = epoch::pin();
        let (seq, lsn, mem) = {
            let mut w = self.write.lock();
            let mem = loop {
                let view = self.writable_view(tree, &guard)?;
                if w.wal.is_none() {
                    w = guard.repin_after(|| self.begin_log(w))?;
                    continue;
                }
                if view.active.mem.reserve(cost) {
                    break &view.active;
                }
                w = guard.repin_after(|| self.make_room(w, tree, cost))?;
            };
            let seq = self.next_seq(&w, 1)?;
            let begin = w.end();
            let lsn = w.append(seq, &[head, key, len, value]).map_err(|e| self.log_failed(e))?;
            w.next_seq = seq + 1;
            w.ops += 1;
            w.bytes += (key.len() + value.len()) as u64;
            w.enter(tree.id, mem, begin);
            (seq, lsn, mem)
        };
        mem.mem.add(key, Trailer::new(seq, kind), value);
        if kind != Kind::Delete {
            tree.gaps.cut(key);
        }
        self.visible.publish(seq, 1);
        mem.leave();
        if kind == Kind::Delete {
            self.look_behind(tree, mem, key);
        }
        drop(guard);
        self.finish_write(lsn, durability, turn)
    }

    /// Writes a batch and gives the sequence number of its first operation (of an empty one, the
    /// newest that may be read).
    pub fn write_batch(&self, batch: &Batch, durability: Durability) -> Result<Seq> {
        if batch.is_open() {
            return self.write_made(Batch::new(), durability, &mut |closed| {
                batch.closed(greatest).map(|b| *closed = b)
            });
        }
        if batch.is_empty() {
            return Ok(self.read_point());
        }
        let turn = self.begin_batch(batch)?;
        let mut w = self.write.lock();
        loop {
            if w.wal.is_none() {
                w = self.begin_log(w)?;
            }
            match self.enter_all(w, batch)? {
                (w, Some(mems)) => return self.write_entered(w, batch, mems, durability, turn),
                (given_back, None) => w = given_back,
            }
        }
    }

    /// What a batch has to pass before it asks for the write lock. Gives whether it is timed.
    fn begin_batch(&self, batch: &Batch) -> Result<Turn> {
        self.check_process()?;
        let turn = self.watch.meters.begin();
        for (tree, cost) in &batch.trees {
            self.pace(tree, *cost);
        }
        Ok(turn)
    }

    /// Writes a batch if `check` allows it, under the write lock and with every earlier write
    /// visible.
    pub fn write_checked(
        &self,
        mut batch: Batch,
        durability: Durability,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Seq> {
        let open = batch.is_open().then(|| std::mem::take(&mut batch));
        self.write_made(batch, durability, &mut |batch| {
            // Each time: others may have written greater keys while the lock was given up.
            if let Some(open) = &open {
                *batch = open.closed(greatest)?;
            }
            check()
        })
    }

    /// Writes what `make` makes of a batch, as [`write_batch`](Core::write_batch) does: nobody
    /// writes between what `make` looks at and that.
    pub fn write_made(
        &self,
        mut batch: Batch,
        durability: Durability,
        make: Make<'_>,
    ) -> Result<Seq> {
        let turn = self.begin_batch(&batch)?;
        let mut w = self.write.lock();
        loop {
            self.check_writable()?;
            if w.wal.is_none() {
                w = self.begin_log(w)?;
                continue;
            }
            self.visible.wait_below(w.next_seq);
            make(&mut batch)?;
            if batch.is_empty() {
                return Ok(self.read_point());
            }
            match self.enter_all(w, &batch)? {
                (w, Some(mems)) => return self.write_entered(w, &batch, mems, durability, turn),
                (given_back, None) => w = given_back,
            }
        }
    }

    /// Reserves room for a batch in the memtables of all its trees. Where one lacks it, that is
    /// made, for which the lock is given up: then another tree's memtable may have been sealed, so
    /// all begins anew.
    fn enter_all<'a, 'b>(
        &'a self,
        w: Writing<'a>,
        batch: &'b Batch,
    ) -> Result<(Writing<'a>, Option<Entered<'b>>)> {
        let mut mems: Entered<'b> = vec![];
        for (tree, cost) in &batch.trees {
            self.check_writable()?;
            tree.check_live()?;
            let active = tree.view.load_full().active.clone();
            if !active.mem.reserve(*cost) {
                mems.iter()
                    .zip(&batch.trees)
                    .for_each(|((_, m), (_, cost))| m.mem.unreserve(*cost));
                return Ok((self.make_room(w, tree, *cost)?, None));
            }
            mems.push((tree, active));
        }
        Ok((w, Some(mems)))
    }

    fn write_entered(
        &self,
        mut w: Writing<'_>,
        batch: &Batch,
        mems: Entered<'_>,
        durability: Durability,
        turn: Turn,
    ) -> Result<Seq> {
        let first = self.next_seq(&w, batch.count)?;
        let begin = w.end();
        let lsn = w.append(first, &[&batch.bytes]).map_err(|e| self.log_failed(e))?;
        w.next_seq = first + batch.count;
        w.ops += batch.count;
        w.bytes += batch.bytes.len() as u64;
        mems.iter().for_each(|(t, m)| w.enter(t.id, m, begin));
        drop(w);
        let of = |tree| mems.binary_search_by_key(&tree, |(t, _)| t.id).ok().map(|at| &mems[at]);
        let inserted = insert_ops(first, &batch.bytes, |tree| of(tree).map(|(_, m)| &*m.mem));
        if mems.iter().any(|(t, _)| !t.gaps.is_empty()) {
            cut_gaps(&batch.bytes, |tree| of(tree).map(|(t, _)| *t));
        }
        debug_assert_eq!(
            inserted,
            Some(batch.count),
            "a batch that does not decode as it was encoded"
        );
        if inserted != Some(batch.count) {
            // Its numbers must become visible all the same, or every later writer would wait for
            // ever; but nobody writes after it.
            self.latch(Error::corruption(
                "a batch did not decode as it was encoded and is in memory in part: this build is at fault",
            ));
        }
        self.visible.publish(first, batch.count);
        for (_, m) in &mems {
            m.leave();
        }
        if mems.iter().any(|(_, m)| m.looks.is_due(m.mem.deletes())) {
            self.look_behind_batch(&batch.bytes, |tree| of(tree).map(|(t, m)| (*t, &**m)));
        }
        if inserted != Some(batch.count) {
            return Err(self.why_latched());
        }
        self.finish_write(lsn, durability, turn)?;
        Ok(first)
    }

    fn writable_view<'g>(&self, tree: &TreeCore, guard: &'g Guard) -> Result<&'g TreeView> {
        self.check_writable()?;
        tree.check_live()?;
        Ok(tree.view.load(guard))
    }

    fn next_seq(&self, w: &WriteState, count: u64) -> Result<Seq> {
        if w.next_seq + count > MAX_SEQ {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store has used up its sequence numbers",
            ));
        }
        Ok(w.next_seq)
    }

    /// A failed append that wrote nothing, for want of space or of what the system has to give, can
    /// be tried again: that is met only where a segment begins. After anything else the log's state
    /// is unknown.
    fn log_failed(&self, e: Error) -> Error {
        if e.is_transient() || e.kind() == ErrorKind::InvalidArgument { e } else { self.latch(e) }
    }

    #[inline]
    fn finish_write(&self, lsn: Lsn, durability: Durability, turn: Turn) -> Result<()> {
        if durability == Durability::Power {
            let from = self.watch.meters.now();
            self.sync_to(lsn)?;
            self.watch.meters.since(TimedCall::Sync, from);
        }
        self.watch.meters.end(TimedCall::Write, turn);
        if self.options.background_threads == 0 {
            // The write is done. Work that lacks space is tried again with the next one, which is
            // refused when all memtables are full.
            self.work_inline().map(|_| ()).or_else(|e| {
                let is_cut_short = e.kind() == ErrorKind::Closed && self.is_closing();
                if is_cut_short { Ok(()) } else { self.put_off(e) }
            })?;
        }
        Ok(())
    }

    /// Makes the log durable up to its present end, and gives that. The manifest may name what is
    /// newer than that only: so that a power cut leaves what some first writes, creations and drops
    /// of trees have made, with nothing missing between.
    pub fn sync_log(&self) -> Result<Lsn> {
        self.check_process()?;
        let end = self.write.lock().end();
        self.check_writable()?;
        self.sync_to(end)?;
        Ok(end)
    }

    /// Returns when the log is durable up to `lsn`.
    pub fn sync_to(&self, lsn: Lsn) -> Result<()> {
        self.syncer.get().map_or(Ok(()), |s| s.sync(lsn)).map_err(|e| self.latch(e))
    }

    /// Seals the active memtable of `tree` and starts another. The caller holds the write lock.
    pub fn seal(&self, w: &WriteState, tree: &TreeCore) -> Result<()> {
        let end = w.end();
        let view = tree.view.load_full();
        let fresh =
            MemHandle::new(Memtable::empty(&self.arenas, view.options.filter_prefix.clone())?, end);
        let held = view.active.mem.used();
        tree.usual.store(held as u64, Ordering::Relaxed);
        let now = self.env.monotonic_nanos();
        tree.change_view(|v| {
            // Set once: only the holder of the write lock seals.
            let _ = v.active.end.set(end);
            let _ = v.active.sealed_at.set(now);
            let mut sealed = vec![v.active.clone()];
            sealed.extend(v.sealed.iter().cloned());
            TreeView { active: fresh, sealed, ..v.clone() }
        });
        self.memory.seal(&view.active);
        self.work.sealed.lock().insert(tree.id);
        self.begin_fill(tree, now, held);
        self.rebalance();
        Ok(())
    }
}

/// The greatest key that a tree has an entry of, or a greater one; `None` when it has no entries.
/// Called under the write lock, with every earlier write in its memtable; no table is read.
fn greatest(tree: &TreeCore) -> Result<Option<Vec<u8>>> {
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

/// Cuts the gaps at the keys of encoded operations that were inserted.
fn cut_gaps<'t>(bytes: &[u8], of: impl Fn(TreeId) -> Option<&'t TreeCore>) {
    for (tree, op) in OpReader::new(bytes).flatten() {
        if let (Op::Point { kind: Kind::Put | Kind::Merge, key, .. }, Some(t)) = (op, of(tree)) {
            t.gaps.cut(key);
        }
    }
}

/// Inserts encoded operations into the memtables that `of` names, numbered from `first`. Returns
/// how many there were.
pub fn insert_ops<'m>(
    first: Seq,
    bytes: &[u8],
    of: impl Fn(u32) -> Option<&'m Memtable>,
) -> Option<u64> {
    let mut seq = first;
    for op in OpReader::new(bytes) {
        let (tree, op) = op?;
        if let Some(mem) = of(tree) {
            match op {
                Op::Point { kind, key, value } => mem.add(key, Trailer::new(seq, kind), value),
                Op::DeleteRange { start, end } => mem.add_tombstone(&RangeTombstone {
                    start: start.to_vec(),
                    end: end.to_vec(),
                    seq,
                }),
            }
        }
        seq += 1;
    }
    Some(seq - first)
}
