//! Internal state of one tree of a Db: its view, options and locks. The public handle is
//! [`Tree`](super::super::Tree).

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::TTL_FILTER;
use crate::base::key::Seq;
use crate::base::ops::TreeId;
use crate::base::options::TreeOptions;
use crate::base::visible_seq::VisibleSeq;
use crate::compaction::RunShape;
use crate::counters::read_debt::ReadDebt;
use crate::counters::reads::ReadCounters;
use crate::env::Env;
use crate::iterator::empty_range_cache::{EmptyRangeBudget, EmptyRangeCache};
use crate::iterator::opener::TableOpener;
use crate::iterator::run::TableRun;
use crate::iterator::table_handle::TableHandle;
use crate::manifest::{RunState, TableMeta, TreeState};
use crate::memtable::MemtableRoom;
use crate::util::shared::Shared;
use crate::util::sorted_map::SortedMap;
use crate::util::sync::epoch::Guard;
use crate::util::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, rank};
use crate::wal::Lsn;

use crate::db::commit::mem_handle::MemHandle;
use crate::db::observe::meters::Meters;
use crate::db::observe::pins::Pins;
use crate::db::scheduler::gate::closed;
use crate::db::scheduler::queue::{BackgroundQueue, Postponed};
use crate::db::scheduler::write_controller::MemtableFill;
use crate::db::versions::live_blobs::LiveBlobs;
use crate::db::versions::view::{TreeVersion, TreeView};

const LIVE: u32 = 0;
const DROPPED: u32 = 1;
/// Closed with its Db without having been dropped.
const CLOSED: u32 = 2;

/// Guard of the lock for flushes of a tree.
pub type Flushing<'a> = MutexGuard<'a, (), rank::Flushing>;

/// Shared parts of a store that its trees use: environment, metrics, space pins, empty-range budget
/// and background queue.
#[derive(Clone)]
pub struct TreeParts {
    /// Environment: files, clocks, threads, random numbers.
    pub env: Arc<dyn Env>,
    /// Latency histograms.
    pub meters: Arc<Meters>,
    /// Holders of space: views that retain memtables and files.
    pub pins: Arc<Pins>,
    /// Memory budget of the empty-range caches.
    pub empty_ranges: Arc<EmptyRangeBudget>,
    /// Background queue, called for read-triggered compactions.
    pub work: Arc<BackgroundQueue>,
}

/// Internal state of a tree.
pub struct TreeInner {
    /// Id of the tree in the Db.
    pub id: TreeId,
    /// Name of the tree.
    pub name: String,
    /// Current view, which readers use.
    pub view: Shared<TreeView>,
    view_lock: Mutex<(), rank::View>,
    pins: Arc<Pins>,
    /// Held during a flush of this tree. Flushes run one at a time, oldest memtable first.
    pub flushing: Mutex<(), rank::Flushing>,
    /// Empty-range cache of the tree.
    pub empty_ranges: Arc<EmptyRangeCache>,
    /// Cost that readers paid for merging several sources.
    pub read_debt: Arc<ReadDebt>,
    /// Bytes of the memtable that was sealed last. The next one may grow to the same size.
    last_sealed_size: AtomicU64,
    /// Rates at which memtables fill and are flushed.
    pub fill: MemtableFill,
    /// Flushes that were postponed.
    pub postponed: Mutex<Postponed>,
    /// Files of the tree, and which of them a job holds. Changes together with the manifest.
    pub files: Mutex<TreeFiles, rank::Files>,
    /// One of [`LIVE`], [`DROPPED`] and [`CLOSED`].
    lifecycle: AtomicU32,
    /// Whether the caller has provided every hook that the manifest names, so that compactions may
    /// run.
    hooked: AtomicBool,
    /// Whether its values have deadlines ([`TtlTree`](crate::TtlTree)), which never changes.
    is_ttl: bool,
}

/// Owner of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Background work, which stops during a pause.
    Background,
    /// A calling thread, whose job continues during a pause.
    Caller,
}

