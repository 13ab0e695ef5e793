//! Pins, which hold space: readers of states that are no longer current, and long work in progress.
//!
//! Invariants:
//! - Opening an iterator registers nothing. A tree's view is noted here when it is *replaced*,
//!   weakly; one that is still alive later is held by somebody, and its age is the time since then.
//! - A table file is noted when it has left the manifest, weakly too. So the sum of those still
//!   alive counts each file once, however many hold it.
//! - Long work (a compaction, a checkpoint, …) is a [`PinnedTask`] here for as long as it lives,
//!   with the files that it is writing.
//!
//! Not seen here: a [`Value`](crate::Value) of an uncompressed table read through a map keeps that
//! file's blocks on the device even when the file is gone; and a checkpoint that is done shares its
//! files with the Db by hard links.

use std::sync::{Arc, OnceLock, Weak};

use crate::base::ops::TreeId;
use crate::env::Env;
use crate::iterator::table_handle::TableHandle;
use crate::util::epoch;
use crate::util::sorted_map::SortedMap;
use crate::util::sync::{AtomicU64, Mutex, Ordering};

use crate::db::versions::view::TreeView;

/// How often the epoch is asked to move on before views are counted: what was replaced just now is
/// only garbage then.
const NUDGES: usize = 4;

/// Who holds space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinKind {
    /// A snapshot: old versions are kept for it.
    Snapshot,
    /// Iterators and cursors of one state of a tree.
    Reader,
    /// A flush in progress.
    Flush,
    /// A compaction in progress.
    Compaction,
    /// A checkpoint in progress: no tree flushes meanwhile.
    Checkpoint,
    /// An ingestion in progress.
    Ingest,
    /// An export in progress.
    Export,
    /// A verification in progress.
    Verify,
}

impl PinKind {
    /// A short name for listings.
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

/// Something that holds space.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pin {
    /// What it is.
    pub kind: PinKind,
    /// The name given to the snapshot; of a compaction, the job; of a checkpoint and an export,
    /// where it goes; else empty.
    pub name: String,
    /// The tree; empty when it is all of them.
    pub tree: String,
    /// Wall clock in microseconds since 1970: of a snapshot and of work, when it began; of a
    /// reader, when the state that it reads was replaced by a newer one.
    pub since_micros: u64,
    /// The same as an age in microseconds.
    pub age_micros: u64,
    /// How many hold it: iterators and cursors of one state count together.
    pub holders: usize,
    /// Bytes of table files that have left the manifest and that this keeps, perhaps together with
    /// others. Of a snapshot: what the old versions kept for it may take at most.
    pub bytes: u64,
    /// Bytes of memtables that are in tables already and that this keeps.
    pub memory: u64,
    /// Of work: how many tables it takes.
    pub tables: usize,
    /// Of work: the bytes of these tables.
    pub total: u64,
    /// Of a compaction: how many of these bytes it has passed.
    pub done: u64,
}

/// Bytes of table files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// In the manifest.
    pub live: u64,
    /// Out of the manifest, but somebody still reads them.
    pub pinned: u64,
    /// Being written by flushes, compactions and ingestions, not in the manifest yet.
    pub writing: u64,
}

impl Space {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.live + self.pinned + self.writing
    }
}

struct PastView {
    tree: String,
    view: Weak<TreeView>,
    since_micros: u64,
}

/// Work in progress. It is listed until the last reference goes.
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
    /// What it is.
    pub fn kind(&self) -> PinKind {
        self.kind
    }

    /// Bits of a fingerprint in the filters of the tables that it writes, on average, where the
    /// task knows the run that they are for. `make` is called once.
    pub fn filter_bits(&self, make: impl FnOnce() -> f64) -> f64 {
        *self.filter_bits.get_or_init(make)
    }

    /// Notes a file that the task writes.
    pub fn creates(&self, file: u64) {
        self.created.lock().push(file);
    }

    /// The files that it has written.
    pub fn created(&self) -> Vec<u64> {
        self.created.lock().clone()
    }

    /// Notes that it has passed so many more bytes of its tables.
    pub fn has_passed(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The tree that it works on.
    pub fn tree(&self) -> Option<TreeId> {
        self.tree.as_ref().map(|t| t.0)
    }
}

/// The ledger of a Db.
pub struct Pins {
    env: Arc<dyn Env>,
    views: Mutex<Vec<PastView>>,
    files: Mutex<Vec<(TreeId, Weak<TableHandle>)>>,
    tasks: Mutex<Vec<Weak<PinnedTask>>>,
}

impl Pins {
    /// An empty ledger.
    pub fn new(env: Arc<dyn Env>) -> Arc<Pins> {
        Arc::new(Pins {
            env,
            views: Mutex::default(),
            files: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    /// Notes a view that is being replaced.
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

    /// Notes tables that have left the manifest, and lets their files go when their last reader
    /// does.
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
        // Else the view that named them would keep the files of an idle Db until somebody comes by.
        if any {
            nudge();
        }
    }

    /// Lists work until what is returned is dropped. `tables` are those that it reads.
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

    /// Bytes of tables that have left the manifest and are still there, of each tree that has some.
    pub fn pinned_by_tree(&self) -> SortedMap<TreeId, u64> {
        nudge();
        let files: Vec<_> = self.files.lock().iter().map(|f| (f.0, f.1.clone())).collect();
        let mut pinned = SortedMap::new();
        for (tree, table) in files.iter().filter_map(|(tree, t)| Some((*tree, t.upgrade()?))) {
            *pinned.get_or_default(tree) += table.meta.size;
        }
        pinned
    }

    /// The work in progress.
    pub fn tasks(&self) -> Vec<Arc<PinnedTask>> {
        let tasks: Vec<_> = self.tasks.lock().iter().map(Weak::clone).collect();
        tasks.iter().filter_map(Weak::upgrade).collect()
    }

    /// Work and readers, without snapshots. Readers that hold nothing but what is current anyway
    /// are left out.
    pub fn list(&self) -> Vec<Pin> {
        nudge();
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
            // Not counting the one just taken.
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

/// Lets the epoch move on, as far as nobody is pinned, so that what was replaced goes.
pub fn nudge() {
    (0..NUDGES).for_each(|_| epoch::pin().flush());
}
