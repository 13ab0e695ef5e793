//! One tree inside a Db: its view, its options, its locks. The public handle is
//! [`Tree`](crate::db::Tree).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::horizon::VisibleSeq;
use crate::base::key::Seq;
use crate::base::ops::TreeId;
use crate::base::options::TreeOptions;
use crate::base::reads::ReadCounters;
use crate::base::shared::Shared;
use crate::base::sync::epoch::Guard;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, rank};
use crate::base::tolls::Tolls;
use crate::compaction::RunShape;
use crate::env::Env;
use crate::manifest::{RunState, TableMeta, TreeState};
use crate::memtable::MemtableRoom;
use crate::merge::gaps::{EmptyRangeBudget, EmptyRangeCache};
use crate::merge::run::{TableHandle, TableOpener, TableRun};
use crate::wal::Lsn;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::observe::meters::Meters;
use crate::db::observe::pins::Pins;
use crate::db::scheduler::gate::closed;
use crate::db::scheduler::queue::{BackgroundQueue, PutOff};
use crate::db::scheduler::write_controller::MemtableFill;
use crate::db::versions::live_blobs::LiveValues;
use crate::db::versions::view::{TreeVersion, TreeView};

const LIVE: u32 = 0;
const DROPPED: u32 = 1;
/// With the Db, and not dropped before.
const CLOSED: u32 = 2;

/// The right to flush a tree.
pub type Flushing<'a> = MutexGuard<'a, (), rank::Flushing>;

/// What looks on at a store: where operations are timed, what holds space, and where readers have
/// found nothing.
#[derive(Clone)]
pub struct TreeParts {
    /// The door to the world.
    pub env: Arc<dyn Env>,
    /// Histograms of latencies.
    pub meters: Arc<Meters>,
    /// Who holds space.
    pub pins: Arc<Pins>,
    /// What trees know of where nothing is.
    pub gaps: Arc<EmptyRangeBudget>,
    /// Who is called when readers have paid for many sources.
    pub work: Arc<BackgroundQueue>,
}

/// The inside of a tree.
pub struct TreeInner {
    /// Its number in the Db.
    pub id: TreeId,
    /// Its name.
    pub name: String,
    /// What readers see.
    pub view: Shared<TreeView>,
    view_lock: Mutex<(), rank::View>,
    pins: Arc<Pins>,
    /// Held while a memtable of this tree becomes a table: flushes happen oldest first, one at a
    /// time.
    pub flushing: Mutex<(), rank::Flushing>,
    /// Where its readers have found nothing.
    pub gaps: Arc<EmptyRangeCache>,
    /// What its readers have paid for its sources.
    pub tolls: Arc<Tolls>,
    /// Bytes that the memtable held that was sealed last: the next one may become as large.
    last_sealed_size: AtomicU64,
    /// How fast its memtables fill and empty.
    pub fill: MemtableFill,
    /// Flushes that have been put off.
    pub put_off: Mutex<PutOff>,
    /// Files of the tree, and which of them a job holds. Changed together with the manifest.
    pub files: Mutex<TreeFiles, rank::Files>,
    /// One of [`LIVE`], [`DROPPED`] and [`CLOSED`].
    lifecycle: AtomicU32,
    /// Whether every hook that the manifest names has been handed in, so that compactions may run.
    hooked: AtomicBool,
}

/// Who runs a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The background work, which may be paused: then it stands still.
    Background,
    /// A caller, for whom it goes on.
    Caller,
}

/// The files of a tree.
#[derive(Default)]
pub struct TreeFiles {
    /// Live tables by number.
    pub handles: BTreeMap<u64, Arc<TableHandle>>,
    /// Tables that a running job holds, and whose job it is.
    pub busy: HashMap<u64, Holder>,
    /// Bytes that each running merge reads, by the number of its first table.
    pub merging: BTreeMap<u64, u64>,
    /// Tables in which a merge left deletes while snapshots were live, and the oldest one's sequence
    /// number.
    pub held_back: HashMap<u64, Seq>,
    /// What readers of the tree did.
    pub reads: Arc<ReadCounters>,
}

impl TreeFiles {
    /// Takes up a table that is live from now on, where it is not there yet. `values` are the value
    /// files of the tree.
    pub fn take_up(
        &mut self,
        meta: Arc<TableMeta>,
        opener: &Arc<TableOpener>,
        values: &BTreeMap<u64, Arc<BlobFileMeta>>,
    ) {
        let TreeFiles { handles, reads, .. } = self;
        handles
            .entry(meta.id)
            .or_insert_with(|| TableHandle::new(meta, opener.clone(), reads.clone(), values));
    }

    /// Notes which of these tables, which a merge has made, still have deletes; `oldest` is the
    /// oldest snapshot that was live when it began.
    pub fn note_held_back(&mut self, made: &[u64], oldest: Seq) {
        let TreeFiles { handles, held_back, .. } = self;
        held_back.retain(|id, _| handles.contains_key(id));
        let has_deletes =
            |id: &&u64| handles.get(*id).is_some_and(|t| t.meta.oldest_tombstone_micros.is_some());
        held_back.extend(made.iter().filter(has_deletes).map(|id| (*id, oldest)));
    }
}