/// Files of a tree.
#[derive(Default)]
pub struct TreeFiles {
    /// Live tables by number.
    pub handles: SortedMap<u64, Arc<TableHandle>>,
    /// Tables that a running job holds, and the owner of that job.
    pub busy: HashMap<u64, Holder>,
    /// Upper bound of the bytes that a step of each running compaction writes, by the number of its
    /// first table.
    pub merging: SortedMap<u64, u64>,
    /// Tables in which a compaction had to leave tombstones because of live snapshots, with the
    /// sequence number of the oldest such snapshot.
    pub held_back: HashMap<u64, Seq>,
    /// Counters of reads of the tree.
    pub reads: Arc<ReadCounters>,
}

impl TreeFiles {
    /// Adds a handle for a table that is live from now on, unless it has one. `values` are the blob
    /// files of the tree.
    pub fn add_table_handle(
        &mut self,
        meta: Arc<TableMeta>,
        opener: &Arc<TableOpener>,
        values: &SortedMap<u64, Arc<BlobFileMeta>>,
    ) {
        let TreeFiles { handles, reads, .. } = self;
        handles.get_or_insert_with(meta.id, || {
            TableHandle::new(meta, opener.clone(), reads.clone(), values)
        });
    }

    /// Records which of these new tables of a compaction still have tombstones. `oldest` is the
    /// oldest snapshot that was live when the compaction began.
    pub fn note_held_back(&mut self, made: &[u64], oldest: Seq) {
        let TreeFiles { handles, held_back, .. } = self;
        held_back.retain(|id, _| handles.contains_key(id));
        let has_deletes =
            |id: &&u64| handles.get(*id).is_some_and(|t| t.meta.oldest_tombstone_micros.is_some());
        held_back.extend(made.iter().filter(has_deletes).map(|id| (*id, oldest)));
    }
}

impl TreeInner {
    /// Creates a tree from its state in the manifest.
    ///
    /// # Errors
    /// `Corruption` if a live table has no handle.
    pub fn new(
        state: &TreeState,
        options: TreeOptions,
        hooked: bool,
        active: Arc<MemHandle>,
        files: TreeFiles,
        parts: &TreeParts,
    ) -> Result<Arc<TreeInner>> {
        let version = Arc::new(build_version(&TreeVersion::default(), state, &files)?);
        let (name, meters, empty_ranges) = (
            Arc::from(&*state.name),
            parts.meters.clone(),
            Arc::new(EmptyRangeCache::new(parts.empty_ranges.clone())),
        );
        let (reads, options) = (files.reads.clone(), Arc::new(options));
        let (id, env, work) = (state.id, parts.env.clone(), parts.work.clone());
        // A child made by fork() may read, but must not signal: the background work belongs to its
        // parent.
        let bell = move || {
            if !env.is_forked() {
                work.note_paid(id);
            }
        };
        let read_debt = Arc::new(ReadDebt::new(Box::new(bell)));
        read_debt.hold(state.tables().map(|t| t.size).sum());
        let view = TreeView {
            active,
            sealed: vec![],
            version,
            options,
            name,
            meters,
            reads,
            read_debt: read_debt.clone(),
            empty_ranges: empty_ranges.clone(),
        };
        Ok(Arc::new(TreeInner {
            id: state.id,
            name: state.name.clone(),
            view: Shared::new(Arc::new(view)),
            view_lock: Mutex::new(()),
            pins: parts.pins.clone(),
            flushing: Mutex::new(()),
            empty_ranges,
            read_debt,
            last_sealed_size: AtomicU64::new(0),
            fill: MemtableFill::default(),
            postponed: Mutex::default(),
            files: Mutex::new(files),
            lifecycle: AtomicU32::new(LIVE),
            hooked: AtomicBool::new(hooked),
            is_ttl: state.options.compaction_filter.as_deref() == Some(TTL_FILTER),
        }))
    }

