//! Lists the pins of disk space and memory: readers of replaced tree views, and long-running tasks.
//!
//! Invariants:
//! - Opening an iterator registers nothing. A tree's view is recorded by a weak reference when it
//!   is *replaced*. If it is still alive later, a reader holds it; its age counts from then.
//! - A table file is recorded by a weak reference when it leaves the manifest. So the sum over
//!   live references counts each file once, regardless of the number of holders.
//! - A long task (a compaction, a checkpoint, …) is listed as a [`PinnedTask`] while it is alive,
//!   with the files that it is writing.
//!
//! Two cases are not listed. A [`Value`](crate::Value) of an uncompressed table that is read by
//! mmap retains that file's blocks on the device after the file is deleted. A finished checkpoint
//! shares its files with the Db by hard links.

use std::sync::{Arc, OnceLock, Weak};

use crate::base::ops::TreeId;
use crate::env::Env;
use crate::iterator::table_handle::TableHandle;
use crate::util::epoch;
use crate::util::sorted_map::SortedMap;
use crate::util::sync::{AtomicU64, Mutex, Ordering};

use crate::db::versions::view::TreeView;

/// Number of attempts to advance the epoch before views are counted. A view that was just replaced
/// becomes garbage only after the epoch has advanced.
const NUDGES: usize = 4;

/// Kind of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinKind {
    /// A snapshot, which retains old versions.
    Snapshot,
    /// Iterators and cursors over one view of a tree.
    Reader,
    /// A flush in progress.
    Flush,
    /// A compaction in progress.
    Compaction,
    /// A checkpoint in progress. No tree flushes meanwhile.
    Checkpoint,
    /// An ingestion in progress.
    Ingest,
    /// An export in progress.
    Export,
    /// A verification in progress.
    Verify,
}

impl PinKind {
    /// Returns a short name for listings.
    pub fn name(self) -> &'static str {
        match self {
            PinKind::Snapshot => "snapshot",
            PinKind::Reader => "reader",
            PinKind::Flush => "flush",
            PinKind::Compaction => "compaction",
            PinKind::Checkpoint => "checkpoint",
            PinKind::Ingest => "ingest",
            PinKind::Export => "export",
            PinKind::Verify => "verify",
        }
    }
}

/// Pin: a snapshot, reader or task that retains space.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pin {
    /// Kind of the pin.
    pub kind: PinKind,
    /// Name of the snapshot, job of the compaction, or target of the checkpoint or export. Empty
    /// for other kinds.
    pub name: String,
    /// Name of the tree. Empty if the pin concerns all trees.
    pub tree: String,
    /// Start of the snapshot or task, in microseconds since 1970 (wall clock). For a reader, the
    /// time when a newer view replaced its view.
    pub since_micros: u64,
    /// Age in microseconds since `since_micros`.
    pub age_micros: u64,
    /// Number of holders. Iterators and cursors over one view are counted in one pin.
    pub holders: usize,
    /// Bytes of obsolete table files that the pin retains, possibly together with other pins. For a
    /// snapshot, an upper bound of the bytes of old versions that it retains.
    pub bytes: u64,
    /// Bytes of flushed memtables that the pin retains.
    pub memory: u64,
    /// Number of input tables of a task.
    pub tables: usize,
    /// Total size of the input tables of a task, in bytes.
    pub total: u64,
    /// Bytes of the input tables that a compaction has processed.
    pub done: u64,
}

/// Disk space of table files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of tables in the manifest.
    pub live: u64,
    /// Bytes of tables that have left the manifest, but still have readers.
    pub pinned: u64,
    /// Bytes that flushes, compactions and ingestions are writing, not in the manifest yet.
    pub writing: u64,
}

impl Space {
    /// Returns the sum of all three.
    pub fn total(&self) -> u64 {
        self.live + self.pinned + self.writing
    }
}

struct PastView {
    tree: String,
    view: Weak<TreeView>,
    since_micros: u64,
}

/// Task in progress. It is listed until its last reference is dropped.
pub struct PinnedTask {
    kind: PinKind,
    tree: Option<(TreeId, String)>,
    name: String,
    since_micros: u64,
    tables: Vec<Arc<TableHandle>>,
    created: Mutex<Vec<u64>>,
    done: AtomicU64,
    filter_bits: OnceLock<f64>,
}

impl PinnedTask {
    /// Returns the kind of the task.
    pub fn kind(&self) -> PinKind {
        self.kind
    }

    /// Returns the average bits per fingerprint in the filters of the tables that the task writes.
    /// `make` computes it once, for a task that knows the run of these tables.
    pub fn filter_bits(&self, make: impl FnOnce() -> f64) -> f64 {
        *self.filter_bits.get_or_init(make)
    }

    /// Records a file that the task writes.
    pub fn creates(&self, file: u64) {
        self.created.lock().push(file);
    }

    /// Returns the files that the task has created.
    pub fn created(&self) -> Vec<u64> {
        self.created.lock().clone()
    }

