//! Flushes immutable memtables to runs of tables; small ones of several trees together. Syncing the
//! log, the directory and the manifest costs the same for many memtables as for one.
//!
//! Invariants:
//! - Memtables of a tree are flushed oldest first, one at a time (`flushing` is held).
//! - The tables are durable before the manifest names them. The manifest names them before readers
//!   lose the memtable. The log is released last. After a crash at any point each write is in the
//!   log, in a table, or in both.
//! - The log is durable up to the end of a memtable before the manifest names its tables, if any
//!   tree needs that part of the log. Otherwise a power cut could lose an earlier write of another
//!   tree, or half of a batch, and retain this one. Log positions would also be reused.
//! - If everything before that end is in tables, the same edit releases that part of the log. A new
//!   writer then begins after it, regardless of the remaining log. In this case nothing is synced,
//!   and the system may never have to write those segments.

use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::{Error, Result};
use crate::base::events::Event;
use crate::base::key::{MAX_SEQ, Seq, head};
use crate::base::options::TreeOptions;
use crate::compaction::{OutputSplits, least_flushed, marks_of_each};
use crate::db::commit::CommitPipeline;
use crate::db::jobs::install;
use crate::db::jobs::subcompactions;
use crate::db::memory::budget::MemoryManager;
use crate::db::observe::Observer;
use crate::db::scheduler::Scheduler;
use crate::db::write::reserve;
use crate::db::write::seal;
use crate::db::write::slowdown;
use crate::iterator::merging::MergeSource;
use crate::iterator::visible::VisibleRange;
use crate::manifest::TableMeta;
use crate::memtable::Memtable;
use crate::range_del::deletions::Deletions;
use crate::range_del::tombstone::Fragments;
use crate::rewrite::emptied::emptied;
use crate::rewrite::job::{CompactionOutputs, run};
use crate::rewrite::retain::{OlderRuns, OtherRuns, Rules};
use crate::wal::{Lsn, Unneeded};

use crate::db::commit::mem_handle::MemHandle;
use crate::db::inner::DbInner;
use crate::db::jobs::install::VersionChange;
use crate::db::jobs::outputs::{PendingOutputs, meta, remove_tables};
use crate::db::jobs::subcompactions::{DividedJob, During, divide};
use crate::db::memory::budget::JobBuffers;
use crate::db::observe::meters::LatencyOp;
use crate::db::observe::pins::{PinKind, PinnedTask};
use crate::db::versions::tree::{Flushing, TreeInner};
use crate::db::versions::view::TreeView;

/// Flush of one memtable.
struct Flush<'a> {
    tree: &'a Arc<TreeInner>,
    view: Arc<TreeView>,
    sealed: Arc<MemHandle>,
    /// Log position of the memtable's end.
    end: Lsn,
    entries: u64,
    pieces: usize,
    tables: Vec<TableMeta>,
    values: Vec<BlobFileMeta>,
}

impl Flush<'_> {
    fn ids(&self) -> Vec<u64> {
        self.tables.iter().map(|t| t.id).collect()
    }

    /// Returns all files that were written.
    fn files(&self) -> Vec<u64> {
        self.tables.iter().map(|t| t.id).chain(self.values.iter().map(|v| v.id)).collect()
    }

    fn change(&self) -> VersionChange<'_> {
        let number = self.tables.first().map_or(0, |t| t.id);
        let added = self.tables.iter().map(|t| (0, number, t.clone())).collect();
        VersionChange {
            tree: self.tree,
            removed: vec![],
            added,
            values: self.values.clone(),
            flushed: Some((&self.sealed, self.end)),
        }
    }
}

/// Data shared by the subcompactions of one memtable's flush.
struct FlushedMemtable {
    tree: Arc<TreeInner>,
    options: Arc<TreeOptions>,
    mem: Arc<Memtable>,
    tombstones: Arc<Fragments>,
    snapshots: Vec<Seq>,
    now: u64,
    task: Arc<PinnedTask>,
    /// Log position of the memtable's end.
    end: Lsn,
}