impl TreeInner {
    /// A tree as the manifest describes it.
    pub fn new(
        state: &TreeState,
        options: TreeOptions,
        hooked: bool,
        active: Arc<MemHandle>,
        files: TreeFiles,
        parts: &TreeParts,
    ) -> Result<Arc<TreeInner>> {
        let version = Arc::new(build_version(&TreeVersion::default(), state, &files)?);
        let (name, meters, gaps) = (
            Arc::from(&*state.name),
            parts.meters.clone(),
            Arc::new(EmptyRangeCache::new(parts.gaps.clone())),
        );
        let (reads, options) = (files.reads.clone(), Arc::new(options));
        let (id, env, work) = (state.id, parts.env.clone(), parts.work.clone());
        // A child made by fork() may read, and calls nobody: the work is its parent's.
        let bell = move || {
            if !env.is_forked() {
                work.note_paid(id);
            }
        };
        let tolls = Arc::new(Tolls::new(Box::new(bell)));
        tolls.hold(state.tables().map(|t| t.size).sum());
        let view = TreeView {
            active,
            sealed: vec![],
            version,
            options,
            name,
            meters,
            reads,
            tolls: tolls.clone(),
            gaps: gaps.clone(),
        };
        Ok(Arc::new(TreeInner {
            id: state.id,
            name: state.name.clone(),
            view: Shared::new(Arc::new(view)),
            view_lock: Mutex::new(()),
            pins: parts.pins.clone(),
            flushing: Mutex::new(()),
            gaps,
            tolls,
            last_sealed_size: AtomicU64::new(0),
            fill: MemtableFill::default(),
            put_off: Mutex::default(),
            files: Mutex::new(files),
            lifecycle: AtomicU32::new(LIVE),
            hooked: AtomicBool::new(hooked),
        }))
    }

    /// The view and a read point of one moment: the view has all that may be read at the
    /// point, and holds it as long as it lives. The view is taken first, because tables that come
    /// later may lack versions that a read point before them needs. But what enters by a change of
    /// the view, as ingested tables do, enters before its number may be read: so the view must
    /// still be the same one after the read point was taken, else a later write could be seen in
    /// its memtable without the ingestion before it.
    pub fn at_one_moment<'g>(&self, visible: &VisibleSeq, guard: &'g Guard) -> (&'g TreeView, Seq) {
        loop {
            let view = self.view.load(guard);
            #[cfg(test)]
            crate::db::tests::between();
            let read = visible.now();
            if std::ptr::eq(view, self.view.load(guard)) {
                return (view, read);
            }
        }
    }

    /// Replaces the view by one made from it.
    pub fn change_view(&self, f: impl FnOnce(&TreeView) -> TreeView) {
        let _one = self.view_lock.lock();
        let now = self.view.load_full();
        self.view.replace(Arc::new(f(&now)));
        self.pins.replaced(&self.name, &now);
    }

    /// Whether its memtables usually hold so many bytes.
    pub fn is_usual(&self, bytes: u64) -> bool {
        self.last_sealed_size.load(Ordering::Relaxed) >= bytes
    }

    /// Seals the active memtable where the log ends, and makes `fresh` the active one. The caller
    /// keeps everybody from entering meanwhile; `now` is the monotonic clock, where writers seal.
    /// Gives the one that is sealed.
    pub fn seal(&self, fresh: Arc<MemHandle>, end: Lsn, now: Option<u64>) -> Arc<MemHandle> {
        let mut was_active = None;
        self.change_view(|v| {
            let is_first = v.active.end.set(end).is_ok();
            debug_assert!(is_first, "a memtable is sealed twice");
            if let Some(now) = now {
                let _ = v.active.sealed_at.set(now);
            }
            was_active = Some(v.active.clone());
            let mut sealed = vec![v.active.clone()];
            sealed.extend(v.sealed.iter().cloned());
            TreeView { active: fresh, sealed, ..v.clone() }
        });
        was_active.unwrap_or_else(|| unreachable!("the view has been changed"))
    }

    /// Notes how much the memtable held that was sealed last.
    pub fn set_last_sealed_size(&self, bytes: usize) {
        self.last_sealed_size.store(bytes as u64, Ordering::Relaxed);
    }

    /// What makes room in the active memtable of its present view for adds of this cost.
    pub fn room_for(&self, view: &TreeView, cost: usize) -> MemtableRoom {
        let last_sealed_size = self.last_sealed_size.load(Ordering::Relaxed) as usize;
        view.active.mem.room_for(cost, view.options.memtable_size, last_sealed_size)
    }

    /// Makes that room, or, where a copy is made, all that the copy may have (`whole`). The caller
    /// keeps everybody from entering the active memtable. Nothing happens when that is full.
    ///
    /// # Errors
    /// `Exhausted` when there is no memory, `InvalidArgument` for adds that fit no memtable.
    pub fn widen(
        &self,
        view: &TreeView,
        room: MemtableRoom,
        cost: usize,
        whole: bool,
    ) -> Result<()> {
        let active = &view.active;
        match room {
            MemtableRoom::Full => {}
            MemtableRoom::Extend(bytes) => active.mem.extend(bytes),
            MemtableRoom::Grow(capacity) => {
                // What they have put there is in the copy then.
                active.wait_for_writers();
                let grown = active.grown(active.mem.grown(capacity, cost, whole)?);
                self.change_view(|v| TreeView { active: grown, ..v.clone() });
                active.set_flushed();
            }
        }
        Ok(())
    }

    /// Whether it is a tree of the Db that is watched so.
    pub fn is_of(&self, pins: &Arc<Pins>) -> bool {
        Arc::ptr_eq(&self.pins, pins)
    }

    /// An error when the tree has been dropped, or the Db is closed.
    #[inline]
    pub fn check_live(&self) -> Result<()> {
        if self.lifecycle.load(Ordering::Relaxed) == LIVE { Ok(()) } else { Err(self.why_gone()) }
    }

    #[cold]
    fn why_gone(&self) -> Error {
        if !self.is_dropped() {
            return closed();
        }
        self.dropped()
    }

    /// The error of whoever wants something of it when it has been dropped.
    pub fn dropped(&self) -> Error {
        Error::new(ErrorKind::Closed, format!("the tree {:?} has been dropped", self.name))
    }

    /// Whether the tree has been dropped.
    pub fn is_dropped(&self) -> bool {
        self.lifecycle.load(Ordering::Relaxed) == DROPPED
    }

    /// Marks the tree as dropped.
    pub fn mark_dropped(&self) {
        self.lifecycle.store(DROPPED, Ordering::Relaxed);
    }

    /// Marks the tree, which is live, as one of a Db that is closed.
    pub fn mark_closed(&self) {
        self.lifecycle.store(CLOSED, Ordering::Relaxed);
    }

    /// Whether compactions may run.
    pub fn is_hooked(&self) -> bool {
        self.hooked.load(Ordering::Acquire)
    }

    /// Hands in the options with their hooks: all that there are when `hooked`. The caller holds
    /// the locks of the tree's files and of the log.
    ///
    /// # Errors
    /// Those of going over the memtables, which are not known to fail.
    pub fn set_options(&self, options: TreeOptions, hooked: bool, files: &TreeFiles) -> Result<()> {
        if let Some(hook) = &options.filter_prefix {
            for m in self.view.load_full().memtables() {
                m.wait_for_writers();
                m.mem.learn_prefixes(hook.clone())?;
            }
        }
        let options = Arc::new(options);
        if !hooked {
            self.change_view(|v| TreeView { options, ..v.clone() });
            return Ok(());
        }
        files.handles.values().for_each(|h| h.use_filter(true));
        self.change_view(|v| TreeView { options, ..v.clone() });
        self.hooked.store(true, Ordering::Release);
        Ok(())
    }
}

