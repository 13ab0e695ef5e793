//! Replays the log at an opening: verifies its records and inserts their operations into memtables.
//!
//! One thread reads and verifies. If there is much log and the Db has background threads, helper
//! threads insert. Each has its own trees, and gets all records in log order. When a thread's
//! memtables exceed its share of the memory budget, it flushes some of them, as writers do. Trees
//! have no hooks yet. So such a table retains all merge operands, has no summary, and has no filter
//! if a hook defines the filter's keys.
//!
//! Invariants:
//! - P1: only one thread inserts into a tree. So the contents and layout of its memtables, and the
//!   times of its flushes, depend only on the log and on the available memory.
//! - P2: at most [`AHEAD`] chunks have been read and not inserted.
//! - P3: nothing is inserted after a record that was refused. No helper thread is left when the
//!   replay ends, also after an error.
//! - P4: no manifest names the tables written here before the log has been read to its end and made
//!   durable. The manifest that the opening begins names all of them. So a crash during the replay
//!   leaves garbage, and the store unchanged. A failed opening removes these tables.
//! - P5: a reader writes nothing, so it holds all replayed log in memory, regardless of the budget.
//!   An opening whose flushes lack space does the same.
//! - P6: a record that exceeds the memory is inserted in parts, each of which is flushed. The last
//!   part is also flushed, up to the record's end, before the next record. Otherwise a manifest
//!   could name only some of its tables, and the record would be inserted twice. If that flush
//!   lacks space, the opening fails.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::identity::LogWriter;
use crate::base::key::{MAX_SEQ, Seq};
use crate::base::ops::{NO_TREE, OpReader, TreeId};
use crate::db::jobs::flush;
use crate::env::{Env, Thread, start_thread};
use crate::manifest::{Manifest, ManifestState, manifest_name};
use crate::memtable::{self, ArenaPool, Memtable, MemtableRoom};
use crate::util::sort::sort_by_key;
use crate::util::sync::{Condvar, Mutex};
use crate::wal::format::record_size;
use crate::wal::{KnownSegments, Lsn, RecoveredLog, TornTail, recover_known};

use crate::db::commit::mem_handle::MemHandle;
use crate::db::inner::DbInner;
use crate::db::jobs::outputs::remove_tables;
use crate::db::observe::pins::advance_epoch;
use crate::db::versions::tree::TreeInner;
use crate::db::write::{insert_op, insert_ops};

/// Bytes of records that one thread inserts while it reads, before helpers start. Debug builds
/// start them early, so that tests have some.
const ALONE: u64 = if cfg!(debug_assertions) { 16 << 10 } else { 4 << 20 };
/// Bytes of records that are passed to a helper together.
const CHUNK: usize = if cfg!(debug_assertions) { 4 << 10 } else { 1 << 20 };
/// Maximum number of chunks that wait for a helper.
const AHEAD: usize = 4;

/// Maximum bytes of an empty memtable.
const EMPTY: u64 = 1 << 10;
/// Least memtable budget of each thread in bytes: less would make tables of a few records.
const LEAST: u64 = 40 << 10;

/// Result of a replay.
pub struct Replayed {
    pub recovered: RecoveredLog,
    pub last_seq: Seq,
}

/// Batch of records to insert.
#[derive(Default)]
struct ReplayChunk {
    bytes: Vec<u8>,
    records: Vec<(Seq, Lsn, Range<usize>)>,
}

impl ReplayChunk {
    fn add(&mut self, seq: Seq, end: Lsn, payload: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.records.push((seq, end, from..self.bytes.len()));
    }
}

/// Inserts the operations of some trees.
struct Inserter {
    inner: Arc<DbInner>,
    /// Trees ordered by id.
    trees: Vec<ReplayPlace>,
    /// Indexes of the trees with operations in the current record.
    touched: Vec<usize>,
    /// Bytes in use by the memtables of all its trees, and the limit above which some are flushed.
    taken: u64,
    most: u64,
}

/// State of one tree during a replay.
struct ReplayPlace {
    tree: Arc<TreeInner>,
    active: Arc<MemHandle>,
    /// Log position below which its records are in tables.
    flushed: Lsn,
    /// Memtable bytes for its operations of the current record; 0 if none is to be inserted.
    cost: usize,
    /// Memtable bytes of all its operations so far.
    sum: u64,
    /// Bytes of its memtables.
    taken: u64,
}