    /// Adds `bytes` to the processed bytes of the task's input tables.
    pub fn has_passed(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the tree of the task, or `None` if it concerns all trees.
    pub fn tree(&self) -> Option<TreeId> {
        self.tree.as_ref().map(|t| t.0)
    }
}

/// Registry of the pins of a Db.
pub struct Pins {
    env: Arc<dyn Env>,
    views: Mutex<Vec<PastView>>,
    files: Mutex<Vec<(TreeId, Weak<TableHandle>)>>,
    tasks: Mutex<Vec<Weak<PinnedTask>>>,
}

impl Pins {
    /// Creates an empty registry.
    pub fn new(env: Arc<dyn Env>) -> Arc<Pins> {
        Arc::new(Pins {
            env,
            views: Mutex::default(),
            files: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    /// Records a view that is being replaced.
    pub fn replaced(&self, tree: &str, view: &Arc<TreeView>) {
        let past = PastView {
            tree: tree.to_owned(),
            view: Arc::downgrade(view),
            since_micros: self.env.wall_micros(),
        };
        let mut views = self.views.lock();
        views.retain(|v| v.view.strong_count() > 0);
        views.push(past);
    }

    /// Records tables that have left the manifest, and marks them as obsolete. Their files are
    /// deleted when the last reader drops them.
    pub fn retire<'a>(&self, tree: TreeId, tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) {
        let mut files = self.files.lock();
        files.retain(|(_, t)| t.strong_count() > 0);
        let noted = files.len();
        for t in tables {
            t.make_obsolete();
            files.push((tree, Arc::downgrade(t)));
        }
        let any = files.len() > noted;
        drop(files);
        // Otherwise, in an idle Db, the old view would retain the files until the next access.
        if any {
            advance_epoch();
        }
    }

    /// Lists a task until the returned value is dropped. `tables` are its input tables.
    pub fn begin(
        &self,
        kind: PinKind,
        tree: Option<(TreeId, &str)>,
        name: String,
        tables: Vec<Arc<TableHandle>>,
    ) -> Arc<PinnedTask> {
        let tree = tree.map(|(id, name)| (id, name.to_owned()));
        let task = PinnedTask {
            kind,
            tree,
            name,
            since_micros: self.env.wall_micros(),
            tables,
            created: Mutex::default(),
            done: AtomicU64::new(0),
            filter_bits: OnceLock::new(),
        };
        let task = Arc::new(task);
        let mut tasks = self.tasks.lock();
        tasks.retain(|t| t.strong_count() > 0);
        tasks.push(Arc::downgrade(&task));
        task
    }

    /// Returns, for each tree with obsolete tables that still exist, the bytes of these tables.
    pub fn pinned_by_tree(&self) -> SortedMap<TreeId, u64> {
        advance_epoch();
        let files: Vec<_> = self.files.lock().iter().map(|f| (f.0, f.1.clone())).collect();
        let mut pinned = SortedMap::new();
        for (tree, table) in files.iter().filter_map(|(tree, t)| Some((*tree, t.upgrade()?))) {
            *pinned.get_or_default(tree) += table.meta.size;
        }
        pinned
    }

    /// Returns the tasks in progress.
    pub fn tasks(&self) -> Vec<Arc<PinnedTask>> {
        let tasks: Vec<_> = self.tasks.lock().iter().map(Weak::clone).collect();
        tasks.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lists tasks and readers, without snapshots. Omits readers that retain only current data.
    pub fn list(&self) -> Vec<Pin> {
        advance_epoch();
        let now = self.env.wall_micros();
        let pin = |kind, name: &str, tree: &str, since_micros: u64| Pin {
            kind,
            name: name.to_owned(),
            tree: tree.to_owned(),
            since_micros,
            age_micros: now.saturating_sub(since_micros),
            holders: 1,
            bytes: 0,
            memory: 0,
            tables: 0,
            total: 0,
            done: 0,
        };
        let mut pins = vec![];
        for t in self.tasks() {
            let tree = t.tree.as_ref().map_or("", |t| &t.1);
            pins.push(Pin {
                bytes: obsolete(&t.tables),
                tables: t.tables.len(),
                total: t.tables.iter().map(|t| t.meta.size).sum(),
                done: t.done.load(Ordering::Relaxed),
                ..pin(t.kind, &t.name, tree, t.since_micros)
            });
        }
        let past: Vec<_> = self
            .views
            .lock()
            .iter()
            .map(|v| (v.tree.clone(), v.view.clone(), v.since_micros))
            .collect();
        for (tree, view, since) in past {
            let Some(view) = view.upgrade() else { continue };
            // Without the reference just taken.
            let holders = Arc::strong_count(&view).saturating_sub(1);
            let bytes = obsolete(view.version.tables());
            let memory =
                view.memtables().filter(|m| m.is_flushed()).map(|m| m.mem.used() as u64).sum();
            if holders > 0 && bytes + memory > 0 {
                pins.push(Pin { holders, bytes, memory, ..pin(PinKind::Reader, "", &tree, since) });
            }
        }
        pins
    }
}

fn obsolete<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> u64 {
    tables.into_iter().filter(|t| t.is_obsolete()).map(|t| t.meta.size).sum()
}

/// Advances the epoch as far as pinned threads allow, so that replaced views are freed.
pub fn advance_epoch() {
    (0..NUDGES).for_each(|_| epoch::pin().flush());
}