    /// Returns a view and a read point that match. The view contains all that is visible at the
    /// read point, and retains it as long as the view is alive.
    ///
    /// The view is loaded first, because later tables may lack versions that an earlier read point
    /// needs. But changes that enter with a view, such as ingested tables, enter it before their
    /// sequence number is visible. So the view must still be current after the read point is
    /// loaded. Otherwise a read could see a later write in its memtable without the ingestion
    /// before it.
    pub fn consistent_view<'g>(
        &self,
        visible: &VisibleSeq,
        guard: &'g Guard,
    ) -> (&'g TreeView, Seq) {
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

    /// Replaces the view by `f` of the current one.
    pub fn change_view(&self, f: impl FnOnce(&TreeView) -> TreeView) {
        let _one = self.view_lock.lock();
        let now = self.view.load_full();
        self.view.replace(Arc::new(f(&now)));
        self.pins.replaced(&self.name, &now);
    }

    /// Reports whether the memtable that was sealed last had at least `bytes` bytes.
    pub fn is_usual(&self, bytes: u64) -> bool {
        self.last_sealed_size.load(Ordering::Relaxed) >= bytes
    }

    /// Seals the active memtable at the end of the log, makes `fresh` the active one, and returns
    /// the sealed one. The caller prevents writers from entering meanwhile. `now` is the monotonic
    /// clock if a writer seals.
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
        was_active.unwrap_or_else(|| unreachable!("change_view runs its closure"))
    }

    /// Sets the bytes of the memtable that was sealed last.
    pub fn set_last_sealed_size(&self, bytes: usize) {
        self.last_sealed_size.store(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the action that makes room in the active memtable of `view` for adds of `cost`
    /// bytes.
    pub fn room_for(&self, view: &TreeView, cost: usize) -> MemtableRoom {
        let last_sealed_size = self.last_sealed_size.load(Ordering::Relaxed) as usize;
        view.active.mem.room_for(cost, view.options.memtable_size, last_sealed_size)
    }

    /// Makes room in the active memtable as [`TreeInner::room_for`] returned. With `whole`, a grown
    /// copy gets its full capacity at once. The caller prevents writers from entering the active
    /// memtable. Does nothing if the memtable is full.
    ///
    /// # Errors
    /// `Exhausted` if there is no memory, `InvalidArgument` for adds that fit no memtable.
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
                // Wait, so that the copy contains the entries of all writers.
                active.wait_for_writers();
                let grown = active.grown(active.mem.grown(capacity, cost, whole)?);
                self.change_view(|v| TreeView { active: grown, ..v.clone() });
                active.set_flushed();
            }
        }
        Ok(())
    }

    /// Reports whether the tree belongs to the Db of `pins`.
    pub fn is_of(&self, pins: &Arc<Pins>) -> bool {
        Arc::ptr_eq(&self.pins, pins)
    }

    /// Returns an error if the tree has been dropped or the Db is closed.
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

    /// Returns the error for uses of the tree after it was dropped.
    pub fn dropped(&self) -> Error {
        Error::new(ErrorKind::Closed, format!("the tree {:?} has been dropped", self.name))
    }

    /// Reports whether the tree has been dropped.
    pub fn is_dropped(&self) -> bool {
        self.lifecycle.load(Ordering::Relaxed) == DROPPED
    }

    /// Marks the tree as dropped.
    pub fn mark_dropped(&self) {
        self.lifecycle.store(DROPPED, Ordering::Relaxed);
    }

    /// Marks a live tree as closed with its Db.
    pub fn mark_closed(&self) {
        self.lifecycle.store(CLOSED, Ordering::Relaxed);
    }

    /// Reports whether compactions may run.
    pub fn is_hooked(&self) -> bool {
        self.hooked.load(Ordering::Acquire)
    }

    /// Reports whether its values have deadlines.
    pub fn is_ttl(&self) -> bool {
        self.is_ttl
    }

    /// Sets the options with their hooks; `hooked` means that no hook is missing. The caller holds
    /// the locks of the tree's files and of the log.
    ///
    /// # Errors
    /// Those of iterating over the memtables, which are not known to fail.
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
    /// Updates which blob files are due for garbage collection, by the options in `state`.
    pub fn update_gc_files(&self, state: &TreeState) {
        let values = LiveBlobs::of(state);
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

/// Builds the runs of a tree from its state and its open files. Reuses the runs of `before` that
/// have not changed.
///
/// # Errors
/// `Corruption` if a live table has no handle. Only a bug can cause this, and reads would miss the
/// entries of that table.
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
    let values = LiveBlobs::of(state);
    let mut version = TreeVersion { values, ..TreeVersion::default() };
    for r in &state.runs {
        // Both lists have the same order.
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

/// Returns the shape of a run for compaction policies, without busy tables.
fn run_shape(r: &RunState) -> RunShape {
    let tables = r.tables.iter().map(|t| t.shape()).collect();
    RunShape { level: r.level, number: r.number, tables }
}