impl Inserter {
    fn new(inner: &Arc<DbInner>, trees: Vec<Flushed>, most: u64) -> Inserter {
        let place = |(tree, flushed): Flushed| {
            let active = tree.view.load_full().active.clone();
            let taken = taken(&tree);
            ReplayPlace { tree, active, flushed, cost: 0, sum: 0, taken }
        };
        let mut trees: Vec<ReplayPlace> = trees.into_iter().map(place).collect();
        sort_by_key(&mut trees, |p| p.tree.id);
        let taken = trees.iter().map(|p| p.taken).sum();
        // The limit must leave as much room for entries as empty memtables use.
        let most = most.max(2 * EMPTY * trees.len() as u64);
        Inserter { inner: inner.clone(), trees, touched: vec![], taken, most }
    }

    fn insert_all(&mut self, chunk: &ReplayChunk) -> Result<()> {
        chunk
            .records
            .iter()
            .try_for_each(|(seq, end, at)| self.insert(*seq, *end, &chunk.bytes[at.clone()]))
    }

    /// Inserts a valid record's operations on these trees.
    fn insert(&mut self, seq: Seq, end: Lsn, payload: &[u8]) -> Result<()> {
        let begin = end.saturating_sub(record_size(payload.len()));
        for (tree, op) in OpReader::new(payload).flatten() {
            if let Some(i) = find(&self.trees, tree).filter(|&i| end > self.trees[i].flushed) {
                if self.trees[i].cost == 0 {
                    self.touched.push(i);
                }
                self.trees[i].cost += Memtable::cost_of(&op);
            }
        }
        if self.touched.is_empty() {
            return Ok(());
        }
        if self.taken > self.most {
            self.flush_some(begin)?;
        }
        let cost: usize = self.touched.iter().map(|&i| self.trees[i].cost).sum();
        if cost as u64 > self.most {
            return self.insert_in_parts(seq, begin, end, payload);
        }
        self.make_room(begin)?;
        let of = |tree| {
            find(&self.trees, tree)
                .map(|i| &self.trees[i])
                .filter(|p| p.cost > 0)
                .map(|p| &**p.active.mem)
        };
        let inserted = insert_ops(seq, payload, None, of);
        debug_assert!(inserted.is_some(), "all operations must decode, as they did above");
        self.leave();
        Ok(())
    }

    /// Makes room for the operations on the touched trees, and enters their memtables.
    fn make_room(&mut self, begin: Lsn) -> Result<()> {
        for &i in &self.touched {
            let place = &mut self.trees[i];
            self.taken -= place.taken;
            place.make_room(begin, self.inner.memory.arenas())?;
            self.taken += place.taken;
        }
        Ok(())
    }

    /// Leaves the memtables of the touched trees, and clears the list of touched trees.
    fn leave(&mut self) {
        for i in self.touched.drain(..) {
            let place = &mut self.trees[i];
            place.active.leave();
            place.sum += std::mem::take(&mut place.cost) as u64;
        }
    }

    /// Inserts a record that exceeds the memory, and flushes it (P6).
    fn insert_in_parts(&mut self, seq: Seq, begin: Lsn, end: Lsn, payload: &[u8]) -> Result<()> {
        let all = std::mem::take(&mut self.touched);
        all.iter().for_each(|&i| self.trees[i].cost = 0);
        let (mut ahead, mut next) = (OpReader::new(payload).flatten(), seq);
        let (mut ops, mut is_flushed) = (OpReader::new(payload).flatten(), false);
        loop {
            let (mut count, mut cost) = (0, 0);
            while (cost as u64) < self.most / 2
                && let Some((tree, op)) = ahead.next()
            {
                count += 1;
                let Some(i) = find(&self.trees, tree).filter(|&i| end > self.trees[i].flushed)
                else {
                    continue;
                };
                if self.trees[i].cost == 0 {
                    self.touched.push(i);
                }
                self.trees[i].cost += Memtable::cost_of(&op);
                cost += Memtable::cost_of(&op);
            }
            if count == 0 {
                break;
            }
            self.make_room(begin)?;
            for (tree, op) in ops.by_ref().take(count) {
                if let Some(i) = find(&self.trees, tree).filter(|&i| self.trees[i].cost > 0) {
                    insert_op(&self.trees[i].active.mem, next, op);
                }
                next += 1;
            }
            let part = self.touched.clone();
            self.leave();
            if self.most < u64::MAX {
                for &i in &part {
                    self.trees[i].seal(begin, self.inner.memory.arenas())?;
                }
                match self.flush(&part) {
                    Err(e) if e.is_transient() && !is_flushed => self.do_without_flushes(e)?,
                    flushed => flushed?,
                }
                is_flushed |= self.most < u64::MAX;
            }
        }
        if is_flushed {
            for &i in &all {
                self.trees[i].seal(end, self.inner.memory.arenas())?;
            }
            self.flush(&all)?;
        }
        Ok(())
    }
}