impl FlushedMemtable {
    /// Writes the tables of a range of its keys.
    fn write_piece(
        &self,
        inner: &DbInner,
        range: &VisibleRange,
        during: &mut During<'_>,
    ) -> Result<CompactionOutputs> {
        let rules = Rules {
            range: range.clone(),
            tombstones: self.tombstones.clone(),
            snapshots: self.snapshots.clone(),
            older_runs: OlderRuns::new(vec![]),
            outside: OtherRuns::new(vec![], None),
            merge_operator: self.options.merge_operator.clone(),
            compaction_filter: None,
            gc_files: Arc::default(),
            inlines_blobs: false,
            is_compaction: false,
        };
        let cuts = OutputSplits { size: self.options.table_size, at: vec![] };
        let mut go_on = |_| during();
        let mut out = PendingOutputs {
            inner,
            tree: &self.tree,
            options: self.options.clone(),
            level: 0,
            task: self.task.clone(),
            during: &mut go_on,
            written: None,
            buffers: JobBuffers::new(&inner.memory),
            log_end: self.end,
        };
        let sources = vec![MergeSource::Mem(Memtable::cursor(&self.mem))];
        run(sources, rules, &cuts, Some(self.now), &mut out)
    }
}

/// Flushes the oldest immutable memtable of `tree`. Returns false when there is none.
pub fn flush_oldest(db: &DbInner, tree: &Arc<TreeInner>) -> Result<bool> {
    let one = tree.flushing.lock();
    flush_oldest_locked(db, tree, &one)
}

/// As [`flush_oldest`](crate::db::jobs::flush::flush_oldest), for a caller that holds the tree's
/// `flushing` lock.
pub fn flush_oldest_locked(
    db: &DbInner,
    tree: &Arc<TreeInner>,
    one: &Flushing<'_>,
) -> Result<bool> {
    flush_together(db, &[(tree, one)])
}

