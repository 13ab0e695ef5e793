//! The inside of an open Db, shared by its handles, its trees and its workers.
//!
//! In which order its locks may be taken says [`rank`](crate::base::rank).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::horizon::Horizon;
use crate::base::identity::{LogWriter, TableIdentity, writer_of};
use crate::base::key::Seq;
use crate::base::ops::TreeId;
use crate::base::options::DbOptions;
use crate::base::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, RwLock, rank};
use crate::cache::Cache;
use crate::env::{Env, FileLock, Thread};
use crate::manifest::{CleanEnd, Edit, LiveFiles, Manifest, ManifestState, manifest_name};
use crate::memtable::ArenaPool;
use crate::merge::gaps::GapsRoom;
use crate::merge::run::TableOpener;
use crate::wal::{RecoveredLog, Syncer, TornTail, Wal};

use super::budget::Share;
use super::close::closed;
use super::events::Events;
use super::meters::Meters;
use super::pace::WritePace;
use super::pins::Pins;
use super::snapshot::Snapshots;
use super::stats::Counters;
use super::throttle::Throttle;
use super::trees::OpenTrees;
use super::write::{WriteState, Writing};

/// The inside of an open Db.
pub struct Core {
    /// The door to the world.
    pub env: Arc<dyn Env>,
    /// The directory.
    pub dir: PathBuf,
    /// The store's id, which no edit changes: here without the catalogue's lock, which is held over
    /// syncs.
    pub store: u64,
    /// As given at open.
    pub options: DbOptions,
    /// Opens tables.
    pub opener: Arc<TableOpener>,
    /// Decoded blocks.
    pub cache: Arc<Cache>,
    /// Memory of memtables.
    pub arenas: Arc<ArenaPool>,
    /// How many memtables of a tree may wait for their flush before its writers wait too.
    pub max_sealed: usize,
    /// The log and the sequence numbers.
    pub write: Mutex<WriteState, rank::Write>,
    /// Group commit; not there before the Db begins to write.
    pub syncer: OnceLock<Arc<Syncer>>,
    /// The newest sequence number that may be read.
    pub visible: Horizon,
    /// The manifest and what it says; `None` for a Db opened read-only.
    pub catalog: Mutex<TreeCatalog, rank::Catalog>,
    /// The trees.
    pub trees: RwLock<OpenTrees, rank::Trees>,
    /// Live snapshots.
    pub snapshots: Snapshots,
    /// Counters.
    pub counters: Counters,
    /// Latencies, and what holds space.
    pub watch: WatchedFile,
    /// The event log.
    pub events: Events,
    /// Back-pressure.
    pub pace: WritePace,
    /// How much compactions may do.
    pub throttle: Throttle,
    /// What it may have of the memory, and holds.
    pub memory: Arc<Share>,
    /// Work that waits for a worker.
    pub work: Arc<PendingWork>,
    /// The first failure after which nothing may be written.
    pub latched: Mutex<Option<Error>, rank::Latched>,
    /// Whether `latched` is set.
    pub is_latched: AtomicBool,
    /// The end of the log that opening found, unless it was a clean one.
    pub torn: OnceLock<TornTail>,
    /// Keeps other processes out.
    pub lock: Mutex<Option<Box<dyn FileLock>>, rank::Directory>,
}

/// What looks on: where operations are timed, and what holds space.
#[derive(Clone)]
pub struct WatchedFile {
    /// Histograms of latencies.
    pub meters: Arc<Meters>,
    /// Who holds space.
    pub pins: Arc<Pins>,
    /// What trees know of where nothing is.
    pub gaps: Arc<GapsRoom>,
}

/// The manifest with the state that it holds.
pub struct TreeCatalog {
    /// What is live.
    pub state: LiveFiles,
    /// The file; `None` when the Db was opened read-only, and as long as it has not begun to write.
    pub manifest: Option<Manifest>,
    /// The number of the manifest in use.
    pub manifest_number: u64,
    /// Where opening found that it can be gone on with, until that has been tried.
    pub clean_end: Option<CleanEnd>,
    /// The log is being replayed: edits change the state only, and the manifest that the opening
    /// then begins has them.
    pub is_replaying: bool,
}