impl Inserter {
    /// Flushes memtables, up to the record that begins at `begin`, until usage is 7/8 of the limit.
    /// Starts with the largest size × age, the age in bytes of log.
    #[cold]
    fn flush_some(&mut self, begin: Lsn) -> Result<()> {
        let worth =
            |p: &ReplayPlace| p.taken as u128 * begin.saturating_sub(p.start()).max(1) as u128;
        let mut order: Vec<(u128, usize)> =
            self.trees.iter().enumerate().map(|(i, p)| (worth(p), i)).collect();
        sort_by_key(&mut order, |&(worth, i)| (std::cmp::Reverse(worth), i));
        let (mut left, mut chosen) = (self.taken, vec![]);
        for (_, i) in order {
            if left <= self.most / 8 * 7 {
                break;
            }
            let place = &self.trees[i];
            if place.taken <= memtable::LEAST as u64 {
                // Like a writer, leaves each tree its last page.
                continue;
            }
            if place.active.is_touched() {
                place.seal(begin, self.inner.memory.arenas())?;
            } else if place.tree.view.load_full().sealed.is_empty() {
                continue;
            }
            left -= place.taken.saturating_sub(EMPTY);
            chosen.push(i);
        }
        // The rest are single pages.
        self.most = self.most.max(left + left / 8);
        match self.flush(&chosen) {
            Err(e) if e.is_transient() => self.do_without_flushes(e),
            flushed => flushed,
        }
    }

    /// Continues with everything in memory, as a reader does (P5).
    fn do_without_flushes(&mut self, e: Error) -> Result<()> {
        self.most = u64::MAX;
        self.inner.gate.postpone(e)
    }

    /// Flushes the immutable memtables of these trees.
    fn flush(&mut self, chosen: &[usize]) -> Result<()> {
        let flushed = {
            let locks: Vec<_> = chosen
                .iter()
                .map(|&i| (&self.trees[i].tree, self.trees[i].tree.flushing.lock()))
                .collect();
            let together: Vec<_> = locks.iter().map(|(tree, one)| (*tree, one)).collect();
            loop {
                match flush::flush_together(&self.inner, &together) {
                    Ok(true) => {}
                    done => break done,
                }
            }
        };
        for &i in chosen {
            let place = &mut self.trees[i];
            self.taken -= place.taken;
            place.look();
            self.taken += place.taken;
        }
        // Otherwise flushed memory would still be in use while new memtables fill as much again.
        advance_epoch();
        self.inner.memory.arenas().trim();
        flushed.map(drop)
    }
}

/// Returns the bytes of a tree's memtables.
fn taken(tree: &TreeInner) -> u64 {
    tree.view.load_full().memtables().map(|m| m.mem.taken() as u64).sum()
}

fn find(trees: &[ReplayPlace], tree: TreeId) -> Option<usize> {
    trees.binary_search_by_key(&tree, |p| p.tree.id).ok()
}

impl ReplayPlace {
    /// Makes room for a record's operations, and enters the memtable that has the room. The record
    /// begins at `begin`.
    fn make_room(&mut self, begin: Lsn, arenas: &Arc<ArenaPool>) -> Result<()> {
        while !self.active.mem.reserve(self.cost) {
            let view = self.tree.view.load_full();
            let room = self.tree.room_for(&view, self.cost);
            self.tree.widen(&view, room, self.cost, false)?;
            if room == MemtableRoom::Full {
                self.seal(begin, arenas)?;
            }
            self.look();
        }
        self.active.enter(begin.max(self.flushed));
        Ok(())
    }

    /// Seals the memtable before the record that begins at `begin`.
    fn seal(&self, begin: Lsn, arenas: &Arc<ArenaPool>) -> Result<()> {
        let prefix = self.tree.view.load_full().options.filter_prefix.clone();
        // The log may be released up to the begin of this record, and replayed from there again.
        let fresh = MemHandle::new(Memtable::empty(arenas, prefix)?, begin.max(self.flushed));
        let end = fresh.start();
        self.tree.seal(fresh, end, None);
        Ok(())
    }