/// Flushes the oldest immutable memtable of each of these trees, or after an error none. The
/// caller holds their `flushing` locks. Returns false when there is none.
pub fn flush_together(db: &DbInner, trees: &[(&Arc<TreeInner>, &Flushing<'_>)]) -> Result<bool> {
    let mut all: Vec<Flush> = vec![];
    let mut has_forgotten = false;
    for &(tree, _) in trees {
        let view = tree.view.load_full();
        let Some(sealed) = view.sealed.last().cloned() else { continue };
        sealed.wait_for_writers();
        if tree.is_dropped() {
            discard_memtable(&db.commit, &db.memory, tree, &sealed);
            has_forgotten = true;
            continue;
        }
        // Without an end, the log is retained from the start of the memtable.
        debug_assert!(sealed.end.get().is_some(), "a sealed memtable must have an end");
        let end = sealed.end.get().copied().unwrap_or(sealed.start());
        let (tables, values) = (vec![], vec![]);
        all.push(Flush { tree, view, sealed, end, entries: 0, pieces: 0, tables, values });
    }
    if all.is_empty() {
        return Ok(has_forgotten);
    }
    let _permit = db.gate.acquire_permit()?;
    db.gate.check_writable()?;
    let from = db.observer.meters().now();
    all.iter().for_each(|f| f.tree.fill.flush_began(from));
    for f in &all {
        db.observer.note(|| Event::FlushBegun {
            tree: f.tree.name.clone(),
            memory: f.sealed.mem.used() as u64,
        });
    }
    let written = Error::catch("a flush", || write_tables(db, &mut all))
        .inspect_err(|_| all.iter().for_each(|f| remove_tables(db, &f.files())));
    let installed = written
        .and_then(|()| install::install_changes(db, all.iter().map(Flush::change).collect()));
    if let Err(e) = &installed {
        for f in &all {
            db.observer.note(|| Event::FlushFailed { tree: f.tree.name.clone(), error: e.clone() });
        }
    }
    let floor = installed?;
    let nanos = db.observer.meters().since(LatencyOp::Flush, from);
    let memory: usize = all.iter().map(|f| f.sealed.mem.used()).sum();
    for f in &all {
        f.tree.fill.flush_ended(from + nanos, memory);
        slowdown::end_fill(db, f.tree);
        report_flush(&db.observer, &db.scheduler, f, floor, from, nanos / all.len() as u64);
    }
    // Releases the flushed memtables: writers have been given their room already.
    drop(all);
    let unneeded = db.commit.lock().log().map(|wal| wal.retire(floor));
    match unneeded.map_or(Ok(()), Unneeded::remove) {
        // Segments that cannot be removed now are removed after the next opening.
        Err(e) if e.is_transient() => {}
        removed => removed.map_err(|e| db.gate.fail(e))?,
    }
    reserve::renew_reserve(&db.versions, &*db.env);
    bound_log(db).map(|_| ()).or_else(|e| db.gate.postpone(e))?;
    Ok(true)
}

/// Writes the tables of these flushes, and syncs everything that must be durable before the
/// manifest names them.
fn write_tables(db: &DbInner, all: &mut [Flush<'_>]) -> Result<()> {
    let now = db.env.wall_micros();
    for f in &mut *all {
        let pieces = write_memtable(db, f, now)?;
        f.pieces = pieces.len();
        for made in pieces {
            f.entries += made.entries;
            f.tables.extend(made.tables.iter().map(|facts| meta(facts, now, now)));
            f.values.extend(made.values);
        }
    }
    if all.iter().any(|f| !f.tables.is_empty()) {
        db.env.sync_dir(db.versions.dir())?;
    }
    // Syncs the log up to the end of these memtables, unless neither a tree nor a subscription
    // needs earlier log once they are in tables. For trees that cannot change, because later
    // writes are appended after it. A subscription syncs the log when it begins.
    let done: Vec<_> = all.iter().map(|f| (f.tree.id, &*f.sealed)).collect();
    let end = all.iter().map(|f| f.end).max().unwrap_or(0);
    let mut w = db.commit.lock();
    let is_needed = w.wal_floor(&done) < end || w.log().is_some_and(|wal| wal.has_durable_holds());
    drop(w);
    if is_needed { db.commit.sync_to(end) } else { Ok(()) }
}

/// Counts and reports a finished flush. `nanos` is its duration, or its share if several were
/// flushed together. No tree needs the log below `floor`.
fn report_flush(
    observer: &Observer,
    scheduler: &Scheduler,
    f: &Flush<'_>,
    floor: Lsn,
    from: u64,
    nanos: u64,
) {
    let (tree, tables, sealed) = (f.tree, &f.tables, &f.sealed);
    let bytes =
        tables.iter().map(|t| t.size).sum::<u64>() + f.values.iter().map(|v| v.size).sum::<u64>();
    let (deletes, raw) = tables.iter().fold((0, 0), |(d, r), t| (d + t.deletes, r + t.raw_bytes));
    let ends =
        [tables.first().map(|t| head(&t.first_key)), tables.last().map(|t| head(&t.last_key))];
    let waited = sealed.sealed_at.get().map_or(0, |&at| from.saturating_sub(at));
    observer.counters().flushed(bytes, nanos);
    observer.note(|| {
        let (runs, all) = tree.view.load_full().version.extent();
        Event::FlushEnded {
            tree: tree.name.clone(),
            entries: f.entries,
            versions: sealed.mem.entries(),
            deletes,
            bytes_out: bytes,
            raw_bytes: raw,
            tables: f.ids(),
            heads: ends.into_iter().flatten().collect(),
            flushed: f.end,
            log_floor: floor,
            memory: sealed.mem.used() as u64,
            micros: nanos / 1000,
            waited_micros: waited / 1000,
            slowdown_micros: scheduler.writes().slept() / 1000,
            stalled_micros: scheduler.writes().stalled() / 1000,
            subcompactions: f.pieces,
            runs,
            bytes: all,
        }
    });
}

/// Seals memtables so that a rarely written tree does not retain the log of all others. It
/// seals those that need more than [`log_limit`](crate::base::options::DbOptions::log_limit) of
/// the log, regardless of their size. It also seals those that need segments of earlier
/// openings when there are too many. Reports whether it sealed any.
pub fn bound_log(db: &DbInner) -> Result<bool> {
    let limit = db.options.log_limit();
    let w = db.commit.lock();
    let floor = w.end().saturating_sub(limit).max(w.inherited_too_many());
    let old = w.unflushed().take_while(|&(start, _)| start < floor);
    let trees = db.versions.trees();
    let old: Vec<_> =
        old.filter_map(|(start, id)| Some((start, trees.by_id(id)?.clone()))).collect();
    drop(trees);
    let mut any = false;
    for (start, t) in old {
        let active = &t.view.load_full().active;
        // Skips trees whose memtable is immutable already and waits for its flush.
        if !t.is_dropped() && active.is_touched() && active.start() == start {
            seal::seal_memtable(db, &w, &t)?;
            any = true;
        }
    }
    Ok(any)
}

fn write_memtable(db: &DbInner, f: &Flush<'_>, now: u64) -> Result<Vec<CompactionOutputs>> {
    let (tree, view, sealed) = (f.tree, &f.view, &f.sealed);
    if sealed.mem.is_empty() {
        return Ok(vec![]);
    }
    let snapshots = db.versions.snapshots().list();
    let read = db.versions.snapshots().oldest_transaction().unwrap_or(MAX_SEQ);
    let own = std::slice::from_ref(&*sealed.mem);
    let emptied =
        emptied(&sealed.mem, own, &view.version.runs, view.options.merge_operator.clone(), read);
    let tombstones = if emptied.is_empty() {
        sealed.mem.fragments(&snapshots)
    } else {
        let own = sealed.mem.deletions();
        let emptied = emptied
            .iter()
            .map(|s| &s.deletion)
            .map(|t| (t.start.as_slice(), t.end.as_slice(), t.seq));
        Deletions::build(own.iter().flat_map(|d| d.iter()).chain(emptied)).fragments(&snapshots)
    };
    let task = db.observer.pins().begin(
        PinKind::Flush,
        Some((tree.id, &tree.name)),
        String::new(),
        vec![],
    );
    let ranges = divide_flush(db, tree, view, sealed);
    let number = ranges.len();
    let flushed = FlushedMemtable {
        tree: tree.clone(),
        options: view.options.clone(),
        mem: sealed.mem.clone(),
        tombstones: Arc::new(tombstones),
        snapshots,
        now,
        task: task.clone(),
        end: f.end,
    };
    let piece = move |inner: &DbInner, i: usize, during: &mut During<'_>| {
        flushed.write_piece(inner, &ranges[i], during)
    };
    subcompactions::run_divided(db, number, DividedJob::Flush, &mut || Ok(()), piece)
        .inspect_err(|_| remove_tables(db, &task.created()))
}

/// Returns the key ranges of the subcompactions of a flush. There is one range unless writers
/// will wait for the flush. In that case all processors should work on it; otherwise fewer
/// tables are better.
fn divide_flush(
    db: &DbInner,
    tree: &TreeInner,
    view: &TreeView,
    sealed: &MemHandle,
) -> Vec<VisibleRange> {
    let bytes = sealed.mem.used() as u64;
    let least = least_flushed(view.options.table_size);
    let most = if slowdown::is_full_soon(&db.memory, &db.scheduler, tree) {
        subcompactions::count_subcompactions(&db.scheduler, bytes, least)
    } else {
        1
    };
    let spacing = (bytes / marks_of_each(most, 1) as u64).max(1);
    let marks = if most > 1 { sealed.mem.landmarks(spacing) } else { vec![] };
    divide(marks, most)
}

/// Drops the memtable of a dropped tree.
fn discard_memtable(
    commit: &CommitPipeline,
    memory: &MemoryManager,
    tree: &TreeInner,
    sealed: &MemHandle,
) {
    sealed.set_flushed();
    commit.lock().release(tree.id, sealed);
    memory.release(sealed);
    tree.change_view(|v| TreeView { sealed: v.without(Some(sealed)), ..v.clone() });
}

/// Seals the memtable of a tree, if it has entries, and waits until all its immutable memtables
/// are flushed.
pub fn flush_tree(db: &DbInner, t: &Arc<TreeInner>) -> Result<()> {
    db.gate.check_process()?;
    {
        let w = db.commit.lock();
        db.gate.check_writable()?;
        if t.view.load_full().active.is_touched() {
            seal::seal_memtable(db, &w, t)?;
        }
    }
    while flush_oldest(db, t)? {}
    Ok(())
}