/// Signals between writers and workers.
#[derive(Default)]
pub struct PendingWork {
    /// Bumped whenever there may be something to do.
    pub generation: Mutex<u64, rank::Generation>,
    /// Background work that could not be done for want of space or other resources, and will be
    /// tried again.
    pub put_off: Mutex<PutOff>,
    /// Which workers there are, a bit for each.
    pub present: AtomicU64,
    /// Their threads, and of those that have left.
    pub threads: Mutex<Vec<Option<Box<dyn Thread>>>, rank::Threads>,
    /// What workers are started with.
    pub me: Arc<OnceLock<Weak<Core>>>,
    /// Wakes workers.
    pub wake: Condvar,
    /// Wakes writers that wait for room, and callers that wait for flushes and compactions.
    pub done: Condvar,
    /// Set when the Db closes.
    pub closing: AtomicBool,
    /// Set when it is closed.
    pub closed: AtomicBool,
    /// How many passes are out (`close`).
    pub passes: AtomicU64,
    /// How many compactions run now.
    pub compacting: AtomicU64,
    /// Trees that have sealed memtables, or had some.
    pub sealed: Mutex<BTreeSet<TreeId>, rank::Sealed>,
    /// Trees whose policies may want something.
    pub changed: Mutex<Changed>,
    /// Trees with more runs than their policies' soft limits, with their pressures.
    pub pressed: Mutex<BTreeMap<TreeId, f64>, rank::Pressed>,
}

/// Which trees to ask for compactions.
#[derive(Default)]
pub struct Changed {
    /// Those whose tables or options have changed, or where a job has ended, since they wanted
    /// nothing.
    pub trees: BTreeSet<TreeId>,
    /// When all were asked, for what comes of age: the wall clock in seconds.
    pub asked: u64,
}

/// What could not be done for now, for those who wait for it.
#[derive(Default)]
pub struct PutOff {
    times: u64,
    /// The last error.
    cause: Option<Error>,
}

impl PendingWork {
    /// Tells the workers that there may be something to do.
    pub fn signal(&self) {
        *self.generation.lock() += 1;
        self.wake.notify_all();
    }
}

impl PutOff {
    /// Takes note of an error. Whether it is another one than the last time.
    pub fn note(&mut self, e: &Error) -> bool {
        let other = self.cause.as_ref().is_none_or(|c| c.to_string() != e.to_string());
        self.times += 1;
        self.cause = Some(e.clone());
        other
    }

    /// How often something could not be done, to be handed to [`check`](PutOff::check).
    pub fn times(&self) -> u64 {
        self.times
    }

    /// The last error, if there has been one since.
    pub fn check(&self, since: u64) -> Result<()> {
        match &self.cause {
            Some(e) if self.times > since => Err(e.clone()),
            _ => Ok(()),
        }
    }
}