    /// Returns the log position from which its memtables hold records.
    fn start(&self) -> Lsn {
        self.tree
            .view
            .load_full()
            .sealed
            .last()
            .map_or(self.active.start(), |oldest| oldest.start())
    }

    /// Reloads the state of the tree's memtables.
    fn look(&mut self) {
        self.active = self.tree.view.load_full().active.clone();
        self.taken = taken(&self.tree);
    }
}

/// Queue of chunks for a helper thread.
#[derive(Default)]
struct ReplayQueue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    chunks: VecDeque<Arc<ReplayChunk>>,
    /// Whether no more chunks will be pushed.
    ended: bool,
    failed: Option<Error>,
}

impl ReplayQueue {
    /// Inserts chunks until the queue has ended.
    fn serve(&self, mut inserter: Inserter) {
        loop {
            let mut s = self.state.lock();
            while s.chunks.is_empty() && !s.ended {
                self.changed.wait(&mut s);
            }
            let Some(chunk) = s.chunks.pop_front() else { return };
            drop(s);
            self.changed.notify_all();
            if let Err(e) = Error::catch("a replay", || inserter.insert_all(&chunk)) {
                let mut s = self.state.lock();
                (s.failed, s.ended) = (Some(e), true);
                s.chunks.clear();
                self.changed.notify_all();
                return;
            }
        }
    }

    /// Pushes a chunk; waits while [`AHEAD`] chunks are waiting.
    fn push(&self, chunk: &Arc<ReplayChunk>) -> Result<()> {
        let mut s = self.state.lock();
        while s.chunks.len() >= AHEAD && !s.ended {
            self.changed.wait(&mut s);
        }
        s.chunks.push_back(chunk.clone());
        self.changed.notify_all();
        s.failed.take().map_or(Ok(()), Err)
    }

    fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }
}

/// Queue of a helper thread, and the thread until it was joined.
type Helper = (Arc<ReplayQueue>, Option<Box<dyn Thread>>);

/// Tree with its flushed position.
type Flushed = (Arc<TreeInner>, Lsn);

/// Threads that insert records.
enum Crew {
    /// The reading thread, while there is little log.
    Alone(Inserter),
    /// Helper threads, each with its trees.
    Threads { helpers: Vec<Helper>, rest: Vec<Inserter>, chunk: ReplayChunk },
}

impl Crew {
    fn insert(&mut self, seq: Seq, end: Lsn, payload: &[u8]) -> Result<()> {
        match self {
            Crew::Alone(inserter) => inserter.insert(seq, end, payload),
            Crew::Threads { chunk, .. } => {
                chunk.add(seq, end, payload);
                if chunk.bytes.len() < CHUNK { Ok(()) } else { self.hand_over() }
            }
        }
    }

    /// Starts `threads` helpers and divides the trees among them by the bytes inserted so far.
    /// Trees whose helper cannot be started stay with the reading thread.
    fn divide(&mut self, env: &dyn Env, threads: usize) {
        let Crew::Alone(inserter) = self else { return };
        let (inner, most) = (inserter.inner.clone(), inserter.most);
        let mut trees: Vec<ReplayPlace> = std::mem::take(&mut inserter.trees);
        sort_by_key(&mut trees, |p| std::cmp::Reverse(p.sum));
        let mut parts: Vec<(u64, Vec<Flushed>)> = vec![];
        parts.resize_with(threads.min(trees.len()), Default::default);
        for p in trees {
            if let Some((sum, part)) = parts.iter_mut().min_by_key(|(sum, _)| *sum) {
                *sum += p.sum.max(1);
                part.push((p.tree, p.flushed));
            }
        }
        let (mut helpers, mut rest) = (vec![], vec![]);
        let each =
            if most == u64::MAX { most } else { (most / parts.len().max(1) as u64).max(LEAST) };
        for (i, (_, part)) in parts.into_iter().enumerate() {
            let queue = Arc::new(ReplayQueue::default());
            let (inserter, served) = (Inserter::new(&inner, part.clone(), each), queue.clone());
            let serve = move || served.serve(inserter);
            match start_thread(env, &format!("firn-replay-{i}"), serve) {
                Ok(thread) => helpers.push((queue, Some(thread))),
                Err(_) => rest.push(Inserter::new(&inner, part, each)),
            }
        }
        *self = Crew::Threads { helpers, rest, chunk: ReplayChunk::default() };
    }