impl TreeInner {
    /// Finds anew which value files are given up, by the options that the state has.
    pub fn judge_values(&self, state: &TreeState) {
        let values = LiveValues::of(state);
        if self.view.load_full().version.values == values {
            return;
        }
        self.change_view(|v| {
            let TreeVersion { runs, shapes, states, .. } = &*v.version;
            let version = TreeVersion {
                runs: runs.clone(),
                shapes: shapes.clone(),
                states: states.clone(),
                values,
            };
            TreeView { version: Arc::new(version), ..v.clone() }
        });
    }
}

/// The runs of a tree from its state and its open files. What has not changed since `before` is
/// taken from there.
///
/// # Errors
/// When a live table has no handle, which only a bug can be the reason of: without it reads would
/// miss what it holds.
pub fn build_version(
    before: &TreeVersion,
    state: &TreeState,
    files: &TreeFiles,
) -> Result<TreeVersion> {
    let handle = |id: u64| {
        let handle = files.handles.get(&id).cloned();
        debug_assert!(handle.is_some(), "live table {id} has no handle");
        handle.ok_or_else(|| {
            Error::corruption(format!(
                "the live table {id} of the tree {:?} is not open: this build is at fault",
                state.name
            ))
        })
    };
    let mut there = before.states.iter().enumerate().peekable();
    let values = LiveValues::of(state);
    let mut version = TreeVersion { values, ..TreeVersion::default() };
    for r in &state.runs {
        // Both are in the same order.
        while there.next_if(|(_, s)| s.place() < r.place()).is_some() {}
        let (run, shape) = match there.peek() {
            Some((i, s)) if Arc::ptr_eq(s, r) => {
                (before.runs[*i].clone(), before.shapes[*i].clone())
            }
            _ => {
                let tables = r.tables.iter().map(|t| handle(t.id)).collect::<Result<_>>()?;
                (Arc::new(TableRun::new(r.level, r.number, tables)), Arc::new(run_shape(r)))
            }
        };
        version.runs.push(run);
        version.shapes.push(shape);
        version.states.push(r.clone());
    }
    Ok(version)
}

/// A run as policies see it while no job has any of its tables.
fn run_shape(r: &RunState) -> RunShape {
    let tables = r.tables.iter().map(|t| t.shape()).collect();
    RunShape { level: r.level, number: r.number, tables }
}