impl Core {
    /// An error when the Db takes no writes.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        if self.is_latched.load(Ordering::Relaxed) {
            return Err(self.why_latched());
        }
        Ok(())
    }

    /// An error in a child process made by `fork()`: the store is its parent's. Asked before locks
    /// are taken, which a thread of the parent may have held.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.env.is_forked() { Err(forked()) } else { Ok(()) }
    }

    #[cold]
    pub fn why_latched(&self) -> Error {
        match &*self.latched.lock() {
            _ if self.is_closed() => closed(),
            Some(e) if e.kind() == ErrorKind::ReadOnly => e.clone(),
            Some(e) => Error::new(
                ErrorKind::ReadOnly,
                format!("the store has been read-only since a failure: {e}"),
            ),
            None => Error::new(
                ErrorKind::ReadOnly,
                "the store was opened read-only; open it for writing",
            ),
        }
    }

    /// Makes the Db read-only because of `e`, and gives back what to tell the caller. The first
    /// cause is kept.
    pub fn latch(&self, e: Error) -> Error {
        let mut l = self.latched.lock();
        if l.is_none() {
            self.events.note(|| Event::Latched { error: e.clone() });
            *l = Some(e.clone());
            self.is_latched.store(true, Ordering::Relaxed);
        }
        drop(l);
        self.work.done.notify_all();
        // Want of space that latches is no want that passes: whoever hears of it must not take the
        // call for one that did nothing.
        if e.is_transient() { self.why_latched() } else { e }
    }

    /// Makes the Db read-only from the start.
    pub fn latch_read_only(&self) {
        *self.latched.lock() = Some(Error::new(
            ErrorKind::ReadOnly,
            "the store was opened read-only; open it for writing",
        ));
        self.is_latched.store(true, Ordering::Relaxed);
    }

    /// A fresh file number. Numbers are handed out in memory; the manifest learns of them with the
    /// next edit.
    pub fn new_file(&self) -> u64 {
        self.catalog.lock().state.take_file()
    }

    /// The identity of a table that this Db is about to write.
    pub fn new_identity(&self) -> TableIdentity {
        TableIdentity { store: self.store, unique: self.env.random() }
    }

    /// Writes edits as one atomic group, with the counters of the moment. On failure nothing has
    /// changed in memory. Where only space or the like was missing, or the manifest would become
    /// too long, nothing counts; otherwise nobody can know what reached the file, and the Db is
    /// latched.
    pub fn log_edits(&self, c: &mut TreeCatalog, edits: Vec<Edit>) -> Result<()> {
        if c.is_replaying {
            return c.state.apply_all(&edits).map(drop);
        }
        self.make_manifest_ready(c)?;
        self.append_edits(c, edits)?;
        if c.manifest.as_ref().is_some_and(Manifest::is_large) {
            // The edits count. What lacks space is tried again with the next ones.
            self.renew_manifest(c).or_else(|e| if e.is_transient() { Ok(()) } else { Err(e) })?;
        }
        Ok(())
    }

    /// The same in the manifest that there is.
    fn append_edits(&self, c: &mut TreeCatalog, mut edits: Vec<Edit>) -> Result<()> {
        let Some(manifest) = &mut c.manifest else {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store was opened read-only; open it for writing",
            ));
        };
        let state = &mut c.state;
        edits.push(Edit::Counters {
            next_file: state.next_file,
            last_seq: self.visible.now(),
            wal_floor: state.wal_floor,
        });
        let undo = state.apply_all(&edits).map_err(|e| self.latch(e))?;
        if let Err(e) = manifest.append(&edits) {
            state.undo(undo);
            let unwritten = manifest.is_torn() || e.kind() == ErrorKind::InvalidArgument;
            return Err(if unwritten { e } else { self.latch(e) });
        }
        Ok(())
    }

    /// Makes sure that the next edits go into the manifest that there is: a new one would be begun
    /// with the state as it is. Whoever changes a part of the state ahead of the edits that belong
    /// to it asks for this first.
    pub fn make_manifest_ready(&self, c: &mut TreeCatalog) -> Result<()> {
        if c.is_replaying {
            return Ok(());
        }
        self.begin_writing(c)?;
        if c.manifest.as_ref().is_some_and(Manifest::is_torn) {
            self.renew_manifest(c)?;
        }
        Ok(())
    }

    /// Begins to write, if that has not been done: a log segment of the Db's own, then the manifest
    /// gets to know its writer: another one is begun, or the one that is there is gone on with
    /// ([`CleanEnd`]). A store that was closed cleanly and has no garbage is opened without: until
    /// something is written to it, it stays as it is.
    pub fn begin_writing(&self, c: &mut TreeCatalog) -> Result<()> {
        self.check_process()?;
        self.check_writable()?;
        if c.manifest.is_some() {
            return Ok(());
        }
        let found = self.write.lock().found.clone();
        let Some(found) = found else { return Err(closed()) };
        // The log first: a Db has one from its first manifest on, so that a log that is missing
        // later is known to be lost.
        let mut wal =
            Wal::create(self.env.clone(), &self.dir, self.store, &found, self.options.wal_segment)
                .map_err(|e| if e.is_transient() { e } else { self.latch(e) })?;
        let me = self.work.me.clone();
        wal.call_when_it_grows(Box::new(move || {
            if let Some(core) = me.get().and_then(Weak::upgrade) {
                core.call_workers();
            }
        }));
        // Where this fails the segment has no record, and another try takes its place.
        self.name_writer(
            c,
            Edit::LogWriters { writers: writers_from_now_on(&c.state, &found, &wal) },
        )?;
        let _ = self.syncer.set(wal.syncer());
        let mut w = self.write.lock();
        w.found = None;
        w.wal = Some(wal);
        Ok(())
    }

    /// Makes the log's writers durable.
    fn name_writer(&self, c: &mut TreeCatalog, edit: Edit) -> Result<()> {
        let end = c.clean_end.take();
        if let Some(left) =
            end.and_then(|end| Manifest::go_on(&*self.env, &self.dir, c.manifest_number, end))
        {
            c.manifest = Some(left);
            // What may be behind its end now nothing is written behind: the next try begins another
            // manifest.
            return self.append_edits(c, vec![edit]).inspect_err(|_| c.manifest = None);
        }
        let undo = c.state.apply_all(&[edit]).map_err(|e| self.latch(e))?;
        let renewed = self.renew_manifest(c);
        if renewed.is_err() {
            c.state.undo(undo);
        }
        renewed
    }

    /// Begins to write for a writer, who holds the write lock; it is given up meanwhile, so callers
    /// look again at everything.
    #[cold]
    pub fn begin_log<'a>(&'a self, w: Writing<'a>) -> Result<Writing<'a>> {
        drop(w);
        self.begin_writing(&mut self.catalog.lock())?;
        self.shorten_inherited_log()?;
        Ok(self.write.lock())
    }

    /// Replaces the manifest by one that holds only the present state.
    pub fn renew_manifest(&self, c: &mut TreeCatalog) -> Result<()> {
        let number = c.manifest_number + 1;
        let fresh = Manifest::prepare(&*self.env, &self.dir, number, &c.state);
        let fresh = fresh.map_err(|e| if e.is_transient() { e } else { self.latch(e) })?;
        let fresh = fresh.make_current(&*self.env, &self.dir).map_err(|e| self.latch(e))?;
        let old = self.dir.join(manifest_name(c.manifest_number));
        c.manifest = Some(fresh);
        c.manifest_number = number;
        // What cannot be removed now is collected at the next open.
        let _ = self.env.remove(&old);
        Ok(())
    }

    /// Says that a tree's policy may want something.
    pub fn look_at(&self, tree: TreeId) {
        self.work.changed.lock().trees.insert(tree);
    }

    /// Tells the workers that there may be something to do.
    pub fn signal_work(&self) {
        self.work.signal();
        self.call_workers_to_flush();
    }

    /// Tells those who wait that something has been done.
    pub fn signal_done(&self) {
        let _g = self.work.generation.lock();
        self.work.done.notify_all();
    }

    /// The newest sequence number that may be read.
    #[inline]
    pub fn read_point(&self) -> Seq {
        self.visible.now()
    }
}

/// The writers of the segments that are there, the new one with them.
fn writers_from_now_on(state: &ManifestState, log: &RecoveredLog, wal: &Wal) -> Vec<LogWriter> {
    let mut writers: Vec<LogWriter> = vec![];
    for s in &log.segments {
        writers.extend(writer_of(&state.writers, s.number).filter(|w| writers.last() != Some(w)));
    }
    writers.push(wal.writer());
    writers
}

#[cold]
fn forked() -> Error {
    let words = "this process was made by fork(), and the store belongs to the one that opened it; open stores after the fork";
    Error::new(ErrorKind::ReadOnly, words)
}