    fn hand_over(&mut self) -> Result<()> {
        let Crew::Threads { helpers, rest, chunk } = self else { return Ok(()) };
        let chunk = Arc::new(std::mem::take(chunk));
        helpers.iter().try_for_each(|(queue, _)| queue.push(&chunk))?;
        rest.iter_mut().try_for_each(|inserter| inserter.insert_all(&chunk))
    }

    /// Waits until everything is inserted.
    fn finish(mut self) -> Result<()> {
        self.hand_over()?;
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Crew::Threads { helpers, .. } = self else { return Ok(()) };
        helpers.iter().for_each(|(queue, _)| queue.end());
        let threads = helpers.iter_mut().filter_map(|(_, thread)| thread.take());
        threads.for_each(|thread| thread.join());
        helpers
            .iter()
            .try_for_each(|(queue, _)| queue.state.lock().failed.take().map_or(Ok(()), Err))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The caller reports the error that caused the drop.
        let _ = self.join();
    }
}

/// Inserts the log's operations into memtables, except those that a tree already has in tables.
///
/// The manifest proves three facts about the log:
/// - The log exists.
/// - It reaches as far as any tree was flushed, because it is synced up to there before the
///   manifest says so.
/// - It names no tree that has not been created yet.
///
/// A reader reads its log through `env`, and that log may be newer than the manifest that was read.
/// Then operations are applied only up to the first one that follows a manifest change missing from
/// the log: a created or dropped tree, or an ingestion. Drops and ingestions take a sequence
/// number. So a reader never sees a write without the changes before it.
pub fn replay(inner: &Arc<DbInner>, env: &dyn Env) -> Result<Replayed> {
    let c = inner.versions.lock_catalog();
    let (before, of_trees) = (Before::of(c.state()), |t: &Arc<TreeInner>| {
        (t.clone(), c.state().trees.get(&t.id).map_or(0, |s| s.flushed))
    });
    let trees = inner.versions.trees().iter().map(of_trees).collect();
    let (first_table, manifest) = (c.state().next_file, c.number());
    drop(c);
    let replayed = replay_into(inner, env, &before, trees, manifest).and_then(|replayed| {
        let torn = replayed
            .recovered
            .torn
            .as_ref()
            .filter(|_| !inner.options.read_only && !inner.options.accept_log_loss);
        torn.map_or(Ok(()), check_torn)?;
        Ok(replayed)
    });
    if replayed.is_err() {
        let c = inner.versions.lock_catalog();
        let made: Vec<u64> = c
            .state()
            .trees
            .values()
            .flat_map(|t| t.tables())
            .map(|t| t.id)
            .filter(|&id| id >= first_table)
            .collect();
        drop(c);
        remove_tables(inner, &made);
    }
    replayed
}

/// State of the store in the manifest before the log is read.
struct Before {
    store: u64,
    last_seq: Seq,
    next_tree: TreeId,
    wal_floor: Lsn,
    durable: Lsn,
    writers: Vec<LogWriter>,
}

impl Before {
    fn of(s: &ManifestState) -> Before {
        let durable = s.trees.values().map(|t| t.flushed).max().unwrap_or(0);
        let (writers, wal_floor) = (s.writers.clone(), s.wal_floor);
        Before {
            store: s.id,
            last_seq: s.last_seq,
            next_tree: s.next_tree,
            wal_floor,
            durable,
            writers,
        }
    }
}

fn replay_into(
    inner: &Arc<DbInner>,
    env: &dyn Env,
    state: &Before,
    trees: Vec<Flushed>,
    manifest: u64,
) -> Result<Replayed> {
    let (dir, beside) = (inner.versions.dir(), inner.options.read_only);
    let threads = inner.scheduler.workers();
    let (mut last_seq, mut is_past, mut next_seq) = (0, false, state.last_seq + 1);
    let most = if beside { u64::MAX } else { inner.memory.for_replay().max(LEAST) };
    let mut crew = Crew::Alone(Inserter::new(inner, trees, most));
    let mut bytes = 0;
    let known =
        KnownSegments { store: state.store, durable: state.durable, writers: Some(&state.writers) };
    let recovered = recover_known(env, dir, state.wal_floor, &known, &mut |seq, end, payload| {
        if is_past {
            return Ok(());
        }
        let (mut count, mut unknown) = (0, None);
        for op in OpReader::new(payload) {
            let Some((tree, _)) = op else {
                return Err(Error::corruption(
                    "a log record with a sound checksum holds no sound operations: this build or the one that wrote it is at fault; keep the files",
                ));
            };
            if tree >= state.next_tree && tree != NO_TREE {
                unknown.get_or_insert(tree);
            }
            count += 1;
        }
        if beside && (seq > next_seq || unknown.is_some()) {
            let newer = Manifest::load(env, dir)?.map_or((0, 0), |(s, _)| (s.last_seq, s.next_tree));
            is_past = newer.0 >= next_seq || unknown.is_some_and(|tree| newer.1 > tree);
            if is_past {
                return Ok(());
            }
        }
        if let Some(tree) = unknown {
            return Err(lost_edits(env, dir, manifest, tree));
        }
        if seq > MAX_SEQ + 1 - count.max(1) {
            return Err(Error::corruption(format!("a log record has the sequence number {seq}, which is out of bounds")));
        }
        next_seq = next_seq.max(seq + count);
        crew.insert(seq, end, payload)?;
        bytes += payload.len() as u64;
        if threads > 0 && bytes >= ALONE {
            crew.divide(&*inner.env, threads);
        }
        last_seq = last_seq.max(seq + count.max(1) - 1);
        Ok(())
    })
    .map_err(|e| torn_manifest(env, dir, manifest, e))?;
    crew.finish()?;
    if recovered.segments.is_empty() && manifest > 0 && had_log(env, dir, manifest)? {
        let words = "the log is missing: the store has no segment (*.wal) at all; restore them from a copy, \
                     or let `sstable-dump repair` go on with what the tables hold";
        return Err(Error::corruption(words).at(dir, 0).block("wal segment"));
    }
    Ok(Replayed { recovered, last_seq })
}

/// Reports whether the store has ever had a log. A new Db begins its log before its manifest, and a
/// later opening adds a frame or begins another manifest. So only an unopened checkpoint has none:
/// its manifest is the first and has one frame. (A new Db with one frame is empty.)
fn had_log(env: &dyn Env, dir: &Path, manifest: u64) -> Result<bool> {
    Ok(manifest > 1 || crate::manifest::read(env, dir, manifest)?.frames.len() > 1)
}

/// Returns the error for a tree in the log that the manifest does not know: the last edits of the
/// manifest are lost.
fn lost_edits(env: &dyn Env, dir: &Path, manifest: u64, tree: u32) -> Error {
    let path = dir.join(manifest_name(manifest));
    let end = env.file_len(&path).unwrap_or(0);
    Error::corruption(format!(
        "the log has operations on tree {tree}, which this manifest does not know yet: its last edits are lost; restore it from a copy, \
         or rebuild it with `sstable-dump repair`"
    ))
    .at(path, end)
    .block("manifest")
}

/// Returns the error of the log, or an error of the manifest if that is the cause. If the
/// manifest's end is torn and the log misses records, lost edits had released that part of the log,
/// so they were durable. A crash only tears frames that no other step depended on.
fn torn_manifest(env: &dyn Env, dir: &Path, manifest: u64, e: Error) -> Error {
    let Ok(log) = crate::manifest::read(env, dir, manifest) else { return e };
    if log.end == log.len || e.kind() != ErrorKind::Corruption || e.block_kind() == Some("manifest")
    {
        return e;
    }
    Error::corruption(format!(
        "this manifest is damaged or cut off, and its last edits are lost: they let go of a part of the log ({e}); restore it from a copy, \
         or rebuild it with `sstable-dump repair`"
    ))
    .at(log.path, log.end)
    .block("manifest")
}

/// Refuses to open for writing if damage cut off written records, because that would make the loss
/// final. A torn end that a crash may have caused is not refused.
fn check_torn(t: &TornTail) -> Result<()> {
    let Some(proof) = &t.proof else { return Ok(()) };
    let words = format!(
        "the log is damaged here, and not by a crash ({proof}): {} sound records behind it, with {} operations, are cut off and would be lost \
         for good by opening for writing; save them with `sstable-dump salvage`, or do without them: open with `accept_log_loss` \
         (`firn --accept-log-loss`)",
        t.records_beyond, t.operations_beyond
    );
    Err(Error::corruption(words).at(&t.file, t.offset).block("wal record"))
}
